"""A cursor over moments in time, written in any strftime format or as epoch numbers."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from cdk.base.errors import BadState, ConfigError
from cdk.base.times.clock import parse_timestamp, write_timestamp
from cdk.base.times.iso_durations import parse_duration
from cdk.base.values import Json
from cdk.state.window import Window
from cdk.streams.cursor import Cursor
from cdk.streams.order import MomentOrder, json_value

ISO_SECONDS = "%Y-%m-%dT%H:%M:%SZ"

_NEW_YEAR = datetime(2024, 1, 1, tzinfo=UTC)
"""A moment at which years, months, days and hours begin."""


class DatetimeCursor(Cursor):
    """Moments from `start` to now, in windows of `step`.

    field: the record's field.
    start: first moment of a first read: a datetime or a text in one of `formats`; without a zone it is UTC.
    end: last moment; None means the moment the read is planned.
    step: length of a window; None reads everything as one window.
    granularity: the smallest difference the source's filter knows. A window then ends one granule before the next
        starts, as a source with an inclusive upper bound needs it; the last one ends at the upper bound itself.
    lookback: how far before the value reached a new read starts, to find records that became visible late.
        Durations are timedeltas or ISO 8601 texts of one length: P1D, P2W, PT30M.
    formats: how values are written; the first is used for windows, all are tried for reading. strftime patterns, and
        `%s` (epoch seconds), `%ms` (epoch milliseconds), `%s_as_float`, `%epoch_microseconds`. ISO 8601 is always read.
    ordered: the source gives records by ascending value.

    Raises ConfigError: a bound that is no moment, a step or granularity that cannot be, a format that loses the moment.
    Airbyte: DatetimeBasedCursor, with the same windows.
    """

    def __init__(
        self,
        field: str,
        *,
        start: datetime | str,
        end: datetime | str | None = None,
        step: timedelta | str | None = None,
        granularity: timedelta | str | None = None,
        lookback: timedelta | str = timedelta(),
        formats: Sequence[str] = (ISO_SECONDS,),
        ordered: bool = False,
    ) -> None:
        self.field = field
        self.ordered = ordered
        self._formats = tuple(formats)
        self._start = self._bound(start, "start")
        self._end = None if end is None else self._bound(end, "end")
        step = None if step is None else self._length(step, "step")
        granularity = None if granularity is None else self._length(granularity, "granularity")
        self._step, self._granularity, self._lookback = step, granularity, self._length(lookback, "lookback")
        if step is not None and step <= timedelta():
            raise ConfigError(f"cursor {field!r}: step is {step}, expected a positive duration")
        if granularity is not None and step is not None and granularity > step:
            raise ConfigError(
                f"cursor {field!r}: granularity {granularity} is longer than the step {step}, expected at most that"
            )
        if self._moment(self._write(_NEW_YEAR)) != _NEW_YEAR:
            raise ConfigError(
                f"cursor {field!r}: the format {self._formats[0]!r} cannot be read back, expected one first in "
                "`formats` that tells at least the year"
            )
        if step is not None and self._write(_NEW_YEAR + step) == self._write(_NEW_YEAR):
            raise ConfigError(
                f"cursor {field!r}: step {step} is shorter than what {self._formats[0]!r} can write, expected a longer "
                "step or a finer format"
            )
        # Texts of one length in this form sort like the moments they name.
        self._sortable = self._formats[0].startswith("%Y-%m-%d")

    @property
    def order(self) -> MomentOrder:
        return MomentOrder(self._formats)

    def windows(
        self, after: Json | None, now: datetime, *, upto: Json | None = None, again: bool = True
    ) -> Iterator[Window]:
        lower = self._start if after is None else self._moment(after)
        if lower is None:
            raise BadState(f"state.{self.field}", after, self.order.expected)
        lower = max(lower, self._start)
        if after is not None and again:
            lower -= min(self._lookback, lower - self._start)
        upper = now if self._end is None else min(self._end, now)
        if upto is not None:
            upper = self._moment(upto) or upper
        lower, upper = self._as_written(lower), self._as_written(upper)
        if lower == upper and upto is None and again:
            # Nothing but the edge itself can be new.
            yield Window(self._write(lower), self._write(upper), self._write(upper), last=True)
        yield from self._split(lower, upper, last_is_last=upto is None)

    def _split(self, lower: datetime, upper: datetime, *, last_is_last: bool) -> Iterator[Window]:
        write: Callable[[datetime], Json] = self._write
        while lower < upper:
            # The step is compared with what is left, not added first: `upper` may lie at the end of the calendar.
            until = upper if self._step is None or upper - lower <= self._step else lower + self._step
            last = until == upper and last_is_last
            end = until if last or self._granularity is None else max(lower, until - self._granularity)
            yield Window(write(lower), write(end), write(until), last=last)
            lower = until

    def greatest(self, values: Sequence[Json]) -> Json | None:
        if self._all_text_in_order(values) and self._moment(greatest := max(values)) is not None:
            return greatest
        return super().greatest(values)

    def unreadable(self, values: Sequence[Json]) -> Sequence[int]:
        if values and self._all_text_in_order(values) and None not in map(self._moment, (min(values), max(values))):
            return ()
        return super().unreadable(values)

    def owns(self, window: Window, value: Json) -> bool:
        moment = self._moment(value)
        if moment is None:
            return True
        start, until = self._moment(window.start), self._moment(window.until)
        assert start is not None
        return moment >= start and (window.last or until is None or moment < until)

    def owns_all(self, window: Window, values: Sequence[Json]) -> bool:
        if self._all_text_in_order(values):
            ends = min(values), max(values)
            if all(self._moment(value) is not None for value in ends):
                return all(self.owns(window, value) for value in ends)
        return super().owns_all(window, values)

    def repeats(self, value: Json, reached: Json) -> bool:
        if value == reached:
            return True
        moment, limit = self._moment(value), self._moment(reached)
        if moment is None or limit is None:
            return False
        # A window starts at the value as the format can write it, which may be earlier than the record says.
        return self._as_written(limit) - moment <= self._lookback

    def reached(self, window: Window, greatest: Json | None, before: Json | None) -> Json:
        value = super().reached(window, greatest, before)
        moment, planned = self._moment(value), self._moment(window.until)
        # A record dated beyond the moment the read was planned must not carry the cursor there: nothing that comes
        # before its date would ever be read.
        return window.until if moment is not None and planned is not None and moment > planned else value

    def _all_text_in_order(self, values: Sequence[Json]) -> bool:
        """Whether comparing as text is comparing in time: it costs a fiftieth of parsing each value."""
        first = values[0]
        if not self._sortable or type(first) is not str or not first.endswith("Z"):
            return False
        size, between = len(first), first[10:11]
        return all(type(v) is str and len(v) == size and v[-1] == "Z" and v[10] == between for v in values)

    def _moment(self, value: Json) -> datetime | None:
        return parse_timestamp(json_value(value), self._formats)

    def _write(self, moment: datetime) -> Json:
        return write_timestamp(moment, self._formats[0])

    def _as_written(self, moment: datetime) -> datetime:
        """`moment` as precise as the format is, so that no two windows are written alike."""
        # A year before 1000 is written with less than four digits, which nothing reads back.
        return self._moment(self._write(moment)) or moment

    def _length(self, value: timedelta | str, name: str) -> timedelta:
        """A duration. Raises ConfigError: it is none, or has months, which differ in length."""
        duration: object = value
        try:
            duration = parse_duration(value) if isinstance(value, str) else value
        except ValueError:
            duration = None
        if isinstance(duration, timedelta):
            return duration
        raise ConfigError(
            f"cursor {self.field!r}: {name} is {value!r}, expected a timedelta or a text such as P1D, P2W or PT30M"
        )

    def _bound(self, value: datetime | str, name: str) -> datetime:
        moment = value if isinstance(value, datetime) else self._moment(value)
        if moment is None:
            raise ConfigError(
                f"cursor {self.field!r}: {name} is {value!r}, expected a moment written as {' or '.join(self._formats)}"
            )
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
