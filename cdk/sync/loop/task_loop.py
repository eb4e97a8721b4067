"""The loop of a sync: tasks read bundles of slices, and rows and state are committed by the clock.

Nobody waits for the slowest: a task that ends gets the next slices at once, and a commit has what was handed back until
then. Planning goes on beside the tasks.
"""

import math
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TypeVar

from cdk.base.errors import TransientError
from cdk.base.logs import logger
from cdk.base.process.concurrency import DEFAULT_CEILING
from cdk.base.process.crash_points import crash_point
from cdk.base.process.interruption import MAX_REQUESTS, Interruption
from cdk.base.run import current_run
from cdk.base.task_map import TaskLost, run_inline
from cdk.lake.arrow.schema_evolution import Grown
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import as_folder
from cdk.rest.auth.tokens import run_tokens
from cdk.rest.http.activity import activities
from cdk.rest.limits.run_budgets import RunBudgets
from cdk.rest.limits.task_share import TaskShare
from cdk.sync.loop.bundles import Bundle, Bundles, PlannedSlice, SliceLost
from cdk.sync.loop.stream_sync import StreamSync
from cdk.sync.reports.counts import Readers
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.tasks.bundle_task import BundleJob, BundleResult, run_bundle
from cdk.sync.tasks.interim_results import InterimResults
from cdk.sync.tasks.messages import Failure, SliceTask, WriteTarget
from cdk.sync.tasks.task_pool import EndedTask
from cdk.sync.tasks.workers import Workers, job_name

T = TypeVar("T")

_FIRST = 4.0
"""Seconds until the first commit is due. A commit takes a tenth of a second, however little is in it."""

_OF_INTERVAL = 0.8
"""How much of the checkpoint interval lies between two commits.

A task ends when the next commit is due, or a quarter later where it begins shortly before: what was read is committed
within an interval, and nothing else is read beside a commit, however long it takes.
"""

_PATIENCE = 0.25
"""How long a commit waits for tasks that were to end when it is due, of the time between two: a page, as a rule.

What they bring would wait for the next commit, for longer than an interval with what they began with.
"""

_LATE = _PATIENCE / 8
"""How long after its time a task hands over what it has read, of the time between two commits; up to twice as long."""

_SHORTEST_TASK = 0.25
"""The shortest time of a task, of the time between two commits."""

_MOST_BESIDE = 0.25
"""The longest time of reading beside a commit that counts, of the time between two commits."""

_PLANNING = 0.25
"""Seconds that planning takes at a time, beside tasks that may end meanwhile."""

_SHORT = 1.0
"""Seconds of a task that has fewer slices than it could read at once, while others are planned."""


@dataclass(frozen=True)
class _Running:
    """A task that runs: its slices by number, what they are written to, its part of the budgets, and when it began.

    commit: when that is due which it is to be part of; infinite where it ends later than the next one. attempt, taken:
    whose interim results were taken over, if any, and how many; `bundle` and `pieces` are what went on after the last.
    """

    workers: Workers
    bundle: Bundle
    pieces: Mapping[int, PlannedSlice]
    targets: Mapping[int, WriteTarget]
    share: TaskShare
    started: float
    commit: float
    interim: InterimResults | None
    attempt: str = ""
    taken: int = 0


