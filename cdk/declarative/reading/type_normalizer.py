"""Normalizer: casts the values of records to the types of a schema, compiled once per schema.

Implements Airbyte's default schema normalization, quirks included, since manifests rely on its results:
a value is cast if its schema names exactly one type besides `null`, unless that schema is behind a `$ref`;
a null that the schema forbids becomes the string `None`; only `properties`, `items` and `$ref` are followed.
A value that cannot be cast stays as it is.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TypeAlias

from cdk.base.logs import logger
from cdk.base.values import (
    JSON_TYPES,
    PYTHON_TYPES,
    FieldValue,
    JsonObject,
    JsonSchema,
    JsonValue,
    as_object,
    referenced,
)

Cast: TypeAlias = Callable[[JsonValue], JsonValue]
_Convert: TypeAlias = Callable[..., JsonValue]
"""Converts a value to another type. Raises ValueError, TypeError or OverflowError: when the value does not convert."""

_Casts: TypeAlias = Callable[[Sequence[JsonValue]], list[JsonValue] | None]
"""Casts the values of a column without nulls; None if one of them does not fit, so that each is cast by itself."""

_Fields: TypeAlias = tuple[tuple[str, frozenset[type], Cast, _Casts], ...]

_MISSING = ...
_NO_VALUES = frozenset({type(None), type(_MISSING)})
_WORDS: Mapping[str, bool] = dict.fromkeys(("y", "yes", "t", "true", "on", "1"), True) | dict.fromkeys(
    ("n", "no", "f", "false", "off", "0"), False
)


def normalizer(schema: JsonSchema, where: str = "") -> Callable[[list[JsonObject]], None]:
    """Return the function that casts the records of a page in place. where: the name of the stream, for warnings.

    The function warns once for each field with a value that does not fit, and never shows the value.
    """
    fields, others = _Compiler(schema, where).root()
    names = [name for name, *_ in fields]

    def normalize(records: list[JsonObject]) -> None:
        _cast_fields(fields, names, records)
        for look in others:
            for record in records:
                look(record)

    return normalize


def _cast_fields(fields: _Fields, names: list[str], records: list[JsonObject]) -> None:
    """Cast fields of objects in place."""
    # Most fields of most pages need no cast, and checking a column takes less time than checking each value.
    for (name, ready, cast, cast_all), values in zip(fields, _columns(records, names), strict=False):
        types = set(map(type, values))
        if types <= ready:
            continue
        if types.isdisjoint(_NO_VALUES) and (changed := cast_all(values)) is not None:
            for record, value in zip(records, changed, strict=True):
                record[name] = value
            continue
        for record, value in zip(records, values, strict=True):
            if type(value) not in ready:
                record[name] = cast(record[name])


def _columns(records: list[JsonObject], names: list[str]) -> Iterable[Sequence[FieldValue]]:
    """Return the values of each field, with `_MISSING` for absent ones."""
    if len(names) > 1:  # with one name, `itemgetter` returns no tuples
        try:
            return list(zip(*map(itemgetter(*names), records), strict=True))
        except KeyError:
            pass
    return ([record.get(name, _MISSING) for record in records] for name in names)


class _Compiler:
    """Makes the functions for one schema. Follows a `$ref` once a value reaches it, so the schema may be recursive."""

    def __init__(self, root: JsonSchema, where: str) -> None:
        self._root, self._where = root, where
        self._warned: set[str] = set()
        self._known: dict[tuple[str, str], Cast] = {}

    def root(self) -> tuple[_Fields, list[Cast]]:
        others = [self._ref(str(self._root["$ref"]), "")] if "$ref" in self._root else []
        return self._fields(self._root, ""), others

    def _fields(self, schema: JsonSchema, path: str) -> _Fields:
        properties = schema.get("properties")
        fields = []
        for name, part in properties.items() if isinstance(properties, Mapping) else ():
            if isinstance(part, Mapping) and (field := self._value(part, f"{path}.{name}" if path else name)):
                fields.append((name, field[0] | {type(_MISSING)}, *field[1:]))
        return tuple(fields)

    def _value(self, schema: JsonSchema, path: str) -> tuple[frozenset[type], Cast, _Casts] | None:
        """Return the types that need no cast, and the casts for all others. None if no value needs a cast."""
        kinds = _kinds(schema)
        inside, inside_all = self._inside(schema, path)
        if kinds is None:
            return None if inside is None else (frozenset({str, int, float, bool, type(None)}), inside, inside_all)
        named = [kind for kind in kinds if kind != "null"]
        only = named[0] if len(named) == 1 else ""
        convert = _array(schema) if only == "array" else _CASTS.get(only)
        ready = {kind for name in kinds for kind in PYTHON_TYPES.get(name, ())}
        if only == "number":
            ready.discard(int)
        if inside is not None:
            ready -= {dict, list}
        cast = self._cast(convert, kinds, inside, path, nullable="null" in kinds)
        if convert is None and "object" in kinds:
            return frozenset(ready), cast, inside_all
        cast_all = _one_by_one if convert is None or inside is not None else _all_casts(convert, kinds)
        return frozenset(ready), cast, cast_all

    def _cast(
        self, convert: _Convert | None, kinds: list[str], inside: Cast | None, path: str, *, nullable: bool
    ) -> Cast:
        fitting = {kind for name in kinds for kind in PYTHON_TYPES.get(name, ())}

        def cast(value: JsonValue) -> JsonValue:
            if convert is not None and not (nullable and value is None):
                try:  # noqa: SIM105 - `suppress` takes as long as everything else
                    value = convert(value)
                except (ValueError, TypeError, OverflowError):
                    pass
            if type(value) not in fitting and not _fits(value, kinds):
                self._warn(value, kinds, path)
            return value if inside is None else inside(value)

        return cast

    def _inside(self, schema: JsonSchema, path: str) -> tuple[Cast | None, _Casts]:
        """Return functions that cast the contents of a value, or of a column, and return it. None: nothing to cast."""
        fields = self._fields(schema, path)
        part = schema.get("items")
        items = self._value(part, f"{path}.*") if isinstance(part, Mapping) else None
        ref = self._ref(str(schema["$ref"]), path) if "$ref" in schema else None
        if not fields and items is None and ref is None:
            return None, _one_by_one

        def inside(value: JsonValue) -> JsonValue:
            if fields and isinstance(value, dict):
                for name, ready, cast, _ in fields:
                    if type(value.get(name, _MISSING)) not in ready:
                        value[name] = cast(value[name])
            elif items is not None and isinstance(value, list):
                ready, cast, _ = items
                for i, child in enumerate(value):
                    if type(child) not in ready:
                        value[i] = cast(child)
            return value if ref is None else ref(value)

        return inside, _one_by_one if ref is not None else _all_objects(fields)

    def _ref(self, pointer: str, path: str) -> Cast:
        """Return a function that casts what is in a value by a `$ref`'s schema, and only checks the value itself."""

        def follow(value: JsonValue) -> JsonValue:
            look = self._known.get((pointer, path))
            if look is None:
                schema = as_object(referenced(self._root, pointer))
                kinds = _kinds(schema)
                inside, _ = self._inside(schema, path)
                look = inside or _same if kinds is None else self._cast(None, kinds, inside, path, nullable=False)
                self._known[pointer, path] = look
            return look(value)

        return follow

    def _warn(self, value: JsonValue, kinds: list[str], path: str) -> None:
        if path in self._warned:
            return
        self._warned.add(path)
        logger.warning(
            "%sthe field %r: found %s, expected %s; such values are left as they are",
            f"{self._where}: " if self._where else "",
            path,
            JSON_TYPES.get(type(value), type(value).__name__),
            " or ".join(kinds) or "nothing",
        )


