"""Nothing a source gives may stop a sync or vanish: it is in its column, or in the row's notes."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from http import HTTPStatus
from types import MappingProxyType
from uuid import UUID

import orjson
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk.base.errors import FatalError
from cdk.base.records.raw_json_lines import JsonLines, cut_out
from cdk.base.records.typed_json_lines import cut_typed
from cdk.base.times.clock import parse_timestamp
from cdk.base.values import Json, NotJson, Record
from cdk.lake.arrow.columns import ADDITIONAL, EXTRACTED_AT, GENERATION, META, RAW_ID, columns
from cdk.lake.arrow.record_batches import RecordBatchBuilder, RowIds
from cdk.protocol.lines import record_lines

NOW = datetime(2024, 5, 6, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
NAN, INFINITY = math.nan, math.inf
MOMENT = {"type": "string", "format": "date-time"}
SCHEMA: Json = {
    "properties": {
        "int": {"type": "integer"},
        "num": {"type": ["null", "number"]},
        "bool": {"type": "boolean"},
        "text": {"type": "string"},
        "at": MOMENT,
        "any": {},
        "ints": {"type": "array", "items": {"type": "integer"}},
        "moments": {"type": "array", "items": MOMENT},
        "lists": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
        "object": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "object", "properties": {"c": {"type": "string"}}}},
        },
        "objects": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "number"}}}},
        "_airbyte_meta": {"type": "object", "properties": {"a": {"type": "integer"}}},
        "INT": {"type": "string"},
    }
}
OTHERS: Sequence[Json] = [{}, {"properties": {"int": {"type": "string"}, "text": {"type": "number"}, "any": MOMENT}}]


def batch(records: Sequence[Record], schema: Json = SCHEMA) -> list[dict[str, Json]]:
    rows = RecordBatchBuilder(columns(schema), generation=7, clock=lambda: NOW, unique="u")
    result = rows.batch(records)
    result.validate(full=True)
    assert result.schema == rows.schema
    found: list[dict[str, Json]] = result.to_pylist()
    return found


def one(name: str, value: Json, schema: Json = SCHEMA) -> tuple[Json, list[dict[str, str]]]:
    """What a column holds for a value, and the notes."""
    (row,) = batch([{name: value}], schema)
    return row[name], row[META]["changes"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("int", 5),
        ("int", -(2**63)),
        ("int", 2**63 - 1),
        ("num", 1.5),
        ("num", 2**53),
        ("num", 1.7976931348623157e308),
        ("num", -INFINITY),
        ("bool", False),
        ("text", ""),
        ("text", "é\x00😀"),
        ("ints", []),
        ("ints", [1, None, 3]),
        ("lists", [[1.5], [], None]),
        ("object", {"a": 1, "b": {"c": "x"}}),
        ("objects", [{"a": 1.5}, None]),
    ],
)
def test_a_value_that_fits_is_in_its_column_without_a_note(name: str, value: Json) -> None:
    assert one(name, value) == (value, [])


@pytest.mark.parametrize(
    ("name", "value", "held"),
    [
        ("int", 5.0, 5),
        ("num", 5, 5.0),
        ("text", 5, "5"),
        ("text", True, "true"),
        ("text", {"a": [None]}, '{"a":[null]}'),
        ("text", 2**70, str(2**70)),
        ("any", "x", '"x"'),
        ("any", {"a": None}, '{"a":null}'),
        ("any", 2**70, str(2**70)),
        ("any", "\ud800", '"\\ud800"'),
        ("object", {"a": 1}, {"a": 1, "b": None}),
        ("object", {}, {"a": None, "b": None}),
    ],
)
def test_a_value_that_means_the_same_in_its_column_has_no_note(name: str, value: Json, held: Json) -> None:
    assert one(name, value) == (held, [])


@pytest.mark.parametrize(
    ("name", "value", "path", "reason", "original"),
    [
        ("int", 1.5, "int", "not an integer", "1.5"),
        ("int", 2**63, "int", "more than 64 bits", str(2**63)),
        ("int", 1e300, "int", "more than 64 bits", "1e+300"),
        ("int", NAN, "int", "not an integer", "NaN"),
        ("int", INFINITY, "int", "not an integer", "Infinity"),
        ("int", "5", "int", "not a number", "5"),
        ("int", True, "int", "not a number", "true"),
        ("num", True, "num", "not a number", "true"),
        ("num", 2**53 + 1, "num", "more digits than a double holds", str(2**53 + 1)),
        ("num", 10**400, "num", "beyond the range of a double", str(10**400)),
        ("bool", 1, "bool", "not a boolean", "1"),
        ("bool", "true", "bool", "not a boolean", "true"),
        ("at", "yesterday", "at", "not a date-time", "yesterday"),
        ("at", 1704067200, "at", "not a date-time", "1704067200"),
        ("at", "2016-12-31T23:59:60Z", "at", "not a date-time", "2016-12-31T23:59:60Z"),
        ("any", [1, NAN], "any", "NaN and infinity are not JSON", "[1,NaN]"),
        ("any", [2**70, INFINITY], "any", "NaN and infinity are not JSON", f"[{2**70},Infinity]"),
        ("ints", "abc", "ints", "not an array", "abc"),
        ("ints", 5, "ints", "not an array", "5"),
        ("ints", {"a": 1}, "ints", "not an array", '{"a":1}'),
        ("object", [], "object", "not an object", "[]"),
        ("object", "a", "object", "not an object", "a"),
    ],
)
def test_a_value_that_does_not_fit_becomes_null_and_is_noted(
    name: str, value: Json, path: str, reason: str, original: str
) -> None:
    note = {"field": path, "change": "NULLED", "reason": reason, "original": original}

    assert one(name, value) == (None, [note])


@pytest.mark.parametrize(
    ("name", "value", "held", "note"),
    [
        ("ints", [1, 1.5, 3], [1, None, 3], ("ints[1]", "NULLED", "not an integer", "1.5")),
        ("lists", [[1, "x"]], [[1, None]], ("lists[0][1]", "NULLED", "not a number", "x")),
        ("object", {"a": "x"}, {"a": None, "b": None}, ("object.a", "NULLED", "not a number", "x")),
        ("object", {"a": 1, "z": [2]}, {"a": 1, "b": None}, ("object.z", "LEFT_OUT", "not declared", "[2]")),
        ("object", {"A": 1}, {"a": None, "b": None}, ("object.A", "LEFT_OUT", "not declared", "1")),
        ("object", {"\ud800": 1}, {"a": None, "b": None}, ("object.\\ud800", "LEFT_OUT", "not declared", "1")),
        ("objects", [{"a": 1}, {"a": []}], [{"a": 1}, {"a": None}], ("objects[1].a", "NULLED", "not a number", "[]")),
        ("text", "a\ud800", "a\\ud800", ("text", "ESCAPED", "a lone surrogate", '"a\\ud800"')),
    ],
)
def test_only_the_part_that_does_not_fit_is_changed(
    name: str, value: Json, held: Json, note: tuple[str, str, str, str]
) -> None:
    assert one(name, value) == (held, [dict(zip(("field", "change", "reason", "original"), note, strict=True))])


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-01-02T03:04:05Z", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2024-01-02T03:04:05.123456Z", datetime(2024, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)),
        ("2024-01-02T03:04:05.123456000Z", datetime(2024, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)),
        ("2024-01-02T03:04:05+05:30", datetime(2024, 1, 1, 21, 34, 5, tzinfo=UTC)),
        ("2024-01-02 03:04", datetime(2024, 1, 2, 3, 4, tzinfo=UTC)),
        ("2024-01-02", datetime(2024, 1, 2, tzinfo=UTC)),
        ("1066-10-14T09:00:00Z", datetime(1066, 10, 14, 9, tzinfo=UTC)),
        ("9999-12-31T23:59:59.999999Z", datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
    ],
)
@pytest.mark.parametrize("beside", [None, "2024-01-01T00:00:00Z", "no moment"])
def test_a_date_time_is_the_same_moment_whatever_stands_beside_it(text: str, moment: datetime, beside: str) -> None:
    first, _ = batch([{"at": text}, {"at": beside}])

    assert (first["at"], first[META]["changes"]) == (moment, [])


def test_a_moment_finer_than_microseconds_is_cut_and_noted() -> None:
    text = "2024-01-02T03:04:05.123456789Z"

    held, notes = one("at", text)

    assert held == datetime(2024, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)
    assert notes == [{"field": "at", "change": "TRUNCATED", "reason": "finer than microseconds", "original": text}]


def test_a_value_keeps_its_type_beside_others_that_arrow_would_join_it_with() -> None:
    values = [1.5, True, 2**60 + 1, 1, None, NAN]

    rows = batch([{"num": value} for value in values])

    assert [row["num"] for row in rows[:5]] == [1.5, None, None, 1.0, None]
    assert math.isnan(rows[5]["num"])
    assert [[note["original"] for note in row[META]["changes"]] for row in rows] == [
        [],
        ["true"],
        [str(2**60 + 1)],
        [],
        [],
        [],
    ]


@pytest.mark.parametrize(
    ("record", "additional"),
    [
        ({}, None),
        ({"int": 1}, None),
        ({"x": None}, {"x": None}),
        ({"Int": 1, "TEXT": "a"}, {"Int": 1, "TEXT": "a"}),
        ({"int": 1, "INT": "5"}, {"INT": "5"}),
        ({META: {"a": 1}, RAW_ID: "mine", "_Airbyte_Meta": 2}, {META: {"a": 1}, RAW_ID: "mine", "_Airbyte_Meta": 2}),
        ({ADDITIONAL: {"x": 1}}, {ADDITIONAL: {"x": 1}}),
        ({"\ud800": "\udfff", "": 2**70}, {"\ud800": "\udfff", "": 2**70}),
    ],
)
def test_what_has_no_column_is_kept_as_json(record: Record, additional: Json) -> None:
    (row,) = batch([record])

    assert (None if row[ADDITIONAL] is None else json.loads(row[ADDITIONAL])) == additional
    assert row[RAW_ID] == "00000000u0000000000"


def test_what_is_no_json_is_left_out_of_the_rest_and_noted() -> None:
    (row,) = batch([{"x": 1, "y": [NAN], "z": None}])

    assert orjson.loads(row[ADDITIONAL]) == {"x": 1, "z": None}
    assert row[META]["changes"] == [
        {"field": "y", "change": "LEFT_OUT", "reason": "NaN and infinity are not JSON", "original": "[NaN]"}
    ]


def test_many_levels_are_kept() -> None:
    text = "[" * 500 + "]" * 500
    deep = orjson.loads(text)

    (row,) = batch([{"any": deep, "x": deep, "int": deep}])

    assert row["any"] == text
    assert row[ADDITIONAL] == f'{{"x":{text}}}'
    assert [note["original"] for note in row[META]["changes"]] == [text]


@pytest.mark.parametrize("name", ["any", "text", "int", "x"])
def test_a_value_that_json_does_not_know_is_refused_by_its_field_and_type(name: str) -> None:
    with pytest.raises(NotJson, match=rf"field '{name}' of the record {{.*'id': 7.*complex.*; yield a string"):
        batch([{}, {"id": 7, name: 1j}])


@pytest.mark.parametrize("name", [2, None, ("a",)])
def test_a_field_whose_name_is_no_text_is_refused_with_its_record(name: Json) -> None:
    with pytest.raises(FatalError, match=r"the record \{'id': 7, .*\} has a field named .*expected a string"):
        batch([{"id": 1}, {"id": 7, name: 1}])


def test_a_record_in_an_error_is_cut() -> None:
    with pytest.raises(NotJson) as refused:
        batch([{"x": "a" * 10_000, "y": {1}}])

    assert len(refused.value.message) < 250


@pytest.mark.parametrize("name", ["any", "text", "int", "x"])
def test_a_value_deeper_than_python_writes_is_refused_by_its_field(name: str) -> None:
    deep: Json = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(NotJson, match=f"field '{name}'.*nested more deeply"):
        batch([{name: deep}])


@pytest.mark.parametrize("record", [None, 5, "text", [1], ["int"], b"{}"])
def test_a_record_that_is_no_object_is_refused_by_its_place_and_type(record: Json) -> None:
    with pytest.raises(FatalError, match=f"record 2 of a page is of type {type(record).__name__}, expected a JSON"):
        batch([{"int": 1}, record])


def test_a_record_may_be_any_mapping() -> None:
    (row,) = batch([MappingProxyType({"int": 5})])

    assert row["int"] == 5


def test_a_key_that_comes_twice_has_its_last_value() -> None:
    (row,) = batch([orjson.loads('{"int": 1, "int": 2, "x": 1, "x": null}')])

    assert (row["int"], json.loads(row[ADDITIONAL])) == (2, {"x": None})


def test_texts_of_ten_megabytes_are_kept() -> None:
    long = "é" * 5_000_000

    (row,) = batch([{"text": long, "any": [long], "int": long, "x": long}])

    assert (row["text"], json.loads(row["any"]), json.loads(row[ADDITIONAL])) == (long, [long], {"x": long})
    assert [note["original"] for note in row[META]["changes"]] == [long]


TYPES = {
    "properties": {
        "day": {"type": "string", "format": "date"},
        "at": MOMENT,
        "local": {"type": "string", "format": "date-time", "airbyte_type": "timestamp_without_timezone"},
        "big": {"type": "integer", "airbyte_type": "big_integer"},
        "First Name": {"type": "string"},
    }
}


@pytest.mark.parametrize(
    ("name", "value", "held"),
    [
        ("day", "2024-01-02", date(2024, 1, 2)),
        ("local", "2024-01-02T03:04:05", datetime(2024, 1, 2, 3, 4, 5)),  # noqa: DTZ001 - it has no zone
        ("big", 2**100, Decimal(2**100)),
        ("big", 5.0, Decimal(5)),
        ("day", "0000-01-01", None),
        ("at", "0000-01-01T00:00:00Z", None),
        ("at", "0001-01-01T00:00:00+14:00", None),
        ("at", "9999-12-31T23:59:59-14:00", None),
        ("local", "0000-01-01T00:00:00", None),
        ("big", 10**38, None),
        ("big", "x", None),
    ],
)
@pytest.mark.parametrize("beside", [None, 5, "0001-01-01", "x", True])
def test_a_value_is_the_same_whatever_stands_beside_it(name: str, value: Json, held: Json, beside: Json) -> None:
    first, _ = batch([{name: value}, {name: beside}], TYPES)

    assert first[name] == held
    assert [note["original"] for note in first[META]["changes"]] == ([] if held is not None else [str(value)])


def test_a_field_whose_name_a_table_refuses_is_in_the_column_of_the_next_best_name() -> None:
    (row,) = batch([{"First Name": "Ada", "First_Name": "Eve", "": 1}], TYPES)

    assert row["First_Name"] == "Ada"
    assert json.loads(row[ADDITIONAL]) == {"First_Name": "Eve", "": 1}


def grown(records: Sequence[Record], room: int) -> tuple[RecordBatchBuilder, list[dict[str, Json]]]:
    rows = RecordBatchBuilder(columns(SCHEMA), generation=7, clock=lambda: NOW, unique="u", room=room)
    result = rows.batch(records)
    result.validate(full=True)
    assert result.schema == rows.schema
    return rows, result.to_pylist()


def test_undeclared_fields_get_columns_while_there_is_room() -> None:
    rows, (first, second) = grown([{"int": 1, "x": "a", "y": 5}, {"x": {"b": None}, "y": None, "z": True}], 2)

    assert tuple(rows.grown) == ("x", "y")
    assert [(row["x"], row["y"]) for row in (first, second)] == [("a", 5), ('{"b":null}', None)]
    assert [row[ADDITIONAL] for row in (first, second)] == [None, '{"z":true}']
    assert first["int"] == 1


def test_a_later_batch_has_the_columns_of_the_earlier_ones_and_more() -> None:
    rows, _ = grown([{"x": 1}], 5)

    first, second = rows.batch([{"y": 2}]), rows.batch([{"int": 1}])

    assert tuple(rows.grown) == ("x", "y")
    assert first.schema == second.schema == rows.schema
    assert rows.schema.names[-2:] == ["x", "y"]
    assert (first.to_pylist()[0]["x"], first.to_pylist()[0]["y"]) == (None, 2)


@pytest.mark.parametrize("name", ["INT", "Text", META.upper(), ADDITIONAL, "", "\ud800"])
def test_an_undeclared_field_whose_name_a_column_cannot_have_stays_with_the_rest(name: str) -> None:
    rows = RecordBatchBuilder(
        {name: kind for name, kind in columns(SCHEMA).items() if name != "INT"}, generation=7, room=5
    )

    (row,) = rows.batch([{name: 1}]).to_pylist()

    assert (rows.grown, json.loads(row[ADDITIONAL])) == ({}, {name: 1})


@pytest.mark.parametrize("as_text", [False, True])
def test_a_column_has_the_values_of_one_field_in_each_page(*, as_text: bool) -> None:
    rows, _ = grown([{"int": 1}], 9)
    pages: list[list[Record]] = [
        [{"First Name": "Ada", "a,b": 1, "e\nf": None}],
        [{"First Name": "Eve", "First_Name": "Bob", "a b": 5, "a,b": 6}],
        [{"First_Name": "Cid", "a,b": 0.5}, {"int": 2, "e\nf": True, "g h": 1, "g_h": 2}],
    ]
    made: list[dict[str, Json]] = []
    for page in pages:
        lines = JsonLines("\n".join(map(json.dumps, page)).encode(), len(page))
        made += rows.batch(lines if as_text else page).to_pylist()

    assert [(row["First_Name"], row["a_b"], row.get("e_f"), row.get("g_h")) for row in made] == [
        ("Ada", 1, None, None),
        ("Eve", 6, None, None),
        (None, 0.5, None, None),
        (None, None, True, 2),
    ]
    beside = [None, '{"First_Name":"Bob","a b":5}', '{"First_Name":"Cid"}', '{"g h":1}']
    assert [row[ADDITIONAL] for row in made] == beside
    assert rows.without_column == ("First_Name", "First Name")
    assert rows.grown["a,b"] == (pa.int64(), pa.float64())


@pytest.mark.parametrize(
    ("field", "owner"), [("a b", "a_b"), ("ID", "id"), ("_airbyte_META", "_airbyte_meta"), ("e f", None), ("", None)]
)
def test_a_field_without_a_column_is_noted_where_another_has_the_one_of_its_name(field: str, owner: str | None) -> None:
    rows = RecordBatchBuilder({"a_b": pa.int64(), "id": pa.string()}, generation=1)

    nulls = rows.batch([{field: None}])
    assert rows.without_column is None
    (row,) = rows.batch([{field: 1}]).to_pylist()

    assert len(nulls) == 1
    assert (row["a_b"], row["id"], json.loads(row[ADDITIONAL])) == (None, None, {field: 1})
    assert rows.without_column == (None if owner is None else (field, owner))


def test_of_two_spellings_of_an_undeclared_field_the_first_gets_the_column() -> None:
    rows, (row,) = grown([{"Xy": 1, "xY": 2}], 5)

    assert (tuple(rows.grown), row["Xy"], row[ADDITIONAL]) == (("Xy",), 1, '{"xY":2}')
    assert rows.without_column == ("xY", "Xy")


@pytest.mark.parametrize(
    ("pages", "kinds", "last"),
    [
        ([[1, None]], [pa.int64()], None),
        ([[2**63]], [pa.string()], "9223372036854775808"),
        ([[1], [0.5], [2]], [pa.int64(), pa.float64()], 2.0),
        ([[1], [2.0]], [pa.int64(), pa.float64()], 2.0),
        ([[0.5], [2**53 + 1]], [pa.float64(), pa.string()], "9007199254740993"),
        ([[0.5, 2**53 + 1]], [pa.string()], "9007199254740993"),
        ([[True], [1]], [pa.bool_(), pa.string()], "1"),
        ([["2024-01-01T00:00:00Z", "7"]], [pa.string()], "7"),
        ([[{"a": 1}], ["b"]], [pa.string()], "b"),
        ([[None], [None, 1], [None]], [pa.int64()], None),
        ([[None], [None]], [], None),
        ([[1], [{}], [0.5]], [pa.int64(), pa.string()], "0.5"),
        ([[Decimal("1.5"), Decimal(2)]], [pa.float64()], 2.0),
        ([[Decimal("0.12345678901234567890")]], [pa.string()], "0.12345678901234567890"),
    ],
)
@pytest.mark.parametrize("as_text", [False, True])
def test_the_column_of_an_undeclared_field_has_the_type_of_its_values(
    pages: Sequence[Sequence[Json]], kinds: Sequence[pa.DataType], last: Json, *, as_text: bool
) -> None:
    if as_text and any(isinstance(value, Decimal) for page in pages for value in page):
        as_text = False
    rows = RecordBatchBuilder({"id": pa.int64()}, generation=1, room=3)
    made, row = rows.batch([]), dict[str, Json]()
    for page in pages:
        records: Sequence[Record] = [{"id": n, "x": value} for n, value in enumerate(page)]
        if as_text:
            records = JsonLines("\n".join(map(json.dumps, records)).encode(), len(records))
        made = rows.batch(records)
        *_, row = made.to_pylist()
        assert row[META]["changes"] == []
        assert row[ADDITIONAL] is None

    assert row.get("x") == last
    assert rows.grown == ({"x": tuple(kinds)} if kinds else {})
    assert made.schema == rows.schema


def test_only_columns_that_follow_their_values_become_wider() -> None:
    rows = RecordBatchBuilder({"id": pa.int64(), "x": pa.int64()}, generation=1, room=3, follows={"x"})

    (row,) = rows.batch([{"id": "a", "x": "b"}]).to_pylist()

    assert (row["id"], row["x"], rows.grown) == (None, "b", {"x": (pa.int64(), pa.string())})
    assert [note["original"] for note in row[META]["changes"]] == ["a"]


def test_where_no_column_may_become_wider_undeclared_fields_get_text_columns() -> None:
    rows = RecordBatchBuilder({"id": pa.int64()}, generation=1, room=3, infers=False)

    (row,) = rows.batch([{"id": 1, "x": 5}]).to_pylist()

    assert (row["x"], rows.grown) == ("5", {"x": (pa.string(),)})


def test_a_null_that_has_no_column_is_no_value_and_a_field_that_cannot_have_one_stays_with_the_rest() -> None:
    rows = RecordBatchBuilder({"id": pa.int64()}, generation=1, room=1)

    (first,) = rows.batch([{"id": 1, "x": None}]).to_pylist()
    (second,) = rows.batch([{"id": 2, "x": 1, "y": None}]).to_pylist()
    (third,) = rows.batch([{"id": 3, "x": 1, "y": 2}]).to_pylist()

    assert (first[ADDITIONAL], "x" in first) == (None, False)
    assert (second["x"], second[ADDITIONAL]) == (1, '{"y":null}')
    assert (third["x"], third[ADDITIONAL]) == (1, '{"y":2}')


def test_a_field_that_was_null_stays_with_the_rest_when_another_spelling_of_it_has_the_column() -> None:
    rows = RecordBatchBuilder({"id": pa.int64()}, generation=1, room=3)

    rows.batch([{"id": 1, "xy": None, "xY": None}])
    rows.batch([{"id": 2, "xY": 1}])
    (row,) = rows.batch([{"id": 3, "xy": 2}]).to_pylist()

    assert (row["xY"], row[ADDITIONAL]) == (None, '{"xy":2}')


def test_a_text_column_of_an_undeclared_field_notes_what_no_text_holds() -> None:
    _, (row, _) = grown([{"x": NAN, "y": "a\ud800"}, {"x": "a"}], 5)

    assert (row["x"], row["y"]) == ("NaN", "a\\ud800")
    assert [note["change"] for note in row[META]["changes"]] == ["ESCAPED"]


WRITTEN = ["0.5", "1234.567890123456789012", "12345678901234567.89", "9007199254740993.0", "1E400", "-1e999"]
STORED = [*WRITTEN[:3], "9007199254740993", *WRITTEN[4:]]


def columns_of(kind: Json, numbers: Sequence[str]) -> tuple[list[Json], list[str]]:
    """The column of numbers, each a page, read as text, and the originals that are noted."""
    schema = {} if kind is None else {"properties": {"x": kind}}
    builder = RecordBatchBuilder(columns(schema), generation=0, room=5)
    values, originals = [], []
    for number in numbers:
        body = b'[{"x":%s}]' % number.encode()
        found = cut_typed(body, (), builder.record_type) or cut_out(body, ())
        assert found is not None
        for row in builder.batch(found[0]).to_pylist():
            values.append(row["x"])
            originals += [change["original"] for change in row[META]["changes"]]
    return values, originals


@pytest.mark.parametrize("number", WRITTEN[1:])
def test_an_undeclared_number_is_text_where_a_double_would_lose_digits(number: str) -> None:
    stored = dict(zip(WRITTEN, STORED, strict=True))[number]
    assert columns_of(None, [number]) == ([stored], [])
    assert columns_of(None, ["0.5", "0.25", number, "1.5"]) == ([0.5, 0.25, stored, "1.5"], [])


def test_a_text_column_has_the_digits_of_numbers_as_they_were_written_and_one_spelling_of_integers() -> None:
    assert columns_of({"type": "string"}, WRITTEN) == (STORED, [])
    assert columns_of({"type": "string"}, ["5.0", "50e-1", "-0.0", "1e37", "1e38"]) == (
        ["5", "5", "0", f"{10**37}", "1e+38"],
        [],
    )
    objects = [f'{{"a":[{number}]}}' for number in WRITTEN]
    assert columns_of({"type": "string"}, objects) == (objects, [])


def test_a_declared_number_is_the_nearest_double_and_noted_where_it_is_beyond_all_of_them() -> None:
    assert columns_of({"type": "number"}, WRITTEN) == (
        [0.5, 1234.567890123457, 12345678901234567.89, None, None, None],
        STORED[3:],
    )


def test_every_row_says_when_it_was_read_in_which_generation_and_has_an_id_of_its_own() -> None:
    rows = RecordBatchBuilder(columns(SCHEMA), generation=3, clock=lambda: NOW)
    other = RecordBatchBuilder(columns(SCHEMA), generation=3, clock=lambda: NOW)
    batches = [rows.batch([{}] * 3), rows.batch([]), rows.batch([{}] * 2), other.batch([{}] * 2)]
    found = pa.Table.from_batches(batches).to_pylist()

    assert {(row[EXTRACTED_AT], row[GENERATION]) for row in found} == {(NOW, 3)}
    assert len({row[RAW_ID] for row in found}) == 7


class Suit(StrEnum):
    """A value that has a name."""

    HEARTS = "h"


INDIA = timezone(timedelta(hours=5, minutes=30))
# Python shows no moment before its year 1 or after its year 9999, whatever the zone.
FIRST, LAST = datetime.min + DAY, datetime.max - DAY  # noqa: DTZ901 - the zone is drawn below
MOMENTS = st.datetimes(FIRST, LAST, timezones=st.sampled_from([UTC, INDIA]))
TEXTS = st.one_of(
    st.text(st.characters(), max_size=6),
    st.sampled_from(["", "5", "1.5", "true", "null", "\ud800", "a\udfffb", "NaN", "2024-01-01T00:00:00.123456789Z"]),
    MOMENTS.map(datetime.isoformat),
    MOMENTS.map(lambda moment: moment.strftime("%Y-%m-%d")),
)
NUMBERS = st.one_of(
    st.integers(),
    st.sampled_from([2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**400, 1.0, 1.5, 1e308]),
    st.floats(),
)
NAMES = st.sampled_from([*SCHEMA["properties"], "a", "b", "c", "Int", "TEXT", "x", "", "\ud800", "x.y", ADDITIONAL])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
RECORDS = st.lists(st.dictionaries(NAMES, VALUES, max_size=8), max_size=4)


ALL = {"properties": {**SCHEMA["properties"], **TYPES["properties"]}}
OF_PYTHON = st.recursive(
    st.one_of(
        st.none(),
        MOMENTS,
        MOMENTS.map(lambda moment: moment.replace(tzinfo=None)),
        MOMENTS.map(datetime.date),
        MOMENTS.map(datetime.time),
        st.uuids(),
        st.sampled_from([HTTPStatus.OK, Suit.HEARTS]),
        st.integers().map(Decimal),
        st.floats(-1e6, 1e6).map(repr).filter(lambda text: "e" not in text).map(Decimal),
        TEXTS,
        st.integers(),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(NAMES, inner, max_size=3),
        st.dictionaries(NAMES, inner, max_size=3).map(MappingProxyType),
        st.fixed_dictionaries({"a": inner, "b": st.fixed_dictionaries({"c": inner})}),
    ),
    max_leaves=8,
)
NAMES_OF_ALL = st.sampled_from([*ALL["properties"], "x", "y"])


@given(st.lists(st.dictionaries(NAMES_OF_ALL, OF_PYTHON, max_size=8), min_size=1, max_size=4), st.integers(0, 1))
def test_a_value_of_python_is_in_the_table_as_read_writes_it(records: list[dict[str, Json]], room: int) -> None:
    # `read` leaves these out; a null is met no other than as a column's.
    records = [{name: value for name, value in record.items() if value is not None} for record in records]
    read = [json.loads(line)["record"]["data"] for line in record_lines("s", None, records, 0).splitlines()]

    found, expected = (
        RecordBatchBuilder(columns(ALL), generation=7, clock=lambda: NOW, unique="u", room=room)
        .batch(given)
        .to_pylist()
        for given in (records, read)
    )

    assert found == expected


@pytest.mark.parametrize(
    ("name", "value", "held"),
    [
        ("at", datetime(2024, 1, 2, 3, tzinfo=timezone(HOUR)), datetime(2024, 1, 2, 2, tzinfo=UTC)),
        ("at", date(2024, 1, 2), datetime(2024, 1, 2, tzinfo=UTC)),
        ("day", date(2024, 1, 2), date(2024, 1, 2)),
        ("text", datetime(2024, 1, 2, tzinfo=UTC), "2024-01-02T00:00:00+00:00"),
        ("text", UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ("any", UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        ("any", {"at": date(2024, 1, 2), "n": None}, '{"at":"2024-01-02","n":null}'),
        ("text", Decimal("1234567890123456789.10"), "1234567890123456789.10"),
        ("any", [Decimal("1234567890123456789.10"), 2**70], f"[1234567890123456789.10,{2**70}]"),
        ("num", Decimal("1.1"), 1.1),
        ("int", Decimal(5), 5),
        ("big", Decimal(2**100), Decimal(2**100)),
        ("object", MappingProxyType({"a": Decimal(1)}), {"a": 1, "b": None}),
        ("object", {"b": {"c": UUID(int=1)}}, {"a": None, "b": {"c": "00000000-0000-0000-0000-000000000001"}}),
    ],
)
def test_a_value_of_python_fits_a_column_that_can_hold_it(name: str, value: Json, held: Json) -> None:
    (row,) = batch([{name: value}], ALL)

    assert (row[name], row[META]["changes"]) == (held, [])


@given(RECORDS, st.sampled_from([SCHEMA, *OTHERS]))
@settings(max_examples=150, deadline=None)
@example([{"object": {"b": {"c": "\ud800", "\ud800": NAN}, "z": NAN}}], SCHEMA)
@example([{"object": {"a": None, "b": None}}, {"object": {}}], SCHEMA)
@example([{"text": NAN}, {"text": [INFINITY, {"a": NAN}]}], SCHEMA)
@example([{"int": 4.437638032165218e16}], SCHEMA)
def test_nothing_vanishes_and_nothing_raises(records: list[dict[str, Json]], schema: Json) -> None:
    rows = batch(records, schema)

    assert len(rows) == len(records)
    declared = columns(schema)
    for record, row in zip(records, rows, strict=True):
        notes = {note["field"]: note for note in row[META]["changes"]}
        additional = {} if row[ADDITIONAL] is None else json.loads(row[ADDITIONAL])
        for name, value in record.items():
            if name not in declared:
                assert same(additional[name], value) if name in additional else noted(notes, name, value)
            elif declared[name] == columns({"properties": {"x": {}}})["x"]:
                assert held_as_json(row[name], value) or noted(notes, name, value)
            else:
                assert list(lost(row[name], value, name, notes)) == []


def lost(held: Json, value: Json, path: str, notes: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """The places below `path` whose value is neither held nor noted."""
    if noted(notes, path, value) or value is None:
        return
    if isinstance(held, dict) and isinstance(value, dict):
        for name, inner in value.items():
            yield from lost(held.get(name), inner, f"{path}.{printable(name)}", notes)
    elif isinstance(held, list) and isinstance(value, list) and len(held) == len(value):
        for i, inner in enumerate(value):
            yield from lost(held[i], inner, f"{path}[{i}]", notes)
    elif isinstance(held, datetime):
        if held != parse_timestamp(value, ()):
            yield path
    elif not same(held, value) and not same(held, finite(value)) and not held_as_json(held, finite(value)):
        yield path


def finite(value: Json) -> Json:
    """A value as a text column has it: JSON, in which what is no number of JSON is a text."""
    match value:
        case dict():
            return {name: finite(inner) for name, inner in value.items()}
        case list():
            return [finite(inner) for inner in value]
        case float() if not math.isfinite(value):
            return json.dumps(value)
        case _:
            return value


def noted(notes: Mapping[str, Mapping[str, str]], path: str, value: Json) -> bool:
    note = notes.get(printable(path))
    if note is None:
        return False
    return note["original"] == value or same(json.loads(note["original"]), value)


def held_as_json(held: Json, value: Json) -> bool:
    return value is None or (isinstance(held, str) and is_json(held) and same(json.loads(held), value))


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def same(held: Json, value: Json) -> bool:
    """Whether two values are the same JSON: 1 and 1.0 are, 1 and true are not, NaN is itself."""
    match held, value:
        case dict(), dict():
            return held.keys() == value.keys() and all(same(held[name], value[name]) for name in held)
        case list(), list():
            return len(held) == len(value) and all(map(same, held, value))
        case (bool(), _) | (_, bool()):
            return held is value
        case float(), float() if math.isnan(value):
            return math.isnan(held)
        case ((int() | Decimal()), float()) if math.isfinite(value):
            # The double 4.437638032165218e+16 is 4 more than its digits say, which are those that the source sends.
            return bool(held == Decimal(repr(value)))
        case _:
            return bool(held == value)


def printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


@pytest.mark.parametrize("sizes", [[1], [3, 2], [999, 1, 1], [1000, 1000], [998, 2004, 0, 7], [0, 5]])
def test_ids_count_over_all_batches(sizes: list[int]) -> None:
    ids = RowIds("u")

    batches = [ids.next_ids([(3, size)]) for size in sizes]

    assert [len(batch) for batch in batches] == sizes
    assert all(batch.type == pa.string() for batch in batches)
    assert pa.concat_arrays(batches).to_pylist() == [f"00000003u{number:010}" for number in range(sum(sizes))]


def test_ids_of_two_writers_differ() -> None:
    assert RowIds().next_ids([(0, 1)]) != RowIds().next_ids([(0, 1)])


def test_ids_are_ordered_by_slice_and_then_by_row_whoever_wrote_them() -> None:
    one, other = RowIds("z"), RowIds("a")
    later = one.next_ids([(7, 150), (2, 3)]).to_pylist()
    first = other.next_ids([(0, 0), (1, 2), (5, 1)]).to_pylist()

    assert sorted([*later, *first]) == [*first[:2], *later[150:], first[2], *later[:150]]


def test_ids_keep_their_order_and_length_however_many_slices_a_sync_hands_out() -> None:
    numbers = [0, 9, 10, 99, 10**6, 10**8 - 1, 10**8, 2**32 - 1]
    ids = RowIds("u").next_ids([(number, 1) for number in numbers]).to_pylist()

    assert sorted(ids) == ids
    assert {len(id) for id in ids} == {19}
