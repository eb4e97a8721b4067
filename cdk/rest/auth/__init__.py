"""Ways to say who is asking, one per file."""
