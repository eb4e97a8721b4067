"""The texts are tested where authors meet them, in test_manifest; here, what no manifest of today brings about."""

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from cdk.base.values import Json
from cdk.declarative.components import register
from cdk.declarative.components.records.decoders import CsvDecoder
from cdk.declarative.components.streams.partition_routers import UnionPartitionRouter
from cdk.declarative.model.component import Component
from cdk.declarative.syntax.validation_errors import explained, misspelt

register()


class Inner(BaseModel):
    """A part of it."""

    few: int = Field(lt=5)
    needed: str


class Measured(BaseModel):
    """Fields with limits."""

    few: int = Field(1, lt=5, gt=0)
    ratio: float = Field(0.5, le=1.0)
    word: str = Field("ab", min_length=2, pattern="^a")
    some: list[str] = Field([], max_length=1)
    each: dict[str, Annotated[int, Field(ge=3)]] = Field(default_factory=dict)
    kind: Literal[1, "one"] | None = None
    inner: Inner | None = None
    named: Annotated[list[str], BeforeValidator(lambda value: value.split(", "))] = []


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("few", 7, "found 7, expected less than 5"),
        ("few", 0, "found 0, expected more than 0"),
        ("few", 1.5, "found 1.5, expected an integer"),
        ("ratio", 2, "found 2, expected 1 or less"),
        ("word", "a", "found 'a', expected a string of 2 or more characters"),
        ("word", "bc", "found 'bc', expected a string that matches '^a'"),
        ("word", {}, "found an empty object, expected a string"),
        ("some", ["a", "b"], "found a list of 2, expected at most 1 elements"),
        ("kind", 2, "found 2, expected one of 1, 'one'"),
        ("kind", "on", "found 'on', expected one of 1, 'one'; did you mean 'one'?"),
    ],
)
def test_a_limit_is_told_in_words(field: str, value: Json, told: str) -> None:
    (problem,) = explained(*refused(Measured, {field: value}))

    assert ((field,), told) == (problem.keys, problem.text)


def test_what_a_validator_lets_through_is_no_problem() -> None:
    problems = explained(*refused(Measured, {"named": "a, b", "few": 7}))

    assert [problem.keys for problem in problems] == [("few",)]


def test_a_field_that_is_missing_hides_nothing_else() -> None:
    problems = explained(*refused(Measured, {"few": 7, "inner": {"few": 7}}))

    assert [problem.keys for problem in problems] == [("inner",), ("few",), ("inner", "few")]


def test_a_place_inside_a_map_is_found() -> None:
    (problem,) = explained(*refused(Measured, {"each": {"a": 3, "b": 2}}))

    assert (problem.keys, problem.text) == (("each", "b"), "found 2, expected 3 or more")


def test_what_a_validator_says_is_said() -> None:
    (problem,) = explained(*refused(CsvDecoder, {"type": "CsvDecoder", "encoding": "utf-9"}))

    assert problem.keys == ("encoding",)
    assert problem.text.startswith("there is no encoding 'utf-9'")


def test_a_list_that_is_too_short_is_told_beside_what_is_wrong_inside_it() -> None:
    value = {"type": "UnionPartitionRouter", "partition_field": "a", "partition_routers": []}
    (problem,) = explained(*refused(UnionPartitionRouter, value))

    assert problem.text == "found an empty list, expected 2 or more elements"


def test_a_value_that_is_right_has_no_slips() -> None:
    value: Json = {"type": "RequestPath", "$parameters": {"feild_name": 1}, "feild_name": 1, "class_name": "a.B"}

    assert list(misspelt(value, Component.registry["RequestPath"])) == []


def refused(kind: type[BaseModel], value: Json) -> tuple[Json, type[BaseModel], ValidationError]:
    with pytest.raises(ValidationError) as error:
        kind.model_validate(value)
    return value, kind, error.value
