"""PageReader: the pages of a slice, one request each, from the first or from where an interrupted read stopped."""

import dataclasses
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from cdk.base.errors import CdkError, DecodeError, NotFound, stale_page_token
from cdk.base.values import JsonObject, JsonValue, Record, to_json
from cdk.declarative.model.context import BuildContext, Names
from cdk.declarative.model.page_result import FetchedPage, PageResult
from cdk.declarative.model.query_properties import Properties, with_properties
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.declarative.model.request_plug_points import PageRequests, Requester, Select
from cdk.declarative.model.slice_names import FIRST_PAGE, slice_names, view
from cdk.declarative.model.stream_plug_points import Incremental, Router
from cdk.declarative.reading.page_check import PageCheck
from cdk.declarative.reading.page_size_reduction import PageSizes, Reduction
from cdk.rest import BadRequest, Decoder, Headers, Response
from cdk.rest.errors.error_handler import ignores
from cdk.rest.errors.failed_body import ErrorInstead, OtherFormat
from cdk.rest.errors.outcome import ReducePageSize
from cdk.rest.http.messages import Request
from cdk.rest.pagination.last_page import check_page_after_end, doubtful_page_warning
from cdk.rest.pagination.page_signs import has_position, unread_total
from cdk.rest.pagination.page_url import saved_token
from cdk.rest.records.extractor import Extractor, raw_count
from cdk.rest.retriever import send_with_later
from cdk.rest.tracing import TRACE, PageNote
from cdk.state.position import Start
from cdk.state.slice import Slice
from cdk.streams.page import Item, Page, Token
from cdk.streams.paged import PageParts, read_pages

TOKEN = "next_page_token"  # noqa: S105 - its name in expressions and states

_NO_BODY = frozenset((204, 304))


class _PageQuery(Struct, frozen=True):
    """What a page is requested with."""

    token: JsonValue
    """The token as the API returned it; None for the first page of most paginators."""

    names: Names
    """The names available to expressions."""

    resumed: bool = False
    """Whether an earlier read saved the token."""

    first: bool = False
    """Whether the page is the first of the slice."""


