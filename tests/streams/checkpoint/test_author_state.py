"""AuthorState: what is noticed of states that an author sets between records."""

from collections.abc import Iterator, Sequence

import pytest

from cdk import Checkpoint, Item, Page, PagedStream, Record, Slice, Stream
from cdk.streams.page import Token
from cdk.streams.read_slice import read_slice

DAYS = [f"2024-01-{day:02}T00:00:00Z" for day in range(1, 31)]


class Scripted(Stream):
    """Yields records and states: `("record", value)` and `("state", value)`."""

    cursor_field = "at"
    supports_checkpointing = True

    def __init__(self, script: Sequence[tuple[str, object]]) -> None:
        super().__init__()
        self._script = script

    def read_records(self, _: Slice) -> Iterator[Item]:
        for kind, value in self._script:
            yield {"at": value} if kind == "record" else Checkpoint({"at": value})


def warnings(script: Sequence[tuple[str, object]], start: Record | None = None) -> list[str]:
    where = Slice() if start is None else Slice(start=Checkpoint(start))
    return [page.warning for page in read_slice(Scripted(script), where) if page.warning]


def after_each(values: Sequence[object]) -> list[tuple[str, object]]:
    """A state behind each record: the greatest value so far, as most authors write it."""
    return [item for n, value in enumerate(values) for item in (("record", value), ("state", max(values[: n + 1])))]  # type: ignore[type-var]


@pytest.mark.parametrize("values", [[3, 2, 1], [DAYS[3], DAYS[4], DAYS[0]], [2.5, 1]], ids=["numbers", "days", "mixed"])
def test_a_record_that_is_older_than_a_state_before_it_is_warned_of(values: list[object]) -> None:
    (warning, *_) = warnings(after_each(values))

    assert f"came after a state with {values[0]!r}" in warning or f"came after a state with {values[1]!r}" in warning
    assert "this record is never read" in warning
    assert "test_author_state.py" in warning


def test_a_record_older_than_the_last_state_is_warned_of_where_no_other_follows() -> None:
    (warning,) = warnings([("record", 5), ("state", 5), ("record", 4)])

    assert "a record with 4 in 'at' came after a state with 5" in warning


def test_records_behind_the_last_state_are_warned_of() -> None:
    (warning,) = warnings([("record", 1), ("state", 1), ("record", 2), ("record", 3)])

    assert "the last state has 1 in 'at', but records with up to 3 were read" in warning


@pytest.mark.parametrize(
    ("script", "value", "state"),
    [
        ([("state", 1), ("record", 1), ("state", 2), ("record", 2)], 1, 1),
        ([("record", 1), ("state", 3), ("record", 3)], 3, 3),
        ([("record", 5), ("state", 5), ("record", 4), ("state", 4), ("record", 3)], 4, 5),
        ([("record", "4"), ("state", "4"), ("record", "10"), ("record", "2"), ("record", "30")], "2", "4"),
    ],
    ids=["before each", "before one", "each its own, descending", "numbers as texts"],
)
def test_a_state_that_covers_what_is_still_to_come_is_warned_of(
    script: list[tuple[str, object]], value: object, state: object
) -> None:
    warning, *_ = warnings(script)

    assert f"a record with {value!r} in 'at' came after a state with {state!r}" in warning


@pytest.mark.parametrize("values", [["a", "bb"], [None, [1]]], ids=["words", "of no kind"])
def test_values_without_an_order_are_not_compared(values: list[object]) -> None:
    assert warnings([("record", values[0]), ("state", values[0]), ("record", values[1])]) == []


class Descending(PagedStream):
    """Two pages, the newest record first; its state is that of the last record of all."""

    cursor_field = "at"

    def __init__(self, state: int) -> None:
        super().__init__()
        self._end = state

    def read_page(self, slice: Slice, token: Token | None) -> Page:  # noqa: ARG002
        self.state = {"at": self._end}
        return Page([{"at": 2}, {"at": 1}] if token else [{"at": 4}, {"at": 3}], None if token else {"page": 2})


@pytest.mark.parametrize(("state", "warned"), [(1, True), (4, False), (2, False)], ids=["last", "greatest", "computed"])
def test_pages_whose_state_is_not_the_greatest_value_are_warned_of(state: int, warned: bool) -> None:  # noqa: FBT001
    texts = [page.warning for page in read_slice(Descending(state), Slice()) if page.warning]

    assert len(texts) == warned
    assert all("the last state has 1 in 'at', but records with up to 4 were read" in text for text in texts)


@pytest.mark.parametrize(
    "script",
    [
        after_each([1, 2, 2, 3]),
        after_each(DAYS),
        [("record", 2), ("record", 1), ("record", 3), ("state", 3)],
        # A state that lies before its records on purpose.
        [("record", 5), ("state", 4), ("record", 6), ("state", 5)],
        # What nobody can order is not compared.
        [*after_each(["b", "c"]), ("record", "a")],
        [("record", 1), ("state", 1), ("record", None)],
        [("record", 1), ("state", 1), ("record", "2024-01-01")],
        [("record", 2), ("state", {"page": 1}), ("record", 1)],
        [("record", 1), ("state", 2), ("record", True), ("record", 3), ("state", 3)],
        [("record", "9"), ("state", "9"), ("record", "10"), ("state", "10")],
        [],
    ],
)
def test_states_that_cover_their_records_are_not_warned_of(script: list[tuple[str, object]]) -> None:
    assert warnings(script) == []


def test_records_older_than_the_state_that_the_read_goes_on_from_are_not_warned_of() -> None:
    assert warnings([("record", 1), ("record", 7), ("state", 7)], start={"at": 5}) == []
    assert warnings([("state", 5), ("record", 5), ("record", 7), ("state", 7)], start={"at": 5}) == []
