"""Cursors: pure arithmetic on cursor values, without state and without I/O."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import TypeVar

from cdk.base.times.iso_durations import Duration
from cdk.state.window import Window
from cdk.streams.order import Order, json_value

_Comparable = TypeVar("_Comparable", int, bytes, datetime)


class Side(Enum):
    """The position of a value relative to a window. A value that does not parse counts as inside every window."""

    BEFORE = "before"
    INSIDE = "inside"
    EDGE = "edge"
    """Equal to `until`, where the next window starts: most sources return such a record for both windows."""
    AFTER = "after"
    """Beyond the range of the window, such as a date in the future."""


def side_of(
    value: _Comparable | None,
    start: _Comparable | None,
    end: _Comparable | None,
    until: _Comparable | None,
    *,
    last: bool,
) -> Side:
    """The side of a value, given the bounds of a window. None: the value does not parse, or the bound is missing."""
    if value is None or start is None:
        return Side.INSIDE
    if value < start:
        return Side.BEFORE
    if until is None or value < until or (last and value <= (until if end is None else end)):
        return Side.INSIDE
    return Side.EDGE if value == until else Side.AFTER


def owned(window: Window, side: Side) -> bool:
    """Whether a record on this side belongs to `window`, not to a neighbour. The last window also owns what follows."""
    return side is Side.INSIDE or (window.last and side is not Side.BEFORE)


class Cursor(ABC):
    """How a stream advances: which windows remain, which of two values is greater."""

    field: str
    """The field of a record that holds the cursor value."""

    ordered: bool = False
    """Whether records of a window arrive by ascending value, so an interrupted window resumes at the value reached."""

    by_request: bool = False
    """Whether each record belongs to the window whose request returned it, even if no window `owns` its value."""

    open_ended: bool = False
    """Whether the end of a window is known only after reading it."""

    granularity: Duration | None = None
    """The smallest difference that the source's filter distinguishes; None when that is unknown."""

    lookback: timedelta = timedelta()
    """How far before the saved value a read starts; an approximation for months."""

    @abstractmethod
    def windows(self, after: object, now: datetime, *, upto: object = None, again: bool = True) -> Iterator[Window]:
        """The windows still to read, oldest first and without gaps.

        after: the saved value, None for a first read. now: when this read was planned, its upper bound.
        upto: an earlier upper bound, where a window that already exists begins.
        again: whether to start before `after` by the lookback; False continues exactly at `after`.

        Raises BadState: `after` is not a value of this cursor.
        """

    @property
    @abstractmethod
    def order(self) -> Order:
        """The order of the values in records; it also tells which values are not this cursor's."""

    @property
    def state_order(self) -> Order:
        """The order of the values in states and windows, which may be formatted differently from those in records.

        Values that mean the same have the same rank in both orders.
        """
        return self.order

    def greatest(self, values: Sequence[object]) -> object:
        """The greatest of some values of states and windows, the last of equal ones.

        Values that are not this cursor's are ignored; None when none is left.
        """
        rank = self.state_order.rank
        ranked = [(order, i) for i, value in enumerate(values) if (order := rank(value)) is not None]
        return json_value(values[max(ranked)[1]]) if ranked else None

    def greatest_of_records(self, values: Sequence[object]) -> object:
        """The greatest of some values of records, in the format of states; the last of equal ones."""
        return self.greatest(values)

    def window_value(self, value: object) -> object:
        """A value of a state in the format of windows, rounded down when that format is less precise."""
        return value

    def ends(self, values: Sequence[object]) -> tuple[object, object] | None:  # noqa: ARG002 - for overriding
        """The least and the greatest value, if cheap to find and all values are this cursor's; None otherwise.

        The two stand for all values when a page is compared with a window.
        """
        return None

    def unreadable(self, values: Sequence[object]) -> Sequence[int]:
        """The indexes of the values that are not this cursor's."""
        if self.ends(values) is not None:
            return ()
        rank = self.order.rank
        return [i for i, value in enumerate(values) if value is None or rank(value) is None]

    def side(self, window: Window, value: object) -> Side:
        """The side of `window` on which a record's value lies."""
        return self.sides(window, (value,))[0]

    def sides(self, window: Window, values: Sequence[object]) -> list[Side]:
        """The sides of `window` on which the values of some records lie.

        A value AFTER the window does not move the cursor, or records with smaller values would never be read.
        """
        rank, rank_of_record = self.state_order.rank, self.order.rank
        start, end, until = rank(window.start), rank(window.end), rank(window.until)
        return [
            side_of(rank_of_record(value), start, end, until, last=window.last)  # type: ignore[type-var] # one type in an order
            for value in values
        ]

    def owns(self, window: Window, value: object) -> bool:
        """Whether a record with this value belongs to `window`, see `owned`."""
        return owned(window, self.side(window, value))

    def precedes(self, window: Window, value: object) -> bool:
        """Whether a record's value lies before `window`; False for a value that does not parse."""
        rank, start = self.order.rank(value), self.state_order.rank(window.start)
        return rank is not None and (start is None or rank < start)  # type: ignore[operator] # one type in an order

    def until(self, now: datetime) -> datetime | None:  # noqa: ARG002 - for overriding
        """The end of the windows that are planned at `now`; None for a cursor whose values are not times."""
        return None

    def timestamp(self, value: object) -> datetime | None:  # noqa: ARG002 - for overriding
        """The time that a value of a state or window stands for; None if it is not a time."""
        return None

    def no_later(self, value: object, end: datetime) -> object:  # noqa: ARG002 - for overriding
        """The value, or `end` in the value's format if the value is later."""
        return value

    def plan_end(self, now: datetime) -> object:  # noqa: ARG002 - for overriding
        """The end of the windows that are planned at `now`, for a cursor with a lookback; None for others.

        An interrupted plan keeps this end when it is resumed, however late; newer records are left to the next plan,
        which looks back. So a read at `now` can only miss records that become visible later, and the lookback covers
        those.
        """
        return None

    def halves(
        self,
        window: Window,  # noqa: ARG002 - for overriding
        smallest: Duration | None = None,  # noqa: ARG002
    ) -> tuple[Window, Window] | None:
        """Split a window in two; None if it is not longer than `smallest`, or the cursor does not split windows."""
        return None

    def needed_granularity(self, window: Window, value: object) -> timedelta | None:  # noqa: ARG002 - for overriding
        """The granularity that this cursor needs so that a record with `value` does not fall between two windows.

        None: the present granularity fits the value, or there is no gap between the windows.
        """
        return None

    def recut(self) -> "Cursor | None":
        """The same cursor with shorter windows and other boundaries; None if it has none or cannot move them."""
        return None

    def back(self, value: object, by: timedelta) -> object:  # noqa: ARG002 - for overriding
        """The value minus `by`; the value itself if values are not timestamps."""
        return value

    @abstractmethod
    def repeats(self, value: object, reached: object) -> bool:
        """Whether a read that starts from the saved value `reached` gets a record with `value` again."""

    def reached(self, window: Window, greatest: object, before: object) -> object:
        """The value to save once `window` and all windows before it are complete.

        greatest: the greatest value of all records read, except those AFTER their window; None without records.
        before: the value saved so far.
        The greatest value of a record is saved, not the end of the window, so a record that becomes visible late is
        still read (as in Airbyte).
        """
        if greatest is not None:
            return greatest
        return before if before is not None else window.start
