"""Pages that are counted are requested ahead where nothing else is to be read, and nobody notices but the clock."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, count
from typing import Any

import pytest

from cdk import Done, Json, Partition, Record, Slice, Stream
from cdk.base.process.concurrency import Learned
from cdk.base.process.request_lease import RequestLease, RequestsSpent, current_lease, leasing
from cdk.engine.executors import Threads
from cdk.rest import BadRequest, CursorToken, HttpStream, Offset, PageNumber, Paginator, Request, Response
from cdk.streams.page import ReadPage, Token
from cdk.streams.read_slice import read_slice
from tests.declarative.manifests import option, paginator, source
from tests.rest.api import response

SIZE = 2
PAGES = 40
AT_ONCE = 6
EACH = 4
"""Pages that are read for each request that is sent ahead."""


class Pages:
    """An API that answers requests that were sent ahead once as many are there as may be, and at most `together`.

    fails: the page that it refuses. most: how many requests there were at once.
    """

    def __init__(self, together: int = 1, *, fails: int | None = None) -> None:
        self._together, self._fails = together, fails
        self._changed, self._here = threading.Condition(), 0
        self.most, self.requested, self._reader = 0, list[int](), 0

    def send(self, request: Request) -> Response:
        number = _number(request.params)
        with self._changed:
            self._here += 1
            self.most = max(self.most, self._here)
            self.requested.append(number)
            self._changed.notify_all()
            self._reader = self._reader or threading.get_ident()
            own = self._reader == threading.get_ident()
            together = min(self._together, _together(number))
            assert own or self._changed.wait_for(lambda: self.most >= together, timeout=20)
            self._here -= 1
        if number == self._fails:
            return response({"error": "no"}, status=400, request=request)
        ids = range(SIZE * number, SIZE * number + SIZE) if number < PAGES else range(2 * PAGES, 2 * PAGES + 1)
        more = number + 1 if number < PAGES else None
        kind = request.url.rpartition("/")[2]
        data = [{"id": n, "of": kind} for n in ids if number <= PAGES]
        return response({"data": data, "next": more}, request=request)


class Leased(Pages):
    """Counts its requests against the lease, as a transport does."""

    def send(self, request: Request) -> Response:
        current_lease().count()
        return super().send(request)


def _together(number: int) -> int:
    """How many requests are there at once when that of a page is sent, at the soonest."""
    reader = next(n for n in count() if n + (n + 1) // EACH >= number)
    return 1 + (reader + 1) // EACH


def _number(params: Mapping[str, Json]) -> int:
    return int(params["offset"]) // SIZE if "offset" in params else int(params.get("page", 0))


class Items(HttpStream):
    url_base = "https://api.test"
    records_path = ("data",)

    def __init__(self, paginator: Paginator, api: Pages, method: str = "GET", path: str = "items") -> None:
        super().__init__()
        self.paginator, self.transport, self.http_method, self._path = paginator, api, method, path

    def path(self, slice: Slice) -> str:  # noqa: ARG002
        return self._path


def declared(strategy: str, field: str, api: Any) -> Stream:
    counted = {"type": strategy, "page_size": SIZE, "inject_on_first_request": True}
    (stream,) = source(api, paginator=paginator(counted, token=option(field))).streams({})
    return stream


def read(stream: Stream) -> Callable[[Slice], Iterator[ReadPage]]:
    return partial(read_slice, stream)


def pages(stream: Stream, ceiling: int = AT_ONCE, *, count: int = 1, seen: list[Json] | None = None) -> list[ReadPage]:
    """What an executor gives of the stream; the ids go into `seen` as they come."""
    slices = (Slice(Partition({} if count == 1 else {"n": n})) for n in range(count))
    found, ids = [], [] if seen is None else seen
    for _, page in Threads(ceiling, Learned(ceiling))(slices, read(stream)):
        found.append(page)
        ids.extend(record["id"] for record in page.records)
    return found


STREAMS: dict[str, Callable[[Pages], Stream]] = {
    "page numbers": lambda api: Items(PageNumber(start=0, size=SIZE), api),
    "page numbers, any size": lambda api: Items(PageNumber(start=0), api),
    "offsets": lambda api: Items(Offset(SIZE), api),
    "manifest, page numbers": lambda api: declared("PageIncrement", "page", api),
    "manifest, offsets": lambda api: declared("OffsetIncrement", "offset", api),
}


@pytest.fixture(autouse=True)
def _waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process computes nothing, as far as it knows: threads begin."""
    monkeypatch.setattr(time, "process_time", lambda: 0.0)


@pytest.mark.parametrize("kind", STREAMS)
def test_counted_pages_are_requested_ahead_and_come_in_order_with_their_states(kind: str) -> None:
    alone, api, ids = Pages(), Pages(AT_ONCE), list[Json]()
    expected = pages(STREAMS[kind](alone), 1)
    found = pages(STREAMS[kind](api), seen=ids)

    assert [(list(page.records), page.position) for page in found] == [
        (list(page.records), page.position) for page in expected
    ]
    assert len(ids) == len(set(ids)) == SIZE * PAGES + 1
    assert api.most == AT_ONCE
    assert sorted(set(api.requested)) == sorted(api.requested)
    assert len(api.requested) < len(alone.requested) + AT_ONCE


