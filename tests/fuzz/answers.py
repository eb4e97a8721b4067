"""HostileApi: an API whose answers are wrong in random ways, and that ends after a number of requests."""

import gzip
import json
import random
from collections.abc import Callable

from cdk.base.errors import FatalError, Timeout
from cdk.base.values import Json
from cdk.rest import Headers, Request, Response
from tests.fuzz.mutate import mutated

ENOUGH = 200

RECORD: dict[str, Json] = {
    "id": 7,
    "updated_at": "2024-01-02T00:00:00Z",
    "name": "Ada",
    "nested": {"deep": {"er": 1}, "list": [1, {"a": 2}]},
}
BODY: dict[str, Json] = {
    "data": [RECORD, {**RECORD, "id": 8}],
    "next": {"url": "https://api.test/users?page=2"},
    "status": "completed",
    "urls": ["https://api.test/download"],
    "access_token": "an-access-token",
    "expires_in": 3600,
    "error": "it is gone",
}
_STATUSES = [200] * 12 + [201, 204, 206, 301, 304, 400, 401, 403, 404, 408, 410, 418, 429, 500, 503, 599, 999]
_HEADERS = {
    "Retry-After": ["1", "0", "-1", "nan", "inf", "1e400", "9" * 400, "Wed, 21 Oct 2015 07:28:00 GMT", "\u00b2", ""],
    "X-Reset": ["0", "1704067200", "-5", "9" * 30, "nan", "never"],
    "Link": [
        '<https://api.test/users?page=3>; rel="next"',
        "<>; rel=next",
        "<<<<>>>>",
        "," * 5000,
        '<http://[>; rel="next"',
    ],
    "Content-Type": ["application/json", "text/csv; charset=no-such", "application/json; charset=utf-16", ";;;"],
    "Location": ["/users", "http://[", "file:///etc/passwd"],
}
_BODIES: list[Callable[[random.Random], bytes]] = [
    lambda _: b"",
    lambda _: b"\xff\xfe\x00{",
    lambda _: b'{"data": [{"id": "\xc3\x28"}]}',
    lambda _: b'{"data": [{"id": "\\ud800"}]}',
    lambda _: b'{"data": [{"id": NaN, "n": Infinity}]}',
    lambda _: b'{"data": [{"id": ' + b"9" * 5000 + b"}]}",
    lambda _: b'{"data": [{"id": 1e999}]}',
    lambda _: b"[" * 100_000 + b"]" * 100_000,
    lambda _: b'{"data":' * 100_000 + b"1" + b"}" * 100_000,
    lambda _: b'{"data": [' + b"{" * 10,
    lambda _: b'{"data": {"a": {"b": 1}}}',
    lambda _: b'{"data": [1, null, "x", [], {}]}',
    lambda _: b"null",
    lambda _: b'"text"',
    lambda _: b"<html><body>no</body></html>",
    lambda _: b"<a>" * 20_000,
    lambda _: b'<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><x>&b;</x>',
    lambda _: b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>',
    lambda _: gzip.compress(b"a;b\n1;2\n")[:-4],
    lambda _: gzip.compress(b"\0" * 20_000_000),
    lambda _: gzip.compress(b'a;b\n1;"2\n3;4;5\n'),
    lambda _: b"PK\x03\x04" + b"\0" * 50,
    lambda _: b"a,b\n" + b"x," * 5000,
    lambda _: b"a,b\n" + b'"' + b"x" * 200_000,
    lambda _: b"\0" * 100,
    lambda _: b'{"id":1}\n{"id":\n',
    lambda _: b'{"data": [' + b",".join([b'{"id": 1, "updated_at": "9999-12-31T23:59:59Z"}'] * 3) + b"]}",
    lambda chance: chance.randbytes(200),
]


class HostileApi:
    """A transport. hostile: how many of the answers are wrong, from 0 to 1."""

    def __init__(self, chance: random.Random, hostile: float) -> None:
        self._chance, self._hostile = chance, hostile
        self.asked = 0

    def send(self, request: Request) -> Response:
        self.asked += 1
        if self.asked > ENOUGH:
            raise FatalError(f"{request}: the API of the campaign ends after {ENOUGH} requests")
        chance = self._chance
        if chance.random() >= self._hostile:
            # An empty page now and then, so that reads end.
            plain = {**BODY, "data": [], "next": None} if self.asked % 4 == 0 else BODY
            return self._answer(request, 200, json.dumps(plain).encode(), {})
        if chance.random() < 0.1:
            raise Timeout(f"{request}: no response in time")
        status = chance.choice(_STATUSES)
        headers = {name: chance.choice(values) for name, values in _HEADERS.items() if chance.random() < 0.4}
        if chance.random() < 0.5:
            return self._answer(request, status, chance.choice(_BODIES)(chance), headers)
        try:
            body = json.dumps(mutated(BODY, chance), ensure_ascii=False).encode("utf-8", "surrogatepass")
        except RecursionError:
            body = b"[" * 2000
        return self._answer(request, status, body, headers)

    def _answer(self, request: Request, status: int, body: bytes, headers: dict[str, str]) -> Response:
        return Response(status, Headers(headers), body, request.full_url, request)
