"""Pages of records as lines."""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from http import HTTPStatus
from types import MappingProxyType
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk.base.errors import FatalError
from cdk.base.records.exact_json import WrittenNumber
from cdk.base.records.raw_json_lines import JsonLines
from cdk.base.values import Json, Record
from cdk.protocol.catalog import StreamDescriptor
from cdk.protocol.lines import message_line, record_lines
from cdk.protocol.messages import (
    AirbyteLogMessage,
    AirbyteMessage,
    AirbyteStateMessage,
    AirbyteStateType,
    AirbyteStreamState,
    Level,
    Type,
)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
RECORDS = st.dictionaries(st.text(), VALUES, max_size=4)


def data(lines: bytes) -> list[Json]:
    return [json.loads(line)["record"]["data"] for line in lines.splitlines()]


@given(st.text(), st.none() | st.text(), st.lists(RECORDS, max_size=6), st.integers(0, 2**53))
def test_each_record_becomes_one_line_that_reads_back(
    stream: str, namespace: str | None, records: list[Record], at: int
) -> None:
    lines = record_lines(stream, namespace, records, at).split(b"\n")

    assert lines.pop() == b""
    envelope = {"stream": stream, "emitted_at": at} | ({} if namespace is None else {"namespace": namespace})
    assert [json.loads(line) for line in lines] == [
        {"type": "RECORD", "record": {**envelope, "data": {k: v for k, v in record.items() if v is not None}}}
        for record in records
    ]


def test_text_that_looks_like_the_cut_between_records_is_left_alone() -> None:
    record = {"a": ",\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n,", "b": [",", "\n" * 16, ","]}

    assert data(record_lines("s", None, [record, record], 0)) == [record, record]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (float("nan"), None),
        (float("-inf"), None),
        (2**80, 2**80),
        (datetime(2024, 1, 2, tzinfo=UTC), "2024-01-02T00:00:00+00:00"),
        (date(2024, 1, 2), "2024-01-02"),
        (None, None),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.5"), 1.5),
        (Decimal("NaN"), None),
        (HTTPStatus.OK, 200),
        ((1, 2), [1, 2]),
        (MappingProxyType({"x": 1}), {"x": 1}),
        ("\ud800", "\ud800"),
    ],
)
@pytest.mark.parametrize("beside", [1, 2**70], ids=["fast", "slow"])
def test_values_json_has_no_word_for_are_written_alike_on_both_paths(value: Json, written: Json, beside: int) -> None:
    record = {"value": [value], "beside": beside}

    assert data(record_lines("s", None, [{"id": 1}, record, {"id": 2}], 0)) == [
        {"id": 1},
        {"value": [written], "beside": beside},
        {"id": 2},
    ]


def test_a_decimal_is_written_with_every_digit() -> None:
    exact = "1234567890123456789.01234567890123456789"

    assert f'"data":{{"price":{exact}}}'.encode() in record_lines("s", None, [{"price": Decimal(exact)}], 0)


def test_a_record_need_not_be_a_dict() -> None:
    record: Mapping[str, Json] = MappingProxyType({"id": 1})

    assert data(record_lines("s", None, [record], 0)) == [{"id": 1}]


@pytest.mark.parametrize("value", [{1, 2}, 1j, b"bytes", object()])
def test_a_value_json_cannot_hold_is_named_with_its_stream_and_field(value: Json) -> None:
    with pytest.raises(FatalError, match=r"field rows\[1\]\.x holds a \w+, which JSON cannot hold") as raised:
        record_lines("users", None, [{"id": 1}, {"rows": [{}, {"x": value}]}], 0)

    assert raised.value.stream == "users"


def test_a_record_of_too_many_levels_is_a_typed_error() -> None:
    deep: Json = 1
    for _ in range(50_000):
        deep = [deep]

    with pytest.raises(FatalError, match="nested more deeply"):
        record_lines("users", None, [{"deep": deep}], 0)


def test_a_message_with_half_a_surrogate_pair_is_still_a_line() -> None:
    message = AirbyteMessage(type=Type.LOG, log=AirbyteLogMessage(level=Level.INFO, message="\ud800"))

    assert json.loads(message_line(message)) == {"type": "LOG", "log": {"level": "INFO", "message": "\ud800"}}


STATES = VALUES | st.dictionaries(st.text(), VALUES, max_size=4)


def state_message(blob: Json, name: str = "users", namespace: str | None = None) -> AirbyteMessage:
    stream = AirbyteStreamState(stream_descriptor=StreamDescriptor(name=name, namespace=namespace), stream_state=blob)
    return AirbyteMessage(type=Type.STATE, state=AirbyteStateMessage(type=AirbyteStateType.STREAM, stream=stream))


@given(st.text(), st.none() | st.text(), STATES)
def test_a_state_is_written_whole_with_its_nulls(name: str, namespace: str | None, blob: Json) -> None:
    descriptor = {"name": name} | ({} if namespace is None else {"namespace": namespace})

    line = message_line(state_message(blob, name, namespace))

    assert line.endswith(b"\n")
    stream = {"stream_descriptor": descriptor} | ({} if blob is None else {"stream_state": blob})
    assert json.loads(line) == {"type": "STATE", "state": {"type": "STREAM", "stream": stream}}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("\ud800", r'"\ud800"'),
        (2**80, "1208925819614629174706176"),
        (float("nan"), "null"),
        ({1: 2}, '{"1":2}'),
        (date(2024, 1, 2), '"2024-01-02"'),
        (WrittenNumber("1.50"), "1.50"),
    ],
)
def test_a_state_with_values_that_are_rare_is_a_line_too(value: Json, written: str) -> None:
    assert f'"stream_state":{{"a":{written}}}'.encode() in message_line(state_message({"a": value})).replace(
        b": ", b":"
    )


def test_nulls_of_a_record_are_left_out_and_nulls_inside_stay() -> None:
    record = {"id": 1, "none": None, "deep": {"none": None}, "list": [None]}

    assert data(record_lines("s", None, [{"id": 0}, record, {"all": None}], 0)) == [
        {"id": 0},
        {"id": 1, "deep": {"none": None}, "list": [None]},
        {},
    ]
    assert record["none"] is None


def test_records_that_are_still_text_go_on_as_they_came() -> None:
    records = JsonLines(b'{"id":1,"price":1.50,"big":123456789012345678901234567890}\n{"id":2}', 2)

    lines = record_lines("s", "n", records, 7)

    assert lines == (
        b'{"type":"RECORD","record":{"namespace":"n","stream":"s","data":'
        b'{"id":1,"price":1.50,"big":123456789012345678901234567890},"emitted_at":7}}\n'
        b'{"type":"RECORD","record":{"namespace":"n","stream":"s","data":{"id":2},"emitted_at":7}}\n'
    )


def test_nulls_of_records_that_are_still_text_are_left_out() -> None:
    assert data(record_lines("s", None, JsonLines(b'{"id":1,"none":null}\n{"a":{"none":null}}', 2), 0)) == [
        {"id": 1},
        {"a": {"none": None}},
    ]
