"""Retriever: reads the pages of a slice. HttpStream uses PageRetriever; manifests and asynchronous jobs have others.

Where a paginator counts, requests of further pages are sent ahead: page 5 is known before page 4 is there. Those
behind the last page of a slice are wasted: at most a quarter of its pages, and fewer than are sent at once. Only GETs
are sent ahead, no page whose records decide whether there is a next one, none for which a budget would wait, and none
where a run may send few requests.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, cast

from cdk.base.errors import BadState, NotFound, StaleToken
from cdk.base.process.read_ahead import ReadAhead, current_read_ahead
from cdk.base.process.request_lease import current_lease
from cdk.base.run import setting
from cdk.base.values import Record, Stored
from cdk.rest.client import HttpClient, Sender
from cdk.rest.errors.status_errors import BadRequest, error_text
from cdk.rest.http.messages import Request, Response
from cdk.rest.http.origin import CredentialScope, ForeignHost
from cdk.rest.limits.task_budgets import SliceTerm, waiting
from cdk.rest.pagination.last_page import DoubtsEnd, doubtful, look_behind, unread_rows
from cdk.rest.pagination.page_number import Counting
from cdk.rest.pagination.page_signs import counts_positions, full_page, says_end, total_records, unread_total
from cdk.rest.pagination.page_url import saved_token
from cdk.rest.pagination.paginator import Paginator, SinglePage
from cdk.rest.tracing import TRACE
from cdk.state.slice import Slice
from cdk.streams.page import Item, Page, PageSource, Token
from cdk.streams.paged import listed, read_pages

_TOKEN_REFUSED = {400, 404, 410, 422}
"""Statuses that APIs answer a page token with that has expired; others say nothing about the token."""
_NO_BODY = frozenset((204, 304))


LISTS: ContextVar[list[Sequence[Record]] | None] = ContextVar("lists", default=None)
"""Gets the records that responses have, as `HttpStream.parse` finds them for one that an author has written."""


class Retriever(Protocol):
    """Reads one slice.

    Contract: begins at `slice.start`; shares nothing with reads of other slices but what is safe to share. Raises
    StaleToken: the source refused the token in `slice.start`.
    """

    def read(self, slice: Slice) -> Iterator[Item]:
        """The records of `slice`, in pages whose `next` an interrupted read resumes with; the last has none."""


@dataclass(frozen=True, slots=True)
class PageRetriever:
    """Page after page, one request each.

    request: the request for the first page of a slice. parse: the records of a response. path: where these lie, if that
    is known.
    """

    client: HttpClient
    paginator: Paginator
    request: Callable[[Slice], Request]
    parse: Callable[[Response, Slice], Iterable[Record]]
    path: Sequence[str] | None = None

    def read(self, slice: Slice) -> Iterator[Item]:
        return read_pages(slice, lambda part, token: (self.page(part, token),))

    def page(self, slice: Slice, token: Token | None) -> Page:
        """The page of `token`, the first when it is None.

        A response that is no success, and that the error handler ignores, is an empty last page; so is a 204 or 304.

        Raises StaleToken: `token` was saved by an earlier read, and the source refuses it now, or it leads where this
        request may not go (ForeignHost), or the paginator cannot read it (BadState). Raises what the client and the
        parts raise.
        """
        saved = token is not None and token == slice.start.token
        try:
            request = self.paginator.apply(self._first(slice), token)
            if saved or token is None or not isinstance(self.paginator, Counting):
                response = self.client.send(request)
            else:
                later = partial(self._later, slice, self.paginator)
                response = send_with_later(self.client, request, token, later)
        except (BadRequest, NotFound, ForeignHost, BadState) as refused:
            if saved:
                raise StaleToken(f"the page token saved by an earlier read is refused: {refused}") from refused
            raise
        if saved and response.status in _TOKEN_REFUSED:
            why = f"{response.request} answered {response.status} {error_text(response)}".rstrip()
            raise StaleToken(f"the page token saved by an earlier read is refused: {why}")
        if not response.ok or response.status in _NO_BODY:
            if (trace := TRACE.get()) is not None:
                trace.note(self.path, 0, 0, None, f"a response with status {response.status} ends the slice")
            return Page((), None)
        records, listed_there = self._records(response, slice)
        following = self.paginator.next(response, listed_there, token)
        doubt = self._doubt(slice, token, response, listed_there) if following is None and listed_there else None
        if (trace := TRACE.get()) is not None:
            why = f"{type(self.paginator).__name__} finds {'none' if following is None else 'one'}"
            trace.note(self.path, len(listed_there), len(records), following, why, request=response.request)
        following = None if following is None else saved_token(response.request, following)
        source = self._source(response, len(listed_there), token or following)
        return Page(records, following, doubt=doubt, source=source)

    def _source(self, response: Response, count: int, token: Token | None) -> PageSource | None:
        """What records came in; nothing of a body that is not kept. token: its own, or that of the next page."""
        if response.request.stream:
            return None
        counting = isinstance(self.paginator, Counting)
        # Who parses records may leave some out.
        counts_all = self.path is not None
        unread = partial(unread_rows, response) if counting and counts_all else None
        if not (counting or counts_positions(token)):
            return PageSource(response.body, count, unread)
        ends = partial(says_end, response) if counts_all else lambda *_: says_end(response, 0, 0)
        return PageSource(response.body, count, unread, partial(total_records, response), ends)

    def _records(self, response: Response, slice: Slice) -> tuple[Sequence[Record], Sequence[Record]]:
        """The records, and those that the response has: an author's `parse` may leave some of these out."""
        with setting(LISTS, lists := list[Sequence[Record]]()):
            records = listed(self.parse(response, slice), "the records that `parse` gave are", self.parse)
        return records, max([records, *lists], key=len)

    def _doubt(
        self, slice: Slice, token: Token | None, last: Response, records: Sequence[Record]
    ) -> Callable[[], str] | None:
        """Says why a page that names no next one may not be the last. Raises RowsBehindEnd: it is not."""
        paginator = self.paginator
        if isinstance(paginator, Counting):

            def fetch() -> tuple[Response, int]:
                request = paginator.apply(self._first(slice), paginator.behind(token, len(records)))
                response = self.client.send(request)
                return response, len(self._records(response, slice)[1]) if response.ok else 0

            look_behind(self, last, len(records), fetch)
        # Where there was a page before, it has named this one.
        if token is not None or not isinstance(paginator, DoubtsEnd):
            return None
        return partial(_explained_doubt, paginator, last, len(records))

    def _later(self, slice: Slice, paginator: Counting, token: Token) -> tuple[Token, Request]:
        """The token and the request of the page behind that of `token`."""
        following = paginator.ahead(token)
        return following, self.paginator.apply(self._first(slice), following)

    def _first(self, slice: Slice) -> Request:
        """The request for the first page. Its secrets go only to its own origin, wherever responses lead next."""
        request = self.request(slice)
        return request if request.scope is not None else replace(request, scope=CredentialScope.of([request.url]))


