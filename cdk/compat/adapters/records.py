"""Custom decoders, extractors, filters, transformations, migrations and validations, behind our interfaces."""

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping

from cdk.base.errors import ConfigError
from cdk.base.values import Json, JsonSchema
from cdk.compat.airbyte.guard import guard
from cdk.compat.airbyte.http.response import SeenResponse
from cdk.compat.facades.slices import slice_facade
from cdk.declarative.model.context import Names
from cdk.declarative.model.plug_points import Normalize, Select, Transform
from cdk.rest import Response


class CustomDecoderAdapter:
    """A custom decoder: one value stays itself, several become a list."""

    streams = False

    def __init__(self, custom: Json) -> None:
        self._custom = custom

    def decode(self, response: Response) -> Json:
        values = list(self.items(response))
        return values[0] if len(values) == 1 else values

    def items(self, response: Response) -> Iterator[Json]:
        with guard(self._custom, "decode"):
            return iter(list(self._custom.decode(SeenResponse(response))))


class CustomExtractorAdapter:
    """A custom extractor."""

    def __init__(self, custom: Json) -> None:
        self._custom = custom

    def pages(self, response: Response) -> Iterator[list[dict[str, Json]]]:
        with guard(self._custom, "extract_records"):
            records = [record if type(record) is dict else record_of(record)
                     for record in self._custom.extract_records(SeenResponse(response)) or ()]  # fmt: skip
        yield records


def record_of(record: Json) -> Json:
    """A record as a plain dict; what is none stays what it is, for another component to look at."""
    return dict(record) if isinstance(record, Mapping) else record


def transforming(custom: Json, config: Mapping[str, Json]) -> Transform:
    """A custom transformation, for a page of records."""
    known = set(inspect.signature(custom.transform).parameters)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(custom.transform).parameters.values())

    def transform(records: list[dict[str, Json]], names: Names) -> None:
        arguments: dict[str, Json] = {"config": config, "stream_state": {}, "stream_slice": slice_facade(names)}
        if not open_ended:
            arguments = {name: value for name, value in arguments.items() if name in known}
        with guard(custom, "transform"):
            for record in records:
                custom.transform(record, **arguments)

    return transform


def filtering(custom: Json) -> Select:
    """A custom filter, for a page of records."""

    def select(records: list[dict[str, Json]], names: Names) -> list[dict[str, Json]]:
        with guard(custom, "filter_records"):
            selected = custom.filter_records(
                records,
                stream_state={},
                stream_slice=slice_facade(names),
                next_page_token=names.get("next_page_token"),
            )
            return [record if type(record) is dict else dict(record) for record in selected]

    return select


def normalizing(custom: Json, schema: JsonSchema) -> Normalize:
    """A custom schema normalization, for a page of records."""

    def normalize(records: list[dict[str, Json]]) -> None:
        with guard(custom, "transform"):
            for record in records:
                custom.transform(record, schema)

    return normalize


def loading(custom: Json) -> Callable[[], JsonSchema]:
    """A custom schema loader: asked once, since existing loaders change what they gave before."""
    known: list[JsonSchema] = []

    def load() -> JsonSchema:
        if not known:
            with guard(custom, "get_json_schema"):
                known.append(custom.get_json_schema())
        return known[0]

    return load


def migrating(custom: Json) -> Callable[[Json], Json]:
    """A custom state migration. It gets a copy: existing ones change the state they look at."""

    def migrate(state: Json) -> Json:
        copied = copy.deepcopy(state)
        with guard(custom, "migrate"):
            return custom.migrate(copied) if custom.should_migrate(copied) else state

    return migrate


def changing(custom: Json) -> Callable[[dict[str, Json]], None]:
    """A custom change of the config."""

    def change(config: dict[str, Json]) -> None:
        with guard(custom, "transform"):
            custom.transform(config)

    return change


def validating(custom: Json) -> Callable[[Json], None]:
    """A custom validation; its ValueError is the caller's."""

    def validate(value: Json) -> None:
        try:
            custom.validate(value)
        except (ValueError, ConfigError):
            raise
        except Exception as error:
            with guard(custom, "validate"):
                raise error from None

    return validate
