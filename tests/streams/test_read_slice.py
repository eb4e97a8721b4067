"""A slice as pages: grouping, positions, what a window owns, and a token that the source no longer takes."""

import logging
import sys
from collections import UserDict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from cdk import (
    Checkpoint,
    ConfigError,
    CountCursor,
    Cursor,
    DatetimeCursor,
    Done,
    FatalError,
    Item,
    Page,
    Partition,
    Position,
    Record,
    Slice,
    StaleToken,
    Start,
    Stream,
    Window,
)
from cdk.base.process.unseen_refusals import note_unseen
from cdk.state.position import Edge
from cdk.streams.cursor import Side
from cdk.streams.page import ReadPage
from cdk.streams.read_slice import PAGE_RECORDS, read_slice
from tests.samples import Events, Orders, Users

COMPLETE = "__ab_full_refresh_sync_complete"


class Scripted(Stream):
    """Yields what a test says."""

    supports_checkpointing = True

    def __init__(self, script: Callable[[Slice], Iterator[Item]], cursor: Cursor | None = None) -> None:
        super().__init__()
        self._script, self.cursor = script, cursor

    def read_records(self, slice: Slice) -> Iterator[Item]:
        return self._script(slice)


def ids(*numbers: int) -> list[Record]:
    return [{"id": n} for n in numbers]


def mixed(slice: Slice) -> Iterator[Item]:  # noqa: ARG001
    yield from ids(1, 2)
    yield Checkpoint({"after": 2})
    yield from ids(3)
    yield Page(ids(4, 5), {"after": 5})
    yield Page(ids(6), None)
    yield from ids(7)


def summary(pages: Iterator[ReadPage]) -> list[tuple[list[int], Position | None]]:
    return [([r["id"] for r in p.records], p.position) for p in pages]


def test_records_pages_and_checkpoints_become_pages_whose_last_is_done() -> None:
    assert summary(read_slice(Scripted(mixed), Slice())) == [
        ([1, 2], Checkpoint({"after": 2})),
        ([3], None),
        ([4, 5], Checkpoint({"after": 5})),
        ([6], None),
        ([7], Done()),
    ]


def test_a_stream_that_cannot_resume_has_no_position_before_its_end() -> None:
    stream = Scripted(mixed)
    stream.supports_checkpointing = False

    assert [position for _, position in summary(read_slice(stream, Slice()))] == [None, None, None, None, Done()]


def test_single_records_are_handed_on_in_pages_of_bounded_size() -> None:
    pages = list(read_slice(Scripted(lambda _: iter(ids(*range(PAGE_RECORDS * 2 + 1)))), Slice()))

    assert [len(p.records) for p in pages] == [PAGE_RECORDS, PAGE_RECORDS, 1]


def test_a_slice_without_a_record_is_one_empty_page_that_is_done() -> None:
    assert list(read_slice(Scripted(lambda _: iter(())), Slice())) == [ReadPage([], Done())]


def test_a_window_gives_only_the_records_it_owns_and_those_without_a_value() -> None:
    days = [*("2024-01-01T23:59:59Z", "2024-01-02T00:00:00Z", "2024-01-02T23:59:59Z", "2024-01-03T00:00:00Z"), None]
    rows: list[Record] = [{"id": i, "updated_at": day} for i, day in enumerate(days)]
    stream = Scripted(lambda _: iter(rows), Orders.cursor)
    low, high = "2024-01-02T00:00:00Z", "2024-01-03T00:00:00Z"

    def owned(window: Window) -> Sequence[int]:
        return summary(read_slice(stream, Slice(window=window)))[0][0]

    assert owned(Window(low, high, high, last=False)) == [1, 2, 4]
    assert owned(Window(low, high, high, last=True)) == [1, 2, 3, 4]


