from datetime import UTC, date, datetime

import pytest

from cdk.base.values import Json
from cdk.declarative.interpolation.errors import EvaluationError, ExpressionError
from cdk.declarative.interpolation.macros import build_macros
from cdk.declarative.interpolation.template import compile_template

NOW = datetime(2024, 3, 1, 2, 3, 4, 5, tzinfo=UTC)
MACROS = build_macros(lambda: NOW)

CALLS: list[tuple[str, Json]] = [
    ("timestamp(5)", 5),
    ("timestamp(5.5)", 5),
    ("timestamp('2024-01-02T03:04:05Z')", 1704164645.0),
    ("timestamp('2024-01-02T03:04:05.123Z')", 1704164645.123),
    ("timestamp('2024-01-02')", 1704153600.0),
    ("timestamp('2024-01-02T03:04:05+02:00')", 1704157445.0),
    ("max(1,2)", 2),
    ("max([1,5,3])", 5),
    ("max('2021','2022')", 2022),
    ("min([4,2])", 2),
    ("duration('P1D')", "1 day, 0:00:00"),
    ("duration('P1M')", "1 month, 0:00:00"),
    ("str_to_datetime('2024-01-31') + duration('P1M')", "2024-02-29 00:00:00+00:00"),
    ("str_to_datetime('2024-01-31') - duration('P1M')", "2023-12-31 00:00:00+00:00"),
    ("str_to_datetime('2024-01-31T01:02:03+02:00')", "2024-01-30 23:02:03+00:00"),
    ("str_to_datetime('2024-01')", "2024-01-01 00:00:00+00:00"),
    ("(str_to_datetime('2024-01-31') - str_to_datetime('2024-01-30')).days", 1),
    ("str_to_datetime('2024-01-31').isoformat()", "2024-01-31T00:00:00+00:00"),
    ("format_datetime('2024-01-31T01:02:03Z', '%s')", 1706662923),
    ("format_datetime('2024-01-31T01:02:03.456789Z', '%s_as_float')", 1706662923.456789),
    ("format_datetime('2024-01-31T01:02:03.456Z', '%ms')", 1706662923456),
    ("format_datetime('2024-01-31T01:02:03.456Z', '%epoch_microseconds')", 1706662923456000),
    ("format_datetime('2024-01-31T01:02:03.456Z', '%Y-%m-%dT%H:%M:%S.%_msZ')", "2024-01-31T01:02:03.456Z"),
    ("format_datetime('2024-01-31T01:02:03+02:00', '%Y-%m-%dT%H:%M:%S%z')", "2024-01-30T23:02:03+0000"),
    ("format_datetime(1704067200, '%Y-%m-%d')", "2024-01-01"),
    ("format_datetime('31/01/2024', '%Y-%m-%d', '%d/%m/%Y')", "2024-01-31"),
    ("format_datetime('1704067200123', '%Y-%m-%d', '%ms')", "2024-01-01"),
    ("format_datetime(str_to_datetime('2024-01-31'), '%Y')", 2024),
    ("format_datetime(dt='31/01/2024', format='%Y-%m-%d', input_format='%d/%m/%Y')", "2024-01-31"),
    ("timestamp(dt='2024-01-02')", 1704153600.0),
    ("str_to_datetime(s='2024-01')", "2024-01-01 00:00:00+00:00"),
    ("duration(datestring='P1D').days", 1),
    ("sanitize_url(value='a b')", "a+b"),
    ("sanitize_url('a b&c/d')", "a+b%26c%2Fd"),
    ("camel_case_to_snake_case('camelCaseHTTPTest')", "camel_case_h_t_t_p_test"),
    ("generate_uuid()|length", 36),
]


@pytest.mark.parametrize(("call", "expected"), CALLS)
def test_macros_answer_as_manifests_expect(call: str, expected: Json) -> None:
    assert expected == compile_template(f"{{{{ {call} }}}}").value({})


def test_macros_about_the_present_ask_the_clock() -> None:
    assert MACROS["now_utc"]() == NOW
    assert date(2024, 3, 1) == MACROS["today_utc"]()
    assert date(2024, 2, 29) == MACROS["today_with_timezone"]("America/New_York")
    assert MACROS["day_delta"](-2) == "2024-02-28T02:03:04.000005+0000"
    assert MACROS["day_delta"](0, format="%s") == "1709258584"


@pytest.mark.parametrize("call", ["timestamp(x)", "str_to_datetime(x)", "format_datetime(x, '%Y')"])
@pytest.mark.parametrize("value", [None, [], {"a": 1}])
def test_a_date_of_another_type_is_as_a_comparison_of_types_that_do_not_fit(call: str, value: Json) -> None:
    with pytest.raises(EvaluationError) as raised:
        compile_template(f"{{{{ {call} }}}}").value({"x": value})

    assert raised.value.incomparable


@pytest.mark.parametrize("call", ["timestamp(record.x)", "str_to_datetime(record.x)"])
def test_a_date_that_is_missing_is_named(call: str) -> None:
    with pytest.raises(EvaluationError, match=r"reads from `record\.x`, which is missing"):
        compile_template(f"{{{{ {call} }}}}").value({"record": {}})


@pytest.mark.parametrize(
    "call", ["timestamp('hunter2')", "str_to_datetime('hunter2')", "duration(s)", "format_datetime(s, '%Y')"]
)
def test_a_text_that_is_no_date_is_an_error(call: str) -> None:
    with pytest.raises(ExpressionError, match="ISO 8601"):
        compile_template(f"{{{{ {call} }}}}").value({"s": "hunter2"})
