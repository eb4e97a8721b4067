"""The door for programs that have Spark: notebooks, schedulers.

Names are imported when they are used: the command line takes parts of this package that need no pyspark.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from cdk.base.values import Json

if TYPE_CHECKING:  # importing them at run time would import pyspark
    from cdk.spark.datasource import register
    from cdk.sync.loop.runner import SyncResult, SyncRunner
    from cdk.sync.reports.stream_report import Status, StreamReport
    from cdk.sync.settings.pipeline_file import Pipeline

__all__ = ["Pipeline", "Status", "StreamReport", "SyncResult", "SyncRunner", "register"]

_PLACES = {
    "Pipeline": "pipeline",
    "Status": "stream_run",
    "StreamReport": "stream_run",
    "SyncResult": "sync",
    "SyncRunner": "sync",
    "register": "datasource",
}


def __getattr__(name: str) -> Json:
    """Import what the door has when it is first asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(import_module(f"{__name__}.{_PLACES[name]}"))[name]
