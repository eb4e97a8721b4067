"""Where a value stands in a document."""

from collections.abc import Sequence
from typing import TypeAlias

Keys: TypeAlias = tuple[str | int, ...]
"""The names and indexes that lead from the top of a document to a value."""


def dotted(keys: Sequence[str | int]) -> str:
    """A path inside a document as people write it: `streams[2].name`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")
