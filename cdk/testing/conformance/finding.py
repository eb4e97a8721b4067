"""Nonconforming: the error that reports what a connector does wrong and how to correct it."""

from collections.abc import Sequence

from cdk.base.values import JsonValue, to_json
from cdk.base.wording import listed

_SHOWN = 5


class Nonconforming(AssertionError):
    """Raised when a connector does something that no connector may do."""

    def __init__(self, problem: str, *, where: str, expected: str, advice: str) -> None:
        """Build the message from the problem, its place, what was expected and what to do."""
        super().__init__(f"{problem}\n  where:    {where}\n  expected: {expected}\n  do this:  {advice}")


def listed_json(values: Sequence[JsonValue]) -> str:
    """Return the first few values as JSON, and how many more there are."""
    return listed(values, _SHOWN, lambda value: to_json(value).decode()[:200])
