"""Clocks and durations."""
