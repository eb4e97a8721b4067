"""The plug points of the manifest language: which kinds of component exist, and what each kind builds.

Contains only contracts. A component joins a family by subclassing it; a field annotated with a family accepts any of
its members.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Protocol, Self, TypeAlias

from msgspec import Struct
from pydantic import Field

from cdk.base.errors import ManifestError
from cdk.base.values import JsonObject, JsonSchema, JsonValue, Record
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext, Names
from cdk.declarative.model.declared_stream import DeclaredStream
from cdk.declarative.model.page_result import PageResult
from cdk.declarative.model.query_properties import Properties
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.rest import Authenticator, Decoder, Retriever
from cdk.rest.client import Sender
from cdk.rest.errors.http_error_handler import OutcomeHandler
from cdk.rest.errors.wait_strategies import WaitStrategy
from cdk.rest.limits.rate_policies import CallRatePolicy
from cdk.rest.records.extractor import Extractor
from cdk.state.slice import Partition, Slice
from cdk.state.stream_state import StreamState
from cdk.state.window import Window
from cdk.streams.checkpoint.parent_state import ParentState
from cdk.streams.count_cursor import CountCursor
from cdk.streams.cursor import Side
from cdk.streams.datetime_cursor import DatetimeCursor
from cdk.streams.stream import Stream

# --- records of a page -------------------------------------------------------------------------------------------

Transform: TypeAlias = Callable[[list[JsonObject], Names], None]
"""Changes the records of a page in place. The names are those of the slice."""

Select: TypeAlias = Callable[[list[JsonObject], Names], list[JsonObject]]
"""Returns the records of a page to keep."""

Normalize: TypeAlias = Callable[[list[JsonObject]], None]
"""Casts the values of a page's records to the types of their schema, in place."""


class AnyDecoder(Component, type=None, custom="CustomDecoder"):
    """Decodes response bodies of one format."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Decoder: ...


class AnyExtractor(Component, type=None, default="DpathExtractor", custom="CustomRecordExtractor"):
    """Extracts the records from a response that `decoder` decodes."""

    streams: ClassVar[bool] = False
    """Whether it reads a body while it arrives, whatever the decoder."""

    @abstractmethod
    def build(self, ctx: BuildContext, decoder: Decoder) -> Extractor: ...


class AnyTransformation(Component, type=None, custom="CustomTransformation"):
    """Changes the records of a page in place."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Transform: ...


class AnyRecordFilter(Component, type=None, default="RecordFilter", custom="CustomRecordFilter"):
    """Decides which records to keep."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Select: ...


class AnySchemaNormalization(Component, type=None):
    """Casts values to the types of a schema."""

    @abstractmethod
    def build(self, ctx: BuildContext, schema: JsonSchema) -> Normalize: ...


# --- requests ----------------------------------------------------------------------------------------------------


class AnyAuthenticator(Component, type=None, custom="CustomAuthenticator"):
    """Adds credentials to a request."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Authenticator | None: ...


class AnyBackoffStrategy(Component, type=None, custom="CustomBackoffStrategy"):
    """Decides how long to wait before a request is retried."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> WaitStrategy: ...


class AnyErrorHandler(Component, type=None, default="DefaultErrorHandler", custom="CustomErrorHandler"):
    """Decides what a response means and whether to retry the request."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> OutcomeHandler: ...


