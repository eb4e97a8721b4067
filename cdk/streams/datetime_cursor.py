"""A cursor over timestamps, written in any strftime format or as epoch numbers."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Literal, TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from cdk.base.errors import BadState, ConfigError
from cdk.base.times.clock import assume_utc, parse_timestamp, write_timestamp
from cdk.base.times.iso_durations import CalendarDuration, Duration, earlier, later, parse_duration
from cdk.state.window import Window
from cdk.streams.cursor import Cursor, Side, side_of
from cdk.streams.order import TimestampOrder, json_value

ISO_SECONDS = "%Y-%m-%dT%H:%M:%SZ"

_NEW_YEAR = datetime(2024, 1, 1, tzinfo=UTC)
"""An example at which a year, a month, a day and an hour start."""


class Clamping(Struct, frozen=True):
    """Aligns windows with days, weeks or months. weekday: the first day of a week, 0 is Monday."""

    target: Literal["DAY", "WEEK", "MONTH"]
    weekday: int = 0

    def floor(self, timestamp: datetime) -> datetime:
        """The start of the period that contains `timestamp`."""
        day = timestamp.replace(hour=0, minute=0, second=0, microsecond=0)
        match self.target:
            case "DAY":
                return day
            case "WEEK":
                return day - timedelta(days=(day.weekday() - self.weekday) % 7)
            case "MONTH":
                return day.replace(day=1)

    def ceil(self, timestamp: datetime) -> datetime:
        """The start of the first period at or after `timestamp`."""
        start = self.floor(timestamp)
        if start == timestamp:
            return timestamp
        return self.floor(start + timedelta(days={"DAY": 1, "WEEK": 7, "MONTH": 31}[self.target]))


class DatetimeCursor(Cursor):
    """The time from `start` to now, in windows of `step`.

    field: the record's field.
    start: the start of a first read: a datetime, a string in one of `formats`, or a function that is called when a read
        needs it; without a time zone it is UTC.
    end: the upper bound of reads, if it lies before the time at which a read is planned; None for that time. A function
        receives that time, and its result counts even if it lies in the future.
    step: the length of a window; None reads everything as one window.
    granularity: the smallest difference that the source's filter distinguishes. A window then ends one granule before
        the next one starts, as a source with an inclusive upper bound requires; the last window ends at the upper
        bound itself.
    lookback: how far before the saved value a new read starts, to catch records that became visible late.
        Durations are timedeltas, ISO 8601 strings of fixed length (P1D, P2W, PT30M), or a `CalendarDuration` of months.
    formats: the formats of values, or the only one. Windows use the first one; parsing tries all, in this order.
        strftime patterns, and `%s` (epoch seconds), `%ms` (epoch milliseconds), `%s_as_float`, `%epoch_microseconds`.
        ISO 8601 always parses.
    ordered: whether the source returns records by ascending value.
    state_format: the format of the strings in windows and states. It is tried first when those are parsed, and last for
        records. None: states keep the value as the record has it.
    by_request: whether a record belongs to the window whose request returned it, whatever its date: the source decides.
        Windows may then be shorter than the format can express.
    rereads_edge: whether a read with nothing to do beyond the saved value has a window of that value alone.
    clamping: the calendar boundaries of windows.

    Raises ConfigError: a bound is not a timestamp, step or granularity are impossible, or the format loses precision.
    Airbyte: DatetimeBasedCursor, with the same windows.
    """

    def __init__(
        self,
        field: str,
        *,
        start: datetime | str | Callable[[], datetime],
        end: datetime | str | Callable[[datetime], datetime] | None = None,
        step: Duration | str | None = None,
        granularity: Duration | str | None = None,
        lookback: Duration | str = timedelta(),
        formats: Sequence[str] | str = (ISO_SECONDS,),
        ordered: bool = False,
        state_format: str | None = None,
        by_request: bool = False,
        rereads_edge: bool = True,
        clamping: Clamping | None = None,
    ) -> None:
        self.field, self.ordered, self.by_request = field, ordered, by_request
        formats = (formats,) if isinstance(formats, str) else formats
        self._own_spelling, self._format = state_format is None, state_format or formats[0]
        self._formats = (*formats, *([] if state_format is None else [state_format]))
        # `20261127` is a day as the end of a window, but may be epoch seconds in a record.
        self._state_formats = (*([] if state_format is None else [state_format]), *formats)
        # Strings of equal length in such a format sort in the order of their timestamps.
        self._sortable = formats[0].startswith("%Y-%m-%d") and formats[0] == self._format
        self._start = start if callable(start) else self._bound(start, "start")
        self._end = end if end is None or callable(end) else self._bound(end, "end")
        self.granularity = None if granularity is None else self._length(granularity, "granularity")
        self._step = None if step is None else self._length(step, "step")
        self._lookback = self._length(lookback, "lookback")
        self.lookback = _NEW_YEAR - earlier(_NEW_YEAR, self._lookback)
        self._rereads_edge, self._clamping = rereads_edge, clamping
        self._check()

    def _check(self) -> None:
        step, granularity = self._step, self.granularity
        if step is not None and later(_NEW_YEAR, step) <= _NEW_YEAR:
            raise ConfigError(f"cursor {self.field!r}: step is {step}, expected a positive duration")
        if self.by_request:
            return
        if granularity is not None and step is not None and later(_NEW_YEAR, granularity) > later(_NEW_YEAR, step):
            raise ConfigError(
                f"cursor {self.field!r}: granularity {granularity} is longer than the step {step}, expected at most "
                "that"
            )
        if self.timestamp(self.write(_NEW_YEAR)) != _NEW_YEAR:
            raise ConfigError(
                f"cursor {self.field!r}: the format {self._format!r} cannot be read back, expected the first of "
                "`formats` to contain at least the year"
            )
        if step is not None and self.write(later(_NEW_YEAR, step)) == self.write(_NEW_YEAR):
            raise ConfigError(
                f"cursor {self.field!r}: step {step} is shorter than what {self._format!r} can write, expected a "
                "longer step or a finer format"
            )

    @property
    def order(self) -> TimestampOrder:
        return TimestampOrder(self._formats)

    @property
    def state_order(self) -> TimestampOrder:
        return TimestampOrder(self._state_formats)

    @property
    def start(self) -> str | float:
        """The start of a first read, in the format of windows."""
        return self.write(self._first())

    def timestamp(self, value: object) -> datetime | None:
        if type(value) is str:
            return _parsed(value, self._state_formats)
        return parse_timestamp(json_value(value), self._state_formats)

    def write(self, timestamp: datetime) -> str | float:
        """Format a timestamp for windows, with the precision of the format."""
        value = write_timestamp(timestamp, self._format)
        return value if self._own_spelling else str(value)

    def windows(self, after: object, now: datetime, *, upto: object = None, again: bool = True) -> Iterator[Window]:
        first = self._first()
        lower = first if after is None else self.timestamp(after)
        if lower is None:
            raise BadState(f"state.{self.field}", after, self.order.expected)
        if after is not None and again:
            lower = earlier(lower, self._lookback)
        lower, upper = max(lower, first), self.until(now, upto)
        if self._clamping is not None:
            lower = self._clamping.ceil(lower)
        if not self.by_request:
            # Bounds are rounded to what the format can express: if two windows looked the same, a value would belong
            # to both.
            lower, upper = self._as_written(lower), self._as_written(upper)
        if lower == upper and upto is None and again and self._rereads_edge:
            # Only records with exactly the saved value can be new.
            yield self._window(lower, upper, upper, last=True)
        yield from self._split(lower, upper, last_is_last=upto is None)

    def until(self, now: datetime, upto: object = None) -> datetime:
        """The end of the windows that are planned at `now`. upto: an upper bound that takes precedence."""
        end = (None if upto is None else self.timestamp(upto)) or self._last(now)
        if self._clamping is not None:
            end = self._clamping.floor(end)
            if self.granularity is not None:
                end = earlier(end, self.granularity)
        return end

    def no_later(self, value: object, end: datetime) -> object:
        timestamp = self.timestamp(value)
        return value if timestamp is None or timestamp <= end else self.write(end)

    def _split(self, lower: datetime, upper: datetime, *, last_is_last: bool) -> Iterator[Window]:
        while lower < upper:
            until = upper if self._step is None else later(lower, self._step)
            if self._clamping is not None and until < upper:
                until = self._clamping.ceil(until)
            until = min(until, upper)
            last = until == upper and last_is_last
            end = until if last or self.granularity is None else max(lower, earlier(until, self.granularity))
            yield self._window(lower, end, until, last=last)
            lower = until

    def _window(self, lower: datetime, end: datetime, until: datetime, *, last: bool) -> Window:
        start, after = self.write(lower), self.write(until)
        # A window may be shorter than the format can express; each `until` must still be distinct.
        alike = lower < until and after == start
        return Window(start, self.write(end), until.isoformat() if alike else after, last=last)

    def recut(self) -> "DatetimeCursor | None":
        if not isinstance(self._step, timedelta) or self._clamping is not None:
            return None
        unit = self.granularity if isinstance(self.granularity, timedelta) else timedelta(seconds=1)
        step = max(unit, self._step * 2 // 3 // unit * unit)
        # Windows that the format cannot distinguish would be read twice.
        if step == self._step or self.timestamp(self.write(_NEW_YEAR + step)) != _NEW_YEAR + step:
            return None
        cursor = copy(self)
        cursor._step = step  # noqa: SLF001 - of its own copy
        return cursor

    def halves(self, window: Window, smallest: Duration | None = None) -> tuple[Window, Window] | None:
        start, end, granularity = self.timestamp(window.start), self.timestamp(window.end), self.granularity
        if start is None or end is None or granularity is None:
            return None
        if smallest is not None and end <= later(start, smallest):
            return None
        match granularity:
            case timedelta() if granularity:
                # With an odd number of granules the earlier half gets one less.
                middle = start + granularity * (((end - start) // granularity + 1) // 2)
            case _:
                middle = start + (end - start) / 2
        before = earlier(middle, granularity)
        first, second = self.write(before), self.write(middle)
        if before < start or middle > end or second == window.start:
            return None
        return replace(window, end=first, until=second, last=False), replace(window, start=second)

    def needed_granularity(self, window: Window, value: object) -> timedelta | None:
        granularity = self.granularity
        # A filter by days covers whole days, whatever the time of a record.
        if window.last or not isinstance(granularity, timedelta) or granularity >= timedelta(days=1):
            return None
        at, end, until = self.timestamp(value), self.timestamp(window.end), self.timestamp(window.until)
        # A source that returns records from between the two does not end the window there.
        if at is None or end is None or until is None or end >= until or at > end:
            return None
        rest = (until - at) % granularity
        return next((unit for unit in _UNITS if not rest % unit), None) if rest else None

    def greatest(self, values: Sequence[object]) -> object:
        return self._greatest(values, self.timestamp)

    def greatest_of_records(self, values: Sequence[object]) -> object:
        if len(values) > _FEW:
            values = self.ends(values) or values
        return self._greatest(values, self._timestamp_of_record)

    def _greatest(self, values: Sequence[object], timestamp_of: Callable[[object], datetime | None]) -> object:
        ranked = [(timestamp, at) for at, value in enumerate(values) if (timestamp := timestamp_of(value)) is not None]
        if not ranked:
            return None
        timestamp, at = max(ranked)
        return json_value(values[at]) if self._own_spelling else self.write(timestamp)

    def window_value(self, value: object) -> object:
        return self.back(value, timedelta())

    def ends(self, values: Sequence[object]) -> tuple[object, object] | None:
        if not self._all_text_in_order(values):
            return None
        ends = min(values), max(values)
        return None if None in map(self._timestamp_of_record, ends) else ends

    def sides(self, window: Window, values: Sequence[object]) -> list[Side]:
        timestamp = self.timestamp
        start, end, until = timestamp(window.start), timestamp(window.end), timestamp(window.until)
        # A window that ends now; a format without a time writes that as the midnight before.
        until_now = window.last and self._end is None
        return [
            Side.INSIDE
            if until_now and at and end and at > end == self._as_written(at)
            else side_of(at, start, end, until, last=window.last)
            for at in map(self._timestamp_of_record, values)
        ]

    def plan_end(self, now: datetime) -> object:
        return self.write(self._last(now)) if self._lookback else None

    def back(self, value: object, by: timedelta) -> object:
        timestamp = self.timestamp(value)
        return value if timestamp is None else self.write(earlier(timestamp, by))

    def repeats(self, value: object, reached: object) -> bool:
        if value == reached:
            return True
        timestamp, limit = self._timestamp_of_record(value), self.timestamp(reached)
        if timestamp is None or limit is None:
            return False
        # A window starts at the value as the format can express it, which may be earlier than the record's value.
        return timestamp >= earlier(self._as_written(limit), self._lookback)

    def reached(self, window: Window, greatest: object, before: object) -> object:
        value = super().reached(window, greatest, before)
        if not self.by_request or (timestamp := self.timestamp(value)) is None:
            return value
        # Records that precede the start of all reads do not move the cursor back to their value. A value that an older
        # version saved in another format is written in that of today.
        return self.write(max(timestamp, self._first()))

    def _timestamp_of_record(self, value: object) -> datetime | None:
        if type(value) is str:
            return _parsed(value, self._formats)
        return parse_timestamp(json_value(value), self._formats)

    def _first(self) -> datetime:
        if callable(self._start):
            self._start = self._start()
        return self._start

    def _last(self, now: datetime) -> datetime:
        if callable(self._end):
            return self._end(now)
        return now if self._end is None else min(self._end, now)

    def _all_text_in_order(self, values: Sequence[object]) -> TypeGuard[Sequence[str]]:
        """Whether string order equals time order: comparing strings costs a fiftieth of parsing each value."""
        first = values[0] if values else None
        if not self._sortable or type(first) is not str or not first.endswith("Z"):
            return False
        size = len(first)
        if not _are_texts(values) or set(map(len, values)) != {size}:
            return False
        text = "".join(values)
        return set(text[size - 1 :: size]) == {"Z"} and len(set(text[10::size])) <= 1

    def _as_written(self, timestamp: datetime) -> datetime:
        """`timestamp` with the precision of the format, so that no two windows have the same text."""
        # A year before 1000 is written with less than four digits, which does not parse.
        return self.timestamp(self.write(timestamp)) or timestamp

    def _length(self, value: Duration | str, name: str) -> Duration:
        """Parse a duration. Raises ConfigError: it is not one, or a string of months, which differ in length."""
        match value:
            case timedelta() | CalendarDuration():
                return value
            case str() if (length := _fixed_length(value)) is not None:
                return length
            case _:
                raise ConfigError(
                    f"cursor {self.field!r}: {name} is {value!r}, expected a timedelta or a string such as P1D, P2W "
                    "or PT30M"
                )

    def _bound(self, value: datetime | str, name: str) -> datetime:
        match value:
            case datetime():
                timestamp = value
            case _ if (read := self._timestamp_of_record(value)) is not None:
                timestamp = read
            case _:
                formats = " or ".join(self._formats)
                why = f"cursor {self.field!r}: {name} is {value!r}, expected a timestamp written as {formats}"
                raise ConfigError(why)
        return assume_utc(timestamp)


_UNITS = (timedelta(seconds=1), timedelta(milliseconds=1), timedelta(microseconds=1))
"""The granularities below a day that sources have."""

_FEW = 3
"""Up to this many values, parsing each is as fast as checking how they are written."""


def _are_texts(values: Sequence[object]) -> TypeGuard[Sequence[str]]:
    return set(map(type, values)) == {str}


def _fixed_length(text: str) -> timedelta | None:
    """The duration that a string names, if its length is fixed; None otherwise."""
    try:
        duration = parse_duration(text)
    except ValueError:
        return None
    match duration:
        case timedelta():
            return duration
        case CalendarDuration():
            return None


# Cached: thousands of partitions share the same few window bounds.
_parsed = lru_cache(maxsize=1024)(parse_timestamp)
