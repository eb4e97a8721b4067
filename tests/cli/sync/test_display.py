import time
from io import StringIO
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from cdk.cli.sync.display import Display
from cdk.cli.sync.stream_table import how_far
from cdk.rest.http.activity import StreamActivity
from cdk.rest.http.metrics import HttpMetrics
from cdk.sync.reports.counts import StaleCount
from cdk.sync.reports.run_report import RunFacts, SyncResult
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.tasks.messages import Failure
from tests.sync.loop.simulated_tasks import Clock

USERS = StreamReport(
    "users",
    Status.DONE,
    "full_refresh",
    "overwrite",
    read=12_345_678,
    written=12_345_670,
    skipped=1_234_567,
    completed_slices=9,
    commits=3,
    total=98_765_432,
)
ORDERS = StreamReport(
    "orders",
    Status.FAILED,
    "incremental",
    "append",
    read=7,
    written=7,
    restarted=2,
    commits=1,
    total=70,
    resumed=True,
    failure=Failure("the source is down", "transient_error", "traceback"),
)


def console(*, terminal: bool, width: int = 80) -> Console:
    return Console(file=StringIO(), width=width, force_terminal=terminal, color_system=None, legacy_windows=False)


def text(of: Console) -> str:
    assert isinstance(of.file, StringIO)
    return of.file.getvalue()


def summary(
    *reports: StreamReport,
    target: str = "/lake",
    terminal: bool = False,
    pipeline: str = "shop",
    run: RunFacts = RunFacts(),  # noqa: B008 - it is frozen
) -> str:
    clock = Clock()
    display = Display(pipeline, console=console(terminal=False), clock=clock)
    clock.now = 12.34
    out = console(terminal=terminal)
    display.summary(SyncResult(reports, run), Path(target), console=out)
    return text(out)


@pytest.mark.parametrize("terminal", [False, True])
def test_the_summary_has_the_figures_of_every_stream_uncut(*, terminal: bool) -> None:
    said = summary(USERS, ORDERS, terminal=terminal)

    users, orders = (next(line for line in said.splitlines() if name in line) for name in ("users", "orders"))
    for figure in ("12,345,678", "12,345,670", "1,234,567", "98,765,432", "full_refresh,", "✓ done"):
        assert figure in users
    for figure in (" 7 ", " 70 ", "incremental,", "✗ failed"):
        assert figure in orders
    assert "shop → /lake: 4 commits in 12.3 s" in said
    assert "…" not in said


def test_the_summary_says_what_became_of_each_stream() -> None:
    said = summary(USERS, ORDERS)

    assert "✗ failed, resumed" in said
    assert "incremental, append" in said
    again = (
        "2 slices read again from the start: the saved page tokens expired; rows of these that were committed before "
        "are duplicated"
    )
    assert f"\norders: {again}\n" in said
    assert "\norders: the source is down\n" in said
    assert "traceback" not in said


def test_an_overwrite_that_is_not_complete_is_said_to_be_hidden() -> None:
    failed = replace(USERS, status=Status.FAILED)

    assert "\nusers: the new rows are not visible until they are complete\n" in summary(failed)
    assert "not visible" not in summary(USERS, ORDERS, replace(failed, read=0, written=0, commits=0))
    assert "not visible" in summary(replace(failed, read=0, written=0, commits=0, resumed=True))


def test_after_a_failure_the_summary_says_what_a_further_sync_adds_again() -> None:
    users = replace(USERS, write_mode="append")

    assert "\na further sync adds every row of users again (full_refresh, append)" in summary(users, ORDERS)
    for reports in ([users], [USERS, ORDERS], [ORDERS], [replace(users, sync_mode="incremental"), ORDERS]):
        assert "a further sync" not in summary(*reports)


def test_names_and_messages_are_shown_as_they_are() -> None:
    strange = replace(USERS, name="[red]users[/]", failure=Failure("bad [/value] " + "x" * 250, "system_error", ""))
    said = summary(strange, target="/data/[bold]/lake[/x]", pipeline="[dim]p")

    assert "[red]users[/] " in said
    assert "\n[red]users[/]: bad [/value] " + "x" * 250 + "\n" in said
    assert "[dim]p → /data/[bold]/lake[/x]: 3 commits" in said


def test_a_long_name_is_folded_and_not_cut() -> None:
    said = summary(replace(USERS, name="n" * 100), terminal=True)

    assert sum(len(word) for word in said.split() if set(word) == {"n"}) == 100