@pytest.mark.parametrize("by_request", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_records_outside_of_their_window_are_counted_and_named(by_request: bool, last: bool) -> None:  # noqa: FBT001
    rows: list[Record] = [{"seq": n} for n in (1, 5, 20, 30)]
    stream = Scripted(lambda _: iter([Page(rows, None)]), CountCursor("seq", by_request=by_request))
    outside = [1] if last else [1, 20, 30]

    (page, _) = read_slice(stream, Slice(window=Window(5, 20, 20, last=last)))

    assert page.records == [row for row in rows if by_request or row["seq"] not in outside]
    assert page.skipped == (0 if by_request else len(outside))
    # Where one window ends the next begins: sources give that record with both.
    asked, count = ("from 5 on", 1) if last else ("from 5 to 20", 2)
    assert f"scripted: {count} of 4 records of a page lie outside of the window that was requested, {asked}" in (
        page.warning
    )
    assert (
        f"the first has 1 in 'seq'. They {'become rows all the same' if by_request else 'are skipped'}" in page.warning
    )


def test_the_record_between_two_windows_is_counted_and_not_named() -> None:
    stream = Scripted(lambda _: iter([Page([{"seq": 20}], None)]), CountCursor("seq"))

    (page, _) = read_slice(stream, Slice(window=Window(5, 20, 20, last=False)))

    assert (page.records, page.skipped, page.warning) == ([], 1, "")


def test_the_record_between_two_windows_is_named_where_both_emit_what_the_source_returns() -> None:
    pages = [Page([{"seq": 20}, {"seq": 6}], None), Page([{"seq": 20}], None)]
    stream = Scripted(lambda _: iter(pages), CountCursor("seq", by_request=True))

    first, second, _ = read_slice(stream, Slice(window=Window(5, 20, 20, last=False)))

    assert (first.records, second.records) == (pages[0].records, pages[1].records)
    assert "scripted: 1 of 2 records of a page have 20 in 'seq', where this window ends and the next" in first.warning
    assert "Set `cursor_granularity`" in first.warning
    assert not second.warning
    assert not [page.warning for page in read_slice(stream, Slice(window=Window(5, 20, 20))) if page.warning]


def test_records_outside_of_their_window_are_named_on_the_first_page_that_has_one() -> None:
    pages = [[{"seq": 20}], [{"seq": 1}], [{"seq": 2}, {"seq": 6}]]
    stream = Scripted(lambda _: (Page(rows, {"page": n}) for n, rows in enumerate(pages)), CountCursor("seq"))

    read = list(read_slice(stream, Slice(window=Window(5, 20, 20, last=False))))

    assert [(page.skipped, bool(page.warning)) for page in read] == [(1, False), (1, True), (1, False), (0, False)]


def test_the_edge_is_the_greatest_value_so_far() -> None:
    rows: list[Record] = [{"seq": 4}, {"seq": 2}, {"seq": None}, {"seq": 7}, {}]
    stream = Scripted(lambda _: (Page([row], {}) for row in rows), CountCursor("seq"))

    edges = [p.edge for p in read_slice(stream, Slice())]

    assert edges == [Edge(4), Edge(4), Edge(4), Edge(7), Edge(7), Edge(7)]


def test_an_ordered_cursor_says_where_a_cut_read_goes_on() -> None:
    stream = Scripted(lambda _: iter([Page([{"seq": 1}], None), Page([{"seq": 2}], None)]), Events.cursor)

    assert [p.position for p in read_slice(stream, Slice())] == [Checkpoint({"seq": 1}), Checkpoint({"seq": 2}), Done()]


@pytest.mark.parametrize("start", [5, "5", "05"])
def test_an_ordered_cursor_does_not_go_on_at_the_start_of_its_window_however_written(start: int | str) -> None:
    stream = Scripted(lambda _: iter([Page([{"seq": 5}], None), Page([{"seq": 6}], None)]), Events.cursor)

    positions = [p.position for p in read_slice(stream, Slice(window=Window(start)))]

    assert positions == [None, Checkpoint({"seq": 6}), Done()]


def test_an_ordered_cursor_goes_on_where_windows_are_written_and_not_at_the_start_of_its_own() -> None:
    cursor = DatetimeCursor("at", start="2024-01-01", formats=["%Y-%m-%d"], ordered=True)
    times = ["01T02:00:00Z", "01T23:00:00+09:00", "01T18:30:00-05:00", "02T09:00:00+09:00", "04T01:00:00+02:00"]
    stream = Scripted(lambda _: (Page([{"at": f"2024-01-{time}"}], None) for time in times), cursor)
    (window,) = cursor.windows(None, datetime(2024, 1, 9, tzinfo=UTC))

    *positions, _ = [page.position for page in read_slice(stream, Slice(window=window))]

    assert positions == [None, None, None, Checkpoint({"at": "2024-01-02"}), Checkpoint({"at": "2024-01-03"})]


def test_a_source_that_breaks_the_order_it_declares_is_refused() -> None:
    stream = Scripted(lambda _: iter([Page([{"seq": 5}], None), Page([{"seq": 4}], None)]), Events.cursor)

    with pytest.raises(FatalError, match="found seq 4 after 5, but the cursor is declared `ordered`"):
        list(read_slice(stream, Slice()))


def refusing(slice: Slice) -> Iterator[Item]:
    if not isinstance(slice.start, Start):
        raise StaleToken("page 3 is gone")
    yield Page(ids(1), {"page": 2})


def test_a_refused_token_restarts_the_slice_from_its_start_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="cdk"):
        pages = list(read_slice(Scripted(refusing), Slice(start=Checkpoint({"page": 3}))))

    assert [p.restarted for p in pages] == [True, False, False]
    assert summary(iter(pages[1:])) == summary(read_slice(Scripted(refusing), Slice()))
    assert "page 3 is gone; reading this slice from its start" in caplog.text


