"""Checks of what a sync writes, whether this process or tasks on Spark read the slices."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from cdk import sync
from cdk.base.secret_masking import secret_values
from cdk.base.task_map import Item, Result, TaskMap
from cdk.rest import Transport
from cdk.streams.stream import Stream, full_name
from cdk.sync.tasks.workers import Workers, WorkerSource
from cdk.testing.cassettes.recording import Recorder
from cdk.testing.cassettes.replay import Cassette
from cdk.testing.conformance.resume_checks import difference
from cdk.testing.conformance.subject import Nonconforming, SuiteSubject
from cdk.testing.proving.trials import rows

__tracebackhide__ = True  # see `cdk.testing.conformance.subject`

_SPARK = {"start": "always", "master": "local[2]"}


def check_sync(subject: SuiteSubject) -> None:
    """Check that a sync in this process writes each record of a read exactly once to the stream's table."""
    with TemporaryDirectory() as folder, subject.streams() as streams:
        _sync(subject, streams, folder)
        written = rows(Path(folder))
        for stream in streams.values():
            records = len(subject.first.records_of(stream.name))
            count = written[str(Path(stream.namespace or "", stream.name))].total()
            if count != records:
                raise Nonconforming(
                    f"a sync writes {count} rows, and a read has {records} records",
                    where=full_name(stream),
                    expected="a row for each record",
                    advice="build the same streams each time; store nothing that belongs to one read in the class",
                )


def check_spark(subject: SuiteSubject) -> None:
    """Check that a sync whose slices are read by tasks on Spark writes the same rows as a sync in this process.

    The tasks run in other processes, with the API's responses recorded from a read in this process.
    """
    recorder = Recorder(
        secrets := list(secret_values(subject.source.config_schema, subject.config)), subject.api().send
    )
    subject.read(api=recorder, why="a read that is recorded for Spark")
    cassette = Cassette(recorder.recording(subject.config, subject.now()), secrets=secrets, alone=False)
    with TemporaryDirectory() as local, TemporaryDirectory() as spread, subject.streams() as streams:
        _sync(subject, streams, local, api=cassette)
        _sync(subject, streams, spread, api=cassette, tasks=cassette)
        expected, actual = rows(Path(local)), rows(Path(spread))
    for name in expected:
        if differs := difference(expected[name], actual[name]):
            raise Nonconforming(
                f"tasks on Spark return other records than this process: {differs}",
                where=name,
                expected="the same records, wherever a slice is read",
                advice="keep what a slice needs in its partition or in the stream, which is sent to the task; "
                "the class, the module and files are not",
            )


def _sync(
    subject: SuiteSubject,
    streams: Mapping[str, Stream],
    folder: str,
    *,
    api: Transport | None = None,
    tasks: Cassette | None = None,
) -> None:
    """Append all streams to tables in a folder. tasks: if not None, tasks on Spark read, with this cassette as network.

    Raises Nonconforming: when a stream cannot be read.
    """
    pipeline = sync.Pipeline.model_validate(
        {
            "name": "conformance",
            "source": {"connector": "conformance", "config": dict(subject.config)},
            "target": {"path": folder},
            "streams": {full_name(stream): {"write_mode": "append"} for stream in streams.values()},
            "spark": {} if tasks is None else _SPARK,
        }
    )
    workers = None
    if tasks is not None:
        # `cdk.spark` is a sibling layer of this package, so only its contract is known here.
        workers = _Answered(import_module("cdk.spark.cluster.spark_workers").SparkWorkers(pipeline.spark), tasks)
    with subject.world(api):
        result = sync.SyncRunner(pipeline, subject.source, workers=workers).run()
    for report in result.streams:
        if report.failure is not None:
            raise Nonconforming(
                f"a sync{'' if tasks is None else ' on Spark'} fails: {report.failure.message}",
                where=report.name,
                expected="rows in a table",
                advice="correct the connector; `spark-cdk sync` shows the same",
            )


class _Answered:
    """Workers whose tasks use a cassette for the network and the time."""

    def __init__(self, workers: WorkerSource, cassette: Cassette) -> None:
        self._workers, self._cassette = workers, cassette

    def check(self, item: object) -> None:
        self._workers.check(item)

    def start(self, name: str, log: Path, modules: Collection[str]) -> Workers:
        workers = self._workers.start(name, log, modules)
        return replace(workers, spread=partial(_spread, workers.spread, self._cassette))


def _spread(
    spread: TaskMap, cassette: Cassette, work: Callable[[Item], Result], items: Sequence[Item], /
) -> list[Result]:
    return spread(partial(_work, cassette, work), items)


def _work(cassette: Cassette, work: Callable[[Item], Result], item: Item) -> Result:
    with cassette.playing():
        return work(item)
