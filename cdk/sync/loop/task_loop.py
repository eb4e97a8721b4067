"""The loop of a sync: tasks read bundles of slices, and the driver commits rows and state by the clock.

When a task ends, the next one starts at once, and a commit contains everything handed back until then: neither waits
for the slowest task. The driver plans slices while tasks run.
"""

import math
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from cdk.base.errors import TransientError
from cdk.base.logs import logger
from cdk.base.process.concurrency import DEFAULT_CEILING
from cdk.base.process.crash_points import crash_point
from cdk.base.process.interruption import MAX_REQUESTS, Interruption
from cdk.base.run import current_run
from cdk.base.task_map import ClusterLost, TaskLost, run_inline
from cdk.lake.arrow.schema_evolution import Grown
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import as_folder
from cdk.rest.auth.tokens import run_tokens
from cdk.rest.http.activity import activities
from cdk.rest.limits.run_budgets import RunBudgets
from cdk.rest.limits.task_share import TaskShare
from cdk.sources.crashes import CRASH_SECRETS
from cdk.sync.loop.bundles import Bundle, Bundles, SliceLost
from cdk.sync.loop.stream_sync import StreamSync
from cdk.sync.reports.counts import Readers
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.tasks.bundle_task import run_bundle
from cdk.sync.tasks.commit_times import CommitTimes
from cdk.sync.tasks.interim_results import InterimResults
from cdk.sync.tasks.messages import BundleJob, BundleResult, Failure, SliceTask, WriteTarget
from cdk.sync.tasks.task_pool import EndedTask
from cdk.sync.tasks.workers import Workers, job_name

T = TypeVar("T")

_PLANNING_SECONDS = 0.25
"""How long the driver plans at a time before it looks for ended tasks."""

_SHORT_TASK_SECONDS = 1.0
"""The time of a task that has fewer slices than it could read at once, while more are being planned."""

_CLUSTER_START_SECONDS = 4.0
"""About how long a local Spark takes to start."""

_SHORTEST_WATCH_SECONDS = 1.0
"""The minimum that `watch` is called with while tasks run, because 0 means that no task runs."""


class _RunningTask(Struct, frozen=True):
    """A running task; after interim results, the part of it that continues after the last one."""

    workers: Workers
    bundle: Bundle
    slices: Mapping[int, SliceTask]
    """Its slices, by number."""
    targets: Mapping[int, WriteTarget]
    """Write targets of the slices, by index of their stream."""
    share: TaskShare
    """Its share of the budgets."""
    started: float
    commit_due: float
    """Due time of the commit that waits for this task; infinite if the task ends later than the next commit."""
    interim: InterimResults | None
    interim_count: int = 0
    """Number of its interim results that were processed."""
    attempt: str = ""
    """The attempt at the task that left these interim results."""

    def ignores_attempt(self, attempt: str) -> bool:
        """Whether results of `attempt` do not count, because interim results of another attempt were processed."""
        return self.interim_count > 0 and attempt != self.attempt


