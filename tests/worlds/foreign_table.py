"""A table that another engine made, with columns of types that the kit does not write, and rows of its own."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from cdk import Json, Record

KINDS: Mapping[str, tuple[pa.DataType, Sequence[Json]]] = {
    "int8": (pa.int8(), [0, 1, -128, 127]),
    "int16": (pa.int16(), [1, 2, -(2**15)]),
    "int32": (pa.int32(), [0, 7, 2**31 - 1]),
    "int64": (pa.int64(), [0, 1, 2**53 + 1, -(2**63)]),
    "float": (pa.float32(), [0.5, 1.0, 0.10000000149011612, 2.0**100]),
    "double": (pa.float64(), [0.5, -0.0, 1e300, 5e-324]),
    "boolean": (pa.bool_(), [True, False]),
    "string": (pa.string(), ["", "1", "x", "null"]),
    "binary": (pa.binary(), [b"", b"x", b"\xff"]),
    "date": (pa.date32(), [date(1, 1, 1), date(2024, 2, 29), date(9999, 12, 31)]),
    "timestamp": (pa.timestamp("us", "UTC"), [datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 3, 31, 2, 30, 0, 1, UTC)]),
    "timestamp_ntz": (pa.timestamp("us"), [datetime(2024, 3, 31, 2, 30), datetime(1582, 10, 10)]),  # noqa: DTZ001
    "decimal(10,2)": (pa.decimal128(10, 2), [Decimal("1.10"), Decimal("-99999999.99"), Decimal("0.00")]),
    "decimal(20,0)": (pa.decimal128(20, 0), [Decimal(1), Decimal(10**20 - 1)]),
    "decimal(38,0)": (pa.decimal128(38, 0), [Decimal(1), Decimal(1 - 10**38)]),
    "array<int>": (pa.list_(pa.int32()), [[], [1, None, 2**31 - 1]]),
    "array<float>": (pa.list_(pa.float32()), [[0.5], []]),
    "array<binary>": (pa.list_(pa.binary()), [[b"x", None]]),
    "struct<a:int,b:float>": (
        pa.struct([("a", pa.int32()), ("b", pa.float32())]),
        [{"a": 1, "b": 0.5}, {"a": None, "b": None}],
    ),
    "struct<a:string,d:date>": (
        pa.struct([("a", pa.string()), ("d", pa.date32())]),
        [{"a": "x", "d": date(2024, 2, 29)}, {"a": None, "d": None}],
    ),
    "struct<a:struct<b:decimal>>": (
        pa.struct([("a", pa.struct([("b", pa.decimal128(4, 1))]))]),
        [{"a": {"b": Decimal("1.5")}}, {"a": None}],
    ),
    "map<string,int>": (pa.map_(pa.string(), pa.int32()), [[("a", 1)], []]),
}
"""Types of columns, by name, each with values."""


def _add_columns(table: DeltaTable) -> None:
    """Add columns that records may have fields for, unless one is there."""
    there = {column.name for column in table.schema().fields}
    new = {"c": "byte", "d": "float", "y": "binary"}
    table.alter.add_columns([Field(name, PrimitiveType(kind)) for name, kind in new.items() if name not in there])


WORKS: Mapping[str, Callable[[DeltaTable], object]] = {
    "add columns": _add_columns,
    "checkpoint": DeltaTable.create_checkpoint,
    "compact": lambda table: table.optimize.compact(),
    "expire": DeltaTable.cleanup_metadata,
    "vacuum": lambda table: table.vacuum(0, dry_run=False, enforce_retention_duration=False),
}
"""What another engine does to a table without changing a value, by name."""


@dataclass(frozen=True)
class Foreign:
    """A table with columns of `KINDS`, by name, and rows; besides each row has a negative number `n`."""

    columns: Mapping[str, str]
    rows: Sequence[Record] = ()
    partition_by: Json = None
    properties: Mapping[str, str] = field(default_factory=dict)
    constraint: str = ""
    works: Sequence[str] = ()
    """What the engine does to it after each turn, by the names of `WORKS`."""

    def values(self) -> list[Record]:
        """The rows, with a value of each column."""
        return [{**dict.fromkeys(self.columns), **row, "n": -n} for n, row in enumerate(self.rows, 1)]

    def create(self, path: Path) -> None:
        """Write the table."""
        schema = pa.schema([*((name, KINDS[kind][0]) for name, kind in self.columns.items()), ("n", pa.int64())])
        by = [self.partition_by] if isinstance(self.partition_by, str) else None
        rows = pa.Table.from_pylist(self.values(), schema)
        write_deltalake(path, rows, partition_by=by, configuration=dict(self.properties))
        if self.constraint:
            DeltaTable(path).alter.add_constraint({"bounds": self.constraint})


def lost(row: Record, cells: Record) -> Iterator[str]:
    """The columns of a row that do not show what they had."""
    for name, value in cells.items():
        if _like(row.get(name), value) != value:
            yield f"{name!r} was {value!r}, its column has {row.get(name)!r}"


def _like(cell: Json, value: Json) -> Json:
    """What a cell shows, as a value of the same type; a column may hold texts by now, or a wider type."""
    shown = cell
    text = isinstance(cell, str)
    match value:
        case _ if cell is None:
            pass
        case bool():
            shown = {"true": True, "false": False}.get(cell, cell)
        case list():
            items = json.loads(cell) if text else cell
            shown = [_like(item, inner) for item, inner in zip(items, value, strict=True)]
        case dict():
            fields = json.loads(cell) if text else cell
            shown = {name: _like(fields.get(name), inner) for name, inner in value.items()}
        case int() | Decimal():
            shown = Decimal(str(cell))
        case float():
            shown = float(cell)
        case datetime() if text:
            shown = datetime.fromisoformat(cell)
        case date() if text:
            shown = date.fromisoformat(cell)
        case date() if isinstance(cell, datetime) and not isinstance(value, datetime):
            shown = cell.date()
    return shown
