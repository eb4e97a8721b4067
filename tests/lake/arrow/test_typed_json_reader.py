"""Columns from text must be the columns that decoding gives, or none at all."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdk.base.records.raw_json_lines import JsonLines, cut_out
from cdk.base.records.typed_json_lines import cut_typed
from cdk.base.values import Json, Stored, from_json
from cdk.lake.arrow.columns import JSON_TEXT, ColumnType, columns
from cdk.lake.arrow.record_batches import RecordBatchBuilder
from cdk.lake.arrow.typed_json_reader import TypedJsonReader

NOW = datetime(2024, 5, 6, tzinfo=UTC)
BIG = {"type": "integer", "airbyte_type": "big_integer"}
DATE_TIME = {"type": "string", "format": "date-time"}
SCHEMA: Json = {
    "properties": {
        "int": {"type": "integer"},
        "num": {"type": "number"},
        "bool": {"type": "boolean"},
        "text": {"type": "string"},
        "at": DATE_TIME,
        "local": {**DATE_TIME, "airbyte_type": "timestamp_without_timezone"},
        "day": {"type": "string", "format": "date"},
        "any": {},
        "free": {"type": "object"},
        "ints": {"type": "array", "items": {"type": "integer"}},
        "texts": {"type": "array", "items": {"type": "string"}},
        "object": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "object", "properties": {"c": {"type": "string"}}}},
        },
        "a b": {"type": "string"},
        "nums": {"type": "array", "items": {"type": "number"}},
        "objects": {
            "type": "array",
            "items": {"type": "object", "properties": {"at": DATE_TIME, "n": {"type": "array", "items": DATE_TIME}}},
        },
    }
}
COLUMNS = columns(SCHEMA)

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        ["", "2024-01-01", "2024-01-01T00:00:00Z", "0000-01-01", "2024-01-01T00:00:00.1234567+05:30", "é\0"]
    ),
    st.just([1, 2]),
    st.just(["a", None]),
    st.just({"a": 1}),
    st.just({"b": {"c": "x", "d": 1}}),
)
FITTING: Mapping[str, st.SearchStrategy[Json]] = {
    "int": st.integers(-(2**63), 2**63 - 1),
    "num": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**54), 2**54),
    "bool": st.booleans(),
    "text": st.text(max_size=4),
    "at": st.sampled_from(["2024-01-01T00:00:00Z", "2024-01-01 10:00:00.5+02:00", "1969-12-31T23:59:59Z"]),
    "local": st.sampled_from(["2024-01-01T00:00:00", "2024-01-01T00:00:00.25"]),
    "day": st.sampled_from(["2024-02-29", "0001-01-01"]),
    "any": ODD,
    "free": st.just({"x": {"y": [1.5, None]}}) | st.just({}),
    "ints": st.lists(st.integers(-9, 9) | st.none(), max_size=2),
    "texts": st.lists(st.text(max_size=2), max_size=2),
    "object": st.fixed_dictionaries({}, optional={"a": st.integers(0, 9), "b": st.just({"c": "x"}) | st.just({})}),
    "a b": st.text(max_size=2),
    "nums": st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 2**54) | st.none(), max_size=2),
    "objects": st.lists(
        st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "at": st.just("2024-01-01T00:00:00Z") | st.none(),
                "n": st.lists(st.sampled_from(["2024-01-01T00:00:00Z", None]), max_size=2),
            },
        ),
        max_size=2,
    ),
}
RECORD = st.fixed_dictionaries({}, optional={name: kind | st.none() for name, kind in FITTING.items()})
PAGE = st.lists(RECORD, min_size=1, max_size=4)


def batch(records: Sequence[Mapping[str, Json]]) -> list[dict[str, Json]]:
    return rows_of(RecordBatchBuilder(COLUMNS, generation=7, clock=lambda: NOW, unique="u").batch(records))


def expected_batch(records: Sequence[Mapping[str, Json]]) -> list[dict[str, Json]]:
    """The rows of records that were cut out as what they are expected to be, or as text."""
    rows, body = RecordBatchBuilder(COLUMNS, generation=7, clock=lambda: NOW, unique="u"), body_of(records)
    found = cut_typed(body, ("data",), rows.record_type) or cut_out(body, ("data",))
    assert found is not None
    return rows_of(rows.batch(found[0]))


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Json]]:
    batch.validate(full=True)
    return [valued(row) for row in batch.to_pylist()]


def valued(row: dict[str, Json]) -> dict[str, Json]:
    """A row whose JSON text is decoded: the source's spelling may stay."""
    texts = [name for name, kind in COLUMNS.items() if kind is JSON_TEXT and row[name] is not None]
    return {**row, **{name: json.loads(row[name]) for name in texts}}


