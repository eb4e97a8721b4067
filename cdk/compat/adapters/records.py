"""Custom decoders, extractors, filters, transformations, migrations and validations, behind the plug points."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache

from cdk.base.errors import ConfigError
from cdk.base.values import JsonObject, JsonSchema, JsonValue, copied
from cdk.compat.airbyte.custom_object import CustomObject
from cdk.compat.airbyte.http.response import ResponseFacade
from cdk.compat.facades.slices import slice_in
from cdk.declarative.model.context import Names
from cdk.declarative.model.plug_points import Normalize, Select, Transform
from cdk.rest import Response
from cdk.rest.records.extractor import Extractor


class CustomDecoderAdapter:
    """A custom decoder: one value stays itself, several become a list."""

    streams = False

    def __init__(self, custom: CustomObject) -> None:
        self._custom = custom

    def decode(self, response: Response) -> JsonValue:
        values = list(self.items(response))
        return values[0] if len(values) == 1 else values

    def items(self, response: Response) -> Iterator[JsonValue]:
        with self._custom.at_work("decode"):
            return iter(_own(self._custom.call("decode", ResponseFacade(response))))


class CustomExtractorAdapter(Extractor):
    """Calls the extractor that custom code is."""

    def __init__(self, custom: CustomObject) -> None:
        self._custom = custom

    def pages(self, response: Response) -> Iterator[list[JsonObject]]:
        with self._custom.at_work("extract_records"):
            records = _own(self._custom.call("extract_records", ResponseFacade(response)))
        yield records


def _own(records: Iterable[JsonObject]) -> list[JsonObject]:
    """Records as plain dicts; what is none stays what it is, for another component to look at.

    Those that are not in a list yet are copied: who yields them may fill the same dict again for the next one.
    """
    if type(records) is not list:
        return [copied(record) for record in records]
    return [record if type(record) is dict or not isinstance(record, Mapping) else dict(record) for record in records]


def transforming(custom: CustomObject, config: Mapping[str, JsonValue]) -> Transform:
    """A custom transformation, for a page of records."""
    parameters = custom.parameters("transform")
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())

    def transform(records: list[JsonObject], names: Names) -> None:
        arguments = {"config": config, "stream_state": {}, "stream_slice": slice_in(names)}
        if not takes_any:
            arguments = {name: value for name, value in arguments.items() if name in parameters}
        with custom.at_work("transform"):
            call = custom.get("transform")
            for record in records:
                call(record, **arguments)

    return transform


def filtering(custom: CustomObject) -> Select:
    """A custom filter, for a page of records."""

    def select(records: list[JsonObject], names: Names) -> list[JsonObject]:
        token = names.get("next_page_token")
        with custom.at_work("filter_records"):
            selected = custom.call(
                "filter_records", records, stream_state={}, stream_slice=slice_in(names), next_page_token=token
            )
            return _own(selected)

    return select


def normalizing(custom: CustomObject, schema: JsonSchema) -> Normalize:
    """A custom schema normalization, for a page of records."""

    def normalize(records: list[JsonObject]) -> None:
        for record in records:
            custom.call("transform", record, schema)

    return normalize


def loading(custom: CustomObject) -> Callable[[], JsonSchema]:
    """A custom schema loader: asked once, since existing loaders change what they gave before."""

    @cache
    def load() -> JsonSchema:
        schema: JsonSchema = custom.call("get_json_schema")
        return schema

    return load


def migrating(custom: CustomObject) -> Callable[[JsonValue], JsonValue]:
    """A custom state migration. It gets a copy: existing ones change the state they look at; an empty one for none."""

    def migrate(state: JsonValue) -> JsonValue:
        copied = {} if state is None else copy.deepcopy(state)
        migrated: JsonValue = custom.call("migrate", copied) if custom.call("should_migrate", copied) else state
        return migrated

    return migrate


def changing(custom: CustomObject) -> Callable[[JsonObject], None]:
    """A custom change of the config."""

    def change(config: JsonObject) -> None:
        custom.call("transform", config)

    return change


def validating(custom: CustomObject) -> Callable[[JsonValue], None]:
    """A custom validation; its ValueError is the caller's."""

    def validate(value: JsonValue) -> None:
        with custom.at_work("validate"):
            try:
                custom.get("validate")(value)
            except (ValueError, ConfigError) as error:
                rejection = error
            else:
                return
        raise rejection

    return validate
