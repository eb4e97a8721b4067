"""A timeline of a stream's commits: a lane per run, where runs were interrupted, and where the next one resumed."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate, groupby, pairwise

from msgspec import Struct

from cdk.base.values import Json
from cdk.base.wording import counted
from cdk.cli.state.command import Entry
from cdk.lake.delta.state_blobs import number

WIDTH, _MARGIN, _TOP, _LANE = 960, 80, 70, 26
"""Pixels: the width of the picture, its left margin for names, the space above the lanes for rows, and a lane."""
_LABEL = 260
"""Pixels for the text at the end of a lane."""
_GAPS, _NARROWEST = 200, 200
"""Pixels of all gaps between runs together, and the least width of all runs together."""


class Dot(Struct, frozen=True):
    """A commit, and its description."""

    x: int
    title: str


class Lane(Struct, frozen=True):
    """A run, or a user's edit, from `start` to `end`. kind: `complete`, `interrupted`, `edit`, or empty if unknown.

    came_from: the end of the previous lane if that was interrupted and this run resumed from its last state; else None.
    """

    name: str
    kind: str
    y: int
    start: int
    end: int
    dots: Sequence[Dot]
    began: datetime
    words: str
    outcome: str
    came_from: int | None = None


class Timeline(Struct, frozen=True):
    """Lanes, oldest first. rows: the cumulated rows of the commits, as the points of an SVG polyline."""

    width: int
    height: int
    lanes: Sequence[Lane]
    rows: str
    written: int


class _Run(Struct, frozen=True):
    """The commits of a run, oldest first, and the stream's part of its report, if there is one."""

    entries: Sequence[Entry]
    times: Sequence[datetime]
    report: Json
    newest: bool

    @property
    def duration(self) -> timedelta:
        return self.times[-1] - self.times[0]

    @property
    def kind(self) -> str:
        """The kind of the lane: whether the run read the stream to its end, by its last commit."""
        last = self.entries[-1]
        if not last.commit.sync:
            return "edit"
        return "complete" if last.commit.complete else "interrupted"

    @property
    def state(self) -> str:
        """The last state that its commits wrote, in words."""
        moved = [entry.commit.state for entry in self.entries if entry.commit.state is not None]
        return f"state {number(moved[-1])}" if moved else "the rows alone"

    @property
    def outcome(self) -> str:
        """How the run ended, in words."""
        error = self.report.get("error")
        match self.kind:
            case "edit":
                return what(self.entries[-1])
            case "interrupted" if error:
                return f"failed at {self.state}: {error['message']}"
            case "interrupted" if self.newest and not self.report:
                return f"at {self.state}: interrupted, or still running"
            case kind:
                return f"{kind} at {self.state}"


def timeline(entries: Sequence[Entry], reports: Mapping[str, Json], stream: str) -> Timeline | None:
    """Draw commits, passed newest first; None if no commit has a time. reports: those of their runs, by sync id."""
    dated = [entry for entry in reversed(entries) if entry.commit.at is not None]
    if not dated:
        return None
    grouped = [list(group) for _, group in groupby(dated, lambda entry: entry.commit.sync or entry.commit.version)]
    runs = [_run(group, reports, stream, newest=group[-1] is dated[-1]) for group in grouped]
    starts, scale, least = _axis(runs)

    def at(index: int, time: datetime) -> int:
        return round(starts[index] + least / 2 + (time - runs[index].times[0]).total_seconds() * scale)

    lanes: list[Lane] = []
    for index, run in enumerate(runs):
        began, ended = run.times[0], run.times[-1]
        resumes = bool(lanes) and lanes[-1].kind == "interrupted" and run.kind != "edit"
        rows = sum(entry.commit.rows or 0 for entry in run.entries)
        count = counted(len(run.entries), "commit")
        words = [f"resumed from {runs[index - 1].state}"] if resumes else []
        dots = [Dot(at(index, entry.commit.at), _title(entry)) for entry in run.entries if entry.commit.at]
        lanes.append(
            Lane(
                run.entries[0].commit.sync[:8],
                run.kind,
                _TOP + index * _LANE + _LANE // 2,
                at(index, began),
                at(index, ended),
                dots,
                began,
                ", ".join([*words, count, f"{rows:,} rows", run.outcome]),
                run.outcome,
                lanes[-1].end if resumes else None,
            )
        )
    written = [*accumulate(entry.commit.rows or 0 for entry in dated)]
    xs = [dot.x for lane in lanes for dot in lane.dots]
    return Timeline(WIDTH, _TOP + len(runs) * _LANE, lanes, " ".join(_steps(xs, written)), written[-1])


def _run(group: Sequence[Entry], reports: Mapping[str, Json], stream: str, *, newest: bool) -> _Run:
    times = [entry.commit.at for entry in group if entry.commit.at is not None]
    streams = reports.get(group[0].commit.sync, {}).get("streams", [])
    # Sorted, because the clocks of machines differ; the order of the log stays that of the commits.
    return _Run(group, sorted(times), next((each for each in streams if each["name"] == stream), {}), newest)


def _axis(runs: Sequence[_Run]) -> tuple[list[float], float, float]:
    """Return the x of each run's start, pixels per second, and the least width of a run. All gaps are equally wide."""
    gap, least = _GAPS / len(runs), _NARROWEST / len(runs)
    seconds = sum(run.duration.total_seconds() for run in runs)
    scale = (WIDTH - _MARGIN - _LABEL - _GAPS - _NARROWEST) / seconds if seconds else 0.0
    widths = [run.duration.total_seconds() * scale + least + gap for run in runs]
    return [_MARGIN + start for start in accumulate(widths[:-1], initial=0.0)], scale, least


def _steps(xs: Sequence[int], written: Sequence[int]) -> Iterator[str]:
    """Yield the corners of the polyline of rows."""
    height = (_TOP - 10) / max(1, written[-1])
    ys = [round(_TOP - rows * height) for rows in written]
    yield f"{xs[0]},{_TOP} {xs[0]},{ys[0]}"
    for (_, before), (x, y) in pairwise(zip(xs, ys, strict=True)):
        yield f"{x},{before} {x},{y}"


def _title(entry: Entry) -> str:
    commit = entry.commit
    state = what(entry) if commit.state is None else f"state {number(commit.state)}"
    rows = "rows unknown" if commit.rows is None else f"{commit.rows:,} rows"
    return f"{commit.at:%Y-%m-%d %H:%M:%S}: version {commit.version}, {state}, {rows}"


def what(entry: Entry) -> str:
    """The user's edit behind a commit, or the operation that its writer names."""
    return entry.commit.edit or entry.commit.operation
