"""The main job on real input: a Kinto that people write to between syncs, read on Spark into a Delta table."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from cdk import Json
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, TargetOptions
from connectors.kinto.source import Kinto
from tests.connectors.kinto.conftest import Server

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("session")]
Row = tuple[str, str, bool]


@pytest.fixture
def pipeline(tmp_path: Path, config: dict[str, Json]) -> Pipeline:
    return Pipeline(
        name="kinto", source=SourceOptions(connector="kinto", config=config), target=TargetOptions(path=str(tmp_path))
    )


def sync(pipeline: Pipeline) -> list[Row]:
    """Sync, and return the rows that this added to the table of records: collection, id, whether it is a tombstone."""
    before = len(rows(pipeline))
    result = SyncRunner(pipeline, Kinto()).run()
    assert result.ok, [report.failure for report in result.streams]
    now = rows(pipeline)
    return sorted(now[before:])


def rows(pipeline: Pipeline) -> list[Row]:
    path = f"{pipeline.target.path}/records"
    if not DeltaTable.is_deltatable(path):
        return []
    columns = ["_airbyte_extracted_at", "collection", "id", "deleted"]
    table = pq.read_table(DeltaTable(path).file_uris(), columns=columns).sort_by("_airbyte_extracted_at")
    return [(row["collection"], row["id"], bool(row["deleted"])) for row in table.to_pylist()]


def test_each_sync_adds_what_was_written_changed_and_deleted_since(kinto: Server, pipeline: Pipeline) -> None:
    kinto.put_records("blog/posts", 8)
    kinto.put_records("blog/drafts", 2)
    assert len(sync(pipeline)) == 10

    assert sync(pipeline) == []

    kinto.put("blog/collections/posts/records/new", {"n": 1})
    kinto.put("blog/collections/posts/records/r001", {"n": 100})
    kinto.delete("blog/collections/drafts/records/r000")
    assert sync(pipeline) == [("drafts", "r000", True), ("posts", "new", False), ("posts", "r001", False)]

    kinto.put_records("shop/orders", 4)
    assert sync(pipeline) == [("orders", f"r00{n}", False) for n in range(4)]
    assert sync(pipeline) == []
