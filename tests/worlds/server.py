"""A server whose records come page by page, and the streams that read it: one of each kind there is."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from itertools import count
from weakref import WeakValueDictionary
from zlib import crc32

from cdk import CountCursor, DatetimeCursor, Item, Json, Page, PagedStream, Partition, Record, Slice
from cdk.base.errors import TransientError
from cdk.base.json_lines import JsonLines

DAY0 = datetime(2024, 1, 1, tzinfo=UTC)
PARTS = 3
MISSING = object()
FORMS: Sequence[Callable[[datetime], str]] = (
    lambda time: f"{time:%Y-%m-%dT%H:%M:%S}Z",
    lambda time: f"{time:%Y-%m-%dT%H:%M:%S}.000Z",
    lambda time: f"{time.astimezone(timezone(timedelta(hours=9))):%Y-%m-%dT%H:%M:%S}+09:00",
)
"""How a time may be written."""


_RUNNING: WeakValueDictionary[int, "Server"] = WeakValueDictionary()
_ADDRESSES = count()


@dataclass(eq=False)
class Server:
    """Records in the order in which they were put, oldest first.

    Each has a serial number `n`, an `id` unless that is missing, a time `at`, a version `v`, which grows with `n`, and
    a `part`, which is always the same for one id.

    page_size: records of a page. as_text: pages are JSON text, where JSON can spell them. at: what happens at a
    request, by its number, counted from now. requests: how many there were. gone: serial numbers of records that the
    server gives no more.
    """

    records: list[Record] = field(default_factory=list)
    page_size: int = 3
    as_text: bool = False
    at: dict[int, Callable[[], None]] = field(default_factory=dict)
    requests: int = 0
    gone: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._last = DAY0
        self._address = next(_ADDRESSES)
        _RUNNING[self._address] = self

    def __reduce__(self) -> tuple[Callable[[int], "Server"], tuple[int]]:
        """What travels to a task of this process is the address."""
        return running, (self._address,)

    def fail(self) -> None:
        """Answer a request by an error. Raises TransientError."""
        raise TransientError("the server is down")

    def put(self, id: Json, fields: Mapping[str, Json], hours: int = 1, form: int = 0) -> None:
        """Add a record, `hours` later than the last one. form: how its time and version are written."""
        n = len(self.records)
        self._last = (self._last if self.records else DAY0) + timedelta(hours=hours)
        at = FORMS[form](self._last)
        record = {
            **fields,
            "n": n,
            "at": at,
            "v": f"{n + 7}" if form else n + 7,
            "part": 0 if id is MISSING else crc32(f"{id}".encode()) % PARTS,
        }
        self.records.append(record if id is MISSING else {**record, "id": id})

    @property
    def present(self) -> Sequence[Record]:
        """The records that it gives."""
        return [record for record in self.records if record["n"] not in self.gone]

    @property
    def last(self) -> datetime:
        """The time of the last record."""
        return self._last if self.records else DAY0

    def page(self, records: Sequence[Record], token: Mapping[str, Json] | None) -> Page:
        """A page of some of the records. Raises what happens at this request."""
        self.requests += 1
        due, self.at = self.at.get(0), {n - 1: work for n, work in self.at.items() if n}
        if due is not None:
            due()
        begin = token["offset"] if token else 0
        end = begin + self.page_size
        page = records[begin:end]
        return Page(_text(page) if self.as_text else page, {"offset": end} if end < len(records) else None)


def _text(records: Sequence[Record]) -> Sequence[Record]:
    """A page as a decoder cuts it out of a body; what JSON cannot spell stays as it is."""
    try:
        lines = "\n".join(json.dumps(record, ensure_ascii=False, allow_nan=False) for record in records).encode()
    except (TypeError, ValueError):
        return records
    return JsonLines(lines, len(records)) if records else records


def running(address: int) -> Server:
    """The server at an address."""
    return _RUNNING[address]


class _Read(PagedStream):
    """A stream of the server's records. now: the day after the last record, so that runs do not depend on the clock."""

    primary_key = "id"

    def __init__(self, server: Server, schema: Mapping[str, Json]) -> None:
        super().__init__()
        self.name, self.server, self.schema = "things", server, schema

    def now(self) -> datetime:
        return self.server.last + timedelta(days=1)

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

    cursor = CountCursor("v")

    def chosen(self, slice: Slice) -> Sequence[Record]:
        assert slice.window is not None
        return [record for record in self.server.present if int(record["v"]) >= int(slice.window.start)]


class Ordered(Counted):
    """Incremental by number; a cut read resumes at the number reached."""

    cursor = CountCursor("v", ordered=True)

    def read_records(self, slice: Slice) -> Iterator[Item]:
        records, token = self.chosen(slice), None
        while True:
            page = self.server.page(records, token)
            yield Page(page.records, {})
            if (token := page.next) is None:
                return


class Dated(_Read):
    """Incremental by time, in windows of a day whose edges touch."""

    cursor = DatetimeCursor("at", start=DAY0, step=timedelta(days=1))

    def chosen(self, slice: Slice) -> Sequence[Record]:
        assert slice.window is not None
        low, high = (datetime.fromisoformat(bound) for bound in (slice.window.start, slice.window.end))
        return [r for r in self.server.present if low <= datetime.fromisoformat(r["at"]) <= high]


class DatedParts(Dated, Divided):
    """Incremental by time in each partition."""

    def chosen(self, slice: Slice) -> Sequence[Record]:
        return [record for record in Dated.chosen(self, slice) if record["part"] == slice.partition["part"]]


WHOLE: Sequence[type[_Read]] = (Whole, Unresumable, Divided)
INCREMENTAL: Sequence[type[_Read]] = (Counted, Ordered, Dated, DatedParts)
