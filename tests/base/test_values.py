"""The text of a value keeps all of it, and the canonical text is its identity."""

import copy
import json
import random
from codecs import BOM_UTF8
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdk.base.errors import FatalError
from cdk.base.values import (
    Json,
    Location,
    SerializedJson,
    canonical,
    dotted,
    from_json,
    map_strings,
    referenced,
    to_json,
    walk,
)

OBJECTS = st.dictionaries(st.text(max_size=3), st.integers(-9, 9) | st.dictionaries(st.text(max_size=2), st.booleans()))
WHOLE = st.integers() | st.integers(-(10**40), 10**40) | st.sampled_from([2**63, 2**64 - 1, 2**64, -(2**63) - 1])
VALUES = st.recursive(
    st.none() | st.booleans() | WHOLE | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
BREAKING = b'{}[]",:\\u0d8.eE+-ntf\x00\x1f\n\xff\xc3 19'


class Serialized(SerializedJson):
    def json_text(self) -> bytes:
        return b'{"c":1}'


def nested(levels: int) -> Json:
    value: Json = 1
    for _ in range(levels):
        value = {"a": value}
    return value


@given(OBJECTS)
def test_equal_values_have_equal_texts_whatever_their_order(value: dict[str, object]) -> None:
    assert canonical(dict(reversed(value.items()))) == canonical(value)


@given(VALUES, st.booleans(), st.booleans())
@example({"big": 12345678901234567890123, "at": [2**64, -(2**64)]}, True, False)
def test_a_value_comes_back_from_its_text_with_every_digit(value: Json, sort: Json, indent: Json) -> None:
    text = to_json(value, sort=sort, indent=indent)

    assert repr(from_json(text)) == repr(json.loads(text))
    assert from_json(text) == value


@given(VALUES, st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " : ")]), st.integers(0, 2**32))
def test_a_text_stands_for_what_the_standard_library_says(value: Json, separators: tuple[str, str], seed: int) -> None:
    body = bytearray(json.dumps(value, separators=separators, ensure_ascii=False).encode(errors="surrogatepass"))
    chance = random.Random(seed)
    for _ in range(chance.choice([0, 1, 2])):
        at = chance.randrange(len(body))
        body[at : at + chance.choice([0, 1])] = bytes([chance.choice(BREAKING)])

    try:
        found = from_json(bytes(body))
    except json.JSONDecodeError:
        with pytest.raises((ValueError, RecursionError)):
            standard(bytes(body))
    else:
        assert repr(found) == repr(json.loads(bytes(body)))


def standard(body: bytes) -> Json:
    """What the standard library reads, and other decoders could write again. Raises ValueError, RecursionError."""
    # Of bytes with a NUL it would take UTF-16, which no decoder of responses reads.
    value = json.loads(body.decode("utf-8-sig"), parse_constant=int)
    json.dumps(value, allow_nan=False)
    return value


HALVES = [r"\ud83d", r"\uDE00", r"\ud83d\ude00", r"\\ud83d", r"\ude00\ud83d", r"\\\ud83d", r"\n", "x", "é", r"\""]


@given(
    st.lists(st.sampled_from(HALVES), max_size=4), st.lists(st.sampled_from(HALVES), max_size=3), st.booleans(), WHOLE
)
@example(["x", r"\ud83d"], [], False, 1)
def test_half_a_character_is_read_as_the_standard_library_does(
    value: list[str], name: list[str], mark: Json, beside: int
) -> None:
    text = f'{{"{"".join(name)}":["{"".join(value)}",{beside}]}}'.encode()

    assert from_json(BOM_UTF8 * mark + text) == json.loads(text)
    if not mark:
        assert from_json(text.decode()) == json.loads(text)


@pytest.mark.parametrize("wrong", ["NaN", "1e999", "9" * 5000, "[" * 100_000 + "]" * 100_000, "", "1,", "\t\x00"])
def test_half_a_character_hides_nothing_else_that_is_no_json(wrong: str) -> None:
    with pytest.raises(json.JSONDecodeError) as refused:
        from_json(f'["\\ud83d",{wrong}]'.encode())

    assert "surrogate" not in refused.value.msg


