"""PageReader: the pages of a slice, one request each, from the first or from where an interrupted read stopped."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

from cdk.base.errors import CdkError, DecodeError, NotFound, StaleToken
from cdk.base.values import JsonObject, JsonValue, Record, to_json
from cdk.declarative.model.context import BuildContext, Names
from cdk.declarative.model.page_result import FetchedPage, PageResult
from cdk.declarative.model.plug_points import Incremental, PageRequests, Requester, Router, Select
from cdk.declarative.model.query_properties import Properties, with_properties
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.declarative.model.slice_names import FIRST_PAGE, slice_names, view
from cdk.declarative.reading.page_check import PageCheck
from cdk.declarative.reading.page_size_reduction import PageSizes, Reduction
from cdk.rest import BadRequest, Decoder, Headers, Response
from cdk.rest.errors.error_handler import ignores
from cdk.rest.errors.failed_body import ErrorInstead, OtherFormat
from cdk.rest.errors.outcome import ReducePageSize
from cdk.rest.http.messages import Request
from cdk.rest.pagination.last_page import doubtful, look_behind
from cdk.rest.pagination.page_signs import counts_positions, unread_total
from cdk.rest.pagination.page_url import saved_token
from cdk.rest.records.extractor import Extractor, raw_count
from cdk.rest.retriever import send_with_later
from cdk.rest.tracing import TRACE
from cdk.state.position import Start
from cdk.state.slice import Slice
from cdk.streams.page import Item, Page, Token
from cdk.streams.paged import PageParts, read_pages

TOKEN = "next_page_token"  # noqa: S105 - the name under which expressions and states know it

_NO_BODY = frozenset((204, 304))


@dataclass(frozen=True, slots=True)
class _PageQuery:
    """What a page is asked with."""

    token: JsonValue
    """As the API gave it, None for the first page of most."""

    names: Names
    """Those of expressions."""

    resumed: bool = False
    """An earlier read has saved the token."""

    first: bool = False
    """It begins the slice."""


@dataclass(slots=True, kw_only=True)
class PageReader:
    """Reads slices page by page. Shares nothing between slices but the client."""

    ctx: BuildContext
    router: Router | None
    requester: Requester
    extractor: Extractor
    decoder: Decoder

    select: Select | None
    """Makes the stream's records of those that were extracted; None where they are the same."""

    changes_records: bool
    """Records are changed after they are decoded."""

    pages: PageRequests
    incremental: Incremental | None

    only_first: bool
    """The partition and the window are put into the request of the first page only."""

    properties: Properties | None = None
    """What to ask for, in several requests if need be."""

    reduction: Reduction | None = None
    """How pages shrink that the API refuses."""

    key_paths: Sequence[Sequence[str]] = ()
    """The primary key, as the protocol writes it."""

    lazy: bool = False
    """Partitions may hold their first page, see FIRST_PAGE."""

    check: PageCheck = field(init=False)

    _cut: tuple[str, ...] | None = field(init=False)

    def __post_init__(self) -> None:
        # Transformations change what was decoded; an expression that looks for the next page wants it as it came.
        untouched = self.select is None and self.properties is None and not self.pages.reads_body
        self._cut = self.extractor.text_path if untouched else None
        self.check = PageCheck(self.extractor, self.decoder, self.requester.client.error_handler, self.key_paths)

    def read(self, slice: Slice) -> Iterator[Item]:
        pages = self.pages.of_slice()
        reader = self if pages is self.pages else replace(self, pages=pages)
        items = read_pages(slice, _SliceReading(reader, slice).page)
        # Nobody else knows what one has counted that counts in itself.
        return map(_without_token, items) if self._shifting or reader is not self else items

    @property
    def is_feed(self) -> bool:
        """Whether the newest records come first, and a slice ends at the first that is too old."""
        return self.incremental is not None and self.incremental.data_feed

    @property
    def counts_all(self) -> bool:
        """Whether its pages are counted, up to the last one that the source has."""
        return self.pages.counts is not None and not self.is_feed and self.properties is None

    @property
    def _shifting(self) -> bool:
        """Whether a saved token asks for another page once a record has come: pages are counted, the newest first."""
        return self.is_feed and self.pages.counts is not None

    def records(self, page: FetchedPage, slice: Slice, names: Names) -> Iterator[Sequence[Record]]:
        """The records of a response but for the last list of them, which is left in `page`, with the counts."""
        if self._cut is not None and (lines := page.response.cut_out(self._cut, slice.record_type)) is not None:
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
        """The stream's records of those that were extracted."""
        # The token is that of the request; a filter that reads it, as Airbyte's do, finds none on any page.
        return self.select(records, {**names, TOKEN: None}) if records and self.select is not None else records

    def extracted(self, response: Response) -> Iterator[list[JsonObject]]:
        """The records as the extractor gives them; none of a body in another format that the error handler ignores."""
        try:
            yield from self.extractor.pages(response)
        except (OtherFormat, ErrorInstead):
            if not ignores(self.requester.client.error_handler, response):
                raise

    def result(self, page: FetchedPage, query: _PageQuery) -> PageResult:
        """`page` as those see it who find the next one."""
        body = self._body(page.response) if self.pages.reads_body and page.response.ok else {}
        return PageResult(page.response, body, page.raw, page.selected, page.tail, query.token, query.names)

    def _body(self, response: Response) -> JsonValue:
        """The body as expressions see it: nothing of one decoded as it comes, and of a list its first element."""
        if self.decoder.streams:
            return {}
        try:
            if self.changes_records:
                # Decoded anew: what was decoded for the records, they are changed in.
                response = Response(response.status, response.headers, response.body, response.url, response.request)
            body = self.decoder.decode(response)
        except DecodeError:
            return {}
        if type(body) is list:
            return body[0] if body else {}
        return body

    def draft(self, slice: Slice, query: _PageQuery, size: int | None) -> RequestBuilder:
        """The request for a page."""
        draft = self.requester.draft(query.names)
        self.pages.apply(draft, query.token, size)
        if not (self.only_first and query.token is not None):
            if self.router is not None:
                self.router.apply(draft, slice)
            if self.incremental is not None:
                self.incremental.apply(draft, slice)
        return draft

    def saved(self, token: JsonValue, size: int | None) -> JsonObject:
        """A token as states keep it, with what it counts: in another manifest it may ask for another place."""
        state = {TOKEN: token}
        if self.pages.counts is not None:
            state["counts"] = self.pages.counts
        if self.pages.counts != "records" and size is not None:
            state["page_size"] = size
        return state


