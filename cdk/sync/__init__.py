"""What a sync is: settings, the loop that plans, reads and commits, what runs in a task, and the reports.

Nothing in here knows Spark: tasks run on whatever `Workers` are passed, in this process too. Names are imported when
they are used: the command line takes parts of this package that need no pyarrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from cdk.base.values import Json

if TYPE_CHECKING:  # importing them at run time would import pyarrow and deltalake
    from cdk.sync.loop.runner import SyncResult, SyncRunner
    from cdk.sync.reports.stream_report import Status, StreamReport
    from cdk.sync.settings.pipeline_file import Pipeline
    from cdk.sync.tasks.workers import Workers

__all__ = ["Pipeline", "Status", "StreamReport", "SyncResult", "SyncRunner", "Workers"]

_HOMES = {
    "Pipeline": "cdk.sync.settings.pipeline_file",
    "Status": "cdk.sync.reports.stream_report",
    "StreamReport": "cdk.sync.reports.stream_report",
    "SyncResult": "cdk.sync.loop.runner",
    "SyncRunner": "cdk.sync.loop.runner",
    "Workers": "cdk.sync.tasks.workers",
}


def __getattr__(name: str) -> Json:
    """Import what the front door has when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(import_module(_HOMES[name]))[name]
