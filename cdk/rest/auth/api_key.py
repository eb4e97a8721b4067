"""A key in a header or in the query."""

from collections.abc import Generator
from typing import Literal

from cdk.rest.message import Request, Response


class ApiKey:
    """Sends `key` under `name`: as a header, or as a query parameter where the API wants it there."""

    def __init__(self, key: str, *, name: str = "X-API-Key", send_in: Literal["header", "query"] = "header") -> None:
        self._key, self._name, self._send_in = key, name, send_in

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        if self._send_in == "header":
            yield request.with_headers({self._name: self._key}, secret=True)
        else:
            yield request.with_params({self._name: self._key}, secret=True)

    def __repr__(self) -> str:
        return f"ApiKey(****, name={self._name!r}, send_in={self._send_in!r})"
