"""The display of a sync: live progress on stderr, and a summary table at the end."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from rich import filesize
from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from cdk.base.values import JsonValue
from cdk.base.wording import counted
from cdk.cli.printed_table import add_figures, plain_table, wide_console
from cdk.cli.sync.json_log import JsonLog
from cdk.cli.sync.stream_table import MARKS, Pace, doing_text, duration_text, how_far, screen
from cdk.lake.delta.write_modes import traits_of
from cdk.rest.http.activity import StreamActivity
from cdk.rest.http.metrics import HttpMetrics
from cdk.sync.reports.counts import StaleCount
from cdk.sync.reports.run_report import SyncResult
from cdk.sync.reports.stream_report import Status, StreamReport

_LINES_EVERY = 5.0
"""The least seconds between progress lines in a file or a log, where they cannot be redrawn."""

_UNCHANGED = ("=", "dim")


class Display:
    """Shows a sync while it runs: a live table on a terminal, occasional lines elsewhere.

    shown: False disables the progress, but not the summary. log: receives everything instead of the terminal or file.
    doing: called several times a second; returns what is in progress, by stream.
    """

    def __init__(
        self,
        pipeline: str,
        *,
        shown: bool = True,
        log: JsonLog | None = None,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pipeline, self._shown, self._clock = pipeline, shown, clock
        self._console, self._log = console or Console(stderr=True), log
        self._redraws = shown and log is None and self._console.is_terminal
        self._started = clock()
        self._committed: float | None = None
        self._commit_due: float | None = None
        self._reports: Sequence[StreamReport] = ()
        self._paces: dict[str, Pace] = {}
        self._printed: dict[str, StreamReport] = {}
        self._printed_at = self._started
        self._spinner = Spinner("dots")
        self.doing: Callable[[], Mapping[str, StreamActivity]] = dict
        self._ending = ""
        self._live = Live(get_renderable=self._progress, console=self._console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        if self._redraws:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._redraws:
            self._live.stop()

    def show(self, reports: Sequence[StreamReport], seconds: float) -> None:
        """Update the progress of the streams. seconds: until the next commit is due; 0 if no task is running."""
        now = self._clock()
        if sum(report.commits for report in reports) > sum(report.commits for report in self._reports):
            self._committed = now
        self._commit_due = now + seconds if seconds else None
        before = {report.name: report for report in self._reports}
        for report in reports:
            if report.planned:
                pace = self._paces.setdefault(report.name, Pace(now, now))
                if report.pages != before.get(report.name, report).pages:
                    pace.progressed = now
        if self._shown and not self._redraws:
            self._print_changes(reports, now)
        self._reports = reports

    def note_ending(self, why: str) -> bool:
        """Show from now on that the sync is stopping early. Returns False if nothing shows that, so the caller must."""
        self._ending = why
        if self._log is not None:
            self._log.note(logging.WARNING, f"{why}: ending at the next checkpoints; a second signal ends it at once")
        return self._redraws or self._log is not None

    def _print_changes(self, reports: Sequence[StreamReport], now: float) -> None:
        """Print a line for each stream that has ended, and every few seconds one for each with new commits."""
        if not self._reports:
            self._line(f"{self._pipeline}: {counted(len(reports), 'stream')} to sync")
        due = now - self._printed_at >= _LINES_EVERY
        for report in reports:
            known = self._printed.get(report.name)
            ended = report.status is not Status.READING and (known is None or known.status is Status.READING)
            moved = report.commits != (known.commits if known else 0)
            if ended or (due and moved):
                self._printed[report.name] = report
                self._printed_at = now
                if report.status is Status.FAILED and not report.pages and self._log is None:
                    continue  # its error, before the first page, was logged in the previous line
                self._line(f"{report.name}: {report.outcome}{_counts(report, self._remaining(report, now))}", report)

    def _line(self, text: str, report: StreamReport | None = None) -> None:
        if self._log is None:
            self._console.print(Text(text), soft_wrap=True)
        elif report is None:
            self._log.note(logging.INFO, text)
        else:
            self._log.note(logging.INFO, text, stream=report.name, **_figures(report))

    def _remaining(self, report: StreamReport, now: float) -> float | None:
        pace = self._paces.get(report.name)
        return None if pace is None else pace.remaining(report, now)

    def _progress(self) -> Group:
        now, size = self._clock(), self._console.size
        head = self._head(now)
        head.truncate(max(8, size.width - 2), overflow="ellipsis")  # the spinner would wrap it
        self._spinner.update(text=head)
        # Two lines less: the head, and the line of the terminal's cursor below.
        doing = {name: doing_text(activity, time.time()) for name, activity in self.doing().items()}
        table, others = screen(self._reports, self._paces, now, width=size.width, height=size.height - 2, doing=doing)
        return Group(self._spinner, *([table] if self._reports else []), *([others] if others else []))

    def _head(self, now: float) -> Text:
        written = sum(report.written for report in self._reports)
        head = Text(f" {self._pipeline}  {counted(written, 'row')} in {duration_text(now - self._started)}")
        if not self._reports:
            head.append(", inspecting the tables", "dim")
        elif self._committed is not None:
            head.append(f", last commit {duration_text(now - self._committed)} ago", "dim")
        else:
            head.append(", starting Spark" if self._commit_due is None else ", no commit yet", "dim")
        if self._ending:
            head.append(f", {self._ending}: ending at the next checkpoints", "yellow")
        elif self._commit_due is not None:
            remaining = self._commit_due - now
            head.append(f", next in {duration_text(remaining)}" if remaining >= 1 else ", next is due", "dim")
        return head

    def summary(self, result: SyncResult, target: str | Path, *, console: Console | None = None) -> None:
        """Print the result of each stream on stdout, or write it to the log."""
        if self._log is None:
            self._print_summary(result, target, wide_console(console))
        else:
            self._log_summary(self._log, result)

    def _print_summary(self, result: SyncResult, target: str | Path, console: Console) -> None:
        table = plain_table()
        table.add_column("stream", overflow="fold")
        table.add_column("mode", min_width=len("full_refresh,"))
        add_figures(table, "read", "written", "skipped", "total")
        table.add_column("", min_width=len("= redundant"))
        for report in result.streams:
            mark, colour = _UNCHANGED if report.unchanged else MARKS[report.status]
            table.add_row(
                Text(report.name),
                f"{report.sync_mode}, {report.write_mode}",
                *(f"{n:,}" for n in (report.read, report.written, report.skipped, report.total)),
                Text(
                    f"{mark} {report.outcome}{', resumed' if report.resumed and not report.nothing_to_resume else ''}",
                    colour,
                ),
            )
        console.print(table)
        for report in result.streams:
            for note in _notes(report):
                console.print(Text(f"{report.name}: {note}", "yellow"), soft_wrap=True)
            if report.failure is not None:
                console.print(Text(f"{report.name}: {report.failure.message}", "red"), soft_wrap=True)
        if text := _repeated(result.streams):
            console.print(Text(text, "yellow"), soft_wrap=True)
        if result.run.interrupted:
            text = f"interrupted by {result.run.interrupted}: {_resumption(result.streams)}"
            console.print(Text(text, "yellow"), soft_wrap=True)
        if result.traces is not None:
            console.print(Text(f"in full, with tracebacks: {result.traces}", "dim"), soft_wrap=True)
        commits = sum(report.commits for report in result.streams)
        seconds = self._clock() - self._started
        requests = _requests(sum((report.http for report in result.streams), result.run.http))
        line = Text(f"{self._pipeline} → {target}: {counted(commits, 'commit')} in {seconds:.1f} s{requests}", "dim")
        console.print(line, soft_wrap=True)

    def _log_summary(self, log: JsonLog, result: SyncResult) -> None:
        if not self._shown:
            self._print_changes(result.streams, self._clock())
        for report in result.streams:
            for note in _notes(report):
                log.note(logging.WARNING, note, stream=report.name)
        status, http = result.to_json()["status"], sum((each.http for each in result.streams), result.run.http)
        seconds = self._clock() - self._started
        text = f"{self._pipeline}: {status} in {seconds:.1f} s{_requests(http)}"
        log.note(logging.INFO if result.ok else logging.ERROR, text, status=status, seconds=round(seconds, 3))


def _figures(report: StreamReport) -> Mapping[str, JsonValue]:
    """The fields of a log line about a stream."""
    figures = {name: getattr(report, name) for name in ("read", "written", "skipped", "rejected", "commits", "pages")}
    failed = {} if report.failure is None else {"failure_type": report.failure.failure_type}
    return {"status": report.outcome, **figures, "requests": report.http.requests, **failed}


def _counts(report: StreamReport, remaining: float | None) -> str:
    if report.status is Status.FAILED:
        # Rows that it read before are not committed yet; the summary has the figures.
        return ""
    skipped = f", {report.skipped:,} skipped" if report.skipped else ""
    far = how_far(report, remaining)
    return f", {counted(report.written, 'row')}{skipped}, {far}, {counted(report.commits, 'commit')}"


_CASTS = (
    "Where they are strings in columns of another type, such as those of CSV, a manifest casts them by "
    "`schema_normalization: Default` of a RecordSelector; else correct the schema"
)


def _notes(report: StreamReport) -> Iterator[str]:
    if report.nothing_to_resume:
        yield (
            "nothing of it is committed, because it was interrupted before its first checkpoint, or has none. If this "
            "happens each time, set a longer limit; a manifest's stream without a cursor resumes if it overwrites its "
            "table, or has a primary key (append_dedup)"
        )
    if report.ended_while_listing:
        yield (
            "none of its partitions was read, because it was interrupted while they were listed. If this happens each "
            "time, set a longer limit"
        )
    if report.hidden:
        yield "the new rows are not visible until they are complete"
    if report.restarted:
        traits = traits_of(report.write_mode)
        twice = (
            ""
            if traits.merges or traits.hidden_until_complete
            else "; rows of these that were committed before are duplicated"
        )
        yield f"{counted(report.restarted, 'slice')} read again from the start: the saved page tokens expired{twice}"
    if report.rejected:
        rows = counted(report.rejected, "row")
        yield f"{rows} with values that did not fit; `_airbyte_meta.changes` has the fields and the values. {_CASTS}"
    if report.apart:
        yield f"{counted(report.apart, 'row')} without a valid primary key; each is stored as a row of its own"
    # A refused removal is shown as the error of the stream.
    if report.stale is not None and report.stale.missing and not report.stale.refused:
        yield _about_stale(report.stale)
    if report.status is Status.REDUNDANT:
        yield f"{report.window} was read before; --force-rerun reads it again"


def _resumption(reports: Sequence[StreamReport]) -> str:
    """What the next sync does after an interrupted one, in words."""
    names = ", ".join(report.name for report in reports if report.nothing_to_resume)
    if not names:
        return "what was read is committed, and the next sync resumes there"
    if all(report.nothing_to_resume for report in reports if report.status is Status.INTERRUPTED):
        return f"the next sync reads {names} from the start"
    return f"what was read is committed, and the next sync resumes there, but reads {names} from the start"


def _repeated(reports: Sequence[StreamReport]) -> str:
    """A warning that a further sync after a failed stream duplicates the rows of others; empty if it does not."""
    names = [report.name for report in reports if report.status is Status.DONE and report.repeats_rows]
    if not names or not any(report.status is Status.FAILED for report in reports):
        return ""
    return (
        f"a further sync adds every row of {', '.join(names)} again (full_refresh, append): to read only what failed, "
        "name it with --stream"
    )


def _about_stale(stale: StaleCount) -> str:
    rows = f"{counted(stale.missing, 'row')} that the source no longer has"
    if stale.retained_because:
        return f"{rows} were retained: {stale.retained_because}"
    return f"{rows} {'was' if stale.missing == 1 else 'were'} {'deleted' if stale.removal == 'hard' else 'flagged'}"


def _requests(http: HttpMetrics) -> str:
    """The number of requests, their size, retries and waits, in words; empty without requests."""
    if not http.requests:
        return ""
    again = f", {http.retries:,} retried" if http.retries else ""
    waited = f", {duration_text(http.waited_seconds)} of waiting" if http.waited_seconds >= 1 else ""
    return f"; {counted(http.requests, 'request')}, {filesize.decimal(http.received_bytes)} received{again}{waited}"
