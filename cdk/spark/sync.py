"""SyncRunner: reads a source's streams on Spark into Delta tables, rows and state in one commit."""

from collections.abc import Callable, Collection, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from cdk.base.errors import ConfigError
from cdk.base.logs import logger
from cdk.base.spelling import did_you_mean
from cdk.spark.epoch import BundleResult, Failure, Job, Piece, run_epoch
from cdk.spark.lock import only_run
from cdk.spark.pipeline import Pipeline, StreamOptions
from cdk.spark.session import open_session, ship
from cdk.spark.stream_run import Status, StreamReport, StreamRun
from cdk.streams.source import Source
from cdk.streams.stream import Stream

_MOST_SLICES = 10_000


@dataclass(frozen=True)
class SyncResult:
    """What a sync did, stream by stream in the order of the source."""

    streams: Sequence[StreamReport]

    @property
    def ok(self) -> bool:
        """Whether every stream was read to its end."""
        return all(report.status is Status.DONE for report in self.streams)


Watch = Callable[[Sequence[StreamReport]], None]
"""Told how each stream stands: when the streams are known, and after each epoch's commits."""


class SyncRunner:
    """One sync of a pipeline."""

    def __init__(self, pipeline: Pipeline, source: Source, *, watch: Watch = lambda _: None) -> None:
        self._pipeline, self._source, self._watch = pipeline, source, watch

    def run(self) -> SyncResult:
        """Read every stream to its end, or to its error; one that fails does not stop the others.

        Raises ConfigError: the pipeline does not fit the source, or Spark does not start. StateConflict: another sync
        of this pipeline runs. TransientError: Spark was lost; the next sync is the rest of this one.
        """
        target = Path(self._pipeline.target.path).absolute()
        plans = [self._plan(stream, options, target) for stream, options in self._chosen()]
        _check_apart([plan.root for plan in plans])
        with only_run(target, self._pipeline.name) as sync:
            opened = [self._open(plan, sync) for plan in plans]
            runs = [run for run in opened if isinstance(run, StreamRun)]

            def report() -> list[StreamReport]:
                return [run.report if isinstance(run, StreamRun) else run for run in opened]

            self._watch(report())
            if runs:
                log = target / "_cdk" / f"{self._pipeline.name}.spark.log"
                session = open_session(self._pipeline.name, self._pipeline.spark, log)
                ship(session, {type(self._source).__module__, *(type(plan.stream).__module__ for plan in plans)})
                _Epochs(self._pipeline, runs, session, lambda: self._watch(report())).read_all()
        return SyncResult(report())

    def _chosen(self) -> Iterator[tuple[Stream, StreamOptions]]:
        known: dict[str, Stream] = {}
        for stream in self._source.streams(self._pipeline.config):
            if stream.name in known:
                raise ConfigError(f"streams: the source has two streams called {stream.name!r}; names must differ")
            known[stream.name] = stream
        chosen = self._pipeline.streams
        for name in chosen or ():
            if name not in known:
                raise ConfigError(f"streams: the source has no stream {name!r}{did_you_mean(name, known)}")
        for name, stream in known.items():
            if chosen is None or name in chosen:
                yield stream, (chosen or {}).get(name, StreamOptions())

    def _plan(self, stream: Stream, options: StreamOptions, target: Path) -> "_Plan":
        stream = _with_options(stream, options)
        sync_mode = options.sync_mode or ("incremental" if stream.incremental else "full_refresh")
        write_mode = options.write_mode or ("append" if sync_mode == "incremental" else "overwrite")
        where = f"streams.{stream.name}"
        if sync_mode == "incremental" and not stream.incremental:
            raise ConfigError(f"{where}.sync_mode: the stream has no cursor; use full_refresh")
        if sync_mode == "incremental" and write_mode == "overwrite":
            raise ConfigError(f"{where}.write_mode: an incremental sync adds to its table; use append")
        names = [stream.namespace, stream.name] if stream.namespace else [stream.name]
        for name in names:
            if name in {".", ".."} or name.startswith("_cdk") or not {"/", "\\", "\0"}.isdisjoint(name):
                raise ConfigError(f"{where}: a table cannot lie in a folder called {name!r}; rename the stream")
        return _Plan(stream, target.joinpath(*names), sync_mode, write_mode)

    def _open(self, plan: "_Plan", sync: str) -> StreamRun | StreamReport:
        """The stream's run, or its report when not even its table or schema can be used."""
        stream = plan.stream
        try:
            _check_travels(stream)
            return StreamRun(stream, plan.root, self._pipeline.name, plan.sync_mode, plan.write_mode, sync=sync)
        except Exception as error:  # noqa: BLE001 - it fails this stream and no other
            failure = Failure.of(error)
            logger.error("%s: %s", stream.name, failure.message)
            return StreamReport(stream.name, Status.FAILED, plan.sync_mode, plan.write_mode, failure=failure)


