"""Writes a manifest, or a part of one, as YAML that people can edit, with strings that the language reads unchanged.

The language parses strings and the results of expressions as literals: `3` is a number, `None` is omitted.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from textwrap import indent
from typing import TypeAlias

import yaml

from cdk.authoring.drafts.draft import Draft, check_levels, expression
from cdk.base.values import JsonValue
from cdk.declarative.interpolation.template import compile_template

_WIDEST = 100
"""The most characters of an object or a list that is written on one line."""


_NEVER = 10**6
"""The line width at which PyYAML would wrap a string: never."""

_QUOTED = re.compile("['\x85\u2028\u2029]")


class _Dumper(yaml.SafeDumper):
    """Writes short values on one line, and no anchors."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's
        return True

    def represent_mapping(self, tag: str, mapping: object, flow_style: bool | None = None) -> yaml.MappingNode:  # noqa: FBT001 - PyYAML's
        node = super().represent_mapping(tag, mapping, flow_style)  # type: ignore[arg-type] # any mapping
        node.flow_style = _short(mapping)
        return node

    def represent_sequence(self, tag: str, sequence: object, flow_style: bool | None = None) -> yaml.SequenceNode:  # noqa: FBT001 - PyYAML's
        node = super().represent_sequence(tag, sequence, flow_style)  # type: ignore[arg-type] # any sequence
        node.flow_style = _short(sequence)
        return node

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Represent a string; in double quotes if it contains quotes, as expressions do, or a YAML line break."""
        return self.represent_scalar("tag:yaml.org,2002:str", data, style='"' if _QUOTED.search(data) else None)


_Dumper.add_representer(str, _Dumper.represent_str)


def _short(value: object) -> bool:
    return len(str(value)) <= _WIDEST


def manifest_text(draft: Draft) -> str:
    """Return the manifest of a draft."""
    return "".join(_parts(draft))


def manifest_part(name: str, value: JsonValue, depth: int = 0) -> str:
    """Return a key and its value, indented by `depth` spaces; short values are on one line.

    Raises ConfigError: when the value is nested too deeply.
    """
    check_levels(value, name)
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=_NEVER, allow_unicode=True)
    text = f"{name}: {text}" if text.startswith(("{", "[")) else f"{name}:\n{indent(text, '  ')}"
    return indent(text, " " * depth)


Read: TypeAlias = Callable[[str, Mapping[str, object]], JsonValue]
"""Returns the value that a part of a request gets from a text of a manifest; the mapping has the expressions' names."""


def in_path(text: str, names: Mapping[str, object]) -> JsonValue:
    """Return the value that a path gets from a text."""
    return compile_template(text).render(names)


def in_field(text: str, names: Mapping[str, object]) -> JsonValue:
    """Return the value that a parameter, a header or a form field gets from a text; None: nothing, or no scalar."""
    value = in_json(text, names)
    return str(value) if isinstance(value, str | int | float) else None


def in_json(text: str, names: Mapping[str, object]) -> JsonValue:
    """Return the value that a JSON body gets from a text; None: nothing."""
    return compile_template(text).value(names, default=None)


def written(value: str, read: Read) -> str:
    """Return the text with which a manifest sends a string: the string itself, a literal, or an expression of it."""
    # A text that starts like a reference is taken for one anywhere.
    plain = [text for text in (value, repr(value)) if not has_marks(text) and not text.startswith("#/")]
    texts = (text for text in (*plain, expression(repr(value))) if read(text, {}) == value)
    return next(texts, expression(repr(repr(value))))


def has_marks(text: str) -> bool:
    """Whether a text contains the start of an expression, a statement or a comment."""
    return any(mark in text for mark in ("{{", "{%", "{#"))


def _parts(draft: Draft) -> Iterator[str]:
    yield "# yaml-language-server: $schema=schemas/manifest.schema.json\n"
    yield f"# Drafted from {' '.join(draft.title.split())}: README.md lists what was guessed.\n"
    yield "version: 6.0.0\ntype: DeclarativeSource\n\n"
    yield manifest_part("check", {"type": "CheckStream", "stream_names": [draft.streams[0].name]})
    yield "\ndefinitions:\n"
    if draft.requester:
        yield manifest_part("requester", draft.requester, 2) + "\n"
    yield "  streams:\n"
    for stream in draft.streams:
        yield manifest_part(stream.name, stream.component, 4)
    yield "\nstreams:\n"
    for stream in draft.streams:
        yield f'  - "#/definitions/streams/{stream.name}"\n'
    yield "\nspec:\n  type: Spec\n  connection_specification:\n    type: object\n"
    yield manifest_part("required", list(draft.config.required), 4)
    yield f"    properties:{'' if draft.config.properties else ' {}'}\n"
    for name, schema in draft.config.properties.items():
        yield manifest_part(name, schema, 6)