def test_elsewhere_than_on_a_terminal_there_is_a_line_now_and_then_and_one_at_the_end() -> None:
    out, clock = console(terminal=False), Clock()
    waiting = [
        replace(USERS, name="[users]", status=Status.READING, commits=0, written=0, skipped=0, completed_slices=0)
    ]
    with Display("shop", console=out, clock=clock) as display:
        display.show(waiting, 0)
        moved = waiting[0]
        for clock.now in range(1, 14):
            moved = replace(
                waiting[0], written=clock.now * 1000, commits=clock.now, planned=20, completed_slices=clock.now
            )
            display.show([moved], 1.0)
            display.show([moved], 0)
        clock.now = 13.5
        done = replace(moved, status=Status.DONE, completed_slices=20)
        display.show([done], 0)
        display.show([done], 0)

    assert text(out).splitlines() == [
        "shop: 1 stream to sync",
        "[users]: reading, 5,000 rows, 5/20+ slices, 5 commits",
        "[users]: reading, 10,000 rows, 10/20+ slices, 10 commits",
        "[users]: done, 13,000 rows, 20 slices, 13 commits",
    ]


def test_a_stream_that_fails_is_told_at_once() -> None:
    out, clock = console(terminal=False), Clock()
    with Display("shop", console=out, clock=clock) as display:
        display.show([USERS, replace(ORDERS, status=Status.READING)], 0)
        display.show([USERS, replace(ORDERS, pages=1)], 0)

    assert text(out).splitlines()[-1] == "orders: failed"


def test_a_stream_of_which_nothing_came_is_not_told_to_have_failed_beside_the_reason_that_is_logged() -> None:
    out, clock = console(terminal=False), Clock()
    with Display("shop", console=out, clock=clock) as display:
        display.show([replace(ORDERS, status=Status.READING)], 0)
        display.show([ORDERS], 0)

    assert text(out).splitlines() == ["shop: 1 stream to sync"]


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_that_nobody_wants_is_not_shown_and_the_summary_is(*, terminal: bool) -> None:
    out = console(terminal=terminal)
    with Display("shop", shown=False, console=out) as display:
        display.show([USERS], 0)

    assert text(out) == ""
    display.summary(SyncResult([USERS]), Path("/lake"), console=out)
    assert "12,345,678" in text(out)


def test_on_a_terminal_the_progress_is_live() -> None:
    out, clock = console(terminal=True), Clock()
    reading = replace(USERS, status=Status.READING, name="[users]", commits=0)
    with Display("shop", console=out, clock=clock) as display:
        heads = [display._head(clock.now).plain]
        display.show([reading], 0)
        heads.append(display._head(clock.now).plain)
        display.show([reading], 4.0)
        clock.now = 1.0
        heads.append(display._head(clock.now).plain)
        clock.now = 5.0
        heads.append(display._head(clock.now).plain)
        display.show([USERS, ORDERS], 8.0)
        clock.now = 68.0
        out.print(display._progress())
        heads.append(display._head(clock.now).plain)

    assert heads == [
        " shop  0 rows in 0 s, inspecting the tables",
        " shop  12,345,670 rows in 0 s, starting Spark",
        " shop  12,345,670 rows in 1 s, no commit yet, next in 3 s",
        " shop  12,345,670 rows in 5 s, no commit yet, next is due",
        " shop  12,345,677 rows in 1 m 08 s, last commit 1 m 03 s ago, next is due",
    ]
    assert "orders" in text(out)


def test_the_head_does_not_wrap_in_a_narrow_terminal() -> None:
    out = console(terminal=True, width=30)
    display = Display("a pipeline with a long name", console=out)
    display.show([USERS], 0)
    out.print(display._progress())

    assert all(len(line) <= 30 for line in text(out).splitlines())
    assert len(text(out).splitlines()) == 3


def test_the_summary_says_what_was_asked_of_the_api() -> None:
    asked = replace(
        USERS, http=HttpMetrics({"2xx": 1500, "4xx": 4}, retries=4, waited_seconds=125.0, received_bytes=3_200_000)
    )
    said = summary(asked)

    assert "; 1,504 requests, 3.2 MB received, 4 retried, 2 m 05 s of waiting" in said
    assert "request" not in summary(USERS)


