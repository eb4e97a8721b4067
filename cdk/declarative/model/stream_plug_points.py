"""The plug points of streams: the components that split, advance and read them; and those of configs.

Contains only contracts, as `cdk.declarative.model.request_plug_points`.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Protocol

from msgspec import Struct

from cdk.base.errors import ManifestError
from cdk.base.values import JsonObject, JsonSchema, JsonValue, Record
from cdk.declarative.model.component import Component, Default
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.declared_stream import DeclaredStream
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.declarative.model.request_plug_points import Transform
from cdk.rest import Retriever
from cdk.rest.limits.rate_policies import CallRatePolicy
from cdk.state.slice import Partition, Slice
from cdk.state.stream_state import StreamState
from cdk.state.window import Window
from cdk.streams.checkpoint.parent_state import ParentState
from cdk.streams.count_cursor import CountCursor
from cdk.streams.cursor import Side
from cdk.streams.datetime_cursor import DatetimeCursor
from cdk.streams.stream import Stream

# --- slices ------------------------------------------------------------------------------------------------------


class Router(Protocol):
    """The partitions of a stream."""

    parents: Sequence[Stream] = ()
    """The streams whose records make the partitions, if a state may say how far they were read."""

    followed: Sequence[DeclaredStream] = ()
    """The parents whose progress is part of the state."""

    shares_cursor: bool = False
    """Whether one cursor serves all partitions."""

    @abstractmethod
    def partitions(self, parents: Mapping[str, StreamState]) -> Iterable[Partition | ParentState]:
        """Return the partitions, in order, when the parents stand at the states `parents`."""

    def resuming(self, started: Iterable[Partition]) -> "Router":  # noqa: ARG002 - for overriding
        """Return the router for the rest of an interrupted read that had already started some partitions."""
        return self

    def apply(self, draft: RequestBuilder, slice: Slice) -> None:  # noqa: ARG002 - for overriding
        """Put the values that select the slice's partition into a request; by default, none."""
        return


class AnyPartitionRouter(Component):
    """Splits a stream into partitions, each of which is read separately."""

    implied = Default(custom="CustomPartitionRouter")

    @property
    def brings_first_page(self) -> bool:
        """Whether partitions may hold the first page of their records."""
        return False

    @abstractmethod
    def build(self, ctx: BuildContext) -> Router: ...


class Incremental(Struct, frozen=True):
    """A cursor, and how its windows are requested.

    cursor: plans windows. apply: puts a window into a request. fields: the names in expressions for a window's start
    and end. shared: one cursor for all partitions. client_side: the API does not filter, so records outside of the
    window are dropped. data_feed: records arrive newest first, so the first that is too old ends the pages.
    catalog_cursor: the catalog may choose the cursor field.
    """

    cursor: DatetimeCursor | CountCursor
    apply: Callable[[RequestBuilder, Slice], None]
    fields: tuple[str, str] = ("start_time", "end_time")
    shared: bool = False
    client_side: bool = False
    data_feed: bool = False
    catalog_cursor: bool = False

    def is_in_window(self, record: Record, window: Window | None) -> bool:
        """Whether a record lies in a window; a record without a cursor value does."""
        value = record.get(self.cursor.field)
        return value is None or window is None or self.cursor.side(window, value) is Side.INSIDE


class AnyIncrementalSync(Component):
    """Defines how a stream advances from one sync to the next."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Incremental: ...


class AnyStateMigration(Component):
    """Converts an old form of a stream's state to today's."""

    implied = Default(type="LegacyToPerPartitionStateMigration", custom="CustomStateMigration")

    @abstractmethod
    def build(self, ctx: BuildContext, stream: "AnyStream") -> Callable[[JsonValue], JsonValue]: ...


# --- streams and configs -----------------------------------------------------------------------------------------


class StreamParts(Struct, frozen=True):
    """What a retriever must know about the stream it reads."""

    name: str = ""
    incremental: Incremental | None = None
    transforms: Sequence[Transform] = ()
    schema: Callable[[], JsonSchema] = dict
    cached: bool = False
    primary_key: Sequence[str | Sequence[str]] = ()


class SliceReader(Retriever, Protocol):
    """Reads the slices of a stream, and knows its partitions."""

    router: Router | None

    @property
    def token_key(self) -> str | None:
        """The key in a saved position for the token of the next page; None if a position can do without it."""


class AnyRetriever(Component):
    """Reads the records of a slice."""

    implied = Default(type="SimpleRetriever", custom="CustomRetriever")

    in_one_task: ClassVar[bool] = False
    """Whether its streams are read in one task at a time, as defined by `Stream.in_one_task`."""

    @property
    def routers(self) -> Sequence[AnyPartitionRouter]:
        """The routers whose partitions it reads."""
        return ()

    def requested(self, config: Mapping[str, JsonValue]) -> JsonValue:  # noqa: ARG002 - for overriding
        """Return what its pages are requested with, see `Stream.requested`; None: unknown."""
        return None

    @abstractmethod
    def build(self, ctx: BuildContext, parts: StreamParts) -> SliceReader: ...


class AnySchemaLoader(Component):
    """Provides the JSON Schema of a stream's records."""

    implied = Default(type="JsonFileSchemaLoader", custom="CustomSchemaLoader")

    @abstractmethod
    def build(self, ctx: BuildContext) -> Callable[[], JsonSchema]: ...


class AnyStreams(Component):
    """Any number of streams of a source."""

    implied = Default(type="DeclarativeStream")

    @abstractmethod
    def streams(self, ctx: BuildContext) -> Iterator[DeclaredStream]: ...

    def misconfigured(self, ctx: BuildContext, error: ManifestError) -> DeclaredStream | None:  # noqa: ARG002 - unused
        """Return a stand-in for the stream if the config does not fit; None if it has none."""
        return None


class AnyStream(AnyStreams):
    """A stream, or a component that stands in for one."""

    @property
    def routers(self) -> Sequence[AnyPartitionRouter]:
        """The routers that make its partitions, if they are known before its state is."""
        return ()

    @abstractmethod
    def build(self, ctx: BuildContext, *, as_parent: bool = False) -> DeclaredStream: ...

    def streams(self, ctx: BuildContext) -> Iterator[DeclaredStream]:
        yield self.build(ctx)


class AnyComponentsResolver(Component):
    """Makes streams from a template."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Callable[[Mapping[str, JsonValue]], Iterator[Mapping[str, JsonValue]]]: ...


class AnyCheck(Component, kw_only=True):
    """Checks whether a connection works."""

    implied = Default(type="CheckStream")

    config_overrides: JsonObject | None = None
    """Config values that apply only to the check."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Callable[[Sequence[DeclaredStream]], None]: ...

    def names(self, config: Mapping[str, JsonValue]) -> Sequence[str]:  # noqa: ARG002 - for overriding
        """Return the streams that the check needs; empty if it needs all of them."""
        return ()


class AnyConfigTransformation(Component):
    """Changes a config in place."""

    implied = Default(custom="CustomConfigTransformation")

    @abstractmethod
    def build(self, ctx: BuildContext) -> Callable[[JsonObject], None]: ...


class AnyValidator(Component):
    """Raises ConfigError for an invalid config."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Callable[[Mapping[str, JsonValue]], None]: ...


class AnyValidationStrategy(Component):
    """Raises ValueError for an invalid value."""

    implied = Default(type="ValidateAdheresToSchema", custom="CustomValidationStrategy")

    @abstractmethod
    def build(self, ctx: BuildContext) -> Callable[[JsonValue], None]: ...


class AnyCallRatePolicy(Component):
    """Limits how often certain requests may be sent."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> CallRatePolicy: ...
