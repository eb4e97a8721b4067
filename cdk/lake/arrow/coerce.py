"""Coercion of single values to a column's type, without loss, or else to null with a note of the original."""

from collections.abc import Mapping
from typing import TypeAlias

import pyarrow as pa

from cdk.base.records.plain_values import plain
from cdk.lake.arrow.columns import JSON_TEXT, ColumnType
from cdk.lake.arrow.conversions import CoercionError, conversion, json_string
from cdk.lake.arrow.json_text import shown, valid

Change: TypeAlias = dict[str, str]
"""What was done to a value: `field`, `change`, `reason`, and `original` as a string: JSON unless it was a string.

change: NULLED; LEFT_OUT, a field of an object; TRUNCATED, a timestamp; ESCAPED, a string.
"""


def coerce_value(value: object, kind: ColumnType, path: str, noted: list[Change]) -> object:
    """Return `value` as `kind`; if it does not fit, the nearest value or null, and append a note to `noted`.

    Raises NotJson: when it is not a JSON value.
    """
    value = plain(value)
    if value is None:
        return None
    try:
        if kind is JSON_TEXT:
            return json_string(value)
        if pa.types.is_struct(kind):
            return _struct(value, kind, path, noted)
        return _list(value, kind, path, noted) if pa.types.is_list(kind) else conversion(kind).value(value)
    except CoercionError as error:
        noted.append(change(path, error.change, str(error), value))
        return error.instead


def change(path: str, what: str, reason: str, value: object) -> Change:
    """Return the note of a change. path: the column, and the place inside its value."""
    return {"field": valid(path), "change": what, "reason": reason, "original": shown(value)}


def _struct(value: object, kind: pa.StructType, path: str, noted: list[Change]) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise CoercionError("not an object")
    names = {field.name for field in kind}
    if not names.issuperset(value):
        noted.extend(change(f"{path}.{n}", "LEFT_OUT", "not declared", v) for n, v in value.items() if n not in names)
    return {
        field.name: coerce_value(value.get(field.name), field.type, f"{path}.{field.name}", noted) for field in kind
    }


def _list(value: object, kind: pa.ListType, path: str, noted: list[Change]) -> list[object]:
    if not isinstance(value, list):
        raise CoercionError("not an array")
    return [coerce_value(item, kind.value_type, f"{path}[{i}]", noted) for i, item in enumerate(value)]
