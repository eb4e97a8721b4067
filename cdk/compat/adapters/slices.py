"""Custom partition routers and retrievers, behind our interfaces."""

import logging
from collections.abc import Iterable, Iterator, Mapping

from cdk.base.logs import logger
from cdk.base.values import Json
from cdk.compat.airbyte.guard import CustomCodeError, guard
from cdk.compat.airbyte.partition_routers import SubstreamPartitionRouter
from cdk.compat.airbyte.streams import SeenStream, seen_slice
from cdk.compat.facades.slices import fill
from cdk.declarative.model.plug_points import Router, StreamParts
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.protocol import AirbyteMessage, Level
from cdk.state.slice import Partition, Slice
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint import ParentState
from cdk.streams.stream import Item, Page

_LEVELS = {Level.FATAL: logging.ERROR, Level.ERROR: logging.ERROR, Level.WARN: logging.WARNING}


class CustomRouterAdapter(Router):
    """Partitions of a router that is custom code."""

    def __init__(self, custom: Json, fields: tuple[str, str]) -> None:
        self._custom, self._fields = custom, fields
        configs = getattr(custom, "parent_stream_configs", ())
        held = [config.stream for config in configs]
        held += [value for value in vars(custom).values() if isinstance(value, SeenStream)]
        self.parents = [stream.ours for stream in held]
        self.follows = isinstance(custom, SubstreamPartitionRouter) and any(c.incremental_dependency for c in configs)

    def partitions(self, parents: Mapping[str, StreamState]) -> Iterable[Partition | ParentState]:
        custom = self._custom
        reached: dict[str, StreamState] = {}
        if self.follows:
            custom._from, custom._reached = dict(parents), reached  # noqa: SLF001 - ours, beneath a custom class
        for item in self._slices():
            fields: Mapping[str, Json] = getattr(item, "partition", item)
            yield Partition(fields, extra=getattr(item, "extra_fields", None))
        for name, state in reached.items():
            yield ParentState(name, state)

    def _slices(self) -> Iterator[Mapping[str, Json]]:
        with guard(self._custom, "stream_slices"):
            slices = iter(self._custom.stream_slices())
        while True:
            with guard(self._custom, "stream_slices"):
                item = next(slices, None)
            if item is None:
                return
            yield item

    def apply(self, draft: RequestBuilder, slice: Slice) -> None:
        names: dict[str, Json] = {
            "stream_state": {},
            "stream_slice": seen_slice(slice, self._fields),
            "next_page_token": None,
        }
        if hasattr(self._custom, "get_request_params"):
            with guard(self._custom, "get_request_params"):
                fill(draft, self._custom, names)


class CustomRetrieverAdapter:
    """A custom retriever. A cut read begins the slice again: what its pages are, only the retriever knows."""

    def __init__(self, custom: Json, router: Router | None, parts: StreamParts, fields: tuple[str, str]) -> None:
        self._custom, self.router, self._parts, self._fields = custom, router, parts, fields

    def read(self, slice: Slice) -> Iterator[Item]:
        facade = seen_slice(slice, self._fields)
        with guard(self._custom, "read_records"):
            schema = self._parts.schema()
            records = iter(self._custom.read_records(schema, facade))
        while True:
            try:
                with guard(self._custom, "read_records"):
                    record = next(records, None)
            except Exception:
                # The pages before the one that failed are handed on, as those of other retrievers are.
                yield Page((), None)
                raise
            if record is None:
                return
            if isinstance(record, AirbyteMessage):
                if record.log is not None:
                    logger.log(_LEVELS.get(record.log.level, logging.INFO), "%s", record.log.message)
                if record.record is None:
                    continue
                record = record.record.data
            if not isinstance(record, Mapping):
                name, kind = type(self._custom).__name__, type(record).__name__
                raise CustomCodeError(f"the custom component {name}.read_records gave {kind}, expected a record")
            yield record if type(record) is dict else dict(record)