def cut(records: Sequence[Mapping[str, Json]]) -> JsonLines:
    found = cut_out(body_of(records), ("data",))
    assert found is not None
    return found[0]


def body_of(records: Sequence[Mapping[str, Json]]) -> bytes:
    return json.dumps({"data": records}, ensure_ascii=False, separators=(",", ":")).encode()


@given(PAGE)
@example([{"num": 2**53 + 1}])
@example([{"int": 1, "any": [1, {"a": None}]}, {"any": "text"}])
def test_values_that_fit_are_the_same_as_decoded_ones(records: list[dict[str, Json]]) -> None:
    assert batch(cut(records)) == batch(records)
    assert expected_batch(records) == batch(records)


@given(PAGE, st.sampled_from([*FITTING, "other"]), ODD, st.data())
def test_a_value_that_does_not_fit_is_the_same_as_a_decoded_one(
    records: list[dict[str, Json]], name: str, value: Json, data: st.DataObject
) -> None:
    data.draw(st.sampled_from(records))[name] = value
    plain: Stored = from_json(json.dumps(records))

    assert batch(cut(records)) == batch(plain)
    assert expected_batch(records) == batch(plain)


def of(text: str, kinds: Mapping[str, ColumnType] = COLUMNS) -> Mapping[str, pa.Array] | None:
    return TypedJsonReader(kinds).of(JsonLines(text.encode(), text.count("\n") + 1))


def test_good_records_are_not_decoded() -> None:
    lines = cut([{"int": 1, "text": "a", "any": {"x": 1.50}, "at": "2024-01-01T00:00:00Z"}, {"int": None}])

    batch(lines)

    assert lines.lines is not None


def test_json_text_is_spelled_as_the_source_spells_it() -> None:
    found = of('{"any":{"x":1.50,"big":123456789012345678901234567890}}\n{"any":null}\n{}')

    assert found is not None
    assert found["any"].to_pylist() == ['{"x":1.50,"big":123456789012345678901234567890}', None, None]


@pytest.mark.parametrize(
    "text",
    [
        '{"int":1.0}',
        '{"int":9223372036854775808}',
        '{"num":9007199254740993}',
        '{"num":1e999}',
        '{"bool":1}',
        '{"text":1}',
        '{"other":1}',
        '{"other":null}',
        '{"object":{"z":1}}',
        '{"object":{"b":{"z":null}}}',
        '{"at":"soon"}',
        '{"at":"0000-01-01T00:00:00Z"}',
    ],
)
def test_what_is_in_doubt_is_decoded(text: str) -> None:
    assert of(text) is None


@pytest.mark.parametrize("schema", [BIG, {"type": "array", "items": BIG}, {"type": "object", "properties": {"a": BIG}}])
def test_columns_that_text_cannot_fill_are_decoded(schema: Json) -> None:
    assert of('{"x":null}', columns({"properties": {"x": schema}})) is None


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\n", "x y"])
def test_a_column_may_have_any_name(name: str) -> None:
    records: list[dict[str, Json]] = [{name: {"a": 1}}, {name: None}]
    rows = RecordBatchBuilder(columns({"properties": {name: {}}}), generation=1)

    assert rows.batch(cut(records)).column(0).to_pylist() == ['{"a":1}', None]


def test_a_page_of_any_size_becomes_columns_piece_by_piece() -> None:
    records: list[dict[str, Json]] = [{"int": n, "text": "x" * 100_000, "any": {"n": n}} for n in range(40)]
    lines = cut(records)

    assert batch(lines) == batch(records)
    assert lines.lines is not None


def test_expected_records_are_not_decoded() -> None:
    rows = RecordBatchBuilder(COLUMNS, generation=7, clock=lambda: NOW, unique="u")
    found = cut_typed(body_of([{"int": 1, "any": {"x": 1}}, {"int": None}]), ("data",), rows.record_type)
    assert found is not None

    rows.batch(found[0])

    assert found[0].text_size is not None


def test_of_a_name_that_comes_twice_the_last_value_counts() -> None:
    found = of('{"int":1,"int":2}')

    assert found is not None
    assert found["int"].to_pylist() == [2]


def test_a_source_whose_pages_never_fit_is_not_tried_for_ever() -> None:
    straight = TypedJsonReader(COLUMNS)
    for _ in range(3):
        assert straight.of(JsonLines(b'{"int":"1"}', 1)) is None

    assert straight.of(JsonLines(b'{"int":1}', 1)) is None
