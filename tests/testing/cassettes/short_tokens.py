"""An API on 127.0.0.1 whose access tokens last for three requests, and whose refresh tokens work once."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import orjson

from tests.local_server import QuietHandler, answering

LASTS = 3
FIRST_REFRESH_TOKEN = "refresh-token-number-0"


class _Handler(QuietHandler):
    server: "ShortTokens"

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        form = parse_qs(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
        status, body = self.server.login(form.get("refresh_token", [""])[0])
        self.answer(status, orjson.dumps(body), {"Content-Type": "application/json"})

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        status, body = self.server.page(self.headers["Authorization"].removeprefix("Bearer "), self.path)
        self.answer(status, orjson.dumps(body), {"Content-Type": "application/json"})


class ShortTokens(ThreadingHTTPServer):
    """Ten items at `/items`, two a page, in the order of `at`, from `since` on. logins: how many there were."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.logins, self._left = 0, 0

    def login(self, refresh_token: str) -> tuple[int, object]:
        if refresh_token not in ("", f"refresh-token-number-{self.logins}"):
            return 400, {"error": "invalid_grant"}
        self.logins, self._left = self.logins + 1, LASTS
        refreshed = {"refresh_token": f"refresh-token-number-{self.logins}"} if refresh_token else {}
        return 200, {"access_token": f"access-token-number-{self.logins}", "expires_in": 3600, **refreshed}

    def page(self, token: str, path: str) -> tuple[int, object]:
        if token != f"access-token-number-{self.logins}" or not self._left:
            return 401, {"error": "invalid_token"}
        self._left -= 1
        query = parse_qs(urlsplit(path).query)
        since, page = query["since"][0], int(query.get("page", ["1"])[0])
        days = [f"2024-01-{day:02}" for day in range(1, 11)]
        items = [{"id": number, "at": day} for number, day in enumerate(days) if day >= since]
        return 200, {"items": items[2 * page - 2 : 2 * page], "next": page + 1 if 2 * page < len(items) else None}


@contextmanager
def short_tokens() -> Iterator[ShortTokens]:
    with answering(ShortTokens()) as api:
        yield api
