"""MockApi: an API made of canned responses; the connector under test does not notice the difference.

api = MockApi()
api.get("/users", params={"page": 1}).returns(json={"data": [{"id": 1}]})
api.get("/users", params={"page": 2}).returns(status=500).returns(json={"data": []})
run = read(Blog(), "users", config=config, transport=api)
api.assert_all_used()
"""

from collections.abc import Mapping

from msgspec import Struct, field

from cdk.rest import Headers, Request, Response
from cdk.rest.http.transport import Offline
from cdk.testing.routes import Route, UnexpectedRequest, json_response


class _Login(Struct):
    """The route that issues tokens, how many more requests each token is good for, and the last refused one of each."""

    route: Route
    uses: int
    remaining: dict[str, int] = field(default_factory=dict)
    refused: dict[object, str] = field(default_factory=dict)

    def issue(self, request: Request) -> Response:
        token = f"token-{len(self.route.requests)}"
        self.remaining[f"Bearer {token}"] = self.uses
        body = f'{{"access_token": "{token}", "token_type": "Bearer", "expires_in": 3600}}'
        return json_response(request, 200, body.encode())

    def refuses(self, request: Request) -> bool:
        sent, target = Headers(request.headers).get("Authorization", ""), (request.full_url, request.body)
        if (uses := self.remaining.get(sent)) is None:
            return True
        self.remaining[sent], before = uses - 1, self.refused.pop(target, sent)
        # Requests that run in parallel may use a token up before the one that had it issued is sent again.
        if uses > 0 or before != sent:
            return False
        self.refused[target] = sent
        return True


class MockApi(Offline):
    """A transport that answers from routes and records the requests it receives.

    When several routes match a request, the most specific one answers: routes without `*` in the path come first, then
    routes given as a whole URL, then those that require more parameters, fields and headers; among equals, the newest.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._routes: list[Route] = []
        self._login: _Login | None = None

    def add(self, route: Route) -> Route:
        """Add a route of any method and return it."""
        self._routes.append(route)
        return route

    def get(
        self, path: str, params: Mapping[str, object] | None = None, *, headers: Mapping[str, str] | None = None
    ) -> Route:
        """Add a route for GET; see `Route`."""
        return self.add(Route("GET", path, params, headers=headers))

    def post(
        self,
        path: str,
        params: Mapping[str, object] | None = None,
        *,
        body: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Route:
        """Add a route for POST; see `Route`."""
        return self.add(Route("POST", path, params, body=body, headers=headers))

    def issues_tokens(self, path: str, *, uses: int) -> Route:
        """Add a route for POST that issues bearer tokens, `token-1` and so on, each good for `uses` requests.

        All other routes answer 401 to requests whose token is missing or used up, unless the request is sent again
        with another token.
        """
        route = self.post(path)
        self._login = _Login(route, uses)
        return route.answers(self._login.issue)

    def send(self, request: Request) -> Response:
        """Return the response of the most specific matching route. Raises UnexpectedRequest: when no route matches."""
        self.requests.append(request)
        matching = [route for route in reversed(self._routes) if route.matches(request)]
        if not matching:
            known = "".join(f"\n  {route}" for route in self._routes) or " none"
            raise UnexpectedRequest(f"no route for {request}; the routes are:{known}")
        route = max(matching, key=lambda route: route.rank)
        if self._login is not None and route is not self._login.route and self._login.refuses(request):
            return json_response(request, 401, b'{"message": "the token has expired"}')
        return route.respond(request)

    def assert_all_used(self) -> None:
        """Raise AssertionError: when some route received no request."""
        if unused := "".join(f"\n  {route}" for route in self._routes if not route.requests):
            raise AssertionError(
                f"of the {len(self.requests)} requests none came to these routes:{unused}\n"
                "Correct the route, or remove it if the connector is right not to send that."
            )
