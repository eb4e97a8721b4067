"""Checkpoint readers: they plan slices, observe the progress of each, and produce the state to save."""
