"""The public API for programs that use Spark: notebooks, schedulers.

Names are imported on first use, because the command line uses parts of this package that do not need pyspark.
"""

from typing import TYPE_CHECKING

from cdk.base.first_use import lazy_names

if TYPE_CHECKING:  # importing them at run time would import pyspark
    from cdk.sources.manifests import manifest_source
    from cdk.spark.datasource import register
    from cdk.spark.sync_runner import SyncRunner
    from cdk.sync.reports.run_report import SyncResult
    from cdk.sync.reports.stream_report import Status, StreamReport
    from cdk.sync.settings.pipeline_file import Pipeline

__all__ = ["Pipeline", "Status", "StreamReport", "SyncResult", "SyncRunner", "manifest_source", "register"]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__)
