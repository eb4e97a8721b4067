"""Decoders, extractors, filters and transformations: from a response to records."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping
from dataclasses import InitVar, dataclass, field

import requests

from cdk.base.values import Json
from cdk.compat.airbyte.interpolation import InterpolatedBoolean, InterpolatedString
from cdk.compat.airbyte.plain_types import Config, StreamSlice, StreamState
from cdk.declarative.syntax.json_edit import set_at
from cdk.rest import path


@dataclass
class Decoder:
    """Reads one format of bodies."""

    def is_stream_response(self) -> bool:
        """Whether bodies are read in pieces."""
        return False

    def decode(self, response: requests.Response) -> Generator[Json, None, None]:
        """The values in a body, one after the other."""
        raise NotImplementedError


@dataclass
class JsonDecoder(Decoder):
    """Bodies that are JSON: an object, or the items of a list; an empty object for a body without any."""

    parameters: InitVar[Mapping[str, Json]]

    def __post_init__(self, parameters: Mapping[str, Json]) -> None: ...

    def decode(self, response: requests.Response) -> Generator[Json, None, None]:
        try:
            body = response.json()
        except requests.JSONDecodeError:
            body = None
        if isinstance(body, list) and body:
            yield from body
        else:
            yield body or {}


class RecordExtractor(ABC):
    """Finds the records of a response."""

    @abstractmethod
    def extract_records(self, response: requests.Response) -> Iterable[Mapping[str, Json]]: ...


@dataclass
class DpathExtractor(RecordExtractor):
    """Records at a path of the body."""

    field_path: list[Json]
    config: Config
    parameters: InitVar[Mapping[str, Json]]
    decoder: Decoder = field(default_factory=lambda: JsonDecoder(parameters={}))

    def __post_init__(self, parameters: Mapping[str, Json]) -> None:
        self._parameters = parameters
        self._field_path = [InterpolatedString.create(step, parameters=parameters) for step in self.field_path]

    def extract_records(self, response: requests.Response) -> Iterable[Mapping[str, Json]]:
        steps = [str(step.eval(self.config)) for step in self._field_path]
        for body in self.decoder.decode(response):
            value = path(*steps)(body)
            if isinstance(value, list):
                yield from value
            elif value:
                yield value


class HttpSelector(ABC):
    """Makes records of a response."""

    @abstractmethod
    def select_records(
        self,
        response: requests.Response,
        stream_state: StreamState,
        records_schema: Mapping[str, Json],
        stream_slice: StreamSlice | None = None,
        next_page_token: Mapping[str, Json] | None = None,
    ) -> Iterable[Mapping[str, Json]]: ...


@dataclass
class RecordFilter:
    """Keeps the records for which a condition holds."""

    parameters: InitVar[Mapping[str, Json]]
    config: Config
    condition: str = ""

    def __post_init__(self, parameters: Mapping[str, Json]) -> None:
        self._parameters = parameters
        self._condition = InterpolatedBoolean(self.condition, parameters=parameters)

    def filter_records(
        self,
        records: Iterable[Mapping[str, Json]],
        stream_state: StreamState,
        stream_slice: StreamSlice | None = None,
        next_page_token: Mapping[str, Json] | None = None,
    ) -> Iterable[Mapping[str, Json]]:
        names = {"stream_state": stream_state, "stream_slice": stream_slice or {}, "next_page_token": next_page_token}
        for record in records:
            if not self.condition or self._condition.eval(self.config, record=record, **names):
                yield record


@dataclass
class RecordSelector(HttpSelector):
    """Extracts, filters, transforms and casts, with the objects that custom code gives it."""

    extractor: RecordExtractor
    config: Config
    parameters: InitVar[Mapping[str, Json]]
    schema_normalization: Json
    name: str = ""
    record_filter: RecordFilter | None = None
    transformations: list[Json] = field(default_factory=list)
    transform_before_filtering: bool = False

    def __post_init__(self, parameters: Mapping[str, Json]) -> None:
        self._parameters = parameters

    def select_records(
        self,
        response: requests.Response,
        stream_state: StreamState,
        records_schema: Mapping[str, Json],
        stream_slice: StreamSlice | None = None,
        next_page_token: Mapping[str, Json] | None = None,
    ) -> Iterable[Mapping[str, Json]]:
        records: Json = list(self.extractor.extract_records(response))
        if self.transform_before_filtering:
            self._transform(records, stream_slice)
        if self.record_filter is not None:
            records = list(self.record_filter.filter_records(records, stream_state, stream_slice, next_page_token))
        if not self.transform_before_filtering:
            self._transform(records, stream_slice)
        for record in records:
            self.schema_normalization.transform(record, records_schema)
            yield record

    def _transform(self, records: Json, stream_slice: StreamSlice | None) -> None:
        for transformation in self.transformations:
            for record in records:
                transformation.transform(record, config=self.config, stream_state={}, stream_slice=stream_slice)


class RecordTransformation:
    """Changes a record in place."""

    def transform(
        self,
        record: dict[str, Json],
        config: Config | None = None,
        stream_state: StreamState | None = None,
        stream_slice: StreamSlice | None = None,
    ) -> None:
        raise NotImplementedError


@dataclass
class AddedFieldDefinition:
    """A field to set: its path, and an expression for its value."""

    path: list[str]
    value: Json
    value_type: type | None
    parameters: InitVar[Mapping[str, Json]]


@dataclass
class ParsedAddFieldDefinition:
    """The same, with the expression compiled."""

    path: list[str]
    value: InterpolatedString
    value_type: type | None
    parameters: InitVar[Mapping[str, Json]]


@dataclass
class AddFields(RecordTransformation):
    """Sets fields of records."""

    fields: list[Json]
    parameters: InitVar[Mapping[str, Json]]
    condition: str = ""
    _parsed_fields: list[ParsedAddFieldDefinition] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self, parameters: Mapping[str, Json]) -> None:
        self._filter_interpolator = InterpolatedBoolean(condition=self.condition, parameters=parameters)
        for written in self.fields:
            # Fields of a manifest come as its components, or, without a type, as they are written.
            item = AddedFieldDefinition(**{**_UNTYPED, **written}) if isinstance(written, dict) else written
            value = InterpolatedString.create(item.value, parameters=parameters)
            value_type = item.value_type
            kind = _TYPES.get(value_type) if isinstance(value_type, str) else value_type
            self._parsed_fields.append(ParsedAddFieldDefinition(list(item.path), value, kind, parameters))

    def transform(
        self,
        record: dict[str, Json],
        config: Mapping[str, Json] | None = None,
        stream_state: Mapping[str, Json] | None = None,  # noqa: ARG002
        stream_slice: Mapping[str, Json] | None = None,
    ) -> None:
        names = {"record": record, "stream_slice": stream_slice}
        for item in self._parsed_fields:
            types = None if item.value_type is None else (item.value_type,)
            value = item.value.eval(config or {}, valid_types=types, **names)
            if not self.condition or self._filter_interpolator.eval(config or {}, value=value, path=item.path, **names):
                set_at(record, item.path, value)


_UNTYPED: dict[str, Json] = {"value_type": None, "parameters": {}}
_TYPES: Mapping[str, type] = {"string": str, "number": float, "integer": int, "boolean": bool}


class ConfigTransformation(ABC):
    """Changes a config in place."""

    @abstractmethod
    def transform(self, config: dict[str, Json]) -> None: ...


class ValidationStrategy(ABC):
    """Raises ValueError for a value it does not accept."""

    @abstractmethod
    def validate(self, value: Json) -> None: ...


class StateMigration:
    """Turns an old form of a state into today's."""

    def should_migrate(self, stream_state: Mapping[str, Json]) -> bool:
        """Whether it is the old form."""
        raise NotImplementedError

    def migrate(self, stream_state: Mapping[str, Json]) -> Mapping[str, Json]:
        raise NotImplementedError
