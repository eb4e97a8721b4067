"""Drafts from the files by which other tools read APIs."""
