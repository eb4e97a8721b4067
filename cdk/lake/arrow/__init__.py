"""JSON records become Arrow columns: JSON Schema to types, values coerced to them, columns that widen.

No file is written here.
"""
