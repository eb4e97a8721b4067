"""The text of a draft's manifest: YAML in parts, one below the other, each of which people may edit."""

from collections.abc import Iterator
from textwrap import indent

import yaml

from cdk.authoring.drafts.draft import Draft
from cdk.base.values import JsonValue

_WIDEST = 100
"""Characters of an object or a list that is written in one line."""


_NEVER = 10**6
"""Characters of a line after which a string goes on in the next one."""


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
        """A string; expressions, which have quotes, in double ones."""
        return self.represent_scalar("tag:yaml.org,2002:str", data, style='"' if "'" in data else None)


_Dumper.add_representer(str, _Dumper.represent_str)


def _short(value: object) -> bool:
    return len(str(value)) <= _WIDEST


def manifest_text(draft: Draft) -> str:
    """The manifest of a draft."""
    return "".join(_parts(draft))


def _parts(draft: Draft) -> Iterator[str]:
    yield "# yaml-language-server: $schema=schemas/manifest.schema.json\n"
    yield f"# Drafted from {' '.join(draft.title.split())}: README.md lists what was guessed.\n"
    yield "version: 6.0.0\ntype: DeclarativeSource\n\n"
    yield _part("check", {"type": "CheckStream", "stream_names": [draft.streams[0].name]})
    yield "\ndefinitions:\n"
    if draft.requester:
        yield _part("requester", draft.requester, 2) + "\n"
    yield "  streams:\n"
    for stream in draft.streams:
        yield _part(stream.name, stream.component, 4)
    yield "\nstreams:\n"
    for stream in draft.streams:
        yield f'  - "#/definitions/streams/{stream.name}"\n'
    yield "\nspec:\n  type: Spec\n  connection_specification:\n    type: object\n"
    required = [indent(yaml.safe_dump([name]), " " * 6) for name in draft.config.required]
    yield f"    required:{'' if required else ' []'}\n{''.join(required)}"
    yield f"    properties:{'' if draft.config.properties else ' {}'}\n"
    for name, schema in draft.config.properties.items():
        yield _part(name, schema, 6)


def _part(name: str, value: JsonValue, depth: int = 0) -> str:
    """A key and its value. What is on top is never in one line: people add to it."""
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=_NEVER, allow_unicode=True)
    text = f"{name}: {text}" if text.startswith(("{", "[")) else f"{name}:\n{indent(text, '  ')}"
    return indent(text, " " * depth)
