"""Route: the requests that a mock API answers alike, with responses, faults, and rows that change."""

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from threading import Lock
from typing import Self, TypeAlias
from urllib.parse import parse_qs, urlsplit

from cdk.base.errors import CdkError, Timeout
from cdk.base.times.clock import sleep
from cdk.base.values import Record, to_json
from cdk.rest import Headers, Request, Response
from cdk.rest.http.messages import query_of
from cdk.rest.http.streamed_response import StreamedResponse
from cdk.streams.order import NaturalOrder

Respond: TypeAlias = Callable[[Request], Response]

_CLIENT_TIMEOUT = 120.0
"""Seconds until a client gives up on a silent server, as in `HttpTransport`."""

_OK, _REDIRECT = 200, 300
_LABEL = {"Content-Type": "application/json"}


_ANSWERING = Lock()
"""One lock for all routes: routes are pickled with their stream, which a lock per route would prevent."""


class UnexpectedRequest(AssertionError):
    """Raised for a request that no route answers."""


class WrongAnswer(AssertionError, TypeError):
    """Raised when a function passed to `answers` returns no Response: a mistake in the test, not in the connector."""


class Route:
    """A kind of request and its responses in order; the last response repeats.

    path: `/users`, `/users/*/posts`, or a whole URL without a query. params, body, headers: parameters, fields of a
    JSON or form body, and headers that a request must have; it may have more. requests: those that this route received.
    """

    def __init__(
        self,
        method: str,
        path: str,
        params: Mapping[str, object] | None = None,
        *,
        body: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._method, self._path, self._params = method, path, params or {}
        self._body, self._headers = body or {}, headers or {}
        self._responses: list[Respond] = []
        self._changes: dict[int, Callable[[], object]] = {}
        self.requests: list[Request] = []
        # A `*` stands for any single path segment.
        self._pattern = re.compile("[^/]*".join(re.escape(part) for part in path.split("*")))

    def returns(
        self,
        *,
        json: object = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        after: float = 0,
    ) -> Self:
        """Add a response with `json`, and the Content-Type of JSON, or with `body` unchanged.

        after: seconds until the response arrives; after two minutes the client gives up with a Timeout.
        Raises TypeError: when `body` is not bytes, or `json` cannot be serialized.
        """
        self._content(json, body)
        fields = {**(_LABEL if body is None else {}), **(headers or {})}

        def respond(request: Request) -> Response:
            if after:
                sleep(min(after, _CLIENT_TIMEOUT))
            if after > _CLIENT_TIMEOUT:
                raise Timeout(f"{request}: no response in time (nothing came for {_CLIENT_TIMEOUT:.0f} s)")
            # Serialized at each request, because the test may have changed the value since.
            return Response(status, Headers(fields), self._content(json, body), request.full_url, request)

        return self.answers(respond)

    def breaks_off(self, *, json: object = None, body: bytes | None = None, at: int = 1) -> Self:
        """Add a response with status 200 that ends after `at` bytes of its body, as with a lost connection.

        Raises TypeError: as `returns` does.
        """
        content = self._content(json, body)

        def respond(request: Request) -> Response:
            error = Timeout(f"{request}: the connection failed (the body ends after {at} of {len(content)} bytes)")
            if not request.stream:
                raise error
            return StreamedResponse(_OK, Headers(_LABEL), _truncated(content[:at], error), request.full_url, request)

        return self.answers(respond)

    def raises(self, error: CdkError) -> Self:
        """Raise an error instead of returning a response, as a transport does when the connection fails."""

        def respond(_: Request) -> Response:
            raise error

        return self.answers(respond)

    def serves(
        self,
        rows: Sequence[Record],
        *,
        size: int,
        at: str = "",
        page: str = "page",
        first: int = 1,
        since: tuple[str, str] | None = None,
        more: str = "",
    ) -> Self:
        """Add a response with the page of `rows` that a request asks for, computed when the request arrives.

        size: rows per page. at: the field of the body that holds the rows; empty for the body itself. page: the
        parameter with the page number, counted from `first`; without it, a request gets the first page. since: a
        parameter, and the field whose value must be equal to or greater than that parameter: `("since", "updated_at")`.
        more: the field of the body that says whether another page follows; empty for none.
        """

        def respond(request: Request) -> Response:
            sent = {name: value for name, value in query_of(request.full_url) if value}
            chosen = rows
            if since is not None and since[0] in sent:
                chosen = [row for row in rows if NaturalOrder().reaches(row[since[1]], sent[since[0]])]
            number = int(sent.get(page, first)) - first
            part = list(chosen[number * size : (number + 1) * size])
            flag = {more: (number + 1) * size < len(chosen)} if more else {}
            return json_response(request, _OK, to_json({at: part, **flag} if at else part))

        return self.answers(respond)

    def before(self, number: int, change: Callable[[], object]) -> Self:
        """Call `change` before this route answers its request number `number`, counted from 1."""
        self._changes[number] = change
        return self

    def answers(self, respond: Respond) -> Self:
        """Add a function that takes a request and returns its Response; the how-to page has an example."""
        self._responses.append(respond)
        return self

    @property
    def rank(self) -> tuple[int, bool, int]:
        """How specific the route is: fewer `*` come first, then whole URLs before paths, then more conditions."""
        conditions = len(self._params) + len(self._body) + len(self._headers)
        return -self._path.count("*"), "://" in self._path, conditions

    def matches(self, request: Request) -> bool:
        """Whether a request has this route's method, path (or whole URL), parameters, fields and headers."""
        url = urlsplit(request.full_url)
        path = f"{url.scheme}://{url.netloc}{url.path}" if "://" in self._path else url.path
        sent, headers = dict(_query(request)), Headers(request.headers)
        return (
            request.method == self._method
            and self._pattern.fullmatch(path) is not None
            and all(sent.get(name) == values for name, values in _query(Request("", "", self._params)))
            and all(headers.get(name) == value for name, value in self._headers.items())
            and (not self._body or self._body.items() <= request.body_fields[1].items())
        )

    def respond(self, request: Request) -> Response:
        """Return the next response.

        Raises UnexpectedRequest: when the route has none; WrongAnswer: when it is no Response.
        """
        with _ANSWERING:
            self.requests.append(request)
            number = len(self.requests)
            if number in self._changes:
                self._changes[number]()
        if not self._responses:
            raise UnexpectedRequest(f"{request}: its route {self} has no response; add `.returns(...)`")
        response: object = self._responses[min(number, len(self._responses)) - 1](request)
        if not isinstance(response, Response):
            raise WrongAnswer(
                f"{self}: found {_kind(response)} that a function of `answers` returned, expected a Response; return "
                "`cdk.rest.Response(200, Headers(), b'[]', request.full_url, request)`, or use `returns(json=...)`"
            )
        return response

    def _content(self, json: object, body: bytes | None) -> bytes:
        """Return the body of a response. Raises TypeError: when the arguments cannot become a body."""
        if body is None:
            return to_json(json)
        if not isinstance(body, bytes):
            raise TypeError(
                f"{self}: found {_kind(body)} for `body`, expected bytes; encode a string, such as "
                "`body='...'.encode()`, and give values as `json`"
            )
        return body

    def __str__(self) -> str:
        conditions = [str(dict(part)) for part in (self._params, self._body) if part]
        # Names only: values of headers are usually credentials.
        conditions += [f"the headers {', '.join(self._headers)}"] if self._headers else []
        return f"{self._method} {self._path}{' with ' if conditions else ''}{' and '.join(conditions)}"


def json_response(request: Request, status: int, body: bytes) -> Response:
    """Return a response that is labelled as JSON."""
    return Response(status, Headers(_LABEL), body, request.full_url, request)


def _kind(value: object) -> str:
    """Describe a value in an error message, without the value itself, which may be large."""
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _truncated(begin: bytes, error: CdkError) -> Generator[bytes, None, None]:
    yield begin
    raise error


def _query(request: Request) -> Iterator[tuple[str, list[str]]]:
    """Yield each query parameter of a request as it is sent, with all its values."""
    yield from parse_qs(urlsplit(request.full_url).query, keep_blank_values=True).items()
