"""Streams that are data: resources, their placeholders, and the source and streams that are built of them."""
