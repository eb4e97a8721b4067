"""What a run does with the state of the last one: it removes what is missing and skips what was read."""
