"""The plain values that travel everywhere: JSON, records and their canonical text."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import orjson

from cdk.base.errors import FatalError

Json: TypeAlias = Any
"""Anything `json.loads` can return. `Any`: mypy has no usable recursive type for JSON that is only read."""

Record: TypeAlias = Mapping[str, Json]
"""One row as the source gave it: a JSON object."""

JsonSchema: TypeAlias = Mapping[str, Json]
"""A JSON Schema document (draft 7, as the Airbyte protocol uses it)."""


def canonical(value: Json) -> str:
    """Return the one JSON text of `value`: keys sorted, no blanks; equal values have equal texts.

    The type counts (`1` and `"1"` differ). Raises TypeError, which is a FatalError too, for what JSON cannot hold.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError as error:
        raise NotJson(f"found a value that JSON cannot hold ({error})") from None


class NotJson(FatalError, TypeError):
    """A value, such as a key or a page token, is a number of more than 64 bits, or nested too deeply, or no JSON."""
