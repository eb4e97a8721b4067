"""Where the next page is: page numbers, offsets, cursors and links."""
