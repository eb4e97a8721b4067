"""Manifests drafted from what is known about an API, with a list of everything that was guessed."""