def _explained_doubt(paginator: DoubtsEnd, last: Response, count: int) -> str:
    """Why the only page of a slice, with `count` records, may not be the last; empty for nothing."""
    why = paginator.doubt(last) or unread_total(last, count)
    if not why and isinstance(paginator, SinglePage):
        why = full_page(last, count)
    return why and doubtful(last, why)


def send_with_later(
    client: Sender, request: Request, token: Stored, later: Callable[[Stored], tuple[Stored, Request] | None]
) -> Response:
    """Send the request of a page, unless it was sent ahead; send those of further pages ahead. Returns the response.

    token: of the page. later: the token and the request of the page behind that of a token; None: unknown.
    Raises what the client raises.
    """
    ahead = cast("ReadAhead[Response] | None", current_read_ahead())
    if ahead is None or request.method != "GET" or request.stream:
        return client.send(request)
    wait_for_response, last = ahead.response_to(request), ahead.last(token)
    spares = current_lease().spares
    while spares and ahead.more and (following := later(last)) is not None:
        last, next_request = following
        if not ahead.start(last, next_request, partial(_send_unless_budget_waits, client, next_request)):
            break
    response = wait_for_response()
    return client.send(request) if response is None else response


def _send_unless_budget_waits(client: Sender, request: Request) -> Response:
    """Send a request ahead. Raises TermEnded: a budget has no turn for it yet. Raises what the client raises."""
    with waiting(SliceTerm(lambda: 0.0)):
        return client.send(request)
