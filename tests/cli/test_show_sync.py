from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from cdk.cli.show_sync import Display
from cdk.spark.epoch import Failure
from cdk.spark.stream_run import Status, StreamReport
from cdk.spark.sync import SyncResult

USERS = StreamReport(
    "users",
    Status.DONE,
    "full_refresh",
    "overwrite",
    read=12_345_678,
    written=12_345_670,
    skipped=1_234_567,
    slices=9,
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


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def console(*, terminal: bool, width: int = 80) -> Console:
    return Console(file=StringIO(), width=width, force_terminal=terminal, color_system=None, legacy_windows=False)


def text(of: Console) -> str:
    assert isinstance(of.file, StringIO)
    return of.file.getvalue()


def summary(*reports: StreamReport, target: str = "/lake", terminal: bool = False, pipeline: str = "shop") -> str:
    clock = Clock()
    display = Display(pipeline, console=console(terminal=False), clock=clock)
    clock.now = 12.34
    out = console(terminal=terminal)
    display.summary(SyncResult(reports), Path(target), console=out)
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
    assert "\norders: 2 slices read again: the source refused their page token\n" in said
    assert "\norders: the source is down\n" in said
    assert "traceback" not in said


def test_an_overwrite_that_is_not_complete_is_said_to_be_hidden() -> None:
    failed = replace(USERS, status=Status.FAILED)

    assert "\nusers: the new rows are not visible before they are complete\n" in summary(failed)
    assert "not visible" not in summary(USERS, ORDERS)


def test_names_and_messages_are_shown_as_they_are() -> None:
    strange = replace(USERS, name="[red]users[/]", failure=Failure("bad [/value] " + "x" * 250, "system_error", ""))
    said = summary(strange, target="/data/[bold]/lake[/x]", pipeline="[dim]p")

    assert "[red]users[/] " in said
    assert "\n[red]users[/]: bad [/value] " + "x" * 250 + "\n" in said
    assert "[dim]p → /data/[bold]/lake[/x]: 3 commits" in said


def test_a_long_name_is_folded_and_not_cut() -> None:
    said = summary(replace(USERS, name="n" * 100), terminal=True)

    assert sum(len(word) for word in said.split() if set(word) == {"n"}) == 100


def test_elsewhere_than_on_a_terminal_each_change_of_a_stream_is_a_line() -> None:
    out = console(terminal=False)
    users = replace(USERS, name="[users]", status=Status.READING, written=0, skipped=0, slices=0, commits=0)
    orders = replace(ORDERS, status=Status.READING)
    moved = replace(users, written=1500, skipped=2, slices=1, commits=1)
    with Display("shop", console=out) as display:
        display.show([users, orders])
        assert text(out) == ""
        display.show([moved, orders])
        display.show([moved, replace(orders)])
        display.show([replace(moved, status=Status.DONE), ORDERS])

    assert text(out).splitlines() == [
        "[users]: reading, 1,500 rows, 2 skipped, 1 slices, 1 commits",
        "[users]: done, 1,500 rows, 2 skipped, 1 slices, 1 commits",
        "orders: failed, 7 rows, 0 slices, 1 commits",
    ]


def test_on_a_terminal_the_progress_is_live_and_leaves_nothing_behind() -> None:
    out, clock = console(terminal=True), Clock()
    with Display("shop", console=out, clock=clock) as display:
        display.show([replace(USERS, status=Status.READING, name="[users]", commits=0)])
        out.print(display._progress())
        clock.now = 5.0
        display.show([USERS, ORDERS])
        clock.now = 8.0
        out.print(display._progress())

    said = text(out)
    assert "[users]" in said
    assert "12,345,670 rows in 0 s, no commit yet" in said
    assert "12,345,677 rows in 8 s, last commit 3 s ago" in said
    assert "resumed" in said
