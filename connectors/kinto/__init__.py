"""Kinto: a server that stores JSON and returns what changed since a timestamp (https://docs.kinto-storage.org/)."""

from connectors.kinto.source import Kinto

__all__ = ["Kinto"]
