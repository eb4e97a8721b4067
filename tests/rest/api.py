"""Shared by the tests of the HTTP layer: time that does not pass by itself, and answers made by hand."""

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from cdk.rest import Headers, Request, Response

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


class Time:
    """A clock that only a sleep moves."""

    def __init__(self) -> None:
        self.now = NOON
        self.slept: list[float] = []

    def clock(self) -> datetime:
        return self.now

    def seconds(self) -> float:
        """The moment, in seconds since 1970."""
        return self.now.timestamp()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += timedelta(seconds=seconds)


def response(
    json: Any = None,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
    request: Request | None = None,
) -> Response:
    asked = request or Request("GET", "https://api.test/users")
    content = orjson.dumps(json) if body is None else body
    return Response(status, Headers(headers or {}), content, asked.full_url, asked)
