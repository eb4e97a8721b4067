"""Records of an API as values, and as JSON lines that are not decoded yet."""
