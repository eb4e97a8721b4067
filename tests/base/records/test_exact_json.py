import json
import math
import pickle
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdk.base.records.exact_json import WrittenNumber, exact_json, has_written_numbers, written_number
from cdk.base.records.plain_values import json_of
from cdk.base.values import to_json

LOST = [
    "12345678901234567.89",
    "-1234.567890123456789012",
    "9007199254740993.0",
    "1180591620717411303424.00",
    "1E400",
    "-1e999",
    "1.5e99999999999999999999",
    "0.12345678901234567890E5",
    "1e-400",
    "-1E-0400",
    "1234567890123456789e2",
    "-9007199254740993E+0",
    "12345678901234567e-3",
    "1.2345e-320",
]
DIGITS = st.text("0123456789", min_size=1, max_size=20)
NUMBERS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    st.just("0") | DIGITS.filter(lambda digits: digits[0] != "0"),
    st.just("") | DIGITS.map(".{}".format),
    st.sampled_from(["", "", "e0", "E5", "e+300", "e-7", "e-99", "E-307", "e-310", "e-320", "E-400", "e400"]),
)
"""JSON numbers, as an API may spell them."""


@pytest.mark.parametrize("text", LOST)
@pytest.mark.parametrize(
    "body", ['{"x":%s}', '[1.5, %s, "half \\ud83d"]', '\ufeff{"x": [%s]}', f'{{"x":%s,"big":{2**100}}}']
)
def test_a_number_that_no_double_holds_has_its_text(text: str, body: str) -> None:
    assert text in json_of(exact_json((body % text).encode()))


@example(["1e-400", "9007199254740993.0"], ",")
@example(["9007199254740993e0", "1e400"], ",")
@example(["18446744073709551616", "1.50"], ",")
@example(["-9223372036854775809", "1"], ", ")
@given(st.lists(NUMBERS, max_size=5), st.sampled_from([",", ", ", ",\n", ',"page-100","0e-123",']))
def test_a_number_is_the_same_on_every_page(texts: list[str], between: str) -> None:
    page = [item for item in exact_json(b"[%s]" % between.join(texts).encode()) if not isinstance(item, str)]

    assert list(map(json_of, page)) == [json_of(exact_json(text.encode())) for text in texts]
    for text, number in zip(texts, page, strict=True):
        assert Decimal(text) == Decimal(json_of(number))


@pytest.mark.parametrize("levels", [200, 300, 900])
@pytest.mark.parametrize("number", ["1", f"{2**70}", "1e-400"])
def test_a_number_is_the_same_at_any_depth(levels: int, number: str) -> None:
    value = exact_json(b"[" * levels + number.encode() + b"]" * levels)

    for _ in range(levels):
        assert isinstance(value, list)
        (value,) = value
    assert json_of(value) == number


@pytest.mark.parametrize("text", LOST)
def test_it_is_a_double_for_whoever_computes_and_a_text_for_whoever_writes(text: str) -> None:
    number = written_number(text)

    assert number == float(text)
    assert str(number) == text
    assert to_json({"x": number}) == b'{"x":%s}' % text.encode()
    assert to_json([number], str) == b"[%s]" % text.encode()
    assert str(pickle.loads(pickle.dumps(number))) == text  # noqa: S301 - made here


@pytest.mark.parametrize(
    "text",
    [
        "0.1",
        "1.50",
        "0.30000000000000004",
        "1e21",
        "1.2345678901234567E+19",
        "-0.0",
        "5e-324",
        "0.1000000000000000055511151231257827021181583404541015625",
    ],
)
def test_a_number_that_a_double_holds_is_one(text: str) -> None:
    assert type(written_number(text)) is float
    assert type(exact_json(b"[1234.567890123456789012,%s]" % text.encode())[1]) is float


def test_a_number_beyond_what_a_decimal_holds_is_beyond_every_column() -> None:
    large, small = WrittenNumber("-1e99999999999999999999"), WrittenNumber("1e-99999999999999999999")

    assert large.exact < -(10**1000)
    assert 0 < small.exact < Decimal("1e-1000")
    assert math.isinf(large)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"x":1234.567890123456789012}', True),
        (b"123456789012345678.5", True),
        (b"[0.1234567890123456789]", True),
        (b'{"x":0.30000000000000004,"y":12345678.1234567,"z":1.5}', False),
        (b"[-60.129999999999995,29.870000000000005]", False),
        (b"[-60.129999999999995,29.8700000000000051]", True),
        (b"[1000000000000000000000000000.00000000,1.5000000000]", False),
        (b"[9007199254740993000000000000000000000001.00000000]", True),
        (b'{"x": 1234567890123456789e2}', True),
        (b"[1000000000000000000000E-3,100000000000000e3]", False),
        (b'{"v":"1.2.123456789","n":7.1234567890e2,"x":0.1234567891}', False),
        (json.dumps({"at": "2024-01-01T00:00:00.000000000Z", "url": "https://a.b/c.d"}).encode(), False),
    ],
)
def test_numbers_of_more_digits_than_a_double_has_are_found(text: bytes, expected: bool) -> None:  # noqa: FBT001
    assert has_written_numbers(text) is expected


@pytest.mark.parametrize("body", ["%s", '{"x":[1.5,-%s],"y":"%s"}', '\ufeff["half \\ud83d", "\\u1234%s", %s, 1e400]'])
def test_an_integer_of_more_digits_than_python_reads_has_its_text(body: str) -> None:
    text = body.replace("%s", "123456789" * 500)

    value = exact_json(text.encode())

    assert json_of(value) == json_of(exact_json(body.replace("%s", "7").encode())).replace("7", "123456789" * 500)
    assert to_json(exact_json(b"[%s]" % (b"9" * 4301))) == b"[%s]" % (b"9" * 4301)
    assert exact_json(b"[%s]" % (b"9" * 4300)) == [10**4300 - 1]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[1.123456789",
        b"[1E400",
        b'{"x":1E400,}',
        b'["\xff",1E400]',
        b"[NaN]",
        b"[%s," % (b"9" * 5000),
        b"[0%s]" % (b"0" * 5000),
    ],
)
def test_what_is_no_json_is_an_error(body: bytes) -> None:
    with pytest.raises(json.JSONDecodeError):
        exact_json(body)


def test_a_list_that_holds_itself_is_searched_once() -> None:
    endless: list[object] = [2**70]
    endless.append(endless)

    with pytest.raises(TypeError, match="nested more deeply"):
        json_of(endless)
