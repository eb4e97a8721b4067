"""SyncRunner: reads a source's streams on Spark into Delta tables, rows and state in one commit."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from pyspark import cloudpickle

from cdk.base.errors import ConfigError
from cdk.base.logs import logger
from cdk.base.masking import Secrets, secret_values
from cdk.base.spelling import did_you_mean
from cdk.base.times import Clock, system_clock
from cdk.base.values import Json
from cdk.rest.tally import counting
from cdk.spark.crash import crash_point
from cdk.spark.epoch import Failure
from cdk.spark.epochs import Epochs
from cdk.spark.follow import following, open_log
from cdk.spark.lineage import Opened, lineage
from cdk.spark.lock import only_run
from cdk.spark.pipeline import Pipeline, StreamOptions
from cdk.spark.place import Place
from cdk.spark.plan import StreamPlan, check_apart, plan_stream
from cdk.spark.preview import Preview, previews
from cdk.spark.run_report import RunFacts, run_report
from cdk.spark.session import open_session, ship
from cdk.spark.store import place_at
from cdk.spark.stream_run import Status, StreamReport, StreamRun
from cdk.spark.tasks import Workers, executors
from cdk.streams.source import Source
from cdk.streams.stream import Stream


@dataclass(frozen=True)
class SyncResult:
    """What a sync did, stream by stream in the order of the source. run: what concerns all of them."""

    streams: Sequence[StreamReport]
    run: RunFacts = field(default_factory=RunFacts)

    @property
    def ok(self) -> bool:
        """Whether every stream was read to its end."""
        return all(report.status is Status.DONE for report in self.streams)

    def to_json(self) -> Mapping[str, Json]:
        """The report of the run (docs/reference/run-report.md), the config's secrets masked."""
        return run_report(self.run, self.streams)


Watch = Callable[[Sequence[StreamReport], float], None]
"""Told how each stream stands: when the streams are known, before each epoch, and after its commits.

The number is how many seconds the epoch that begins may read, 0 when none begins.
"""


class SyncRunner:
    """One sync of a pipeline."""

    def __init__(
        self,
        pipeline: Pipeline,
        source: Source,
        *,
        watch: Watch = lambda *_: None,
        clock: Clock = system_clock,
        workers: Workers | None = None,
        mask: Callable[[str], str] = str,
    ) -> None:
        """Prepare a sync. workers: where tasks run instead of on Spark's executors; tests read in this process.

        mask: hides what is secret besides the config, in what others are told of errors.
        """
        self._pipeline, self._source, self._watch, self._clock = pipeline, source, watch, clock
        self._workers = workers
        self._secrets = list(secret_values(source.config_schema, pipeline.config))
        own = Secrets(self._secrets).mask
        self._facts = RunFacts(pipeline.name, pipeline.target.path, begun=clock(), mask=lambda text: mask(own(text)))
        self._reports: Callable[[], Sequence[StreamReport]] = tuple

    @property
    def result(self) -> SyncResult:
        """What the sync has done so far; also after `run` has raised."""
        return SyncResult(self._reports(), replace(self._facts, ended=self._clock()))

    def run(self) -> SyncResult:
        """Read every stream to its end, or to its error; one that fails does not stop the others.

        Raises ConfigError: the pipeline does not fit the source, or Spark does not start. StateConflict: another sync
        of this pipeline runs. TransientError: Spark was lost; the next sync is the rest of this one.
        """
        with counting(self._facts.http):
            return self._run()

    def preview(self, most: int) -> Iterator[Preview]:
        """What a sync would read, stream by stream, with up to `most` records of each. Nothing that lasts is written.

        Raises ConfigError as `run` does; what goes wrong in a stream is in its preview.
        """
        return previews(self._planned()[1], self._pipeline, most)

    def _planned(self) -> tuple[Place, list[StreamPlan]]:
        target = place_at(self._pipeline.target.path, self._pipeline.target.storage)
        plans = [plan_stream(stream, options, target) for stream, options in self._chosen()]
        check_apart(plans)
        return target, plans

    def _run(self) -> SyncResult:
        target, plans = self._planned()
        log = open_log(self._pipeline, self._secrets, self._clock)
        with only_run(target, self._pipeline.name) as sync, following(log, self._pipeline, plans, sync, self._ended):
            opened = [self._open(plan, sync) for plan in plans]
            runs = [run for run in opened if isinstance(run, StreamRun)]

            def report() -> list[StreamReport]:
                return [run.standing if isinstance(run, StreamRun) else run for run in opened]

            self._facts, self._reports = replace(self._facts, target=str(target), sync=sync), report
            with self._told(list(zip(plans, opened, strict=True))):
                self._watch(report(), 0)
                if runs:
                    workers = self._workers or self._spark(target, plans)
                    Epochs(self._pipeline, runs, workers, lambda seconds: self._watch(report(), seconds)).read_all()
            crash_point("done")
        return self.result

    def _told(self, opened: Sequence[Opened]) -> AbstractContextManager[None]:
        source = self._source.name or type(self._source).__name__
        return lineage(self._pipeline.name, source, opened, mask=self._facts.mask, clock=self._clock)

    def _ended(self) -> bool:
        return self.result.ok

    def _spark(self, target: Place, plans: Sequence[StreamPlan]) -> Workers:
        """Spark's executors, with the code that they need."""
        log = target.here / f"{self._pipeline.name}.spark.log"
        session = open_session(self._pipeline.name, self._pipeline.spark, log)
        self._facts = replace(self._facts, spark=session.version, master=str(session.sparkContext.master))
        ship(session, {type(self._source).__module__, *(type(plan.stream).__module__ for plan in plans)})
        return executors(session)

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

    def _open(self, plan: StreamPlan, sync: str) -> StreamRun | StreamReport:
        """The stream's run, or its report when not even its table or schema can be used."""
        stream = plan.stream
        try:
            _check_travels(stream)
            return StreamRun(plan, self._pipeline.name, sync=sync)
        except Exception as error:  # noqa: BLE001 - it fails this stream and no other
            failure = Failure.of(error)
            logger.error("%s: %s", stream.name, failure.message)
            return StreamReport(stream.name, Status.FAILED, plan.sync_mode, plan.write_mode, failure=failure)


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
