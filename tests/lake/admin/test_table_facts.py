from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from msgspec.structs import replace

from cdk.lake.admin.locate import StreamLocation
from cdk.lake.admin.table_facts import TableFacts, TableRequest, TableStatus, table_facts, tables_of
from cdk.lake.arrow.columns import table_schema
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_state import TableState
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import LocalFolder

SAVED = TableState("incremental", "append", complete=True)
DONE = TableFacts("users", "/t", TableStatus.COMPLETE)


def opened(root: Path, pipeline: str = "shop") -> StreamTable:
    return StreamTable(root, pipeline, root.name, table_schema({}))


def facts_of(root: Path, pipeline: str = "shop") -> TableFacts:
    return table_facts(StreamLocation(root.name, LocalFolder(root)), pipeline, TableRequest())


def grow(table: StreamTable, root: Path, saved: TableState = SAVED, rows: int = 2) -> None:
    path = root / f"part-{table.version}.parquet"
    pq.write_table(pa.table({"_airbyte_raw_id": ["x"] * rows}), path)
    table.commit(saved, [DataFile(path.name, path.stat().st_size, rows, 0)])


def test_rows_and_files_are_those_of_the_newest_version(tmp_path: Path) -> None:
    root = tmp_path / "users"
    table = opened(root)
    for rows in (2, 3):
        grow(table, root, rows=rows)

    facts = facts_of(root)

    assert (facts.rows, facts.files, facts.version) == (5, 2, 2)
    assert facts.bytes == sum(path.stat().st_size for path in root.glob("*.parquet"))
    assert facts.file_bytes == facts.bytes // 2
    assert facts.status is TableStatus.COMPLETE


def test_tables_of_streams_with_the_same_name_are_told_apart_by_their_namespaces(tmp_path: Path) -> None:
    for namespace in ("eu", "us"):
        grow(opened(tmp_path / namespace / "users"), tmp_path / namespace / "users")
    (tmp_path / "us" / "users" / "_delta_log" / f"{0:020}.json").write_text("no log")

    assert [facts.stream for facts in tables_of(LocalFolder(tmp_path), "shop")] == ["eu.users", "us.users"]


def test_the_state_is_that_of_the_pipeline_that_asks(tmp_path: Path) -> None:
    root = tmp_path / "users"
    grow(opened(root), root)
    grow(opened(root, "other"), root, replace(SAVED, complete=False))

    assert [facts_of(root, name).status for name in ("shop", "other", "third")] == [
        TableStatus.COMPLETE,
        TableStatus.INTERRUPTED,
        TableStatus.NEVER,
    ]
    assert [facts.stream for facts in tables_of(LocalFolder(tmp_path), "third")] == []


def test_a_restored_table_is_told_until_the_next_commit(tmp_path: Path) -> None:
    root = tmp_path / "users"
    table = opened(root)
    for _ in range(2):
        grow(table, root)
    DeltaTable(str(root)).restore(1)
    restored = facts_of(root)
    grow(opened(root), root)

    assert (restored.status, restored.rows) == (TableStatus.RESTORED, 2)
    assert facts_of(root).status is TableStatus.COMPLETE


@pytest.mark.parametrize("text", [None, "no json", '{"format": "theirs/1"}'])
def test_a_state_that_is_gone_or_not_ours_is_told(tmp_path: Path, text: str | None) -> None:
    root = tmp_path / "users"
    grow(opened(root), root)
    (state,) = (root / "_cdk_state" / "shop").iterdir()
    if text is None:
        state.unlink()
    else:
        state.write_text(text)

    facts = facts_of(root)

    assert (facts.status, facts.rows) == (TableStatus.UNREADABLE, 2)
    assert facts.problem
    assert facts.next.startswith("fails before it reads")


def test_tables_lie_below_the_target_or_below_a_namespace(tmp_path: Path) -> None:
    for root in (tmp_path / "users", tmp_path / "log" / "events"):
        grow(opened(root), root)
    write_deltalake(str(tmp_path / "theirs"), pa.table({"a": [1], "b": [1]}), partition_by=["a"])

    found = tables_of(LocalFolder(tmp_path), "shop", {"users": TableRequest(), "new": TableRequest()})

    assert [(facts.stream, facts.status) for facts in found] == [
        ("log.events", TableStatus.COMPLETE),
        ("new", TableStatus.NEVER),
        ("users", TableStatus.COMPLETE),
    ]
    assert found[0].next == "leaves it unchanged: `streams` of the pipeline does not name it"
    (events, _) = tables_of(LocalFolder(tmp_path), "shop", {"log.events": TableRequest(), "users": TableRequest()})
    assert events.named
    assert facts_of(tmp_path / "theirs").partition_columns == ("a",)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (replace(DONE, sync_mode="incremental"), "reads what is new"),
        (replace(DONE, sync_mode="full_refresh", write_mode="overwrite"), "reads everything, replaces the rows"),
        (replace(DONE, sync_mode="full_refresh", write_mode="append"), "reads everything, adds to the rows"),
        (replace(DONE, sync_mode="full_refresh", write_mode="append_dedup"), "reads everything, merges into the rows"),
        (replace(DONE, status=TableStatus.RESTORED), "resumes from the restored rows"),
    ],
)
def test_what_the_next_sync_does(facts: TableFacts, said: str) -> None:
    assert facts.next == said


def test_many_small_files_are_worth_a_hint() -> None:
    small = TableFacts("users", "/t", TableStatus.COMPLETE, files=500, bytes=500 * 2**20)

    assert small.hint == "many small files: DeltaTable('/t').optimize.compact() makes few large ones"
    assert replace(small, files=50).hint is None
    assert replace(small, bytes=500 * 2**25).hint is None


def test_a_history_is_no_stream_of_its_own(tmp_path: Path) -> None:
    for name, stream in (("users", "users"), ("users_history", "users/history"), ("orders_history", "orders_history")):
        root = tmp_path / name
        grow(StreamTable(root, "shop", stream, table_schema({})), root)

    assert [facts.stream for facts in tables_of(LocalFolder(tmp_path), "shop")] == ["orders_history", "users"]
