"""What `spark-cdk state verify` says of the tables of a pipeline that nobody but the kit writes."""

from collections.abc import Sequence
from typing import NamedTuple

from cdk.lake.admin.verify import audits, findings
from cdk.lake.storage.object_store import folder_at
from cdk.streams.source import Source
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.settings.stream_plan import chosen_streams, plan_stream


class Verified(NamedTuple):
    """receipts: of all commits of all tables. broken: sentences, none where states, files and receipts are right."""

    receipts: int
    broken: Sequence[str]


def verify(pipeline: Pipeline, source: Source) -> Verified:
    """Look at the tables that are there, histories too. A commit of rows without a receipt is wrong here."""
    target = folder_at(pipeline.target.path, pipeline.target.storage)
    chosen = chosen_streams(source.open(pipeline.config), pipeline.streams)
    plans = [plan_stream(stream, how, target) for stream, how in chosen]
    tables = [plan.location for plan in plans if plan.location.exists]
    receipts, broken = 0, []
    for table in tables:
        audited = audits(table)
        receipts += sum(audit.receipts for audit in audited.values())
        broken += [
            f"{finding.stream}: {finding.text}" for finding in findings(table, pipeline.name, audited) if finding.broken
        ]
        broken += [
            f"{name}: without a receipt: {other}" for name, audit in audited.items() for other in audit.other_commits
        ]
    return Verified(receipts, broken)
