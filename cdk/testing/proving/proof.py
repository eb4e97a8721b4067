"""prove: kills a connector's syncs at commits and at random, resumes them, and compares them with undisturbed ones."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

from msgspec import Struct

from cdk.base.errors import FatalError
from cdk.lake.admin.verify import verify_tables
from cdk.lake.storage.object_store import folder_at
from cdk.streams.source import Source
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.settings.stream_plan import StreamPlan, plan_streams
from cdk.testing.proving.differences import Difference, Key, difference
from cdk.testing.proving.trials import EACH_PAGE, RARELY, Subject, TrialRun, Trials, rows

RANDOM = "random"
POINTS = ("before_state_blob", "after_state_blob", "after_commit", "done")
"""The crash points around a commit, in order."""

_AT_COMMITS, _AT_RANDOM = 40, 10
_LEAST_SHARE, _BUDGET = 0.2, 60.0
"""Of these kills, the least share to run, and otherwise the seconds that all of them may take."""

_MOST_SECONDS, _MOST_TIMES = 20, 50
"""A sync that takes longer than so many seconds plus so many times the first sync does not end: its state goes back."""


@dataclass(frozen=True)  # pydantic describes it to assistants, and it does not know structs
class Kill:
    """One kill, and its outcome after a further sync resumed.

    point: where the sync was killed; `after_commit:3` is the third time that this point is reached. lost, duplicated,
    changed: numbers of rows, as in `Difference`. receipts: the number of receipts of all commits, which add up if there
    is no problem. problems: sentences; empty if all is well.
    """

    point: str
    lost: int = 0
    duplicated: int = 0
    changed: int = 0
    receipts: int = 0
    problems: Sequence[str] = ()


@dataclass(frozen=True)
class Proof:
    """The outcome of killing a connector's syncs.

    rows: the number of rows of each stream in an undisturbed sync. commits: the number of commits in a sync that
    commits after each page. problems: of the syncs that were not killed. warnings: of the first of them, for example
    about records that all of them may lack. notes: on how it was proved.
    """

    rows: Mapping[str, int]
    commits: int
    kills: Sequence[Kill] = ()
    problems: Sequence[str] = ()
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()

    @property
    def proven(self) -> bool:
        """Whether no row was lost or duplicated, and each receipt adds up."""
        return not self.problems and not any(kill.problems for kill in self.kills)


def prove(
    subject: Subject,
    *,
    at_commits: int | None = None,
    at_random: int | None = None,
    seed: int = 0,
    watch: Callable[[int], None] = lambda _: None,
) -> Proof:
    """Kill syncs of a connector, and examine what a further sync makes of each.

    at_commits: at how many crash points around commits to kill; if there are more, points at equal distances are used.
    at_random: at how many random times to kill, drawn with `seed`. None: 40 and 10, or fewer if syncs take long, so
    that all kills together take about a minute. watch: called after each kill, with the total number of kills.
    Raises FatalError: when a sync that is not killed fails.
    """
    trials = Trials(subject)
    with TemporaryDirectory(prefix="spark-cdk-prove-") as home:
        target, stepwise = Path(home) / "target", Path(home) / "stepwise"
        first = _undisturbed(trials, target, RARELY)
        trials.limit = _MOST_SECONDS + _MOST_TIMES * first.seconds
        expected = rows(target)
        run = _undisturbed(trials, stepwise, EACH_PAGE)
        counts, commits = {stream: count.total() for stream, count in expected.items()}, run.reached["after_commit"]
        differ = partial(_differences, expected, _keys(subject, target))
        problems = [f"with a commit after each page: {problem}" for problem in _problems(differ(rows(stepwise)))]
        further = trials.sync(target).failure
        again = [further] if further else _problems(differ(rows(target)))
        problems += [f"after a further sync: {problem}" for problem in again]
        if not sum(counts.values()):
            problems.append("found no row in an undisturbed sync, expected some: there is nothing that could be lost")
        if problems:
            # A problem without a kill would appear after each kill, too.
            return Proof(counts, commits, problems=problems, warnings=first.warnings, notes=subject.notes)
        seconds, notes = run.seconds / 2 + first.seconds, list(subject.notes)
        share = affordable_share(seconds)
        if share < 1 and None in (at_commits, at_random):
            notes.append(
                f"one kill takes about {seconds:.0f} s, so there are fewer: --at-commits {_AT_COMMITS} "
                f"--at-random {_AT_RANDOM} has as many as there are where syncs are short"
            )
        at_commits = round(_AT_COMMITS * share) if at_commits is None else at_commits
        at_random = round(_AT_RANDOM * share) if at_random is None else at_random
        points = list(_kill_points(run, at_commits, at_random, random.Random(seed)))  # noqa: S311 - no secret
        kills = []
        for point in points:
            # One after the other, since a connector may have files of its own, which concurrent syncs would share.
            folder = Path(home) / "killed"
            kills.append(_killed(subject, trials, folder, differ, point))
            watch(len(points))
            rmtree(folder, ignore_errors=True)
        return Proof(counts, commits, kills, warnings=first.warnings, notes=notes)


def _undisturbed(trials: Trials, folder: Path, interval: str) -> TrialRun:
    run = trials.sync(folder, interval=interval)
    if run.failure:
        raise FatalError(f"an undisturbed sync fails, so there is nothing to compare with: {run.failure}")
    return run


def affordable_share(seconds: float) -> float:
    """Return which share of the usual kills to run if one takes `seconds`."""
    return min(1.0, max(_LEAST_SHARE, _BUDGET / max(seconds, 0.001) / (_AT_COMMITS + _AT_RANDOM)))


class _KillPoint(Struct, frozen=True):
    """Where a sync is killed: at a crash point, or so many seconds after its start."""

    crash_at: str = ""
    seconds: float | None = None

    def __str__(self) -> str:
        return self.crash_at or f"{RANDOM}:{self.seconds:.3f}s"


def _kill_points(run: TrialRun, at_commits: int, at_random: int, chance: random.Random) -> Iterator[_KillPoint]:
    """Yield where to kill: crash points in the order in which a sync reaches them, then random times."""
    counts = range(1, max(run.reached.get(point, 0) for point in POINTS) + 1)
    points = [f"{point}:{time}" for time in counts for point in POINTS if time <= run.reached.get(point, 0)]
    at_commits, step = min(at_commits, len(points)), max(1.0, len(points) / max(1, at_commits))
    yield from (_KillPoint(points[int(number * step)]) for number in range(at_commits))
    yield from (_KillPoint(seconds=chance.uniform(0, run.seconds)) for _ in range(at_random))


def _killed(
    subject: Subject,
    trials: Trials,
    folder: Path,
    differ: Callable[[Mapping[str, Counter[str]]], Mapping[str, Difference]],
    point: _KillPoint,
) -> Kill:
    killed = trials.sync(folder, crash_at=point.crash_at, seconds=point.seconds)
    if point.crash_at and not killed.killed:
        where = f"the sync does not reach {point} again: it reads in another order each time"
        return Kill(str(point), problems=[where])
    # Commits rarely, since its intermediate commits are not examined.
    resumed = trials.sync(folder, interval=RARELY)
    problems = [f"the sync that resumes fails: {resumed.failure}"] if resumed.failure else []
    differences = differ(rows(folder))
    lost = sum(each.lost.total() for each in differences.values())
    duplicated = sum(each.duplicated.total() for each in differences.values())
    changed = sum(len(each.changed) for each in differences.values())
    with subject.cassette.playing():
        verified = verify(*subject.pipeline(folder))
    problems += [*_problems(differences), *verified.broken]
    return Kill(str(point), lost, duplicated, changed, verified.receipts, problems)


def _keys(subject: Subject, target: Path) -> Mapping[str, Key]:
    """Return the primary keys of the streams, by table."""
    with subject.cassette.playing():
        streams = [plan.stream for plan in _plans(*subject.pipeline(target))]
    return {str(Path(stream.namespace or "", stream.name)): stream.key_paths for stream in streams}


def _differences(
    expected: Mapping[str, Counter[str]], keys: Mapping[str, Key], actual: Mapping[str, Counter[str]]
) -> Mapping[str, Difference]:
    """Return how the rows of each table differ. keys: by table."""
    none = Counter[str]()
    names = sorted({*expected, *actual})
    return {name: difference(expected.get(name, none), actual.get(name, none), keys.get(name, ())) for name in names}


def _problems(differences: Mapping[str, Difference]) -> Sequence[str]:
    return [f"{name}: {sentence}" for name, each in differences.items() for sentence in each]


class Verified(Struct, frozen=True):
    """The result of `verify`. receipts: how many all commits of all tables have.

    broken: sentences; empty if states, files and receipts are right.
    """

    receipts: int
    broken: Sequence[str]


def verify(pipeline: Pipeline, source: Source) -> Verified:
    """Verify the existing tables, including histories. Here, a commit of rows without a receipt counts as broken."""
    tables = [plan.location for plan in _plans(pipeline, source) if plan.location.exists]
    audited, issues = verify_tables(tables, pipeline.name)
    broken = [f"{finding.stream}: {finding.text}" for finding in issues if finding.broken]
    broken += [
        f"{name}: commits without a receipt added or removed rows: {other}"
        for name, audit in audited.items()
        for other in audit.other_commits
    ]
    return Verified(sum(audit.receipts for audit in audited.values()), broken)


def _plans(pipeline: Pipeline, source: Source) -> Sequence[StreamPlan]:
    target = folder_at(pipeline.target.path, pipeline.target.storage)
    return plan_streams(source.open(pipeline.config), pipeline, target)