class TaskLoop:
    """The tasks and commits of one sync. Belongs to the driver's thread."""

    def __init__(
        self,
        pipeline: Pipeline,
        streams: Sequence[StreamSync],
        workers: Workers,
        watch: Callable[[float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """watch: called after each change, with the seconds until the next commit, or 0 while no task runs.

        clock: used for commits and planning.
        """
        self._streams, self._workers, self._watch, self._clock = streams, workers, watch, clock
        self._own_workers = replace(workers, cluster=None)
        """The workers before a cluster joins, and after it was lost."""
        self._name, self._joins_small_files = pipeline.name, pipeline.target.join_small_files
        self._times = CommitTimes(pipeline.checkpoint_interval, clock)
        self._concurrency = pipeline.concurrency or DEFAULT_CEILING
        tasks = min(self._concurrency, workers.count)
        self._bundles, self._budgets = Bundles(streams, tasks, self._concurrency, clock), RunBudgets(tasks)
        self.readers = Readers()
        self.readers.joined(workers)
        self.readers.concurrency = self._bundles.concurrency.count
        self._pool, self._task_numbers = workers.make_pool(), count()
        self._interruption = current_run().own(Interruption)
        self._live_folder, self._interim_key = activities().folder, secrets.token_bytes()
        self._running: dict[int, _RunningTask] = {}
        """Running tasks, by number."""
        self._uncommitted: dict[int, list[DataFile]] = {}
        """Files that tasks have returned since a stream's last commit, by index of the stream."""
        self._overdue: list[int] = []
        """Streams whose commit became due in the middle of a wave; they are committed before their next wave."""

    def read_all(self) -> None:
        """Read until every stream is done, failed or interrupted. Raises TransientError: when Spark was lost."""
        for stream in self._streams:
            _failing_alone(stream, partial(stream.prepare, self._workers.spread))
        self._times.begin()
        try:
            with self._interruption.reading():
                while any(stream.active for stream in self._streams) or self._running or self._uncommitted:
                    self._step()
        except BaseException as error:
            # Suppressed, because workers that were lost cannot be cancelled either.
            with suppress(Exception):
                self._workers.cancel()
            if isinstance(error, TransientError):
                # Commit the results so far in this process, without the lost workers.
                self._workers = replace(self._workers, spread=run_inline)
                self._commit()
            raise
        finally:
            if self._workers.cluster is not None:
                self._workers.cluster.leave()
        for stream in self._streams:
            stream.warn_of_keys()
            if self._joins_small_files and not self._interruption.why:
                stream.compact()

    def _step(self) -> None:
        """Plan, start the tasks that can run, and process results until the next commit is due; then commit."""
        more_to_plan = False
        if not (self._interruption.why or self._budgets.requests_spent):
            with self._budgets.planning():
                more_to_plan = self._bundles.plan(_PLANNING_SECONDS)
        self._start_or_join_cluster()
        while not (self._interruption.why or self._budgets.exhausted) and (bundle := self._bundles.next()) is not None:
            if not self._start(bundle):
                break
        if not self._running:
            if self._interruption.why or self._budgets.requests_spent:
                self._commit_interrupted()
            else:
                # Only a commit finds out whether there is more to read.
                self._commit()
            return
        for ended in self._pool.ended(0 if more_to_plan else self._longest_wait()):
            self._finish(ended)
        for number, task in list(self._running.items()):
            self._running[number] = self._take_over_interim_results(task)
        if self._uncommitted and (self._until_commit() == 0 or not all(map(self._bundles.in_wave, self._overdue))):
            self._commit()

    def _start_or_join_cluster(self) -> None:
        """Start a cluster if it is worthwhile, and run all further tasks on it once it has joined.

        Starting a local Spark takes about as much time and CPU as a sync spends reading until its first commit is due.
        A sync that waits that long before starting one never takes more than twice as long as with perfect foresight.
        A cluster is useless if no slice is waiting that could be read in parallel, however long the running one takes.
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
            not (cluster.started or self._interruption.why)
            and self._times.since_begin >= _CLUSTER_START_SECONDS
            and self._bundles.divisible
        ):
            cluster.begin()

    def _until_commit(self) -> float:
        """Return the seconds until the results so far are to be committed."""
        awaits_task = any(task.commit_due == self._times.due for task in self._running.values())
        return self._times.until_commit(awaits_task=awaits_task)

    def _longest_wait(self) -> float | None:
        """Return how many seconds to wait for a task: until a commit or possible interim results; None if neither."""
        seconds = [self._until_commit()] if self._uncommitted else []
        return min([*seconds, self._times.until_interim_result] if self._live_folder else seconds, default=None)

    def _start(self, bundle: Bundle) -> bool:
        """Start a task. Return False if it has to wait for the budget that other tasks hold."""
        indexes = sorted({planned.stream for planned in bundle.slices})
        until_due, seconds = self._times.until_due, self._task_seconds(bundle)
        # Fetched before the task leases all remaining requests, because fetching a token may take one.
        tokens = {key: token for n in indexes for key, token in self._streams[n].access_tokens(seconds).items()}
        share = self._budgets.lease(self._bundles.beginning_tasks, indexes)
        if share is None:
            self._bundles.put_back(bundle)
            return False
        crash_point("task_begins")
        slices = {planned.number: planned for planned in bundle.slices if self._streams[planned.stream].active}
        if not slices:
            self._bundles.discard(bundle)
            self._budgets.release(share, {}, 0)
            return True
        targets = {n: self._target(n) for n in sorted({planned.stream for planned in slices.values()})}
        number, live, limits = next(self._task_numbers), self._live_folder, self._workers.limits
        interim = None
        if live is not None:
            interim = InterimResults(live, number, self._times.until_interim_result, self._interim_key)
        learned = replace(self._bundles.concurrency.learned, level=bundle.first_threads)
        hidden = CRASH_SECRETS.get()
        job = BundleJob(targets, seconds, bundle.threads, share, tokens, live, limits, learned, interim, hidden)
        named = [(self._streams[planned.stream].stream.name, planned.slice) for planned in slices.values()]
        due = self._times.due if seconds <= until_due else math.inf
        self._running[number] = _RunningTask(self._workers, bundle, slices, targets, share, self._clock(), due, interim)
        self._report()
        self._pool.start(number, partial(_read, self._workers, job_name(self._name, named), job, [*slices.values()]))
        return True

    def _task_seconds(self, bundle: Bundle) -> float:
        """Return for how many seconds a task that starts now may read a bundle."""
        seconds = self._interruption.limited(self._times.for_task)
        if self._bundles.plans_more_for(bundle):
            seconds = min(seconds, _SHORT_TASK_SECONDS)
        if self._workers.cluster is not None and self._workers.cluster.starting:
            # The cluster will soon read the slices that this task hands back.
            seconds = min(seconds, _CLUSTER_START_SECONDS)
        return seconds

    def _target(self, n: int) -> WriteTarget:
        target = self._streams[n].target
        return replace(target, stream=self._workers.copy_stream(target.stream))

    def _finish(self, ended: EndedTask) -> None:
        """Process the final result of a task. Raises its error, unless that concerns a single stream or the cluster."""
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
                    self._streams[guilty.stream].fail(Failure.of(SliceLost(guilty.slice, lost)))
            case ClusterLost() as lost if task.workers.engine and not self._own_workers.engine:
                self._leave_cluster(task.workers, lost)
            case error:
                raise error
        # If the task died or was retried after interim results, only the slices that continued are read again.
        brought = [*result.earlier, result][task.interim_count :]
        for each in [BundleResult()] if task.ignores_attempt(result.attempt) else brought:
            task = self._take_over(task, each)
        self._report()

    def _take_over_interim_results(self, task: _RunningTask) -> _RunningTask:
        """Process the interim results that a task has left, and return the task as it continues."""
        while task.interim is not None and (result := task.interim.load(task.interim_count)) is not None:
            if task.ignores_attempt(result.attempt):
                break
            task = self._take_over(task, result)
        return task

    def _take_over(self, task: _RunningTask, result: BundleResult) -> _RunningTask:
        """Process a final or interim result of a task, and return the task as it continues."""
        unfinished = {number: planned for number, planned in task.slices.items() if number in result.unfinished}
        started = len({*result.unfinished, *(item.number for item in result.progress)})
        self._bundles.ended(task.bundle, started, self._clock() - task.started, result.concurrency)
        bundle = self._bundles.continue_with(task.bundle, result.unfinished, result.threads)
        self.readers.add(task.workers, result.progress, ended=not result.unfinished)
        for n in task.targets:
            if result.missing_file:
                stream = self._streams[n]
                _failing_alone(stream, partial(stream.miss, result.missing_file))
            if not self._take_over_stream(n, task, result):
                # Later results of this stream would follow rows that do not count.
                unfinished = {number: planned for number, planned in unfinished.items() if planned.stream != n}
        return replace(
            task,
            bundle=bundle,
            slices=unfinished,
            commit_due=math.inf,
            attempt=result.attempt,
            interim_count=task.interim_count + 1,
        )

    def _leave_cluster(self, workers: Workers, lost: ClusterLost) -> None:
        """Continue without a cluster that had joined; the slices of its running tasks are read again."""
        if self._workers is workers:
            logger.warning("%s; the sync continues in its own process", lost.reason)
            self._workers = self._own_workers

    def _take_over_stream(self, n: int, task: _RunningTask, result: BundleResult) -> bool:
        """Process a task's results for one stream. Return False if they do not count, and its slices were put back."""
        stream, files = self._streams[n], result.files.get(n, [])
        slices = {number: planned for number, planned in task.slices.items() if planned.stream == n}
        if not slices or any(planned.attempt != stream.attempt for planned in slices.values()):
            # The stream was restarted or its commit refused meanwhile, or this happened with an earlier result.
            _delete(stream, files)
            return False
        fitting = self._fit_to_table(n, result.grown.get(n, {}), files, task.targets[n])
        progress = {} if fitting is None else {item.number: item for item in result.progress}
        for number, planned in slices.items():
            unfinished = number in result.unfinished and fitting is not None
            if number in progress:
                self._bundles.suspects.clear(planned.slice)
                stream.add_result(planned.slice, progress[number], unfinished=unfinished)
            elif not unfinished:
                stream.untouched(planned.slice)
        if not progress.keys().isdisjoint(slices):
            self._uncommitted.setdefault(n, []).extend(fitting or ())
        return fitting is not None

    def _fit_to_table(
        self, n: int, grown: Grown, files: Sequence[DataFile], target: WriteTarget
    ) -> Sequence[DataFile] | None:
        """Add the columns that files need to a stream's table, and return the files so that they fit it.

        None if they cannot fit, because another task's columns came first, and were deleted; or if the stream failed.
        """
        stream, before = self._streams[n], self._uncommitted.get(n, [])
        stale = stream.outgrew(target)
        if not grown and not (stale and files):
            return files
        fitting = _failing_alone(
            stream, partial(stream.grow, [{}, grown], [before, files], self._workers.spread, stale=stale)
        )
        if fitting is None:
            _delete(stream, [*self._uncommitted.pop(n, []), *files])
            return None
        if fitting[0] is not None and before:
            # If files of earlier tasks have vanished, their commit will notice.
            self._uncommitted[n] = list(fitting[0])
        return fitting[1]

    def _commit(self) -> None:
        """Commit the results so far of each stream that is not in the middle of a wave."""
        began, self._overdue = self._clock(), []
        for n, stream in enumerate(self._streams):
            # Committing half a wave would put later rows before earlier ones of the read.
            half_wave = self._bundles.in_wave(n) and bool(self._running)
            if half_wave and n in self._uncommitted:
                self._overdue.append(n)
            if (n in self._uncommitted and not half_wave) or stream.idle:
                with self._budgets.planning():
                    _failing_alone(stream, partial(stream.commit, self._uncommitted.pop(n, []), self._workers.spread))
        self._times.committed(began, tasks_run=bool(self._running))
        self._report()

    def _commit_interrupted(self) -> None:
        """Commit what is covered, and interrupt the streams that are not complete after that."""
        self._interruption.request(self._interruption.why or MAX_REQUESTS)
        for stream in self._streams:
            stream.interrupt()
        self._commit()
        for stream in self._streams:
            stream.interrupt()

    def _report(self) -> None:
        """Call `watch` after a change."""
        self._watch(max(self._times.until_due, _SHORTEST_WATCH_SECONDS) if self._running else 0)


def _failing_alone(stream: StreamSync, work: Callable[[], T]) -> T | None:
    """Return the result of work for a stream. If it raises, fail only this stream and return None."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - an error fails only this stream
        stream.refused(Failure.of(error))
        return None


def _read(workers: Workers, name: str, job: BundleJob, tasks: Sequence[SliceTask]) -> BundleResult:
    """Read slices in a task. name: the task's name in user interfaces."""
    workers.set_name(name)
    (result,) = workers.spread(run_bundle, [(job, tasks)])
    return result


def _delete(stream: StreamSync, files: Iterable[DataFile]) -> None:
    for file in files:
        as_folder(stream.target.root).delete(file.path)
