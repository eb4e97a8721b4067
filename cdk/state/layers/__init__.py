"""Large maps of strings whose versions share everything that did not change, in memory and in files."""
