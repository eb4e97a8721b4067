"""MockApi: an API made of canned responses, to put in a stream's `transport`.

api = MockApi()
api.get("/users", params={"page": 1}).returns(json={"data": [{"id": 1}]})
api.get("/users", params={"page": 2}).returns(status=500).returns(json={"data": []})
stream = Users(config)
stream.transport = api
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Self, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import orjson

from cdk.base.errors import CdkError
from cdk.rest import Headers, Request, Response

Respond: TypeAlias = Callable[[Request], Response]


class UnexpectedRequest(AssertionError):
    """A request that no route answers."""


class Route:
    """Requests of one kind, and their responses in order; the last response repeats."""

    def __init__(self, method: str, path: str, params: Mapping[str, object] | None) -> None:
        self._method, self._path, self._params = method, path, params
        self._responses: list[Respond] = []
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
    ) -> Self:
        """Add a response: `json`, or `body` as it is."""

        def respond(request: Request) -> Response:
            content = orjson.dumps(json) if body is None else body
            fields = {"Content-Type": "application/json", **(headers or {})}
            return Response(status, Headers(fields), content, request.full_url, request)

        return self.answers(respond)

    def raises(self, error: CdkError) -> Self:
        """Add an error in place of a response, as a transport raises it when the connection fails."""

        def respond(_: Request) -> Response:
            raise error

        return self.answers(respond)

    def answers(self, respond: Respond) -> Self:
        """Add a function that answers."""
        self._responses.append(respond)
        return self

    def matches(self, request: Request) -> bool:
        """Whether the method, the path (or whole URL) and all parameters of this route are the request's."""
        url = urlsplit(request.full_url)
        path = f"{url.scheme}://{url.netloc}{url.path}" if "://" in self._path else url.path
        sent = dict(_query(request))
        return (
            request.method == self._method
            and self._pattern.fullmatch(path) is not None
            and all(sent.get(name) == values for name, values in _query(Request("", "", self._params or {})))
        )

    def respond(self, request: Request) -> Response:
        """The next response of this route."""
        self.requests.append(request)
        if not self._responses:
            raise UnexpectedRequest(f"{request}: its route {self} has no response; add `.returns(...)`")
        return self._responses[min(len(self.requests), len(self._responses)) - 1](request)

    def __str__(self) -> str:
        params = f" with {dict(self._params)}" if self._params else ""
        return f"{self._method} {self._path}{params}"


class MockApi:
    """A transport that answers from routes, of which the newest that matches counts, and keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._routes: list[Route] = []

    def route(self, method: str, path: str, params: Mapping[str, object] | None = None) -> Route:
        """Add a route for a method and a path (`/users`, `/users/*/posts`) or a whole URL without a query.

        params: parameters that a request must have; it may have others.
        """
        route = Route(method, path, params)
        self._routes.append(route)
        return route

    def get(self, path: str, params: Mapping[str, object] | None = None) -> Route:
        """Add a route for GET."""
        return self.route("GET", path, params)

    def post(self, path: str, params: Mapping[str, object] | None = None) -> Route:
        """Add a route for POST."""
        return self.route("POST", path, params)

    def send(self, request: Request) -> Response:
        """Answer from the newest matching route. Raises UnexpectedRequest: there is none."""
        self.requests.append(request)
        for route in reversed(self._routes):
            if route.matches(request):
                return route.respond(request)
        known = "".join(f"\n  {route}" for route in self._routes) or " none"
        raise UnexpectedRequest(f"no route for {request}; the routes are:{known}")


def _query(request: Request) -> Iterator[tuple[str, list[str]]]:
    """Each parameter of a request as it is sent, with all its values."""
    values: dict[str, list[str]] = {}
    for name, value in parse_qsl(urlsplit(request.full_url).query, keep_blank_values=True):
        values.setdefault(name, []).append(value)
    yield from values.items()
