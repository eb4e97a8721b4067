"""Records that are objects of one type: they must be what decoding would have given, as text and as objects."""

import pickle
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import example, given

from cdk.base.records.raw_json_lines import JsonLines
from cdk.base.records.typed_json_lines import RecordType, TypedJsonLines, cut_typed, joined
from cdk.base.values import from_json
from tests.base.records.test_raw_json_lines import bodies, decoded


class Two(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Two integers."""

    a: int | None = None
    b: int | None = None


class Anything(msgspec.Struct, gc=False):
    """Whatever an object holds."""

    a: Any = None


def cut(body: bytes, where: tuple[str, ...] = ("data",), kind: type[msgspec.Struct] = Two) -> TypedJsonLines | None:
    found = cut_typed(body, where, RecordType(kind))
    return None if found is None else found[0]


def of(record_type: RecordType, *records: object) -> TypedJsonLines:
    found = cut_typed(orjson.dumps({"data": records}), ("data",), record_type)
    assert found is not None
    return found[0]


@given(bodies())
@example(b'{"x":{"data":[{}]},"data":[{}],"y":{"data":[{}]}}')
@example(b'{"x":[{"data":[{"a":2}]}],"data":[{"a":1}],"y":[{"data":[{"a":2}]}]}')
def test_what_is_cut_out_is_what_decoding_gives_whatever_the_body(body: bytes) -> None:
    found = cut_typed(body, ("data",), RecordType(Anything))

    if found is None:
        return
    lines, rest = found
    whole = decoded(body)
    if whole is not None:
        assert len(lines) == len(whole["data"])
        assert [from_json(line) for line in (lines.lines or b"").split(b"\n")] == whole["data"]
        assert list(lines) == whole["data"]
        assert from_json(rest) == {**whole, "data": []}


@pytest.mark.parametrize(
    "body",
    [
        b"no JSON",
        b"[]",
        b'{"data":null}',
        b'{"data":[]}',
        b'{"data":[1]}',
        b'{"data":[{"a":1},null]}',
        b'{"data":[{"a": 1}]}',
        b'{"data":[{"a":1}],\n"x":1}',
        b'{"data":[{"a":"text"}]}',
        b'{"data":[{"a":1.0}]}',
        b'{"data":[{"c":1}]}',
        b'{"data":[{"a":1}',
        b'{"data":[{"a":1}]',
        b'{"data":[{"a":1}],"data":3}',
        b'{"data":[{"a":1}],"data":[{"a":2}]}',
        b'{"x":{"data":[{"a":1}]}}',
        b'{"x":"\\"data\\":[{\\"a\\":1}]"}',
        b'{"x":[{"data":[{"a":1}]}],"data":[{"a":2}]}',
        b'{"data":[{"a":1}],"x":[{"a":2}]}',
        b'{"data":[{"a":1}],"x":"\xff"}',
        b'{"data":[{"a":1}],"x":"\\ud800"}',
        b'{"data":[{"a":1}],"x":1e999,}',
        b"[" * 5000,
    ],
)
def test_what_is_in_doubt_is_left_to_others(body: bytes) -> None:
    assert cut(body) is None


def test_records_are_found_at_any_depth_and_at_the_top() -> None:
    deep = cut_typed(b'{"data":1,"a":{"data":[{"a":1}],"next":2}}', ("a", "data"), RecordType(Two))
    top = cut_typed(b'[{"a":1},{"b":2}]', (), RecordType(Two))

    assert deep is not None
    assert top is not None
    assert (list(deep[0]), deep[1]) == ([{"a": 1}], b'{"data":1,"a":{"data":[],"next":2}}')
    assert (list(top[0]), top[1]) == ([{"a": 1}, {"b": 2}], b"[]")


def test_nothing_is_cut_out_for_nobody() -> None:
    assert cut_typed(b'{"data":[{"a":1}]}', ("data",), None) is None


def test_the_objects_are_given_once_and_to_who_expects_them() -> None:
    record_type = RecordType(Two)
    records = of(record_type, {"a": 1}, {"b": 2})

    assert records.pop_objects(RecordType(Two)) is None
    assert records.pop_objects(record_type) == [Two(a=1), Two(b=2)]
    assert records.pop_objects(record_type) is None
    assert list(records) == [{"a": 1}, {"b": 2}]


def test_records_that_were_looked_at_are_objects_no_more() -> None:
    record_type = RecordType(Two)
    records = of(record_type, {"a": 1}, {"b": 2})

    assert records.values("a") == [1, None]
    assert records.last() == {"b": 2}
    assert records.lines == b'{"a":1}\n{"b":2}'
    assert records.text_size == len(b'[{"a":1},{"b":2}]')
    records[0]["a"] = 3  # type: ignore[index] # as transformations do

    assert records.pop_objects(record_type) is None
    assert (records.lines or records.text_size) is None
    assert records.values("a") == [3, None]
    assert pickle.loads(pickle.dumps(records)) == [{"a": 3}, {"b": 2}]  # noqa: S301


def test_pages_of_one_type_are_joined_as_objects() -> None:
    record_type = RecordType(Two)
    pages = [of(record_type, {"a": 1}), of(record_type, {"a": 2}, {"b": 3})]

    together = joined(pages)

    assert isinstance(together, TypedJsonLines)
    assert together.pop_objects(record_type) == [Two(a=1), Two(a=2), Two(b=3)]
    assert together.lines == b'{"a":1}\n{"a":2}\n{"b":3}'
    assert together == [{"a": 1}, {"a": 2}, {"b": 3}]
    assert joined(pages[:1]) is pages[0]


def test_pages_of_two_types_are_joined_as_text_unless_one_was_looked_at() -> None:
    one, other = of(RecordType(Two), {"a": 1}), of(RecordType(Two), {"a": 2}, {"b": 3})

    together = joined([one, other])
    assert isinstance(together, JsonLines)
    assert (together.lines, len(together)) == (b'{"a":1}\n{"a":2}\n{"b":3}', 3)

    list(other)
    assert joined([one, other]) == [{"a": 1}, {"a": 2}, {"b": 3}]


def test_after_three_pages_of_another_type_no_further_one_is_tried() -> None:
    record_type = RecordType(Two)
    for body in [b'{"data":[{"a":"x"}]}'] * 2 + [b'{"data":[{"a":1}]}'] + [b'{"data":[{"a":"x"}]}'] * 3:
        assert record_type.worth_cutting
        cut_typed(body, ("data",), record_type)

    assert cut_typed(b'{"data":[{"a":1}]}', ("data",), record_type) is None
    assert record_type.worth_reading


@pytest.mark.parametrize("body", [b'{"data":[]}', b'{"data": [{"a": 1}]}', b"{}"])
def test_pages_without_records_and_pages_with_blanks_are_no_reason_to_stop(body: bytes) -> None:
    record_type = RecordType(Two)
    for _ in range(5):
        assert cut_typed(body, ("data",), record_type) is None

    assert cut_typed(b'{"data":[{"a":1}]}', ("data",), record_type) is not None
