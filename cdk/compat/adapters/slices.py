"""Adapters from custom partition routers and retrievers to the plug points."""

import logging
from collections.abc import Iterable, Iterator, Mapping

from cdk.base.logs import logger
from cdk.base.values import JsonValue
from cdk.compat.airbyte.custom_object import CustomCodeError, CustomObject
from cdk.compat.airbyte.partition_routers import SubstreamPartitionRouter
from cdk.compat.airbyte.streams import StreamFacade, slice_facade
from cdk.compat.facades.slices import fill, slice_arguments
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.declarative.model.stream_plug_points import Router, StreamParts
from cdk.declarative.reading.parents_in_turn import PartitionOrigin, PartitionsInTurn
from cdk.protocol.messages import AirbyteMessage, Level
from cdk.state.slice import Partition, Slice
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint.parent_state import ParentState
from cdk.streams.page import Item, Page

_LEVELS = {Level.FATAL: logging.ERROR, Level.ERROR: logging.ERROR, Level.WARN: logging.WARNING}


class CustomRouterAdapter(Router):
    """Adapts a custom partition router."""

    def __init__(self, custom: CustomObject, stream: str, fields: tuple[str, str]) -> None:
        self._custom, self._fields = custom, fields
        configs = custom.get("parent_stream_configs", ())
        streams = [config.stream for config in configs]
        streams += [value for value in vars(custom.instance).values() if isinstance(value, StreamFacade)]
        self.parents = [stream.native for stream in streams]
        self._substream = custom.instance if isinstance(custom.instance, SubstreamPartitionRouter) else None
        follows = self._substream is not None
        self.followed = [config.stream.native for config in configs if follows and config.incremental_dependency]
        self._all = PartitionsInTurn(stream, [PartitionOrigin(self.followed, self._partitions)])

    def partitions(self, parents: Mapping[str, StreamState]) -> Iterable[Partition | ParentState]:
        return self._all.partitions(parents)

    def _partitions(self, parents: Mapping[str, StreamState]) -> Iterator[Partition | ParentState]:
        progress: dict[str, ParentState] = {}
        if self.followed and self._substream is not None:
            self._substream.follow(parents, progress)
        for item in self._slices():
            # Fields that a router puts into `cursor_slice` also distinguish its slices.
            fields = {**getattr(item, "partition", item), **getattr(item, "cursor_slice", {})}
            yield Partition(fields, extra=getattr(item, "extra_fields", None))
        yield from progress.values()

    def _slices(self) -> Iterator[Mapping[str, JsonValue]]:
        with self._custom.calling("stream_slices"):
            slices = iter(self._custom.call("stream_slices"))
        while True:
            with self._custom.calling("stream_slices"):
                item = next(slices, None)
            if item is None:
                return
            yield item

    def apply(self, draft: RequestBuilder, slice: Slice) -> None:
        if hasattr(self._custom.instance, "get_request_params"):
            with self._custom.calling("get_request_params"):
                fill(draft, self._custom.instance, slice_arguments(slice, self._fields))


class CustomRetrieverAdapter:
    """Adapts a custom retriever. Interrupted slices are read again from their start: only it knows its pages."""

    token_key = None

    def __init__(
        self, custom: CustomObject, router: Router | None, parts: StreamParts, fields: tuple[str, str]
    ) -> None:
        self._custom, self.router, self._parts, self._fields = custom, router, parts, fields

    def read(self, slice: Slice) -> Iterator[Item]:
        schema = self._parts.schema()
        with self._custom.calling("read_records"):
            records = iter(self._custom.call("read_records", schema, slice_facade(slice, self._fields)))
        while True:
            try:
                with self._custom.calling("read_records"):
                    record = next(records, None)
            except Exception:
                # An empty page hands the records read so far to the reader, as other retrievers do before an error.
                yield Page((), None)
                raise
            if record is None:
                return
            match record:
                case AirbyteMessage(log=log, record=message):
                    if log is not None:
                        logger.log(_LEVELS.get(log.level, logging.INFO), "%s", log.message)
                    if message is not None:
                        yield message.data
                case Mapping():
                    yield record if type(record) is dict else dict(record)
                case _:
                    kind = type(record).__name__
                    raise CustomCodeError(f"{self._custom.name}.read_records yielded {kind}, expected a record")
