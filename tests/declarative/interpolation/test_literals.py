import ast
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk.base.values import Json
from cdk.declarative.interpolation.literals import all_typed, literal, typed

LITERALS: list[tuple[str, Json]] = [
    ("10", 10),
    ("-5", -5),
    ("- 5", -5),
    ("+5", 5),
    ("1_000", 1000),
    ("0x10", 16),
    ("0o17", 15),
    ("1e3", 1000.0),
    (".5", 0.5),
    ("5.", 5.0),
    (" 10", 10),
    ("10 ", 10),
    ("\n7", 7),
    ("1 # c", 1),
    ("(1)", 1),
    ("1,2", (1, 2)),
    ("()", ()),
    ("[1,2]", [1, 2]),
    ("{'a':1}", {"a": 1}),
    ("None", None),
    ("True", True),
    ("False", False),
    ('"x"', "x"),
    ("'a' 'b'", "ab"),
    ("r'x'", "x"),
    ("u'x'", "x"),
    ('"""5"""', "5"),
    ("[1, 'a', None, {'x': 1.5}]", [1, "a", None, {"x": 1.5}]),
]
TEXTS = [
    "",
    " ",
    "hello",
    "007",
    "true",
    "null",
    "nan",
    "inf",
    "1 day",
    "1+2j",
    "2+3",
    "--5",
    "not 1",
    "1;2",
    "2024-01-01",
    "2024-10-11",
    "2024-01-02T03:04:05Z",
    "10.0.0.1",
    "+47 22 33 44",
    "12 Main St, Oslo",
    "(555) 123",
    "Toronto, Canada",
    "None of it",
    "[1,2",
    "[nan]",
    "{[1]:2}",
    "f'x'",
    "٣",
    "[1]\x00",
    "1" * 5000,
    "(" * 300,
]
NOT_IN_JSON = ["b'x'", "...", "{1,2}", "set()", "1j", "1e999", "[b'x']"]


@pytest.mark.parametrize(("text", "value"), LITERALS)
def test_a_literal_stands_for_its_value(text: str, value: Json) -> None:
    assert (type(value), value) == (type(literal(text)), literal(text))


@pytest.mark.parametrize("text", TEXTS)
def test_other_texts_stay_texts(text: str) -> None:
    assert text == literal(text)


@pytest.mark.parametrize("text", NOT_IN_JSON)
def test_what_json_does_not_have_stays_a_text(text: str) -> None:
    assert text == literal(text)


def test_each_reading_of_a_list_is_a_new_list() -> None:
    items: Json = literal("[1, [2]]")

    items[1].append(3)

    assert literal("[1, [2]]") == [1, [2]]


@given(
    st.lists(
        st.sampled_from(["1", "0", "07", "-", "+", ".", "e", "_", "0x1f", " ", ",", "(", ")", "[", "]", "'a'", "None"])
    )
)
def test_texts_are_read_as_python_reads_them(pieces: list[str]) -> None:
    text = "".join(pieces)
    try:
        expected = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError):
        expected = text
    if expected is ...:
        expected = text

    assert repr(expected if not isinstance(expected, float) or math.isfinite(expected) else text) == repr(literal(text))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_a_value_is_typed_as_its_text_would_be(value: Json) -> None:
    assert repr(literal(str(value))) == repr(typed(value))


@given(st.lists(st.floats()) | st.lists(st.none() | st.integers() | st.booleans()) | st.lists(JSON, max_size=4))
def test_a_column_is_typed_as_each_of_its_values(values: list[Json]) -> None:
    assert repr([typed(value) for value in values]) == repr(all_typed(values))


def test_a_typed_list_is_a_copy() -> None:
    value = [{"a": [1]}]
    copied: Json = typed(value)

    copied[0]["a"].append(2)

    assert value == [{"a": [1]}]
