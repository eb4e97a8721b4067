"""The words of errors about manifests: what was found, and what a check of validation wants."""

from collections.abc import Mapping

from pydantic_core import ErrorDetails

from cdk.base.values import JsonValue
from cdk.declarative.model.component import Component

_LONG = 60

# What is expected, by the name of the check that failed; the braces are its limits.
_EXPECTED = {
    "greater_than_equal": "{ge} or more",
    "greater_than": "more than {gt}",
    "less_than_equal": "{le} or less",
    "less_than": "less than {lt}",
    "too_short": "{min_length} or more elements",
    "too_long": "at most {max_length} elements",
    "string_too_short": "a text of {min_length} or more characters",
    "string_pattern_mismatch": "a text like {pattern!r}",
    "literal_error": "{expected}",
    "string_type": "a text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
}


def failed_check(detail: ErrorDetails) -> str:
    """An error of validation in our words."""
    ctx, value, name = detail.get("ctx", {}), named(detail.get("input")), detail["type"]
    if name in {"value_error", "assertion_error"}:
        return str(ctx.get("error") or detail["msg"])
    if name in {"component", "component_type"}:
        return detail["msg"]
    if name == "missing":
        return f"the field {detail['loc'][-1]!r} is missing"
    if name in _EXPECTED:
        return f"found {value}, expected {_EXPECTED[name].format(**ctx)}"
    return f"found {value}, which cannot stand here"


def named(value: JsonValue) -> str:
    """A value as errors show it."""
    if isinstance(value, str):
        return f"the text {value!r}" if len(value) < _LONG else f"the text {value[: _LONG - 3]!r}..."
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "nothing (null)"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, Mapping):
        kind = value.get("type")
        return an(kind) if isinstance(kind, str) and kind in Component.registry else "an object"
    return "a list" if value else "an empty list"


def an(name: str) -> str:
    """The name of a kind of component behind `a` or `an`."""
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}"
