"""What identifies rows without a key, file by file."""

from typing import Any

import pyarrow as pa

from cdk.lake.arrow.columns import META, OWN_COLUMNS, RAW_ID
from cdk.lake.parquet.keyless_rows import NULL, separated_keys

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), *OWN_COLUMNS.items()])


def separated(rows: list[dict[str, Any]]) -> tuple[list[int | None], list[bytes | None]]:
    """The keys of a file's rows, and what identifies those without one."""
    table = pa.Table.from_pylist([{RAW_ID: f"{n:04}", **row} for n, row in enumerate(rows)], SCHEMA)

    def rest(names: Any, mask: pa.Array) -> pa.Table:
        return table.filter(mask).select(SCHEMA.names if names is None else names)

    nulls = table["id"].is_null().combine_chunks()
    (keys,), apart = separated_keys([table["id"]], nulls, [frozenset({"id"})], rest)
    return keys.to_pylist(), apart.to_pylist()


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
