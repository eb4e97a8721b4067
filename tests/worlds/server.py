"""A server whose records come page by page, and the streams that read it: one of each kind there is."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from weakref import WeakValueDictionary

from cdk import CountCursor, DatetimeCursor, Item, Json, Page, PagedStream, Partition, Record, Slice
from cdk.base.errors import TransientError

DAY0 = datetime(2024, 1, 1, tzinfo=UTC)
PARTS = 3


_RUNNING: WeakValueDictionary[int, "Server"] = WeakValueDictionary()
_ADDRESSES = count()


@dataclass(eq=False)
class Server:
    """Records in the order in which they were put, oldest first.

    Each has a serial number `n`, an `id`, a time `at` and a `part`, which is always the same for one id.

    page_size: records of a page. at: what happens at a request, by its number, counted from now.
    """

    records: list[Record] = field(default_factory=list)
    page_size: int = 3
    at: dict[int, Callable[[], None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._address = next(_ADDRESSES)
        _RUNNING[self._address] = self

    def __reduce__(self) -> tuple[Callable[[int], "Server"], tuple[int]]:
        """What travels to a task of this process is the address."""
        return running, (self._address,)

    def fail(self) -> None:
        """Answer a request by an error. Raises TransientError."""
        raise TransientError("the server is down")

    def put(self, id: int, fields: Mapping[str, Json], hours: int = 1) -> None:
        """Add a record, `hours` later than the last one."""
        n = len(self.records)
        before = datetime.fromisoformat(self.records[-1]["at"]) if self.records else DAY0
        at = (before + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.records.append({**fields, "id": id, "n": n, "at": at, "part": id % PARTS})

    def page(self, records: Sequence[Record], token: Mapping[str, Json] | None) -> Page:
        """A page of some of the records. Raises what happens at this request."""
        due, self.at = self.at.get(0), {n - 1: work for n, work in self.at.items() if n}
        if due is not None:
            due()
        begin = token["offset"] if token else 0
        end = begin + self.page_size
        return Page(records[begin:end], {"offset": end} if end < len(records) else None)


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
        last = datetime.fromisoformat(self.server.records[-1]["at"]) if self.server.records else DAY0
        return last + timedelta(days=1)

    def chosen(self, slice: Slice) -> Sequence[Record]:  # noqa: ARG002
        return self.server.records

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
        return [record for record in self.server.records if record["part"] == slice.partition["part"]]


class Counted(_Read):
    """Incremental by number, in pages of one open window."""

    cursor = CountCursor("n")

    def chosen(self, slice: Slice) -> Sequence[Record]:
        assert slice.window is not None
        return [record for record in self.server.records if record["n"] >= slice.window.start]


class Ordered(Counted):
    """Incremental by number; a cut read resumes at the number reached."""

    cursor = CountCursor("n", ordered=True)

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
        return [r for r in self.server.records if slice.window.start <= r["at"] <= slice.window.end]


class DatedParts(Dated, Divided):
    """Incremental by time in each partition."""

    def chosen(self, slice: Slice) -> Sequence[Record]:
        return [record for record in Dated.chosen(self, slice) if record["part"] == slice.partition["part"]]


WHOLE: Sequence[type[_Read]] = (Whole, Unresumable, Divided)
INCREMENTAL: Sequence[type[_Read]] = (Counted, Ordered, Dated, DatedParts)
