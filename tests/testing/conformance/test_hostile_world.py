from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import ClassVar

import pytest
from hypothesis import settings

from cdk import CdkError, Checkpoint, CountCursor, Cursor, DatetimeCursor, Item, Json, Page, Record, Slice, Source
from cdk.base.values import to_json
from cdk.rest import Headers, HttpStream, PageNumber, Request, Response
from cdk.testing import HostileWorld, MockApi, Nonconforming
from cdk.testing.conformance.hostile_world import Round
from cdk.testing.run import Connector


class Posts(HttpStream):
    """Pages of any size, each of which says whether it is the last."""

    name = "posts"
    url_base = "https://api.world.test"
    primary_key = "id"
    paginator = PageNumber(more=["more"])
    records_path = ("posts",)
    cursor = DatetimeCursor("written_at", start="2024-01-01T00:00:00Z")

    def path(self, slice: Slice) -> str:  # noqa: ARG002 - all are at one path
        return "/posts"

    def params(self, slice: Slice) -> Mapping[str, Json]:
        return {"since": slice.window and slice.window.start}


class Swallowing(Posts):
    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        try:
            return super().read_page(slice, token)
        except CdkError:
            return Page([], None)


class Exclusive(Posts):
    """Leaves out what has the value that was reached, and so ties."""

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        page = super().read_page(slice, token)
        since = slice.window and slice.window.start
        return Page([record for record in page.records if record["written_at"] > since], page.next)


class Pages(Posts):
    cursor: Cursor | None = None  # type: ignore[assignment] # its states are its own


class LookingBack(Posts):
    """Reads the last hours again, in which rows may come late, a few hours at a time."""

    cursor = DatetimeCursor("written_at", start="2024-02-29T18:00:00Z", step="PT3H", lookback="PT5H")


class Numbered(Posts):
    """The same by their numbers, in the parameter of the times."""

    cursor: Cursor | None = CountCursor("id")  # type: ignore[assignment] # it is of another kind

    def params(self, slice: Slice) -> Mapping[str, Json]:
        return {"from": slice.window and slice.window.start}


class Stepwise(Pages):
    """Its states are its own, and none comes behind the last rows: the next read begins anew."""

    supports_checkpointing = True
    cursor_field = "written_at"

    def read_records(self, slice: Slice) -> Iterator[Item]:
        number = (slice.start.cursor or {}).get("page", 1)
        while True:
            page = self.read_page(slice, {"page": number})
            if page.next is None:
                yield Checkpoint({"page": 1})
                yield from page.records
                return
            yield from page.records
            number += 1
            yield Checkpoint({"page": number})


class Hasty(Pages):
    """Its state stands at the end of a page before the page has come."""

    supports_checkpointing = True
    cursor_field = "written_at"

    def read_records(self, slice: Slice) -> Iterator[Item]:
        number = (slice.start.cursor or {}).get("page", 1)
        while True:
            yield Checkpoint({"page": number + 1})
            page = self.read_page(slice, {"page": number})
            if not page.records:
                return
            yield from page.records
            number += 1


class ReadingOn(Posts):
    """Asks for the page after a short one, before which rows may have come meanwhile."""

    paginator = PageNumber()


class Appending(Pages):
    """Goes on at the page where it stopped, as if rows kept their places."""

    supports_checkpointing = True
    cursor_field = "written_at"

    def read_records(self, slice: Slice) -> Iterator[Item]:
        page = Page([], {"page": (slice.start.cursor or {}).get("page", 1)})
        while page.next is not None:
            number = page.next["page"]
            page = self.read_page(slice, page.next)
            yield from page.records
            yield Checkpoint({"page": number})


class Punctual(Pages):
    """Takes the time of the read for that of the last row."""

    supports_checkpointing = True
    cursor_field = "written_at"

    def params(self, slice: Slice) -> Mapping[str, Json]:
        return {"since": (slice.start.cursor or {}).get("written_at", "")}

    def read_records(self, slice: Slice) -> Iterator[Item]:
        page = self.read_page(slice, None)
        yield from page.records
        yield Checkpoint({"written_at": f"{self.now():%Y-%m-%dT%H:%M:%SZ}"})


class UpToNow(Punctual):
    """Asks for what came since the last read, up to the clock, as an API has it whose windows leave out their end."""

    def params(self, slice: Slice) -> Mapping[str, Json]:
        return {**super().params(slice), "until": f"{self.now():%Y-%m-%dT%H:%M:%SZ}"}


class Twice(UpToNow):
    """Leaves out the beginning of windows, too."""

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        page, since = super().read_page(slice, token), self.params(slice)["since"]
        return Page([record for record in page.records if record["written_at"] > since], page.next)


class Forgetting(Posts):
    """Reads one page and takes it for all."""

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        return Page(super().read_page(slice, token).records, None)


def blog(stream: type[Posts]) -> Source:
    source = Source()
    stream.name = Posts.name
    source.stream_classes = (stream,)
    return source


class World(HostileWorld):
    source: ClassVar[Connector] = blog(Posts)
    stream = "posts"

    def row(self, number: int, timestamp: datetime) -> Record:
        return {"id": number, "written_at": timestamp.strftime("%Y-%m-%dT%H:%M:%SZ")}

    def api(self, rows: Sequence[Record], page_size: int) -> MockApi:
        api = MockApi()
        api.get("/posts").serves(rows, size=page_size, at="posts", more="more", since=("since", "written_at"))
        return api


class TestGoodPosts(World):
    examples = 8


class TestGoodLatePosts(World):
    source: ClassVar[Connector] = blog(LookingBack)
    examples = 6
    late = 5


