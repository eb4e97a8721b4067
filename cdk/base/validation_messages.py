"""Translates pydantic's validation errors: where, what was found, what was expected.

Used for pipelines, options of stores and of the data source. Manifests, catalogs and states have their own.
"""

from collections.abc import Callable, Iterable, Mapping

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from cdk.base.values import Keys, json_kind
from cdk.base.wording import TYPE_WORDS, did_you_mean, shown

_TIMESTAMP = "a timestamp such as 2024-05-10T00:00:00Z"
_EXPECTED = {
    "greater_than_equal": "{ge} or more",
    "greater_than": "more than {gt}",
    "less_than_equal": "{le} or less",
    "less_than": "less than {lt}",
    "too_short": "{min_length} or more elements",
    "too_long": "at most {max_length} elements",
    "string_too_short": "a string of {min_length} or more characters",
    "string_pattern_mismatch": "a string that matches {pattern!r}",
    "literal_error": "{expected}",
    "string_type": TYPE_WORDS[str],
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), TYPE_WORDS[int]),
    **dict.fromkeys(("float_type", "float_parsing"), TYPE_WORDS[float]),
    **dict.fromkeys(("bool_type", "bool_parsing"), TYPE_WORDS[bool]),
    **dict.fromkeys(("list_type", "tuple_type"), "a list"),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type"), "an object"),
    **dict.fromkeys(("datetime_type", "datetime_parsing", "datetime_from_date_parsing"), _TIMESTAMP),
    "timezone_aware": "a timestamp with a time zone, such as 2024-05-10T00:00:00Z",
}
"""What was expected, by the type of the failed check; braces stand for its limits."""


def refusals(
    error: ValidationError,
    value: object,
    *,
    known: Callable[[Keys], Iterable[str]] = lambda _: (),
    secret: Callable[[Keys], bool] = lambda _: False,
) -> list[tuple[Keys, str]]:
    """Each place of `value` that failed validation, with the reason; alternatives at one place become one reason.

    known: returns the keys that the object at a place may have, to suggest one. secret: whether the value at a place
    must not be shown.
    """
    misplaced: dict[Keys, str] = {}
    expectations: dict[tuple[Keys, str], list[str]] = {}
    for detail in error.errors(include_url=False):
        keys = detail["loc"]
        if detail["type"] == "extra_forbidden":
            misplaced[keys] = f"unknown key{did_you_mean(str(keys[-1]), known(keys[:-1]))}"
        elif detail["type"] == "missing":
            misplaced[keys] = "is missing"
        else:
            keys, part = _part_at(value, keys)
            text = json_kind(part) if secret(keys) else shown(part)
            expectations.setdefault((keys, text), []).append(expected(detail))
    return [
        *misplaced.items(),
        *(
            (keys, f"found {text}, expected {' or '.join(dict.fromkeys(texts))}")
            for (keys, text), texts in expectations.items()
        ),
    ]


def expected(detail: ErrorDetails) -> str:
    """What a pydantic check expected: `a string`, `5 or more`; for the kit's own checks, the text of the ValueError."""
    context = detail.get("ctx", {})
    if (words := _EXPECTED.get(detail["type"])) is not None:
        return words.format(**{name: f"{v:g}" if isinstance(v, float) else v for name, v in context.items()})
    text = str(context.get("error") or detail["msg"])
    return text.removeprefix("expected ").removeprefix("Input should be ")


def _part_at(value: object, location: Keys) -> tuple[Keys, object]:
    """The keys of a location without the types that pydantic tried there, and the value at them."""
    keys: Keys = ()
    for key in location:
        match value, key:
            case Mapping(), str() if key in value:
                value = value[key]
            case list(), int():
                value = value[key]
            case _:
                break
        keys = (*keys, key)
    return keys, value
