"""State that a person sees and sets."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from cdk import BadState, Checkpoint, Done, IncrementalMixin, Item, Json, Partition, Slice, StateMixin, StreamState
from cdk.base.process.concurrency import Learned
from cdk.engine.executors import Threads, serial
from cdk.engine.read import read
from cdk.state.slice import WHOLE
from cdk.streams.read_slice import read_slice
from tests.samples import Notes, ShopOrders, Users, Versions


def positions(stream: StateMixin, slice: Slice | None = None) -> list[Json]:
    pages = read_slice(stream, slice or Slice())
    return [p.position.cursor for p in pages if isinstance(p.position, Checkpoint)]


def test_setting_state_covers_what_was_yielded_before_it() -> None:
    pages = [(len(p.records), p.position) for p in read_slice(Notes(), Slice())]

    assert pages == [
        (2, Checkpoint({"page": 1})),
        (2, Checkpoint({"page": 2})),
        (2, Checkpoint({"page": 3})),
        (2, Done()),
    ]


@pytest.mark.parametrize("nothing", [{}, None, {"__ab_full_refresh_sync_complete": True}], ids=str)
def test_the_habit_of_emptying_the_state_at_the_end_does_no_harm(nothing: Json) -> None:
    class Habit(StateMixin):
        def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
            yield {"id": 1}
            self.state = {"page": 1}
            yield {"id": 2}
            self.state = nothing

    assert [p.position for p in read_slice(Habit(), Slice())] == [Checkpoint({"page": 1}), Done()]


class Lists(StateMixin):
    """Returns its records, where others are generators, with the state that it has then read to."""

    def partitions(self) -> Iterable[Partition]:
        return [Partition.of(region="a"), Partition.of(region="b")]

    def read_records(self, slice: Slice) -> Iterable[Item]:
        before, region = self.state.get("n", 0), slice.partition["region"]
        self.state = {"n": before + 1}
        return [{"id": f"{region}{before}-{n}"} for n in range(2)]


def test_a_state_that_is_set_before_records_are_returned_is_that_behind_the_last_of_them() -> None:
    first = [
        [(len(page.records), page.position) for page in read_slice(Lists(), Slice(partition))]
        for partition in Lists().partitions()
    ]
    begun = Slice(Partition.of(region="a"), start=Checkpoint({"n": 7}))

    assert first == [[(2, Checkpoint({"n": 1})), (0, Done())]] * 2
    assert [record["id"] for page in read_slice(Lists(), begun) for record in page.records] == ["a7-0", "a7-1"]


def test_state_set_before_a_read_restores_once_and_shows_after_it() -> None:
    notes = Notes()
    assert notes.state == {}
    notes.state = {"page": 3}
    assert notes.state == {"page": 3}

    first = [r for item in read(notes, StreamState()) if not isinstance(item, StreamState) for r in item]

    assert first == [{"id": 30}, {"id": 31}]
    assert notes.state == {"__ab_full_refresh_sync_complete": True}
    assert sum(len(i) for i in read(notes, StreamState()) if not isinstance(i, StreamState)) == 8


def test_state_shows_what_an_unfinished_read_has_reached() -> None:
    versions = Versions()
    reading = read(versions, StreamState())
    while not isinstance(next(reading), StreamState):
        pass

    assert versions.state == {"version": 1}


def test_setting_an_empty_state_starts_over() -> None:
    users = Users()
    users.state = {}

    items = list(read(users, StreamState().with_(Partition(), Done())))

    assert items[0] == [{"id": 0}, {"id": 1}, {"id": 2}]


class Begun(StateMixin):
    """Sets in its `__init__` where it begins, as code that was written for other kits does."""

    cursor_field = "n"

    def __init__(self, begin: Json) -> None:
        super().__init__()
        self.state = begin

    def read_records(self, _: Slice) -> Iterator[Item]:
        for n in range(self.state.get("n", 0) + 1, 5):
            yield {"n": n}
            self.state = {"n": n}


@pytest.mark.parametrize(
    ("begin", "state", "read_first"), [({}, 3, 4), ({}, None, 1), ({"n": 1}, 3, 4), ({"n": 1}, None, 2), (None, 3, 4)]
)
def test_a_state_that_is_set_when_a_stream_is_made_does_not_replace_what_was_read(
    begin: Json, state: int | None, read_first: int
) -> None:
    stream = Begun(begin)
    stream.opened()
    assert stream.state == (begin or {})

    saved = StreamState() if state is None else StreamState({WHOLE: Checkpoint({"n": state})})
    records = [r["n"] for item in read(stream, saved) if not isinstance(item, StreamState) for r in item]

    assert records == list(range(read_first, 5))
    assert stream.state == {"n": 4}


@pytest.mark.parametrize("state", [5, "page 2", True])
def test_a_malformed_state_is_refused_when_it_is_set_and_names_the_class(state: Json) -> None:
    class Numbered(StateMixin):
        def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
            yield {"n": 1}
            self.state = state

    with pytest.raises(BadState, match=rf"tests\.samples\.Notes\.state: found {state!r}, expected a JSON object"):
        Notes().state = state
    with pytest.raises(BadState, match=rf"{__name__}\.\S+\.Numbered\.state: found {state!r}, expected a JSON object"):
        list(read_slice(Numbered(), Slice()))


class Child(StateMixin):
    """Reads another such stream, and itself, while it is read."""

    def read_records(self, slice: Slice) -> Iterator[Item]:
        depth = slice.partition.get("depth", 0)
        self.state = {"depth": depth}
        yield {"seen": dict(self.state)}
        if depth < 3:
            inner = Slice(Partition.of(depth=depth + 1), start=Checkpoint({"from": "outside"}))
            yield from (r for page in read_slice(self, inner) for r in page.records)
        yield from (r for page in read_slice(Notes(), Slice()) for r in page.records)
        yield {"seen": dict(self.state)}


def test_nested_reads_do_not_mix_their_states() -> None:
    seen = [r["seen"]["depth"] for page in read_slice(Child(), Slice()) for r in page.records if "seen" in r]

    assert seen == [0, 1, 2, 3, 3, 2, 1, 0]


class Regions(StateMixin):
    def partitions(self) -> Iterable[Partition]:
        return (Partition({"n": n}) for n in range(8))

    def read_records(self, slice: Slice) -> Iterator[Item]:
        for page in range(self.state.get("page", 0), 20):
            yield {"n": slice.partition["n"], "page": page, "seen": self.state.get("n")}
            self.state = {"n": slice.partition["n"], "page": page + 1}


def test_slices_read_at_once_do_not_mix_their_states() -> None:
    regions = Regions()
    at_once = [
        r for i in read(regions, StreamState(), Threads(4, Learned(4))) if not isinstance(i, StreamState) for r in i
    ]

    assert len(at_once) == 160
    assert all(r["seen"] in (None, r["n"]) for r in at_once)
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda n: positions(regions, Slice(Partition({"n": n}))), range(4)))
    assert done == [[{"n": n, "page": p + 1} for p in range(20)] for n in range(4)]


def test_a_slice_resumes_with_its_own_state() -> None:
    assert positions(Notes(), Slice(start=Checkpoint({"page": 2}))) == [{"page": 3}]


def test_the_state_of_partitions_shows_in_the_protocols_shape() -> None:
    class Shops(StateMixin, ShopOrders):
        pass

    shops = Shops()
    list(read(shops, StreamState(), serial))

    assert [s["partition"] for s in shops.state["states"]] == [{"shop": s} for s in shops.shops]


def test_the_old_name_still_works_and_says_the_new_one() -> None:
    with pytest.warns(DeprecationWarning, match="Old: IncrementalMixin is now called StateMixin"):

        class Old(IncrementalMixin):
            def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
                self.state = {"page": 1}
                yield {"id": 1}

    assert positions(Old()) == [{"page": 1}]
