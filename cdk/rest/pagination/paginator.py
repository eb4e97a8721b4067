"""Paginator: whether a response has a next page, and how to ask for it."""

from collections.abc import Sequence
from typing import Protocol

from cdk.base.values import Record
from cdk.rest.http.messages import Request, Response
from cdk.rest.pagination.last_page import DoubtsEnd
from cdk.rest.pagination.page_signs import unfollowed_next
from cdk.streams.page import Token


class Paginator(Protocol):
    """Finds the token of the next page and puts a token into a request.

    Contract: pure; what it needs to go on is in the token. A URL goes under the key `url`: it is then kept on the
    API's host, and secrets in it are left out of the state (see `cdk.rest.pagination.page_url`). `next` may say why
    with `explain_next`, for authors who look on. One that can say why a page may not be the last is a `DoubtsEnd`.
    """

    def next(self, response: Response, records: Sequence[Record], last: Token | None) -> Token | None:
        """The token of the page after this one, None when this was the last.

        records: those that the response has, or what a `parse` gave that finds them by itself.
        last: the token this page was asked with, None for the first.
        """

    def apply(self, request: Request, token: Token | None) -> Request:
        """`request`, asking for the page of `token`; for the first page when it is None."""


class SinglePage(DoubtsEnd):
    """Everything comes in one response."""

    def doubt(self, response: Response) -> str:
        return unfollowed_next(response)

    def next(self, response: Response, records: Sequence[Record], last: Token | None) -> Token | None:
        return None

    def apply(self, request: Request, token: Token | None) -> Request:
        return request
