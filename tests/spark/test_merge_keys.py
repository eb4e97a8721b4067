"""Any keys and cursors through any merges, beside a plain model of what a table should hold."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk.lake.arrow.columns import BIG_INTEGER, JSON_TEXT, TIMESTAMP_NTZ, TIMESTAMP_UTC, ColumnType
from cdk.lake.parquet.dedup import CursorColumn, Identity
from cdk.streams.order import CountOrder, NaturalOrder, Order, TimestampOrder
from tests.lake.parquet.test_merge import Table

NAN, HALF, MISSING = float("nan"), "\ud800", object()
NOON, ZONED = "2024-01-02T12:00:00", "2024-01-02T13:00:00+01:00"
FINE, PYTHON = "2024-01-02T12:00:00.000000001", datetime(2024, 1, 2, 12, tzinfo=UTC)
BIG = 2**53 + 1

# What a source may give for a key, and what it is then: a value of the column, or the text of one that does not fit;
# None where nobody knows it.
KEYS: dict[pa.DataType, list[tuple[Any, Any]]] = {
    pa.int64(): [(1, 1), (2, 2), (2.0, 2), ("1", ["1"]), ("2", ["2"]), (1.5, ["1.5"]), (2**70, [str(2**70)])],
    pa.float64(): [(1, 1.0), (1.0, 1.0), (0.0, 0.0), (-0.0, 0.0), ("1", ["1"]), (BIG, [str(BIG)]), (NAN, None)],
    pa.bool_(): [(True, True), (False, False), (1, ["1"]), ("true", ["true"])],
    pa.string(): [("a", "a"), ("", ""), (1, "1"), ("\\", "\\"), (HALF, ["half"]), ("\\ud800", "\\ud800")],
    pa.date32(): [("2024-01-02", 1), (date(2024, 1, 2), 1), ("1970-01-01", 0), ("x", ["x"]), (5, ["5"])],
    TIMESTAMP_UTC: [(f"{NOON}Z", 1), (ZONED, 1), (PYTHON, 1), (f"{FINE}Z", [f"{FINE}Z"]), ("x", ["x"])],
    TIMESTAMP_NTZ: [(NOON, 1), (FINE, [FINE]), (ZONED, [ZONED]), ("1970-01-01T00:00:00", 0), ("x", ["x"])],
    BIG_INTEGER: [(2**70, 2**70), (str(2**70), 2**70), (1, 1), ("x", ["x"]), (1.5, ["1.5"])],
}  # fmt: skip
UNKNOWN = [(None, None), (MISSING, None)]


@dataclass(frozen=True)
class Dated:
    """A cursor: its column (None: the schema has none), how it compares, and values with their ranks."""

    kind: ColumnType | None
    order: Order
    values: Sequence[tuple[Any, int | None]]


ISO = [
    (f"{NOON}Z", 0),
    (f"{NOON}.500Z", 500),
    ("2024-01-02T17:30:00.250+05:30", 250),
    ("x", None),
    ("2024-01-02T12:00:00.5", 500),
]
COUNTS = [(9, 9), ("9", 9), ("12", 12), (12, 12), (3.0, 3), (2**70, 2**70), (-1, -1), ("x", None), (1.5, None)]
CURSORS = [
    Dated(pa.int64(), CountOrder(), COUNTS),
    Dated(pa.string(), CountOrder(), COUNTS),
    Dated(JSON_TEXT, CountOrder(), [*COUNTS, ({"a": 1}, None)]),
    Dated(BIG_INTEGER, CountOrder(), COUNTS),
    Dated(None, CountOrder(), COUNTS),
    Dated(None, NaturalOrder(), [(value, rank) for value, rank in COUNTS if rank is not None]),
    Dated(pa.string(), TimestampOrder(("%Y-%m-%dT%H:%M:%SZ",)), ISO),
    Dated(TIMESTAMP_UTC, TimestampOrder(("%Y-%m-%dT%H:%M:%SZ",)), ISO),
    Dated(None, TimestampOrder(()), ISO),
    Dated(pa.string(), TimestampOrder(("%m/%d/%Y",)), [("12/31/2023", 0), ("01/02/2024", 2), ("02/01/2023", -9)]),
    Dated(
        TIMESTAMP_UTC,
        TimestampOrder(("%m/%d/%Y",)),
        [("12/31/2023", 0), ("01/02/2024", 2), ("2024-01-01T00:00:00Z", 1)],
    ),
    Dated(pa.int64(), TimestampOrder(("%s",)), [(99, 99), (100, 100), ("101", 101), ("x", None)]),
    Dated(pa.string(), TimestampOrder(("%ms",)), [("99", 99), (100, 100), ("1000", 1000)]),
]  # fmt: skip


class Model:
    """A table in plain Python: what tells a record apart -> its rank, and the record."""

    def __init__(self, kinds: Sequence[pa.DataType]) -> None:
        self.kinds = kinds
        self.rows: dict[Any, tuple[int | None, dict[str, Any]]] = {}
        self._read: dict[Any, tuple[int | None, dict[str, Any]]] = {}

    def take(self, record: dict[str, Any], keys: Sequence[Any], rank: int | None) -> None:
        if None in keys:
            identity: Any = repr(sorted(record.items(), key=str))
        else:
            identity = tuple(map(repr, keys))
        before = self._read.get(identity, (None, None))[0]
        if before is None or (rank is not None and rank >= before):
            self._read[identity] = (rank, record)

    def commit(self) -> None:
        for identity, (rank, record) in self._read.items():
            before = self.rows.get(identity, (None, None))[0]
            if before is None or rank is None or rank >= before:
                self.rows[identity] = (rank, record)
        self._read.clear()

    def marks(self) -> list[int]:
        return sorted(record["mark"] for _, record in self.rows.values())


@dataclass(frozen=True)
class World:
    """Columns of a key by their names, a cursor, and batches of pages of records, some of which come again.

    nested: where in the table there is a column of objects whose fields have the paths of the key's columns, if any.
    """

    keys: dict[str, pa.DataType]
    cursor: Dated
    nested: str | None
    batches: Sequence[Sequence[Sequence[Any]]]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    kinds = draw(st.lists(st.sampled_from(list(KEYS)), min_size=1, max_size=2))
    nested = draw(st.sampled_from([None, None, "before", "after"]))
    names = [f"k{i}" if nested is None else f"o.k{i}" for i in range(len(kinds))]
    cursor = draw(st.sampled_from(CURSORS))
    known: list[Any] = []

    def fresh() -> Any:
        keys = [draw(st.sampled_from(KEYS[kind] * 2 + UNKNOWN)) for kind in kinds]
        value, rank = draw(st.sampled_from([*cursor.values, (None, None), (MISSING, None)]))
        record = {name: key for name, (key, _) in zip(names, keys, strict=True)} | {"at": value, "mark": len(known)}
        if nested:
            record["o"] = {"k0": 1000 + len(known), "k1": None}
        known.append(
            ({name: one for name, one in record.items() if one is not MISSING}, [key for _, key in keys], rank)
        )
        return known[-1]

    def any_one() -> Any:
        return draw(st.sampled_from(known)) if known and draw(st.integers(0, 2)) == 0 else fresh()

    sizes = draw(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=2), min_size=1, max_size=3))
    batches = [[[any_one() for _ in range(size)] for size in pages] for pages in sizes]
    return World(dict(zip(names, kinds, strict=True)), cursor, nested, batches)


@settings(max_examples=25, deadline=None)
@given(worlds())
def test_merges_leave_the_newest_row_of_each_key_and_every_row_without_one(world: World) -> None:
    cursor = world.cursor
    objects = {"o": pa.struct([("k0", pa.int64()), ("k1", pa.string())])}
    before, after = ({"before": (objects, {}), "after": ({}, objects)}).get(world.nested or "", ({}, {}))
    columns = {**before, **world.keys, **after, "mark": pa.int64()}
    if cursor.kind is not None:
        columns["at"] = cursor.kind
    identity = Identity(tuple(world.keys), CursorColumn("at", "at", cursor.order, cursor.kind is JSON_TEXT))
    model = Model(list(world.keys.values()))
    with TemporaryDirectory() as folder:
        table = Table(Path(folder), identity, columns)
        for pages in world.batches:
            present = len(marks(table))
            merged = table.take(*([record for record, _, _ in page] for page in pages))
            for page in pages:
                for record, keys, rank in page:
                    model.take(record, keys, rank)
            model.commit()

            assert marks(table) == model.marks()
            assert len(model.rows) == present + merged.added - merged.replaced
            assert merged.keyless == sum(
                any(key is None or isinstance(key, list) for key in keys) for page in pages for _, keys, _ in page
            )


def marks(table: Table) -> list[int]:
    found = [pq.read_table(table.place.path / file.path, columns=["mark"]) for file in table.files]
    return sorted(mark for part in found for mark in part["mark"].to_pylist())


@pytest.mark.parametrize("key", [["1", "2", "3"], [None, None, None], [MISSING] * 3, [f"{n}.5" for n in range(3)]])
def test_rows_without_a_key_of_the_columns_type_are_kept_apart_and_come_once(tmp_path: Path, key: list[Any]) -> None:
    columns = {"id": pa.int64(), "mark": pa.int64()}
    table = Table(tmp_path, Identity(("id",)), columns)
    records = [{"id": one, "mark": n} for n, one in enumerate(key)]
    records = [{name: value for name, value in record.items() if value is not MISSING} for record in records]
    table.take([{"id": 1, "mark": 7}])

    first, again = table.take(records), table.take(records)

    assert marks(table) == [0, 1, 2, 7]
    assert (first.keyless, again.keyless, again.replaced, again.added) == (3, 3, 3, 3)


def test_a_row_without_a_key_that_changed_is_another_row_and_one_that_does_not_fit_is_replaced(tmp_path: Path) -> None:
    table = Table(tmp_path, Identity(("id",)), {"id": pa.int64(), "mark": pa.int64()})
    table.take([{"id": None, "mark": 0}, {"id": "x", "mark": 1}])

    table.take([{"id": None, "mark": 2}, {"id": "x", "mark": 3}])

    assert marks(table) == [0, 2, 3]


@pytest.mark.parametrize(
    ("kind", "key"), [(TIMESTAMP_UTC, f"{FINE}Z"), (TIMESTAMP_NTZ, FINE), (TIMESTAMP_NTZ, ZONED), (pa.string(), HALF)]
)
def test_a_key_of_which_its_column_holds_a_part_is_one_key_in_any_file(
    tmp_path: Path, kind: pa.DataType, key: str
) -> None:
    table = Table(tmp_path, Identity(("id",)), {"id": kind, "mark": pa.int64()})
    table.take([{"id": key, "mark": 0}])

    table.take([{"id": key, "mark": 1}])

    assert marks(table) == [1]


def test_only_files_that_may_hold_rows_without_a_key_are_looked_into_for_one(tmp_path: Path) -> None:
    table = Table(tmp_path, Identity(("id",)), {"id": pa.int64(), "mark": pa.int64()})
    table.take([{"id": n, "mark": n} for n in range(5)])
    table.take([{"id": None, "mark": 9}])

    merged = table.take([{"id": None, "mark": 9}, {"id": "x", "mark": 10}])

    assert merged.compared == 1
    assert marks(table) == [0, 1, 2, 3, 4, 9, 10]


def test_a_key_that_did_not_fit_is_one_once_its_column_holds_texts(tmp_path: Path) -> None:
    old = Table(tmp_path, Identity(("id",)), {"id": pa.int64(), "mark": pa.int64()})
    old.take([{"id": "x", "mark": 0}])
    table = Table(tmp_path, Identity(("id",)), {"id": pa.string(), "mark": pa.int64()})
    table.files = old.files

    table.take([{"id": "x", "mark": 1}])

    assert marks(table) == [1]


def test_rows_of_another_writer_without_notes_are_kept_apart_too(tmp_path: Path) -> None:
    table = Table(tmp_path, Identity(("id",)), {"id": pa.int64(), "mark": pa.int64()})
    table.take([{"id": 1, "mark": 0}, {"id": None, "mark": 1}])
    (file,) = table.files
    rows = pq.read_table(tmp_path / file.path)
    pq.write_table(rows.drop_columns(["_airbyte_meta", "_airbyte_additional"]), tmp_path / file.path)

    table.take([{"id": 1, "mark": 5}, {"id": None, "mark": 6}])

    assert marks(table) == [1, 5, 6]
