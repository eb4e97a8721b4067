"""The decoders, one format per module. Those of compressed formats (gzip, zip) take a decoder for the content."""
