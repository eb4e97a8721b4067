"""Paginator: decides whether a response has a next page, and how to request it."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from cdk.base.values import Record
from cdk.rest.http.messages import Request, Response
from cdk.rest.pagination.last_page import DoubtsEnd
from cdk.rest.pagination.page_signs import unused_next_page
from cdk.streams.page import Token


@runtime_checkable
class Paginator(Protocol):
    """Finds the token of the next page and puts a token into a request.

    Contract: pure; everything needed for the next request is in the token. A URL must be under the key `url`: it may
    then only lead to the API's host, and its secrets are removed from the state (see `cdk.rest.pagination.page_url`).
    `next` may explain its decision to authors with `explain_next`. A paginator that can say why a page may not be the
    last derives from `DoubtsEnd`.
    """

    def next(self, response: Response, records: Sequence[Record], last: Token | None) -> Token | None:
        """Return the token of the page after this one, or None if this is the last.

        records: all records of the response, or the result of an author's `parse` that finds them itself.
        last: the token with which this page was requested, None for the first.
        """

    def apply(self, request: Request, token: Token | None) -> Request:
        """Return `request` for the page of `token`, or for the first page if it is None."""


class SinglePage(DoubtsEnd):
    """The paginator of streams with a single page."""

    def doubt(self, response: Response) -> str:
        return unused_next_page(response)

    def next(self, response: Response, records: Sequence[Record], last: Token | None) -> Token | None:
        return None

    def apply(self, request: Request, token: Token | None) -> Request:
        return request
