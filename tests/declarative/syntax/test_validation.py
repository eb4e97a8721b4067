"""The texts are tested where authors meet them, in test_manifest; here, what no manifest of today brings about."""

from typing import Annotated, Literal

import pytest
from msgspec import Meta, Struct

from cdk.base.errors import ManifestError
from cdk.base.values import Json
from cdk.declarative.components import register
from cdk.declarative.components.records.decoders import CsvDecoder
from cdk.declarative.components.records.extractors import CombinedExtractor
from cdk.declarative.components.streams.partition_routers import UnionPartitionRouter
from cdk.declarative.model.component import Adapted, Component
from cdk.declarative.syntax.validation import ManifestProblem, validate, validated

register()


class Inner(Struct, kw_only=True):
    """A part of it."""

    few: Annotated[int, Meta(ge=5)] = 5
    needed: str


class Measured(Struct):
    """Fields with limits."""

    few: Annotated[int, Meta(gt=0)] = 1
    ratio: Annotated[float, Meta(ge=1)] = 1.5
    word: Annotated[str, Meta(min_length=2)] = "ab"
    each: dict[str, Annotated[int, Meta(ge=3)]] = {}
    kind: Literal[1, "one"] | None = None
    inner: Inner | None = None
    named: Annotated[list[str], Adapted(before=lambda value: value.split(", "))] = []
    either: int | str | None = None
    yes: bool | None = None

    def __post_init__(self) -> None:
        if self.kind == "one" and self.few == 7:
            raise ValueError("few must not be 7 here")


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("few", 0, "found 0, expected more than 0"),
        ("few", 1.5, "found 1.5, expected an integer"),
        ("ratio", 0.5, "found 0.5, expected 1 or more"),
        ("word", "a", "found 'a', expected a string of 2 or more characters"),
        ("word", {}, "found an empty object, expected a string"),
        ("kind", 2, "found 2, expected one of 1, 'one'"),
        ("kind", "on", "found 'on', expected one of 1, 'one'; did you mean 'one'?"),
        ("yes", "yes", "found 'yes', expected true or false"),
        ("either", [], "found an empty list, expected an integer or a string"),
    ],
)
def test_a_limit_is_told_in_words(field: str, value: Json, told: str) -> None:
    (problem,) = refused(Measured, {field: value})

    assert ((field,), told) == (problem.keys, problem.text)


@pytest.mark.parametrize(
    ("field", "value", "built"),
    [
        ("few", "7", 7),
        ("few", 7.0, 7),
        ("few", True, 1),
        ("ratio", "1.5", 1.5),
        ("yes", "true", True),
        ("yes", 0, False),
        ("either", "7", "7"),
        ("either", 7, 7),
        ("either", 7.0, 7),
        ("named", "a, b", ["a", "b"]),
        ("kind", None, None),
        ("few", None, 1),
    ],
)
def test_a_value_that_says_the_same_in_another_type_is_accepted(field: str, value: Json, built: Json) -> None:
    made = getattr(validated(Measured, {field: value}), field)

    assert (made, type(made)) == (built, type(built))


def test_a_field_that_is_missing_hides_nothing_else() -> None:
    problems = refused(Measured, {"few": 0, "inner": {"few": 4}})

    assert [problem.keys for problem in problems] == [("few",), ("inner", "few"), ("inner",)]


def test_a_place_inside_a_map_is_found() -> None:
    (problem,) = refused(Measured, {"each": {"a": 3, "b": 2}})

    assert (problem.keys, problem.text) == (("each", "b"), "found 2, expected 3 or more")


def test_what_a_check_raises_is_said_at_its_field() -> None:
    (problem,) = refused(CsvDecoder, {"type": "CsvDecoder", "encoding": "utf-9"})

    assert problem.keys == ("encoding",)
    assert problem.text.startswith("there is no encoding 'utf-9'")


def test_fields_that_do_not_fit_each_other_are_said_at_their_object_and_which_were_inherited() -> None:
    (problem,) = refused(Measured, {"kind": "one", "few": 7, "$parameters": {"few": 7, "ratio": 2}})

    assert (problem.keys, problem.text) == ((), "few must not be 7 here; few came from $parameters")


def test_a_list_that_is_too_short_is_told_beside_what_is_wrong_inside_it() -> None:
    value: Json = {"type": "UnionPartitionRouter", "partition_field": "a", "partition_routers": [{"type": "Nope"}]}

    problems = refused(UnionPartitionRouter, value)

    assert [problem.keys for problem in problems] == [("partition_routers", 0, "type"), ("partition_routers",)]
    assert problems[-1].text == "found a list of 1, expected 2 or more elements"


def test_a_list_with_an_invalid_element_is_invalid() -> None:
    (problem,) = refused(
        CombinedExtractor, {"extractors": [{"type": "DpathExtractor", "field_path": []}, {"type": "X"}]}
    )

    assert problem.keys == ("extractors", 1, "type")


def test_the_problems_of_a_component_are_one_error() -> None:
    with pytest.raises(ManifestError, match=r"^few: found 0, expected more than 0\nword: found 'a'"):
        validated(Measured, {"word": "a", "few": 0})


def test_a_value_that_is_right_has_no_slips() -> None:
    value: Json = {"type": "RequestPath", "$parameters": {"feild_name": 1}, "feild_name": 1, "class_name": "a.B"}

    assert validate(Component.registry["RequestPath"], value)[1] == []


def refused(kind: type[Struct], value: Json) -> list[ManifestProblem]:
    component, problems = validate(kind, value)
    assert component is None
    return [*problems]
