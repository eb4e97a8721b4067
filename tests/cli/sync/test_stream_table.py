from collections.abc import Sequence
from io import StringIO

import pytest
from msgspec.structs import replace
from rich.console import Console

from cdk.cli.sync.stream_table import Pace, doing_text, duration_text, how_far, screen
from cdk.rest.http.activity import StreamActivity
from cdk.sync.reports.stream_report import Status, StreamReport

WAITING = StreamReport("orders", Status.READING, "incremental", "append")
READING = replace(WAITING, reading=2, planned=1, pages=17, written=1_234_567, commits=3)
SLICES = replace(READING, planned=30, completed_slices=12)


def shown(reports: Sequence[StreamReport], *, width: int = 100, height: int = 24, now: float = 10.0) -> list[str]:
    console = Console(file=StringIO(), width=width, color_system=None, legacy_windows=False)
    paces = {report.name: Pace(0.0, 10.0) for report in reports}
    table, others = screen(reports, paces, now, width=width, height=height)
    console.print(table)
    if others is not None:
        console.print(others)
    assert isinstance(console.file, StringIO)
    lines = console.file.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    assert len(lines) <= height
    return lines


@pytest.mark.parametrize(
    ("report", "left", "said"),
    [
        (WAITING, None, "waiting"),
        (replace(READING, pages=0), None, "first page"),
        (READING, 5.0, "page 17"),
        (SLICES, None, "12/30+ slices"),
        (replace(SLICES, all_planned=True), None, "12/30 slices, 40%"),
        (replace(SLICES, all_planned=True), 18.0, "12/30 slices, 40%, 18 s left"),
        (replace(SLICES, all_planned=True, status=Status.FAILED), 18.0, "12/30 slices, 40%"),
        (replace(SLICES, all_planned=True, status=Status.INTERRUPTED), 18.0, "12/30 slices, 40%"),
        (replace(SLICES, completed_slices=30, status=Status.DONE), None, "30 slices"),
        (replace(READING, completed_slices=1, status=Status.DONE), None, "17 pages"),
    ],
)
def test_how_far_a_stream_is_and_no_more_than_is_known(report: StreamReport, left: float | None, said: str) -> None:
    assert how_far(report, left) == said


def test_the_time_left_follows_from_the_pace_of_the_slices_and_runs_down_until_it_is_over() -> None:
    pace, report = Pace(started=5.0, progressed=29.0), replace(SLICES, all_planned=True)

    assert [pace.remaining(report, now) for now in (29.0, 35.0, 65.0)] == [36.0, 30.0, None]
    assert pace.remaining(SLICES, 29.0) is None
    assert pace.remaining(replace(report, completed_slices=0), 29.0) is None


def test_the_rate_is_that_of_the_time_in_which_rows_came() -> None:
    assert Pace(5.0, 25.0).rate(1000) == 50.0
    assert Pace(5.0, 5.0).rate(1000) is None
    assert Pace(5.0, 25.0).rate(0) is None


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 m 00 s"), (125, "2 m 05 s"), (3600, "1 h 00 m"), (90_000, "25 h 00 m")],
)
def test_spans_of_time(seconds: float, said: str) -> None:
    assert duration_text(seconds) == said


@pytest.mark.parametrize("width", [30, 40, 60, 80, 200])
def test_a_narrow_terminal_has_fewer_columns_and_uncut_figures(width: int) -> None:
    lines = shown([replace(SLICES, name="a_stream_with_a_long_name"), WAITING], width=width)

    assert len(lines) == 3
    assert "1,234,567" in lines[1]
    assert ("123,457" in lines[1]) == (width >= 56)
    assert ("commits" in lines[0]) == (width >= 72)
    assert ("12/30+ slices" in lines[1]) == (width >= 60)
    assert ("a_stream_with_a_long_name" in lines[1]) == (width >= 80)


def many(*statuses: tuple[Status, int]) -> list[StreamReport]:
    """Streams s00, s01, ...; of those that are to be read, every second one is being read now."""
    found = [status for status, count in statuses for _ in range(count)]
    return [
        replace(WAITING, name=f"s{n:02}", status=status, reading=int(status is Status.READING and n % 2))
        for n, status in enumerate(found)
    ]


def test_all_streams_are_shown_in_the_order_of_the_source_where_they_fit() -> None:
    reports = many((Status.DONE, 2), (Status.READING, 2), (Status.FAILED, 2))

    assert [line.split()[1] for line in shown(reports, height=7)[1:]] == ["s00", "s01", "s02", "s03", "s04", "s05"]


def test_of_many_streams_those_that_are_read_stay_and_the_others_are_counted() -> None:
    reports = many((Status.DONE, 20), (Status.READING, 20), (Status.FAILED, 2), (Status.READING, 18))

    lines = shown(reports, height=24)

    assert len(lines) == 24
    names = [line.split()[1] for line in lines[1:-1]]
    assert names == sorted(names)
    assert {f"s{n}" for n in range(20, 60) if n % 2} - {"s41"} <= set(names)
    assert {"s40", "s41"} <= set(names)
    assert lines[-1] == "… 38 more: 18 to read, 20 done"


def test_streams_that_failed_are_red() -> None:
    failed = replace(READING, status=Status.FAILED)
    table, _ = screen([failed, READING], {}, 0.0, width=100, height=24)
    names = list(table.columns[1].cells)

    assert ["red" in str(name.spans) for name in names] == [True, False]  # type: ignore[union-attr]


def test_what_is_done_between_commits_is_said() -> None:
    now = 1_700_000_000.0

    assert doing_text(None, now) == ""
    assert doing_text(StreamActivity(), now) == ""
    assert doing_text(StreamActivity(1), now) == "1 page more"
    assert doing_text(StreamActivity(12, now + 8, "refused"), now) == "12 pages more, retrying in 8 s: refused"
    assert doing_text(StreamActivity(0, now + 0.2, "busy"), now) == "retrying in 1 s: busy"
    assert doing_text(StreamActivity(3, now - 1, "busy"), now) == "3 pages more"