class TaskLoop:
    """The tasks and commits of one sync. Belongs to the driver's thread.

    Commits begin after four seconds, and the times between them double up to the checkpoint interval: the first comes
    early, and a long sync commits rarely.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        runs: Sequence[StreamSync],
        workers: Workers,
        watch: Callable[[float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """watch: called where something has changed, with the seconds until the next commit, or 0 while no task runs.

        clock: of commits and planning.
        """
        self._runs, self._workers, self._watch, self._clock = runs, workers, watch, clock
        self._own = replace(workers, cluster=None)
        """Where tasks run before a cluster joins, and after it was lost."""
        self._name, self._joins = pipeline.name, pipeline.target.join_small_files
        self.readers = Readers()
        self.readers.joined(workers)
        self._longest = pipeline.checkpoint_interval.total_seconds() * _OF_INTERVAL
        self._interval = min(_FIRST, self._longest)
        self._concurrency = pipeline.concurrency or DEFAULT_CEILING
        tasks = min(self._concurrency, workers.count)
        self._bundles, self._budgets = Bundles(runs, tasks, self._concurrency, clock), RunBudgets(tasks)
        self.readers.concurrency = self._bundles.concurrency.count
        self._pool, self._numbers = workers.pool(), count()
        self._interruption = current_run().own(Interruption)
        self._live, self._key = activities().folder, secrets.token_bytes()
        self._running: dict[int, _Running] = {}
        self._uncommitted: dict[int, list[DataFile]] = {}
        """What tasks have brought of a stream since its last commit."""
        self._due = self._began = 0.0
        self._overdue: list[int] = []
        """Streams of which a wave was being read when its commit was due, which then comes before the next wave."""

    def read_all(self) -> None:
        """Read until every stream is done, failed or interrupted. Raises TransientError: Spark was lost."""
        for run in self._runs:
            self._for(run, partial(run.prepare, self._workers.spread))
        self._began = self._clock()
        self._due = self._began + self._interval
        try:
            with self._interruption.reading():
                while any(run.active for run in self._runs) or self._running or self._uncommitted:
                    self._step()
        except BaseException as error:
            # What was lost cannot be cancelled either.
            with suppress(Exception):
                self._workers.cancel()
            if isinstance(error, TransientError):
                # What has come needs nobody any more.
                self._workers = replace(self._workers, spread=run_inline)
                self._commit()
            raise
        finally:
            if self._workers.cluster is not None:
                self._workers.cluster.leave()
        for run in self._runs:
            run.warn_of_keys()
            if self._joins and not self._interruption.why:
                run.compact()

    def _step(self) -> None:
        """Plan, start the tasks that can run, and take over what came until the next commit is due; then commit."""
        planning = False
        if not (self._interruption.why or self._budgets.requests_spent):
            with self._budgets.planning():
                planning = self._bundles.plan(_PLANNING)
        self._join()
        while not (self._interruption.why or self._budgets.exhausted) and (bundle := self._bundles.next()) is not None:
            if not self._start(bundle):
                break
        if not self._running:
            if self._interruption.why or self._budgets.requests_spent:
                self._commit_interrupted()
            else:
                # Only a commit finds out whether there is more.
                self._commit()
            return
        for ended in self._pool.ended(0 if planning else self._until_commit()):
            self._end(ended)
        for number, task in list(self._running.items()):
            self._running[number] = self._look(task)
        if self._uncommitted and (self._until_commit() == 0 or not all(map(self._bundles.in_wave, self._overdue))):
            self._commit()

    def _join(self) -> None:
        """Let a cluster start where it is worth it, and give it all further tasks once it is there.

        A local Spark takes about as long to start as a sync reads until its first commit is due, and as much of the
        processors: who waits so long before it starts one never needs more than twice what knowing better would. It
        brings nothing where no slice waits that could be read beside others, however long that one goes on.
        """
        cluster = self._workers.cluster
        if cluster is None:
            return
        if (workers := cluster.joined()) is not None:
            crash_point("cluster_joined")
            self._workers = workers
            self.readers.joined(workers)
            tasks = min(self._concurrency, workers.count)
            self._bundles.grow(tasks)
            self._budgets.grow(tasks)
        elif (
            not (cluster.begun or self._interruption.why)
            and self._clock() >= self._began + _FIRST
            and self._bundles.divisible
        ):
            cluster.begin()

    def _until_commit(self) -> float | None:
        """How long to wait for tasks, until a commit is due or interim results may be there; None: for neither."""
        waits = any(task.commit == self._due for task in self._running.values())
        moment = self._due + self._interval * _PATIENCE if waits else self._due
        seconds = [max(0.0, moment - self._clock())] if self._uncommitted else []
        return min([*seconds, self._late] if self._live else seconds, default=None)

    @property
    def _late(self) -> float:
        return max(0.05, self._interval * _LATE)

    def _start(self, bundle: Bundle) -> bool:
        """Begin a task; False: it waits for what others have of a budget."""
        reads = {piece.target for piece in bundle.slices}
        share = self._budgets.lease(self._bundles.beginning, reads)
        if share is None:
            self._bundles.put_back(bundle)
            return False
        crash_point("task_begins")
        until_due = self._due - self._clock()
        seconds = self._interruption.limited(max(until_due, self._interval * _SHORTEST_TASK))
        if self._bundles.plans_more_for(bundle):
            seconds = min(seconds, _SHORT)
        if self._workers.cluster is not None and self._workers.cluster.starting:
            # Soon it reads what is handed back.
            seconds = min(seconds, _FIRST)
        tokens = {key: token for n in sorted(reads) for key, token in self._runs[n].access_tokens(seconds).items()}
        pieces = {piece.number: piece for piece in bundle.slices if self._runs[piece.target].active}
        if not pieces:
            self._bundles.discard(bundle)
            self._budgets.release(share, {}, 0)
            return True
        targets = {n: self._target(n) for n in sorted({piece.target for piece in pieces.values()})}
        number, live, limits = next(self._numbers), self._live, self._workers.limits
        interim = None if live is None else InterimResults(live, number, self._late, self._key)
        before = replace(self._bundles.concurrency.learned, level=bundle.begin)
        job = BundleJob(targets, seconds, bundle.threads, share, tokens, live, limits, before, interim)
        tasks = [SliceTask(n, piece.target, piece.slice) for n, piece in pieces.items()]
        name = job_name(self._name, [(self._runs[piece.target].stream.name, piece.slice) for piece in pieces.values()])
        commit = self._due if seconds <= until_due else math.inf
        self._running[number] = _Running(self._workers, bundle, pieces, targets, share, self._clock(), commit, interim)
        self._watch(max(self._due - self._clock(), _SHORT))
        self._pool.start(number, partial(_read, self._workers, name, job, tasks))
        return True

    def _target(self, n: int) -> WriteTarget:
        target = self._runs[n].target
        return replace(target, stream=self._workers.copy(target.stream))

    def _end(self, ended: EndedTask) -> None:
        """Take over what a task has brought in the end. Raises its error, where that is not of one stream alone."""
        crash_point("task_ended")
        task = self._running.pop(ended.number)
        result = ended.result or BundleResult(spent=None)
        sent = None if ended.result is None else result.requests
        self._budgets.release(task.share, result.spent, sent, task.targets)
        match ended.error:
            case None:
                run_tokens().merge(result.tokens)
            case TaskLost() as lost:
                if (guilty := self._bundles.suspects.accuse(task.bundle)) is not None:
                    self._runs[guilty.target].fail(Failure.of(SliceLost(guilty.slice, lost)))
            case TransientError() as lost if task.workers.engine and not self._own.engine:
                self._leave(task.workers, lost)
            case error:
                raise error
        # Of a task that died, or was tried again, what goes on is read again: all else may be there.
        another = task.taken and result.attempt != task.attempt
        for each in (BundleResult(),) if another else (*result.earlier, result)[task.taken :]:
            task = self._take_over(task, each)
        self._watch(max(self._due - self._clock(), _SHORT) if self._running else 0)

    def _look(self, task: _Running) -> _Running:
        """Take over the interim results that a task has left; the task as it goes on."""
        while task.interim is not None and (result := task.interim.find(task.taken)) is not None:
            if task.taken and result.attempt != task.attempt:
                break
            task = self._take_over(task, result)
        return task

    def _take_over(self, task: _Running, result: BundleResult) -> _Running:
        """Take over what a task has brought, at its end or before; the task as it goes on."""
        rest = {number: piece for number, piece in task.pieces.items() if number in result.unfinished}
        started = len({*result.unfinished, *(item.number for item in result.progress)})
        self._bundles.ended(task.bundle, started, self._clock() - task.started, result.concurrency)
        bundle = self._bundles.rest_of(task.bundle, result.unfinished, result.threads)
        self.readers.add(task.workers, result.progress, ended=not result.unfinished)
        for n in task.targets:
            if result.vanished:
                run = self._runs[n]
                self._for(run, partial(run.miss, result.vanished))
            if not self._add(n, task, result):
                # What comes next of it comes after rows that are gone.
                rest = {number: piece for number, piece in rest.items() if piece.target != n}
        return replace(task, bundle=bundle, pieces=rest, commit=math.inf, attempt=result.attempt, taken=task.taken + 1)

    def _leave(self, workers: Workers, lost: TransientError) -> None:
        """Go on without a cluster that had joined; what its tasks were reading is read again."""
        if self._workers is workers:
            # What to do about it is no business of who goes on.
            logger.warning("%s; the sync goes on in its own process", lost.message.partition(";")[0])
            self._workers = self._own

    def _add(self, n: int, task: _Running, result: BundleResult) -> bool:
        """Take over what a task has brought of a stream; False: nothing counts, and its slices were put back."""
        run, files = self._runs[n], result.files.get(n, [])
        pieces = {number: piece for number, piece in task.pieces.items() if piece.target == n}
        if not pieces or any(piece.attempt != run.attempt for piece in pieces.values()):
            # The stream was started anew meanwhile, or its commit was refused; or so it was with what came before.
            _delete(run, files)
            return False
        fitting = self._fitting(n, result.grown.get(n, {}), files, task.targets[n])
        progress = {} if fitting is None else {item.number: item for item in result.progress}
        for number, piece in pieces.items():
            unfinished = number in result.unfinished and fitting is not None
            if number in progress:
                self._bundles.suspects.clear(piece.slice)
                run.add_result(piece.slice, progress[number], unfinished=unfinished)
            elif not unfinished:
                run.untouched(piece.slice)
        if not progress.keys().isdisjoint(pieces):
            self._uncommitted.setdefault(n, []).extend(fitting or ())
        return fitting is not None

    def _fitting(
        self, n: int, grown: Grown, files: Sequence[DataFile], target: WriteTarget
    ) -> Sequence[DataFile] | None:
        """The files as they fit the table, which gets the columns that they need.

        None: they do not, for another task was quicker, and are gone; or the stream has failed.
        """
        run, before = self._runs[n], self._uncommitted.get(n, [])
        stale = run.outgrew(target)
        if not grown and not (stale and files):
            return files
        fits = self._for(run, partial(run.grow, [{}, grown], [before, files], self._workers.spread, stale=stale))
        if fits is None:
            _delete(run, [*self._uncommitted.pop(n, []), *files])
            return None
        if fits[0] is not None and before:
            # Files of earlier tasks that have vanished are missed by their commit.
            self._uncommitted[n] = list(fits[0])
        return fits[1]

    def _commit(self) -> None:
        began, self._overdue = self._clock(), []
        for n, run in enumerate(self._runs):
            # Half a wave would be committed before what comes before it in the read.
            half = self._bundles.in_wave(n) and bool(self._running)
            if half and n in self._uncommitted:
                self._overdue.append(n)
            if (n in self._uncommitted and not half) or run.idle:
                with self._budgets.planning():
                    self._for(run, partial(run.commit, self._uncommitted.pop(n, []), self._workers.spread))
        self._interval = min(self._interval * 2, self._longest)
        # What is read beside a commit waits for the next one.
        beside = min(self._clock() - began, self._interval * _MOST_BESIDE) if self._running else 0.0
        self._due = self._clock() + self._interval - beside
        self._watch(max(self._due - self._clock(), _SHORT) if self._running else 0)

    def _commit_interrupted(self) -> None:
        """Commit what is covered, and end the streams that it does not complete."""
        self._interruption.request(self._interruption.why or MAX_REQUESTS)
        for run in self._runs:
            run.interrupt()
        self._commit()
        for run in self._runs:
            run.interrupt()

    def _for(self, run: StreamSync, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except Exception as error:  # noqa: BLE001 - it fails this stream and no other
            run.refused(Failure.of(error))
            return None


def _read(workers: Workers, name: str, job: BundleJob, tasks: Sequence[SliceTask]) -> BundleResult:
    """Read slices in a task. name: what people see of it."""
    workers.name(name)
    (result,) = workers.spread(run_bundle, [(job, tasks)])
    return result


def _delete(run: StreamSync, files: Iterable[DataFile]) -> None:
    for file in files:
        as_folder(run.target.root).delete(file.path)
