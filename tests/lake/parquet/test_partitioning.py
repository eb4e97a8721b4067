"""What a partition is called in Delta's log, which rows lie in it, and that every reader finds them there."""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from cdk import Page
from cdk.base.errors import BugError, ConfigError
from cdk.base.values import Json
from cdk.lake.arrow.columns import BIG_INTEGER, META, TIMESTAMP_NTZ, TIMESTAMP_UTC, ColumnType, table_schema
from cdk.lake.arrow.record_batches import RecordBatchBuilder
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_state import TableState
from cdk.lake.parquet.partitioning import (
    check_columns,
    check_same,
    split,
    text_of,
    value_of,
    with_partition_values,
    without_empty,
)
from cdk.lake.parquet.writer import DataFile, TableWriter
from cdk.lake.storage.folder import Folder
from cdk.lake.storage.object_store import folder_at
from cdk.state.position import Start
from cdk.state.slice import Partition, Slice
from cdk.sync.tasks.bundle_task import read_bundle
from cdk.sync.tasks.messages import BundleJob, SliceTask, WriteTarget
from tests.samples import Users
from tests.spark.object_store import object_store

KINDS: Mapping[str, pa.DataType] = {
    "text": pa.string(),
    "whole": pa.int64(),
    "yes": pa.bool_(),
    "day": pa.date32(),
    "at": TIMESTAMP_UTC,
    "local": TIMESTAMP_NTZ,
    "big": BIG_INTEGER,
}
SCHEMA = pa.schema([("id", pa.int64()), *KINDS.items()])
ODD = "a b/c=d%2F ü {}\\\"'\n"
ROWS: Sequence[Mapping[str, Json]] = [
    {
        "id": 1,
        "text": ODD,
        "whole": -(2**63),
        "yes": True,
        "day": date(999, 1, 2),
        "at": datetime(2024, 1, 2, 3, 4, 5, 6, UTC),
        "local": datetime(2024, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 - it has no zone
        "big": Decimal(10**37),
    },
    {
        "id": 2,
        "text": "__HIVE_DEFAULT_PARTITION__",
        "whole": 0,
        "yes": False,
        "day": date(9999, 12, 31),
        "at": datetime(1, 1, 1, tzinfo=UTC),
        "local": datetime(1, 1, 1),  # noqa: DTZ001
        "big": Decimal(-1),
    },
    {"id": 3, **dict.fromkeys(KINDS)},
]


def batch(rows: Sequence[Mapping[str, Json]], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema)


def wrote(root: Folder | Path, rows: Sequence[Mapping[str, Json]], schema: pa.Schema, *by: str) -> list[DataFile]:
    writer = TableWriter(root, schema, ("id",), by)
    writer.write([batch(rows, schema)])
    return writer.close()


def filled(root: Folder | Path, rows: Sequence[Mapping[str, Json]], schema: pa.Schema, *by: str) -> StreamTable:
    table = StreamTable(root, "shop", "things", schema, partition_by=by)
    table.commit(TableState("incremental", "append", state=1), wrote(root, rows, schema, *by))
    return table


def by_id(rows: Sequence[Mapping[str, Json]]) -> list[Mapping[str, Json]]:
    return sorted(rows, key=lambda row: row["id"])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("", None),
        ("null", "null"),
        (" ", " "),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-(2**63), "-9223372036854775808"),
        (Decimal(10**37), "1" + "0" * 37),
        (date(999, 1, 2), "0999-01-02"),
        (datetime(2024, 1, 2, 3, 4, 5, 60, UTC), "2024-01-02T03:04:05.000060Z"),
        (datetime(2024, 1, 2, 1, tzinfo=timezone(timedelta(hours=2))), "2024-01-01T23:00:00.000000Z"),
        (datetime(2024, 1, 2, 3, 4, 5), "2024-01-02 03:04:05.000000"),  # noqa: DTZ001
    ],
)
def test_a_value_has_one_text(value: Json, text: str | None) -> None:
    assert text_of(value) == text


