"""The live table of a sync: the progress of each stream, one row per stream."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from cdk.base.wording import counted
from cdk.rest.http.activity import StreamActivity
from cdk.sync.reports.stream_report import Status, StreamReport

MARKS = {
    Status.READING: ("…", "cyan"),
    Status.DONE: ("✓", "green"),
    Status.FAILED: ("✗", "red"),
    Status.INTERRUPTED: ("~", "yellow"),
    Status.REDUNDANT: ("=", "dim"),
}

NOTHING: Mapping[str, str] = {}
_GAP = 2
_LEAST_NAME, _LEAST_FAR = 12, 22
_WITH_COMMITS = 72
_WITH_RATE = 56
"""The least widths of a terminal, in columns, at which the table also shows commits, and rows per second."""


class Pace(Struct):
    """The times when a stream started to read and when it last made progress, in seconds of the same clock."""

    started: float
    progressed: float

    def rate(self, rows: int) -> float | None:
        """Rows per second up to the last progress; None before the first."""
        seconds = self.progressed - self.started
        return rows / seconds if rows and seconds > 0 else None

    def remaining(self, report: StreamReport, now: float) -> float | None:
        """Estimated seconds to the end at the pace so far; None without a sound estimate, or once it has passed."""
        if not (report.all_planned and report.completed_slices):
            return None
        each = (self.progressed - self.started) / report.completed_slices
        remaining = each * (report.planned - report.completed_slices) - (now - self.progressed)
        return remaining if remaining > 0 else None


def how_far(report: StreamReport, remaining: float | None = None) -> str:
    """The progress of a stream in words, with percentage and remaining time once all its slices are planned.

    `12/30+ slices`: more will be planned while these are read. A stream with one slice shows only its page.
    """
    done, planned = report.completed_slices, report.planned
    if report.status is Status.REDUNDANT:
        return "read before"
    if report.status is Status.DONE:
        return counted(done, "slice") if done > 1 else counted(report.pages, "page")
    if planned <= 1:
        return f"page {report.pages}" if report.pages else "first page" if report.reading else "waiting"
    if not report.all_planned:
        return f"{done:,}/{planned:,}+ slices"
    share = f"{done:,}/{planned:,} slices, {100 * done // planned}%"
    if remaining is None or report.status is not Status.READING:
        return share
    return f"{share}, {duration_text(remaining)} left"


def doing_text(doing: StreamActivity | None, now: float) -> str:
    """The activity of a stream since its last result: its pages, and a retry it waits for. now: seconds since 1970.

    Empty without any.
    """
    if doing is None:
        return ""
    parts = [f"{counted(doing.pages, 'page')} more"] if doing.pages else []
    if doing.until > now:
        parts.append(f"retrying in {duration_text(max(1.0, doing.until - now))}: {doing.why}")
    return ", ".join(parts)


def duration_text(seconds: float) -> str:
    """Format a duration: `18 s`, `2 m 05 s`, `1 h 20 m`, `3 d 04 h`."""
    rounded = round(seconds)
    if rounded < 60:  # noqa: PLR2004 - seconds of a minute
        return f"{rounded} s"
    minutes, rest = divmod(rounded, 60)
    if minutes < 60:  # noqa: PLR2004 - minutes of an hour
        return f"{minutes} m {rest:02} s"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest:02} m" if hours < 48 else f"{hours // 24} d {hours % 24:02} h"  # noqa: PLR2004 - two days


def screen(
    reports: Sequence[StreamReport],
    paces: dict[str, Pace],
    now: float,
    *,
    width: int,
    height: int,
    doing: Mapping[str, str] = NOTHING,
) -> tuple[Table, Text | None]:
    """Return a table with a row per stream, in the order of the source, and a line about those that do not fit.

    width, height: of the terminal. doing: what is in progress, in words, by stream. If streams do not fit, those that
    are being read have priority, then failed ones, then those that are still to be read.
    """
    shown = _fitting(reports, height - 1)
    heads = ["", "stream", "rows", *["rows/s"] * (width >= _WITH_RATE), *["commits"] * (width >= _WITH_COMMITS), ""]
    rows = [
        _row(report, paces.get(report.name), now, doing.get(report.name, ""), columns=len(heads)) for report in shown
    ]
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for head, room in zip(heads, _widths(heads, rows, width), strict=True):
        right = head in {"rows", "rows/s", "commits"}
        table.add_column(head, width=room, no_wrap=True, overflow="ellipsis", justify="right" if right else "left")
    for row in rows:
        table.add_row(*row)
    return table, _others([report for report in reports if report not in shown])


def _widths(heads: Sequence[str], rows: Sequence[Sequence[Text]], width: int) -> list[int]:
    """The widths of the columns. On a narrow terminal, the progress is truncated, then the names, but never figures."""
    widths = [max([cell_len(head), *(row[n].cell_len for row in rows)]) for n, head in enumerate(heads)]
    over = sum(widths) + _GAP * len(heads) - width
    for n, least in ((len(heads) - 1, _LEAST_FAR), (1, _LEAST_NAME), (len(heads) - 1, 1)):
        cut = min(max(over, 0), max(widths[n] - least, 0))
        widths[n], over = widths[n] - cut, over - cut
    return widths


def _row(report: StreamReport, pace: Pace | None, now: float, doing: str, *, columns: int) -> list[Text]:
    mark, colour = MARKS[report.status]
    per_second = None if pace is None else pace.rate(report.written)
    remaining = None if pace is None else pace.remaining(report, now)
    figures = [f"{report.written:,}", "" if per_second is None else f"{per_second:,.0f}", f"{report.commits:,}"]
    far = how_far(report, remaining) + (", resumed" if report.resumed else "")
    if doing and report.status is Status.READING:
        far += f", {doing}"
    cells = [Text(mark, colour), Text(report.name), *map(Text, figures[: columns - 3]), Text(far)]
    if report.status is Status.FAILED:
        for cell in cells:
            cell.stylize(colour)
    return cells


def _fitting(reports: Sequence[StreamReport], room: int) -> Sequence[StreamReport]:
    if len(reports) <= room:
        return reports
    # One row less, for the line about the streams that are left out.
    first = sorted(range(len(reports)), key=lambda n: (_urgency(reports[n]), n))[: max(1, room - 1)]
    return [reports[n] for n in sorted(first)]


def _urgency(report: StreamReport) -> int:
    if report.status is Status.READING:
        return 0 if report.reading else 2
    return 1 if report.status is Status.FAILED else 3


def _others(left_out: Sequence[StreamReport]) -> Text | None:
    if not left_out:
        return None
    parts = [
        Text(f"{n} {'to read' if status is Status.READING else status}", "red" if status is Status.FAILED else "dim")
        for status in (Status.READING, Status.DONE, Status.FAILED, Status.INTERRUPTED, Status.REDUNDANT)
        if (n := sum(report.status is status for report in left_out))
    ]
    line = Text(f"… {len(left_out)} more: ", "dim", no_wrap=True, overflow="ellipsis")
    return line.append_text(Text(", ", "dim").join(parts))
