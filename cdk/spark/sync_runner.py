"""SyncRunner: a sync whose tasks run on Spark's executors, or in this process until Spark is needed."""

from cdk.spark.cluster.spark_workers import SparkWorkers
from cdk.sync.loop import runner
from cdk.sync.settings.pipeline_file import Pipeline


class SyncRunner(runner.SyncRunner):
    """One sync of a pipeline, on the active session or on one started with the pipeline's settings."""

    def workers_of(self, pipeline: Pipeline) -> SparkWorkers:
        """Return the executors of the session that the pipeline describes."""
        return SparkWorkers(pipeline.spark)
