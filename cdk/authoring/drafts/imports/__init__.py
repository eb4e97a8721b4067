"""Drafts from what other tools read APIs with."""
