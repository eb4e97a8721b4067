from datetime import datetime
from typing import Annotated, Literal

import pytest
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from cdk.base.validation_messages import refusals
from cdk.base.values import Json
from cdk.base.wording import shown


def _even(value: Json) -> Json:
    if value == 3:
        raise ValueError("expected an even number")
    return value


class Options(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = "a"
    size: Annotated[int, BeforeValidator(_even), Field(gt=0)] = 2
    ratio: float = 0.5
    quick: bool = False
    tags: list[str] = Field([], max_length=1)
    fields: dict[str, int] = Field(default_factory=dict)
    mode: Literal["fast", "slow"] = "fast"
    since: AwareDatetime | None = None
    at: datetime | None = None
    either: int | list[str] = 1


class Needy(BaseModel):
    needed: Options


def sentences(value: Json, model: type[BaseModel] = Options) -> list[tuple[tuple[str | int, ...], str]]:
    with pytest.raises(ValidationError) as refused:
        model.model_validate(value)
    return refusals(refused.value, value, known=lambda _: model.model_fields, secret=lambda keys: keys == ("name",))


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("size", "many", "found 'many', expected an integer"),
        ("size", 1.5, "found 1.5, expected an integer"),
        ("size", 0, "found 0, expected more than 0"),
        ("size", 3, "found 3, expected an even number"),
        ("size", None, "found nothing (null), expected an integer"),
        ("ratio", {}, "found an empty object, expected a number"),
        ("quick", "maybe", "found 'maybe', expected true or false"),
        ("tags", "a", "found 'a', expected a list"),
        ("tags", ["a", "b"], "found a list of 2, expected at most 1 elements"),
        ("fields", [], "found an empty list, expected an object"),
        ("mode", "fastt", "found 'fastt', expected 'fast' or 'slow'"),
        ("at", "soon", "found 'soon', expected a timestamp such as 2024-05-10T00:00:00Z"),
        (
            "since",
            "2024-05-10T00:00:00",
            "found '2024-05-10T00:00:00', expected a timestamp with a time zone, such as 2024-05-10T00:00:00Z",
        ),
        ("either", {"a": 1}, "found an object with a, expected an integer or a list"),
        ("nme", 1, "unknown key; did you mean 'name'?"),
    ],
)
def test_each_refusal_says_what_was_found_and_what_was_expected(field: str, value: Json, sentence: str) -> None:
    assert sentences({field: value}) == [((field,), sentence)]


def test_what_is_missing_is_named_where_it_belongs() -> None:
    assert sentences({}, Needy) == [(("needed",), "is missing")]


def test_places_inside_are_paths() -> None:
    assert sentences({"fields": {"a": 1, "b": "x"}}) == [(("fields", "b"), "found 'x', expected an integer")]


def test_a_secret_is_never_shown() -> None:
    assert sentences({"name": 4711}) == [(("name",), "found a number, expected a string")]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "nothing (null)"),
        (True, "true"),
        (5, "5"),
        ("a", "'a'"),
        ("a" * 100, f"'{'a' * 57}'..."),
        ([], "an empty list"),
        ([1], "a list of 1"),
        ({}, "an empty object"),
        ({"a": 1, "b": 2}, "an object with a, b"),
        (dict.fromkeys("abcdefghij"), "an object with a, b, c, d, e, f, g, h and 2 more"),
    ],
)
def test_values_are_shown_short_and_without_what_is_inside(value: Json, text: str) -> None:
    assert shown(value) == text
