"""A server whose records come page by page, and the streams that read it: one of each kind there is."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from itertools import count
from math import floor, inf
from typing import Any
from weakref import WeakValueDictionary
from zlib import crc32

from cdk import CountCursor, Cursor, DatetimeCursor, Item, Json, Page, PagedStream, Partition, Record, Slice
from cdk.base.errors import TransientError
from cdk.base.records.exact_json import WrittenNumber
from cdk.base.records.raw_json_lines import JsonLines
from cdk.rest import Headers, HttpErrorHandler, HttpStream, PageNumber, Request, Response, RetryPolicy

DAY0 = datetime(2024, 1, 1, tzinfo=UTC)
PARTS = 3
LATE = timedelta(days=1)
"""How late the records of `Late` become visible."""
AHEAD, FUTURE = timedelta(days=3), 2
"""How far in the future records of `Unfiltered` may lie, and in which form these are written."""


class _Missing:
    """Stands where a record has no field."""

    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"


MISSING = _Missing()


@dataclass(frozen=True)
class Dialect:
    """How a source writes times. unit: the smallest difference that it writes. read: what a bound of a window means.

    begin: before the first record; soon after it texts of times no longer sort as the times do. states: how windows and
    states are written, where otherwise than records.
    """

    formats: Sequence[str]
    begin: datetime
    unit: timedelta
    forms: Sequence[Callable[[datetime], Json]]
    read: Callable[[Json], datetime]
    states: str | None = None


def _iso(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


def _reads(pattern: str) -> Callable[[Json], datetime]:
    return lambda bound: datetime.strptime(bound, pattern).replace(tzinfo=UTC)


DIALECTS: Mapping[str, Dialect] = {
    "iso": Dialect(
        ("%Y-%m-%dT%H:%M:%SZ",),
        DAY0,
        timedelta(milliseconds=1),
        (
            _iso,
            lambda time: f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03}Z",
            lambda time: time.astimezone(timezone(timedelta(hours=9))).isoformat(),
            lambda time: time.astimezone(timezone(timedelta(hours=-7))).isoformat(),
        ),
        _reads("%Y-%m-%dT%H:%M:%SZ"),
    ),
    "seconds": Dialect(
        ("%s",),
        datetime.fromtimestamp(10**9 - 9 * 3600, UTC),
        timedelta(seconds=1),
        (lambda time: int(time.timestamp()), lambda time: f"{time.timestamp():.0f}"),
        lambda bound: datetime.fromtimestamp(int(bound), UTC),
    ),
    "days": Dialect(
        ("%m/%d/%Y",),
        datetime(2023, 12, 30, tzinfo=UTC),
        timedelta(days=1),
        (lambda time: f"{time:%m/%d/%Y}",),
        _reads("%m/%d/%Y"),
    ),
    "minutes": Dialect(
        ("%d.%m.%Y %H:%M",),
        datetime(2024, 1, 31, 6, tzinfo=UTC),
        timedelta(minutes=1),
        (lambda time: f"{time:%d.%m.%Y %H:%M}", _iso),
        _reads("%d.%m.%Y %H:%M"),
    ),
    "days as seconds": Dialect(
        ("%s",),
        datetime(2001, 9, 8, tzinfo=UTC),
        timedelta(days=1),
        (lambda time: int(time.timestamp()), lambda time: f"{time.timestamp():.0f}"),
        _reads("%Y%m%d"),
        states="%Y%m%d",
    ),
    "milliseconds": Dialect(
        ("%ms",),
        datetime.fromtimestamp(10**9 - 9 * 3600, UTC),
        timedelta(seconds=1),
        (lambda time: int(time.timestamp()) * 1000, lambda time: f"{time.timestamp():.0f}000"),
        _reads("%Y%m%d%H%M%S"),
        states="%Y%m%d%H%M%S",
    ),
}


_RUNNING: WeakValueDictionary[int, "Server"] = WeakValueDictionary()
_ADDRESSES = count()


@dataclass(eq=False)
class Server:
    """Records in the order in which they were put, oldest first.

    Each has a serial number `n`, an `id` unless that is missing, a time `at` and a version `v`, which grow together
    unless a record is put late, and a `part`, which is always the same for one id.

    page_size: records of a page. as_text: pages are JSON text, where JSON can spell them. at: what happens at a
    request, by its number, counted from now. requests: how many there were; most: how many there may be. gone: serial
    numbers of records that the server gives no more. dialect: how times are written. first: the version at the begin of
    times. blanks: bodies have them between their parts. times: of each record; undated: serial numbers of those that
    do not say it. ahead: how far in the future the times of records of form 2 lie; future: serial numbers of those.
    """

    records: list[Record] = field(default_factory=list)
    page_size: int = 3
    as_text: bool = False
    at: dict[int, Callable[[], None]] = field(default_factory=dict)
    requests: int = 0
    most: float = inf
    gone: set[int] = field(default_factory=set)
    dialect: str = "iso"
    first: int = 7
    blanks: bool = False
    times: list[datetime] = field(default_factory=list)
    undated: set[int] = field(default_factory=set)
    ahead: timedelta = timedelta()
    future: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._last = self._floor = DIALECTS[self.dialect].begin
        self._address = next(_ADDRESSES)
        _RUNNING[self._address] = self

    def __reduce__(self) -> tuple[Callable[[int], "Server"], tuple[int]]:
        """What travels to a task of this process is the address."""
        return running, (self._address,)

    def fail(self) -> None:
        """Answer a request by an error. Raises TransientError."""
        raise TransientError("the server is down")

    def put(
        self, id: Json, fields: Mapping[str, Json], hours: float = 1, form: int = 0, cursor: Json = MISSING
    ) -> None:
        """Add a record, `hours` later than the last one, but none older than those that were there at `settle`.

        form: how its time and version are written. cursor: what it has in place of both; None for nothing.
        """
        n, dialect = len(self.records), DIALECTS[self.dialect]
        self._last = max(self._floor, self._last + timedelta(hours=hours))
        time = self._last
        if form == FUTURE and self.ahead:
            self.future.add(n)
            time += self.ahead
        self.times.append(time - (time - DAY0) % dialect.unit)
        record: dict[str, Json] = {**fields, "n": n, "part": 0 if id is MISSING else part_of(id)}
        if cursor is MISSING:
            record["at"] = dialect.forms[form % len(dialect.forms)](self.times[n])
            record["v"] = f"{self.version(n)}" if form else self.version(n)
        else:
            self.undated.add(n)
            if cursor is not None:
                record["at"] = record["v"] = cursor
        self.records.append(record if id is MISSING else {**record, "id": id})

    def settle(self, late: timedelta = timedelta()) -> None:
        """Let no later record be older than those that are there and not in the future, by more than `late`."""
        past = max([self.last, *(time for time in self.times if time <= self.now)])
        self._floor = max(DIALECTS[self.dialect].begin, past - late)
        self._last = max(self._last, self._floor)

    def version(self, n: int) -> int:
        """The version of a record, whether it says it or not."""
        return self.first + floor((self.times[n] - DIALECTS[self.dialect].begin) / timedelta(hours=1))

    @property
    def present(self) -> Sequence[Record]:
        """The records that it gives."""
        return [record for record in self.records if record["n"] not in self.gone]

    @property
    def last(self) -> datetime:
        """The greatest time of a record that does not lie in the future."""
        return max([self._floor, *(time for n, time in enumerate(self.times) if n not in self.future)])

    @property
    def now(self) -> datetime:
        """The day after the last record, so that runs do not depend on the clock."""
        return self.last + timedelta(days=1)

    def arrive(self) -> None:
        """A request has come. Raises what happens at it, and AssertionError where requests do not end."""
        self.requests += 1
        assert self.requests <= self.most, "found a read that does not end"
        due, self.at = self.at.get(0), {n - 1: work for n, work in self.at.items() if n}
        if due is not None:
            due()

    def page(self, records: Sequence[Record], token: Mapping[str, Json] | None) -> Page:
        """A page of some of the records. Raises what happens at this request."""
        self.arrive()
        begin = token["offset"] if token else 0
        end = begin + self.page_size
        page = records[begin:end]
        return Page(_text(page) if self.as_text else page, {"offset": end} if end < len(records) else None)


def part_of(id: Json) -> int:
    """The same for ids that a column may take for one."""
    text = f"{float(id) + 0.0:.17g}" if isinstance(id, int | float) else f"{id}"
    return crc32(text.encode()) % PARTS


def whole(id: Json) -> Json:
    """A number without a fraction as an integer, anything else as it is."""
    if not isinstance(id, float):
        return id
    number = Decimal(f"{id}")
    return int(number) if number == number.to_integral_value() else id


def _text(records: Sequence[Record]) -> Sequence[Record]:
    """A page as a decoder cuts it out of a body; what JSON cannot spell stays as it is."""
    try:
        lines = "\n".join(_spelled(record, ensure_ascii=False, allow_nan=False) for record in records).encode()
    except (TypeError, ValueError):
        return records
    return JsonLines(lines, len(records)) if records else records


def _spelled(value: Json, **options: Any) -> str:
    """JSON with numbers as a source spells them. Raises what `json.dumps` raises."""
    return _QUOTED.sub(r"\1", json.dumps(_quoted(value), **options))


_QUOTED = re.compile('"number ([^"]*)"')


def _quoted(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _quoted(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_quoted(item) for item in value]
    return f"number {value}" if isinstance(value, WrittenNumber) else value


def running(address: int) -> Server:
    """The server at an address."""
    return _RUNNING[address]


class _Read(PagedStream):
    """A stream of the server's records, by the server's clock."""

    primary_key = "id"

    def __init__(self, server: Server, schema: Mapping[str, Json]) -> None:
        super().__init__()
        self.name, self.server, self.schema = "things", server, schema

    def now(self) -> datetime:
        return self.server.now

    def chosen(self, slice: Slice) -> Sequence[Record]:  # noqa: ARG002
        return self.server.present

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        return self.server.page(self.chosen(slice), token)


class Whole(_Read):
    """Full refresh that resumes at its page."""


class Unresumable(_Read):
    """Full refresh that says no position."""

    supports_checkpointing = False

    def read_records(self, slice: Slice) -> Iterator[Item]:
        token: Mapping[str, Json] | None = None
        while True:
            page = self.read_page(slice, token)
            yield from page.records
            if (token := page.next) is None:
                return


class Divided(_Read):
    """Full refresh in partitions."""

    def partitions(self) -> Iterable[Partition]:
        return [Partition.of(part=part) for part in range(PARTS)]

    def chosen(self, slice: Slice) -> Sequence[Record]:
        return [record for record in self.server.present if record["part"] == slice.partition["part"]]


class Counted(_Read):
    """Incremental by number, in pages of one open window."""

    cursor: Cursor = CountCursor("v")

    def chosen(self, slice: Slice) -> Sequence[Record]:
        assert slice.window is not None
        start, server = int(slice.window.start), self.server
        return [r for r in server.present if r["n"] in server.undated or server.version(r["n"]) >= start]


class Ordered(Counted):
    """Incremental by number; a cut read resumes at the number reached."""

    cursor: Cursor = CountCursor("v", ordered=True)

    def chosen(self, slice: Slice) -> Sequence[Record]:
        return sorted(super().chosen(slice), key=lambda record: self.server.version(record["n"]))

    def read_records(self, slice: Slice) -> Iterator[Item]:
        records, token = self.chosen(slice), None
        while True:
            page = self.server.page(records, token)
            yield Page(page.records, {})
            if (token := page.next) is None:
                return


def _cursor(server: Server, **options: Any) -> DatetimeCursor:
    dialect = DIALECTS[server.dialect]
    formats, states = dialect.formats, dialect.states
    return DatetimeCursor("at", start=dialect.begin, formats=formats, state_format=states, **options)


def _days(server: Server, lookback: timedelta = timedelta()) -> DatetimeCursor:
    """The cursor of windows of a day whose edges touch."""
    return _cursor(server, step=timedelta(days=1), lookback=lookback)


def _between(server: Server, records: Sequence[Record], low: Json, high: Json) -> Sequence[Record]:
    """The records that lie between the edges of a window, and those whose time nobody knows."""
    read = DIALECTS[server.dialect].read
    return [r for r in records if r["n"] in server.undated or read(low) <= server.times[r["n"]] <= read(high)]


class Dated(_Read):
    """Incremental by time."""

    def __init__(self, server: Server, schema: Mapping[str, Json]) -> None:
        super().__init__(server, schema)
        self.cursor = _days(server)

    def chosen(self, slice: Slice) -> Sequence[Record]:
        assert slice.window is not None
        return _between(self.server, super().chosen(slice), slice.window.start, slice.window.end)


class OrderedDates(Ordered):
    """Incremental by time; an interrupted read resumes at the time reached, as the server reads it."""

    def __init__(self, server: Server, schema: Mapping[str, Json]) -> None:
        super().__init__(server, schema)
        self.cursor = _cursor(server, ordered=True)

    def chosen(self, slice: Slice) -> Sequence[Record]:
        assert slice.window is not None
        low, server = DIALECTS[self.server.dialect].read(slice.window.start), self.server
        records = [r for r in server.present if r["n"] in server.undated or server.times[r["n"]] >= low]
        return sorted(records, key=lambda record: server.times[record["n"]])


class Late(Dated):
    """Incremental by time; records become visible late. It looks back by that, its clock's lead and a unit of time."""

    def __init__(self, server: Server, schema: Mapping[str, Json]) -> None:
        super().__init__(server, schema)
        self.cursor = _days(server, LATE + 2 * timedelta(days=1))


