"""Converts JSON records to Arrow columns: JSON Schema to types, values coerced to these, columns that are widened.

Writes no files.
"""