class AnyRequestBody(Component, type=None):
    """The body of a request."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Callable[[RequestBuilder, Names], None]: ...


class Requester(Protocol):
    """Drafts requests and sends them."""

    @property
    def client(self) -> Sender:
        """The client that sends the requests it drafts."""

    properties: Properties | None
    """Properties that are requested in groups, one request each; None: each request asks for all properties."""

    def draft(self, names: Names) -> RequestBuilder:
        """Return a request that is complete except for its page and slice."""


class AnyRequester(Component, type=None, default="HttpRequester", custom="CustomRequester"):
    """Defines which requests to send, and how."""

    @abstractmethod
    def build(self, ctx: BuildContext, *, decoder: Decoder | None = None, cached: bool = False) -> Requester:
        """Build the requester.

        decoder: the stream's decoder; a streaming decoder needs bodies as they arrive. cached: keep responses for other
        streams.
        """

    def sending(self) -> "tuple[AnyAuthenticator | None, AnyErrorHandler | None]":
        """Return what sends its requests, for callers that draft them; Nones if only its own class can use it."""
        return None, None


# --- pages -------------------------------------------------------------------------------------------------------


class PageStrategy(Protocol):
    """Finds the token of the next page. Stateless, unless `of_slice` makes one instance for each slice."""

    size: int | None = None
    """The number of records of a full page, if declared."""

    reads_body: bool = False
    """Whether its expressions read the response."""

    counts: str | None = None
    """What its tokens count, in words (`pages from 1`). Tokens that count `records` stay valid if the page size
    changes. None for tokens that only the API understands."""

    deciding_paths: Sequence[tuple[str, ...]] = ()
    """Paths that decide whether there is a next page, and which: below `response`, `headers` and `last_record`."""

    def of_slice(self) -> Self:
        """Return the strategy for one read of a slice: itself, or if it counts, a copy that has seen no pages."""
        return self

    def first(self) -> JsonValue:
        """Return the token of the first page; None if the first page is requested without one."""
        return None

    def token_after(self, token: JsonValue, size: int | None) -> JsonValue:  # noqa: ARG002 - for overriding
        """Return the token after `token`, if such a page exists, before either page has arrived; None: unknown."""
        return None

    def token_after_page(self, page: PageResult) -> JsonValue:  # noqa: ARG002 - for overriding
        """Return the token after `page`, counting the records it had, even if it was the last; None: there is none."""
        return None

    def doubt(self, page: PageResult, size: int | None) -> str:  # noqa: ARG002 - for overriding
        """Return why `page` may not be the last although `next` returned None, see `DoubtsEnd.doubt`; else empty."""
        return ""

    @abstractmethod
    def next(self, page: PageResult, size: int | None) -> JsonValue:
        """Return the token of the page after `page`; None if that was the last. size: records of a full page."""


class AnyPaginationStrategy(Component, type=None, custom="CustomPaginationStrategy"):
    """Finds the next page."""

    @abstractmethod
    def build(self, ctx: BuildContext, decoder: Decoder) -> PageStrategy: ...

    def shrinking_problem(self) -> str:
        """Return why smaller pages cannot be requested, in words; an empty string if they can."""
        return ""


class PageRequests(Struct, frozen=True):
    """The pages of a slice: how the next page is found, and how it is requested.

    put_token, put_size: put the page token and the page size into a request; None if they have no place there.
    """

    strategy: PageStrategy
    put_token: Callable[[RequestBuilder, JsonValue], None] | None = None
    put_size: Callable[[RequestBuilder, JsonValue], None] | None = None

    def apply(self, draft: RequestBuilder, token: JsonValue, size: int | None) -> None:
        """Put the page token and the page size into a request."""
        if self.put_token is not None and token is not None:
            self.put_token(draft, token)
        if self.put_size is not None:
            self.put_size(draft, size)

    def next(self, page: PageResult, size: int | None) -> JsonValue:
        """Return the token of the page after `page`; None if that was the last."""
        # APIs send a token of 0 or "" when there is no next page.
        return self.strategy.next(page, size) or None


class AnyPaginator(Component, type=None, default="NoPagination"):
    """Finds pages and requests them."""

    @abstractmethod
    def build(self, ctx: BuildContext, decoder: Decoder) -> PageRequests: ...

    def shrinking_problem(self) -> str:
        """Return why smaller pages cannot be requested, in words; an empty string if they can."""
        return ""


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


class AnyPartitionRouter(Component, type=None, custom="CustomPartitionRouter"):
    """Splits a stream into partitions, each of which is read separately."""

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


class AnyIncrementalSync(Component, type=None):
    """Defines how a stream advances from one sync to the next."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Incremental: ...


class AnyStateMigration(
    Component, type=None, default="LegacyToPerPartitionStateMigration", custom="CustomStateMigration"
):
    """Converts an old form of a stream's state to today's."""

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


class AnyRetriever(Component, type=None, default="SimpleRetriever", custom="CustomRetriever"):
    """Reads the records of a slice."""

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


class AnySchemaLoader(Component, type=None, default="JsonFileSchemaLoader", custom="CustomSchemaLoader"):
    """Provides the JSON Schema of a stream's records."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Callable[[], JsonSchema]: ...


class AnyStreams(Component, type=None, default="DeclarativeStream"):
    """Any number of streams of a source."""

    @abstractmethod
    def streams(self, ctx: BuildContext) -> Iterator[DeclaredStream]: ...

    def misconfigured(self, ctx: BuildContext, error: ManifestError) -> DeclaredStream | None:  # noqa: ARG002 - unused
        """Return a stand-in for the stream if the config does not fit; None if it has none."""
        return None


class AnyStream(AnyStreams, type=None):
    """A stream, or a component that stands in for one."""

    @property
    def routers(self) -> Sequence[AnyPartitionRouter]:
        """The routers that make its partitions, if they are known before its state is."""
        return ()

    @abstractmethod
    def build(self, ctx: BuildContext, *, as_parent: bool = False) -> DeclaredStream: ...

    def streams(self, ctx: BuildContext) -> Iterator[DeclaredStream]:
        yield self.build(ctx)


class AnyComponentsResolver(Component, type=None):
    """Makes streams from a template."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Callable[[Mapping[str, JsonValue]], Iterator[Mapping[str, JsonValue]]]: ...


class AnyCheck(Component, type=None, default="CheckStream"):
    """Checks whether a connection works."""

    config_overrides: JsonObject | None = Field(None, description="Config values that apply only to the check.")

    @abstractmethod
    def build(self, ctx: BuildContext) -> Callable[[Sequence[DeclaredStream]], None]: ...

    def names(self, config: Mapping[str, JsonValue]) -> Sequence[str]:  # noqa: ARG002 - for overriding
        """Return the streams that the check needs; empty if it needs all of them."""
        return ()


class AnyConfigTransformation(Component, type=None, custom="CustomConfigTransformation"):
    """Changes a config in place."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Callable[[JsonObject], None]: ...


class AnyValidator(Component, type=None):
    """Raises ConfigError for an invalid config."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Callable[[Mapping[str, JsonValue]], None]: ...


class AnyValidationStrategy(Component, type=None, default="ValidateAdheresToSchema", custom="CustomValidationStrategy"):
    """Raises ValueError for an invalid value."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Callable[[JsonValue], None]: ...


class AnyCallRatePolicy(Component, type=None):
    """Limits how often certain requests may be sent."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> CallRatePolicy: ...
