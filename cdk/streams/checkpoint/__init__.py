"""Checkpoint readers: they plan slices, learn how far each got, and say what to remember."""
