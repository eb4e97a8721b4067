"""Records that are still text: what they are must be what decoding would have given."""

import json
import math
import pickle
import random

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdk.base.records.raw_json_lines import JsonLines, cut_out, field_values
from cdk.base.values import Json, Stored, from_json

ODD = b'{}[]",:\\u0d8.eE+-ntf\x00\x1f\n\xff\xc3 19'
"""What breaks JSON, or makes something else of it."""

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**25), 10**25) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
RECORDS = st.lists(st.dictionaries(st.sampled_from(["a", "b", "data"]), VALUES, max_size=3), max_size=4)


def of(*records: object) -> JsonLines:
    found = cut_out(orjson.dumps({"data": records}), ("data",))
    assert found is not None
    return found[0]


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """JSON with records at `data`, at times with up to two bytes that make something else of it."""
    value = {"x": draw(VALUES), "data": draw(RECORDS), "y": draw(VALUES)}
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : ")]))
    text = json.dumps(value, separators=separators, ensure_ascii=draw(st.booleans()))
    body = bytearray(text.encode(errors="surrogatepass"))
    chance = random.Random(draw(st.integers(0, 2**32)))
    for _ in range(chance.choice([0, 0, 1, 2])):
        at = chance.randrange(len(body))
        body[at : at + chance.choice([0, 1])] = bytes([chance.choice(ODD)])
    return bytes(body)


@given(bodies())
@example(b'{"x":{"data":[{}]},"data":[{}],"y":{"data":[{}]}}')
def test_what_is_cut_out_is_what_decoding_gives_whatever_the_body(body: bytes) -> None:
    found = cut_out(body, ("data",))

    if found is None:
        return
    lines, rest = found
    # Beyond what a float holds: JSON, and no decoder's value.
    whole = decoded(body)
    if whole is not None:
        assert len(lines) == len(whole["data"])
        assert list(lines) == whole["data"]
        left: Stored = from_json(rest)
        if left["data"] == []:
            assert left == {**whole, "data": []}


def decoded(body: bytes) -> Json:
    try:
        return from_json(body)
    except json.JSONDecodeError as error:
        if "infinity" in error.msg:
            return None
        raise


@pytest.mark.parametrize(
    "body",
    [
        b"no JSON",
        b"[]",
        b'{"data":null}',
        b'{"data":{"a":1}}',
        b'{"data":[]}',
        b'{"data":[1]}',
        b'{"data":[{"a":1},null]}',
        b'{"data":[{"a":1},[{"b":2}]]}',
        b'{"data":[{"a": 1,\n"b": 2}]}',
        b'{"data":[{"a": 1}]}',
        b'{"data":[{"a":1}, {"a":2}]}',
        b'{"data":[{"a":"\\ud800"}]}',
        b'{"data":[{"a":"\xff"}]}',
        b'{"other":[{"a":1}]}',
        b"[" * 5000,
    ],
)
def test_what_is_not_a_compact_list_of_objects_is_left_to_decoders(body: bytes) -> None:
    assert cut_out(body, ("data",)) is None


@pytest.mark.parametrize("body", [b'{"data":[{"a":1}],"x":{"a":1}}', b'{"data":[{"a":1}],"x":[1,{"a":1}]}'])
def test_a_text_that_stands_elsewhere_too_is_no_list_to_take_out(body: bytes) -> None:
    assert cut_out(body, ("data",)) is None


def test_records_are_found_at_any_depth_and_at_the_top() -> None:
    deep = cut_out(b'{"a":{"b":[{"id":1}],"next": 2}}', ("a", "b"))
    assert deep is not None
    assert (list(deep[0]), deep[1]) == ([{"id": 1}], b'{"a":{"b":[],"next": 2}}')
    top = cut_out(b'[{"id":1},{"id":2}]', ())
    assert top is not None
    assert (list(top[0]), top[1]) == ([{"id": 1}, {"id": 2}], b"[]")


def test_the_text_stays_until_a_record_is_looked_at() -> None:
    lines = of({"id": 1}, {"id": 2, "x": None})

    assert len(lines) == 2
    assert lines.values("id") == [1, 2]
    assert lines.values("x") == [None, None]
    assert lines.last() == {"id": 2, "x": None}
    assert lines.lines == b'{"id":1}\n{"id":2,"x":null}'

    assert lines[0] == {"id": 1}
    assert lines.lines is None


def test_what_is_changed_in_a_record_stays_changed() -> None:
    lines = of({"id": 1}, {"id": 2})
    for record in lines:
        record["id"] += 10  # type: ignore[index] # as transformations do

    assert lines[:] == [{"id": 11}, {"id": 12}]
    assert lines.values("id") == [11, 12]
    assert lines.last() == {"id": 12}
    assert lines.lines is None


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\n", "\ud800", ""])
def test_names_that_json_escapes_are_found_by_decoding(name: str) -> None:
    text = json.dumps({name: [{name: 1}]}, separators=(",", ":")).encode()

    found = cut_out(text, (name,))
    assert found is None or list(found[0]) == [{name: 1}]
    assert JsonLines(json.dumps({name: 1}).encode(), 1).values(name) == [1]


def test_they_compare_and_travel_as_a_list() -> None:
    assert of({"id": 1}) == [{"id": 1}]
    assert of({"id": 1}) != [{"id": 2}]
    assert pickle.loads(pickle.dumps(of({"id": 1}))) == [{"id": 1}]  # noqa: S301


def test_values_of_a_field_are_found_in_lists_and_in_text() -> None:
    assert field_values(of({"a": 1}, {"b": 2}), "a") == [1, None]
    assert field_values([{"a": 1}, {"b": 2}], "a") == [1, None]


def test_a_number_that_no_float_holds_is_kept_as_text_and_infinite_as_a_value() -> None:
    lines = JsonLines(b'{"a":1e999}', 1)

    assert lines.lines == b'{"a":1e999}'
    assert list(lines) == [{"a": math.inf}]
