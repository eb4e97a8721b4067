"""Records of an API as values, and as JSON lines that nobody has decoded yet."""
