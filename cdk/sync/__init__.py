"""Syncs into Delta tables: the settings, the loop that plans, reads and commits, the tasks, and the reports.

Nothing here depends on Spark: tasks run on the `Workers` that the caller passes, or in this process. Names are imported
lazily, because the command line uses parts of this package that need no pyarrow.
"""

from typing import TYPE_CHECKING

from cdk.base.first_use import lazy_names

if TYPE_CHECKING:  # at run time this would import pyarrow and deltalake
    from cdk.sources.manifests import manifest_source
    from cdk.sync.loop.runner import SyncRunner
    from cdk.sync.reports.run_report import SyncResult
    from cdk.sync.reports.stream_report import Status, StreamReport
    from cdk.sync.settings.pipeline_file import Pipeline
    from cdk.sync.tasks.workers import Workers

__all__ = ["Pipeline", "Status", "StreamReport", "SyncResult", "SyncRunner", "Workers", "manifest_source"]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__)
