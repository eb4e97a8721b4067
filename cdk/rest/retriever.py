"""Retriever: reads the pages of a slice. HttpStream uses PageRetriever; manifests and asynchronous jobs have others.

If a paginator counts, requests for further pages are sent ahead: the request for page 5 is known before page 4 arrives.
Requests beyond the last page of a slice are wasted: at most a quarter of its pages, and fewer than are sent at once.
Only GETs are sent ahead, and none where the records of a page decide whether there is a next one, where a budget would
have to wait, or where the run may send only few requests.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Protocol, cast

from msgspec import Struct
from msgspec.structs import replace

from cdk.base.errors import BadState, NotFound, stale_page_token
from cdk.base.process.read_ahead import ReadAhead, current_read_ahead
from cdk.base.process.request_lease import current_lease
from cdk.base.run import setting
from cdk.base.values import Record, Stored
from cdk.rest.client import HttpClient, Sender
from cdk.rest.errors.status_errors import BadRequest, error_text
from cdk.rest.http.messages import Request, Response
from cdk.rest.http.origin import CredentialScope, ForeignHost
from cdk.rest.limits.task_budgets import SliceTerm, limiting_waits
from cdk.rest.pagination.last_page import DoubtsEnd, check_page_after_end, doubtful_page_warning, unread_rows_warning
from cdk.rest.pagination.page_number import Counting
from cdk.rest.pagination.page_signs import full_page_doubt, has_position, says_end, total_records, unread_total
from cdk.rest.pagination.page_url import saved_token
from cdk.rest.pagination.paginator import Paginator, SinglePage
from cdk.rest.tracing import TRACE, PageNote
from cdk.state.slice import Slice
from cdk.streams.page import Item, Page, PageSource, Token
from cdk.streams.paged import listed, read_pages

_TOKEN_REJECTED = {400, 404, 410, 422}
"""Statuses with which APIs reject an expired page token; other statuses say nothing about the token."""
_NO_BODY = frozenset((204, 304))


FOUND_RECORDS: ContextVar[list[Sequence[Record]] | None] = ContextVar("found_records", default=None)
"""Collects the lists of records that `HttpStream.parse` finds in responses, before an author's override drops any."""


class Retriever(Protocol):
    """Reads one slice.

    Contract: starts at `slice.start`; shares with reads of other slices only what is thread-safe. Raises StaleToken:
    when the source rejects the token in `slice.start`.
    """

    def read(self, slice: Slice) -> Iterator[Item]:
        """Yield the records of `slice` in pages. An interrupted read resumes at a page's `next`; the last has none."""


