"""Declared streams: resources as data, their placeholders, and the source and streams that are built from them."""
