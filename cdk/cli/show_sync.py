"""What a person sees of a sync: live progress on stderr, and at the end a table of what was done."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from cdk.spark.stream_run import Status, StreamReport
from cdk.spark.sync import SyncResult

_MARKS = {Status.READING: ("…", "cyan"), Status.DONE: ("✓", "green"), Status.FAILED: ("✗", "red")}

# Nothing knows how wide a file or a log is read; figures must not be cut there.
_FILE_WIDTH = 200


class Display:
    """Shows a sync while it runs: a live table on a terminal, a line for each change of a stream elsewhere."""

    def __init__(
        self, pipeline: str, *, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pipeline, self._clock = pipeline, clock
        self._console = console or Console(stderr=True)
        self._begun = clock()
        self._committed: float | None = None
        self._reports: Sequence[StreamReport] = ()
        self._live = Live(get_renderable=self._progress, console=self._console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def show(self, reports: Sequence[StreamReport]) -> None:
        """Take note of how the streams stand."""
        if sum(report.commits for report in reports) > sum(report.commits for report in self._reports):
            self._committed = self._clock()
        if not self._console.is_terminal:
            for before, now in zip(self._reports or reports, reports, strict=True):
                if now is not before and now != before:
                    self._console.print(Text(f"{now.name}: {now.status}, {_counts(now)}"), soft_wrap=True)
        self._reports = reports

    def _progress(self) -> Group:
        seconds = self._clock() - self._begun
        written = sum(report.written for report in self._reports)
        head = Text(f" {self._pipeline}  {written:,} rows in {seconds:.0f} s")
        if self._committed is None:
            head.append(", no commit yet", "dim")
        else:
            head.append(f", last commit {self._clock() - self._committed:.0f} s ago", "dim")
        table = Table.grid(padding=(0, 2))
        for report in self._reports:
            mark, colour = _MARKS[report.status]
            resumed = "resumed" if report.resumed else ""
            table.add_row(Text(mark, colour), Text(report.name), _counts(report), resumed)
        return Group(Spinner("dots", head), table)

    def summary(self, result: SyncResult, target: Path, *, console: Console | None = None) -> None:
        """Print what was done, stream by stream, on stdout."""
        console = console or Console()
        if not console.is_terminal:
            console.width = max(console.width, _FILE_WIDTH)
        table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("stream", overflow="fold")
        table.add_column("mode", min_width=len("full_refresh,"))
        for name in ("read", "written", "skipped", "total"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("", min_width=len("✗ failed"))
        for report in result.streams:
            mark, colour = _MARKS[report.status]
            table.add_row(
                Text(report.name),
                f"{report.sync_mode}, {report.write_mode}",
                *(f"{n:,}" for n in (report.read, report.written, report.skipped, report.total)),
                Text(f"{mark} {report.status}{', resumed' if report.resumed else ''}", colour),
            )
        console.print(table)
        for report in result.streams:
            for note in _notes(report):
                console.print(Text(f"{report.name}: {note}", "yellow"), soft_wrap=True)
            if report.failure is not None:
                console.print(Text(f"{report.name}: {report.failure.message}", "red"), soft_wrap=True)
        commits = sum(report.commits for report in result.streams)
        seconds = self._clock() - self._begun
        line = Text(f"{self._pipeline} → {target}: {commits} commits in {seconds:.1f} s", "dim")
        console.print(line, soft_wrap=True)


def _counts(report: StreamReport) -> str:
    skipped = f", {report.skipped:,} skipped" if report.skipped else ""
    return f"{report.written:,} rows{skipped}, {report.slices:,} slices, {report.commits:,} commits"


def _notes(report: StreamReport) -> Iterator[str]:
    if report.hidden:
        yield "the new rows are not visible before they are complete"
    if report.restarted:
        yield f"{report.restarted} slices read again: the source refused their page token"
