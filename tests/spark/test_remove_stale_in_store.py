"""What a complete read does not see leaves a table in an S3 store."""

from collections.abc import Sequence

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from cdk import Json
from cdk.base.task_map import run_inline
from cdk.lake.arrow.columns import DELETED_AT
from cdk.lake.delta import stream_table
from cdk.lake.storage.folder import Folder
from cdk.spark.cluster.executors import executors
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.counts import StaleCount
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.settings.stream_options import RemoveStaleOptions
from cdk.sync.tasks.workers import Workers
from tests.spark.given_source import Given
from tests.spark.object_store import DENIED, ObjectStore, Trouble
from tests.sync.tables.test_stale_removal import Users


def sync(
    lake: Folder, server: ObjectStore, ids: Sequence[int], workers: Workers | None = None, **more: Json
) -> StreamReport:
    options = StreamOptions(write_mode="append_dedup", remove_stale=RemoveStaleOptions(**more))
    pipeline = Pipeline(
        name="shop",
        source=SourceOptions(connector="given"),
        target=TargetOptions(path=str(lake), storage=dict(server.storage)),
        streams={"users": options},
    )
    (report,) = SyncRunner(pipeline, Given([Users(ids)]), workers=workers or Workers(run_inline, 1)).run().streams
    return report


def rows(place: Folder) -> list[dict[str, Json]]:
    table = DeltaTable(place.uri, storage_options=place.storage_options)
    found: list[dict[str, Json]] = table.to_pyarrow_table().to_pylist()
    return found


def shown(lake: Folder) -> set[Json]:
    return {row["id"] for row in rows(lake.join("users")) if row.get(DELETED_AT) is None}


@pytest.mark.parametrize(("removal", "left"), [("soft", 10), ("hard", 8)])
def test_the_commit_that_completes_a_read_removes_what_it_did_not_see(
    lake: Folder, server: ObjectStore, removal: str, left: int
) -> None:
    sync(lake, server, range(10), removal=removal)
    before = DeltaTable(lake.join("users").uri, storage_options=lake.storage_options).version()
    report = sync(lake, server, range(8), removal=removal)
    table = DeltaTable(lake.join("users").uri, storage_options=lake.storage_options)

    assert (report.status, report.stale) == (Status.DONE, StaleCount(removal, 10, 8, 2, 2))
    assert (shown(lake), report.total, table.count()) == (set(range(8)), left, left)
    # The rows that were read, then the removal with the state that says that all was.
    assert table.version() - before == 2
    assert "spark-cdk.state" in table.history(1)[0]


@pytest.mark.spark
def test_tasks_of_spark_remove_rows_there(
    session: SparkSession, lake: Folder, server: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdk.sync.tables.stale_removal.SMALL_ROWS", 0)
    sync(lake, server, range(10), executors(session))
    report = sync(lake, server, range(8), executors(session))

    assert (report.stale, shown(lake)) == (StaleCount("soft", 10, 8, 2, 2), set(range(8)))


@pytest.mark.parametrize("point", ["before_state_blob", "after_state_blob", "after_commit"])
def test_a_sync_that_is_killed_at_the_removal_is_finished_by_the_next(
    lake: Folder, server: ObjectStore, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    sync(lake, server, range(10))
    reached = 0

    def crash(name: str) -> None:
        nonlocal reached
        reached += name == point
        if reached == 2:
            raise SystemExit(name)

    monkeypatch.setattr(stream_table, "crash_point", crash)
    with pytest.raises(SystemExit):
        sync(lake, server, range(8))
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(lake.local_path))

    assert shown(lake) == set(range(8 if point == "after_commit" else 10))
    assert sync(lake, server, range(8)).status is Status.DONE
    assert shown(lake) == set(range(8))


def test_a_removal_whose_answer_is_lost_is_done_once(lake: Folder, server: ObjectStore) -> None:
    sync(lake, server, range(10))
    version = DeltaTable(lake.join("users").uri, storage_options=lake.storage_options).version()
    server.misbehave(Trouble(rf"PUT /lake/.*/_delta_log/0*{version + 2}\.json", times=1, done=True))
    report = sync(lake, server, range(8))

    assert (report.status, report.stale) == (Status.DONE, StaleCount("soft", 10, 8, 2, 2))
    assert (shown(lake), len(rows(lake.join("users")))) == (set(range(8)), 10)


def test_a_store_that_refuses_the_removal_keeps_the_rows_until_the_next_sync(lake: Folder, server: ObjectStore) -> None:
    sync(lake, server, range(10))
    version = DeltaTable(lake.join("users").uri, storage_options=lake.storage_options).version()
    server.misbehave(Trouble(rf"PUT /lake/.*/_delta_log/0*{version + 2}\.json", 403, DENIED))
    failed = sync(lake, server, range(8))
    server.misbehave()

    assert (failed.status, shown(lake)) == (Status.FAILED, set(range(10)))
    assert sync(lake, server, range(8)).stale == StaleCount("soft", 10, 8, 2, 2)
    assert shown(lake) == set(range(8))