@pytest.mark.parametrize("last", range(1, 30))
def test_at_most_a_quarter_of_the_pages_is_requested_behind_the_last_one(last: int) -> None:
    class Short(Pages):
        def send(self, request: Request) -> Response:
            whole = super().send(request)
            number = _number(request.params)
            return (
                whole if number < last else response({"data": [{"id": 0, "of": ""}][number - last :]}, request=request)
            )

    api = Short()
    pages(Items(PageNumber(start=0, size=SIZE), api), 10)

    assert set(api.requested) >= set(range(last + 1))
    assert len(api.requested) <= (last + 1) * (1 + 1 / EACH)


@pytest.mark.parametrize("kind", STREAMS)
def test_an_error_ends_the_read_where_its_page_is_due_and_one_behind_the_end_nothing(kind: str) -> None:
    ids = list[Json]()
    with pytest.raises(BadRequest):
        pages(STREAMS[kind](Pages(AT_ONCE, fails=9)), seen=ids)
    assert ids == list(range(SIZE * 9))

    last = PAGES + 2 if kind == "page numbers, any size" else PAGES + 1
    assert isinstance(pages(STREAMS[kind](Pages(AT_ONCE, fails=last)))[-1].position, Done)


@pytest.mark.parametrize(("token", "method"), [(CursorToken("next", param="page"), "GET"), (PageNumber(), "POST")])
def test_pages_that_only_the_response_knows_and_requests_that_may_write_are_sent_one_by_one(
    token: Paginator, method: str
) -> None:
    api = Pages()
    pages(Items(token, api, method))

    assert api.requested == list(range(api.requested[0], len(api.requested) + api.requested[0]))
    assert (api.most, api.requested[-1]) in {(1, PAGES), (1, PAGES + 1)}


def test_what_was_requested_ahead_behind_one_end_is_no_page_of_what_is_read_next() -> None:
    assert in_turn(Pages(AT_ONCE)) == [(path, id) for path in ("items", "others") for id in range(SIZE * PAGES + 1)]


def in_turn(api: Pages) -> list[tuple[Json, Json]]:
    """The records of two streams that one thread reads one after the other."""
    streams = [Items(PageNumber(start=0, size=SIZE), api, path=path) for path in ("items", "others")]

    def both(slice: Slice) -> Iterator[ReadPage]:
        return chain.from_iterable(read_slice(stream, slice) for stream in streams)

    read_pages = Threads(AT_ONCE, Learned(AT_ONCE))(iter([Slice()]), both)
    return [(record["of"], record["id"]) for _, page in read_pages for record in page.records]


def test_where_few_requests_may_be_sent_each_is_of_a_page_that_is_read() -> None:
    api, ids = Leased(), list[Json]()
    with leasing(RequestLease(7)), pytest.raises(RequestsSpent):
        pages(Items(PageNumber(start=0, size=SIZE), api), seen=ids)

    assert api.requested == list(range(7))
    assert ids == list(range(7 * SIZE))


def test_no_request_behind_an_end_takes_one_from_what_is_read_next() -> None:
    api = Leased()
    with leasing(RequestLease(2 * (PAGES + 1))):
        records = in_turn(api)

    assert len(records) == 2 * (SIZE * PAGES + 1)
    assert sorted(api.requested) == sorted([*range(PAGES + 1)] * 2)


class Skipping(PageNumber):
    """Reads every other page."""

    def next(self, response: Response, records: Sequence[Record], last: Token | None) -> Token | None:
        token = super().next(response, records, last)
        return token and {**token, "page": int(token["page"]) + 1}


def test_who_counts_otherwise_than_expected_is_soon_read_page_by_page() -> None:
    api, ids = Pages(), list[Json]()
    pages(Items(Skipping(start=0, size=SIZE), api), seen=ids)

    assert ids == [id for n in range(0, PAGES, 2) for id in range(SIZE * n, SIZE * n + SIZE)] + [SIZE * PAGES]
    assert len(api.requested) <= PAGES // 2 + 1 + 3 * AT_ONCE


def test_slices_come_first() -> None:
    api = Pages()
    found = pages(Items(PageNumber(start=0, size=SIZE), api), 3, count=30)

    assert sum(page.position == Done() for page in found) == 30
    assert api.most <= 3
    assert len(api.requested) <= 30 * (PAGES + 1) + 3


def test_who_stops_in_the_middle_leaves_no_thread_and_reads_no_further() -> None:
    before, api = set(threading.enumerate()), Pages(AT_ONCE)
    stream = Items(PageNumber(start=0, size=SIZE), api)
    reading = Threads(AT_ONCE, Learned(AT_ONCE))(iter([Slice()]), read(stream))
    positions = [page.position for _, page in zip(range(8), (page for _, page in reading), strict=False)]
    reading.close()  # type: ignore[attr-defined] # it is a generator

    assert set(threading.enumerate()) <= before
    assert len(positions) == 8
    assert max(api.requested) < 8 + 3 * AT_ONCE
