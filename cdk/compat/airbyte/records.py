"""Decoders, extractors, filters and transformations, which turn a response into records."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from functools import partial
from typing import Any

import requests

from cdk.base.values import JsonObject, JsonSchema, JsonValue
from cdk.compat.airbyte.interpolation import InterpolatedBoolean, InterpolatedString, Text
from cdk.compat.airbyte.plain_types import Config, Parameters, StreamSlice, StreamState, Token, WithParameters
from cdk.compat.airbyte.schemas import TypeTransformer
from cdk.declarative.syntax.json_edit import set_at
from cdk.rest import path


@dataclass
class Decoder:
    """Parses response bodies of one format."""

    def is_stream_response(self) -> bool:
        """Whether the body is read while it arrives."""
        return False

    def decode(self, response: requests.Response) -> Generator[JsonValue, None, None]:
        """Yield the values of a body."""
        raise NotImplementedError


@dataclass
class JsonDecoder(WithParameters, Decoder):
    """Parses JSON bodies: yields an object, or the items of a list; an empty object if the body is empty or invalid."""

    parameters: InitVar[Parameters]

    def decode(self, response: requests.Response) -> Generator[JsonValue, None, None]:
        try:
            body = response.json()
        except requests.JSONDecodeError:
            body = None
        if isinstance(body, list) and body:
            yield from body
        else:
            yield body or {}


class RecordExtractor(ABC):
    """Extracts the records of a response."""

    @abstractmethod
    def extract_records(self, response: requests.Response) -> Iterable[JsonObject]: ...


@dataclass
class DpathExtractor(RecordExtractor):
    """Extracts the records at a path of the body."""

    field_path: list[Text]
    config: Config
    parameters: InitVar[Parameters]
    decoder: Decoder = field(default_factory=lambda: JsonDecoder(parameters={}))

    def __post_init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._field_path = [InterpolatedString.create(step, parameters=parameters) for step in self.field_path]

    def extract_records(self, response: requests.Response) -> Iterable[JsonObject]:
        steps = [step.text(self.config) for step in self._field_path]
        for body in self.decoder.decode(response):
            value: Any = path(*steps)(body)
            if isinstance(value, list):
                yield from value
            elif value:
                yield value


class HttpSelector(ABC):
    """Turns a response into records."""

    @abstractmethod
    def select_records(
        self,
        response: requests.Response,
        stream_state: StreamState,
        records_schema: JsonSchema,
        stream_slice: StreamSlice | None = None,
        next_page_token: Token | None = None,
    ) -> Iterable[JsonObject]: ...


@dataclass
class RecordFilter:
    """Keeps the records for which a condition holds."""

    parameters: InitVar[Parameters]
    config: Config
    condition: str = ""

    def __post_init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._condition = InterpolatedBoolean(self.condition, parameters=parameters)

    def filter_records(
        self,
        records: Iterable[JsonObject],
        stream_state: StreamState,
        stream_slice: StreamSlice | None = None,
        next_page_token: Token | None = None,
    ) -> Iterable[JsonObject]:
        names = {"stream_state": stream_state, "stream_slice": stream_slice or {}, "next_page_token": next_page_token}
        for record in records:
            if not self.condition or self._condition.eval(self.config, record=record, **names):
                yield record


@dataclass
class RecordSelector(WithParameters, HttpSelector):
    """Extracts, filters, transforms and casts records with the objects that custom code passes to it."""

    extractor: RecordExtractor
    config: Config
    parameters: InitVar[Parameters]
    schema_normalization: TypeTransformer
    name: str = ""
    record_filter: RecordFilter | None = None
    transformations: list["RecordTransformation"] = field(default_factory=list)
    transform_before_filtering: bool = False

    def select_records(
        self,
        response: requests.Response,
        stream_state: StreamState,
        records_schema: JsonSchema,
        stream_slice: StreamSlice | None = None,
        next_page_token: Token | None = None,
    ) -> Iterable[JsonObject]:
        records = list(self.extractor.extract_records(response))
        if self.transform_before_filtering:
            self._transform(records, stream_slice)
        if self.record_filter is not None:
            records = list(self.record_filter.filter_records(records, stream_state, stream_slice, next_page_token))
        if not self.transform_before_filtering:
            self._transform(records, stream_slice)
        for record in records:
            self.schema_normalization.transform(record, records_schema)
            yield record

    def _transform(self, records: Iterable[JsonObject], stream_slice: StreamSlice | None) -> None:
        for transformation in self.transformations:
            for record in records:
                transformation.transform(record, config=self.config, stream_state={}, stream_slice=stream_slice)


class RecordTransformation:
    """Changes a record in place."""

    def transform(
        self,
        record: JsonObject,
        config: Config | None = None,
        stream_state: StreamState | None = None,
        stream_slice: StreamSlice | None = None,
    ) -> None:
        raise NotImplementedError


@dataclass
class AddedFieldDefinition:
    """A field to set: its path, and an expression for its value."""

    path: list[str]
    value: Text
    value_type: type | None
    parameters: InitVar[Parameters]


@dataclass
class ParsedAddFieldDefinition:
    """A field to set, with its expression compiled."""

    path: list[str]
    value: InterpolatedString
    value_type: type | None
    parameters: InitVar[Parameters]


@dataclass
class AddFields(RecordTransformation):
    """Sets fields of records to the results of expressions."""

    fields: list[AddedFieldDefinition | JsonObject]
    parameters: InitVar[Parameters]
    condition: str = ""
    _parsed_fields: list[ParsedAddFieldDefinition] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self, parameters: Parameters) -> None:
        self._filter_interpolator = InterpolatedBoolean(condition=self.condition, parameters=parameters)
        for written in self.fields:
            # Definitions from a manifest are its components or, without a type, plain dicts.
            get: Any = written.get if isinstance(written, dict) else partial(getattr, written)
            value_type = get("value_type", None)
            self._parsed_fields.append(
                ParsedAddFieldDefinition(
                    list(get("path")),
                    InterpolatedString.create(get("value"), parameters=parameters),
                    _TYPES.get(value_type) if isinstance(value_type, str) else value_type,
                    parameters,
                )
            )

    def transform(
        self,
        record: JsonObject,
        config: Config | None = None,
        stream_state: StreamState | None = None,  # noqa: ARG002
        stream_slice: StreamSlice | None = None,
    ) -> None:
        names: dict[str, object] = {"record": record, "stream_slice": stream_slice}
        for item in self._parsed_fields:
            types = None if item.value_type is None else (item.value_type,)
            value = item.value.eval(config or {}, valid_types=types, **names)
            if not self.condition or self._filter_interpolator.eval(config or {}, value=value, path=item.path, **names):
                set_at(record, item.path, value)


_TYPES: Mapping[object, type] = {"string": str, "number": float, "integer": int, "boolean": bool}


class ConfigTransformation(ABC):
    """Changes a config in place."""

    @abstractmethod
    def transform(self, config: JsonObject) -> None: ...


class ValidationStrategy(ABC):
    """Validates a value, and raises ValueError if it is not acceptable."""

    @abstractmethod
    def validate(self, value: JsonValue) -> None: ...


class StateMigration:
    """Converts an old form of a state to the current one."""

    def should_migrate(self, stream_state: StreamState) -> bool:
        """Whether the state has the old form."""
        raise NotImplementedError

    def migrate(self, stream_state: StreamState) -> StreamState:
        raise NotImplementedError
