"""Errors, JSON values, secrets, clocks, YAML with line numbers: what every room needs, and nothing of this field."""
