"""Streams, cursors, partitions and checkpoint readers: what is read, in which slices, and from where.

No HTTP, and no thread: the executor of a slice decides where.
"""
