"""Manifests drafted from what is known of an API, with a list of all that was guessed."""
