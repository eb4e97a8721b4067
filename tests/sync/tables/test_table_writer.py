"""Tables that follow their streams' schemas, and rows that are merged, in syncs whose tasks run in this process."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from logging import WARNING, LogRecord
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk import CountCursor, Cursor, DatetimeCursor, Item, Json, Page, PagedStream, Partition, Slice, Stream
from cdk.base.errors import TransientError
from cdk.base.logs import log_records
from cdk.base.task_map import run_inline
from cdk.lake.arrow.columns import ADDITIONAL, OWN_COLUMNS
from cdk.lake.arrow.schema_evolution import MOST_COLUMNS
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.stream_report import StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from tests.spark.given_source import Given

INT, TEXT, NUMBER = {"type": "integer"}, {"type": "string"}, {"type": "number"}


class Things(Stream):
    """Records that are given, from the one whose `n` comes after the last one read."""

    primary_key = "id"
    supports_checkpointing = True
    cursor = CountCursor("n", start=0)

    def __init__(self, records: Sequence[Mapping[str, Json]], **properties: Json) -> None:
        self.records, self.properties = records, properties

    def json_schema(self) -> Mapping[str, Json]:
        return {"properties": {"id": INT, "n": INT, **self.properties}}

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.window is not None
        yield Page([r for r in self.records if int(r["n"]) >= int(slice.window.start)], None)


class LateWorkers(Workers, frozen=True):
    """Workers that are ready once somebody has done something to the table that the sync has opened."""

    work: Callable[[], object] = list

    def start(self, name: str, log: Path, modules: Collection[str]) -> Workers:
        self.work()
        return super().start(name, log, modules)


class OnReading(Things):
    """Things that somebody does something beside: once, when all records are read and no commit is made."""

    def __init__(self, work: Callable[[], object], records: Sequence[Mapping[str, Json]]) -> None:
        super().__init__(records)
        self.work = [work]

    def read_records(self, slice: Slice) -> Iterator[Item]:
        yield from super().read_records(slice)
        while self.work:
            self.work.pop()()


def sync(
    folder: Path, stream: Stream, work: Callable[[], object] = list, /, name: str = "shop", **options: Any
) -> StreamReport:
    pipeline = Pipeline(
        name=name,
        source=SourceOptions(connector="things"),
        target=TargetOptions(path=str(folder)),
        streams={"things": StreamOptions(**options)},
        checkpoint_interval=timedelta(),
        concurrency=2,
    )
    stream.name = "things"
    (report,) = SyncRunner(pipeline, Given([stream]), workers=LateWorkers(run_inline, 2, work=work)).run().streams
    return report


def ok(folder: Path, stream: Stream, work: Callable[[], object] = list, /, **options: Any) -> StreamReport:
    report = sync(folder, stream, work, **options)
    assert report.failure is None
    return report


def rows(folder: Path, name: str = "things") -> list[dict[str, Any]]:
    """As Delta readers see it: all columns of the table, those that a file lacks null."""
    table = DeltaTable(str(folder / name))
    schema = pa.schema(table.schema().to_arrow())
    parts = [pq.read_table(path) for path in table.file_uris()]
    whole = pa.concat_tables([part.cast(part.schema) for part in parts], promote_options="default")
    assert all(whole.schema.field(f.name).type == f.type for f in schema if f.name in whole.schema.names)
    found = [{k: v for k, v in row.items() if not k.startswith("_airbyte")} for row in whole.to_pylist()]
    return sorted(found, key=lambda row: row["n"])


def kinds(folder: Path) -> dict[str, pa.DataType]:
    schema = pa.schema(DeltaTable(str(folder / "things")).schema().to_arrow())
    return {field.name: field.type for field in schema if not field.name.startswith("_airbyte")}


def of(n: int, id: int | None = None, **more: Json) -> dict[str, Json]:
    return {"id": n if id is None else id, "n": n, **more}


@pytest.mark.parametrize("mode", ["append", "append_dedup"])
def test_undeclared_fields_become_columns_of_the_types_of_their_values(tmp_path: Path, mode: str) -> None:
    ok(tmp_path, Things([of(1, note="a"), of(2, more={"x": 1})]), write_mode=mode)
    ok(tmp_path, Things([of(3, note=5), of(4, late=True)]), write_mode=mode)

    assert {name: str(kind) for name, kind in kinds(tmp_path).items() if name not in {"id", "n"}} == {
        "note": "string",
        "more": "string",
        "late": "bool",
    }
    assert [(row.get("note"), row.get("more"), row.get("late")) for row in rows(tmp_path)] == [
        ("a", None, None),
        (None, '{"x":1}', None),
        ("5", None, None),
        (None, None, True),
    ]


@pytest.mark.parametrize("options", [{"write_mode": "append"}, {"write_mode": "append_dedup", "history": True}])
def test_the_column_of_an_undeclared_field_becomes_as_wide_as_later_values_need(
    tmp_path: Path, options: Mapping[str, Json], caplog: pytest.LogCaptureFixture
) -> None:
    before = ""
    for n, (value, kind, expected) in enumerate(
        [(1, "int64", [1]), (0.5, "double", [1.0, 0.5]), ("a", "string", ["1", "0.5", "a"])]
    ):
        caplog.clear()
        ok(tmp_path, Things([of(n, x=value)]), **options)
        assert (f"x ({before} -> {kind}); check what reads them" in caplog.text) == (n > 0)
        before = kind

        assert str(kinds(tmp_path)["x"]) == kind
        assert [row["x"] for row in rows(tmp_path)] == expected


VALUES = st.sampled_from([None, 1, 2**60, 0.5, "a", "2024-01-01", True, {"a": 1}, [1]])


@settings(max_examples=15)
@given(
    options=st.sampled_from(
        [
            {"write_mode": "append"},
            {"write_mode": "append_dedup", "history": True},
            {"write_mode": "overwrite", "sync_mode": "full_refresh"},
        ]
    ),
    reads=st.lists(st.lists(VALUES, min_size=1, max_size=3), min_size=2, max_size=4),
)
def test_each_sync_that_changes_the_type_of_a_column_warns_of_it(
    options: Mapping[str, Json], reads: Sequence[Sequence[Json]]
) -> None:
    with TemporaryDirectory() as temporary:
        folder, before = Path(temporary), dict[str, pa.DataType]()
        for n, values in enumerate(reads):
            logged: list[LogRecord] = []
            with log_records(logged.append, level=WARNING):
                ok(folder, Things([of(10 * n + i, x=value) for i, value in enumerate(values)]), **options)
            after = kinds(folder)
            changed = [f"{name} ({before[name]} -> {after[name]})" for name in before if before[name] != after[name]]

            texts = [text for record in logged if "wider type" in (text := record.getMessage())]
            assert len(texts) >= len(changed)
            assert all(change.partition(" -> ")[0] in texts[0] for change in changed)
            assert all(change.partition(" -> ")[2] in texts[-1] for change in changed)
            assert bool(texts) == bool(changed)
            before = after


@pytest.mark.parametrize("policy", ["freeze", "discard"])
def test_a_column_that_an_undeclared_field_has_got_is_written_under_each_policy(tmp_path: Path, policy: str) -> None:
    ok(tmp_path, Things([of(1, note="a", size=1)]))
    report = ok(tmp_path, Things([of(2, note="b", size="large", odd=1)]), schema=policy)

    assert [(row["note"], row["size"]) for row in rows(tmp_path)] == [("a", 1), ("b", None)]
    assert ("odd" in kinds(tmp_path), report.rejected) == (False, 1)


def test_a_table_that_has_as_many_columns_as_undeclared_fields_get_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ok(tmp_path, Things([], **{f"f{n}": INT for n in range(MOST_COLUMNS - len(OWN_COLUMNS) - 3)}))
    assert "undeclared fields get columns" not in caplog.text

    # A column of a field that nobody declared is the last one.
    ok(tmp_path, Things([of(1, odd=1)]))
    (text,) = [line for line in caplog.messages if "undeclared fields get columns up to 1,000" in line]
    assert text.startswith("things: the table has 1,000 columns")


def test_columns_of_another_program_that_undeclared_fields_cannot_fill_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ok(tmp_path, Things([of(1)]))
    columns = [Field("price", PrimitiveType("decimal(5,2)")), Field("few", PrimitiveType("short"))]
    DeltaTable(str(tmp_path / "things")).alter.add_columns(columns)
    records = [of(2, price=1.25, few=3, odd=1), of(3, few=40_000)]

    report = ok(tmp_path, Things(records))
    (text,) = [line for line in caplog.messages if "columns of another program" in line]
    assert "('price' is decimal128(5, 2)), expected" in text
    found = DeltaTable(str(tmp_path / "things")).to_pyarrow_table().sort_by("n").to_pylist()
    assert [(row["price"], row["few"]) for row in found] == [(None, None), (None, 3), (None, None)]
    assert found[1][ADDITIONAL] == '{"price":1.25,"odd":1}'
    assert report.rejected == 1

    caplog.clear()
    ok(tmp_path, Things([of(4, price=1.25, few=40_000)], price=NUMBER, few=INT))
    assert "columns of another program" not in caplog.text
    assert (rows(tmp_path)[3]["price"], rows(tmp_path)[3]["few"]) == ("1.25", 40_000)


def test_whole_numbers_that_a_double_would_round_make_the_column_of_an_undeclared_field_text(tmp_path: Path) -> None:
    ok(tmp_path, Things([of(1, x=2**53 + 1)]))
    ok(tmp_path, Things([of(2, x=0.5)]))

    assert [row["x"] for row in rows(tmp_path)] == ["9007199254740993", "0.5"]


class Pages(PagedStream):
    """A page for each value of an undeclared field; the one in place `fails` cannot be had."""

    def __init__(self, values: Sequence[Json], fails: int | None = None) -> None:
        super().__init__()
        self.values, self.fails = values, fails

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        del slice
        n = token["n"] if token else 0
        if n == self.fails:
            raise TransientError("the server is down")
        return Page([{"id": n, "n": n, "x": self.values[n]}], {"n": n + 1} if n + 1 < len(self.values) else None)


def test_a_hidden_generation_whose_columns_became_wider_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    ok(tmp_path, Pages([1, 2]), write_mode="overwrite")
    assert sync(tmp_path, Pages([1, 0.5, "a", 7], fails=3), write_mode="overwrite").read == 3

    assert [row["x"] for row in rows(tmp_path)] == [1, 2]
    assert ok(tmp_path, Pages([1, 0.5, "a", 7]), write_mode="overwrite").read == 1
    assert [row["x"] for row in rows(tmp_path)] == ["1", "0.5", "a", "7"]


def test_a_schema_that_comes_later_makes_no_column_narrower_and_the_sync_says_what_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ok(tmp_path, Things([of(1, x="a", y=5)]))
    ok(tmp_path, Things([of(2, x=7, y="b")], x=INT, y=TEXT))

    assert [(row["x"], row["y"]) for row in rows(tmp_path)] == [("a", "5"), ("7", "b")]
    (line,) = [message for message in caplog.messages if "narrowed" in message]
    assert "x" in line
    assert "sync into another path" in line


@pytest.mark.parametrize("mode", ["append", "append_dedup"])
def test_a_column_that_became_wider_holds_the_older_rows_too(tmp_path: Path, mode: str) -> None:
    ok(tmp_path, Things([of(1, size=5)], size=INT), write_mode=mode)
    ok(tmp_path, Things([of(2, size=1.5)], size=NUMBER), write_mode=mode)

    assert kinds(tmp_path)["size"] == pa.float64()
    assert [row["size"] for row in rows(tmp_path)] == [5.0, 1.5]

    ok(tmp_path, Things([of(3, size="XL")], size=TEXT), write_mode=mode)

    assert kinds(tmp_path)["size"] == pa.string()
    assert [row["size"] for row in rows(tmp_path)] == ["5", "1.5", "XL"]


@pytest.mark.parametrize("mode", ["append", "append_dedup", "overwrite"])
@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize(("value", "kind", "added"), [(5, INT, "string"), ("5", TEXT, "boolean")])
def test_a_column_that_somebody_has_just_added_with_another_type_is_text(
    tmp_path: Path, mode: str, *, declared: bool, value: Json, kind: Json, added: str
) -> None:
    def add() -> None:
        DeltaTable(str(tmp_path / "things")).alter.add_columns(Field("stars", PrimitiveType(added)))

    options = {"sync_mode": "full_refresh" if mode == "overwrite" else "incremental", "write_mode": mode}
    records = [of(1), of(2, stars=value)]
    ok(tmp_path, Things([of(1)]), **options)
    if declared:
        ok(tmp_path, Things(records, stars=kind), add, **options)
    else:
        ok(tmp_path, OnReading(add, records), **options)

    assert [row.get("stars") for row in rows(tmp_path)] == [None, "5"]


def test_whole_numbers_that_a_double_would_round_become_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ok(tmp_path, Things([of(1, size=2**53 + 1)], size=INT))
    assert "wider" not in caplog.text
    ok(tmp_path, Things([of(2, size=1.5)], size=NUMBER))

    assert [row["size"] for row in rows(tmp_path)] == ["9007199254740993", "1.5"]
    assert (
        "things: columns of the table have a wider type now, which values of the source need: size (int64 -> string)"
        in caplog.text
    )


def test_a_table_that_is_wider_stays_so(tmp_path: Path) -> None:
    ok(tmp_path, Things([of(1, size="XL")], size=TEXT))
    ok(tmp_path, Things([of(2, size=7)], size=INT))

    assert [row["size"] for row in rows(tmp_path)] == ["XL", "7"]


def test_a_moment_without_a_zone_may_come_to_any_table(tmp_path: Path) -> None:
    local = {"type": "string", "format": "date-time", "airbyte_type": "timestamp_without_timezone"}
    ok(tmp_path, Things([of(1, day="2026-01-01")], day={"type": "string", "format": "date"}))
    ok(tmp_path, Things([of(2, day="2026-01-02T03:04:05")], day=local))

    assert [str(row["day"]) for row in rows(tmp_path)] == ["2026-01-01 00:00:00", "2026-01-02 03:04:05"]


def test_a_frozen_table_fails_with_what_differs_and_keeps_undeclared_fields(tmp_path: Path) -> None:
    ok(tmp_path, Things([of(1, odd=1)]), schema="freeze")
    report = sync(tmp_path, Things([of(2)], size=INT), schema="freeze")

    assert report.failure is not None
    assert "column 'size' is missing in the table" in report.failure.message
    assert list(kinds(tmp_path)) == ["id", "n"]
    (uri,) = DeltaTable(str(tmp_path / "things")).file_uris()
    assert pq.read_table(uri)["_airbyte_additional"].to_pylist() == ['{"odd":1}']


def test_a_table_that_discards_stays_as_it_is_and_loses_nothing(tmp_path: Path) -> None:
    ok(tmp_path, Things([of(1)]), schema="discard")
    ok(tmp_path, Things([of(2, size=5)], size=INT), schema="discard")

    assert list(kinds(tmp_path)) == ["id", "n"]
    texts = [
        pq.read_table(uri)["_airbyte_additional"].to_pylist()
        for uri in DeltaTable(str(tmp_path / "things")).file_uris()
    ]
    assert sorted(texts, key=str) == [['{"size":5}'], [None]]


def test_an_overwrite_takes_the_wider_schema_without_touching_the_old_rows(tmp_path: Path) -> None:
    ok(tmp_path, Things([of(1, size=5)], size=INT), sync_mode="full_refresh")
    ok(tmp_path, Things([of(1, size="XL")], size=TEXT), sync_mode="full_refresh")

    assert [row["size"] for row in rows(tmp_path)] == ["XL"]


def test_the_newest_row_of_each_key_stays(tmp_path: Path) -> None:
    first = ok(tmp_path, Things([of(1, 1), of(2, 2), of(3, 1)]), write_mode="append_dedup")
    second = ok(tmp_path, Things([of(4, 2), of(5, 9)]), write_mode="append_dedup")

    assert [(row["id"], row["n"]) for row in rows(tmp_path)] == [(1, 3), (2, 4), (9, 5)]
    assert (first.written, first.total, second.written, second.total) == (2, 2, 2, 3)


@pytest.mark.parametrize("history", [False, True])
def test_a_state_may_move_without_rows_to_merge(tmp_path: Path, history: bool) -> None:  # noqa: FBT001 - a parameter
    first = ok(tmp_path, Things([]), write_mode="append_dedup", history=history)
    ok(tmp_path, Things([of(1)]), write_mode="append_dedup", history=history)
    last = ok(tmp_path, Things([]), write_mode="append_dedup", history=history)

    assert (first.commits, first.written, last.written, last.total) == (1, 0, 0, 1)
    assert [row["n"] for row in rows(tmp_path)] == [1]


def test_a_full_refresh_is_merged_as_well(tmp_path: Path) -> None:
    modes = {"sync_mode": "full_refresh", "write_mode": "append_dedup"}
    ok(tmp_path, Things([of(1, 1), of(2, 2)]), **modes)
    report = ok(tmp_path, Things([of(1, 1), of(2, 2), of(7, 2)]), **modes)

    assert [(row["id"], row["n"]) for row in rows(tmp_path)] == [(1, 1), (2, 7)]
    assert report.total == 2


def test_a_history_has_every_row_and_the_table_the_newest(tmp_path: Path) -> None:
    ok(tmp_path, Things([of(1, 1), of(2, 1)]), write_mode="append_dedup", history=True)
    ok(tmp_path, Things([of(3, 1, late="x")]), write_mode="append_dedup", history=True)

    assert [(row["id"], row["n"], row["late"]) for row in rows(tmp_path)] == [(1, 3, "x")]
    assert [(row["n"], row["late"]) for row in rows(tmp_path, "things_history")] == [(1, None), (2, None), (3, "x")]


def test_deleted_rows_stay_or_go_as_asked(tmp_path: Path) -> None:
    deleted = {"_ab_cdc_deleted_at": {"type": "string", "format": "date-time"}}
    moment = "2026-01-01T00:00:00Z"
    for deletes, left in (("soft", [1, 3]), ("hard", [1])):
        folder = tmp_path / deletes
        ok(folder, Things([of(1), of(2)], **deleted), write_mode="append_dedup", deletes=deletes)
        gone = of(3, 2, _ab_cdc_deleted_at=moment)
        ok(folder, Things([gone], **deleted), write_mode="append_dedup", deletes=deletes)
        assert [row["n"] for row in rows(folder)] == left


def test_a_table_that_is_compacted_between_and_during_merges_is_right(tmp_path: Path) -> None:
    for n in range(1, 6):
        ok(tmp_path, Things([of(n, n % 3)]), write_mode="append_dedup")
        DeltaTable(str(tmp_path / "things")).optimize.compact()

    assert sorted((row["id"], row["n"]) for row in rows(tmp_path)) == [(0, 3), (1, 4), (2, 5)]


@pytest.mark.parametrize("mode", ["append", "append_dedup"])
def test_many_small_files_become_few_when_a_sync_is_done(tmp_path: Path, mode: str) -> None:
    for n in range(1, 24):
        ok(tmp_path, Things([of(2 * n), of(2 * n + 1, 2 * n)]), write_mode=mode, history=mode == "append_dedup")

    assert len(DeltaTable(str(tmp_path / "things")).file_uris()) < 20
    assert len(rows(tmp_path)) == (23 if mode == "append_dedup" else 46)
    if mode == "append_dedup":
        assert len(rows(tmp_path, "things_history")) == 46
        assert len(DeltaTable(str(tmp_path / "things_history")).file_uris()) < 20


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("missing", "does not declare 'missing'"),
        ("tags", "expected a string, an integer, a double or a timestamp"),
        (["id", "nope"], "does not declare 'nope'"),
    ],
)
def test_a_key_that_cannot_be_one_is_refused(tmp_path: Path, key: Any, said: str) -> None:
    tags = {"type": "array", "items": TEXT}
    report = sync(tmp_path, Things([of(1)], tags=tags), write_mode="append_dedup", primary_key=key)

    assert report.failure is not None
    assert said in report.failure.message


def test_a_key_whose_column_the_policy_does_not_add_is_refused(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "things", pa.table({"n": [1]}))

    report = sync(tmp_path, Things([of(1)]), write_mode="append_dedup", schema="discard")

    assert report.failure is not None
    assert "the table has no column 'id', and the schema policy discard adds none" in report.failure.message


SHELF = {"shelf": INT}


def shelves(folder: Path, name: str = "things") -> dict[Any, list[int]]:
    """The `n`s of each partition, as the files have them; their shelf is the one that the log names."""
    table = DeltaTable(str(folder / name))
    found: dict[Any, list[int]] = {}
    for add in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        for row in pq.read_table(folder / name / add["path"]).to_pylist():
            assert row["shelf"] == add["partition.shelf"]
            found.setdefault(row["shelf"], []).append(row["n"])
    return {shelf: sorted(there) for shelf, there in found.items()}


def on(n: int, shelf: int | None, id: int | None = None, **more: Json) -> dict[str, Json]:
    return of(n, id, shelf=shelf, **more)


@pytest.mark.parametrize("mode", ["append", "append_dedup", "overwrite"])
def test_rows_lie_in_their_partitions_in_every_mode(tmp_path: Path, mode: str) -> None:
    options: dict[str, Any] = {"write_mode": mode, "partition_by": "shelf"}
    if mode == "overwrite":
        options["sync_mode"] = "full_refresh"
    ok(tmp_path, Things([on(1, 1), on(2, 2), on(3, None)], **SHELF), **options)
    report = ok(tmp_path, Things([on(4, 2, id=1), on(5, 2)], **SHELF), **options)

    assert (
        shelves(tmp_path)
        == {
            "append": {1: [1], 2: [2, 4, 5], None: [3]},
            "append_dedup": {2: [2, 4, 5], None: [3]},
            "overwrite": {2: [4, 5]},
        }[mode]
    )
    assert report.written == 2
    assert DeltaTable(str(tmp_path / "things")).metadata().partition_columns == ["shelf"]


def test_a_history_is_partitioned_like_its_table(tmp_path: Path) -> None:
    options = {"write_mode": "append_dedup", "history": True, "partition_by": ["shelf"]}
    ok(tmp_path, Things([on(1, 1), on(2, 1)], **SHELF), **options)
    ok(tmp_path, Things([on(3, 2, id=1)], **SHELF), **options)

    assert shelves(tmp_path) == {1: [2], 2: [3]}
    assert shelves(tmp_path, "things_history") == {1: [1, 2], 2: [3]}


@pytest.mark.parametrize("mode", ["append", "append_dedup"])
def test_a_partitioned_table_follows_its_schema(tmp_path: Path, mode: str) -> None:
    options = {"write_mode": mode, "partition_by": "shelf"}
    ok(tmp_path, Things([on(1, 1, size=5), on(2, 2, size=6)], size=INT, **SHELF), **options)
    ok(tmp_path, Things([on(3, 1, size="XL", odd=1)], size=TEXT, late=INT, **SHELF), **options)

    assert [(row["size"], row.get("odd")) for row in rows(tmp_path)] == [("5", None), ("6", None), ("XL", 1)]
    assert shelves(tmp_path) == {1: [1, 3], 2: [2]}


def test_an_overwrite_of_a_partitioned_table_takes_a_wider_schema(tmp_path: Path) -> None:
    options = {"sync_mode": "full_refresh", "partition_by": "shelf"}
    ok(tmp_path, Things([on(1, 1, size=5)], size=INT, **SHELF), **options)
    ok(tmp_path, Things([on(2, 2, size="XL")], size=TEXT, **SHELF), **options)

    assert kinds(tmp_path)["size"] == pa.string()
    assert shelves(tmp_path) == {2: [2]}


@pytest.mark.parametrize("modes", [{"write_mode": "append"}, {"sync_mode": "full_refresh"}])
def test_a_partition_column_keeps_its_type(tmp_path: Path, modes: Mapping[str, Any]) -> None:
    ok(tmp_path, Things([on(1, 1)], **SHELF), partition_by="shelf", **modes)
    report = sync(tmp_path, Things([on(2, None)], shelf=TEXT), partition_by="shelf", **modes)

    assert report.failure is not None
    assert (
        "partitioned by 'shelf', which is int64 there, but the stream's schema needs string" in report.failure.message
    )
    assert shelves(tmp_path) == {1: [1]}

    ok(tmp_path, Things([on(2, 7)], shelf=TEXT), partition_by="shelf", schema="discard", **modes)


@pytest.mark.parametrize("kind", [pa.decimal128(10, 2), pa.float32(), pa.binary()])
def test_a_partition_column_that_the_kit_does_not_write_is_refused_before_a_request(
    tmp_path: Path, kind: pa.DataType
) -> None:
    columns = pa.table({"id": pa.array([], pa.int64()), "shelf": pa.array([], kind)})
    write_deltalake(tmp_path / "things", columns, partition_by=["shelf"])

    report = sync(tmp_path, Things([on(1, 1)], **SHELF), partition_by="shelf", schema="discard")

    assert report.failure is not None
    assert report.failure.failure_type == "config_error"
    assert (
        f"partitioned by 'shelf', which is {kind} there, a type that the kit does not write" in report.failure.message
    )
    assert report.pages == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "is partitioned by shelf, but the pipeline sets nothing"),
        ("id", "is partitioned by shelf, but the pipeline sets id"),
        (["shelf", "id"], "the pipeline sets shelf, id"),
    ],
)
def test_a_table_keeps_its_partitions(tmp_path: Path, given: Any, said: str) -> None:
    ok(tmp_path, Things([on(1, 1)], **SHELF), partition_by="shelf")
    report = sync(tmp_path, Things([on(2, 1)], **SHELF), partition_by=given)

    assert report.failure is not None
    assert report.failure.message.startswith(str(tmp_path))
    assert said in report.failure.message


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("shlef", "streams.things.partition_by: the stream's schema does not declare 'shlef'; did you mean 'shelf'?"),
        ("size", "'size' is double; expected a string"),
        ("any", "'any' is stored as a JSON string"),
        ("tags", "'tags' is list<"),
        (["shelf", "shelf"], "'shelf' is listed twice"),
    ],
)
def test_a_column_that_cannot_divide_the_table_is_refused(tmp_path: Path, given: Any, said: str) -> None:
    tags = {"type": "array", "items": TEXT}
    report = sync(tmp_path, Things([of(1)], size=NUMBER, any={}, tags=tags, **SHELF), partition_by=given)

    assert report.failure is not None
    assert said in report.failure.message
    assert not DeltaTable.is_deltatable(str(tmp_path / "things"))


def test_a_property_that_is_declared_no_more_still_divides_the_table(tmp_path: Path) -> None:
    ok(tmp_path, Things([on(1, 1)], **SHELF), partition_by="shelf")
    ok(tmp_path, Things([on(2, 1), of(3)]), partition_by="shelf")

    assert shelves(tmp_path) == {1: [1, 2], None: [3]}


def test_a_partitioned_table_that_others_compact_is_merged_into_right(tmp_path: Path) -> None:
    options = {"write_mode": "append_dedup", "partition_by": "shelf", "primary_key": ["shelf", "id"]}
    for n in range(1, 7):
        ok(tmp_path, Things([on(n, n % 2, id=n % 3), on(n, 2, id=n)], **SHELF), **options)
        DeltaTable(str(tmp_path / "things")).optimize.compact()

    found = DeltaTable(str(tmp_path / "things")).to_pyarrow_table().select(["shelf", "id", "n"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [
        *((0, n % 3, n) for n in (6, 4, 2)),
        *((1, n % 3, n) for n in (3, 1, 5)),
        *((2, n, n) for n in range(1, 7)),
    ]


@pytest.mark.parametrize("mode", ["append", "append_dedup"])
def test_a_crowded_partition_is_compacted_and_its_files_keep_their_columns(tmp_path: Path, mode: str) -> None:
    options = {"write_mode": mode, "partition_by": "shelf"}
    # With every sync a file on shelf 1, with every eighth one on shelf 2.
    for n in range(1, 23):
        ok(tmp_path, Things([on(2 * n, 1), *([on(2 * n + 1, 2)] if n % 8 == 0 else [])], **SHELF), **options)

    assert shelves(tmp_path) == {1: list(range(2, 46, 2)), 2: [17, 33]}
    actions = pa.table(DeltaTable(str(tmp_path / "things")).get_add_actions(flatten=True)).to_pylist()
    assert sorted(add["partition.shelf"] for add in actions) == [1, 1, 1, 2, 2]
    # Merges go on to skip files by the bounds of their keys.
    assert all(add["min.id"] <= add["max.id"] for add in actions)

    report = ok(tmp_path, Things([on(50, 2, id=2)], **SHELF), **options)
    assert report.total == (24 if mode == "append_dedup" else 25)


class Long(Things):
    """Things whose numbers have more digits than 64 bits hold."""

    def json_schema(self) -> Mapping[str, Json]:
        return {"properties": {"id": INT, "n": {**INT, "airbyte_type": "big_integer"}}}


def test_a_count_beyond_64_bits_is_committed_and_goes_on(tmp_path: Path) -> None:
    first = 12345678901234567890123
    stream = Long([{"id": 1, "n": first}, {"id": 2, "n": first + 1}])
    ok(tmp_path, stream)
    stream.records = [*stream.records, {"id": 3, "n": first + 2}]

    again = ok(tmp_path, stream)

    assert [row["n"] for row in rows(tmp_path)] == [first, first + 1, first + 2]
    assert again.written == 1


class Versions(Things):
    """Things whose cursor is what it is given; all of them are read each time."""

    def __init__(self, cursor: Cursor | None, records: Sequence[Mapping[str, Json]], **properties: Json) -> None:
        super().__init__(records, **properties)
        self.cursor = cursor  # type: ignore[assignment] # None where there is none
        self.cursor_field = None if cursor is None else cursor.field

    def now(self) -> datetime:
        return DAY.replace(year=2026)

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        yield Page(self.records, None)


DAY = datetime(1990, 1, 1, tzinfo=UTC)
CURSORS: list[tuple[Cursor, list[Json]]] = [
    (CountCursor("v"), ["8", "9", "10", "12"]),
    (CountCursor("v"), [8, "9", 10, 12]),
    (DatetimeCursor("v", start=DAY), ["2024-01-02T12:00:00Z", "2024-01-02T12:00:00.500Z", "2024-01-02T12:00:01Z"]),
    (DatetimeCursor("v", start=DAY), ["2024-10-27T02:30:00+02:00", "2024-10-27T02:10:00+01:00"]),
    (DatetimeCursor("v", start=DAY, formats=["%m/%d/%Y"]), ["12/31/2023", "01/02/2024"]),
    (DatetimeCursor("v", start=DAY, formats=["%s"]), ["999999999", "1600000000"]),
    (DatetimeCursor("v", start=DAY), [datetime(2024, 1, 2, tzinfo=UTC), "2024-01-02T00:00:01Z"]),
]


@pytest.mark.parametrize(("cursor", "values"), CURSORS)
@pytest.mark.parametrize("declared", [None, {}, TEXT, INT, {**TEXT, "format": "date-time"}])
@pytest.mark.parametrize("policy", ["evolve", "discard"])
def test_the_newest_row_is_the_one_that_the_streams_cursor_says(
    tmp_path: Path, cursor: Cursor, values: list[Json], declared: Json, policy: str
) -> None:
    stream = Versions(cursor, [], **({} if declared is None else {"v": declared}))
    for n, value in enumerate(values):
        # Old versions come again after the newer one, in one read and in the next.
        stream.records = [{"id": 1, "n": n, "v": value}, *({"id": 1, "n": -1, "v": old} for old in values[:n])]
        ok(tmp_path, stream, write_mode="append_dedup", schema=policy)

        assert [row["n"] for row in rows(tmp_path)] == [n]


@pytest.mark.parametrize("key", ["1", None, "missing"])
def test_rows_whose_key_is_none_of_the_columns_are_kept_counted_and_said(
    tmp_path: Path, key: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    records: list[Mapping[str, Json]] = [{"id": None if key is None else f"{key}{n}", "n": n} for n in range(3)]
    if key == "missing":
        records = [{"n": n} for n in range(3)]
    stream = Versions(None, [{"id": 1, "n": 9}, *records])
    first = ok(tmp_path, stream, write_mode="append_dedup")

    again = ok(tmp_path, stream, write_mode="append_dedup")

    assert [row["n"] for row in rows(tmp_path)] == [0, 1, 2, 9]
    assert (first.apart, again.apart) == (3, 3)
    assert "things: the primary key of 3 rows is null, missing, or not a value of its column" in caplog.text


class Keyless(PagedStream):
    """Three pages of records, all without the key, then one with it."""

    primary_key = "id"
    schema: Mapping[str, Json] = {"properties": {"id": INT, "n": INT}}

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        del slice
        page = 0 if token is None else int(token["page"])
        if page == 3:
            return Page([{"id": 1, "n": 100}], None)
        return Page([{"n": 10 * page + i} for i in range(page + 1)], {"page": page + 1})


def test_rows_without_a_key_are_counted_over_all_commits_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    report = ok(tmp_path, Keyless(), write_mode="append_dedup")

    assert (report.commits, report.apart) == (4, 6)
    said = [line.getMessage() for line in caplog.records if "the primary key of" in line.getMessage()]
    assert len(said) == 1
    assert "things: the primary key of 6 rows is null" in said[0]


class Shops(Versions):
    """Slices of which each gives a key of the slice before it, and one of the slice after it, twice."""

    def partitions(self) -> list[Partition]:
        return [Partition.of(shop=n) for n in range(12)]

    def read_records(self, slice: Slice) -> Iterator[Item]:
        shop = slice.partition["shop"]
        yield from ({"id": shop + more, "n": 10 * shop + step} for step in range(2) for more in range(2))


def test_of_rows_without_a_cursor_the_one_that_comes_last_in_the_read_wins(tmp_path: Path) -> None:
    ok(tmp_path, Shops(None, []), write_mode="append_dedup")

    found = {row["id"]: row["n"] for row in rows(tmp_path)}

    assert found == {n: 10 * min(n, 11) + 1 for n in range(13)}


class Colliding(Things):
    """Fields that tables do not tell apart, in each order."""

    def __init__(self, records: Sequence[Mapping[str, Json]]) -> None:
        super().__init__(records, **{"a b": INT, "a_b": INT, "N": INT})


@pytest.mark.parametrize("mode", ["append", "append_dedup"])
def test_of_fields_that_share_a_column_the_one_of_its_name_has_it_and_the_others_are_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    records = [of(1, **{"a b": 10, "a_b": 20, "N": 30}), of(2, **{"a b": 11, "a_b": 21})]

    ok(tmp_path, Colliding(records), write_mode=mode)

    table = DeltaTable(str(tmp_path / "things")).to_pyarrow_table().sort_by("n").to_pylist()
    assert [(row["n"], row["a_b"], row["_airbyte_additional"]) for row in table] == [
        (1, 20, '{"a b":10,"N":30}'),
        (2, 21, '{"a b":11}'),
    ]
    warnings = [line.getMessage() for line in caplog.records if "get no column" in line.getMessage()]
    assert len(warnings) == 1
    assert "'a b' ('a_b' has it), 'N' ('n' has it)" in warnings[0]


@pytest.mark.parametrize(
    ("option", "field", "owner"),
    [
        ("primary_key", "a b", "a_b"),
        ("primary_key", "ID", "id"),
        ("cursor_field", "N", "n"),
        ("partition_by", "N", "n"),
    ],
)
def test_a_field_that_has_to_have_a_column_and_has_none_is_refused_before_a_request(
    tmp_path: Path, option: str, field: str, owner: str
) -> None:
    class Unread(Colliding):
        def read_records(self, slice: Slice) -> Iterator[Item]:
            raise AssertionError(slice)

    report = sync(tmp_path, Unread([]), write_mode="append_dedup", **{option: field})

    assert report.failure is not None
    assert f"streams.things.{option}: {field!r} has no column of its own" in report.failure.message
    assert f"that of {owner!r}" in report.failure.message
    assert not (tmp_path / "things").exists()


@pytest.mark.parametrize("policy", ["evolve", "freeze", "discard"])
def test_an_undeclared_field_has_the_same_column_in_each_sync_and_a_collision_is_said_once(
    tmp_path: Path, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    ok(tmp_path, Things([{**of(1), "first name": "Ada", "size=": 1}]))
    ok(tmp_path, Things([{**of(2), "first name": "Eve"}]), schema=policy)
    assert caplog.text == ""

    ok(tmp_path, Things([{**of(n), "first name": "Bob", "first_name": "Cid"} for n in (3, 4)]), schema=policy)

    assert [(row["first_name"], row["size_"]) for row in rows(tmp_path)] == [
        ("Ada", 1),
        ("Eve", None),
        ("Bob", None),
        ("Bob", None),
    ]
    said = "things: the field 'first_name' gets no column, because 'first name' already has the column of that name"
    assert caplog.text.count(said) == 1


MERGED = {"write_mode": "append_dedup"}
SHELVES = {"shelf": TEXT}
SHELVED = [{"id": n, "n": n, "shelf": "ab"[n % 2]} for n in range(1, 5)]


def test_a_key_that_is_another_is_refused_before_a_row_replaces_all_that_share_it(tmp_path: Path) -> None:
    ok(tmp_path, Things(SHELVED, **SHELVES), **MERGED)
    more = Things([*SHELVED, {"id": 9, "n": 9, "shelf": "a"}], **SHELVES)

    report = sync(tmp_path, more, **MERGED, primary_key="shelf")

    assert report.failure is not None
    assert report.failure.failure_type == "config_error"
    assert "found shelf, but the table has one row for each id" in report.failure.message
    assert {row["id"] for row in rows(tmp_path)} == {1, 2, 3, 4}
    ok(tmp_path, more, **MERGED, primary_key="id")
    assert {row["id"] for row in rows(tmp_path)} == {1, 2, 3, 4, 9}


def test_a_key_that_is_another_than_that_of_another_pipeline_is_refused(tmp_path: Path) -> None:
    ok(tmp_path, Things(SHELVED, **SHELVES), **MERGED)

    report = sync(tmp_path, Things(SHELVED, **SHELVES), name="market", **MERGED, primary_key="shelf")

    assert report.failure is not None
    assert "found shelf, but the pipeline 'shop' has one row for each id" in report.failure.message
    ok(tmp_path, Things(SHELVED, **SHELVES), name="market", **MERGED)
    assert {row["id"] for row in rows(tmp_path)} == {1, 2, 3, 4}


def test_a_full_refresh_that_was_interrupted_is_resumed_by_the_same_key(tmp_path: Path) -> None:
    class Down(Things):
        cursor = None  # type: ignore[assignment] # all is read
        fails = True

        def read_records(self, slice: Slice) -> Iterator[Item]:
            if slice.start.cursor is None:
                yield Page(self.records[:2], {"page": 2})
            if self.fails:
                raise TransientError("down")
            yield Page(self.records[2:], None)

    stream = Down([of(1, 1), of(2, 1), of(3, 3)])
    sync(tmp_path, stream, **MERGED)
    stream.fails = False

    report = sync(tmp_path, stream, **MERGED, primary_key="n")

    assert report.failure is not None
    assert "found n, but the table has one row for each id" in report.failure.message
    ok(tmp_path, stream, **MERGED)
    ok(tmp_path, stream, **MERGED, primary_key="n")
    assert [row["n"] for row in rows(tmp_path)] == [1, 2, 3]


def test_a_key_may_gain_a_column(tmp_path: Path) -> None:
    ok(tmp_path, Things(SHELVED, **SHELVES), **MERGED)

    ok(tmp_path, Things([*SHELVED, {"id": 4, "n": 9, "shelf": "b"}], **SHELVES), **MERGED, primary_key=["shelf", "id"])

    assert sorted((row["id"], row["shelf"]) for row in rows(tmp_path)) == [
        (1, "b"),
        (2, "a"),
        (3, "b"),
        (4, "a"),
        (4, "b"),
    ]


MOMENT_ = {"type": "string", "format": "date-time"}
DATE = {"type": "string", "format": "date"}
TEN = "2024-01-01T10:00:00Z"


@pytest.mark.parametrize(("id", "before", "after"), [(TEN, MOMENT_, TEXT), (5, NUMBER, TEXT), (5, NUMBER, MOMENT_)])
def test_a_key_that_would_be_spelled_otherwise_in_its_new_type_is_refused(
    tmp_path: Path, id: Json, before: Json, after: Json
) -> None:
    ok(tmp_path, Things([{"id": id, "n": 1}], id=before), **MERGED)
    more = [{"id": id, "n": 2}]

    report = sync(tmp_path, Things(more, id=after), **MERGED)

    assert report.failure is not None
    assert report.failure.failure_type == "config_error"
    assert "the table has 'id', a column of its primary key, as" in report.failure.message
    ok(tmp_path, Things(more, id=before), **MERGED)
    assert [row["n"] for row in rows(tmp_path)] == [2]
    ok(tmp_path, Things(more, id=after), write_mode="overwrite", sync_mode="full_refresh")


@pytest.mark.parametrize(
    ("before", "after", "ids", "again"),
    [
        (INT, TEXT, [1, "A7", 2**70, 1.5], ["1", "A7", str(2**70), "1.5"]),
        (INT, NUMBER, [1, 1.5, "2.5"], [1.0, 1.5, "2.5"]),
        (DATE, MOMENT_, ["2024-01-02", TEN, "soon"], ["2024-01-02T00:00:00Z", TEN, "soon"]),
        (DATE, TEXT, ["2024-01-02", TEN], ["2024-01-02", TEN]),
    ],
)
def test_rows_are_replaced_once_their_column_is_wide_enough_for_their_keys(
    tmp_path: Path, before: Json, after: Json, ids: Sequence[Json], again: Sequence[Json]
) -> None:
    for kind, values, first in ((before, ids, 0), (after, again, 10), (after, again, 20)):
        records = [{"id": value, "n": first + i} for i, value in enumerate(values)]
        ok(tmp_path, Things(records, id=kind), **MERGED)

    assert [row["n"] for row in rows(tmp_path)] == [20 + i for i in range(len(ids))]


def test_another_key_is_right_for_rows_that_were_only_added(tmp_path: Path) -> None:
    ok(tmp_path, Things(SHELVED, **SHELVES), write_mode="append")

    ok(tmp_path, Things([*SHELVED, {"id": 2, "n": 9, "shelf": "c"}], **SHELVES), **MERGED)

    assert sorted((row["id"], row["shelf"]) for row in rows(tmp_path)) == [(1, "b"), (2, "c"), (3, "b"), (4, "a")]