@dataclasses.dataclass(slots=True, kw_only=True, eq=False, repr=False)
class PageReader:
    """Reads slices page by page. Slices share nothing but the client."""

    token_key: ClassVar[str | None] = TOKEN
    """As `SliceReader.token_key`."""

    ctx: BuildContext
    router: Router | None
    requester: Requester
    extractor: Extractor
    decoder: Decoder

    select: Select | None
    """Turns extracted records into records of the stream; None if they stay as they are."""

    changes_records: bool
    """Whether records are modified after they are decoded."""

    pages: PageRequests
    incremental: Incremental | None

    only_first: bool
    """Whether only the request of the first page carries the partition and the window."""

    properties: Properties | None = None
    """The properties to request, in several requests if necessary."""

    reduction: Reduction | None = None
    """How pages shrink that the API refuses as too large."""

    key_paths: Sequence[Sequence[str]] = ()
    """The primary key, in the form of the protocol."""

    lazy: bool = False
    """Whether partitions may hold their first page, see FIRST_PAGE."""

    check: PageCheck = dataclasses.field(init=False)

    _raw_path: tuple[str, ...] | None = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        # Records stay text only if nothing filters or changes them and no expression reads the body for the next page.
        untouched = self.select is None and self.properties is None and not self.pages.strategy.reads_body
        self._raw_path = self.extractor.text_path if untouched else None
        self.check = PageCheck(self.extractor, self.decoder, self.requester.client.error_handler, self.key_paths)

    def read(self, slice: Slice) -> Iterator[Item]:
        strategy, reader = self.pages.strategy.of_slice(), self
        if strategy is not self.pages.strategy:
            reader = dataclasses.replace(self, pages=replace(self.pages, strategy=strategy))
        items = read_pages(slice, _SliceReading(reader, slice).page)
        if reader is self and not self._tokens_shift:
            return items
        return (_without_token(item) if self._tokens_shift or strategy.has_counted else item for item in items)

    @property
    def is_feed(self) -> bool:
        """Whether records arrive newest first, so that a slice ends at the first that is too old."""
        return self.incremental is not None and self.incremental.data_feed

    @property
    def counts_all(self) -> bool:
        """Whether its pages are counted, and read up to the last one of the source."""
        return self.pages.strategy.counts is not None and not self.is_feed and self.properties is None

    @property
    def _tokens_shift(self) -> bool:
        """Whether a saved token denotes another page once a record is added: pages are counted, newest first."""
        return self.is_feed and self.pages.strategy.counts is not None

    def records(self, page: FetchedPage, slice: Slice, names: Names) -> Iterator[Sequence[Record]]:
        """Yield the lists of records of a response except the last, which is left in `page` along with the counts."""
        if (
            self._raw_path is not None
            and (lines := page.response.undecoded_records(self._raw_path, slice.record_type)) is not None
        ):
            page.raw = page.selected = page.present = len(lines)
            page.records = page.tail = lines
            if page.raw == 1:
                page.lone_object = self.check.lone_object(lines, page.response)
            return
        first = True
        for listed in self.extracted(page.response):
            if not first:
                yield page.records
            first = False
            page.raw, page.present = page.raw + raw_count(listed), page.present + len(listed)
            if page.raw == 1:
                page.lone_object = self.check.lone_object(listed, page.response)
            page.records = records = self.selected(listed, names)
            page.selected += len(records)
            page.tail = records or page.tail

    def selected(self, records: list[JsonObject], names: Names) -> list[JsonObject]:
        """Return the stream's records for extracted ones."""
        # The token belongs to the request; a filter that reads it finds none on any page, as in Airbyte.
        return self.select(records, {**names, TOKEN: None}) if records and self.select is not None else records

    def extracted(self, response: Response) -> Iterator[list[JsonObject]]:
        """Yield the extracted records; none of a body in another format, if the error handler ignores the response."""
        try:
            yield from self.extractor.pages(response)
        except (OtherFormat, ErrorInstead):
            if not ignores(self.requester.client.error_handler, response):
                raise

    def result(self, page: FetchedPage, query: _PageQuery) -> PageResult:
        """Return `page` as paginators see it."""
        body = self._body(page.response) if self.pages.strategy.reads_body and page.response.ok else {}
        return PageResult(page.response, body, page.raw, page.selected, page.tail, query.token, query.names)

    def _body(self, response: Response) -> JsonValue:
        """Return the body as expressions see it: the first element of a list; empty if it is null or is streamed."""
        if self.decoder.streams:
            return {}
        try:
            if self.changes_records:
                # Decode again: the records of the first decoding were modified in place.
                response = Response(response.status, response.headers, response.body, response.url, response.request)
            body = self.decoder.decode(response)
        except DecodeError:
            return {}
        if type(body) is list:
            body = body[0] if body else None
        return {} if body is None else body

    def draft(self, slice: Slice, query: _PageQuery, size: int | None) -> RequestBuilder:
        """Return the request for a page."""
        draft = self.requester.draft(query.names)
        self.pages.apply(draft, query.token, size)
        if not (self.only_first and query.token is not None):
            if self.router is not None:
                self.router.apply(draft, slice)
            if self.incremental is not None:
                self.incremental.apply(draft, slice)
        return draft

    def stored_token(self, token: JsonValue, size: int | None) -> JsonObject:
        """Return a token as states store it, with what it counts: in another manifest it may mean another place."""
        state = {TOKEN: token}
        if self.pages.strategy.counts is not None:
            state["counts"] = self.pages.strategy.counts
        if self.pages.strategy.counts != "records" and size is not None:
            state["page_size"] = size
        return state


def _without_token(item: Item) -> Item:
    """Return the item without its token, so that no read resumes from it."""
    return replace(item, next=None) if isinstance(item, Page) else item