@pytest.mark.parametrize("beside", [1, 2**64], ids=["fast", "slow"])
def test_a_text_of_a_large_number_is_that_of_a_small_one_otherwise(beside: int) -> None:
    value: Json = {"b": beside, "a": ["é", datetime(2024, 1, 2, tzinfo=UTC)]}

    assert to_json(value) == f'{{"b":{beside},"a":["é","2024-01-02T00:00:00+00:00"]}}'.encode()
    assert canonical(value) == f'{{"a":["é","2024-01-02T00:00:00+00:00"],"b":{beside}}}'
    assert to_json([{"b": beside}], indent=True) == f'[\n  {{\n    "b": {beside}\n  }}\n]'.encode()
    assert to_json([object(), beside], lambda _: "it") == f'["it",{beside}]'.encode()
    assert to_json([*value["a"], beside], str) == f'["é","2024-01-02T00:00:00+00:00",{beside}]'.encode()
    assert to_json([Serialized(), beside], str) == f'[{{"c":1}},{beside}]'.encode()


def test_half_a_character_is_written_as_an_escape() -> None:
    value = {"half": ["é\ud83d", 2**64], "\ude00": "\\ud83d"}

    assert to_json(value) == r'{"half":["é\ud83d",18446744073709551616],"\ude00":"\\ud83d"}'.encode()
    assert from_json(to_json(value)) == value


def test_the_text_is_compact_and_keeps_types_apart() -> None:
    assert canonical({"b": "1", "a": [1, 1.0, True, None, "é"]}) == '{"a":[1,1.0,true,null,"é"],"b":"1"}'


@pytest.mark.parametrize(
    "value", [object(), {1: 2}, b"x", "\ud800", [2**64, b"x"], [2**64, float("nan")], nested(100_000)]
)
def test_what_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        canonical(value)


def test_what_json_cannot_hold_is_an_error_for_people_too() -> None:
    with pytest.raises(FatalError, match="JSON cannot hold"):
        canonical({"token": b"x"})


def test_many_levels_are_written() -> None:
    assert canonical(nested(600)) == '{"a":' * 600 + "1" + "}" * 600


def test_a_path_is_written_as_people_write_it() -> None:
    assert dotted(["streams", 2, "name"]) == "streams[2].name"
    assert dotted([2, "name"]) == "[2].name"
    assert dotted([]) == ""


@given(st.lists(st.text() | st.integers(0, 3), max_size=4), VALUES)
def test_a_reference_leads_to_every_value_of_its_document(keys: list[str | int], value: Json) -> None:
    document = value
    for key in reversed(keys):
        document = {key: document} if isinstance(key, str) else [*[None] * key, document]
    steps = [quote(str(key).replace("~", "~0").replace("/", "~1"), errors="surrogatepass") for key in keys]

    assert referenced(document, "".join(f"/{step}" for step in steps).join(("#", ""))) == value


@pytest.mark.parametrize("reference", ["", "a", "/a", "b.json#/a", "#/a/", "#/b", "#/c/1", "#/c/-1", "#/a/x", None, 1])
def test_a_reference_that_leads_nowhere_is_none(reference: Json) -> None:
    assert referenced({"a": 1, "c": [2]}, reference) is None


def test_each_string_is_changed_and_names_only_on_request() -> None:
    value = {"a": ("x", 1, None, {"b": "y"}), "c": True}

    assert map_strings(value, str.upper) == {"a": ["X", 1, None, {"b": "Y"}], "c": True}
    assert map_strings(value, str.upper, names=True) == {"A": ["X", 1, None, {"B": "Y"}], "C": True}


def test_values_without_inner_values_are_walked_with_their_keys() -> None:
    assert list(walk({"a": [1, {"b": None}], "c": {}, "d": []})) == [(("a", 0), 1), (("a", 1, "b"), None)]
    assert list(walk("x", ("a",))) == [(("a",), "x")]


@pytest.mark.parametrize(
    ("location", "text"),
    [
        (Location("a.yaml", ("streams", 2, "name"), 41), "a.yaml:41 streams[2].name"),
        (Location("a.yaml", (), 3, 7), "a.yaml:3:7"),
        (Location("a.json", ("key",)), "a.json: key"),
        (Location(keys=("streams", "users")), "streams.users"),
        (Location("a.json"), "a.json"),
        (Location(), ""),
    ],
)
def test_a_place_is_written_as_people_click_on_it(location: Location, text: str) -> None:
    assert location == text


def test_a_place_retains_its_parts_where_it_is_copied() -> None:
    location = copy.deepcopy(Location("a.yaml", ("x",), 3))

    assert (location, location.file, location.keys, location.line) == ("a.yaml:3 x", "a.yaml", ("x",), 3)


def test_a_part_of_a_value_is_at_its_line() -> None:
    assert Location("a.yaml", ("x",), 3).below("y", 0) == "a.yaml:3 x.y[0]"
