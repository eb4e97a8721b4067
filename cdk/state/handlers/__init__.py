"""Handlers that compare a run with the state of earlier ones: remove missing entities, skip windows already read."""
