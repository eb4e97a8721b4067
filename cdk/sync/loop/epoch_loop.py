"""The loop of a sync: plan an epoch, run it, commit what it brought, until nothing is left to read."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TypeVar

from cdk.base.process.crash_points import crash_point
from cdk.base.task_map import TaskLost
from cdk.base.values import FieldValue
from cdk.lake.storage.folder import as_folder
from cdk.rest.auth.tokens import IssuedToken
from cdk.rest.http.activity import activities
from cdk.state.slice import Slice
from cdk.sync.loop.stream_sync import StreamSync
from cdk.sync.loop.suspects import SliceLost, Suspects
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.tasks.epoch_task import BundleResult, EpochJob, run_epoch
from cdk.sync.tasks.messages import Failure, SliceTask
from cdk.sync.tasks.workers import Workers

T = TypeVar("T")

_FIRST = 4.0
"""Seconds that the first epoch may read. An epoch's job and commit take half a second, however short it is."""

_SLICES = 128
"""Slices of the first epoch for each that is open at once: some answer in 30 ms."""

_MOST_SLICES = 10_000

_NAMED = 3
"""Streams in the name of a job."""

_LONGEST = 40
"""Characters of a value in the name of a job."""


class EpochLoop:
    """The epochs of one sync. Belongs to the driver's thread.

    Budgets double from four seconds, so that the first commit comes early and a long sync commits rarely.
    Planning takes no longer than the epoch may read: where parents are slow, their first slices do not wait for all.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        runs: Sequence[StreamSync],
        workers: Workers,
        watch: Callable[[float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """watch: told before each epoch how many seconds it may read, and 0 after its commits. clock: of planning."""
        self._runs, self._workers, self._watch, self._clock = runs, workers, watch, clock
        self._interval = pipeline.checkpoint_interval.total_seconds()
        self._concurrency, self._name = pipeline.concurrency, pipeline.name
        self._joins = pipeline.target.join_small_files
        self._seconds, self._suspects = min(_FIRST, self._interval), Suspects()
        # Slices that are not begun come again; too few leave an API that makes tasks wait without requests.
        self._slices = min(_SLICES * pipeline.concurrency, _MOST_SLICES)

    def read_all(self) -> None:
        """Run epochs until every stream is done or failed. Raises TransientError: Spark was lost."""
        for run in self._runs:
            self._for(run, partial(run.prepare, self._workers.spread))
        while any(run.active for run in self._runs):
            pieces = self._plan()
            results = self._read(pieces) if pieces else []
            crash_point("epoch_read")
            self._grow(pieces, results)
            self._add_results(pieces, results)
            self._commit({piece.target for piece in pieces}, results)
            self._watch(0)
        for run in self._runs:
            run.warn_of_keys()
            if self._joins:
                run.compact()
        self._workers.name("")  # a notebook's session goes on

    def _plan(self) -> list[SliceTask]:
        """Slices of all streams in turn, so that small streams share the epochs of large ones."""
        end = self._clock() + self._seconds
        pieces: list[SliceTask] = []
        waiting = [(n, run) for n, run in enumerate(self._runs) if run.active]
        # However slow the planning is, nobody who could read is left without a slice.
        while waiting and len(pieces) < self._slices and (len(pieces) < self._concurrency or self._clock() < end):
            for n, run in list(waiting):
                slice = run.next()
                if slice is None:
                    waiting.remove((n, run))
                else:
                    pieces.append(SliceTask(len(pieces), n, slice))
        return pieces

    def _read(self, pieces: Sequence[SliceTask]) -> list[BundleResult]:
        crash_point("epoch_begins")
        tokens = self._tokens(pieces)
        pieces = [piece for piece in pieces if self._runs[piece.target].active]
        if not pieces:
            return []
        self._workers.name(job_name(self._name, [(self._runs[p.target].stream.name, p.slice) for p in pieces]))
        self._watch(self._seconds)
        bundles = self._suspects.bundles(pieces, min(self._concurrency, len(pieces), self._workers.count))
        targets, live = [run.target for run in self._runs], activities().folder
        job = EpochJob(targets, self._seconds, self._concurrency, tokens, live, self._workers.limits)
        try:
            return run_epoch(self._workers.spread, job, bundles)
        except TaskLost as lost:
            if (piece := self._suspects.accuse(bundles, lost)) is not None:
                self._runs[piece.target].fail(Failure.of(SliceLost(piece.slice, lost)))
            return []

    def _tokens(self, pieces: Sequence[SliceTask]) -> Mapping[str, IssuedToken]:
        """The access tokens for these slices. They are obtained here, for all tasks; a stream without fails."""
        tokens: dict[str, IssuedToken] = {}
        for n in sorted({piece.target for piece in pieces}):
            tokens |= self._for(self._runs[n], partial(self._runs[n].access_tokens, self._seconds)) or {}
        return tokens

    def _grow(self, pieces: Sequence[SliceTask], results: Sequence[BundleResult]) -> None:
        """Add the columns that tasks need. Where another task was quicker, and they differ, its slices wait."""
        for n in sorted({n for result in results for n in result.grown}):
            run = self._runs[n]
            grown = [result.grown.get(n, {}) for result in results]
            files = [result.files.get(n, []) for result in results]
            fitting = self._for(run, partial(run.grow, grown, files, self._workers.spread))
            for file in [] if fitting is not None else chain.from_iterable(files):
                as_folder(run.target.root).delete(file.path)
            for result, fits in zip(results, fitting or [None] * len(results), strict=True):
                if fits is None:
                    result.files.pop(n, None)
                    result.progress = [item for item in result.progress if pieces[item.number].target != n]
                else:
                    result.files[n] = list(fits)

    def _add_results(self, pieces: Sequence[SliceTask], results: Sequence[BundleResult]) -> None:
        progress = {item.number: item for result in results for item in result.progress}
        for piece in pieces:
            run = self._runs[piece.target]
            if piece.number in progress:
                self._suspects.clear(piece.slice)
                run.add_result(piece.slice, progress[piece.number])
            else:
                run.untouched(piece.slice)
        started = len(progress)
        # The next epoch has twice the time; and twice that again, for a source may become quicker.
        target_count = 8 * self._slices if started == len(pieces) else 4 * started
        self._slices = min(max(target_count, self._concurrency), _MOST_SLICES)
        self._seconds = min(self._seconds * 2, self._interval)

    def _commit(self, touched: Collection[int], results: Sequence[BundleResult]) -> None:
        for n, run in enumerate(self._runs):
            if run.active or n in touched:
                files = [file for result in results for file in result.files.get(n, ())]
                self._for(run, partial(run.commit, files, self._workers.spread))

    def _for(self, run: StreamSync, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except Exception as error:  # noqa: BLE001 - it fails this stream and no other
            run.refused(Failure.of(error))
            return None


def job_name(pipeline: str, slices: Iterable[tuple[str, Slice]]) -> str:
    """What Spark's own pages call an epoch's job: `shop: orders 2024-01-01..2024-01-31, users`.

    slices: the epoch's, in the order they were planned, each with the name of its stream. Partitions are left out: a
    job has thousands of them. At most three streams are named.
    """
    by_stream: dict[str, list[Slice]] = {}
    for name, slice in slices:
        by_stream.setdefault(name, []).append(slice)
    named = [f"{name}{_stretch(slices_of_stream)}" for name, slices_of_stream in list(by_stream.items())[:_NAMED]]
    more = f" ({len(by_stream) - _NAMED} more)" if len(by_stream) > _NAMED else ""
    return f"{pipeline}: {', '.join(named)}{more}"


def _stretch(slices: list[Slice]) -> str:
    windows = [slice.window for slice in slices if slice.window is not None]
    if not windows:
        return ""
    # Windows are handed out oldest first, and those of one epoch may belong to several partitions.
    start, end = windows[0].start, windows[-1].end
    return f" {_short(start)}..{'' if end is None else _short(end)}"


def _short(value: FieldValue) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
