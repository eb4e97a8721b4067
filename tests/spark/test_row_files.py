"""Rows of a data frame in files of a place: what counts, and how much of it is in memory at once."""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from cdk.base.errors import TransientError
from cdk.lake.storage.folder import Disk
from cdk.spark.row_files import RowFiles

pytestmark = pytest.mark.spark

ROWS = pa.table(
    {
        "text": ["a", "größe", None],
        "number": pa.array([1, None, 3], pa.int64()),
        "small": pa.array([1, 2, None], pa.int8()),
        "yes": [True, None, False],
        "day": [date(2026, 1, 1), None, date(1969, 12, 31)],
        "price": pa.array([Decimal("1.50"), None, Decimal("-2.00")], pa.decimal128(10, 2)),
    }
)


@pytest.fixture
def files(tmp_path: Path) -> RowFiles:
    return RowFiles(Disk(tmp_path / "rows"))


def test_rows_come_back_with_their_types_and_nulls(session: SparkSession, files: RowFiles) -> None:
    frame = session.createDataFrame(ROWS)
    files.write(frame)
    read = files.read(session)

    assert read.dtypes == frame.dtypes
    assert sorted(read.collect(), key=str) == sorted(frame.collect(), key=str)
    assert (files.there, files.rows) == (True, 3)


def test_no_rows_are_no_files_and_keep_their_types(session: SparkSession, files: RowFiles) -> None:
    frame = session.createDataFrame(ROWS)
    files.write(frame.where("false"))

    assert files.read(session).dtypes == frame.dtypes
    assert (files.read(session).count(), files.rows, list(files.tables(10))) == (0, 0, [])
    assert files.place.names() == ["files.json"]


def test_a_file_that_is_not_on_the_list_does_not_count(session: SparkSession, files: RowFiles) -> None:
    files.write(session.createDataFrame(ROWS))
    pq.write_table(ROWS, Path(files.place.uri) / "part-of-another-try.parquet")

    assert files.read(session).count() == 3
    assert sum(table.num_rows for table in files.tables(10)) == 3


def test_a_job_that_fails_leaves_no_list(session: SparkSession, files: RowFiles) -> None:
    with pytest.raises(TransientError, match="Spark did not write the rows") as failed:
        files.write(session.sql("select raise_error('the key is ill') as id"))

    assert not files.there
    assert "the key is ill" in (failed.value.detail or "")


def test_the_driver_reads_no_more_rows_at_once_than_it_asks_for(session: SparkSession, files: RowFiles) -> None:
    files.write(session.range(0, 25, 1, 2))
    tables = list(files.tables(10))

    assert sorted(table.num_rows for table in tables) == [2, 3, 10, 10]
    assert sorted(pa.concat_tables(tables)["id"].to_pylist()) == list(range(25))


def test_what_the_driver_saves_is_read_like_the_rest(session: SparkSession, files: RowFiles) -> None:
    schema = session.range(1).schema

    def tables() -> Iterator[pa.Table]:
        yield from (pa.table({"id": pa.array(range(n), pa.int64())}) for n in (2, 0, 3))

    assert files.save(tables(), schema) == 5
    assert sorted(row.id for row in files.read(session).collect()) == [0, 0, 1, 1, 2]
