"""JSON of other authors: what is not of the expected type counts as missing. For objects there is `as_object`."""

from collections.abc import Sequence

from cdk.base.values import JsonValue


def sequence(value: JsonValue) -> Sequence[JsonValue]:
    """A value that is to be a list; an empty one where it is something else."""
    return value if isinstance(value, list) else []


def string(value: JsonValue) -> str:
    """A value that is to be a string; an empty one where it is something else."""
    return value if isinstance(value, str) else ""