def test_a_token_refused_again_after_the_restart_is_an_error() -> None:
    def always(slice: Slice) -> Iterator[Item]:
        raise StaleToken(f"no {slice.start}")
        yield {}

    with pytest.raises(StaleToken, match="Start"):
        list(read_slice(Scripted(always), Slice(start=Checkpoint({"page": 3}))))


def test_a_refusal_of_the_first_page_is_an_error_at_once() -> None:
    starts: list[Position] = []

    def always(slice: Slice) -> Iterator[Item]:
        starts.append(slice.start)
        raise StaleToken("this is no token")
        yield {}

    with pytest.raises(StaleToken, match="this is no token"):
        list(read_slice(Scripted(always), Slice()))
    assert starts == [Start()]


def test_what_is_no_record_is_refused_with_its_kind() -> None:
    stream = Scripted(lambda _: iter(["text"]))  # type: ignore[list-item]  # what an author may yield by mistake

    with pytest.raises(FatalError, match=r"yielded a str, expected a record.* \(.*\.py:\d+\)"):
        list(read_slice(stream, Slice()))


def test_an_order_that_is_broken_inside_a_page_is_refused() -> None:
    stream = Scripted(
        lambda _: iter([Page([{"seq": 1}, {"seq": 9}, {"seq": 3}], None)]), CountCursor("seq", ordered=True)
    )

    with pytest.raises(FatalError, match="found seq 3 after 9"):
        list(read_slice(stream, Slice(window=Window(0))))


@pytest.mark.parametrize(("records", "said"), [([{"id": 1}, [2]], "record 1 of a page is a list"), (["a"], "is a str")])
def test_what_is_no_record_among_those_of_a_page_is_refused(records: list[Record], said: str) -> None:
    class Odd(Users):
        def read_page(self, slice, token):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG002
            return Page(records, None)

    with pytest.raises(FatalError, match=said) as raised:
        list(read_slice(Odd(), Slice()))

    assert str(raised.value).endswith(f" ({__file__}:{Odd.read_page.__code__.co_firstlineno})")


def test_a_connector_that_would_end_the_process_fails_its_stream() -> None:
    class Exiting(Users):
        def read_page(self, slice, token):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG002
            sys.exit(3)

    with pytest.raises(FatalError, match=r"the connector ended the process with 3 \(sys.exit\)"):
        list(read_slice(Exiting(), Slice()))


def test_a_connector_that_would_end_the_process_where_a_slice_begins_anew_fails_its_stream() -> None:
    class Exiting(Users):
        def read_page(self, slice, token):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG002
            if token is not None:
                raise StaleToken("page 2 is gone")
            sys.exit(3)

    with pytest.raises(FatalError, match=r"the connector ended the process with 3 \(sys.exit\)"):
        list(read_slice(Exiting(), Slice(start=Checkpoint({"page": 2}))))


def test_a_connection_refused_unseen_where_a_slice_begins_anew_is_said_first() -> None:
    class Refused(Users):
        def read_page(self, slice, token):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG002
            if token is not None:
                raise StaleToken("page 2 is gone")
            note_unseen(ConfigError("no request may go to a.com"))
            raise IndexError(0)

    with pytest.raises(ConfigError, match=r"^no request may go to a.com; .* failed: IndexError"):
        list(read_slice(Refused(), Slice(start=Checkpoint({"page": 2}))))


def reused(slice: Slice) -> Iterator[Item]:  # noqa: ARG001
    record: dict[str, int] = {}
    for n in range(PAGE_RECORDS + 5):
        record["id"] = n
        yield record
        record.clear()


def reused_mapping(slice: Slice) -> Iterator[Item]:  # noqa: ARG001
    record: UserDict[str, int] = UserDict()
    for n in range(5):
        record["id"] = n
        yield record


def test_a_dict_that_is_filled_again_for_each_record_gives_every_record() -> None:
    read = [record["id"] for page in read_slice(Scripted(reused), Slice()) for record in page.records]

    assert read == list(range(PAGE_RECORDS + 5))


def test_another_mapping_that_is_filled_again_gives_every_record() -> None:
    read = [record["id"] for page in read_slice(Scripted(reused_mapping), Slice()) for record in page.records]

    assert read == list(range(5))


