"""A cursor over integers: ids, versions, offsets, timestamps in milliseconds."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from cdk.base.errors import BadState
from cdk.state.window import Window
from cdk.streams.cursor import Cursor
from cdk.streams.order import CountOrder

_ORDER = CountOrder()


class CountCursor(Cursor):
    """One window without an end, which starts at the greatest number read so far.

    start: the first number of a first read. ordered: whether the source returns records by ascending number.
    by_request: whether a record belongs to the read that returned it, whatever its number.
    as_numbers: whether states hold numbers; by default they keep the value as the record has it.
    Numbers that arrive as strings ("42") count as numbers.
    """

    open_ended = True

    def __init__(
        self, field: str, *, start: int = 0, ordered: bool = False, by_request: bool = False, as_numbers: bool = False
    ) -> None:
        self.field, self.start = field, start
        self.ordered, self.by_request, self._as_numbers = ordered, by_request, as_numbers

    @property
    def order(self) -> CountOrder:
        return _ORDER

    def windows(
        self,
        after: object,
        now: datetime,  # noqa: ARG002 - integers have no present
        *,
        upto: object = None,
        again: bool = True,  # noqa: ARG002
    ) -> Iterator[Window]:
        start = self.start if after is None else _number(after)
        if start is None:
            raise BadState(f"state.{self.field}", after, self.order.expected)
        yield Window(max(start, self.start), upto, upto, last=upto is None)

    def greatest(self, values: Sequence[object]) -> object:
        value = super().greatest(values)
        return _number(value) if self._as_numbers else value

    def window_value(self, value: object) -> object:
        return _number(value)

    def repeats(self, value: object, reached: object) -> bool:
        number, limit = _number(value), _number(reached)
        return number is not None and limit is not None and number >= limit


def _number(value: object) -> int | None:
    rank = _ORDER.rank(value)
    return rank if isinstance(rank, int) else None