class _SliceReading:
    """The read of one slice, with the data that its pages share."""

    def __init__(self, reader: PageReader, slice: Slice) -> None:
        self._reader, self._slice = reader, slice
        self._names = slice_names(view(slice, reader.ctx.window))
        self._sizes = PageSizes(reader.reduction, reader.pages.strategy.size)
        self._any_records = False
        # The token of the next page: as the state stores it, and as the API returned it.
        self._next: tuple[Token | None, JsonValue] = (None, None)

    def page(self, _: Slice, saved: Token | None) -> PageParts:
        reader, query = self._reader, self._query(saved)
        if reader.properties is not None:
            page = self._merged(reader.properties, query)
        else:
            response = self._response(query)
            if response is None or not response.ok or response.status in _NO_BODY:
                if (trace := TRACE.get()) is not None:
                    status = "no request" if response is None else f"a response with status {response.status}"
                    trace.note(PageNote(reader.extractor.path, 0, 0, None, f"{status} ends the slice"))
                yield Page((), None)
                return
            page = FetchedPage(response)
            for listed in reader.records(page, self._slice, query.names):
                yield self._in_feed(listed)
            self._refuse_error(page, query)
        self._any_records = self._any_records or page.raw > 0
        # A full page has as many records as were requested; the next page may be requested with a larger size.
        size = self._sizes.size
        self._sizes.succeeded()
        records = page.records
        try:
            result = reader.result(page, query)
            following = reader.pages.next(result, size) if page.response.ok else None
            self._look_behind(result, following)
        except CdkError:
            # Hand on the records before reporting that the next page cannot be found.
            yield Page(records, None)
            raise
        if records and reader.is_feed:
            # Newest first: if the last record of a page is too old, so are all that follow; if it is too new, that says
            # nothing about them.
            following, records = None if self._is_too_old(records[-1]) else following, self._in_feed(records)
        if (trace := TRACE.get()) is not None:
            request = page.response.request if reader.properties is None else None
            trace.note(PageNote(reader.extractor.path, page.raw, page.selected, following, request=request))
        warning = reader.check.warning(page)
        token = following if query.token is None else query.token
        by_position = reader.pages.strategy.counts is not None or (token is not None and has_position(token))
        source = page.source(ends_early=not reader.counts_all, by_position=by_position)
        if following is None:
            # An earlier page would have named this one, so only a first page is doubted.
            doubt = partial(self._doubt, result, size) if saved is None else None
            yield Page(records, None, warning=warning, doubt=doubt, source=source)
            return
        safe = saved_token(page.response.request, following)
        self._next = reader.stored_token(safe, self._sizes.size), following
        yield Page(records, self._next[0], warning=warning, source=source)

    def _refuse_error(self, page: FetchedPage, query: _PageQuery) -> None:
        """Raise TransientError: when a page says that the API failed."""
        first = not (self._any_records or query.resumed)
        self._reader.check.refuse_error(page, resumed=query.resumed, first=first)

    def _look_behind(self, last: PageResult, following: JsonValue) -> None:
        """Raise RecordsAfterEnd: when a page that names no next page is not the last."""
        reader = self._reader
        if following is not None or not last.raw or reader.properties is not None:
            return
        if (token := reader.pages.strategy.token_after_page(last)) is None:
            return

        def fetch() -> tuple[Response, int]:
            query = _PageQuery(token, self._names_with(token))
            page = FetchedPage(reader.requester.client.send(self._request(query)))
            if page.response.ok:
                deque(reader.records(page, self._slice, query.names), 0)
            return page.response, page.raw

        check_page_after_end(reader, last.response, last.raw, fetch)

    def _doubt(self, last: PageResult, size: int | None) -> str:
        """Return why the only page of the slice may not be the last; empty if nothing suggests so or it has no records.

        size: the page size that was requested.
        """
        if not last.raw:
            return ""
        why = self._reader.pages.strategy.doubt(last, size) or unread_total(last.response, last.raw)
        return why and doubtful_page_warning(last.response, why)

    def _query(self, saved: Token | None) -> _PageQuery:
        """Return what a page is requested with. Raises StaleToken: when the settings of a saved token have changed."""
        following, token = self._next
        first = resumed = False
        if saved is None or saved is not following:
            token = None if saved is None else saved.get(TOKEN)
            if saved is None or token is None:
                token, first = self._reader.pages.strategy.first(), True
            else:
                self._check_counts(saved)
                resumed = True
        return _PageQuery(token, self._names_with(token), resumed, first)

    def _check_counts(self, saved: Token) -> None:
        self._sizes.resume(saved.get("page_size"))
        now = self._reader.stored_token(saved[TOKEN], self._sizes.size)
        # What a token does not name, the manifest did not need when it was saved.
        if changed := [name for name, value in now.items() if saved.get(name, value) != value]:
            was = ", ".join(f"{name}: {saved[name]}" for name in changed)
            counts = ", ".join(f"{name}: {now[name]}" for name in changed)
            raise stale_page_token(f"has {was}, but the paginator now has {counts}")

    def _in_feed(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return the records of a feed that lie in the window; records of other streams as they are."""
        incremental = self._reader.incremental
        if incremental is None or not incremental.data_feed:
            return records
        return [record for record in records if incremental.is_in_window(record, self._slice.window)]

    def _is_too_old(self, record: Record) -> bool:
        """Whether a record of a feed lies before the window."""
        incremental, window = self._reader.incremental, self._slice.window
        if incremental is None or window is None:
            return False
        return incremental.cursor.precedes(window, record.get(incremental.cursor.field))

    def _merged(self, properties: Properties, query: _PageQuery) -> FetchedPage:
        """Return a page that is fetched with several requests, each for some of the properties."""
        parts: list[list[JsonObject]] = []
        pages: list[FetchedPage] = []
        for chunk in properties.chunks():
            part = replace(query, names=with_properties(query.names, chunk))
            page = FetchedPage(self._send(part))
            pages.append(page)
            if page.response.ok:
                lists = list(self._reader.extracted(page.response))
                page.raw, page.records = sum(map(raw_count, lists)), list(chain.from_iterable(lists))
                page.present = len(page.records)
                if page.raw == 1:
                    page.lone_object = self._reader.check.lone_object(page.records, page.response)
                self._refuse_error(page, part)
                parts.append([dict(record) for record in page.records])
        # An ignored response, such as one for properties that the API does not have, names no next page.
        page = max(reversed(pages), key=lambda each: (each.response.ok, each.raw))
        names = with_properties(query.names, list(dict.fromkeys(chain.from_iterable(properties.chunks()))))
        # A filter may read properties that only one of the requests returned.
        page.records = page.tail = self._reader.selected(properties.merged(parts), names)
        page.selected = len(page.records)
        return page

    def _response(self, query: _PageQuery) -> Response | None:
        """Return the response that holds a page; None if the parent's record already says that there are no records."""
        if self._reader.lazy and query.first and self._holds_first_page():
            known = self._slice.extra[FIRST_PAGE]
            if not known:
                return None
            request = self._request(query)
            return Response(200, Headers({}), to_json(known, str), request.url, request)
        if not self._sizes.reducible:
            return self._send(query)
        while True:
            try:
                return self._send(query)
            except ReducePageSize as refused:
                self._sizes.reduce(refused)

    def _request(self, query: _PageQuery) -> Request:
        return self._reader.draft(self._slice, query, self._sizes.size).request()

    def _depends_on_token_only(self) -> bool:
        """Whether a page takes a single request that depends on nothing but its token."""
        reader = self._reader
        return not (reader.is_feed or self._sizes.reducible or reader.properties is not None)

    def _following_request(self, token: JsonValue) -> tuple[JsonValue, Request] | None:
        """Return the token and the request of the page after `token`; None if only that page can name them."""
        following = self._reader.pages.strategy.token_after(token, self._sizes.size)
        if following is None:
            return None
        return following, self._request(_PageQuery(following, self._names_with(following)))

    def _names_with(self, token: JsonValue) -> Names:
        return {**self._names, TOKEN: None if token is None else {TOKEN: token}}

    def _holds_first_page(self) -> bool:
        """Whether a slice covers all of a partition that was never read and whose first page is known."""
        slice, incremental = self._slice, self._reader.incremental
        # If the pointer leads nowhere in the parent's record, only the API knows the records.
        if slice.extra.get(FIRST_PAGE) in (None, {}) or slice.start != Start():
            return False
        window = slice.window
        return window is None or incremental is None or (window.last and window.start == incremental.cursor.start)

    def _send(self, query: _PageQuery) -> Response:
        client, request = self._reader.requester.client, self._request(query)
        try:
            if query.resumed or query.first or not self._depends_on_token_only():
                return client.send(request)
            return send_with_later(client, request, query.token, self._following_request)
        except (BadRequest, NotFound) as refused:
            if query.resumed:
                raise stale_page_token(f"was rejected: {refused}") from refused
            raise
