"""Authenticators: who is asking."""