def warnings_of_windows(values: Sequence[str], last: bool = False, **how: Any) -> list[str]:  # noqa: FBT001, FBT002
    """The warnings of a page for each value, in the window of noon of a day that is read hour by hour."""
    cursor = DatetimeCursor("at", start="2024-01-01T00:00:00Z", **{"step": "PT1H", "granularity": "PT1S", **how})
    windows = list(cursor.windows(None, datetime(2024, 1, 3, tzinfo=UTC)))
    window = windows[-1] if last else next(window for window in windows if cursor.side(window, NOON) is Side.INSIDE)
    stream = Scripted(lambda _: iter([Page([{"at": value}], {"n": n}) for n, value in enumerate(values)]), cursor)
    return [page.warning for page in read_slice(stream, Slice(window=window)) if page.warning]


NOON = "2024-01-01T12:00:00Z"


@pytest.mark.parametrize(
    ("fraction", "granularity", "needed"),
    [
        (".5", "PT1S", "PT0.001S"),
        (".000175+00:00", "PT1S", "PT0.000001S"),
        (".0005Z", "PT0.001S", "PT0.000001S"),
        ("Z", "PT1M", "PT1S"),
    ],
)
def test_values_that_are_finer_than_the_granularity_are_warned_of_once(
    fraction: str, granularity: str, needed: str
) -> None:
    values = [NOON, f"2024-01-01T12:10:07{fraction}", f"2024-01-01T12:20:09{fraction}"]
    format = "%Y-%m-%dT%H:%M:%S.%fZ"

    (warning,) = warnings_of_windows(values, granularity=granularity, formats=[format])

    assert f"scripted: found {values[1]!r} in 'at', expected multiples of" in warning
    assert "the next starts at 2024-01-01T13:00:00.000000Z" in warning
    assert f"Set `cursor_granularity: {needed}`" in warning


@pytest.mark.parametrize(
    ("value", "last", "how"),
    [
        ("2024-01-01T12:10:07.000Z", False, {}),
        ("2024-01-01T12:10:07.5Z", False, {"granularity": None}),
        ("2024-01-01T12:10:07.5Z", False, {"step": None}),
        ("2024-01-02T23:10:07.5Z", True, {}),
        # The source gives what lies between two windows with the earlier one.
        ("2024-01-01T12:59:59.5Z", False, {}),
        ("2024-01-01T12:10:07.5Z", False, {"step": "P1D", "granularity": "P1D"}),
        ("never", False, {}),
    ],
)
def test_no_granularity_is_doubted_where_nothing_is_known_to_be_missing(
    value: str, *, last: bool, how: dict[str, Any]
) -> None:
    assert not [text for text in warnings_of_windows([value], last, **how) if "granularity" in text]


@pytest.mark.parametrize(
    ("supports", "start", "warned"), [(True, None, False), (False, None, True), (False, {"n": 0}, False)]
)
def test_a_cursor_that_its_author_never_advances_is_warned_of(
    supports: bool,  # noqa: FBT001 - both
    start: Record | None,
    warned: bool,  # noqa: FBT001
) -> None:
    def script(_: Slice) -> Iterator[Item]:
        yield from ids(1, 2)
        yield Checkpoint({"n": 2})

    stream = Scripted(script)
    stream.cursor_field, stream.supports_checkpointing = "n", supports

    *before, last = read_slice(stream, Slice(start=Start() if start is None else Checkpoint(start)))

    assert not any(page.warning for page in before)
    assert ("no state came with its records" in last.warning) == warned


def test_a_cursor_without_records_needs_no_state() -> None:
    stream = Scripted(lambda _: iter(()))
    stream.cursor_field = "n"

    assert [page.warning for page in read_slice(stream, Slice())] == [""]


@pytest.mark.parametrize(
    ("cursor", "alone", "partitioned"),
    [
        ({"states": ["CA"]}, ["states"], []),
        ({"parent_state": {}, "at": 1}, ["parent_state"], []),
        ({"slices": [1], "state_type": "integer"}, ["slices"], []),
        ({"slices": [1], "state_type": "open"}, [], []),
        ({"_cdk": 1}, ["_cdk"], ["_cdk"]),
        ({COMPLETE: True}, [COMPLETE], [COMPLETE]),
    ],
)
@pytest.mark.parametrize("as_token", [False, True])
def test_a_state_that_could_not_be_read_back_is_refused(
    cursor: Record,
    alone: list[str],
    partitioned: list[str],
    as_token: bool,  # noqa: FBT001 - both
) -> None:
    def script(_: Slice) -> Iterator[Item]:
        yield Page(ids(1), cursor) if as_token else Checkpoint(cursor)

    for slice, names in ((Slice(), alone), (Slice(Partition.of(shop="a")), partitioned)):
        if names:
            with pytest.raises(FatalError, match=f"has the fields {', '.join(map(repr, names))}, which states reserve"):
                list(read_slice(Scripted(script), slice))
        else:
            first, *_ = read_slice(Scripted(script), slice)
            assert first.position == Checkpoint(cursor)
