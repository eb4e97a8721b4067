"""Streams that responses describe: those of HttpComponentsResolver, and schemas of DynamicSchemaLoader.

A retriever requests such a description as it would the pages of a stream. So this module makes a stream of it, whose
records are then simulated like all others.
"""

from collections.abc import Mapping, Sequence

from cdk.base.values import SIMPLE_TYPES, JsonObject, JsonSchema, JsonValue, as_list, as_object
from cdk.declarative.interpolation.template import compile_template
from cdk.declarative.source import ManifestSource
from cdk.streams.source import Source
from cdk.streams.stream import Stream
from cdk.testing.simulator.field_use import documents_of
from cdk.testing.simulator.records import Path, put

FIELDS = 5
"""The number of fields of a schema that a response describes."""


def source_with_resolvers(source: Source) -> tuple[ManifestSource, Sequence[str]] | None:
    """Return the source with a stream for each resolver in place of the streams it makes, and those streams' names.

    None: no streams of the source are described by responses.
    """
    if not isinstance(source, ManifestSource):
        return None
    resolvers, others = list[JsonObject](), list[JsonValue]()
    names = {str(as_object(each).get("name")) for each in as_list(source.resolved.get("streams"))}
    for each in as_list(source.resolved.get("dynamic_streams")):
        resolver = as_object(as_object(each).get("components_resolver"))
        if resolver.get("type") == "HttpComponentsResolver":
            name = str(as_object(each).get("name") or "streams")
            while name in names:
                name = f"{name} of a list"
            names.add(name)
            resolvers.append(_stream(name, resolver["retriever"], _values(resolver)))
        else:
            others.append(each)
    if not resolvers:
        return None
    streams = [*as_list(source.resolved.get("streams")), *resolvers]
    written = source.revised({**source.resolved, "streams": streams, "dynamic_streams": others})
    return written, [str(each["name"]) for each in resolvers]


def source_of_schemas(source: Source, streams: Sequence[Stream]) -> ManifestSource | None:
    """Return a source with a stream for each of the streams' schemas that a response describes; None without any."""
    if not isinstance(source, ManifestSource):
        return None
    readers: dict[str, JsonObject] = {}
    names = {stream.name for stream in streams}
    for document in documents_of(source, streams):
        loader = as_object(document.get("schema_loader"))
        identifier = as_object(loader.get("schema_type_identifier"))
        match document.get("name"), loader.get("type"), identifier.get("schema_pointer") or []:
            case str(name), "DynamicSchemaLoader", [] if name in names:
                readers[name] = _stream(f"{name} field", loader["retriever"], _entries(identifier))
            case _:
                pass
    manifest: JsonObject = {**source.resolved, "streams": [*readers.values()], "dynamic_streams": []}
    return source.revised(manifest) if readers else None


def _stream(name: str, retriever: JsonValue, fields: Mapping[Path, JsonSchema]) -> JsonObject:
    """Return the definition of a stream that a retriever reads. fields: of its records, the key first."""
    schema: JsonObject = {"type": "object"}
    for path, part in fields.items():
        put(schema, [step for each in path for step in ("properties", each)], part)
    return {
        "type": "DeclarativeStream",
        "name": name,
        "primary_key": [[*next(iter(fields))]],
        "retriever": retriever,
        "schema_loader": {"type": "InlineSchemaLoader", "schema": schema},
    }


def _values(resolver: Mapping[str, JsonValue]) -> Mapping[Path, JsonSchema]:
    """Return the fields from which a resolver makes streams, the field of the stream name first."""
    fields: dict[Path, JsonSchema] = {}
    mappings = [*map(as_object, as_list(resolver.get("components_mapping")))]
    for mapping in sorted(mappings, key=lambda each: each.get("field_path") != ["name"]):
        for text in map(mapping.get, ("value", "condition")):
            read = compile_template(text).paths if isinstance(text, str) else ()
            fields |= {tuple(path): {} for scope, *path in read if scope == "components_values" and path}
    return fields or {("name",): {}}


def _entries(identifier: Mapping[str, JsonValue]) -> Mapping[Path, JsonSchema]:
    """Return the fields of a record that describes a field, the one with the field's name first."""
    known = [as_object(each).get("current_type") for each in as_list(identifier.get("types_mapping"))]
    fields: dict[Path, JsonSchema] = {_path(identifier["key_pointer"]): {"type": "string"}}
    if kind := _path(identifier.get("type_pointer")):
        fields[kind] = {"enum": [*filter(None, known)] or [*SIMPLE_TYPES]}
    return fields


def _path(value: JsonValue) -> Path:
    return tuple(map(str, as_list(value)))
