"""Authors who fill one object again and again: what was yielded before stays as it was."""

from collections.abc import Iterator

import pytest

from cdk import Checkpoint, Item, Page, PagedStream, Record, Slice, StateMixin, Stream
from cdk.state.position import Position
from cdk.streams.page import Token
from cdk.streams.read_slice import read_slice
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
    def read_records(self, _: Slice) -> Iterator[Item]:
        rows = list[Record]()
        for n in range(3):
            rows.append({"id": n})
            yield Page(rows, None)
            rows.clear()


def test_a_page_has_its_records_also_where_the_list_is_filled_again() -> None:
    assert [page.records for page in read_slice(Lists(), Slice())] == [[{"id": n}] for n in range(3)] + [[]]


def test_what_is_in_a_record_stays_what_it_was_when_it_was_yielded() -> None:
    (page,) = read_slice(Reused(), Slice())

    assert page.records == [{"id": n, "place": {"row": n}, "tags": list(range(n + 1))} for n in range(3)]