def test_a_stream_that_was_interrupted_before_a_position_is_said_to_begin_anew() -> None:
    waits = replace(USERS, status=Status.INTERRUPTED, read=0, completed_slices=0, total=0, planned=1, resumed=True)
    anew, goes_on = (replace(waits, started=True), replace(ORDERS, status=Status.INTERRUPTED, failure=None))
    run = RunFacts(interrupted="max_requests")

    alone, both, neither = (
        summary(*reports, run=run)
        for reports in ([anew, replace(anew, name="days")], [anew, goes_on], [replace(waits, resumed=False), goes_on])
    )

    note = "users: nothing of it is committed, because it was interrupted before its first checkpoint"
    assert "max_requests: the next sync reads users, days from the start\n" in alone
    assert (
        "max_requests: what was read is committed, and the next sync resumes there, but reads users from the start\n"
        in both
    )
    assert "max_requests: what was read is committed, and the next sync resumes there\n" in neither
    assert [note in said for said in (alone, both, neither)] == [True, True, False]
    assert [said.count("resumed") for said in (alone, both, neither)] == [0, 1, 1]


def test_a_limit_that_ends_while_partitions_are_listed_is_named_as_what_read_nothing() -> None:
    run = RunFacts(interrupted="max_requests")
    listing = replace(USERS, status=Status.INTERRUPTED, read=0, planned=0, http=HttpMetrics({"2xx": 7}))

    said, others = (summary(report, run=run) for report in (listing, replace(listing, http=HttpMetrics())))

    assert "users: none of its partitions was read, because it was interrupted while they were listed" in said
    assert "none of its partitions" not in others


def test_values_that_did_not_fit_are_noted() -> None:
    said = summary(replace(USERS, rejected=1))

    assert "\nusers: 1 row with values that did not fit; `_airbyte_meta.changes` has the fields" in said
    assert "Where they are strings in columns of another type, such as those of CSV, a manifest casts" in said
    assert "`schema_normalization: Default`" in said


def test_rows_without_a_key_are_noted() -> None:
    assert "\nusers: 2 rows without a valid primary key; each is stored as a row of its own\n" in summary(
        replace(USERS, apart=2)
    )


def test_rows_that_the_source_has_no_more_are_noted() -> None:
    def noted(stale: StaleCount) -> str:
        return summary(replace(USERS, stale=stale))

    flagged = StaleCount("soft", 20, 10, 1_200, 1_200)
    assert "\nusers: 1,200 rows that the source no longer has were flagged\n" in noted(flagged)
    deleted = replace(flagged, removal="hard", missing=1, removed=1)
    assert "\nusers: 1 row that the source no longer has was deleted\n" in noted(deleted)
    counted = replace(flagged, removal="report", missing=2, removed=0, retained_because="removal is report")
    assert "\nusers: 2 rows that the source no longer has were retained: removal is report\n" in noted(counted)
    assert "no more" not in noted(replace(counted, missing=0))
    assert "no more" not in noted(replace(counted, retained_because="too many", refused=True))


def test_a_stream_that_was_read_before_says_so() -> None:
    said = summary(replace(USERS, status=Status.REDUNDANT, read=0, window="May 10 to May 11"))

    assert "= redundant" in said
    assert "not visible" not in said
    assert "\nusers: May 10 to May 11 was read before; --force-rerun reads it again\n" in said
    assert how_far(replace(USERS, status=Status.REDUNDANT)) == "read before"


def test_a_stream_whose_source_has_not_changed_says_so() -> None:
    same = replace(USERS, unchanged=True, read=0, written=0, commits=0, completed_slices=1)
    out = console(terminal=False)
    with Display("shop", console=out) as display:
        display.show([replace(same, status=Status.READING, unchanged=False)], 1)
        display.show([same], 0)

    assert "= unchanged" in summary(same)
    assert "users: unchanged, 0 rows" in text(out)


def test_what_is_done_between_commits_is_on_the_screen() -> None:
    out = console(terminal=True, width=120)
    display = Display("shop", console=out)
    reading = replace(USERS, status=Status.READING, planned=1, completed_slices=0, pages=0, reading=1)
    display.show([reading, ORDERS], 0)
    display.doing = lambda: {
        "users": StreamActivity(3, time.time() + 7.9, "connection refused"),
        "orders": StreamActivity(9),
    }
    out.print(display._progress())

    users, orders = (next(line for line in text(out).splitlines() if name in line) for name in ("users", "orders"))
    assert "first page, 3 pages more, retrying in 8 s: connection refused" in users
    assert "9 pages" not in orders
