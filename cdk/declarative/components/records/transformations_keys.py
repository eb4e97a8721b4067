"""Transformations that rename the fields of records."""

import re
from collections.abc import Callable
from functools import lru_cache
from unicodedata import normalize

from cdk.base.values import JsonObject
from cdk.declarative.components.records.transformations import Text
from cdk.declarative.model.context import BuildContext, Names
from cdk.declarative.model.request_plug_points import AnyTransformation, Transform

_WORD = re.compile(r"[A-Z]+[a-z]*|[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_LETTERS = str.maketrans(
    "øØđĐð\N{LATIN CAPITAL LETTER ETH}łŁ\N{LATIN SMALL LETTER DOTLESS I}", "oOdDdDlLi"
) | str.maketrans({"ß": "ss", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "þ": "th", "Þ": "Th"})
"""Latin letters that Unicode does not decompose."""


class KeysToLower(AnyTransformation):
    """Converts the names of a record's fields to lower case; those in nested objects stay.

    Example:
        type: KeysToLower
    """

    def build(self, ctx: BuildContext) -> Transform:
        def transform(records: list[JsonObject], names: Names) -> None:  # noqa: ARG001
            for record in records:
                for name in list(record):
                    lower = name.lower()
                    if lower != name:
                        record[lower] = record.pop(name)

        return transform


class KeysToSnakeCase(AnyTransformation):
    """Converts the names of fields to snake case, also in nested objects: `firstName` becomes `first_name`.

    Accents are removed, digits form words of their own, and a name that starts with a digit gets `_` in front.

    Example:
        type: KeysToSnakeCase
    """

    def build(self, ctx: BuildContext) -> Transform:
        def transform(records: list[JsonObject], names: Names) -> None:  # noqa: ARG001
            for record in records:
                _rename(record, snake_case)

        return transform


class KeysReplace(AnyTransformation):
    """Replaces a string in the names of fields, also in nested objects.

    Example:
        type: KeysReplace
        old: " "
        new: _
    """

    old: Text
    """The string to replace; reads `record` and `stream_slice`."""
    new: Text
    """The replacement; reads the same values."""

    def build(self, ctx: BuildContext) -> Transform:
        old, new = ctx.expression(self, "old"), ctx.expression(self, "new")

        def transform(records: list[JsonObject], names: Names) -> None:
            for record in records:
                scope = {**names, "record": record}
                _rename(record, _replacing(str(old.value(scope)), str(new.value(scope))))

        return transform


def _replacing(before: str, after: str) -> Callable[[str], str]:
    return lambda name: name.replace(before, after)


@lru_cache(maxsize=4096)
def snake_case(name: str) -> str:
    """Return a name in snake case, as `KeysToSnakeCase` writes it. Letters without a Latin form stay as they are."""
    plain = "".join(char for char in normalize("NFKD", name.translate(_LETTERS)) if not "\u0300" <= char <= "\u036f")
    words = _WORD.findall(plain)
    if not words:
        return ""
    digits = [str(int(word)) if word.isdecimal() and not word.isascii() else word for word in words]
    before = "_" if digits[0][0].isdecimal() or not plain[0].isalnum() else ""
    after = "" if plain[-1].isalnum() else "_"
    return (before + "_".join(digits) + after).lower()


def _rename(record: JsonObject, rename: Callable[[str], str]) -> None:
    renamed = _renamed(record, rename)
    record.clear()
    record.update(renamed)


def _renamed(value: JsonObject, rename: Callable[[str], str]) -> JsonObject:
    return {
        rename(name): _renamed(child, rename) if isinstance(child, dict) else child for name, child in value.items()
    }
