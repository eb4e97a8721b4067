"""Authors who fill one object again and again: what was yielded before stays as it was."""

from collections import OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from cdk import Checkpoint, Item, Page, PagedStream, Partition, Record, Slice, StateMixin, Stream
from cdk.rest import HttpStream, Response
from cdk.state.position import Position
from cdk.streams.page import Token
from cdk.streams.read_slice import read_slice
from cdk.testing import MockApi
from tests.samples import PAGE

COUNT = 4 * PAGE


class Checkpoints(Stream):
    supports_checkpointing = True

    def read_records(self, slice: Slice) -> Iterator[Item]:
        at = (slice.start.cursor or {"at": {"next": 0}})["at"]
        while at["next"] < COUNT:
            yield {"id": at["next"]}
            at["next"] += 1
            if at["next"] % PAGE == 0:
                yield Checkpoint({"at": at})


class Tokens(Stream):
    supports_checkpointing = True

    def read_records(self, slice: Slice) -> Iterator[Item]:
        token = slice.start.cursor or {"at": {"next": 0}}
        while (first := token["at"]["next"]) < COUNT:
            token["at"]["next"] += PAGE
            yield Page([{"id": n} for n in range(first, first + PAGE)], token if first + PAGE < COUNT else None)


class Pages(PagedStream):
    def read_page(self, _: Slice, token: Token | None) -> Page:
        following = dict(token or {"at": {"next": 0}})
        first = following["at"]["next"]
        following["at"]["next"] += PAGE
        return Page([{"id": n} for n in range(first, first + PAGE)], following if first + PAGE < COUNT else None)


class States(StateMixin):
    def read_records(self, _: Slice) -> Iterator[Item]:
        at = self.state.get("at") or {"next": 0}
        while at["next"] < COUNT:
            yield {"id": at["next"]}
            at["next"] += 1
            if at["next"] % PAGE == 0:
                self.state = {"at": at}


@pytest.mark.parametrize("stream", [Checkpoints(), Tokens(), Pages(), States()], ids=lambda stream: stream.name)
def test_a_position_stays_what_it_was_when_it_was_yielded(stream: Stream) -> None:
    read, positions = 0, list[tuple[int, Position]]()
    for page in read_slice(stream, Slice()):
        read += len(page.records)
        if page.position is not None and not page.position.done:
            positions.append((read, page.position))

    assert [(n, position.cursor) for n, position in positions] == [(n, {"at": {"next": n}}) for n, _ in positions]
    assert len(positions) >= COUNT // PAGE - 1
    for n, position in positions:
        assert sum(len(page.records) for page in read_slice(stream, Slice(start=position))) == COUNT - n
        assert position.cursor == {"at": {"next": n}}


class Reused(Stream):
    def read_records(self, _: Slice) -> Iterator[Item]:
        record, tags = {"id": 0, "place": {"row": 0}, "tags": list[int]()}, list[int]()
        for n in range(3):
            tags.append(n)
            record |= {"id": n, "tags": tags}
            record["place"] |= {"row": n}  # type: ignore[operator] # it is a dict
            yield record


class Lists(Stream):
    def __init__(self, kind: Callable[[], Any]) -> None:
        self._kind = kind

    def read_records(self, _: Slice) -> Iterator[Item]:
        rows = self._kind()
        for n in range(3):
            rows.append({"id": n})
            yield Page(rows, None)
            rows.clear()


class Generated(PagedStream):
    def read_page(self, slice: Slice, token: Token | None) -> Page:  # noqa: ARG002
        return Page(self.rows(), None)  # type: ignore[arg-type] # as an author writes it who declares no types

    def rows(self) -> Iterator[Record]:
        row = dict[str, Any]()
        for n in range(3):
            row["id"] = n
            yield row


class Parsed(HttpStream):
    """Has one set of query parameters for all of its requests."""

    url_base = "https://api.test"
    query: Mapping[str, Any] = {"limit": [100]}

    def path(self, slice: Slice) -> str:  # noqa: ARG002
        return "/rows"

    def params(self, slice: Slice) -> Mapping[str, Any]:
        self.query["part"] = slice.partition.get("part", 0)  # type: ignore[index] # it is a dict
        return self.query

    def parse(self, _: Response, __: Slice) -> Iterator[Record]:  # type: ignore[override] # as it is written
        return Generated().rows()


class Read(Stream):
    def __init__(self, records: Callable[[Slice], Iterator[Record]]) -> None:
        self._records = records

    def read_records(self, slice: Slice) -> Iterator[Record]:
        return self._records(slice)


@pytest.mark.parametrize("kind", [Generated, Parsed])
def test_a_page_whose_generator_fills_one_record_has_all_of_them(kind: type[PagedStream]) -> None:
    stream, api = kind(), MockApi()
    api.get("/rows").returns(json={})
    if isinstance(stream, Parsed):
        stream.transport = api

    records = [record for page in read_slice(stream, Slice()) for record in page.records]

    assert records == [{"id": n} for n in range(3)]


def test_a_request_stays_what_it_was_where_its_parameters_are_filled_again() -> None:
    stream = Parsed()
    first, second = (stream.request(Slice(Partition.of(part=part))) for part in (1, 2))

    assert (first.params["part"], second.params["part"]) == (1, 2)


@pytest.mark.parametrize("kind", [list, deque, UserList])
def test_a_page_has_its_records_also_where_the_list_is_filled_again(kind: Callable[[], Any]) -> None:
    assert [page.records for page in read_slice(Lists(kind), Slice())] == [[{"id": n}] for n in range(3)] + [[]]


@pytest.mark.parametrize(
    "inner", [dict, OrderedDict, lambda: defaultdict(int), UserDict], ids=["dict", "ordered", "default", "user"]
)
@pytest.mark.parametrize(
    "outer", [lambda x: x, lambda x: (x,), lambda x: UserList([x])], ids=["plain", "tuple", "list"]
)
def test_objects_of_any_kind_in_records_and_partitions_stay_what_they_were(
    inner: Callable[[], Any], outer: Callable[[Any], Any]
) -> None:
    def records(_: Slice) -> Iterator[Record]:
        filled = inner()
        for n in range(3):
            filled["n"] = n
            yield {"id": n, "place": outer(filled)}

    def partitions() -> Iterator[Partition]:
        for record in records(Slice()):
            yield Partition({"place": record["place"]}, extra={"place": record["place"]})

    (page,) = read_slice(Read(records), Slice())

    assert [record["place"] for record in page.records] == [_plain(outer({"n": n})) for n in range(3)]
    for n, partition in enumerate([*partitions()]):
        assert partition["place"] == partition.extra["place"] == _plain(outer({"n": n}))


def _plain(value: Any) -> Any:
    return value if isinstance(value, dict | tuple) else list(value)


def test_what_is_in_a_record_stays_what_it_was_when_it_was_yielded() -> None:
    (page,) = read_slice(Reused(), Slice())

    assert page.records == [{"id": n, "place": {"row": n}, "tags": list(range(n + 1))} for n in range(3)]
