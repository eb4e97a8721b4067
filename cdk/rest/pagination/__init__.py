"""Pagination: how to find and request the next page by page numbers, offsets, cursors and links."""
