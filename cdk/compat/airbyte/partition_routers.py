"""Partition routers and cursors: which partitions a stream is read for, and which window of each."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field

from cdk.base.errors import ManifestError
from cdk.base.values import JsonObject, JsonValue, Record
from cdk.compat.airbyte.datetimes import DatetimeParser
from cdk.compat.airbyte.http.requesters import PART_METHODS, RequestOption, RequestOptionsProvider, RequestOptionType
from cdk.compat.airbyte.interpolation import InterpolatedString, Text, text_of
from cdk.compat.airbyte.plain_types import Config, Parameters, StreamSlice, StreamState, WithParameters
from cdk.compat.airbyte.records import StateMigration
from cdk.compat.airbyte.streams import StreamFacade
from cdk.declarative.components.requests.request_options import is_empty
from cdk.declarative.components.streams.partition_routers import SubstreamPartitionRouter as ManifestSubstreams
from cdk.declarative.model.slice_names import PARENT_SLICE
from cdk.declarative.syntax.json_edit import set_at
from cdk.rest import path
from cdk.state.slice import Partition
from cdk.state.stream_state import StreamState as NativeState
from cdk.streams.checkpoint.parent_state import ParentState
from cdk.streams.partitions import child_partitions, product


class StreamSlicer(RequestOptionsProvider):
    """Lists the slices that a stream is read for."""

    def stream_slices(self) -> Iterable[StreamSlice]:
        raise NotImplementedError

    # Existing subclasses also pass these arguments by position.

    def get_request_params(self, *args: object, **names: object) -> Mapping[str, JsonValue]:
        return super().get_request_params(**_by_name(args, names))

    def get_request_headers(self, *args: object, **names: object) -> Mapping[str, JsonValue]:
        return super().get_request_headers(**_by_name(args, names))

    def get_request_body_data(self, *args: object, **names: object) -> Mapping[str, JsonValue] | str:
        return super().get_request_body_data(**_by_name(args, names))

    def get_request_body_json(self, *args: object, **names: object) -> JsonValue:
        return super().get_request_body_json(**_by_name(args, names))


def _by_name(args: Iterable[object], names: Mapping[str, object]) -> dict[str, object]:
    return {**dict(zip(("stream_state", "stream_slice", "next_page_token"), args, strict=False)), **names}


class PartitionRouter(StreamSlicer):
    """Lists the partitions that a stream is read for, and has the state of its parents."""

    def get_stream_state(self) -> StreamState | None:
        """Return None: the kit keeps the state of the parents itself."""
        return None


@dataclass
class SinglePartitionRouter(WithParameters, PartitionRouter):
    """A router with a single empty slice."""

    parameters: InitVar[Parameters]

    def stream_slices(self) -> Iterable[StreamSlice]:
        yield StreamSlice(partition={}, cursor_slice={})


class Placing(PartitionRouter):
    """Puts fields of the slice into the parts of a request that its request options name."""

    config: Config

    def _options(self) -> Iterator[tuple[RequestOption | None, str]]:
        raise NotImplementedError

    def _part(self, where: str, names: Mapping[str, object]) -> JsonObject:
        return self._get_request_option(RequestOptionType(where), names.get("stream_slice"))

    def _get_request_option(self, option_type: RequestOptionType, stream_slice: object) -> JsonObject:
        """The fields for one part of a request."""
        slice, values = stream_slice, JsonObject()
        if isinstance(slice, Mapping):
            for option, name in self._options():
                if option is not None and option.inject_into is option_type and not is_empty(slice.get(name)):
                    steps: Sequence[Text] = option.field_path or [option.field_name]
                    set_at(values, [text_of(step, self.config) for step in steps], slice[name])
        return values


@dataclass
class ListPartitionRouter(Placing):
    """A router with one slice for each value of a list."""

    values: JsonValue
    cursor_field: Text
    config: Config
    parameters: InitVar[Parameters]
    request_option: RequestOption | None = None

    def __post_init__(self, parameters: Parameters) -> None:
        if isinstance(self.values, str):
            self.values = InterpolatedString.create(self.values, parameters=parameters).eval(self.config)
        self._cursor_field = InterpolatedString.create(self.cursor_field, parameters=parameters)

    def stream_slices(self) -> Iterable[StreamSlice]:
        name = self._cursor_field.text(self.config)
        values = self.values if isinstance(self.values, list | tuple) else ()
        return [StreamSlice(partition={name: value}, cursor_slice={}) for value in values]

    def _options(self) -> Iterator[tuple[RequestOption | None, str]]:
        yield self.request_option, self._cursor_field.text(self.config)


@dataclass
class ParentStreamConfig:
    """A parent stream, and how its records become slices."""

    stream: StreamFacade
    parent_key: Text
    partition_field: Text
    config: Config
    parameters: InitVar[Parameters]
    extra_fields: Sequence[Sequence[str]] | None = None
    request_option: RequestOption | None = None
    incremental_dependency: bool = False
    lazy_read_pointer: Sequence[Text] | None = None

    def __post_init__(self, parameters: Parameters) -> None:
        self.parent_key = InterpolatedString.create(self.parent_key, parameters=parameters)
        self.partition_field = InterpolatedString.create(self.partition_field, parameters=parameters)


@dataclass
class SubstreamPartitionRouter(WithParameters, Placing):
    """A router with one slice for each record of its parent streams.

    The progress of a parent with `incremental_dependency` counts once all slices were read, whatever a subclass does
    with the slices. If several configs have the same parent stream, the progress of the first one counts.
    """

    parent_stream_configs: list[ParentStreamConfig]
    config: Config
    parameters: InitVar[Parameters]
    _resume_from: Mapping[str, NativeState] = field(default_factory=dict, init=False, repr=False)
    _progress: dict[str, ParentState] = field(default_factory=dict, init=False, repr=False)
    _first: dict[str, ParentStreamConfig] = field(default_factory=dict, init=False, repr=False)

    @property
    def logger(self) -> logging.Logger:
        return logging.getLogger("airbyte.SubstreamPartitionRouter")

    def follow(self, states: Mapping[str, NativeState], progress: dict[str, ParentState]) -> None:
        """Read parents from their states, and write the states that they reach into `progress`; both are by name."""
        self._resume_from, self._progress, self._first = states, progress, {}

    def stream_slices(self) -> Iterable[StreamSlice]:
        for parent in self.parent_stream_configs:
            yield from self._slices(parent)

    def _slices(self, parent: ParentStreamConfig) -> Iterator[StreamSlice]:
        name, followed = parent.stream.name, parent.incremental_dependency
        counts = followed and self._first.setdefault(name, parent) is parent
        value_of = path(*text_of(parent.parent_key, self.config).strip("/").split("/"))
        field_name = text_of(parent.partition_field, self.config)

        def child(record: Record, partition: Partition) -> StreamSlice | None:
            if (value := value_of(record)) is None:
                return None
            return StreamSlice(
                partition={field_name: value, "parent_slice": dict(partition)},
                extra_fields=self._extract_extra_fields(record, parent.extra_fields),
            )

        for item in child_partitions(parent.stream.native, child, self._resume_from.get(name) if followed else None):
            match item:
                case StreamSlice():
                    yield item
                case ParentState() if counts:
                    self._progress[name] = item
                case _:
                    pass

    def _extract_extra_fields(
        self, parent_record: Record, extra_fields: Sequence[Sequence[str]] | None = None
    ) -> JsonObject:
        """The values at paths of a record, each under its path joined by dots."""
        return {".".join(steps): path(*steps)(parent_record) for steps in extra_fields or ()}

    def _options(self) -> Iterator[tuple[RequestOption | None, str]]:
        for parent in self.parent_stream_configs:
            yield parent.request_option, text_of(parent.partition_field, self.config)


@dataclass
class CartesianProductStreamSlicer(WithParameters, PartitionRouter):
    """A router with every combination of the slices of several routers."""

    stream_slicers: list[PartitionRouter]
    parameters: InitVar[Parameters]

    def stream_slices(self) -> Iterable[StreamSlice]:
        families = [[Partition(slice) for slice in slicer.stream_slices()] for slicer in self.stream_slicers]
        return [StreamSlice(partition=dict(each)) for each in product(*families, shared_fields=True)]

    def _part(self, where: str, names: Mapping[str, object]) -> JsonObject:
        values: JsonObject = {}
        for slicer in self.stream_slicers:
            values |= getattr(slicer, PART_METHODS[where])(**names) or {}
        return values


class LegacyToPerPartitionStateMigration(StateMigration):
    """Converts a state that maps partition values to cursors, `{"13": {"at": "..."}}`, to a list of partitions."""

    def __init__(self, partition_router: object, cursor: object, config: Config, parameters: Parameters) -> None:
        """partition_router, cursor: as the manifest has them. Raises ManifestError: one of them names no field."""
        router = partition_router[0] if isinstance(partition_router, list) else partition_router
        self._partition_router, self._cursor, self._config, self._parameters = router, cursor, config, parameters
        self._partition_key_field = self._name(self._get_partition_field(router))
        self._cursor_field = self._name(self._field("cursor_field", cursor))

    def _get_partition_field(self, partition_router: object) -> Text:
        parents = _parents(partition_router)
        return self._field("partition_field", parents[0] if parents else partition_router)

    def _field(self, name: str, component: object) -> Text:
        value: Text = component.get(name) if isinstance(component, dict) else getattr(component, name, None)
        if not value:
            raise ManifestError(f"{type(self).__name__} needs a {name}, found none in {component!r}")
        return value

    def _name(self, value: Text) -> str:
        return InterpolatedString.create(value, parameters=self._parameters).text(self._config)

    def should_migrate(self, stream_state: StreamState) -> bool:
        if not stream_state or "states" in stream_state or len(_parents(self._partition_router)) > 1:
            return False
        return all(isinstance(item, Mapping) and list(item) == [self._cursor_field] for item in stream_state.values())

    def migrate(self, stream_state: StreamState) -> StreamState:
        # Partitions of substreams also have this field.
        more: JsonObject = {PARENT_SLICE: {}} if isinstance(self._partition_router, ManifestSubstreams) else {}
        states: list[JsonValue] = [
            {"partition": {self._partition_key_field: value, **more}, "cursor": at}
            for value, at in stream_state.items()
        ]
        return {"states": states}


def _parents(router: object) -> Sequence[object]:
    return getattr(router, "parent_stream_configs", None) or ()


class DeclarativeCursor(RequestOptionsProvider):
    """A cursor that custom code implements completely. It can be imported, but not used."""


class Cursor(DeclarativeCursor):
    """Another name for DeclarativeCursor, for imports."""


class ConcurrentCursorFactory:
    """Creates the cursors of partitions. It can be imported, but not used."""


class ConcurrentPerPartitionCursor(DeclarativeCursor):
    """A cursor of many partitions. It can be imported, but not used."""


@dataclass
class DatetimeBasedCursor(Placing, DeclarativeCursor):
    """The manifest's cursor. A subclass may add to requests; the kit itself plans windows and keeps states."""

    start_datetime: JsonValue
    cursor_field: Text
    datetime_format: str
    config: Config
    parameters: InitVar[Parameters]
    end_datetime: JsonValue = None
    step: JsonValue = None
    cursor_granularity: str | None = None
    start_time_option: RequestOption | None = None
    end_time_option: RequestOption | None = None
    partition_field_start: JsonValue = None
    partition_field_end: JsonValue = None
    lookback_window: JsonValue = None
    message_repository: object = None
    is_compare_strictly: bool | None = False
    cursor_datetime_formats: list[str] | None = None

    def __post_init__(self, parameters: Parameters) -> None:
        self._parameters, self._parser = parameters, DatetimeParser()
        self.cursor_field = InterpolatedString.create(self.cursor_field, parameters=parameters)
        self._partition_field_start = InterpolatedString.create(
            self.partition_field_start or "start_time", parameters=parameters
        )
        self._partition_field_end = InterpolatedString.create(
            self.partition_field_end or "end_time", parameters=parameters
        )

    def _get_request_option(self, option_type: RequestOptionType, stream_slice: object) -> JsonObject:
        return self._get_request_options(option_type, stream_slice)

    def _get_request_options(self, option_type: RequestOptionType, stream_slice: object) -> JsonObject:
        """As `_get_request_option`, under the name that existing cursors use."""
        return super()._get_request_option(option_type, stream_slice)

    def _options(self) -> Iterator[tuple[RequestOption | None, str]]:
        yield self.start_time_option, self._partition_field_start.text(self.config)
        yield self.end_time_option, self._partition_field_end.text(self.config)
