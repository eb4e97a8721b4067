"""The plug points of the manifest language: what kinds of component there are, and what each builds.

No code but the contracts. A component belongs to a family by subclassing it; a field annotated with a family takes
any of its members.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self, TypeAlias

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
"""Changes a page of records in place. The names are those of the slice."""

Select: TypeAlias = Callable[[list[JsonObject], Names], list[JsonObject]]
"""Gives the records of a page to keep."""

Normalize: TypeAlias = Callable[[list[JsonObject]], None]
"""Casts the values of a page's records to their schema's types, in place."""


class AnyDecoder(Component, type=None, custom="CustomDecoder"):
    """Reads one format of bodies."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Decoder: ...


class AnyExtractor(Component, type=None, default="DpathExtractor", custom="CustomRecordExtractor"):
    """Finds the records of a response that `decoder` reads."""

    streams: ClassVar[bool] = False
    """It reads a body while it arrives, whatever the decoder."""

    @abstractmethod
    def build(self, ctx: BuildContext, decoder: Decoder) -> Extractor: ...


class AnyTransformation(Component, type=None, custom="CustomTransformation"):
    """Changes the records of a page, in place."""

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
    """Adds the credentials to a request."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Authenticator | None: ...


class AnyBackoffStrategy(Component, type=None, custom="CustomBackoffStrategy"):
    """Says how long to wait before a request is tried again."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> WaitStrategy: ...


class AnyErrorHandler(Component, type=None, default="DefaultErrorHandler", custom="CustomErrorHandler"):
    """Says what an answer means and whether to try again."""

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
        """What sends the requests that it drafts."""

    properties: Properties | None
    """Those that it asks for in groups, one request each; None: each request asks for all."""

    def draft(self, names: Names) -> RequestBuilder:
        """A request with everything but pages and slices in it."""


class AnyRequester(Component, type=None, default="HttpRequester", custom="CustomRequester"):
    """Says what to ask for, and how to ask."""

    @abstractmethod
    def build(self, ctx: BuildContext, *, decoder: Decoder | None = None, cached: bool = False) -> Requester:
        """The requester.

        decoder: the stream's; one that streams wants bodies as they come. cached: keep responses for other streams.
        """

    def sending(self) -> "tuple[AnyAuthenticator | None, AnyErrorHandler | None]":
        """What sends its requests, for callers that draft them; nothing where its settings are for its own class."""
        return None, None


# --- pages -------------------------------------------------------------------------------------------------------


class PageStrategy(Protocol):
    """Finds the token of the next page. Without state, unless `of_slice` makes one for each slice."""

    size: int | None = None
    """Records of a full page, where that is said."""

    reads_body: bool = False
    """Its expressions look into the response."""

    counts: str | None = None
    """What its tokens count, in words (`pages from 1`). `records` ask for the same place whatever the size of a page
    is; None for tokens that only the API knows."""

    looks_at: Sequence[tuple[str, ...]] = ()
    """What of a page says whether there is a next one, and which: paths below `response`, `headers`, `last_record`."""

    def of_slice(self) -> Self:
        """The strategy for one read of a slice: itself, or a copy of one that counts, which knows no earlier page."""
        return self

    def first(self) -> JsonValue:
        """The token of the first page; None when it is asked for without one."""
        return None

    def ahead(self, token: JsonValue, size: int | None) -> JsonValue:  # noqa: ARG002 - for those that count
        """The token of the page behind that of `token`, if there is one, before either has come; None: unknown."""
        return None

    def behind(self, page: PageResult) -> JsonValue:  # noqa: ARG002 - for those that count
        """The token of the page behind `page`, as full as it came, though that was the last; None: there is no such."""
        return None

    def doubt(self, page: PageResult, size: int | None) -> str:  # noqa: ARG002 - for those that look somewhere
        """Why `page`, for which `next` gave None, may not be the last, as `DoubtsEnd.doubt`; else empty."""
        return ""

    @abstractmethod
    def next(self, page: PageResult, size: int | None) -> JsonValue:
        """The token of the page after `page`; None when it was the last. size: records of a full page."""


class AnyPaginationStrategy(Component, type=None, custom="CustomPaginationStrategy"):
    """How the next page is found."""

    @abstractmethod
    def build(self, ctx: BuildContext, decoder: Decoder) -> PageStrategy: ...

    def shrinking_problem(self) -> str:
        """Why pages cannot be asked for with fewer records, in words; an empty text where they can."""
        return ""


class PageRequests(PageStrategy, Protocol):
    """Pages of a slice: how the next is found, and how it is asked for."""

    @abstractmethod
    def apply(self, draft: RequestBuilder, token: JsonValue, size: int | None) -> None:
        """Put a page's token, and the size, into a request."""


class AnyPaginator(Component, type=None, default="NoPagination"):
    """How pages are found and asked for."""

    @abstractmethod
    def build(self, ctx: BuildContext, decoder: Decoder) -> PageRequests: ...

    def shrinking_problem(self) -> str:
        """Why pages cannot be asked for with fewer records, in words; an empty text where they can."""
        return ""


# --- slices ------------------------------------------------------------------------------------------------------


class Router(Protocol):
    """The partitions of a stream."""

    parents: Sequence[Stream] = ()
    """The streams whose records make the partitions, where a state may tell how far these were read."""

    followed: Sequence[DeclaredStream] = ()
    """The parents whose progress is part of the state."""

    shares_cursor: bool = False
    """One cursor serves all partitions."""

    @abstractmethod
    def partitions(self, parents: Mapping[str, StreamState]) -> Iterable[Partition | ParentState]:
        """The partitions, in order, when the parents stand at `parents`."""

    def resuming(self, started: Iterable[Partition]) -> "Router":  # noqa: ARG002 - for those that make groups
        """The router for the rest of a read that was interrupted after it had started some partitions."""
        return self

    @abstractmethod
    def apply(self, draft: RequestBuilder, slice: Slice) -> None:
        """Put what says which partition into a request."""


