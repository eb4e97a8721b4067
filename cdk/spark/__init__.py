"""The door for programs that have Spark: notebooks, schedulers.

Names are imported when they are used: the command line takes parts of this package that need no pyspark.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from cdk.base.values import Json

if TYPE_CHECKING:  # importing them at run time would import pyspark
    from cdk.spark.datasource import register
    from cdk.spark.sync_runner import SyncRunner
    from cdk.sync.loop.runner import SyncResult
    from cdk.sync.reports.stream_report import Status, StreamReport
    from cdk.sync.settings.pipeline_file import Pipeline

__all__ = ["Pipeline", "Status", "StreamReport", "SyncResult", "SyncRunner", "register"]

_HOMES = {
    "Pipeline": "cdk.sync.settings.pipeline_file",
    "Status": "cdk.sync.reports.stream_report",
    "StreamReport": "cdk.sync.reports.stream_report",
    "SyncResult": "cdk.sync.loop.runner",
    "SyncRunner": "cdk.spark.sync_runner",
    "register": "cdk.spark.datasource",
}


def __getattr__(name: str) -> Json:
    """Import what the door has when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(import_module(_HOMES[name]))[name]