def _one_by_one(_: Sequence[JsonValue]) -> None:
    return None


def _all_objects(fields: _Fields) -> _Casts:
    names = [name for name, *_ in fields]

    def cast(values: Sequence[JsonValue]) -> list[JsonValue] | None:
        objects = [value for value in values if isinstance(value, dict)]
        if len(objects) < len(values):
            return None
        _cast_fields(fields, names, objects)
        return list(values)

    return cast


def _all_casts(convert: _Convert, kinds: list[str]) -> _Casts:
    fitting = {kind for name in kinds for kind in PYTHON_TYPES.get(name, ())}

    def cast_all(values: Sequence[JsonValue]) -> list[JsonValue] | None:
        try:
            changed = list(map(convert, values))
        except (ValueError, TypeError, OverflowError):
            return None
        return changed if fitting.issuperset(map(type, changed)) else None

    return cast_all


def _same(value: JsonValue) -> JsonValue:
    return value


def _kinds(schema: JsonSchema) -> list[str] | None:
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return [kinds]
    return [str(kind) for kind in kinds] if isinstance(kinds, list | tuple) else None


def _fits(value: JsonValue, kinds: list[str]) -> bool:
    name = JSON_TYPES.get(type(value))
    if name is None or name in kinds:
        return True
    return (name == "integer" and "number" in kinds) or (
        type(value) is float and "integer" in kinds and value.is_integer()
    )


def _boolean(value: JsonValue) -> JsonValue:
    return _WORDS.get(value.lower().strip(), value) if isinstance(value, str) else bool(value)


def _array(schema: JsonSchema) -> _Convert | None:
    """Return a function that wraps a value in a list; None if items have one type, or may be objects or arrays."""
    items = schema.get("items")
    kinds = items.get("type") if isinstance(items, Mapping) else None
    if isinstance(kinds, str) or (isinstance(kinds, list | tuple) and ("object" in kinds or "array" in kinds)):
        return None
    return lambda value: value if isinstance(value, list | dict) else [value]


_CASTS: Mapping[str, _Convert] = {"string": str, "number": float, "integer": int, "boolean": _boolean}
