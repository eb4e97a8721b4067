"""Generated requests, responses and redirects, sent beside `requests`, whose rules are those of most APIs."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from http.client import parse_headers
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import TypeAlias

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from cdk.rest import HttpTransport, Request
from tests.local_server import answering

Sent: TypeAlias = tuple[bytes, dict[str, list[str]], bytes]
Answer: TypeAlias = tuple[int, dict[str, str], bytes]

OWN = {"user-agent", "accept", "accept-encoding", "connection"}
"""Headers that each client sends with values of its own."""


class Handler(StreamRequestHandler):
    server: "Server"

    def handle(self) -> None:
        while line := self.rfile.readline():
            fields = parse_headers(self.rfile)
            body = self.rfile.read(int(fields["Content-Length"] or 0))
            self.server.seen.append((line, {name.lower(): fields.get_all(name, []) for name in fields}, body))
            self.wfile.write(self.server.answers.get(line.split()[1], self.server.answer))
            if self.server.closes:
                return


class Server(ThreadingTCPServer):
    """Sends `answer` to each request, or that of `answers` to its target, and records what it received."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.seen: list[Sent] = []
        self.answers: dict[bytes, bytes] = {}
        self.answer, self.closes = b"", False


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with answering(Server()) as server, pytest.MonkeyPatch.context() as patch:
        for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
            patch.delenv(name, raising=False)
            patch.delenv(name.upper(), raising=False)
        yield server


class Client(Struct):
    """Sends by both, each with its own connections, and returns both answers and both lists of what was received."""

    server: Server
    session: requests.Session
    transport: HttpTransport

    def both(self, request: Request, *, answer: bytes | None = None) -> tuple[list[Answer], list[list[Sent]]]:
        """answer: what the server sends to `requests`, if that is different."""
        answers, seen = [], []
        own, self.server.answer = self.server.answer, self.server.answer if answer is None else answer
        for send in (self.by_requests, self.by_kit):
            self.server.seen = []
            answers.append(send(request))
            seen.append([_comparable(each) for each in self.server.seen])
            self.server.answer = own
        return answers, seen

    def by_requests(self, request: Request) -> Answer:
        response = self.session.request(request.method, request.url, headers=dict(request.headers), data=request.body)
        return response.status_code, {name.lower(): value for name, value in response.headers.items()}, response.content

    def by_kit(self, request: Request) -> Answer:
        response = self.transport.send(request)
        return response.status, dict(response.headers), response.body


def _comparable(sent: Sent) -> Sent:
    line, fields, body = sent
    # A query without parameters, and no body, may be left out or named.
    ignored = OWN if body else OWN | {"content-length"}
    return line.replace(b"? ", b" "), {name: values for name, values in fields.items() if name not in ignored}, body


def new_client(server: Server) -> Client:
    server.answers, server.closes = {}, False
    return Client(server, requests.Session(), HttpTransport())