def _without_token(item: Item) -> Item:
    """The item as one from which no read resumes."""
    return item._replace(next=None) if isinstance(item, Page) else item


class _SliceReading:
    """The read of one slice: what its pages share."""

    def __init__(self, reader: PageReader, slice: Slice) -> None:
        self._reader, self._slice = reader, slice
        self._names = slice_names(view(slice, reader.ctx.window))
        self._sizes = PageSizes(reader.reduction, reader.pages.size)
        self._any_records = False
        # The token of the next page: as the state keeps it, and as the API gave it.
        self._next: tuple[Token | None, JsonValue] = (None, None)

    def page(self, _: Slice, saved: Token | None) -> PageParts:
        reader, query = self._reader, self._query(saved)
        if reader.properties is not None:
            page = self._merged(reader.properties, query)
        else:
            response = self._answer(query)
            if response is None or not response.ok or response.status in _NO_BODY:
                if (trace := TRACE.get()) is not None:
                    status = "no request" if response is None else f"a response with status {response.status}"
                    trace.note(reader.extractor.path, 0, 0, None, f"{status} ends the slice")
                yield Page((), None)
                return
            page = FetchedPage(response)
            for listed in reader.records(page, self._slice, query.names):
                yield self._in_feed(listed)
            self._refuse_error(page, query)
        self._any_records = self._any_records or page.raw > 0
        # A full page has as many records as it was requested with; the next one may be requested with more.
        size = self._sizes.size
        self._sizes.succeeded()
        records = page.records
        try:
            result = reader.result(page, query)
            following = reader.pages.next(result, size) if page.response.ok else None
            self._look_behind(result, following)
        except CdkError:
            # What was read is handed on before it is said that the next page cannot be found.
            yield Page(records, None)
            raise
        if records and reader.is_feed:
            # Newest first: where the last record of a page is too old, all that follow are; one that is too new says
            # nothing of them.
            following, records = None if self._is_too_old(records[-1]) else following, self._in_feed(records)
        if (trace := TRACE.get()) is not None:
            request = page.response.request if reader.properties is None else None
            trace.note(reader.extractor.path, page.raw, page.selected, following, request=request)
        warning = reader.check.warning(page)
        token = following if query.token is None else query.token
        by_position = reader.pages.counts is not None or (token is not None and counts_positions(token))
        source = page.source(ends_early=not reader.counts_all, by_position=by_position)
        if following is None:
            # Where there was a page before, it has named this one.
            doubt = partial(self._doubt, result, size) if saved is None else None
            yield Page(records, None, warning=warning, doubt=doubt, source=source)
            return
        safe = saved_token(page.response.request, following)
        self._next = reader.saved(safe, self._sizes.size), following
        yield Page(records, self._next[0], warning=warning, source=source)

    def _refuse_error(self, page: FetchedPage, query: _PageQuery) -> None:
        """Raise TransientError: a page says that the API failed."""
        first = not (self._any_records or query.resumed)
        self._reader.check.refuse_error(page, resumed=query.resumed, first=first)

    def _look_behind(self, last: PageResult, following: JsonValue) -> None:
        """Raise RowsBehindEnd: a page that names no next one is not the last."""
        reader = self._reader
        if following is not None or not last.raw or reader.properties is not None:
            return
        if (token := reader.pages.behind(last)) is None:
            return

        def fetch() -> tuple[Response, int]:
            query = _PageQuery(token, self._names_with(token))
            page = FetchedPage(reader.requester.client.send(self._request(query)))
            if page.response.ok:
                deque(reader.records(page, self._slice, query.names), 0)
            return page.response, page.raw

        look_behind(reader, last.response, last.raw, fetch)

    def _doubt(self, last: PageResult, size: int | None) -> str:
        """Why the only page of the slice may not be the last; empty for nothing, and where it has no records.

        size: of the page, as it was requested.
        """
        if not last.raw:
            return ""
        why = self._reader.pages.doubt(last, size) or unread_total(last.response, last.raw)
        return why and doubtful(last.response, why)

    def _query(self, saved: Token | None) -> _PageQuery:
        """What a page is asked with. Raises StaleToken: a saved token counts something else than the manifest now."""
        following, token = self._next
        first = resumed = False
        if saved is None or saved is not following:
            token = None if saved is None else saved.get(TOKEN)
            if saved is None or token is None:
                token, first = self._reader.pages.first(), True
            else:
                self._check_counts(saved)
                resumed = True
        return _PageQuery(token, self._names_with(token), resumed, first)

    def _check_counts(self, saved: Token) -> None:
        self._sizes.resume(saved.get("page_size"))
        now = self._reader.saved(saved[TOKEN], self._sizes.size)
        # A token of an older version says nothing of what it counts.
        if changed := [name for name, value in now.items() if saved.get(name, value) != value]:
            was = ", ".join(f"{name}: {saved[name]}" for name in changed)
            counts = ", ".join(f"{name}: {now[name]}" for name in changed)
            raise StaleToken(f"the page token saved by an earlier read has {was}, and the paginator now has {counts}")

    def _in_feed(self, records: Sequence[Record]) -> Sequence[Record]:
        """The records of a feed that are not too old; those of other streams as they are."""
        incremental = self._reader.incremental
        if incremental is None or not incremental.data_feed:
            return records
        return [record for record in records if incremental.wants(record, self._slice.window)]

    def _is_too_old(self, record: Record) -> bool:
        """Whether a record of a feed lies before the window."""
        incremental, window = self._reader.incremental, self._slice.window
        if incremental is None or window is None:
            return False
        return incremental.cursor.precedes(window, record.get(incremental.cursor.field))

    def _merged(self, properties: Properties, query: _PageQuery) -> FetchedPage:
        """A page that is asked for in several requests, each for some of the properties."""
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
        # A response that is ignored, as one may be for properties that the API does not have, names no next page.
        page = max(reversed(pages), key=lambda each: (each.response.ok, each.raw))
        names = with_properties(query.names, list(dict.fromkeys(chain.from_iterable(properties.chunks()))))
        # A filter may look at what only one of the requests has brought.
        page.records = page.tail = self._reader.selected(properties.merged(parts), names)
        page.selected = len(page.records)
        return page

    def _answer(self, query: _PageQuery) -> Response | None:
        """The answer that brings a page; None when the parent's record has said that there is nothing."""
        if self._reader.lazy and query.first and self._begins():
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

    def _counts_only(self) -> bool:
        """Whether a page is asked for in one request, which nothing but its token decides."""
        reader = self._reader
        return not (reader.is_feed or self._sizes.reducible or reader.properties is not None)

    def _later(self, token: JsonValue) -> tuple[JsonValue, Request] | None:
        """The token and the request of the page behind that of `token`; None: only that page knows."""
        following = self._reader.pages.ahead(token, self._sizes.size)
        if following is None:
            return None
        return following, self._request(_PageQuery(following, self._names_with(following)))

    def _names_with(self, token: JsonValue) -> Names:
        return {**self._names, TOKEN: None if token is None else {TOKEN: token}}

    def _begins(self) -> bool:
        """Whether a slice is all there is of a partition that was never read, and its first page is known."""
        slice, incremental = self._slice, self._reader.incremental
        # Where the pointer leads nowhere, only the API knows what there is.
        if slice.extra.get(FIRST_PAGE) in (None, {}) or slice.start != Start():
            return False
        window = slice.window
        return window is None or incremental is None or (window.last and window.start == incremental.cursor.start)

    def _send(self, query: _PageQuery) -> Response:
        client, request = self._reader.requester.client, self._request(query)
        try:
            if query.resumed or query.first or not self._counts_only():
                return client.send(request)
            return send_with_later(client, request, query.token, self._later)
        except (BadRequest, NotFound) as refused:
            if query.resumed:
                raise StaleToken(f"the page token saved by an earlier read is refused: {refused}") from refused
            raise
