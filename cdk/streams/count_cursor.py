"""A cursor over whole numbers: ids, versions, offsets, millisecond stamps."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from cdk.base.errors import BadState
from cdk.base.values import Json
from cdk.state.window import Window
from cdk.streams.cursor import Cursor


class CountCursor(Cursor):
    """One open window that starts at the greatest number seen.

    start: the first number of a first read. ordered: the source gives records by ascending number.
    Numbers that arrive as text ("42") count as numbers.
    """

    def __init__(self, field: str, *, start: int = 0, ordered: bool = False) -> None:
        self.field = field
        self.ordered = ordered
        self._start = start

    def windows(
        self,
        after: Json | None,
        now: datetime,  # noqa: ARG002 - a number has no present moment
        *,
        upto: Json | None = None,
        again: bool = True,  # noqa: ARG002
    ) -> Iterator[Window]:
        start = self._start if after is None else _number(after)
        if start is None:
            raise BadState(f"state.{self.field}", after, "a whole number")
        yield Window(max(start, self._start), upto, upto, last=upto is None)

    def greatest(self, values: Sequence[Json]) -> Json | None:
        numbers = [value for value in values if _number(value) is not None]
        return max(numbers, key=lambda value: _number(value) or 0) if numbers else None

    def owns(self, window: Window, value: Json) -> bool:
        number = _number(value)
        return number is None or (number >= window.start and (window.last or number < window.until))

    def repeats(self, value: Json, reached: Json) -> bool:
        number, limit = _number(value), _number(reached)
        return number is not None and limit is not None and number >= limit


def _number(value: Json) -> int | None:
    if type(value) is int:
        return value
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return None
    return int(value) if isinstance(value, float) and value.is_integer() else None