class TestGoodNumberedPosts(World):
    source: ClassVar[Connector] = blog(Numbered)
    examples = 6

    def api(self, rows: Sequence[Record], page_size: int) -> MockApi:
        api = MockApi()
        api.get("/posts").serves(rows, size=page_size, at="posts", more="more", since=("from", "id"))
        return api


class TestGoodStepwisePosts(World):
    source: ClassVar[Connector] = blog(Stepwise)
    examples = 6


@pytest.mark.parametrize(
    ("broken", "rounds"),
    [
        (Swallowing, [Round([0], fails_after=0)]),
        (Exclusive, [Round([0]), Round([0])]),
        (Hasty, [Round([0], fails_after=0), Round([])]),
        (ReadingOn, [Round([0]), Round([0, 0, 0, 1], meanwhile=2), Round([])]),
        (Appending, [Round([0, 0, 0, 0, 0]), Round([0], order=1)]),
        (Punctual, [Round([0], skew=3), Round([2])]),
    ],
)
def test_a_row_that_is_lost_in_some_world_is_noticed(broken: type[Posts], rounds: Sequence[Round]) -> None:
    class Bad(World):
        source: ClassVar[Connector] = blog(broken)

    World().play(rounds, 4)
    with pytest.raises(Nonconforming, match="rows are lost when read"):
        Bad().play(rounds, 4)


class HalfOpenWorld(World):
    """Its windows leave out their end."""

    def api(self, rows: Sequence[Record], page_size: int) -> MockApi:  # noqa: ARG002 - all come at once
        def answer(request: Request) -> Response:
            since, until = (str(request.params.get(name, "")) for name in ("since", "until"))
            posts = [row for row in rows if since <= row["written_at"] < until]
            return Response(200, Headers(), to_json({"posts": posts, "more": False}), request.full_url, request)

        api = MockApi()
        api.get("/posts").answers(answer)
        return api


class Windowed(Posts):
    """Asks for a week at a time."""

    cursor = DatetimeCursor("written_at", start="2024-01-01T00:00:00Z", step="P7D")

    def params(self, slice: Slice) -> Mapping[str, Json]:
        return {"since": slice.window and slice.window.start, "until": slice.window and slice.window.end}


class TestGoodHalfOpenWindows(HalfOpenWorld):
    source: ClassVar[Connector] = blog(Windowed)
    examples = 8


def test_a_row_at_the_second_where_a_clock_stands_that_is_behind_may_come_with_the_next_read() -> None:
    class Good(HalfOpenWorld):
        source: ClassVar[Connector] = blog(UpToNow)

    class Bad(HalfOpenWorld):
        source: ClassVar[Connector] = blog(Twice)

    rounds = [Round([]), Round([0, 1], skew=-2), Round([])]
    Good().play(rounds, 4)
    with pytest.raises(Nonconforming, match="1 rows are lost when read 3 of 3"):
        Bad().play(rounds, 4)


class Later(Posts):
    cursor = DatetimeCursor("written_at", start="2026-01-01T00:00:00Z", end="2026-02-20T00:00:00Z")

    def params(self, slice: Slice) -> Mapping[str, Json]:
        return {"since": slice.window and slice.window.start, "until": slice.window and slice.window.end}


@pytest.mark.parametrize(
    ("begin", "limit"),
    [
        ("2024-03-01T00:00:00+00:00", "starts at 2026-01-01T00:00:00Z"),
        ("2026-02-20T06:00:00+00:00", "ends at 2026-02-20T00:00:00Z"),
    ],
)
def test_rows_that_lie_where_a_stream_never_reads_are_no_fault_of_it(begin: str, limit: str) -> None:
    class Early(HalfOpenWorld):
        source: ClassVar[Connector] = blog(Later)

    Early.begin = begin
    with pytest.raises(Nonconforming) as raised:
        Early().play([Round([0]), Round([])], 4)
    Early.begin = "2026-01-02T00:00:00+00:00"
    Early().play([Round([0]), Round([])], 4)

    lines = str(raised.value).splitlines()
    assert lines[0].startswith("1 rows of this world lie where the stream never reads: ")
    assert lines[1].endswith(f"posts, whose cursor {limit}")
    assert "set `begin` of the world" in lines[3]


def test_rows_that_come_late_are_lost_where_the_stream_does_not_look_back() -> None:
    rounds = [Round([0, 2, 2]), Round([-4])]

    TestGoodLatePosts().play(rounds, 4)
    with pytest.raises(Nonconforming, match="1 rows are lost when read 2 of 2"):
        World().play(rounds, 4)


def test_a_resumed_read_looks_back_from_where_the_interrupted_one_began() -> None:
    # What comes late lies in a window that the first read had closed, and the second one reads on for hours.
    TestGoodLatePosts().play([Round([0, 0], fails_after=3), Round([1, -5, 2, 2, 2])], 1)


def test_no_world_has_three_pages_in_a_row_that_are_the_same() -> None:
    World().play([Round([0], twice=True), Round([], twice=True), Round([], twice=True)], 1)


def test_the_worlds_are_looked_for() -> None:
    class Bad(World):
        source: ClassVar[Connector] = blog(Forgetting)

    # To look for the smallest world takes seconds.
    settings.load_profile("unshrunk")
    try:
        with pytest.raises(Nonconforming, match="rows are lost when read"):
            Bad().test_no_row_is_lost_in_any_world()
    finally:
        settings.load_profile("untimed")


def test_a_read_that_fails_in_a_world_without_faults_is_noticed() -> None:
    class Refusing(Posts):
        def path(self, slice: Slice) -> str:  # noqa: ARG002 - it has none
            raise CdkError("no")

    class Bad(World):
        source: ClassVar[Connector] = blog(Refusing)

    with pytest.raises(Nonconforming, match="read 1 of 1 fails, although the API does not: no"):
        Bad().play([Round([0])], 1)
