"""What a source said of itself, so that the next run reads only what is new: the `source:` slots of a state log."""