@dataclass(frozen=True)
class _Plan:
    """A stream, its table's folder, and how it is read and written."""

    stream: Stream
    root: Path
    sync_mode: str
    write_mode: str


class _Epochs:
    """Plans epochs, runs them, and commits what they bring, until nothing is left to read."""

    def __init__(
        self, pipeline: Pipeline, runs: Sequence[StreamRun], session: SparkSession, watch: Callable[[], None]
    ) -> None:
        self._runs, self._session, self._watch = runs, session, watch
        self._interval = pipeline.checkpoint_interval.total_seconds()
        self._concurrency = pipeline.concurrency
        self._cores = session.sparkContext.defaultParallelism
        # Budgets double from a second, so that the first commit comes early and a long sync commits rarely.
        self._seconds = min(1.0, self._interval)
        self._slices = 2 * pipeline.concurrency

    def read_all(self) -> None:
        """Run epochs until every stream is done or failed."""
        while any(run.active for run in self._runs):
            pieces = self._plan()
            tasks = min(self._concurrency, len(pieces), self._cores)
            results: list[BundleResult] = []
            if pieces:
                job = Job([run.target for run in self._runs], self._seconds, self._concurrency)
                results = run_epoch(self._session, job, [pieces[n::tasks] for n in range(tasks)])
            self._take(pieces, results)
            self._commit({piece.target for piece in pieces}, results)
            self._watch()

    def _plan(self) -> list[Piece]:
        """Slices of all streams in turn, so that small streams share the epochs of large ones."""
        pieces: list[Piece] = []
        waiting = [(n, run) for n, run in enumerate(self._runs) if run.active]
        while waiting and len(pieces) < self._slices:
            for n, run in list(waiting):
                slice = run.next()
                if slice is None:
                    waiting.remove((n, run))
                else:
                    pieces.append(Piece(len(pieces), n, slice))
        return pieces

    def _take(self, pieces: Sequence[Piece], results: Sequence[BundleResult]) -> None:
        progress = {item.number: item for result in results for item in result.progress}
        for piece in pieces:
            run = self._runs[piece.target]
            if piece.number in progress:
                run.take(piece.slice, progress[piece.number])
            else:
                run.untouched(piece.slice)
        begun = len(progress)
        if begun == len(pieces):
            self._slices = min(self._slices * 4, _MOST_SLICES)
        elif begun < len(pieces) // 2:
            self._slices = max(self._slices // 2, self._concurrency)
        self._seconds = min(self._seconds * 2, self._interval)

    def _commit(self, touched: Collection[int], results: Sequence[BundleResult]) -> None:
        for n, run in enumerate(self._runs):
            if run.active or n in touched:
                try:
                    run.commit([file for result in results for file in result.files.get(n, ())])
                except Exception as error:  # noqa: BLE001 - it fails this stream and no other
                    run.refused(Failure.of(error))


def _check_apart(roots: Sequence[Path]) -> None:
    """Raise ConfigError for a table inside another's folder: cleaning up one would delete the other's files."""
    for root in roots:
        if any(other in root.parents for other in roots):
            raise ConfigError(f"streams: the table {root} would lie inside another stream's; leave one of them out")


def _check_travels(stream: Stream) -> None:
    """Raise ConfigError for a stream that cannot be pickled: alone, it would take all others down with the job."""
    try:
        cloudpickle.dumps(stream)  # type: ignore[no-untyped-call]  # pyspark's copy is untyped
    except Exception as error:
        raise ConfigError(
            f"the stream cannot travel to Spark's tasks: {error}; make what it holds in read_records, "
            "or leave it out in __getstate__",
            stream=stream.name,
        ) from error


def _with_options(stream: Stream, options: StreamOptions) -> Stream:
    """The stream with the pipeline's cursor and key in place of its own."""
    if options.primary_key is None and options.cursor_field is None:
        return stream
    stream = copy(stream)
    if options.primary_key is not None:
        stream.primary_key = options.primary_key
    if options.cursor_field is not None:
        if stream.cursor is None:
            raise ConfigError(f"streams.{stream.name}.cursor_field: the stream has no cursor to point at a field")
        stream.cursor = copy(stream.cursor)
        stream.cursor.field = stream.cursor_field = options.cursor_field
    return stream