class PageRetriever(Struct, frozen=True):
    """Reads one page after the other, with one request each.

    request: builds the request for the first page of a slice. parse: returns the records of a response. path: the path
    of the records in a response, if it is known.
    """

    client: HttpClient
    paginator: Paginator
    request: Callable[[Slice], Request]
    parse: Callable[[Response, Slice], Iterable[Record]]
    path: Sequence[str] | None = None

    def read(self, slice: Slice) -> Iterator[Item]:
        return read_pages(slice, lambda part, token: (self.page(part, token),))

    def page(self, slice: Slice, token: Token | None) -> Page:
        """Read the page of `token`; the first page if it is None.

        An error response that the error handler ignores is an empty last page; so is a 204 or 304.

        Raises StaleToken: when an earlier read saved `token` and it is unusable now, because the source rejects it, it
        leads to a host that this request must not be sent to (ForeignHost), or the paginator cannot parse it
        (BadState). Raises what the client, the paginator and `parse` raise.
        """
        saved = token is not None and token == slice.start.token
        try:
            request = self.paginator.apply(self._first_request(slice), token)
            if saved or token is None or not isinstance(self.paginator, Counting):
                response = self.client.send(request)
            else:
                later = partial(self._later, slice, self.paginator)
                response = send_with_later(self.client, request, token, later)
        except (BadRequest, NotFound, ForeignHost, BadState) as refused:
            if saved:
                raise stale_page_token(f"was rejected: {refused}") from refused
            raise
        if saved and response.status in _TOKEN_REJECTED:
            why = f"{response.request} answered {response.status} {error_text(response)}".rstrip()
            raise stale_page_token(f"was rejected: {why}")
        if not response.ok or response.status in _NO_BODY:
            if (trace := TRACE.get()) is not None:
                trace.note(PageNote(self.path, 0, 0, None, f"a response with status {response.status} ends the slice"))
            return Page((), None)
        records, all_records = self._records(response, slice)
        following = self.paginator.next(response, all_records, token)
        doubt = self._doubt(slice, token, response, all_records) if following is None and all_records else None
        if (trace := TRACE.get()) is not None:
            why = f"{type(self.paginator).__name__} finds {'none' if following is None else 'one'}"
            trace.note(PageNote(self.path, len(all_records), len(records), following, why, request=response.request))
        following = None if following is None else saved_token(response.request, following)
        source = self._source(response, len(all_records), token or following)
        return Page(records, following, doubt=doubt, source=source)

    def _source(self, response: Response, count: int, token: Token | None) -> PageSource | None:
        """Describe the response of a page; None for a streamed body, which is not stored.

        token: of this page, or of the next one if this is the first.
        """
        if response.request.stream:
            return None
        counting = isinstance(self.paginator, Counting)
        # An author's `parse` may drop records, so their number says nothing.
        counts_all = self.path is not None
        unread = partial(unread_rows_warning, response) if counting and counts_all else None
        if not (counting or has_position(token)):
            return PageSource(response.body, count, unread)
        ends = partial(says_end, response) if counts_all else lambda *_: says_end(response, 0, 0)
        return PageSource(response.body, count, unread, partial(total_records, response), ends)

    def _records(self, response: Response, slice: Slice) -> tuple[Sequence[Record], Sequence[Record]]:
        """Return the records, and all records that the response has: an author's `parse` may drop some of these."""
        with setting(FOUND_RECORDS, lists := list[Sequence[Record]]()):
            records = listed(self.parse(response, slice), "the records that `parse` returned are", self.parse)
        return records, max([records, *lists], key=len)

    def _doubt(
        self, slice: Slice, token: Token | None, last: Response, records: Sequence[Record]
    ) -> Callable[[], str] | None:
        """Return a function that tells why a page without a next one may not be the last; None if there is no doubt.

        Raises RecordsAfterEnd: when there are records after it.
        """
        paginator = self.paginator
        if isinstance(paginator, Counting):

            def fetch() -> tuple[Response, int]:
                request = paginator.apply(self._first_request(slice), paginator.token_after(token, len(records)))
                response = self.client.send(request)
                return response, len(self._records(response, slice)[1]) if response.ok else 0

            check_page_after_end(self, last, len(records), fetch)
        # If this is not the first page, the page before named it, so the paginator works.
        if token is not None or not isinstance(paginator, DoubtsEnd):
            return None
        return partial(_only_page_doubt, paginator, last, len(records))

    def _later(self, slice: Slice, paginator: Counting, token: Token) -> tuple[Token, Request]:
        """Return the token and the request of the page after that of `token`."""
        following = paginator.ahead(token)
        return following, self.paginator.apply(self._first_request(slice), following)

    def _first_request(self, slice: Slice) -> Request:
        """Return the request for the first page. Its secrets go only to its own origin, wherever responses lead."""
        request = self.request(slice)
        return request if request.scope is not None else replace(request, scope=CredentialScope.of([request.url]))


def _only_page_doubt(paginator: DoubtsEnd, last: Response, count: int) -> str:
    """Return why the only page of a slice, with `count` records, may not be the last; empty if nothing suggests it."""
    why = paginator.doubt(last) or unread_total(last, count)
    if not why and isinstance(paginator, SinglePage):
        why = full_page_doubt(last, count)
    return why and doubtful_page_warning(last, why)


def send_with_later(
    client: Sender, request: Request, token: Stored, later: Callable[[Stored], tuple[Stored, Request] | None]
) -> Response:
    """Return the response to a page's request, which may have been sent ahead; send requests of further pages ahead.

    token: of the page. later: returns the token and the request of the page after that of a token; None if unknown.
    Raises what the client raises.
    """
    ahead = cast("ReadAhead[Response] | None", current_read_ahead())
    if ahead is None or request.method != "GET" or request.stream:
        return client.send(request)
    wait_for_response, last = ahead.response_to(request), ahead.last(token)
    has_spare = current_lease().has_spare
    while has_spare and ahead.more and (following := later(last)) is not None:
        last, next_request = following
        if not ahead.start(last, next_request, partial(_send_unless_budget_waits, client, next_request)):
            break
    response = wait_for_response()
    return client.send(request) if response is None else response


def _send_unless_budget_waits(client: Sender, request: Request) -> Response:
    """Send a request ahead. Raises TermEnded: when a budget would have to wait. Raises what the client raises."""
    with limiting_waits(SliceTerm(lambda: 0.0)):
        return client.send(request)
