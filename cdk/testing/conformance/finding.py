"""Nonconforming: what a connector does wrong, in words that say what to do about it."""

from collections.abc import Sequence

from cdk.base.values import JsonValue, to_json
from cdk.base.wording import listed

_SHOWN = 5


class Nonconforming(AssertionError):
    """A connector does something that no connector may."""

    def __init__(self, problem: str, *, where: str, expected: str, advice: str) -> None:
        """Build the text: what, where, expected, do."""
        super().__init__(f"{problem}\n  where:    {where}\n  expected: {expected}\n  do this:  {advice}")


def listed_json(values: Sequence[JsonValue]) -> str:
    """Some of the values, as JSON, and how many more there are."""
    return listed(values, _SHOWN, lambda value: to_json(value).decode()[:200])
