"""Schema loaders, and TypeTransformer, which casts values to a schema's types."""

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass
from typing import TypeAlias

from cdk.base.values import JsonObject, JsonSchema, JsonValue
from cdk.compat.airbyte.custom_object import runtime
from cdk.compat.airbyte.interpolation import InterpolatedString, Text, text_of
from cdk.compat.airbyte.plain_types import Config, Parameters, WithParameters
from cdk.declarative.model.request_plug_points import Normalize
from cdk.declarative.reading.schema_file import read_schema, schema_file
from cdk.declarative.reading.type_normalizer import normalizer


class SchemaLoader(ABC):
    """Loads the JSON Schema of a stream."""

    @abstractmethod
    def get_json_schema(self) -> JsonSchema: ...


@dataclass
class InlineSchemaLoader(WithParameters, SchemaLoader):
    """A schema in the manifest itself."""

    schema: JsonObject
    parameters: InitVar[Parameters]

    def get_json_schema(self) -> JsonSchema:
        return self.schema


def _default_file_path() -> str:
    """The default path of a schema file, as a template."""
    return "./schemas/{{ parameters['name'] }}.json"


@dataclass
class JsonFileSchemaLoader(SchemaLoader):
    """A schema in a file beside the manifest."""

    config: Config
    parameters: InitVar[Parameters]
    file_path: Text = ""

    def __post_init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self.file_path = InterpolatedString.create(self.file_path or _default_file_path(), parameters=parameters)

    def get_json_schema(self) -> JsonSchema:
        folder, name = runtime().folder, text_of(self.file_path, self.config)
        return read_schema(schema_file(folder, name) or folder / name)


class TransformConfig(enum.Flag):
    """Which casts a TypeTransformer applies: the default ones, its custom function, or both."""

    NoTransform = enum.auto()
    DefaultSchemaNormalization = enum.auto()
    CustomSchemaNormalization = enum.auto()


Transform: TypeAlias = Callable[[JsonValue, JsonSchema], JsonValue]


class TypeTransformer:
    """Casts the values of a record to a schema's types: by default rules, by a custom function, or by both."""

    def __init__(self, config: TransformConfig) -> None:
        self._config = config
        self._custom: Transform | None = None
        self._known: _Held = {}

    def registerCustomTransform(self, function: Transform) -> Transform:  # noqa: N802 - airbyte_cdk's name
        """Register a function that takes a value and its schema and returns the new value. Usable as a decorator."""
        self._custom = function
        return function

    def transform(self, record: JsonObject, schema: JsonSchema) -> None:
        usual = TransformConfig.DefaultSchemaNormalization in self._config
        if TransformConfig.CustomSchemaNormalization in self._config and (own := self._custom) is not None:
            convert = self.default_convert
            _walk(record, schema, lambda value, part: own(convert(value, part) if usual else value, part))
        elif usual:
            _held(self._known, schema, normalizer)([record])

    @staticmethod
    def default_convert(original_item: JsonValue, subschema: JsonSchema) -> JsonValue:
        """Cast a value to the single type that its schema names; values nested in it stay unchanged."""
        record: JsonObject = {"value": original_item}
        _held(_OUTER, subschema, _outer)([record])
        return record["value"]


_Held: TypeAlias = dict[int, tuple[JsonSchema, Normalize]]
_OUTER: _Held = {}
"""The cache of `default_convert`, which is a static method."""
_MOST_HELD = 4096


def _held(held: _Held, schema: JsonSchema, make: Callable[[JsonSchema], Normalize]) -> Normalize:
    """Return the normalizer of a schema from a cache by id, which retains the schema so that its id stays unique."""
    if id(schema) not in held:
        if len(held) >= _MOST_HELD:
            held.clear()
        held[id(schema)] = (schema, make(schema))
    return held[id(schema)][1]


def _outer(schema: JsonSchema) -> Normalize:
    """Return a function that casts the field `value` of records to a schema's type, but not values nested in it."""
    around = {name: part for name, part in schema.items() if name != "properties"}
    # The schema of the elements decides how another value becomes a list; the elements of a list stay unchanged.
    of_elements = normalizer({"properties": {"value": around}})
    of_lists = normalizer({"properties": {"value": {n: part for n, part in around.items() if n != "items"}}})

    def normalize(records: list[JsonObject]) -> None:
        (of_lists if isinstance(records[0]["value"], list) else of_elements)(records)

    return normalize


def _walk(value: JsonValue, schema: JsonSchema, cast: Transform) -> None:
    """Cast the values nested in an object or a list, in place: each value first, then those nested in the result."""
    if isinstance(value, dict) and isinstance(properties := schema.get("properties"), Mapping):
        for name, inner in properties.items():
            if name in value and isinstance(inner, Mapping):
                value[name] = cast(value[name], inner)
                _walk(value[name], inner, cast)
    elif isinstance(value, list) and isinstance(inner := schema.get("items"), Mapping):
        for i, item in enumerate(value):
            value[i] = cast(item, inner)
            _walk(value[i], inner, cast)
