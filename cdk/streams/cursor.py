"""Cursors: pure arithmetic on cursor values. No state inside, no emitting, no I/O."""

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
    """Where a value lies, seen from a window. A value that cannot be read lies inside of every window."""

    BEFORE = "before"
    INSIDE = "inside"
    EDGE = "edge"
    """At `until`, where the next window starts: most sources give such a record with both."""
    AFTER = "after"
    """Behind what the window was planned to read, such as a date in the future."""


def side_of(
    value: _Comparable | None,
    start: _Comparable | None,
    end: _Comparable | None,
    until: _Comparable | None,
    *,
    last: bool,
) -> Side:
    """The side of a value, from that and the bounds of a window; None: it cannot be read, or there is no bound."""
    if value is None or start is None:
        return Side.INSIDE
    if value < start:
        return Side.BEFORE
    if until is None or value < until or (last and value <= (until if end is None else end)):
        return Side.INSIDE
    return Side.EDGE if value == until else Side.AFTER


def owned(window: Window, side: Side) -> bool:
    """Whether a record on this side of `window` belongs to it and not to a neighbour; nothing follows the last one."""
    return side is Side.INSIDE or (window.last and side is not Side.BEFORE)


class Cursor(ABC):
    """How a stream advances: which windows remain, which of two values is greater."""

    field: str
    """The record's field that holds the value."""

    ordered: bool = False
    """The source gives records by ascending value inside a window: one that is cut resumes at the value reached."""

    by_request: bool = False
    """A record belongs to the window whose request brought it, whatever its value, also where no window `owns` it."""

    open_ended: bool = False
    """How far a window goes is known only once it was read."""

    granularity: Duration | None = None
    """The smallest difference that the source's filter knows; None where that is unknown."""

    lookback: timedelta = timedelta()
    """How far before the value reached a read starts; of months, more or less."""

    @abstractmethod
    def windows(self, after: object, now: datetime, *, upto: object = None, again: bool = True) -> Iterator[Window]:
        """Windows still to read, oldest first, leaving no gap.

        after: the value reached, None for a first read. now: the moment this read was planned, its upper bound.
        upto: stop before this value instead; windows then end where another begins.
        again: start before `after` where the cursor looks back; False continues exactly at `after`.

        Raises BadState: `after` is no value of this cursor.
        """

    @property
    @abstractmethod
    def order(self) -> Order:
        """Which of two values of records is greater, and which are none of this cursor's."""

    @property
    def state_order(self) -> Order:
        """The order of the values of states and windows, which the cursor may write otherwise than records are.

        A value has the same rank in both orders, read as what it is.
        """
        return self.order

    def greatest(self, values: Sequence[object]) -> object:
        """The greatest of some values of states and windows; values that are none of this cursor's do not count.

        Of equals the last.
        """
        rank = self.state_order.rank
        ranked = [(order, i) for i, value in enumerate(values) if (order := rank(value)) is not None]
        return json_value(values[max(ranked)[1]]) if ranked else None

    def greatest_of_records(self, values: Sequence[object]) -> object:
        """The greatest of some values of records, as states have it; of equals the last."""
        return self.greatest(values)

    def window_value(self, value: object) -> object:
        """A value of states as windows have it: no later, where these are less precise."""
        return value

    def ends(self, values: Sequence[object]) -> tuple[object, object] | None:  # noqa: ARG002 - for overriding
        """The least and the greatest of values that all are this cursor's; None where it takes a look at each to know.

        These two stand for all where a page is compared with a window.
        """
        return None

    def unreadable(self, values: Sequence[object]) -> Sequence[int]:
        """Where in `values` those lie that are none of this cursor's."""
        if self.ends(values) is not None:
            return ()
        rank = self.order.rank
        return [i for i, value in enumerate(values) if value is None or rank(value) is None]

    def side(self, window: Window, value: object) -> Side:
        """Where a record's value lies, seen from `window`, as `sides` says it."""
        return self.sides(window, (value,))[0]

    def sides(self, window: Window, values: Sequence[object]) -> list[Side]:
        """Where the values of some records lie, seen from `window`.

        What lies AFTER it does not move the cursor: nothing that comes before its date would ever be read.
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
        """Whether a record's value lies before `window`. Unreadable values do not."""
        rank, start = self.order.rank(value), self.state_order.rank(window.start)
        return rank is not None and (start is None or rank < start)  # type: ignore[operator] # one type in an order

    def until(self, now: datetime) -> datetime | None:  # noqa: ARG002 - for overriding
        """Where the windows end that are planned at `now`; None for a cursor that knows no time."""
        return None

    def moment(self, value: object) -> datetime | None:  # noqa: ARG002 - for overriding
        """The moment that a value of states and windows names; None when it names none."""
        return None

    def no_later(self, value: object, end: datetime) -> object:  # noqa: ARG002 - for overriding
        """A value, or `end` in its spelling where the value names a later moment."""
        return value

    def plan_end(self, now: datetime) -> object:  # noqa: ARG002 - for overriding
        """Where the windows end that are planned at `now`, for a cursor that looks back; None for others.

        A plan that is resumed ends there, however late that is, and what is newer takes another one, which looks back:
        a read at `now` can lack only what becomes visible after it, and that is not older than this look goes back.
        """
        return None

    def halves(
        self,
        window: Window,  # noqa: ARG002 - for overriding
        smallest: Duration | None = None,  # noqa: ARG002
    ) -> tuple[Window, Window] | None:
        """A window in two parts; None where it is no longer than `smallest`, or the cursor cuts none."""
        return None

    def needed_granularity(self, window: Window, value: object) -> timedelta | None:  # noqa: ARG002 - for overriding
        """The granularity without which records like one with `value` are missing between a window and the next.

        None: the value fits the one that there is, or nothing lies between the two.
        """
        return None

    def recut(self) -> "Cursor | None":
        """The same cursor with windows that are shorter and cut elsewhere; None where it cuts none, or cannot."""
        return None

    def back(self, value: object, by: timedelta) -> object:  # noqa: ARG002 - for overriding
        """The value that lies `by` before another; the value itself where values are not timestamps."""
        return value

    @abstractmethod
    def repeats(self, value: object, reached: object) -> bool:
        """Whether the next read, having reached `reached` of states, will meet a record with `value` again."""

    def reached(self, window: Window, greatest: object, before: object) -> object:
        """The value to keep once `window` and all before it are closed.

        greatest: the greatest value of any record read that does not lie AFTER its window, None when there was none.
        before: the value kept so far.
        The greatest value of a record, rather than the end of the window: a record that becomes visible late is
        then still found (Airbyte keeps the same).
        """
        if greatest is not None:
            return greatest
        return before if before is not None else window.start
