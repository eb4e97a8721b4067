"""What people do with the state in tables: list, show, reset, rewind, roll back, verify, collect garbage.

Nothing here reads a source.
"""
