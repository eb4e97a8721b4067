"""Route: requests of one kind, and what a mock API answers them: responses, faults, and rows that change."""

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from threading import Lock
from typing import Self, TypeAlias
from urllib.parse import parse_qs, urlsplit

import orjson

from cdk.base.errors import CdkError, Timeout
from cdk.base.times.clock import sleep
from cdk.base.values import Record
from cdk.rest import Headers, Request, Response
from cdk.rest.http.messages import query_of
from cdk.rest.http.streamed_response import StreamedResponse
from cdk.streams.order import NaturalOrder

Respond: TypeAlias = Callable[[Request], Response]

_PATIENCE = 120.0
"""Seconds after which a client gives a silent server up, as `RequestsTransport` does."""

_OK, _REDIRECT = 200, 300
_LABEL = {"Content-Type": "application/json"}


_ANSWERING = Lock()
"""One for all routes: those of a stream travel with it."""


class UnexpectedRequest(AssertionError):
    """A request that no route answers."""


class WrongAnswer(AssertionError, TypeError):
    """What a function of `answers` returns is no response: a mistake of the test, not of the connector."""


class Route:
    """Requests of one kind, and their responses in order; the last response repeats.

    path: `/users`, `/users/*/posts`, or a whole URL without a query. params, body, headers: parameters, fields of a
    JSON or form body, and headers that a request must have; it may have others. requests: those that came here.
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
        # A `*` is any one segment.
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
        """Add a response: `json`, which is labelled so by its Content-Type, or `body` as it is.

        after: seconds until it comes; the client gives up after two minutes, with a Timeout.
        Raises TypeError: `body` is no bytes, or `json` cannot be JSON.
        """
        self._content(json, body)
        fields = {**(_LABEL if body is None else {}), **(headers or {})}

        def respond(request: Request) -> Response:
            if after:
                sleep(min(after, _PATIENCE))
            if after > _PATIENCE:
                raise Timeout(f"{request}: no response in time (nothing came for {_PATIENCE:.0f} s)")
            # Made now: a test may have changed the value since.
            return _response(request, status, fields, self._content(json, body))

        return self.answers(respond)

    def breaks_off(self, *, json: object = None, body: bytes | None = None, at: int = 1) -> Self:
        """Add a response that says 200 and ends after `at` bytes of its body, as a lost connection does.

        Raises as `returns`.
        """
        content = self._content(json, body)

        def respond(request: Request) -> Response:
            error = Timeout(f"{request}: the connection failed (the body ends after {at} of {len(content)} bytes)")
            if not request.stream:
                raise error
            answer = _response(request, _OK, _LABEL, b"")
            return StreamedResponse(_OK, answer.headers, _lost(content[:at], error), answer.url, request)

        return self.answers(respond)

    def raises(self, error: CdkError) -> Self:
        """Add an error in place of a response, as a transport raises it when the connection fails."""

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
        """Add a response with the page of `rows` that a request asks for, as they are when it comes.

        size: rows of a page. at: the field of the body that has them; the body itself without one. page: the parameter
        with the page's number, of which the lowest is `first`; a request without it gets that one. since: a parameter
        with a value, and the field that must be as great or greater: `("since", "updated_at")`. more: the field of the
        body that says whether there is another page; none without a name.
        """

        def respond(request: Request) -> Response:
            sent = {name: value for name, value in query_of(request.full_url) if value}
            chosen = rows
            if since is not None and since[0] in sent:
                chosen = [row for row in rows if NaturalOrder().reaches(row[since[1]], sent[since[0]])]
            number = int(sent.get(page, first)) - first
            part = list(chosen[number * size : (number + 1) * size])
            flag = {more: (number + 1) * size < len(chosen)} if more else {}
            return _response(request, _OK, _LABEL, orjson.dumps({at: part, **flag} if at else part))

        return self.answers(respond)

    def before(self, number: int, change: Callable[[], object]) -> Self:
        """Call `change` before this route answers its request of that number, 1 being the first."""
        self._changes[number] = change
        return self

    def answers(self, respond: Respond) -> Self:
        """Add a function from a request to its Response; see the how-to page for one."""
        self._responses.append(respond)
        return self

    @property
    def rank(self) -> tuple[int, bool, int]:
        """How specific it is: routes without `*` before others, then whole URLs, then those that ask for more."""
        conditions = len(self._params) + len(self._body) + len(self._headers)
        return -self._path.count("*"), "://" in self._path, conditions

    def matches(self, request: Request) -> bool:
        """Whether the method, the path (or whole URL) and all that this route asks for are the request's."""
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
        """The next response of this route."""
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
        """The body of a response. Raises TypeError: it can be none."""
        if body is None:
            return orjson.dumps(json)
        if not isinstance(body, bytes):
            raise TypeError(
                f"{self}: found {_kind(body)} for `body`, expected bytes; encode a text, such as "
                "`body='...'.encode()`, and give values as `json`"
            )
        return body

    def __str__(self) -> str:
        conditions = [str(dict(part)) for part in (self._params, self._body) if part]
        # Values of headers are credentials, as a rule.
        conditions += [f"the headers {', '.join(self._headers)}"] if self._headers else []
        return f"{self._method} {self._path}{' with ' if conditions else ''}{' and '.join(conditions)}"


def _response(request: Request, status: int, headers: Mapping[str, str], body: bytes) -> Response:
    return Response(status, Headers(headers), body, request.full_url, request)


def _kind(value: object) -> str:
    """What a value is, for a message; never the value, which may be large."""
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _lost(begin: bytes, error: CdkError) -> Generator[bytes, None, None]:
    yield begin
    raise error


def _query(request: Request) -> Iterator[tuple[str, list[str]]]:
    """Each parameter of a request as it is sent, with all its values."""
    yield from parse_qs(urlsplit(request.full_url).query, keep_blank_values=True).items()
