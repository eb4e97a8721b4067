"""The plain values that travel everywhere: JSON, records and their canonical text."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import orjson

Json: TypeAlias = Any
"""Anything `json.loads` can return. `Any`: mypy has no usable recursive type for JSON that is only read."""

Record: TypeAlias = Mapping[str, Json]
"""One row as the source gave it: a JSON object."""

JsonSchema: TypeAlias = Mapping[str, Json]
"""A JSON Schema document (draft 7, as the Airbyte protocol uses it)."""


def canonical(value: Json) -> str:
    """Return the one JSON text of `value`: keys sorted, no blanks; equal values have equal texts.

    The type counts (`1` and `"1"` differ). Raises TypeError for what JSON cannot hold.
    """
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
