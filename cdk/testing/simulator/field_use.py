"""FieldUse: how a connector uses the fields of a stream's records, which its schema need not declare.

A RestSource declares this in its resources, a manifest in its components; for other code it is unknown.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import islice, product

from msgspec import Struct, field

from cdk.base.errors import CdkError
from cdk.base.values import (
    FieldValue,
    JsonObject,
    JsonSchema,
    JsonValue,
    as_list,
    as_object,
    properties_of,
    scalar_type,
)
from cdk.declarative.interpolation.template import compile_template
from cdk.declarative.model.declared_stream import DeclaredStream
from cdk.declarative.source import ManifestSource
from cdk.rest import path as value_at
from cdk.rest.declared.placeholders import placeholders
from cdk.rest.declared.stream import ResourceStream
from cdk.sources.schema_check import mismatches
from cdk.streams.source import Source
from cdk.streams.stream import Stream
from cdk.testing.simulator.records import Choices, Path, put, schema_at

_LITERAL = re.compile(r"'([^']*)'|\"([^\"]*)\"|\b(\d+(?:\.\d+)?)\b")
_MOST_TRIED = 500


class FieldUse(Struct):
    """How the fields of one stream are used.

    keys: they make partitions of other streams. read: other streams read them.
    added: the connector adds them, so the API does not send them. copies: from where to where transformations copy
    values. passing: for each filter, values with which it keeps a record. conditions: expressions that keep a record.
    """

    keys: list[Path] = field(default_factory=list)
    read: list[Path] = field(default_factory=list)
    added: list[Path] = field(default_factory=list)
    copies: list[tuple[Path, Path]] = field(default_factory=list)
    passing: list[Choices] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)

    def schema(self, schema: JsonSchema) -> JsonSchema:
        """Return the schema extended by all fields that the connector needs."""
        needed = {path: example for choices in self.passing for path, (example, *_) in choices.items()}
        texts: dict[Path, JsonValue] = dict.fromkeys(self.read, "")
        for path, example in {**texts, **needed}.items():
            schema = _with_field(schema, path, example)
        return schema


def field_uses(source: Source, streams: Sequence[Stream]) -> dict[str, FieldUse]:
    """Return how the fields of each stream of a source are used, by stream name."""
    uses: dict[str, FieldUse] = {stream.name: FieldUse() for stream in streams}
    for stream in streams:
        if isinstance(stream, ResourceStream):
            _learn_resource(stream, uses)
    for part in documents_of(source, streams):
        match part:
            case {"type": "ParentStreamConfig", "parent_key": str(key), "stream": {"name": str(name)}}:
                use = uses.setdefault(name, FieldUse())
                use.keys.append(tuple(key.strip("/").split("/")))
                use.read += [tuple(map(str, as_list(path))) for path in as_list(part.get("extra_fields"))]
            case {"type": "DeclarativeStream", "name": str(name)}:
                _learn_stream(part, uses.setdefault(name, FieldUse()))
            case _:
                pass
    return uses


def documents_of(source: Source, streams: Sequence[Stream]) -> Sequence[JsonObject]:
    """Return all objects of a manifest, including those made from its stream templates."""
    if not isinstance(source, ManifestSource):
        return []
    copies = [stream.copy for stream in streams if isinstance(stream, DeclaredStream) and stream.copy is not None]
    return [part for document in (source.resolved, *copies) for part in objects_in(document)]


def objects_in(value: FieldValue) -> Iterator[JsonObject]:
    """Yield the objects at any depth of a value."""
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from objects_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from objects_in(item)


def passing_choices(
    condition: str, samples: Sequence[JsonObject], schema: JsonSchema, config: Mapping[str, JsonValue]
) -> Choices:
    """Return values with which a condition keeps a record; empty if it keeps all samples, or no values are found.

    Tries the values that the condition compares with. A condition that reads more than the record and the config is not
    tried.
    """
    scope: dict[str, object] = {"config": config}
    paths = list(dict.fromkeys(filter(None, _paths(condition, "record"))))
    names = {name for path in paths for name in path}
    literals = [each for match in _LITERAL.finditer(condition) for each in _near(match) if each not in names]
    literals += [value_at(*path)(config) for path in _paths(condition, "config") if path]
    try:
        template = compile_template(condition)

        def passing(records: Sequence[JsonObject]) -> bool:
            return len(template.matching(scope, list(records))) == len(records)

        missing = [path for path in paths if value_at(*path)(samples[0]) is None]
        if not paths or (passing(samples) and not missing):
            return {}
        options = [
            [
                # A field that the samples have may also stay unchanged.
                *([] if path in missing else [()]),
                *((value,) for value in (True, False, *literals) if _fits(value, schema, path)),
            ]
            for path in paths
        ]
        for chosen in islice(product(*options), _MOST_TRIED):
            choices: Choices = {path: values for path, values in zip(paths, chosen, strict=True) if values}
            if passing([_with(record, choices) for record in samples]):
                return choices
    except CdkError:
        pass
    return {}


def _with(record: JsonObject, choices: Choices) -> JsonObject:
    changed = deepcopy(record)
    for path, (value, *_) in choices.items():
        put(changed, path, value)
    return changed


def _learn_resource(stream: ResourceStream, uses: dict[str, FieldUse]) -> None:
    use, parent, declared = uses[stream.name], stream.parent, stream.declared
    use.added += [(name,) for name in declared.add_fields]
    choices: Choices = {(name,): as_list(value) or [value] for name, value in declared.record_filter.items()}
    use.passing += [choices] if choices else []
    if parent is not None:
        above = uses.setdefault(parent.name, FieldUse())
        above.keys += [(name,) for name in stream.links.values()]
        above.read += [(each.field,) for each in placeholders(declared.add_fields) if each.scope == parent.name]


def _learn_stream(stream: JsonObject, use: FieldUse) -> None:
    read: list[Path] = []
    match as_object(as_object(stream.get("retriever")).get("record_selector")).get("record_filter"):
        case {"type": "RecordFilter", "condition": str(condition)} if condition not in use.conditions:
            use.conditions.append(condition)
            read += _paths(condition, "record")
        case _:
            pass
    added: list[Path] = []
    for change in as_list(stream.get("transformations")):
        match change:
            case {"type": "AddFields", "fields": [*additions]}:
                for target, paths in map(_addition, additions):
                    use.copies += [(path, target) for path in paths if path and target]
                    read += paths
                    added += [target] if target and not as_object(change).get("condition") else []
            case _:
                pass
    # A field that is read before the connector replaces it must come from the API.
    use.added += [path for path in added if not any(_overlap(path, other) for other in read)]


def _addition(declared: JsonValue) -> tuple[Path, list[Path]]:
    """Return the path of an added field, and the paths of the record that its value reads."""
    match declared:
        case {"path": [*target], "value": value}:
            return tuple(map(str, target)), _paths(value, "record") if isinstance(value, str) else []
        case _:
            return (), []


def _paths(text: str, name: str) -> list[Path]:
    """Return the paths of a variable that a text with expressions reads; empty if it is not a valid template."""
    try:
        return [tuple(path) for scope, *path in compile_template(text).paths if scope == name]
    except CdkError:
        return []


def _overlap(first: Path, second: Path) -> bool:
    """Whether the paths are equal or one lies inside the other."""
    return all(name == other for name, other in zip(first, second, strict=False))


def _near(literal: re.Match[str]) -> Sequence[JsonValue]:
    """Return the value of a literal in a condition; for a number, also the next smaller and greater one."""
    single, double, number = literal.groups()
    if number is None:
        return [str(double if single is None else single)]
    value = float(number) if "." in number else int(number)
    return [value, value + 1, value - 1]


def _fits(value: JsonValue, schema: JsonSchema, path: Path) -> bool:
    return value is not None and not mismatches(value, schema_at(schema, path))


def _with_field(schema: JsonSchema, path: Path, example: JsonValue) -> JsonSchema:
    """Return a schema that declares the field at a path, with the type of the example if it was undeclared."""
    if not path:
        return schema
    name, *rest = path
    properties = properties_of(schema)
    inner = as_object(properties.get(name))
    if rest:
        return {**schema, "properties": {**properties, name: _with_field(inner, tuple(rest), example)}}
    if name in properties:
        return schema
    return {**schema, "properties": {**properties, name: {"type": scalar_type(example)}}}
