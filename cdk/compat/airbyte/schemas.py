"""Schema loaders and the casting of values to a schema's types."""

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass
from typing import TypeAlias

from cdk.base.values import JsonObject, JsonSchema, JsonValue
from cdk.compat.airbyte.custom_object import runtime
from cdk.compat.airbyte.interpolation import InterpolatedString, Text, text_of
from cdk.compat.airbyte.plain_types import Config, Parameters, WithParameters
from cdk.declarative.model.plug_points import Normalize
from cdk.declarative.reading.schema_file import read_schema
from cdk.declarative.reading.type_normalizer import normalizer


class SchemaLoader(ABC):
    """Finds the JSON Schema of a stream."""

    @abstractmethod
    def get_json_schema(self) -> JsonSchema: ...


@dataclass
class InlineSchemaLoader(WithParameters, SchemaLoader):
    """A schema that is given."""

    schema: JsonObject
    parameters: InitVar[Parameters]

    def get_json_schema(self) -> JsonSchema:
        return self.schema


def _default_file_path() -> str:
    """The path of a schema's file by default, as an expression."""
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
        return read_schema(runtime().folder / text_of(self.file_path, self.config))


class TransformConfig(enum.Flag):
    """Which casts a TypeTransformer makes: those of the schema, its own, or both."""

    NoTransform = enum.auto()
    DefaultSchemaNormalization = enum.auto()
    CustomSchemaNormalization = enum.auto()


Transform: TypeAlias = Callable[[JsonValue, JsonSchema], JsonValue]


class TypeTransformer:
    """Casts the values of a record to the types of a schema, as usual, by a function of its own, or both."""

    def __init__(self, config: TransformConfig) -> None:
        self._config = config
        self._custom: Transform | None = None
        self._known: dict[int, tuple[JsonSchema, Normalize]] = {}

    def registerCustomTransform(self, function: Transform) -> Transform:  # noqa: N802 - the name there
        """Take a function from a value and its schema to its new value."""
        self._custom = function
        return function

    def transform(self, record: JsonObject, schema: JsonSchema) -> None:
        if TransformConfig.DefaultSchemaNormalization in self._config:
            self._usual(schema)([record])
        if TransformConfig.CustomSchemaNormalization in self._config and self._custom is not None:
            _walk(record, schema, self._custom)

    def _usual(self, schema: JsonSchema) -> Normalize:
        held = self._known.get(id(schema))
        if held is None:
            # The schema is kept, so that its id stays its own.
            held = self._known[id(schema)] = (schema, normalizer(schema))
        return held[1]


def _walk(value: JsonValue, schema: JsonSchema, cast: Transform) -> None:
    """Cast what lies in an object or a list: what is inside first, then the value itself."""
    if isinstance(value, dict) and isinstance(properties := schema.get("properties"), Mapping):
        for name, inner in properties.items():
            if name in value and isinstance(inner, Mapping):
                _walk(value[name], inner, cast)
                value[name] = cast(value[name], inner)
    elif isinstance(value, list) and isinstance(inner := schema.get("items"), Mapping):
        for i, item in enumerate(value):
            _walk(item, inner, cast)
            value[i] = cast(item, inner)
