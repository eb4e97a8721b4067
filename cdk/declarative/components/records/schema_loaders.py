"""Schema loaders: where a stream's JSON Schema comes from."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import islice

from msgspec import field

from cdk.base.errors import ManifestError
from cdk.base.logs import logger
from cdk.base.values import JsonObject, JsonSchema, JsonValue, json_kind
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import NO_NAMES, BuildContext
from cdk.declarative.model.request_plug_points import AnyRecordFilter, AnyTransformation
from cdk.declarative.model.stream_plug_points import AnyRetriever, AnySchemaLoader, SliceReader, StreamParts
from cdk.declarative.reading.schema_file import named_file, read_schema, schema_file
from cdk.rest import path
from cdk.rest.http.json_path import absence
from cdk.state.slice import Slice
from cdk.streams.page import records_in


class InlineSchemaLoader(AnySchemaLoader):
    """Takes the schema from the manifest.

    Example:
        type: InlineSchemaLoader
        schema:
          type: object
          properties:
            id: {type: integer}
    """

    schema_: JsonObject = field(name="schema", default={})
    """The JSON Schema of a record."""

    def build(self, ctx: BuildContext) -> Callable[[], JsonSchema]:
        return lambda: self.schema_


class JsonFileSchemaLoader(AnySchemaLoader):
    """Reads the schema from a JSON file beside the manifest. `$ref: address.json` in it means `shared/address.json`.

    Example:
        type: JsonFileSchemaLoader
        file_path: ./schemas/users.json
    """

    file_path: str | None = None
    """Path of the file; `./schemas/<name of the stream>.json` by default."""

    def build(self, ctx: BuildContext) -> Callable[[], JsonSchema]:
        """Return a function that loads the schema. It raises ManifestError: when the file is missing or invalid."""
        return self._loader(ctx, missing=None)

    def optional(self, ctx: BuildContext) -> Callable[[], JsonSchema]:
        """Return a function that loads the schema; without a file, the schema is empty."""
        return self._loader(ctx, missing={})

    def _loader(self, ctx: BuildContext, *, missing: JsonSchema | None) -> Callable[[], JsonSchema]:
        name = self.parameters.get("name") or ctx.stream
        explicit = self.file_path is not None
        text = ctx.expression(self, "file_path").text() if explicit else f"./schemas/{name}.json"

        def load() -> JsonSchema:
            folder = ctx.runtime.folder
            if missing is not None and schema_file(folder, text) is None:
                return missing
            return read_schema(named_file(folder, text, ctx.where(self, "file_path")))

        return load


def merged(loaders: Sequence[Callable[[], JsonSchema]]) -> Callable[[], JsonSchema]:
    """Return a function that merges the properties of several schemas, and nothing else; the earlier schema wins."""

    def load() -> JsonSchema:
        properties: JsonObject = {}
        for part in reversed([loader() for loader in loaders]):
            if isinstance(more := part.get("properties"), Mapping):
                properties |= more
        return {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": ["null", "object"],
            "properties": properties,
        }

    return load


class TypesMap(Component):
    """Maps a type of the API to a type in JSON Schema.

    Example:
        type: TypesMap
        current_type: text
        target_type: string
    """

    target_type: "str | list[str] | ComplexFieldType"
    """The type in JSON Schema."""
    current_type: str | list[str]
    """The type as the API names it, or its list of types."""
    condition: str | None = None
    """Whether this mapping applies; reads `raw_schema`."""


class ComplexFieldType(Component):
    """An array type, with the type of its elements.

    Example:
        type: ComplexFieldType
        field_type: array
        items: string
    """

    field_type: str
    """The JSON Schema type."""
    items: "str | ComplexFieldType | None" = None
    """The type of the elements."""

    def schema_of(self) -> JsonObject:
        schema = _type_schema(self.field_type)
        return schema if self.items is None else {**schema, "items": _target_schema(self.items)}


class SchemaTypeIdentifier(Component, kw_only=True):
    """Where a response describes the fields of records and their types.

    Example:
        type: SchemaTypeIdentifier
        schema_pointer: [fields]
        key_pointer: [name]
        type_pointer: [type]
        types_mapping:
          - {type: TypesMap, current_type: text, target_type: string}
    """

    schema_pointer: list[str] = []
    """Path of the list of fields in the first record; if empty, each record describes one field."""
    key_pointer: list[str]
    """Path of a field's name in its description."""
    type_pointer: list[str] | None = None
    """Path of a field's type in its description; without it, all fields are strings."""
    types_mapping: list[TypesMap] | None = None
    """How the API's types map to JSON Schema types."""


