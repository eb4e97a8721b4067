"""SyncRunner: a sync whose tasks run on Spark's executors, or in this process until Spark is needed."""

from collections.abc import Callable

from cdk.base.times.clock import Clock, system_clock
from cdk.rest.http.authenticator import ignore
from cdk.spark.cluster.spark_workers import SparkWorkers
from cdk.streams.source import Source
from cdk.sync.loop import runner
from cdk.sync.loop.runner import Watch
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.tasks.workers import WorkerSource


class SyncRunner(runner.SyncRunner):
    """One sync of a pipeline: on the active session, or on one that is started as the pipeline says."""

    def __init__(
        self,
        pipeline: Pipeline,
        source: Source,
        *,
        watch: Watch = lambda *_: None,
        clock: Clock = system_clock,
        workers: WorkerSource | None = None,
        mask: Callable[[str], str] = str,
        learn: Callable[[str], None] = ignore,
    ) -> None:
        """Prepare a sync. workers: where its tasks run instead of on Spark's executors. The rest: see the base."""
        workers = workers or SparkWorkers(pipeline.spark)
        super().__init__(pipeline, source, watch=watch, clock=clock, workers=workers, mask=mask, learn=learn)
