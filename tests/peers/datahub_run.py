# mypy: disable-error-code="import-not-found", disallow-subclassing-any=False
# The peer lives in an environment of its own, which mypy does not see.
"""One run of DataHub: `datahub_run.py RUN`, by the Python of `.venv/peers`; prints what became of it as JSON.

RUN is a JSON object:

- `pipeline`, `tables`, `options` (the block `stateful_ingestion`), `preview`
- `window`: two moments whose usage is read as well, unless that is redundant; null: no usage
- `refused`: tables whose removal the sink refuses

The catalog is `catalog.json` in the working directory: table -> whether it is shown.
"""

import json
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from datahub.configuration.common import ConfigModel
from datahub.configuration.time_window_config import BucketDuration
from datahub.emitter.mce_builder import make_dataset_urn
from datahub.emitter.mcp import MetadataChangeProposalWrapper
from datahub.ingestion.api.common import PipelineContext, RecordEnvelope
from datahub.ingestion.api.decorators import platform_name
from datahub.ingestion.api.sink import Sink, SinkReport, WriteCallback
from datahub.ingestion.api.workunit import MetadataWorkUnit
from datahub.ingestion.run.pipeline import Pipeline
from datahub.ingestion.sink.sink_registry import sink_registry
from datahub.ingestion.source.source_registry import source_registry
from datahub.ingestion.source.state.redundant_run_skip_handler import RedundantUsageRunSkipHandler
from datahub.ingestion.source.state.stale_entity_removal_handler import (
    StaleEntityRemovalSourceReport,
    StatefulStaleMetadataRemovalConfig,
)
from datahub.ingestion.source.state.stateful_ingestion_base import (
    StatefulIngestionConfigBase,
    StatefulIngestionSourceBase,
)
from datahub.metadata.schema_classes import StatusClass
from datahub.utilities.urns.dataset_urn import DatasetUrn

CATALOG = Path("catalog.json")


class TablesConfig(StatefulIngestionConfigBase[StatefulStaleMetadataRemovalConfig], ConfigModel):
    """What the source has."""

    tables: list[str]
    window: tuple[datetime, datetime] | None = None


@platform_name("shop")
class Tables(StatefulIngestionSourceBase):
    """Tables by name and, where a window is asked for, their usage; with the handlers that DataHub gives to sources."""

    platform = "shop"

    def __init__(self, config: TablesConfig, ctx: PipelineContext) -> None:
        super().__init__(config, ctx)
        self.config = config
        self.report = StaleEntityRemovalSourceReport()
        self.usage = RedundantUsageRunSkipHandler(self, config, ctx.pipeline_name, ctx.run_id)
        self.read_usage = False

    @classmethod
    def create(cls, config_dict: dict[str, object], ctx: PipelineContext) -> "Tables":
        return cls(TablesConfig.model_validate(config_dict), ctx)

    def get_config(self) -> TablesConfig:
        return self.config

    def get_report(self) -> StaleEntityRemovalSourceReport:
        return self.report

    def get_workunits_internal(self) -> Iterable[MetadataWorkUnit]:
        for table in self.config.tables:
            shown = MetadataChangeProposalWrapper(
                entityUrn=make_dataset_urn(self.platform, table), aspect=StatusClass(removed=False)
            )
            yield shown.as_workunit()
        if self.config.window and not self.usage.should_skip_this_run(*self.config.window):
            self.read_usage = True
            self.usage.report_current_run_status("usage", True)
            self.usage.update_state(*self.config.window, BucketDuration.DAY)


class CatalogConfig(ConfigModel):
    """What the sink does not do."""

    refused: list[str]


class Catalog(Sink[CatalogConfig, SinkReport]):
    """Tables by name: true while shown, false once flagged as removed."""

    def write_record_async(self, record_envelope: RecordEnvelope, write_callback: WriteCallback) -> None:
        proposal = record_envelope.record
        if not isinstance(proposal.aspect, StatusClass):
            return
        table = DatasetUrn.from_string(proposal.entityUrn).name
        if proposal.aspect.removed and table in self.config.refused:
            refusal = RuntimeError(f"{table} cannot be removed")
            self.report.report_failure(str(refusal))
            write_callback.on_failure(record_envelope, refusal, {})
            return
        tables = json.loads(CATALOG.read_text()) if CATALOG.exists() else {}
        CATALOG.write_text(json.dumps({**tables, table: not proposal.aspect.removed}))
        self.report.report_record_written(record_envelope)
        write_callback.on_success(record_envelope, {})


def run(asked: dict[str, object]) -> dict[str, object]:
    """What became of a run: how it ended, what it complained of, whether usage was read."""
    pipeline = Pipeline.create(
        {
            "pipeline_name": asked["pipeline"],
            "source": {
                "type": "shop",
                "config": {
                    "tables": asked["tables"],
                    "window": asked["window"],
                    "stateful_ingestion": asked["options"],
                },
            },
            "sink": {"type": "catalog", "config": {"refused": asked["refused"]}},
        },
        preview_mode=asked["preview"],
        report_to=None,
        no_progress=True,
    )
    pipeline.run()
    complaints = [*pipeline.source.get_report().failures, *pipeline.sink.get_report().failures]
    return {
        "status": pipeline.final_status.name,
        "complaints": [str(complaint) for complaint in complaints],
        "read_usage": pipeline.source.read_usage,
    }


def refuse_network(event: str, arguments: tuple[object, ...]) -> None:
    """Audit hook: keep DataHub from asking package indexes whether it is the newest."""
    if event in {"socket.getaddrinfo", "socket.connect"}:
        raise OSError(f"{event}{arguments[1:]}: this run has no network")


if __name__ == "__main__":
    sys.addaudithook(refuse_network)
    source_registry.register("shop", Tables)
    sink_registry.register("catalog", Catalog)
    print(json.dumps(run(json.loads(sys.argv[1]))))