class DynamicSchemaLoader(AnySchemaLoader):
    """Builds the schema from a description that the API returns.

    Example:
        type: DynamicSchemaLoader
        retriever:
          type: SimpleRetriever
          requester: {type: HttpRequester, url: "https://api.example.com/fields"}
          record_selector:
            type: RecordSelector
            extractor: {type: DpathExtractor, field_path: []}
        schema_type_identifier:
          type: SchemaTypeIdentifier
          key_pointer: [name]
    """

    retriever: AnyRetriever
    """Reads the description of the fields."""
    schema_type_identifier: SchemaTypeIdentifier
    """Where in the description the names and types are."""
    schema_filter: AnyRecordFilter | None = None
    """Which fields the schema has; `record` is an object with one key, the field's name, whose value is its schema."""
    schema_transformations: list[AnyTransformation] = []
    """Transformations of the schema's properties."""

    def build(self, ctx: BuildContext) -> Callable[[], JsonSchema]:
        """Return a function that fetches the schema on first use."""
        reader = self.retriever.build(ctx, StreamParts(f"{ctx.stream} schema"))
        transforms = [item.build(ctx) for item in self.schema_transformations]
        select = None if self.schema_filter is None else self.schema_filter.build(ctx)

        def load() -> JsonSchema:
            properties = self._properties(ctx, reader)
            for transform in transforms:
                transform([properties], NO_NAMES)
            if select is not None:
                selected = select([{name: part} for name, part in properties.items()], NO_NAMES)
                properties = {name: part for item in selected for name, part in item.items()}
            return {
                "$schema": "https://json-schema.org/draft-07/schema#",
                "type": "object",
                "additionalProperties": True,
                "properties": properties,
            }

        return cache(load)

    def _properties(self, ctx: BuildContext, reader: SliceReader) -> JsonObject:
        where = self.schema_type_identifier
        list_of, name_of = path(*ctx.strings(where, "schema_pointer")), path(*ctx.strings(where, "key_pointer"))
        properties: JsonObject = {}
        records, missing = records_in(reader.read(Slice())), "no record in the response that describes the fields"
        for record in islice(records, 1) if where.schema_pointer else records:
            value, missing = list_of(record), absence(record, ctx.strings(where, "schema_pointer"), "the description")
            for entry in value if isinstance(value, list) else [] if value is None else [value]:
                name = name_of(entry)
                if name is None:
                    problem = f"found nothing there in {json_kind(entry)}, expected the name of a field"
                    raise ManifestError(f"{ctx.where(where, 'key_pointer')}: {problem}")
                properties[str(name)] = self._field(ctx, entry)
        if missing and not properties:
            words = "%s: there is %s, so the schema has no fields, and columns get the types of their values"
            logger.warning(words, ctx.where(where, "schema_pointer"), missing)
        return properties

    def _field(self, ctx: BuildContext, entry: JsonValue) -> JsonObject:
        where = self.schema_type_identifier
        if where.type_pointer is None:
            return _type_schema("string")
        type_value = path(*ctx.strings(where, "type_pointer"))(entry)
        for item in where.types_mapping or ():
            held = item.condition is None or ctx.expression(item, "condition").true({"raw_schema": entry})
            if held and type_value == item.current_type:
                return _target_schema(item.target_type)
        try:
            return _type_schema(type_value if type_value is not None else "string")
        except ManifestError as error:
            raise ManifestError(f"{ctx.where(where, 'types_mapping')}: {error.message}; map it to one") from None


def _target_schema(target: str | list[str] | ComplexFieldType) -> JsonObject:
    return target.schema_of() if isinstance(target, ComplexFieldType) else _type_schema(target)


def _type_schema(kind: JsonValue) -> JsonObject:
    """Return the nullable JSON Schema of a type's name. Raises ManifestError: when the type is unknown."""
    if isinstance(kind, list):
        if len(kind) == 2 and all(item in _SCHEMAS for item in kind):  # noqa: PLR2004 - two alternatives
            return {"oneOf": [_type_schema(item) for item in kind]}
        raise ManifestError(f"found the types {kind!r}, expected two of {', '.join(_SCHEMAS)}")
    if not isinstance(kind, str) or kind not in _SCHEMAS:
        raise ManifestError(f"found the type {kind!r}, expected one of {', '.join(_SCHEMAS)}")
    return {**_SCHEMAS[kind]}


_SCHEMAS: dict[str, JsonObject] = {
    "array": {"type": ["null", "array"]},
    "boolean": {"type": ["null", "boolean"]},
    "date": {"type": ["null", "string"], "format": "date"},
    "timestamp_without_timezone": {
        "type": ["null", "string"],
        "format": "date-time",
        "airbyte_type": "timestamp_without_timezone",
    },
    "timestamp_with_timezone": {"type": ["null", "string"], "format": "date-time"},
    "time_without_timezone": {"type": ["null", "string"], "format": "time", "airbyte_type": "time_without_timezone"},
    "time_with_timezone": {"type": ["null", "string"], "format": "time", "airbyte_type": "time_with_timezone"},
    "integer": {"type": ["null", "integer"]},
    "number": {"type": ["null", "number"]},
    "object": {"type": ["null", "object"]},
    "string": {"type": ["null", "string"]},
}
"""The types of the language in JSON Schema (Airbyte's data types)."""