class Unfiltered(Dated):
    """Incremental by time, of a server that does not look at windows, and has records of the future."""

    def __init__(self, server: Server, schema: Mapping[str, Json]) -> None:
        super().__init__(server, schema)
        server.ahead = AHEAD

    def chosen(self, slice: Slice) -> Sequence[Record]:  # noqa: ARG002
        return self.server.present


class DatedParts(Dated, Divided):
    """Incremental by time in each partition."""


@dataclass
class _Answers:
    """The server's answers over HTTP: bodies of JSON, with pages that are asked for by their number."""

    server: Server

    def send(self, request: Request) -> Response:
        server, params = self.server, request.params
        server.arrive()
        records = server.present
        if "low" in params:
            records = _between(server, records, params["low"], params["high"])
        begin = (params["page"] - 1) * params["size"]
        page = records[begin : begin + params["size"]]
        body = _spelled({"data": page}, separators=(", ", " : ") if server.blanks else (",", ":")).encode()
        return Response(200, Headers({"Content-Type": "application/json"}), body, request.full_url, request)


class Numbered(HttpStream):
    """Full refresh over HTTP, in pages that are asked for by their number."""

    primary_key = "id"
    records_path = ("data",)
    url_base = "https://things.test"
    error_handler = HttpErrorHandler(retry_policy=RetryPolicy(retries=0))

    def __init__(self, server: Server, schema: Mapping[str, Json]) -> None:
        super().__init__()
        self.name, self.server, self.schema, self.transport = "things", server, schema, _Answers(server)
        self.paginator = PageNumber(size=server.page_size, size_param="size")

    def now(self) -> datetime:
        return self.server.last + timedelta(days=1)

    def path(self, slice: Slice) -> str:  # noqa: ARG002
        return "things"


class NumberedDays(Numbered):
    """Incremental by time, each window in pages that are asked for by their number."""

    def __init__(self, server: Server, schema: Mapping[str, Json]) -> None:
        super().__init__(server, schema)
        self.cursor = _days(server)

    def params(self, slice: Slice) -> Mapping[str, Json]:
        assert slice.window is not None
        return {"low": slice.window.start, "high": slice.window.end}


WHOLE: Sequence[type[_Read]] = (Whole, Unresumable, Divided)
INCREMENTAL: Sequence[type[_Read]] = (Counted, Ordered, OrderedDates, Dated, DatedParts, Late, Unfiltered)
NUMBERED: Sequence[type[Numbered]] = (Numbered, NumberedDays)
