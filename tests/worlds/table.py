"""What is in a table, and whether it shows what a record says. Knows nothing of how the kit writes."""

import json
import math
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import Path
from uuid import UUID

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from cdk import Json, Record
from cdk.base.records.exact_json import WrittenNumber
from tests.worlds.server import whole


def rows(path: Path) -> list[Record]:
    """The rows that a reader of the table sees, deletion vectors and all."""
    if not DeltaTable.is_deltatable(str(path)):
        return []
    query = QueryBuilder().register("rows", DeltaTable(str(path)))
    return list(pa.table(query.execute("select * from rows")).to_pylist())


def problems(row: Record, record: Record, json_columns: Collection[str] = ()) -> Iterator[str]:
    """Fields of a record that its row does not show: not as a column, nor among what has none, nor as a change.

    json_columns: fields whose columns may hold JSON, so that a text has quote marks there.
    """
    rest = json.loads(row.get("_airbyte_additional") or "{}", parse_float=Decimal)
    changed = {change["field"]: change["original"] for change in row["_airbyte_meta"]["changes"]}
    for name, said in record.items():
        value, column, shown = _as_json(said), column_of(name), _shown(name)
        if shown in changed and not _same(changed[shown], value):
            yield f"{name!r} was {value!r}, noted as {changed[shown]!r}"
        noted = _is_noted(shown, changed)
        cell = row.get(column)
        text = isinstance(value, str) and isinstance(cell, str) and name not in json_columns
        there = cell == value if text else _same(cell, value)
        if not noted and not there and not (name in rest and _same(rest[name], value)):
            yield f"{name!r} was {value!r}, its column has {row.get(column)!r}, beside it {rest.get(name)!r}"


def column_of(name: str) -> str:
    """The name of the column that a field would have."""
    return "".join("_" if c in " ,;{}()=" or c < " " else c for c in name)


def beside(row: Record) -> Collection[str]:
    """The fields of a row's record that have no column, and what JSON does not have."""
    left_out = {change["field"] for change in row["_airbyte_meta"]["changes"] if change["change"] == "LEFT_OUT"}
    return left_out.union(json.loads(row.get("_airbyte_additional") or "{}"))


def _is_noted(name: str, changed: Collection[str]) -> bool:
    """Whether a field, or something in it, is among the changes."""
    return any(field == name or field.startswith((f"{name}.", f"{name}[")) for field in changed)


_BITS = {"int8": 8, "int16": 16, "int32": 32}


def key_of(record: Record, kind: Json) -> Json:
    """What tells a record apart by the key `id`: its id as a column of a type holds it, or as the source gave it.

    A record without an id is told apart by all that it holds. What its column does not hold is told apart by its text.
    """
    id = record.get("id")
    if id is None:
        return f"row {record['n']}"
    if kind is None:
        return _spelled(id)
    text = id if isinstance(id, str) else _in_full(id)
    if kind == "string":
        return text
    of_doubles = kind in ("double", "number")
    if type(id) is not str and not (of_doubles and type(id) is float):
        id = whole(id)
        text = f"{Decimal(f'{id}'):f}" if isinstance(id, float) and math.isfinite(id) else json.dumps(id)
    if kind == "big_integer" and isinstance(id, str) and id.isdigit():
        id = int(id)
    if kind == "boolean":
        fits = type(id) is bool
    elif of_doubles:
        fits = isinstance(id, float) or (type(id) is int and float(id) == id)
        id = float(id) if fits else id
    else:
        fits = type(id) is int and (kind == "big_integer" or id < 2 ** (_BITS.get(f"{kind}", 64) - 1))
    return id if fits and kind != "date" else f"given {text}"


def _spelled(value: Json) -> str:
    """JSON with numbers as the source spelled them."""
    return value.text if isinstance(value, WrittenNumber) else json.dumps(value)


def _in_full(value: Json) -> str:
    """JSON with the one spelling that a whole number has which a column of numbers may hold."""
    number = whole(value)
    return _spelled(number if type(number) is int and abs(number) < 10**38 else value)


def as_read(record: Record) -> Record:
    """A record as `read` prints it: without fields that are null, and null where JSON has no such number."""
    return {name: _finite(_as_json(value)) for name, value in record.items() if value is not None}


def _finite(value: Json) -> Json:
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return None if type(value) is float and not math.isfinite(value) else value


def _as_json(value: Json) -> Json:
    """A value of Python as `read` writes it."""
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Enum):
        return _as_json(value.value)
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    if isinstance(value, dict):
        return {name: _as_json(item) for name, item in value.items()}
    return str(value) if isinstance(value, UUID) else value


def _shown(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode()


def _same(cell: Json, value: Json) -> bool:
    """Whether a cell shows a value: as what it is, or as its JSON."""
    if isinstance(cell, str):
        return cell == value or (value is not None and _is_json(cell, value))
    if cell is None or value is None or isinstance(cell, bool) or isinstance(value, bool):
        return cell is value
    if isinstance(cell, date):
        return _is_date(cell, value)
    if isinstance(cell, list):
        return isinstance(value, list) and len(cell) == len(value) and all(map(_same, cell, value))
    if isinstance(cell, Mapping):
        return isinstance(value, Mapping) and all(_same(cell.get(name), item) for name, item in value.items())
    return _is_number(cell, value)


def _is_number(cell: Json, value: Json) -> bool:
    if isinstance(value, WrittenNumber):  # a column of doubles rounds fractions
        return bool(cell == Decimal(value.text)) or (bool(cell == value) and whole(value) is value)
    if isinstance(value, float):
        return bool(cell in (value, Decimal(f"{value}"))) or (math.isnan(value) and math.isnan(cell))
    # APIs write numbers that JavaScript would round as strings.
    return bool(cell == (Decimal(value) if isinstance(value, str) and value.lstrip("+-").isdigit() else value))


def _is_date(cell: date, value: Json) -> bool:
    if not isinstance(value, str):
        return False
    if not isinstance(cell, datetime):
        return cell.isoformat() == value
    there = datetime.fromisoformat(value)
    return cell.astimezone(UTC) == (there if there.tzinfo else there.replace(tzinfo=UTC)).astimezone(UTC)


def _is_json(text: str, value: Json) -> bool:
    try:
        return _equal(json.loads(text, parse_float=WrittenNumber), value)
    except ValueError:
        return False


def _equal(one: Json, other: Json) -> bool:
    """Whether two values of JSON are one; NaN is itself or its text, and a field that a struct has for others null.

    A struct that became text had its own fields, some of them texts that hold other values as JSON.
    """
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() >= other.keys() and all(_equal(value, other.get(name)) for name, value in one.items())
    if isinstance(other, float) and not math.isfinite(other):
        return one in (other, json.dumps(other)) or (isinstance(one, float) and math.isnan(one) and math.isnan(other))
    if isinstance(one, str) and not isinstance(other, str):
        return other is not None and _is_json(one, other)
    if isinstance(one, bool) or isinstance(other, bool) or not isinstance(one, int | float):
        return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
    return isinstance(other, int | float | Decimal) and _digits(one) == _digits(other)


def _digits(number: float | Decimal) -> Decimal:
    return Decimal(number.text if isinstance(number, WrittenNumber) else f"{number}")
