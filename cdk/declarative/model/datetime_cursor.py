"""The cursors of manifests: those of the kit, with the windows and the spellings that existing connectors rely on."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from cdk.base.errors import BadState, ManifestError
from cdk.base.times.clock import parse_timestamp, write_timestamp
from cdk.base.values import Json
from cdk.declarative.model.durations import Duration, earlier, later
from cdk.state.window import Window
from cdk.streams.count_cursor import CountCursor
from cdk.streams.cursor import Cursor
from cdk.streams.order import MomentOrder, json_value

_DAYS = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")


@dataclass(frozen=True, slots=True)
class Clamping:
    """Windows are cut where days, weeks or months begin. weekday: the day on which a week does, 0 is Monday."""

    target: str
    weekday: int = 0

    @classmethod
    def of(cls, blob: Mapping[str, Json] | None, where: str) -> "Clamping | None":
        """What a manifest says. Raises ManifestError: the target, or the weekday of a week, is none."""
        if blob is None:
            return None
        target = str(blob.get("target", "")).upper()
        if target not in ("DAY", "WEEK", "MONTH"):
            raise ManifestError(f"{where}: found the target {target!r}, expected DAY, WEEK or MONTH")
        day = str((blob.get("target_details") or {}).get("weekday", "")).upper()
        if target == "WEEK" and day not in _DAYS:
            raise ManifestError(f"{where}: found the weekday {day!r}, expected one of {', '.join(_DAYS)}")
        return cls(target, _DAYS.index(day) if day in _DAYS else 0)

    def floor(self, moment: datetime) -> datetime:
        """Where the period of `moment` begins."""
        day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        match self.target:
            case "WEEK":
                return day - timedelta(days=(day.weekday() - self.weekday) % 7)
            case "MONTH":
                return day.replace(day=1)
            case _:
                return day

    def ceil(self, moment: datetime) -> datetime:
        """Where the first period at or after `moment` begins."""
        start = self.floor(moment)
        if start == moment:
            return moment
        return self.floor(start + timedelta(days={"DAY": 1, "WEEK": 7, "MONTH": 31}[self.target]))


class ManifestCursor(Cursor):
    """Moments from `start` to `end`, in windows of `step`; values are kept as `pattern` writes them.

    formats: how records write the field; tried in order, then `pattern`, then ISO 8601. end: None for the present;
    otherwise it counts even where it lies in the future. strictly: no window that starts where it ends.

    A record belongs to the window whose request brought it, whatever its date says: the source decides.
    Airbyte: DatetimeBasedCursor as a ConcurrentCursor.
    """

    def __init__(
        self,
        field: str,
        *,
        formats: Sequence[str],
        pattern: str,
        start: Callable[[], datetime],
        end: Callable[[], datetime] | None,
        step: Duration | None,
        granularity: Duration | None,
        lookback: Duration,
        strictly: bool,
        clamping: Clamping | None,
    ) -> None:
        self.field = field
        self._pattern, self._formats = pattern, (*formats, pattern)
        self._start_at, self._end_at = start, end
        self._step, self._granularity, self._lookback = step, granularity, lookback
        self._strictly, self._clamping = strictly, clamping
        self._start: datetime | None = None
        # Texts of one length in this form sort like the moments they name.
        self._sortable = formats[0].startswith("%Y-%m-%d") and formats[0] == pattern

    @property
    def order(self) -> MomentOrder:
        return MomentOrder(self._formats)

    @property
    def start(self) -> Json:
        """Where a first read starts, as states write it."""
        return self._write(self._first())

    def windows(
        self, after: Json | None, now: datetime, *, upto: Json | None = None, again: bool = True
    ) -> Iterator[Window]:
        first = self._first()
        lower = first if after is None else self._moment(after)
        if lower is None:
            raise BadState(f"state.{self.field}", after, self.order.expected)
        if after is not None and again:
            lower = earlier(lower, self._lookback)
        lower = max(lower, first)
        upper = now if self._end_at is None else self._end_at()
        if upto is not None:
            upper = self._moment(upto) or upper
        if self._clamping is not None:
            lower, upper = self._clamping.ceil(lower), self._clamping.floor(upper)
            if self._granularity is not None:
                upper = earlier(upper, self._granularity)
        if lower == upper and again and self._granularity is not None and not self._strictly:
            yield self._window(lower, upper, upper, last=upto is None)
        yield from self._split(lower, upper, last_is_last=upto is None)

    def _split(self, lower: datetime, upper: datetime, *, last_is_last: bool) -> Iterator[Window]:
        while lower < upper:
            until = upper if self._step is None else later(lower, self._step)
            if self._clamping is not None and until < upper:
                until = self._clamping.ceil(until)
            until = min(until, upper)
            last = until == upper and last_is_last
            end = until if last or self._granularity is None else max(lower, earlier(until, self._granularity))
            yield self._window(lower, end, until, last=last)
            lower = until

    def _window(self, lower: datetime, end: datetime, until: datetime, *, last: bool) -> Window:
        start, after = self._write(lower), self._write(until)
        # The last window may be shorter than what the format can write; each `until` is told apart all the same.
        return Window(start, self._write(end), until.isoformat() if after == start else after, last=last)

    def greatest(self, values: Sequence[Json]) -> Json | None:
        if self._all_text_in_order(values) and self._moment(greatest := max(values)) is not None:
            return greatest
        moments = [moment for value in values if (moment := self._moment(value)) is not None]
        return self._write(max(moments)) if moments else None

    def unreadable(self, values: Sequence[Json]) -> Sequence[int]:
        if values and self._all_text_in_order(values) and None not in map(self._moment, (min(values), max(values))):
            return ()
        return super().unreadable(values)

    def owns(self, window: Window, value: Json) -> bool:  # noqa: ARG002 - the source decides
        return True

    def owns_all(self, window: Window, values: Sequence[Json]) -> bool:  # noqa: ARG002
        return True

    def wants(self, window: Window, value: Json) -> bool:
        """Whether a value lies in a window, for sources that do not filter; one that cannot be read does."""
        moment = self._moment(value)
        if moment is None:
            return True
        start, end = self._moment(window.start), self._moment(window.until if not window.last else window.end)
        assert start is not None
        assert end is not None
        return start <= moment and (moment <= end if window.last else moment < end)

    def repeats(self, value: Json, reached: Json) -> bool:
        if value == reached:
            return True
        moment, limit = self._moment(value), self._moment(reached)
        if moment is None or limit is None:
            return False
        return moment >= earlier(self._moment(self._write(limit)) or limit, self._lookback)

    def reached(self, window: Window, greatest: Json | None, before: Json | None) -> Json:
        value = super().reached(window, greatest, before)
        moment, planned = self._moment(value), self._moment(window.until)
        if moment is not None and moment < self._first():
            # Records from before the start of all reads do not move the cursor there.
            return self.start
        if moment is None or planned is None or moment <= planned:
            return value
        if window.last:
            # A record dated beyond the moment the read was planned must not carry the cursor there: nothing that comes
            # before its date would ever be read.
            return self._write(planned)
        # Nor may one dated beyond its window: the windows that it jumps over are still to be read.
        known = None if before is None else self._moment(before)
        return self._write(planned) if known is None or known < planned else before

    def moment(self, value: Json) -> datetime | None:
        """The moment that a value of records or states names; None when it names none."""
        return self._moment(value)

    def back(self, value: Json, by: timedelta) -> Json:
        """The value that lies `by` before another; one that cannot be read stays as it is."""
        moment = self._moment(value)
        return value if moment is None else self._write(earlier(moment, by))

    def _first(self) -> datetime:
        if self._start is None:
            self._start = self._start_at()
        return self._start

    def _all_text_in_order(self, values: Sequence[Json]) -> bool:
        """Whether comparing as text is comparing in time: it costs a fiftieth of parsing each value."""
        first = values[0] if values else None
        if not self._sortable or type(first) is not str or not first.endswith("Z"):
            return False
        size, between = len(first), first[10:11]
        if set(map(type, values)) != {str} or set(map(len, values)) != {size}:
            return False
        if {value[-1] + value[10:11] for value in values} != {f"Z{between}"}:
            return False
        return self._write_text(first) == first

    def _write_text(self, text: str) -> str | None:
        moment = self._moment(text)
        return None if moment is None else self._write(moment)

    def _moment(self, value: Json) -> datetime | None:
        return (
            _parsed(value, self._formats) if type(value) is str else parse_timestamp(json_value(value), self._formats)
        )

    def _write(self, moment: datetime) -> str:
        # Epoch numbers, too, are texts in the states and requests of existing connectors.
        return str(write_timestamp(moment, self._pattern))


# The same few moments, where windows begin and end, come again with each of thousands of partitions.
_parsed = lru_cache(maxsize=1024)(parse_timestamp)


class ManifestCountCursor(CountCursor):
    """Numbers that grow; a record belongs to the read that brought it, and values are kept as numbers."""

    @property
    def start(self) -> Json:
        """Where a first read starts."""
        return self._start

    def greatest(self, values: Sequence[Json]) -> Json | None:
        value = super().greatest(values)
        return None if value is None else self.order.rank(value)

    def owns(self, window: Window, value: Json) -> bool:  # noqa: ARG002
        return True

    def owns_all(self, window: Window, values: Sequence[Json]) -> bool:  # noqa: ARG002
        return True

    def wants(self, window: Window, value: Json) -> bool:
        """Whether a value lies in a window."""
        return bool(super().owns(window, value))
