"""What a sync is: settings, the loop that plans, reads and commits, what runs in a task, and the reports.

Nothing in here knows Spark: tasks run on whatever `Workers` are passed, in this process too. Names are imported when
they are used: the command line takes parts of this package that need no pyarrow.
"""

from typing import TYPE_CHECKING

from cdk.base.lazy_names import lazy_names

if TYPE_CHECKING:  # importing them at run time would import pyarrow and deltalake
    from cdk.sources.manifests import manifest_source
    from cdk.sync.loop.runner import SyncResult, SyncRunner
    from cdk.sync.reports.stream_report import Status, StreamReport
    from cdk.sync.settings.pipeline_file import Pipeline
    from cdk.sync.tasks.workers import Workers

__all__ = ["Pipeline", "Status", "StreamReport", "SyncResult", "SyncRunner", "Workers", "manifest_source"]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__)
