"""Large maps of texts, of which each version shares all that did not change: in memory, and in files."""
