"""Checks of stream classes for mistakes of authors that would go unnoticed, or fail far from the mistake."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from cdk.base.documents import read_document
from cdk.base.errors import ConfigError
from cdk.base.process.connector_line import defined_at
from cdk.base.values import JsonSchema
from cdk.base.wording import cut, nearest
from cdk.streams.cursor import Cursor

_KIT = f"{__name__.partition('.')[0]}."
_LONGEST = 120
"""The most characters of a value that an error shows."""


def kind_shown(value: object) -> str:
    """What a value is, for an error that must not show a secret."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return "None" if value is None else f"a {type(value).__name__}"


def value_shown(value: object) -> str:
    """A value for an error; of an object, only what it is."""
    plain = isinstance(value, str | bool | int | float | list | tuple | dict)
    return cut(repr(value), _LONGEST) if plain else kind_shown(value)


class Expected(Struct, frozen=True):
    """What a value that an author sets has to be. words: the same for errors. shown: describes a value for errors."""

    fits: Callable[[object], bool]
    words: str
    shown: Callable[[object], str] = value_shown

    def problem(self, value: object) -> str:
        """`found None, expected ...`; empty if the value fits."""
        return "" if self.fits(value) else f"found {self.shown(value)}, expected {self.words}"


def object_of(kind: type) -> Callable[[object], bool]:
    """A test for objects of a class or protocol. The class itself fails, though it has the methods of a protocol."""
    return lambda value: isinstance(value, kind) and not isinstance(value, type)


def names(value: object) -> bool:
    """Whether a value is a string, or a sequence of strings."""
    return isinstance(value, str) or (isinstance(value, Sequence) and all(isinstance(name, str) for name in value))


def _is_schema(value: object) -> bool:
    if isinstance(value, Mapping):
        kind = value.get("type", "object")
        return "object" in kind if isinstance(kind, list | tuple) else kind == "object"
    # A pydantic model, recognized by its method: streams do not need to import pydantic.
    return value is None or callable(getattr(value, "model_json_schema", None))


_SCHEMA = "a JSON Schema of objects, `{'type': 'object', 'properties': {...}}`"
CURSOR = "a cursor such as `DatetimeCursor('updated_at', start='2024-01-01T00:00:00Z')`"
STREAM_ATTRIBUTES: Mapping[str, Expected] = {
    "primary_key": Expected(
        lambda value: isinstance(value, Sequence) and not isinstance(value, bytes) and all(map(names, value)),
        "the name of a field, or a list of names",
    ),
    "cursor": Expected(
        lambda value: value is None or object_of(Cursor)(value),
        f"{CURSOR}, or None; the field of a stream that sets `self.state` itself is its `cursor_field`",
    ),
    "cursor_field": Expected(
        lambda value: value is None or isinstance(value, str), "the name of a field, or None for a full refresh"
    ),
    "schema": Expected(_is_schema, f"{_SCHEMA}, or a pydantic model"),
}
"""What the attributes of every stream have to be."""


def check_values(kind: type, values: Mapping[str, object], expected: Mapping[str, Expected]) -> None:
    """Raise ConfigError if an attribute of a stream class, or of one of its objects, has a value that does not fit."""
    for name in expected:
        if name not in values or (hasattr(type(value := values[name]), "__get__") and not inspect.isfunction(value)):
            continue  # a property is computed later
        if problem := expected[name].problem(value):
            hint = "; put `@property` before the method, if it has to be computed" if inspect.isfunction(value) else ""
            raise ConfigError(f"{attribute(kind, name)}: {problem}{hint}")


def schema_in(path: Path) -> JsonSchema:
    """The schema in a file. Raises ConfigError: it cannot be read, or is no schema of objects."""
    schema = read_document(path)
    if not (isinstance(schema, Mapping) and _is_schema(schema)):
        raise ConfigError(f"found {value_shown(schema)}, expected {_SCHEMA}", path=str(path))
    return schema


