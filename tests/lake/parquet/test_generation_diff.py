"""Rows that a read did not see, file by file; needs no Spark."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from cdk import ConfigError, Json
from cdk.base.task_map import run_inline
from cdk.lake.arrow.columns import DELETED_AT, GENERATION, TIMESTAMP_NTZ, TIMESTAMP_UTC
from cdk.lake.delta.engine_writes import delete_stale_rows
from cdk.lake.parquet.generation_diff import GenerationCounts, GenerationDiff, check_flag
from cdk.lake.parquet.table_files import TableFile
from cdk.lake.parquet.table_rows import TableLayout
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import LocalFolder

NOON = datetime(2024, 5, 12, 12, tzinfo=UTC)
SCHEMA = pa.schema([("id", pa.int64()), ("team", pa.string()), (GENERATION, pa.int64()), (DELETED_AT, TIMESTAMP_UTC)])


class Table:
    """Files that stand for a table whose present generation is 3."""

    def __init__(self, folder: Path, schema: pa.Schema = SCHEMA, partition_by: tuple[str, ...] = ()) -> None:
        self.folder, self.schema, self.files = folder, schema, list[TableFile]()
        layout = TableLayout(LocalFolder(folder), schema, partition_by=partition_by)
        self.unseen = GenerationDiff(layout, 3, ("id", "team"))

    def add(self, rows: Sequence[Mapping[str, Json]], columns: Sequence[str], **partition: str) -> None:
        path = f"{len(self.files)}.parquet"
        fields = pa.schema([self.schema.field(name) for name in columns])
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], fields), self.folder / path)
        self.files.append(TableFile(path, len(rows), partition=partition))

    def rows(self, files: Sequence[DataFile]) -> list[dict[str, Json]]:
        return [row for file in files for row in pq.read_table(self.folder / file.path).to_pylist()]


def row(id: int, generation: int | None, removed: datetime | None = None, team: str = "a") -> dict[str, Json]:
    return {"id": id, "team": team, GENERATION: generation, DELETED_AT: removed}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table(tmp_path)
    table.add([row(1, 3), row(2, 2), row(3, 4), row(4, 1, NOON), row(5, None)], SCHEMA.names)
    table.add([row(6, 3), row(7, 2)], ["id", "team", GENERATION])
    table.add([row(8, None)], ["id", "team"])
    return table


def test_rows_of_any_other_generation_are_gone_unless_they_are_flagged_or_have_none(table: Table) -> None:
    assert table.unseen.counted(table.files, run_inline) == [
        GenerationCounts(1, 2),
        GenerationCounts(1, 1),
        GenerationCounts(0, 0),
    ]


def test_flagging_changes_what_is_gone_and_nothing_else(table: Table) -> None:
    later = datetime(2024, 6, 1, tzinfo=UTC)
    made = table.unseen.rewritten(table.files[:2], later, run_inline)

    flags = {one["id"]: one[DELETED_AT] for one in table.rows(made)}
    assert flags == {1: None, 2: later, 3: later, 4: NOON, 5: None, 6: None, 7: later}
    assert {one["id"]: one[GENERATION] for one in table.rows(made)} == {1: 3, 2: 2, 3: 4, 4: 1, 5: None, 6: 3, 7: 2}


def test_deleting_leaves_what_was_flagged_before(table: Table) -> None:
    made = table.unseen.rewritten(table.files, None, run_inline)

    assert [one["id"] for one in table.rows(made)] == [1, 4, 5, 6, 8]


@pytest.mark.parametrize(
    ("kind", "unset", "flags"),
    [
        (pa.string(), [None, "", " ", "\t", "\u00a0false\n", "NULL", "0"], ["2024-05-12T12:00:00Z", "x"]),
        (pa.bool_(), [None, False], [True]),
        (pa.int64(), [None, 0], [1715515200]),
        (pa.float64(), [None, 0.0, -0.0], [0.5]),
        (TIMESTAMP_UTC, [None], [NOON]),
    ],
)
def test_rows_are_flagged_only_by_what_marks_a_deletion(
    tmp_path: Path, kind: pa.DataType, unset: Sequence[Json], flags: Sequence[Json]
) -> None:
    table = Table(tmp_path, SCHEMA.set(3, pa.field(DELETED_AT, kind)))
    rows = [{**row(id, 2), DELETED_AT: mark} for id, mark in enumerate([*flags, *unset])]
    table.add(rows, SCHEMA.names)
    remain = table.rows(table.unseen.rewritten(table.files, None, run_inline))
    write_deltalake(tmp_path / "delta", pa.Table.from_pylist(rows, table.schema))
    handle = DeltaTable(tmp_path / "delta")
    delete_stale_rows(table.schema, 3, handle, CommitProperties())

    assert table.unseen.counted(table.files, run_inline) == [GenerationCounts(0, len(unset))]
    assert [one[DELETED_AT] for one in remain] == flags
    assert [one[DELETED_AT] for one in handle.to_pyarrow_table().to_pylist()] == flags


def test_a_file_without_a_row_that_stays_is_not_written(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.add([row(1, 2), row(2, 2)], SCHEMA.names)

    assert table.unseen.rewritten(table.files, None, run_inline) == []


def test_partition_columns_that_are_not_in_the_file_are_restored(tmp_path: Path) -> None:
    table = Table(tmp_path, partition_by=("team",))
    table.add([row(1, 2), row(2, 3)], ["id", GENERATION], team="b")
    other = Table(tmp_path / "other", partition_by=("team",))
    other.folder.mkdir()
    other.add([row(1, 2), row(2, 3)], ["id", GENERATION], team="c")

    (made,) = table.unseen.rewritten(table.files, NOON, run_inline)
    assert (made.partition, table.rows([made])) == ({"team": "b"}, [row(1, 2, NOON, "b"), row(2, 3, None, "b")])
    assert table.unseen.plan(table.files, run_inline) != other.unseen.plan(other.files, run_inline)


def test_a_plan_is_the_same_for_the_same_keys_and_no_others(tmp_path: Path) -> None:
    def plan(*files: Sequence[Mapping[str, Json]]) -> str:
        table = Table(tmp_path)
        for rows in files:
            table.add(rows, SCHEMA.names)
        return table.unseen.plan(table.files, run_inline)

    first = plan([row(1, 2), row(2, 2)], [row(3, 1), row(9, 3)])

    assert plan([row(3, 2), row(1, 1)], [row(2, 2)]) == first
    assert plan([row(1, 2), row(4, 2)], [row(3, 1)]) != first
    assert plan([row(1, 2), row(2, 2, team="b")], [row(3, 1)]) != first
    assert plan([row(2, 2)], [row(3, 1)]) != first


@pytest.mark.parametrize(
    ("kind", "expected"), [(pa.string(), "2024-05-12T12:00:00Z"), (TIMESTAMP_NTZ, NOON.replace(tzinfo=None))]
)
def test_the_moment_has_the_type_of_the_column(tmp_path: Path, kind: pa.DataType, expected: Json) -> None:
    table = Table(tmp_path, SCHEMA.set(3, pa.field(DELETED_AT, kind)))
    table.add([row(1, 2)], SCHEMA.names)

    check_flag(table.schema, "streams.users.remove_stale")
    assert table.rows(table.unseen.rewritten(table.files, NOON, run_inline)) == [{**row(1, 2), DELETED_AT: expected}]


def test_a_column_that_takes_no_moment_is_an_error(tmp_path: Path) -> None:
    table = Table(tmp_path, SCHEMA.set(3, pa.field(DELETED_AT, pa.bool_())))

    with pytest.raises(ConfigError, match=r"^streams\.users\.remove_stale: the column _ab_cdc_deleted_at is bool"):
        check_flag(table.schema, "streams.users.remove_stale")
