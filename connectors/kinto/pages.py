"""Pagination of Kinto: the header `Next-Page` holds the URL of the next page, and the URL contains a token."""

from collections.abc import Sequence
from urllib.parse import parse_qs, urlsplit

from cdk import BadState, DecodeError, Record
from cdk.rest import Request, Response, Token

_TOKEN = "_token"  # noqa: S105 - the name of a parameter


class NextPage:
    """Takes only the token from the URL; the rest of the URL repeats the request. The token is `{"_token": "eyJs..."}`.

    So the state contains no address, and a server behind a proxy may report any host as its own.
    """

    def next(self, response: Response, records: Sequence[Record], last: Token | None) -> Token | None:
        """Return the token of the next page; None on the last. Raises DecodeError: when the URL has none."""
        url = response.headers.get("Next-Page")
        if url is None:
            return None
        tokens = parse_qs(urlsplit(url).query).get(_TOKEN)
        if tokens is None:
            raise DecodeError(
                f"{response.request}: found the header Next-Page {url!r}, expected a URL with the parameter {_TOKEN}"
            )
        return {_TOKEN: tokens[0]}

    def apply(self, request: Request, token: Token | None) -> Request:
        if token is None:
            return request
        if _TOKEN not in token:
            raise BadState("page token", dict(token), 'a token like {"_token": "eyJs..."}')
        return request.with_params({_TOKEN: token[_TOKEN]})