def attribute(kind: type, name: str) -> str:
    """The full name of an attribute of an author's class, for errors; of a class of the kit, only the attribute's."""
    return name if kind.__module__.startswith(_KIT) else f"{kind.__module__}.{kind.__qualname__}.{name}"


def check_methods(cls: type) -> None:
    """Raise ConfigError if the class has a value in place of a method, or a method with an incompatible signature."""
    for name, value in vars(cls).items():
        if inspect.isfunction(value):
            _check_parameters(cls, name, value)
        if callable(value) or hasattr(type(value), "__get__"):
            continue
        if inspect.isfunction(getattr(super(cls, cls), name, None)):
            advice = "call it `schema`" if name == "json_schema" else f"write `def {name}(self, ...)` that returns it"
            raise ConfigError(f"{attribute(cls, name)} is a {type(value).__name__}, expected a method; {advice}")


def _check_parameters(cls: type, name: str, method: Callable[..., object]) -> None:
    """Raise ConfigError if the method overrides one of the kit's and cannot be called like it."""
    inherited = (
        vars(base)[name] for base in cls.__mro__[1:] if name in vars(base) and base.__module__.startswith(_KIT)
    )
    overridden = next(inherited, None)
    if name.startswith("_") or not inspect.isfunction(overridden):
        return
    expected = inspect.signature(overridden)
    needed = [each for each in expected.parameters.values() if each.default is inspect.Parameter.empty]
    positional = [each for each in needed if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    try:
        inspect.signature(method, follow_wrapped=False).bind(*positional)
    except TypeError as error:
        written = ", ".join(each.name for each in positional)
        raise ConfigError(
            f"{attribute(cls, name)} cannot be called as the kit calls it ({error}); write "
            f"`def {name}({written})`{defined_at(method)}"
        ) from None


_NEAR = 0.85
"""The similarity, from 0 to 1, from which two names count as one: `primry_key` and `primary_key` have 0.95."""


_ELSEWHERE = {
    "parse_response": "parse",
    "request_params": "params",
    "request_headers": "headers",
    "request_body_json": "body_json",
    "next_page_token": "paginator",
    "stream_slices": "partitions",
    "get_updated_state": "cursor",
    "get_json_schema": "json_schema",
}
"""Names of airbyte-cdk, and what they are called here."""
_READING = {"read_records", "read_page", "request", "parse"}


def check_names(cls: type) -> None:
    """Raise ConfigError if a public name of the class looks like a typo of an inherited one that it does not override.

    This is an error because a misspelt attribute is never used: the stream would read without its key or parameters. It
    is easy to avoid: names that begin with `_` are the author's own. If one name begins with the other, both are words
    (`schemas`, `header`, `parsed`), and only methods with equal parameters count as typos. Names of other kits' methods
    count, too, unless the class overrides the reading itself and may call anything. The kit's own classes are not
    checked, because comparing their names took 2 ms of each start.
    """
    if cls.__module__.startswith(_KIT):
        return
    inherited = {name: name for base in cls.__mro__[1:] for name in vars(base) if not name.startswith("_")}
    known = {**inherited, **{other: name for other, name in _ELSEWHERE.items() if name in inherited}}
    missing = {other: name for other, name in known.items() if name not in vars(cls)}
    for name, value in vars(cls).items():
        if name.startswith("_") or name in inherited or (near := nearest(name, missing, _NEAR)) is None:
            continue
        if near not in inherited and not _READING.isdisjoint(vars(cls)):
            continue
        if (name.startswith(near) or near.startswith(name)) and not _alike(value, getattr(cls, near, None)):
            continue
        raise ConfigError(
            f"{attribute(cls, name)} is not a name that the kit uses; did you mean "
            f"{missing[near]!r}? Rename it to that, or to `_{name}` if it is your own"
        )


def _alike(first: object, second: object) -> bool:
    """Whether two class attributes are methods with the same parameters."""
    if not (inspect.isfunction(first) and inspect.isfunction(second)):
        return False
    return list(inspect.signature(first).parameters) == list(inspect.signature(second).parameters)
