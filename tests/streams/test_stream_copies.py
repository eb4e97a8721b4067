"""Streams that change themselves while they are read: the slices that are read at once do not see it of each other."""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk import Checkpoint, Item, Json, Page, PagedStream, Partition, Record, Slice, Stream, list_partitions
from cdk.base.process.concurrency import Learned
from cdk.engine.executors import Executor, Threads, serial
from cdk.engine.read import read
from cdk.rest import HttpStream, Response
from cdk.rest.http.authenticator import Authenticator
from cdk.state.stream_state import StreamState
from cdk.streams.stream import StreamCopies
from cdk.testing.mock_api import MockApi

SHOPS = 8
AT_ONCE = 4


class Restless(Stream):
    """Has in its attributes what it reads: the shop, and the page of it. The first shops are read together."""

    supports_checkpointing = True
    shop, page = -1, -1

    def __init__(self, pages: Sequence[int], together: int = 1) -> None:
        super().__init__()
        self.pages, self.together = pages, threading.Barrier(together)

    def partitions(self) -> Iterable[Partition]:
        return list_partitions("shop", range(len(self.pages)))

    def read_records(self, slice: Slice) -> Iterator[Item]:
        self.shop, self.page = slice.partition["shop"], (slice.start.cursor or {"page": 0})["page"]
        if self.shop < self.together.parties:
            self.together.wait(timeout=20)
        while self.page < self.pages[self.shop]:
            yield {"shop": self.shop, "page": self.page, "of": slice.partition["shop"]}
            self.page += 1
            yield Checkpoint({"page": self.page})


def records(stream: Stream, execute: Executor, state: StreamState | None = None) -> list[Record]:
    items = read(stream, state or StreamState(), execute)
    return [record for item in items if not isinstance(item, StreamState) for record in item]


def test_slices_that_are_read_together_have_each_their_own_attributes() -> None:
    found = records(Restless([5] * SHOPS, AT_ONCE), Threads(AT_ONCE, Learned(AT_ONCE)))

    assert Counter((r["shop"], r["page"]) for r in found) == Counter((s, p) for s in range(SHOPS) for p in range(5))
    assert all(r["shop"] == r["of"] for r in found)


@given(pages=st.lists(st.integers(0, 6), min_size=1, max_size=9), cut=st.integers(0, 30), threads=st.integers(1, 5))
def test_a_stream_that_changes_itself_is_read_as_one_after_the_other_also_when_it_resumes(
    pages: list[int], cut: int, threads: int
) -> None:
    reading, found, state = (
        read(Restless(pages), StreamState(), Threads(threads, Learned(threads))),
        list[Record](),
        None,
    )
    covered = list[Record]()
    for item in reading:
        match item:
            case StreamState():
                state, covered = item, list(found)
            case _:
                found += item
        if len(found) > cut and state is not None:
            break
    reading.close()

    rest = records(Restless(pages), Threads(threads, Learned(threads)), state)

    def by_place(some: Iterable[Record]) -> list[tuple[Json, Json]]:
        return sorted((record["shop"], record["page"]) for record in some)

    assert by_place([*covered, *rest]) == by_place(records(Restless(pages), serial))
    assert all(r["shop"] == r["of"] for r in [*found, *rest])


class Remembering(PagedStream):
    """Counts what it has read: the next slice goes on from there."""

    count = 0

    def partitions(self) -> Iterable[Partition]:
        return list_partitions("n", range(5))

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:  # noqa: ARG002
        self.count += 1
        return Page([{"count": self.count}], None)


@pytest.mark.parametrize("execute", [serial, Threads(1)], ids=["serial", "one"])
def test_the_stream_itself_reads_what_is_read_alone(execute: Executor) -> None:
    stream = Remembering()

    assert [r["count"] for r in records(stream, execute)] == [1, 2, 3, 4, 5]
    assert stream.count == 5


class One(Restless):
    """Notes the threads that read it."""

    max_concurrency = 1

    def read_records(self, slice: Slice) -> Iterator[Item]:
        self.threads.add(threading.get_ident())
        yield from super().read_records(slice)

    threads: ClassVar = set[int]()


def test_a_stream_that_says_so_is_read_one_slice_after_the_other() -> None:
    stream = One([3] * SHOPS)

    found = records(stream, Threads(AT_ONCE, Learned(AT_ONCE)))

    assert [r["of"] for r in found] == [shop for shop in range(SHOPS) for _ in range(3)]
    assert One.threads == {threading.get_ident()}


class Shops(HttpStream):
    """Asks for the shop that its path has left in an attribute."""

    url_base = "https://api.test"
    logins = 0

    def __init__(self, api: MockApi) -> None:
        super().__init__()
        self.transport, self.together = api, threading.Barrier(AT_ONCE)

    def partitions(self) -> Iterable[Partition]:
        return list_partitions("shop", range(SHOPS))

    def authenticator(self) -> Authenticator | None:
        type(self).logins += 1
        return None

    def path(self, slice: Slice) -> str:
        self.shop = slice.partition["shop"]
        return f"/shops/{self.shop}"

    def parse(self, response: Response, slice: Slice) -> Sequence[Record]:
        self.together.wait(timeout=20)
        return [{**record, "shop": self.shop} for record in super().parse(response, slice)]


def test_copies_of_an_http_stream_share_their_client_and_ask_for_their_own_slice() -> None:
    api = MockApi()
    for shop in range(SHOPS):
        api.get(f"/shops/{shop}").returns(json=[{"asked": shop}])

    found = records(Shops(api), Threads(AT_ONCE, Learned(AT_ONCE)))

    assert sorted((r["asked"], r["shop"]) for r in found) == [(shop, shop) for shop in range(SHOPS)]
    assert Shops.logins == 1


def test_a_copy_is_made_only_for_what_is_read_beside_others() -> None:
    stream = Restless([1])
    copies = StreamCopies(stream)

    with copies.lent() as first, copies.lent() as second:
        pass
    with copies.lent() as third:
        pass

    assert first is stream
    assert second is not stream
    assert third in {first, second}