def answer_of(status: int, body: bytes, fields: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d X\r\n%sContent-Length: %d\r\n\r\n%s" % (status, fields, len(body), body)


METHODS = st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
# Without dots: `requests` resolves `..` itself, as the server does. Tabs and line breaks are left out of any URL.
CHARACTERS = st.characters(codec="ascii", exclude_characters=".\t\r\n") | st.sampled_from(
    ["é", "世", "{", "[", "%", "%5B", "%5d", "%7e", "%2D", "%zz", "%25", "%4a", "?", "#"]
)
TARGETS = st.lists(CHARACTERS | st.integers(0, 255).map("%{:02X}".format), max_size=8).map("".join)
NAMES = st.sampled_from(["X-A", "x-a", "Authorization", "Cookie", "Content-Type", "content-length", "Host"])
VALUES = st.text(st.characters(max_codepoint=255, exclude_categories=["Cc", "Z"]), max_size=9)
BODIES = st.none() | st.binary(max_size=9)


@given(st.data(), METHODS, TARGETS, BODIES)
def test_a_request_is_sent_as_by_requests(
    server: Server, data: st.DataObject, method: str, target: str, body: bytes | None
) -> None:
    client = new_client(server)
    server.answer = answer_of(200, b"" if method == "HEAD" else b"ok")
    sent = data.draw(st.dictionaries(NAMES, VALUES, max_size=4))
    headers = {name: value for name, value in sent.items() if name != "content-length" or body}
    # If a header has another one, `requests` sends that of the URL all the same.
    login = data.draw(st.sampled_from(["", "a:b@", "a%2Fb:%40@"])) if "Authorization" not in headers else ""
    url = server.url.replace("//", f"//{login}") + (target if target[:1] in {"?", "#"} else f"/{target}")

    answers, seen = client.both(Request(method, url, headers=headers, body=body))

    assert answers[0] == answers[1]
    assert seen[0] == seen[1]


def _chunks(body: bytes, size: int, trailer: bytes) -> bytes:
    parts = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x;a=b\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n" + trailer + b"\r\n"


CODINGS: dict[bytes, Callable[[bytes], bytes]] = {
    b"": lambda body: body,
    b"identity": lambda body: body,
    b"gzip": gzip.compress,
    b"x-gzip": lambda body: gzip.compress(body) + gzip.compress(b"more"),
    b"deflate": zlib.compress,
    b"Deflate": lambda body: zlib.compress(body)[2:-4],
    b"gzip, deflate": lambda body: zlib.compress(gzip.compress(body)),
}
FIELDS = st.sampled_from([b"X-A: 1\r\n", b"x-a: \xe9\r\n", b"X-B:\r\n", b"Set-Cookie: a=b\r\n", b"X-C: 1\r\n 2\r\n"])


@given(st.data(), METHODS, st.sampled_from([200, 201, 204, 304, 400, 404, 500, 599]), st.booleans())
def test_a_response_is_read_as_by_requests(
    server: Server,
    data: st.DataObject,
    method: str,
    status: int,
    stream: bool,  # noqa: FBT001 - generated
) -> None:
    client = new_client(server)
    has_body = method != "HEAD" and status not in {204, 304}
    body = data.draw(st.binary(max_size=99) | st.integers(0, 2**17).map(bytes))
    coding = data.draw(st.sampled_from(sorted(CODINGS)))
    content = CODINGS[coding](body)
    fields = b"".join(data.draw(st.lists(FIELDS, max_size=4)))
    if coding:
        fields += b"Content-Encoding: %s\r\n" % coding
    server.closes = data.draw(st.booleans(), "closes")
    # `requests` waits for the first chunk of a body that a status does not have.
    framing = data.draw(st.sampled_from(["length"] + ["chunks"] * has_body + ["end"] * server.closes))
    if framing == "chunks":
        content = _chunks(content, data.draw(st.integers(1, 2**16)), data.draw(st.sampled_from([b"", b"X-T: 1\r\n"])))
        fields += b"Transfer-Encoding: chunked\r\n"
    elif framing == "length":
        fields += b"Content-Length: %d\r\n" % len(content)
    answer = b"HTTP/1.1 %d X\r\n%s\r\n%s" % (status, fields, content if has_body else b"")
    # `requests` takes those of HTTP 103 for the response.
    before = data.draw(st.lists(st.sampled_from([100, 102, 103]), max_size=2), "before")
    server.answer = b"".join(b"HTTP/1.1 %d X\r\nLink: <a>\r\n\r\n" % each for each in before) + answer

    answers, _ = client.both(Request(method, server.url, stream=stream), answer=answer)

    assert answers[0] == answers[1]
    if server.closes:
        return
    server.answer = answer_of(200, b"next")
    assert [each[2] for each in client.both(Request("GET", server.url))[0]] == [b"next", b"next"]


WHERE = st.builds(
    "{}/to{}".format,
    st.sampled_from(["", "http:", "http://127.0.0.1:PORT", "//localhost:PORT"]),
    # `requests` escapes what a redirect has escaped once more if it has a lone `%`, too.
    TARGETS.filter(lambda target: "%" not in target),
)


@given(st.sampled_from(["GET", "HEAD", "POST"]), BODIES, st.sampled_from([301, 302, 303, 307, 308]), WHERE)
def test_a_redirect_is_followed_as_by_requests(
    server: Server, method: str, body: bytes | None, status: int, where: str
) -> None:
    client = new_client(server)
    is_other = "localhost" in where
    # Bodies are not sent to other hosts, and `requests` sends those of a GET nowhere.
    content = body or None if method == "POST" and not (status in {307, 308} and is_other) else None
    # Other hosts get only the headers that do not identify the sender.
    headers = {"Authorization": "Bearer abcd", "Accept-Language" if is_other else "X-A": "1"}
    if content:
        headers["Content-Length"] = str(len(content))
    location = where.replace("PORT", str(server.server_address[1]))
    server.answers = {b"/from": answer_of(status, b"", b"Location: %s\r\n" % location.encode())}
    server.answer = answer_of(200, b"" if method == "HEAD" else b"ok")

    answers, seen = client.both(Request(method, f"{server.url}/from", headers=headers, body=content))

    assert answers[0] == answers[1]
    assert seen[0] == seen[1]
