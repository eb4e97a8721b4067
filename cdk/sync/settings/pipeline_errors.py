"""What is wrong with a pipeline file, as lines that name each place. No line shows what a variable holds."""

from collections.abc import Mapping
from typing import TypeAlias

from pydantic import BaseModel, ValidationError

from cdk.base.suggestions import did_you_mean
from cdk.base.values import Json
from cdk.base.yaml_file import YamlFile

Keys: TypeAlias = tuple[str | int, ...]
"""Where in a file something stands."""
Models: TypeAlias = Mapping[Keys, type[BaseModel]]
"""The model of each part of a file; the names of streams are left out of its place."""


def problems(file: YamlFile, error: ValidationError, models: Models) -> list[str]:
    """A line for each place that is wrong. It shows what the file says, never what a variable holds."""
    unknown: dict[Keys, str] = {}
    expected: dict[Keys, list[str]] = {}
    for problem in error.errors():
        loc = problem["loc"]
        keys, value = _value_at(file.value, loc)
        if problem["type"] == "extra_forbidden":
            unknown[loc] = f"unknown key{did_you_mean(str(loc[-1]), _model(loc, models).model_fields)}"
        elif problem["type"] == "missing":
            unknown[loc] = "is missing"
        else:
            expected.setdefault((*keys, value), []).append(_expected(problem))
    return [f"{file.where(keys)}: {text}" for keys, text in unknown.items()] + [
        f"{file.where(keys)}: found {value}, expected {' or '.join(dict.fromkeys(texts))}"
        for (*keys, value), texts in expected.items()
    ]


def kind(value: Json) -> str:
    """What a value of a file is, in a word or two."""
    match value:
        case None:
            return "nothing"
        case dict():
            return "a map"
        case list():
            return "a list"
        case str():
            return "a text"
        case bool():
            return "true or false"
        case _:
            return "a number"


def _model(loc: Keys, models: Models) -> type[BaseModel]:
    """The model that a key was not found in."""
    names = (*loc[:1], *loc[2:]) if loc[:1] == ("streams",) else loc
    return models[names[:-1]]


def _value_at(value: Json, loc: Keys) -> tuple[Keys, str]:
    """The part of a place that a file has, without the types that pydantic tried there, and what stands there."""
    keys: Keys = ()
    for key in loc:
        match value, key:
            case dict(), str() if key in value:
                value = value[key]
            case list(), int():
                value = value[key]
            case _:
                break
        keys = (*keys, key)
    return keys, kind(value) if keys[:2] in _SECRET else _shown(value)


def _shown(value: Json) -> str:
    if isinstance(value, dict):
        return f"a map of {', '.join(value)}" if value else "an empty map"
    return kind(value) if value is None or isinstance(value, list) else repr(value)


def _expected(problem: Mapping[str, Json]) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    text: str = context["expected"] if kind == "literal_error" else str(context.get("error", problem["msg"]))
    return _EXPECTED.get(kind) or text.removeprefix("expected ").removeprefix("Input should be ")


_EXPECTED = {
    "string_type": "a text",
    "dict_type": "a map",
    "mapping_type": "a map",
    "model_type": "a map",
    "tuple_type": "a list",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "string_pattern_mismatch": "letters, digits, `.`, `_` and `-`, a letter or digit first, at most 200",
    "too_short": "at least one",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "float_type": "a number",
    "float_parsing": "a number",
    "datetime_type": "a moment such as 2024-05-10T00:00:00Z",
    "datetime_parsing": "a moment such as 2024-05-10T00:00:00Z",
    "datetime_from_date_parsing": "a moment such as 2024-05-10T00:00:00Z",
    "timezone_aware": "a moment with a time zone, such as 2024-05-10T00:00:00Z",
}
_SECRET = {("source", "config"), ("spark", "conf"), ("target", "storage"), ("state", "state_provider")}
