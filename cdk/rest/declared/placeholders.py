"""Placeholders: `{config.token}`, `{window.start}` or `{repos.name}` in a string, replaced by values for each request.

Literal braces are doubled, as in format strings.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import quote

from msgspec import Struct

from cdk.base.errors import ConfigError
from cdk.base.values import FieldValue, JsonValue, as_string, to_json, walk
from cdk.rest.http.authenticator import Authenticator

_DOT_SEGMENTS = {".", ".."}
_SEGMENT_END = re.compile(r"[/?#]")
_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


class Placeholder(Struct, frozen=True):
    """A reference between braces: a scope and one of its fields."""

    scope: str
    """`config`, `window`, or the name of a resource."""
    field: str

    def __str__(self) -> str:
        return f"{{{self.scope}.{self.field}}}"


Values: TypeAlias = Callable[[Placeholder], JsonValue]


def placeholders(template: FieldValue) -> Iterator[Placeholder]:
    """Yield the placeholders of a string, or of all strings in an object or a list.

    Raises ConfigError: when braces contain something else.
    """
    for _, text in walk(template):
        yield from (part for part in _parts(as_string(text)) if isinstance(part, Placeholder))


def filled(template: JsonValue, values: Values) -> JsonValue:
    """Return `template` with its placeholders replaced. A string of only one placeholder becomes the value itself."""
    match template:
        case str():
            parts = _parts(template)
            if len(parts) == 1 and isinstance(parts[0], Placeholder):
                return values(parts[0])
            return filled_text(template, values)
        case Mapping():
            return {name: filled(value, values) for name, value in template.items()}
        case list() | tuple():
            return [filled(value, values) for value in template]
        case _:
            return template


def filled_text(template: str, values: Values) -> str:
    """Return `template` as a string with its placeholders replaced. Raises ConfigError: when a value is null."""
    return "".join(part if isinstance(part, str) else _text(part, values) for part in _parts(template))


def filled_path(template: str, values: Values) -> str:
    """Return `template` as a path of a URL, with quoted values. A value at its start may itself be a path or a URL.

    Raises ConfigError: when a value is null, or turns a segment into `.` or `..`, which would lead to another endpoint
    even if it were quoted.
    """
    parts = _parts(template)
    texts = [part if isinstance(part, str) else _text(part, values) for part in parts]
    texts[1:] = [
        text if isinstance(part, str) else quote(text, safe="") for part, text in zip(parts[1:], texts[1:], strict=True)
    ]
    for at, part in enumerate(parts):
        if isinstance(part, Placeholder) and texts[at] in _DOT_SEGMENTS:
            before, after = "".join(texts[:at]), "".join(texts[at + 1 :])
            segment = before.rpartition("/")[2] + texts[at] + _SEGMENT_END.split(after)[0]
            if segment in _DOT_SEGMENTS and "?" not in before:
                raise ConfigError(
                    f"{part} is {texts[at]!r}, which turns a segment of the path {template!r} into {segment!r} and so "
                    "leads to another endpoint; expected an id or a name"
                )
    return "".join(texts)


def settings_of(auth: Authenticator | None) -> Iterator[tuple[str, Placeholder]]:
    """Yield the placeholders of an authenticator, each with the name of the field, or of the object key, it is in."""
    if auth is not None and is_dataclass(auth):
        yield from _named({each.name: getattr(auth, each.name) for each in fields(auth)}, "")


def _named(template: FieldValue, name: str) -> Iterator[tuple[str, Placeholder]]:
    if isinstance(template, Mapping):
        for inner, value in template.items():
            yield from _named(value, inner)
    else:
        yield from ((name, placeholder) for placeholder in placeholders(template))


def with_settings(auth: Authenticator, values: Values) -> Authenticator:
    """Return a copy of an authenticator with its placeholders replaced. Copies for the same login share tokens."""
    if not is_dataclass(auth):
        return auth
    own = {each.name: getattr(auth, each.name) for each in fields(auth) if each.init}
    return replace(auth, **{name: filled(value, values) for name, value in own.items() if any(placeholders(value))})


def _text(placeholder: Placeholder, values: Values) -> str:
    value = values(placeholder)
    if value is None:
        scope = placeholder.scope
        remedy = "set it in the config" if scope == "config" else f"every record of {scope} must have it"
        raise ConfigError(f"{placeholder} is null, expected a value, as it is part of a string or a path; {remedy}")
    return value if isinstance(value, str) else to_json(value).decode()


@lru_cache(maxsize=1024)
def _parts(text: str) -> tuple[str | Placeholder, ...]:
    """Split a string into literal text and placeholders."""
    parts: list[str | Placeholder] = []
    at = 0
    for braces in _BRACES.finditer(text):
        literal, at = text[at : braces.start()], braces.end()
        if braces[0] in {"{{", "}}"}:
            literal += braces[0][0]
        if literal:
            parts.append(literal)
        if braces[1] is not None:
            scope, dot, field = braces[1].partition(".")
            if not (scope and dot and field):
                raise ConfigError(_INVALID_BRACES.format(braces[0]))
            parts.append(Placeholder(scope, field))
        elif len(braces[0]) == 1:
            raise ConfigError(_INVALID_BRACES.format(braces[0]))
    if at < len(text):
        parts.append(text[at:])
    return tuple(parts)


_INVALID_BRACES = (
    "found {}, expected {{config.NAME}}, {{window.start}}, {{window.end}} or {{RESOURCE.FIELD}}; double a literal brace"
)
