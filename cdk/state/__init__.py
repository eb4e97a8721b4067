"""State of streams and of runs: positions, partitions, slices, the wire form, state logs and their stores.

Nothing here reads a source or writes a table.
"""
