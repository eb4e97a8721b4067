"""How a field of a component is read as a number, an integer or a duration: written so, or given by an expression."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from cdk import Json
from cdk.base.errors import ManifestError
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext, Runtime

CONFIG: Json = {"n": 5, "half": 2.5, "true": True, "text": "many", "empty": "", "month": "P1M"}
CTX = BuildContext(CONFIG, Runtime(clock=lambda: datetime(2024, 2, 1, tzinfo=UTC)), stream="users")


class Given(Component):
    """A component whose field has any value."""

    type_name = None

    value: Json = None


def given(value: Json) -> Given:
    return Given(value=value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, 9), (5, 5), (5.0, 5), (-1, -1), ("7", 7), ("{{ config.n }}", 5), ("{{ config.n * 1.0 }}", 5)],
)
def test_an_integer_is_read(value: Json, expected: int) -> None:
    assert CTX.integer(given(value), "value", 9) == expected


@pytest.mark.parametrize(
    "value", [2.5, True, "many", "", "{{ config.true }}", "{{ config.text }}", "{{ config.empty }}"]
)
def test_what_is_no_integer_is_refused_with_its_place(value: Json) -> None:
    with pytest.raises(ManifestError, match=r"users: Given.value: found .*, expected an integer"):
        CTX.integer(given(value), "value", 9)


def test_an_integer_may_have_to_be_large_enough_and_may_be_left_out() -> None:
    with pytest.raises(ManifestError, match="found 0, expected an integer of at least 1"):
        CTX.integer(given(0), "value", 9, least=1)
    assert CTX.integer(given("{{ config.empty }}"), "value", 9, empty=True) == 9


@pytest.mark.parametrize(("value", "expected"), [(None, 1.5), (0, 0), ("{{ config.half }}", 2.5), ("3", 3)])
def test_a_number_is_read(value: Json, expected: float) -> None:
    assert CTX.number(given(value), "value", 1.5) == expected


@pytest.mark.parametrize("value", [-0.5, True, "many", "{{ config.empty }}"])
def test_what_is_no_number_is_refused(value: Json) -> None:
    with pytest.raises(ManifestError, match="expected a number of at least 0"):
        CTX.number(given(value), "value", 1.5)


def test_a_duration_is_read_and_has_a_length_from_now_on() -> None:
    assert CTX.duration(given("PT2H"), "value", None) == timedelta(hours=2)
    assert CTX.duration(given("{{ config.empty }}"), "value", None) is None
    assert CTX.duration(given(None), "value", timedelta(1)) == timedelta(1)
    assert CTX.duration_from_now(given("{{ config.month }}"), "value", None) == timedelta(days=29)
    with pytest.raises(ManifestError, match="found 'many', expected a duration such as P1D, PT1H or P1M"):
        CTX.duration(given("{{ config.text }}"), "value", None)


def test_a_parameter_that_a_component_lacks_is_warned_of_in_each_kind_of_field(
    caplog: pytest.LogCaptureFixture,
) -> None:
    component = Given(value={"a": ["{{ parameters.nam }}"], "b": "{{ parameters.nme }}"}, parameters={"name": "x"})
    CTX.nested(component, "value")
    CTX.mapping(replace(component, value={"a": "{{ parameters.nae }}"}), "value")
    CTX.expression(component, "value", "{{ parameters.ame }}{{ parameters.name }}")

    assert [message.partition(" of ")[0] for message in caplog.messages] == [
        f"users: Given.value: the parameter {name!r}" for name in ("nam", "nme", "nae", "ame")
    ]