@given(
    st.one_of(
        st.tuples(st.just(pa.string()), st.text(min_size=1)),
        st.tuples(st.just(pa.int64()), st.integers(-(2**63), 2**63 - 1)),
        st.tuples(st.just(pa.bool_()), st.booleans()),
        st.tuples(st.just(pa.date32()), st.dates()),
        st.tuples(st.just(TIMESTAMP_UTC), st.datetimes(timezones=st.just(UTC))),
        st.tuples(st.just(TIMESTAMP_NTZ), st.datetimes()),
        st.tuples(st.just(BIG_INTEGER), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
        st.tuples(st.sampled_from(list(KINDS.values())), st.none()),
    )
)
def test_a_text_stands_for_its_value_alone(both: tuple[pa.DataType, Json]) -> None:
    kind, value = both

    assert value_of(text_of(value), kind).as_py() == value


def test_what_is_no_partition_has_no_text() -> None:
    with pytest.raises(BugError, match="type float"):
        text_of(math.pi)


PAIRS = pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.int64())])


@given(st.lists(st.tuples(st.sampled_from(["x", "y", None]), st.sampled_from([1, 2, None])), max_size=40))
@settings(max_examples=60, deadline=None)
def test_each_row_comes_to_its_partition_in_order(pairs: list[tuple[str | None, int | None]]) -> None:
    whole = batch([{"id": n, "a": a, "b": b} for n, (a, b) in enumerate(pairs)], PAIRS)
    parts = dict(split(whole, ["a", "b"]))

    assert sum(part.num_rows for part in parts.values()) == len(pairs)
    for (a, b), part in parts.items():
        wanted = [n for n, pair in enumerate(pairs) if pair == (a, None if b is None else int(b))]
        assert part["id"].to_pylist() == wanted


