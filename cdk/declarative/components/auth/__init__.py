"""Authenticators: how requests prove who sends them."""
