"""What identifies rows without a key, file by file."""

import json
from typing import Any

import pyarrow as pa
import pytest

from cdk import Json
from cdk.base.records.exact_json import WrittenNumber
from cdk.lake.arrow.coerce import coerce_value
from cdk.lake.arrow.columns import ADDITIONAL, BIG_INTEGER, META, OWN_COLUMNS, RAW_ID, TIMESTAMP_UTC, column_of
from cdk.lake.parquet.keyless_rows import NULL, separated_keys

KEY = ("id", pa.int64())


class Table:
    """The keys of a file's rows, and what identifies those without one."""

    def __init__(self, columns: list[tuple[str, pa.DataType] | pa.Field], rows: list[dict[str, Any]]) -> None:
        schema = pa.schema([*columns, *OWN_COLUMNS.items()])
        table = pa.Table.from_pylist([{RAW_ID: f"{n:04}", **row} for n, row in enumerate(rows)], schema)

        def rest(names: Any, mask: pa.Array) -> pa.Table:
            return table.filter(mask).select(schema.names if names is None else names)

        nulls = table["id"].is_null().combine_chunks()
        (keys,), apart = separated_keys([table["id"]], nulls, [frozenset({"id"})], rest)
        self.keys: list[int | None] = keys.to_pylist()
        self.apart: list[bytes | None] = apart.to_pylist()


def separated(rows: list[dict[str, Any]]) -> tuple[list[int | None], list[bytes | None]]:
    table = Table([KEY, ("name", pa.string())], rows)
    return table.keys, table.apart


def noted(original: str, reason: str = "") -> dict[str, Any]:
    return {META: {"changes": [{"field": "id", "change": "NULLED", "reason": reason, "original": original}]}}


def test_rows_with_keys_are_not_looked_at_further() -> None:
    assert separated([{"id": 1}, {"id": 1, "name": "a"}]) == ([1, 1], [None, None])


def test_a_key_that_its_column_cannot_hold_identifies_its_row_as_it_came() -> None:
    keys, (one, other, same) = separated([noted("x"), noted("y"), {**noted("x"), "name": "b"}])

    assert keys == [None, None, None]
    assert one == same != other


def test_a_key_that_its_column_has_become_wide_enough_for_is_one() -> None:
    keys, apart = separated([noted("7000000000", "more than 32 bits"), noted("7", "not a number"), noted("1e99")])

    assert keys == [7_000_000_000, None, None]
    assert [mark is None for mark in apart] == [True, False, False]


def test_without_any_key_all_that_a_row_holds_identifies_it() -> None:
    keys, apart = separated([{"name": "a"}, {"id": 2}, {"name": "b"}, {"name": "a"}])

    assert keys == [None, 2, None, None]
    assert [mark and mark[:1] for mark in apart] == [NULL, None, NULL, NULL]
    assert apart[0] == apart[3] != apart[2]


def in_column(value: Json, kind: pa.DataType) -> list[bytes | None]:
    """What identifies a row whose column holds a value."""
    changes: list[dict[str, str]] = []
    held = coerce_value(value, kind, "a b", changes)
    return Table([KEY, column_of("a b", kind)], [{"a_b": held, META: {"changes": changes}}]).apart


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("x", pa.string()),
        (7, pa.int64()),
        (7, pa.float64()),
        (7, pa.string()),
        (7.0, pa.string()),
        (7.0, pa.int64()),
        (0.5, pa.float64()),
        (True, pa.bool_()),
        (True, pa.string()),
        ("7", BIG_INTEGER),
        ({"b": [1]}, pa.string()),
        ({"b": "x"}, pa.struct({"b": pa.string(), "c": pa.int64()})),
        ({"b": "x", "left": "out"}, pa.struct({"b": pa.string()})),
        ([1, "no number"], pa.list_(pa.int64())),
        ("2024-01-02T05:00:00+05:00", TIMESTAMP_UTC),
        ("2024-01-02T00:00:00.123456789Z", TIMESTAMP_UTC),
        ("2024-01-02", pa.date32()),
        ("x", pa.int64()),
        (2**70, pa.int64()),
    ],
)
def test_a_row_is_the_same_whether_a_value_had_a_column_or_not(value: Json, kind: pa.DataType) -> None:
    columns = [KEY, column_of("a b", kind)]
    before = Table(columns, [{ADDITIONAL: json.dumps({"a b": value, "c": None})}])
    other = Table(columns, [{}])

    assert before.apart == in_column(value, kind) != other.apart


@pytest.mark.parametrize("number", ["9007199254740993.0", "1e-400"])
def test_every_digit_of_a_number_without_a_column_identifies_its_row(number: str) -> None:
    column = [KEY, column_of("a b", pa.string())]
    rows = [{ADDITIONAL: f'{{"a b":{text}}}'} for text in (number, repr(float(number)))]

    one, other = Table(column, rows).apart

    assert [one] == in_column(WrittenNumber(number), pa.string())
    assert one != other
    assert len(set(Table([KEY], rows).apart)) == 2


def test_rows_differ_by_a_field_whose_column_is_another_s_beside_one_of_the_same_name() -> None:
    rows = [{ADDITIONAL: '{"a b": 1}', "a_b": n} for n in (2, 2, 3, 1)]

    one, same, other, equal = Table([KEY, column_of("a_b", pa.int64())], rows).apart

    assert one == same
    assert len({one, other, equal}) == 3


def test_a_row_is_the_same_before_and_after_somebody_added_a_column_that_it_has_no_value_for() -> None:
    row = {ADDITIONAL: json.dumps({"a b": 7.0})}

    assert Table([KEY], [row]).apart == Table([KEY, ("c", pa.string())], [row]).apart


def test_what_others_have_put_where_fields_without_a_column_are_counts_as_it_is() -> None:
    columns = [KEY]

    one, same, other = (Table(columns, [{ADDITIONAL: text}]).apart for text in ("no JSON", "no JSON", "[1]"))

    assert one == same != other


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.decimal128(10, 2), pa.map_(pa.string(), pa.int64()), pa.list_(pa.binary())], ids=str
)
@pytest.mark.parametrize("value", [7, 10**24, "x", {"b": [1]}, [1]])
def test_a_field_keeps_its_value_beside_a_column_that_another_program_gave_a_type_of_its_own(
    value: Json, kind: pa.DataType
) -> None:
    rows = [{ADDITIONAL: json.dumps({"a b": each})} for each in (value, value, "other")]

    one, same, other = Table([KEY, column_of("a b", kind)], rows).apart

    assert one == same == Table([KEY], rows[:1]).apart[0] != other
