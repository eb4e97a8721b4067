"""Operations on the state of tables: list, show, reset, rewind, roll back, verify, collect garbage.

Nothing here reads a source.
"""
