"""Proving: a connector that is killed loses nothing and repeats nothing."""
