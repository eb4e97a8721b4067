"""How often a sync opens its tables, as the log says at the level DEBUG; tasks run in this process."""

import logging
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdk import Json, JsonSchema
from cdk.lake.admin.locate import OpenTables, StreamLocation
from cdk.lake.storage.folder import LocalFolder
from cdk.sync.loop.runner import SyncRunner
from cdk.sync.reports.run_report import SyncResult
from cdk.sync.settings.pipeline_file import Pipeline
from tests.samples import Orders, Users
from tests.spark.given_source import Given


class Declared(Users):
    """Users whose fields are declared."""

    name = "users"

    def json_schema(self) -> JsonSchema:
        return {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}


def opens(caplog: pytest.LogCaptureFixture, folder: Path, **settings: Json) -> Mapping[str, int]:
    """How often a sync of two streams opened each table below `folder`."""
    pipeline = Pipeline.model_validate(
        {"name": "shop", "source": {"connector": "given"}, "target": {"path": str(folder)}, **settings}
    )
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "cdk"):
        assert SyncRunner(pipeline, Given([Orders(), Declared()])).run().ok
    lines = [record.getMessage() for record in caplog.records]
    return Counter(Path(line.removesuffix(": opened")).name for line in lines if line.endswith(": opened"))


def test_a_sync_opens_each_table_once(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    once = {"orders": 1, "users": 1}
    settings: Mapping[str, Json] = {
        "state": {"state_provider": {"type": "local", "config": {"path": str(tmp_path / "log")}}},
        "skip_redundant_runs": {"force_rerun": True},
        "streams": {"orders": {}, "users": {"write_mode": "append_dedup", "primary_key": "id", "remove_stale": True}},
    }
    merged = {"write_mode": "append_dedup", "primary_key": "id", "history": True}

    assert opens(caplog, tmp_path / "lake") == opens(caplog, tmp_path / "lake") == once
    for _ in range(2):  # one that makes the tables, one that goes on
        assert opens(caplog, tmp_path / "logged", **settings) == once
    again = {**settings, "state": {**settings["state"], "ignore_old_state": True}}
    assert opens(caplog, tmp_path / "logged", **again) == once
    for _ in range(2):
        found = opens(caplog, tmp_path / "followed", streams={"orders": {}, "users": merged})
        assert found == {**once, "users_history": 1}


class Inner(Orders):
    """A stream whose namespace is called like another stream."""

    name = "inner"
    namespace = "orders"


@pytest.mark.parametrize(("first", "second"), [(Orders, Inner), (Inner, Orders)])
def test_a_table_of_another_pipeline_is_not_nested_with_a_new_one(
    first: type[Orders], second: type[Orders], tmp_path: Path
) -> None:
    def synced(stream: type[Orders]) -> SyncResult:
        settings = {"name": stream.__name__, "source": {"connector": "given"}, "target": {"path": str(tmp_path)}}
        return SyncRunner(Pipeline.model_validate(settings), Given([stream()])).run()

    assert synced(first).ok
    (report,) = synced(second).streams

    assert report.failure is not None
    assert "cleaning up the outer one removes the inner one" in report.failure.message
    assert synced(first).ok


def test_a_table_that_somebody_else_has_changed_is_opened_again(tmp_path: Path) -> None:
    location = StreamLocation("orders", LocalFolder(tmp_path / "orders"))
    SyncRunner(
        Pipeline.model_validate({"name": "shop", "source": {"connector": "given"}, "target": {"path": str(tmp_path)}}),
        Given([Orders()]),
    ).run()
    tables = OpenTables("shop")
    first = tables.existing(location)
    assert first is tables.existing(location)

    DeltaTable(str(tmp_path / "orders")).alter.add_constraint({"some": "id is not null"})
    second = tables.existing(location)
    assert first is not None
    assert second is not None
    assert (second is first, second.version) == (False, first.version + 1)
    assert tables.existing(StreamLocation("users", LocalFolder(tmp_path / "users"))) is None
