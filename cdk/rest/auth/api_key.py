"""A key in a header, in the query or in the body."""

from collections.abc import Generator

from cdk.rest.auth.placed import Place, placed
from cdk.rest.http.authenticator import Given, text_of
from cdk.rest.http.messages import Request, Response


class ApiKey:
    """Sends `key` under `name`: as a header, or as a query parameter or in the body where the API wants it there.

    send_in: `"header"`, `"query"`, `"form"` or `"json"`; in a JSON body, `name` may be the names that lead to the key.
    """

    def __init__(self, key: Given, *, name: str | tuple[str, ...] = "X-API-Key", send_in: Place = "header") -> None:
        self._key, self._send_in = key, send_in
        self._path = (name,) if isinstance(name, str) else name

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        yield placed(request, self._send_in, self._path, text_of(self._key))

    def __repr__(self) -> str:
        return f"ApiKey(****, name={' > '.join(self._path)!r}, send_in={self._send_in!r})"