def test_a_part_does_not_keep_the_whole_in_memory() -> None:
    whole = batch([{"id": n, "a": "many", "b": n // 9_999} for n in range(10_000)], PAIRS)
    _, (_, small) = split(whole, ["b"])

    assert small.num_rows == 1
    assert small.get_total_buffer_size() < whole.nbytes / 100


def test_columns_that_a_file_lacks_come_back_and_those_it_has_follow_the_log() -> None:
    both = batch(ROWS[:1])
    texts = {name: text_of(value) for name, value in ROWS[1].items() if name != "id"}
    for given_batch in (both.select(["id"]), both):
        back = with_partition_values(given_batch, texts, SCHEMA)

        assert back.select(SCHEMA.names).to_pylist() == [{**ROWS[1], "id": 1}]
        assert {field.name: field.type for field in back.schema} == {"id": pa.int64(), **KINDS}


def test_an_empty_text_becomes_null_and_is_noted() -> None:
    rows = RecordBatchBuilder({"a": pa.string(), "b": pa.string(), "n": pa.int64()}, generation=1)
    before = rows.batch([{"a": "", "b": "", "n": 1}, {"a": "x", "b": "", "n": "no"}, {"a": None}])
    after = without_empty(before, ["a", "n"])

    assert after.schema == before.schema
    assert [row["a"] for row in after.to_pylist()] == [None, "x", None]
    assert [row["b"] for row in after.to_pylist()] == ["", "", None]
    assert [[(one["field"], one["original"]) for one in row["changes"]] for row in after[META].to_pylist()] == [
        [("a", "")],
        [("n", "no")],
        [],
    ]
    assert without_empty(after, ["a", "n"]) is after


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["dya"], "does not declare 'dya'; did you mean 'day'?"),
        (["_airbyte_generation_id"], "does not declare '_airbyte_generation_id'"),
        (["day", "price"], "'price' is double; expected a string"),
        (["tags"], "'tags' is list"),
    ],
)
def test_a_column_that_cannot_divide_a_table_is_refused(names: list[str], said: str) -> None:
    schema = table_schema({"day": pa.date32(), "price": pa.float64(), "tags": pa.list_(pa.string())})
    with pytest.raises(ConfigError) as raised:
        check_columns(schema, names, "streams.things.partition_by")

    assert str(raised.value).startswith("streams.things.partition_by: ")
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        (["day"], [], "is partitioned by day, but the pipeline sets nothing.*set \\[day\\]"),
        ([], ["day"], "is not partitioned, but the pipeline sets day.*leave the setting out"),
        (["a", "b"], ["b", "a"], "by a, b, but the pipeline sets b, a"),
    ],
)
def test_other_partitions_than_the_tables_are_refused(found: list[str], wanted: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_same(found, wanted, "streams.things.partition_by", "/t")


def _by_arrow(table: DeltaTable) -> list[Mapping[str, Json]]:
    found: list[Mapping[str, Json]] = table.to_pyarrow_table().to_pylist()
    return found


def _by_query(table: DeltaTable) -> list[Mapping[str, Json]]:
    found = QueryBuilder().register("t", table).execute("select * from t").read_all()
    rows: list[Mapping[str, Json]] = pa.table(found).to_pylist()
    return rows


def _by_file(table: DeltaTable) -> list[Mapping[str, Json]]:
    return [row for uri in table.file_uris() for row in pq.read_table(uri).to_pylist()]


@pytest.mark.parametrize("read", [_by_arrow, _by_query, _by_file])
@pytest.mark.parametrize("name", KINDS)
def test_values_of_every_kind_are_read_as_they_were_written(
    tmp_path: Path, name: str, read: Callable[[DeltaTable], list[Mapping[str, Json]]]
) -> None:
    filled(tmp_path / "one", ROWS, SCHEMA, name)
    filled(tmp_path / "all", ROWS, SCHEMA, *KINDS)

    for folder in ("one", "all"):
        assert by_id(read(DeltaTable(str(tmp_path / folder)))) == ROWS


def test_readers_skip_files_of_other_partitions(tmp_path: Path) -> None:
    filled(tmp_path, ROWS, SCHEMA, "at", "text")
    table = DeltaTable(str(tmp_path))

    assert len(table.file_uris(file_pruning_predicate=[("text", "=", ODD)])) == 1
    found = table.to_pyarrow_table(filters=[("text", "=", ODD), ("at", "=", ROWS[0]["at"])])
    assert found.to_pylist() == [ROWS[0]]


def test_files_lie_right_in_the_tables_folder(tmp_path: Path) -> None:
    files = filled(tmp_path, ROWS, SCHEMA, "text").files("text")

    assert {file.path for file in files} == {path.name for path in tmp_path.glob("*.parquet")}
    assert sorted((file.partition["text"] or "", file.low, file.high) for file in files) == sorted(
        [("", None, None), *((row["text"], row["text"], row["text"]) for row in ROWS[:2])]
    )


def test_files_that_wait_for_their_generation_keep_their_partition(tmp_path: Path) -> None:
    table = filled(tmp_path, ROWS, SCHEMA, "day")
    waiting = tuple(wrote(tmp_path, ROWS, SCHEMA, "day"))
    table.commit(TableState("full_refresh", "overwrite", pending=waiting))

    again = StreamTable(tmp_path, "shop", "things", SCHEMA)

    assert again.partition_by == ("day",)
    assert again.saved is not None
    assert again.saved.pending == waiting


def test_a_task_puts_rows_into_their_partitions(tmp_path: Path) -> None:
    columns: Mapping[str, ColumnType] = {"id": pa.int64(), "region": pa.string()}
    target = WriteTarget(Regions(), tmp_path, columns, 1, partition_by=("region",))
    result = read_bundle(BundleJob({0: target}, 60, 1), [SliceTask(0, 0, Slice(Partition(), None, Start()))])

    assert {file.partition["region"]: file.rows for file in result.files[0]} == {"a": 5, "b": 5, None: 5}
    assert result.progress[0].rejected == 5


class Regions(Users):
    """Fifteen users; five of them are from a region without a name."""

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        page = super().read_page(slice, token)
        return Page([{**row, "region": ("a", "b", "")[row["id"] % 10]} for row in page.records], page.next)


@pytest.mark.spark
def test_spark_reads_the_files_alone(tmp_path: Path, session: SparkSession) -> None:
    filled(tmp_path, ROWS, SCHEMA, "day", "text", "at")
    paths = DeltaTable(str(tmp_path)).file_uris()

    found = session.read.parquet(*paths).select("id", "day", "text", "whole").orderBy("id").collect()

    assert [row.asDict() for row in found] == [{n: row[n] for n in ("id", "day", "text", "whole")} for row in ROWS]


def test_partitions_work_in_a_store_whatever_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with object_store() as store:
        root = folder_at("s3://lake/parted", store.storage)
        table = filled(root, ROWS, SCHEMA, "text", "at")
        table.commit(TableState("incremental", "append", state=2), wrote(root, ROWS, SCHEMA, "text", "at"))
        found = DeltaTable(root.uri, storage_options=root.storage_options)
        found.optimize.compact()

        assert by_id(_by_arrow(found)) == [row for row in ROWS for _ in range(2)]
        again = StreamTable(root, "shop", "things", SCHEMA)
        assert len(again.files()) == 3
