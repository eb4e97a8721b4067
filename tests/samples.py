"""Streams over made-up data, one of every kind, shared by the tests of streams, engine and Spark."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import orjson

from cdk import (
    Checkpoint,
    CountCursor,
    DatetimeCursor,
    Item,
    Json,
    JsonSchema,
    Page,
    PagedStream,
    ParentState,
    Partition,
    Record,
    ServerError,
    Slice,
    StateMixin,
    Stream,
    StreamState,
    following_partitions,
    parent_partitions,
)

DAY0 = datetime(2024, 1, 1, tzinfo=UTC)
PAGE = 3


def moment(hours: int) -> str:
    return (DAY0 + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")


def pages(records: list[Record], slice: Slice, size: int = PAGE) -> Iterator[Item]:
    """Pages of `records`, from the offset an earlier attempt reached."""
    offset = slice.start.cursor["offset"] if isinstance(slice.start, Checkpoint) else 0
    while True:
        following = offset + size
        yield Page(records[offset:following], {"offset": following} if following < len(records) else None)
        if following >= len(records):
            return
        offset = following


class Fixed(Stream):
    """A stream planned at noon of day 4, whenever the test runs."""

    def now(self) -> datetime:
        return DAY0 + timedelta(days=4, hours=12)


class Plain(Fixed):
    """Full refresh that cannot resume."""

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        yield from ({"id": i} for i in range(7))


class Users(PagedStream):
    """Resumable full refresh."""

    primary_key = "id"

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:  # noqa: ARG002
        n = token["page"] if token else 0
        return Page([{"id": n * 10 + i} for i in range(PAGE)], {"page": n + 1} if n < 4 else None)


class Notes(StateMixin):
    """Resumable full refresh in the manner of `self.state = ...`."""

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        page = self.state.get("page", 0)
        while page is not None:
            for i in range(2):
                yield {"id": page * 10 + i}
            page = page + 1 if page < 3 else None
            self.state = {"page": page} if page is not None else {}


class Comments(PagedStream):
    """A substream without a cursor, resumable by page and parent."""

    def partitions(self) -> Iterable[Partition]:
        return parent_partitions(Users(), user="id")

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        n = token["page"] if token else 0
        rows = [{"user": slice.partition["user"], "id": n * 10 + i} for i in range(2)]
        return Page(rows, {"page": n + 1} if n < 2 else None)


class Orders(Fixed):
    """Incremental, in windows of a day whose edges touch; pages inside a window; the source includes both edges."""

    supports_checkpointing = True
    primary_key = "id"
    cursor = DatetimeCursor("updated_at", start=DAY0, step=timedelta(days=1))
    hours: tuple[int, ...] = (0, 0, 1, 5, 9, 23, 24, 24, 25, 47, 48, 72, 73, 74, 75, 90, 96, 96, 97, 100, 100)

    def rows(self, partition: Partition) -> list[dict[str, Json]]:
        return [{**partition, "id": i, "updated_at": moment(hour)} for i, hour in enumerate(self.hours)]

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.window is not None
        low, high = slice.window.start, slice.window.end
        rows: list[Record] = [r for r in self.rows(slice.partition) if low <= r["updated_at"] <= high]
        yield from pages(rows, slice)


class TypedOrders(Orders):
    """Orders with a schema: their fields become columns."""

    name = "orders"
    schema: JsonSchema | None = {  # noqa: RUF012 - as an author writes it
        "type": "object",
        "properties": {"id": {"type": "integer"}, "updated_at": {"type": "string"}},
    }


class Sparse(Orders):
    """As `Orders`, with days that have no record, and no order inside a window."""

    hours = (90, 1, 89, 1)


class Future(Orders):
    """As `Orders`, from a source that ignores upper bounds: some records are newer than the plan."""

    hours: tuple[int, ...] = (1, 30, 104, 107, 109, 110, 111, 112, 113, 114)

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.window is not None
        rows: list[Record] = [r for r in self.rows(slice.partition) if slice.window.start <= r["updated_at"]]
        yield from pages(rows, slice, 2)


class Late(Orders):
    """As `Orders`, looking back a day and a half at each read, with a granularity."""

    cursor = DatetimeCursor(
        "updated_at", start=DAY0, step=timedelta(days=1), granularity=timedelta(seconds=1), lookback=timedelta(hours=36)
    )


class ShopOrders(Orders):
    """Incremental per partition."""

    shops: tuple[str, ...] = ("a", "b", "c")

    def partitions(self) -> Iterable[Partition]:
        return (Partition.of(shop=shop) for shop in self.shops)


class Events(Fixed):
    """Incremental over a number, in ascending order: a cut window resumes at the number reached."""

    cursor = CountCursor("seq", ordered=True)
    supports_checkpointing = True

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.window is not None
        rows: list[Record] = [{"seq": n // 2, "id": n} for n in range(20) if n // 2 >= slice.window.start]
        for i in range(0, len(rows), PAGE):
            yield Page(rows[i : i + PAGE], {})


class Versions(StateMixin):
    """Incremental with a cursor that the author advances by hand."""

    cursor_field = "version"

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        for version in range(self.state.get("version", 0), 6):
            yield {"version": version}
            self.state = {"version": version + 1}


class Replies(Orders):
    """Incremental per record of an incremental parent, whose progress it follows."""

    parent: ClassVar[Stream] = Sparse()

    def partitions_since(self, parents: Mapping[str, StreamState]) -> Iterable[Partition | ParentState]:
        return following_partitions(self.parent, parents, order="id")


class Broken(Stream):
    """Ends at once, with a secret in its error."""

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        raise ServerError("the source refused the key hunter2")
        yield {}


STREAMS: list[Stream] = [
    Plain(),
    Users(),
    Notes(),
    Comments(),
    Orders(),
    Sparse(),
    Future(),
    Late(),
    ShopOrders(),
    Events(),
    Versions(),
    Replies(),
]


def told(row: Mapping[str, Json], stream: Stream | None = None) -> dict[str, Json]:
    """The record of a table's row: fields that `stream` does not declare lie in columns of their own, as text."""
    declared: Json = {} if stream is None else stream.json_schema().get("properties", {})
    own = {name: value for name, value in row.items() if value is not None and not name.startswith("_airbyte_")}
    return {name: value if name in declared else _value(value) for name, value in own.items()}


def _value(text: Json) -> Json:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
