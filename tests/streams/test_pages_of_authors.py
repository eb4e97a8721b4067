"""PagedStream whose author advances the cursor: each attempt goes on at its page, with the state of its first."""

from collections import Counter
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cdk import (
    BadState,
    Checkpoint,
    Done,
    Item,
    Json,
    Page,
    PagedStream,
    Partition,
    Position,
    Slice,
    Start,
    StreamState,
)
from cdk.base.errors import StaleToken
from cdk.base.secret_masking import SecretMarks
from cdk.state.position import Paging
from cdk.state.slice import WHOLE
from cdk.state.wire import decode, encode
from cdk.streams.page import Token, records_in
from cdk.streams.read_slice import read_slice

SIZE = 2


class Numbers(PagedStream):
    """Lists the numbers behind its state, ascending or descending; its state is the greatest that it has met."""

    cursor_field = "n"
    primary_key = "n"

    def __init__(self, last: int, *, descends: bool = False, parts: Iterable[Partition] = (WHOLE,)) -> None:
        super().__init__()
        self.last, self._descends, self._parts = last, descends, list(parts)
        self.starts: list[object] = []

    def partitions(self) -> Iterable[Partition]:
        return self._parts

    def read_page(self, slice: Slice, token: Token | None) -> Page:
        self.starts.append(slice.start.cursor)
        numbers = list(range(1 + (slice.start.cursor or {}).get("n", 0), self.last + 1))
        if self._descends:
            numbers.reverse()
        place = (token or {"place": 0})["place"]
        page = numbers[place : place + SIZE]
        if page:
            self.state = {"n": max(self.state.get("n", 0), *page)}
        return Page([{"n": n} for n in page], {"place": place + SIZE} if place + SIZE < len(numbers) else None)


@given(
    st.integers(0, 9),
    st.booleans(),
    st.sampled_from([[WHOLE], [Partition.of(part=1), Partition.of(part=2)]]),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=8),
    st.booleans(),
)
def test_every_record_comes_once_wherever_attempts_end(
    last: int,
    descends: bool,  # noqa: FBT001 - drawn
    parts: list[Partition],
    attempts: list[tuple[int, int]],
    exact: bool,  # noqa: FBT001
) -> None:
    stream, blob = Numbers(last, descends=descends, parts=parts), dict[str, Json]()
    read = Counter[tuple[str, int]]()

    def attempt(pages: int) -> None:
        reader, rows = stream.checkpoint_reader(decode(blob, cursor_field="n")), list[tuple[str, int]]()
        while pages > 0 and (slice := reader.next()) is not None:
            for page in read_slice(stream, slice):
                rows.extend((slice.partition.key, record["n"]) for record in page.records)
                if page.position is not None:
                    reader.observe(slice, page.position)
                    read.update(rows)
                    rows.clear()
                pages -= 1
                if pages <= 0:
                    break
        if (state := reader.get_checkpoint()) is not None:
            blob.clear()
            blob.update(encode(state, incremental=True, exact=exact))

    for pages, more in attempts:
        attempt(pages)
        # The places of a list that descends move where it grows.
        stream.last += 0 if descends else more
    for _ in range(2):
        attempt(100)

    assert read == Counter((part.key, n) for part in parts for n in range(1, stream.last + 1))


def positions(stream: PagedStream, start: Position) -> list[Position]:
    return [page.position for page in read_slice(stream, Slice(start=start)) if page.position is not None]


def test_a_page_is_asked_for_with_the_state_that_its_list_was_begun_with() -> None:
    stream = Numbers(9)

    first, *_ = positions(stream, Checkpoint({"n": 4}))
    positions(stream, first)

    assert first == Checkpoint({"n": 4}, paging=Paging({"place": 2}, {"n": 6}))
    assert stream.starts == [{"n": 4}] * 5


def test_a_refused_token_has_the_list_begin_anew_from_its_state() -> None:
    class Refusing(Numbers):
        def read_page(self, slice: Slice, token: Token | None) -> Page:
            if token is not None and token == slice.start.token:
                raise StaleToken("it has expired")
            return super().read_page(slice, token)

    start = Checkpoint({"n": 4}, paging=Paging({"place": 2}, {"n": 6}))
    pages = list(read_slice(Refusing(9), Slice(start=start)))

    assert pages[0].restarted
    assert [record["n"] for page in pages for record in page.records] == [5, 6, 7, 8, 9]


def test_an_author_who_sets_no_state_begins_where_the_read_began() -> None:
    class Unset(PagedStream):
        cursor_field = "n"

        def read_page(self, slice: Slice, token: Token | None) -> Page:
            assert slice.start.cursor == {"n": 1}
            return Page([{"n": 2}], None if token else {"page": 2})

    stream = Unset()
    reader = stream.checkpoint_reader(StreamState({WHOLE: Checkpoint({"n": 1})}))
    while (slice := reader.next()) is not None:
        for page in read_slice(stream, slice):
            if page.position is not None:
                reader.observe(slice, page.position)

    assert reader.finished
    state = reader.get_checkpoint()
    assert state is None or state.of(WHOLE) == Checkpoint({"n": 1})


def test_records_that_are_yielded_one_by_one_are_covered_by_the_state_behind_them() -> None:
    class Unpaged(PagedStream):
        cursor_field = "n"

        def read_page(self, slice: Slice, token: Token | None) -> Page:  # noqa: ARG002
            return Page([{"n": 1}, {"n": 2}], None)

        def read_records(self, slice: Slice) -> Iterator[Item]:
            for record in records_in(super().read_records(slice)):
                yield record
                self.state = record

    assert positions(Unpaged(), Start()) == [Checkpoint({"n": 1}), Checkpoint({"n": 2}), Done()]


def test_secrets_are_cut_out_of_what_a_page_leaves() -> None:
    class Telling(Numbers):
        def read_page(self, slice: Slice, token: Token | None) -> Page:
            page = super().read_page(slice, token)
            self.state = {"n": 1, "key": "hunter2-hunter2"}
            return replace(page, next=page.next and {**page.next, "key": "hunter2-hunter2"})

    stream = Telling(5)
    stream.secrets = SecretMarks([("api_key", "hunter2-hunter2")])

    assert "hunter2" not in repr(positions(stream, Start()))


@pytest.mark.parametrize("paging", [1, {}, {"token": {}}, {"token": {}, "state": 3}])
def test_a_page_that_cannot_be_read_is_refused(paging: Json) -> None:
    with pytest.raises(BadState, match=r"paging"):
        decode({"n": 1, "_cdk": {"paging": paging}})
