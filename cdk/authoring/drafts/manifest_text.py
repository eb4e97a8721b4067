"""The text of a manifest, or of a part of one: YAML that people may edit; and the texts of its strings.

What an expression gives is read as a literal, and so is a string without one: `3` is a number, `None` is left out.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from textwrap import indent
from typing import TypeAlias

import yaml

from cdk.authoring.drafts.draft import Draft, expression
from cdk.base.values import JsonValue
from cdk.declarative.interpolation.template import compile_template

_WIDEST = 100
"""Characters of an object or a list that is written in one line."""


_NEVER = 10**6
"""Characters of a line after which a string goes on in the next one."""

_QUOTED = re.compile("['\x85\u2028\u2029]")


class _Dumper(yaml.SafeDumper):
    """Writes what is short in one line, and nothing by anchors."""

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
        """A string; expressions, which have quotes, in double ones, and what YAML reads as the end of a line."""
        return self.represent_scalar("tag:yaml.org,2002:str", data, style='"' if _QUOTED.search(data) else None)


_Dumper.add_representer(str, _Dumper.represent_str)


def _short(value: object) -> bool:
    return len(str(value)) <= _WIDEST


def manifest_text(draft: Draft) -> str:
    """The manifest of a draft."""
    return "".join(_parts(draft))


def manifest_part(name: str, value: JsonValue, depth: int = 0) -> str:
    """A key and its value, indented by `depth` spaces; what is short is in one line."""
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=_NEVER, allow_unicode=True)
    text = f"{name}: {text}" if text.startswith(("{", "[")) else f"{name}:\n{indent(text, '  ')}"
    return indent(text, " " * depth)


Read: TypeAlias = Callable[[str, Mapping[str, object]], JsonValue]
"""What a part of a request has for a text of a manifest, with these names in its expressions."""


def in_path(text: str, names: Mapping[str, object]) -> JsonValue:
    """What a path has for a text."""
    return compile_template(text).render(names)


def in_field(text: str, names: Mapping[str, object]) -> JsonValue:
    """What a parameter, a header or a field of a form has for a text; None: nothing, or no string."""
    value = in_json(text, names)
    return str(value) if isinstance(value, str | int | float) else None


def in_json(text: str, names: Mapping[str, object]) -> JsonValue:
    """What a JSON body has for a text; None: nothing."""
    return compile_template(text).value(names, default=None)


def written(value: str, read: Read) -> str:
    """What a manifest writes for a string that is to be sent: that, or a literal or an expression of it."""
    # What begins like a reference is one, wherever it is.
    plain = [text for text in (value, repr(value)) if not has_marks(text) and not text.startswith("#/")]
    texts = (text for text in (*plain, expression(repr(value))) if read(text, {}) == value)
    return next(texts, expression(repr(repr(value))))


def has_marks(text: str) -> bool:
    """Whether an expression, a statement or a comment begins in a text."""
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