class AnyPartitionRouter(Component, type=None, custom="CustomPartitionRouter"):
    """What a stream is read once for."""

    @property
    def brings_first_page(self) -> bool:
        """Whether partitions may hold the first page of their records."""
        return False

    @abstractmethod
    def build(self, ctx: BuildContext) -> Router: ...


@dataclass(frozen=True, slots=True)
class Incremental:
    """A cursor, and how its windows are asked for.

    cursor: plans windows. ask: puts a window into a request. shared: one cursor for all partitions.
    fields: the names of a window's start and end in expressions. client_side: the source does not filter, so records
    that lie outside of the window are dropped. data_feed: they come newest first, so the first that is too old ends
    the pages. catalog_cursor: the catalog may choose the field.
    """

    cursor: DatetimeCursor | CountCursor
    apply: Callable[[RequestBuilder, Slice], None]
    fields: tuple[str, str] = ("start_time", "end_time")
    shared: bool = False
    client_side: bool = False
    data_feed: bool = False
    catalog_cursor: bool = False

    def wants(self, record: Record, window: Window | None) -> bool:
        """Whether a record lies in a window; one without a cursor value does."""
        value = record.get(self.cursor.field)
        return value is None or window is None or self.cursor.side(window, value) is Side.INSIDE


class AnyIncrementalSync(Component, type=None):
    """How a stream advances from one sync to the next."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Incremental: ...


class AnyStateMigration(
    Component, type=None, default="LegacyToPerPartitionStateMigration", custom="CustomStateMigration"
):
    """Turns an old form of a stream's state into today's."""

    @abstractmethod
    def build(self, ctx: BuildContext, stream: "AnyStream") -> Callable[[JsonValue], JsonValue]: ...


# --- streams and configs -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StreamParts:
    """What a retriever must know of the stream it reads for."""

    name: str = ""
    incremental: Incremental | None = None
    transforms: Sequence[Transform] = ()
    schema: Callable[[], JsonSchema] = dict
    cached: bool = False
    primary_key: Sequence[str | Sequence[str]] = ()


class SliceReader(Retriever, Protocol):
    """Reads the slices of a stream, and knows its partitions."""

    router: Router | None


class AnyRetriever(Component, type=None, default="SimpleRetriever", custom="CustomRetriever"):
    """Reads the records of a slice."""

    in_one_task: ClassVar[bool] = False
    """Whether its streams are read in one task at a time, as `Stream.in_one_task` says."""

    @property
    def routers(self) -> Sequence[AnyPartitionRouter]:
        """The routers whose partitions it reads."""
        return ()

    def requested(self, config: Mapping[str, JsonValue]) -> JsonValue:  # noqa: ARG002 - for overriding
        """What its pages are asked with, see `Stream.requested`; None: nobody knows."""
        return None

    @abstractmethod
    def build(self, ctx: BuildContext, parts: StreamParts) -> SliceReader: ...


class AnySchemaLoader(Component, type=None, default="JsonFileSchemaLoader", custom="CustomSchemaLoader"):
    """Finds the JSON Schema of a stream's records."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Callable[[], JsonSchema]: ...


class AnyStreams(Component, type=None, default="DeclarativeStream"):
    """Streams of a source, any number."""

    @abstractmethod
    def streams(self, ctx: BuildContext) -> Iterator[DeclaredStream]: ...

    def misconfigured(self, ctx: BuildContext, error: ManifestError) -> DeclaredStream | None:  # noqa: ARG002 - for some
        """What stands for the stream where the config does not let it be built; None where nothing does."""
        return None


class AnyStream(AnyStreams, type=None):
    """A stream, or what stands for one."""

    @property
    def routers(self) -> Sequence[AnyPartitionRouter]:
        """The routers whose partitions it is read in, where that is known before its state is."""
        return ()

    @abstractmethod
    def build(self, ctx: BuildContext, *, as_parent: bool = False) -> DeclaredStream: ...

    def streams(self, ctx: BuildContext) -> Iterator[DeclaredStream]:
        yield self.build(ctx)


class AnyComponentsResolver(Component, type=None):
    """Makes streams of a template."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Callable[[Mapping[str, JsonValue]], Iterator[Mapping[str, JsonValue]]]: ...


class AnyCheck(Component, type=None, default="CheckStream"):
    """Says whether a connection works."""

    config_overrides: JsonObject | None = Field(None, description="Values of the config that only the check uses.")

    @abstractmethod
    def build(self, ctx: BuildContext) -> Callable[[Sequence[DeclaredStream]], None]: ...

    def names(self, config: Mapping[str, JsonValue]) -> Sequence[str]:  # noqa: ARG002 - for overriding
        """The streams that the check needs; none where it needs to know all there are."""
        return ()


class AnyConfigTransformation(Component, type=None, custom="CustomConfigTransformation"):
    """Changes a config in place."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Callable[[JsonObject], None]: ...


class AnyValidator(Component, type=None):
    """Raises ConfigError for a config it does not accept."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Callable[[Mapping[str, JsonValue]], None]: ...


class AnyValidationStrategy(Component, type=None, default="ValidateAdheresToSchema", custom="CustomValidationStrategy"):
    """Raises ValueError for a value it does not accept."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> Callable[[JsonValue], None]: ...


class AnyCallRatePolicy(Component, type=None):
    """How often some requests may be sent."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> CallRatePolicy: ...
