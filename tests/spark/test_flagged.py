"""Rows of a Delta table that are flagged or deleted; needs no Spark."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdk.lake.parquet.dedup import DELETED_AT
from cdk.lake.storage.folder import Disk
from cdk.spark.flagged import FlaggedTable

NOON, LATER = (datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (12, 13))
KEYS = pa.table({"id": pa.array([2, None], pa.int64()), "part of it": ["b", None]})


class Table:
    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, NOON
        write_deltalake(folder, pa.table({"id": [1, 2, 2, None], "part of it": ["a", "b", "c", None]}))
        self.flagged = FlaggedTable(Disk(folder), ["id", "part of it"], clock=lambda: self.now)

    @property
    def rows(self) -> dict[str | None, datetime | None]:
        rows = DeltaTable(self.folder).to_pyarrow_table().to_pylist()
        return {row["part of it"]: row.get(DELETED_AT) for row in rows}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "table")


def test_rows_are_flagged_with_the_moment_of_their_first_removal(table: Table) -> None:
    confirmed = table.flagged.remove(KEYS, hard=False)
    table.now = LATER
    table.flagged.remove(KEYS, hard=False)

    assert confirmed == KEYS
    assert table.rows == {"a": None, "b": NOON, "c": None, None: NOON}


def test_flags_are_taken_off(table: Table) -> None:
    table.flagged.remove(KEYS, hard=False)
    confirmed = table.flagged.revive(KEYS.slice(0, 1))

    assert confirmed == KEYS.slice(0, 1)
    assert table.rows == {"a": None, "b": None, "c": None, None: NOON}


def test_rows_are_deleted(table: Table) -> None:
    table.flagged.remove(KEYS, hard=True)
    table.flagged.remove(KEYS, hard=True)

    assert table.rows == {"a": None, "c": None}


def test_keys_that_are_not_there_count_as_done(table: Table) -> None:
    other = pa.table({"id": [7], "part of it": ["z"]})

    assert (table.flagged.remove(other, hard=False), table.flagged.revive(other)) == (other, other)
    assert set(table.rows.values()) == {None}
