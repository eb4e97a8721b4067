"""Streams, cursors, partitions and checkpoint readers: what a read covers, in which slices, and where each starts.

Nothing here sends HTTP requests or starts threads: the executor decides where a slice is read.
"""
