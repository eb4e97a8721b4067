"""The plug points of requests: the components that send them, find pages, and make records of responses.

Contains only contracts. A component joins a family by subclassing it; a field annotated with a family accepts any of
its members.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol, Self, TypeAlias

from msgspec import Struct

from cdk.base.values import JsonObject, JsonSchema, JsonValue
from cdk.declarative.model.component import Component, Default
from cdk.declarative.model.context import BuildContext, Names
from cdk.declarative.model.page_result import PageResult
from cdk.declarative.model.query_properties import Properties
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.rest import Authenticator, Decoder
from cdk.rest.client import Sender
from cdk.rest.errors.http_error_handler import OutcomeHandler
from cdk.rest.errors.wait_strategies import WaitStrategy
from cdk.rest.records.extractor import Extractor

# --- records of a page -------------------------------------------------------------------------------------------

Transform: TypeAlias = Callable[[list[JsonObject], Names], None]
"""Changes the records of a page in place. The names are those of the slice."""

Select: TypeAlias = Callable[[list[JsonObject], Names], list[JsonObject]]
"""Returns the records of a page to keep."""

Normalize: TypeAlias = Callable[[list[JsonObject]], None]
"""Casts the values of a page's records to the types of their schema, in place."""


class AnyDecoder(Component):
    """Decodes response bodies of one format."""

    implied = Default(custom="CustomDecoder")

    @abstractmethod
    def build(self, ctx: BuildContext) -> Decoder: ...


class AnyExtractor(Component):
    """Extracts the records from a response that `decoder` decodes."""

    implied = Default(type="DpathExtractor", custom="CustomRecordExtractor")

    streams: ClassVar[bool] = False
    """Whether it reads a body while it arrives, whatever the decoder."""

    @abstractmethod
    def build(self, ctx: BuildContext, decoder: Decoder) -> Extractor: ...


class AnyTransformation(Component):
    """Changes the records of a page in place."""

    implied = Default(custom="CustomTransformation")

    @abstractmethod
    def build(self, ctx: BuildContext) -> Transform: ...


class AnyRecordFilter(Component):
    """Decides which records to keep."""

    implied = Default(type="RecordFilter", custom="CustomRecordFilter")

    @abstractmethod
    def build(self, ctx: BuildContext) -> Select: ...


class AnySchemaNormalization(Component):
    """Casts values to the types of a schema."""

    @abstractmethod
    def build(self, ctx: BuildContext, schema: JsonSchema) -> Normalize: ...


# --- requests ----------------------------------------------------------------------------------------------------


class AnyAuthenticator(Component):
    """Adds credentials to a request."""

    implied = Default(custom="CustomAuthenticator")

    @abstractmethod
    def build(self, ctx: BuildContext) -> Authenticator | None: ...


class AnyBackoffStrategy(Component):
    """Decides how long to wait before a request is retried."""

    implied = Default(custom="CustomBackoffStrategy")

    @abstractmethod
    def build(self, ctx: BuildContext) -> WaitStrategy: ...


class AnyErrorHandler(Component):
    """Decides what a response means and whether to retry the request."""

    implied = Default(type="DefaultErrorHandler", custom="CustomErrorHandler")

    @abstractmethod
    def build(self, ctx: BuildContext) -> OutcomeHandler: ...


class AnyRequestBody(Component):
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


class AnyRequester(Component):
    """Defines which requests to send, and how."""

    implied = Default(type="HttpRequester", custom="CustomRequester")

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
        """Return the strategy for one read of a slice: itself, or if it may count, a copy that has seen no pages."""
        return self

    @property
    def has_counted(self) -> bool:
        """Whether it has changed itself since `of_slice`, so that no other instance can resume from its tokens."""
        return False

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


class AnyPaginationStrategy(Component):
    """Finds the next page."""

    implied = Default(custom="CustomPaginationStrategy")

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


class AnyPaginator(Component):
    """Finds pages and requests them."""

    implied = Default(type="NoPagination")

    @abstractmethod
    def build(self, ctx: BuildContext, decoder: Decoder) -> PageRequests: ...

    def shrinking_problem(self) -> str:
        """Return why smaller pages cannot be requested, in words; an empty string if they can."""
        return ""
