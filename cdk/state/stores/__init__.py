"""Stores for state logs: folders, databases, object stores."""
