"""Adapters to the plug points, for custom decoders, extractors, filters, transformations, migrations, validations.

Those that process records have an instance for each thread: existing code keeps the page or record that it processes in
its attributes, and slices are read in parallel.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache

from cdk.base.errors import ConfigError, FatalError
from cdk.base.values import JsonObject, JsonSchema, JsonValue, copied, json_kind
from cdk.compat.airbyte.custom_object import CustomObject
from cdk.compat.airbyte.http.response import ResponseFacade
from cdk.compat.facades.slices import slice_in
from cdk.declarative.model.context import Names
from cdk.declarative.model.request_plug_points import Normalize, Select, Transform
from cdk.rest import Response
from cdk.rest.records.extractor import Extractor


class CustomDecoderAdapter:
    """Adapts a custom decoder: a body with one value decodes to that value, any other to a list."""

    streams = False

    def __init__(self, custom: CustomObject) -> None:
        self._custom = custom.by_thread()

    def decode(self, response: Response) -> JsonValue:
        values = list(self.items(response))
        return values[0] if len(values) == 1 else values

    def items(self, response: Response) -> Iterator[JsonValue]:
        with self._custom.calling("decode"):
            return iter(_own(self._custom.call("decode", ResponseFacade(response))))


class CustomExtractorAdapter(Extractor):
    """Adapts a custom extractor; all records of a response are one page."""

    def __init__(self, custom: CustomObject) -> None:
        self._custom = custom.by_thread()

    def pages(self, response: Response) -> Iterator[list[JsonObject]]:
        yield _records(self._custom, "extract_records", ResponseFacade(response))


def _records(custom: CustomObject, method: str, *args: object, **kwargs: object) -> list[JsonObject]:
    """Call a method that returns records. Raises FatalError: when one is no object, which a filter would drop."""
    with custom.calling(method):
        records = _own(custom.call(method, *args, **kwargs))
    for number, record in enumerate(records):
        if type(record) is not dict:
            why = f"returned {json_kind(record)} as record {number}, expected objects; have it return dicts"
            raise FatalError(f"the custom component {custom.name}.{method} {why}")
    return records


def _own(records: Iterable[JsonObject]) -> list[JsonObject]:
    """Convert records to a list of plain dicts; items that are not records stay.

    Records from a generator are copied, because it may refill the same dict for the next record.
    """
    if type(records) is not list:
        return [copied(record) for record in records]
    return [record if type(record) is dict or not isinstance(record, Mapping) else dict(record) for record in records]


def transforming(custom: CustomObject, config: Mapping[str, JsonValue]) -> Transform:
    """Adapt a custom transformation to pages of records."""
    custom = custom.by_thread()
    parameters = custom.parameters("transform")
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())

    def transform(records: list[JsonObject], names: Names) -> None:
        arguments = {"config": config, "stream_state": {}, "stream_slice": slice_in(names)}
        if not takes_any:
            arguments = {name: value for name, value in arguments.items() if name in parameters}
        with custom.calling("transform"):
            call = custom.get("transform")
            for record in records:
                call(record, **arguments)

    return transform


def filtering(custom: CustomObject) -> Select:
    """Adapt a custom filter to pages of records."""
    custom = custom.by_thread()

    def select(records: list[JsonObject], names: Names) -> list[JsonObject]:
        token = names.get("next_page_token")
        slice = slice_in(names)
        return _records(custom, "filter_records", records, stream_state={}, stream_slice=slice, next_page_token=token)

    return select


def normalizing(custom: CustomObject, schema: JsonSchema) -> Normalize:
    """Adapt a custom schema normalization to pages of records."""
    custom = custom.by_thread()

    def normalize(records: list[JsonObject]) -> None:
        for record in records:
            custom.call("transform", record, schema)

    return normalize


def loading(custom: CustomObject) -> Callable[[], JsonSchema]:
    """Adapt a custom schema loader. It is called once, because existing loaders modify the schema they returned."""

    @cache
    def load() -> JsonSchema:
        schema: JsonSchema = custom.call("get_json_schema")
        return schema

    return load


def migrating(custom: CustomObject) -> Callable[[JsonValue], JsonValue]:
    """Adapt a custom state migration.

    It gets a copy, because existing migrations modify their argument, and an empty state if there is no state.
    """

    def migrate(state: JsonValue) -> JsonValue:
        own_state = {} if state is None else copy.deepcopy(state)
        migrated: JsonValue = custom.call("migrate", own_state) if custom.call("should_migrate", own_state) else state
        return migrated

    return migrate


def validating(custom: CustomObject) -> Callable[[JsonValue], None]:
    """Adapt a custom validation. Its ValueErrors and ConfigErrors pass through to the caller."""

    def validate(value: JsonValue) -> None:
        with custom.calling("validate"):
            try:
                custom.get("validate")(value)
            except (ValueError, ConfigError) as error:
                rejection = error
            else:
                return
        raise rejection

    return validate
