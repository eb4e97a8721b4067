"""prove: syncs of a connector are killed at commits and at random, resumed, and compared with undisturbed ones."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import NamedTuple

from cdk.base.errors import FatalError
from cdk.lake.admin.verify import audits, findings
from cdk.lake.storage.object_store import folder_at
from cdk.streams.source import Source
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.settings.stream_plan import StreamPlan, chosen_streams, plan_stream
from cdk.testing.proving.differences import Difference, Key, difference
from cdk.testing.proving.trials import EACH_PAGE, RARELY, Subject, TrialRun, Trials, rows

RANDOM = "random"
POINTS = ("before_state_blob", "after_state_blob", "after_commit", "done")
"""The crash points around a commit, in order."""

_AT_COMMITS, _AT_RANDOM = 40, 10
_LEAST_SHARE, _BUDGET = 0.2, 60.0
"""Of those kills, at least so many are done, and no more than take so many seconds."""

_MOST_SECONDS, _MOST_TIMES = 20, 50
"""A sync that takes so much longer than the first one does not end: its state goes back."""


@dataclass(frozen=True)
class Kill:
    """One kill, and what came of it once a further sync had resumed.

    point: where, such as `after_commit:3`, the third time it is reached. problems: sentences, none where all is well.
    changed: rows of the same key with other values. receipts: those of all commits, which add up where there is no
    problem.
    """

    point: str
    lost: int = 0
    doubled: int = 0
    changed: int = 0
    receipts: int = 0
    problems: Sequence[str] = ()


@dataclass(frozen=True)
class Proof:
    """What became of a connector that was killed.

    rows: of each stream in an undisturbed sync. commits: of that sync. problems: of the syncs that were not killed.
    warnings: of the first of them, such as of records that all of them may lack. notes: of how it was proved.
    """

    rows: Mapping[str, int]
    commits: int
    kills: Sequence[Kill] = ()
    problems: Sequence[str] = ()
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()

    @property
    def proven(self) -> bool:
        """Whether no row was lost or doubled, and each receipt adds up."""
        return not self.problems and not any(kill.problems for kill in self.kills)


def prove(
    subject: Subject,
    *,
    at_commits: int | None = None,
    at_random: int | None = None,
    seed: int = 0,
    watch: Callable[[int], None] = lambda _: None,
) -> Proof:
    """Kill syncs of a connector, and look at what a further sync makes of each.

    at_commits: at how many places around commits; of more, so many at equal distances. at_random: at how many moments
    of chance, as `seed` has it. None: 40 and 10, or fewer where syncs take long, so that all kills take about a minute.
    watch: called after each kill, with how many there are.
    Raises FatalError: a sync that is not killed fails.
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
            # What is wrong without a kill is so after each of them.
            return Proof(counts, commits, problems=problems, warnings=first.warnings, notes=subject.notes)
        seconds, notes = run.seconds / 2 + first.seconds, list(subject.notes)
        share = affordable_share(seconds)
        if share < 1 and None in (at_commits, at_random):
            notes.append(
                f"one kill takes some {seconds:.0f} s, so that there are fewer: --at-commits {_AT_COMMITS} "
                f"--at-random {_AT_RANDOM} has as many as there are where syncs are short"
            )
        at_commits = round(_AT_COMMITS * share) if at_commits is None else at_commits
        at_random = round(_AT_RANDOM * share) if at_random is None else at_random
        points = list(_kill_points(run, at_commits, at_random, random.Random(seed)))  # noqa: S311 - no secret
        kills = []
        for point in points:
            # One after the other: a connector may have files of its own, which syncs at once would share.
            folder = Path(home) / "killed"
            kills.append(_killed(subject, trials, folder, differ, point))
            watch(len(points))
            rmtree(folder, ignore_errors=True)
        return Proof(counts, commits, kills, warnings=first.warnings, notes=notes)


def _undisturbed(trials: Trials, folder: Path, interval: str) -> TrialRun:
    run = trials.sync(folder, interval=interval)
    if run.failure:
        raise FatalError(f"a sync that nobody kills fails, so there is nothing to compare with: {run.failure}")
    return run


def affordable_share(seconds: float) -> float:
    """Which share of the usual kills is done where one takes so long."""
    return min(1.0, max(_LEAST_SHARE, _BUDGET / max(seconds, 0.001) / (_AT_COMMITS + _AT_RANDOM)))


class _KillPoint(NamedTuple):
    """Where a sync is killed: at a crash point, or so many seconds after its beginning."""

    crash_at: str = ""
    seconds: float | None = None

    def __str__(self) -> str:
        return self.crash_at or f"{RANDOM}:{self.seconds:.3f}s"


def _kill_points(run: TrialRun, at_commits: int, at_random: int, chance: random.Random) -> Iterator[_KillPoint]:
    """Where to kill: crash points in the order in which they are reached, then moments."""
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
    # It commits rarely: nobody looks at what it commits on its way.
    resumed = trials.sync(folder, interval=RARELY)
    problems = [f"the sync that resumes fails: {resumed.failure}"] if resumed.failure else []
    differences = differ(rows(folder))
    lost = sum(each.lost.total() for each in differences.values())
    doubled = sum(each.doubled.total() for each in differences.values())
    changed = sum(len(each.changed) for each in differences.values())
    with subject.cassette.playing():
        verified = verify(*subject.pipeline(folder))
    problems += [*_problems(differences), *verified.broken]
    return Kill(str(point), lost, doubled, changed, verified.receipts, problems)


def _keys(subject: Subject, target: Path) -> Mapping[str, Key]:
    """The primary keys of the streams, by table."""
    with subject.cassette.playing():
        streams = [plan.stream for plan in _plans(*subject.pipeline(target))]
    return {str(Path(stream.namespace or "", stream.name)): stream.key_paths for stream in streams}


def _differences(
    expected: Mapping[str, Counter[str]], keys: Mapping[str, Key], actual: Mapping[str, Counter[str]]
) -> Mapping[str, Difference]:
    """How the rows of each table differ. keys: by table."""
    none = Counter[str]()
    names = sorted({*expected, *actual})
    return {name: difference(expected.get(name, none), actual.get(name, none), keys.get(name, ())) for name in names}


def _problems(differences: Mapping[str, Difference]) -> Sequence[str]:
    return [f"{name}: {sentence}" for name, each in differences.items() for sentence in each]


class Verified(NamedTuple):
    """receipts: of all commits of all tables. broken: sentences, none where states, files and receipts are right."""

    receipts: int
    broken: Sequence[str]


def verify(pipeline: Pipeline, source: Source) -> Verified:
    """Look at the tables that are there, histories too. A commit of rows without a receipt is wrong here."""
    tables = [plan.location for plan in _plans(pipeline, source) if plan.location.exists]
    receipts, broken = 0, []
    for table in tables:
        audited, unreadable = audits(table)
        receipts += sum(audit.receipts for audit in audited.values())
        issues = (*unreadable, *findings(table, pipeline.name, audited))
        broken += [f"{finding.stream}: {finding.text}" for finding in issues if finding.broken]
        broken += [
            f"{name}: without a receipt: {other}" for name, audit in audited.items() for other in audit.other_commits
        ]
    return Verified(receipts, broken)


def _plans(pipeline: Pipeline, source: Source) -> Sequence[StreamPlan]:
    target = folder_at(pipeline.target.path, pipeline.target.storage)
    chosen = chosen_streams(source.open(pipeline.config), pipeline.streams)
    return [plan_stream(stream, how, target, pipeline.incremental_write_mode) for stream, how in chosen]
