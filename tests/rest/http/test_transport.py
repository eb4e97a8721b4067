import gzip
import io
import pickle
import socket
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import timedelta
from http.server import ThreadingHTTPServer
from socketserver import ThreadingTCPServer
from typing import Any

import pytest
import requests
import urllib3
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from requests import PreparedRequest
from requests.adapters import HTTPAdapter

from cdk import ConfigError, DecodeError, FatalError, Timeout
from cdk.base.errors import CdkError, TransientError
from cdk.rest import Backoff, HttpClient, HttpErrorHandler, HttpTransport, Request, RetryPolicy
from cdk.rest.http.egress import Egress
from tests.local_server import QuietHandler, answering
from tests.rest.api import Time
from tests.rest.http.test_connections import Socks

SIMPLE: dict[str, tuple[int, bytes, dict[str, str]]] = {
    "/gzip": (200, gzip.compress(b"squeezed"), {"Content-Encoding": "gzip"}),
    "/deflate": (200, zlib.compress(b"squeezed"), {"Content-Encoding": "deflate"}),
    "/cut-gzip": (200, gzip.compress(b"squeezed" * 9)[:-9], {"Content-Encoding": "gzip"}),
    "/long-gzip": (200, gzip.compress(b"squeezed") + b"no gzip", {"Content-Encoding": "gzip"}),
    "/cut-twice": (200, gzip.compress(gzip.compress(b"squeezed"))[:-9], {"Content-Encoding": "gzip, gzip"}),
    "/cut-deflate": (200, zlib.compress(b"squeezed" * 9)[:-5], {"Content-Encoding": "deflate"}),
    "/part": (206, b"half", {"Content-Range": "bytes 0-3/8"}),
    "/part-of-unknown": (206, b"half", {"Content-Range": "bytes 0-3/*"}),
    "/end": (206, b"half", {"Content-Range": "bytes 4-7/8"}),
    "/undescribed": (206, b"half", {"Content-Type": "text/csv"}),
    "/undescribed-json": (206, b"{}", {"Content-Type": "application/json;charset=utf-8"}),
    "/whole": (206, b"whole", {"Content-Range": "bytes 0-4/5"}),
    "/rows": (206, b"rows", {"Content-Range": "0-3/8"}),
    "/br": (200, b"\x0b\x02\x80hello\x03", {"Content-Encoding": "br"}),
    "/zstd": (200, b"(\xb5/\xfd\x04X", {"Content-Encoding": "ZSTD"}),
    "/failed-br": (503, b"\x0b\x02\x80hello\x03", {"Content-Encoding": "br"}),
    "/empty-br": (200, b"", {"Content-Encoding": "br"}),
    "/broken": (200, b"not gzip", {"Content-Encoding": "gzip"}),
    "/empty": (204, b"", {}),
    "/here": (302, b"moved", {"Location": "/echo?moved=1"}),
    "/other": (303, b"", {"Location": "/echo"}),
    "/round": (302, b"", {"Location": "/round"}),
    "/nowhere": (302, b"", {"Location": "http://[no"}),
}


ENDLESS = {
    "/trickle": (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x"),
    "/trickle-chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    "/trickle-headers": (b"HTTP/1.1 200 OK\r\nX-Long: ", b"x"),
    "/continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "/hints": (b"", b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"),
}
"""What an answer begins with, and what is then sent again and again."""


def _chunked(body: bytes, coding: str) -> bytes:
    """An answer in one chunk, and the last one."""
    head = f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: {coding}\r\n\r\n".encode()
    return head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


SENT = {
    "/hangup": b"",
    "/cut-gzip-chunks": _chunked(gzip.compress(b"squeezed" * 9)[:-9], "gzip"),
    "/cut-deflate-chunks": _chunked(zlib.compress(b"squeezed" * 9)[:-5], "deflate"),
    "/gzip-chunks": _chunked(gzip.compress(b"squeezed") + gzip.compress(b" twice"), "gzip"),
    "/chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nLENGTH\r\nid\r\n0\r\n\r\n",
    "/cut-status": b"HTTP/1.1 200 OK",
    "/cut-line": b"HTTP/1.1 200 OK\r\nContent-Ty",
    "/cut-headers": b"HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\n",
    "/no-length": b"HTTP/1.1 200 OK\r\n\r\n",
    "/unchanged": b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
    "/switched": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
}
"""Answers as they are sent, before the connection is closed."""


class Handler(QuietHandler):
    """A small API that tells what it was asked."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_GET(self) -> None:  # noqa: N802 - a table of answers; the name that http.server calls
        self.server.seen.append(self)
        path = self.path.removeprefix("http://api.test").partition("?")[0]
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        match path:
            case "/echo":
                self.answer(200, b"%s %s %s" % (self.command.encode(), self.path.encode(), body), {})
            case "/there":
                self.answer(307, b"", {"Location": self.headers["X-Target"]})
            case "/limited" if len(self.server.seen) == 1:
                self.answer(429, b"", {"Retry-After": "30"})
            case "/slow":
                self.server.hold.wait()
            case "/late":
                self.answer(200, b"half", {"Content-Length": "13"})
                self.server.hold.wait(5)
                with suppress(OSError):
                    self.connection.sendall(b" and half")
            case "/cut":
                self.answer(200, b"half", {"Content-Length": "100"})
                self.close_connection = True
            case "/twice":
                self.send_response(204)
                self.send_header("Link", "<a>; rel=next")
                self.send_header("link", "<b>; rel=last")
                self.end_headers()
            case _ if path in ENDLESS:
                self.trickle(*ENDLESS[path])
            case _ if (begin := path.rpartition("=")[0] or path) in SENT:
                self.wfile.write(SENT[begin].replace(b"LENGTH", path.rpartition("=")[2].encode()))
                self.close_connection = True
            case _:
                self.answer(*SIMPLE.get(path, (200, b"ok", {})))

    do_POST = do_GET  # noqa: N815 - the name that http.server calls

    def trickle(self, begin: bytes, more: bytes) -> None:
        """Send `more` again and again, until nobody listens."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.sendall(begin)
            while not self.server.hold.wait(0.02):
                self.connection.sendall(more)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[Handler] = []
        self.hold = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def asked(self) -> list[tuple[str, str]]:
        return [(handler.command, handler.path) for handler in self.seen]


@pytest.fixture
def server() -> Iterator[Server]:
    with answering(Server()) as server:
        yield server
        server.hold.set()


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def get(server: Server, path: str, **given: Any) -> Request:
    return Request("GET", server.url + path, **given)


def test_a_request_arrives_as_it_is_meant(server: Server) -> None:
    request = Request("POST", server.url + "/echo", {"q": "a b"}, {"X-Own": "1", "accept": "x"}, b"{}")

    response = HttpTransport().send(request)

    assert response.body == b"POST /echo?q=a+b {}"
    assert response.status == 200
    assert response.request is request
    assert response.url == request.full_url
    headers = server.seen[0].headers
    assert headers["X-Own"] == "1"
    assert headers.get_all("Accept") == ["x"]
    assert headers["Content-Length"] == "2"


def test_what_a_url_cannot_hold_is_quoted(server: Server) -> None:
    assert HttpTransport().send(get(server, "/echo?é= ")).body == b"GET /echo?%C3%A9=%20 "


def test_a_url_without_a_path_asks_for_the_root(server: Server) -> None:
    HttpTransport().send(get(server, "", params={"a": "/"}))

    assert server.asked() == [("GET", "/?a=%2F")]


def test_requests_share_a_connection(server: Server) -> None:
    transport = HttpTransport()

    for path in ("/echo", "/empty", "/gzip", "/echo"):
        transport.send(get(server, path))

    assert len({handler.client_address for handler in server.seen}) == 1


@pytest.mark.parametrize("path", ["/gzip", "/deflate"])
def test_squeezed_bodies_are_unpacked(server: Server, path: str) -> None:
    assert HttpTransport().send(get(server, path)).body == b"squeezed"


def test_a_body_that_is_not_what_its_header_says_is_a_failed_connection(server: Server) -> None:
    with pytest.raises(Timeout, match="Content-Encoding"):
        HttpTransport().send(get(server, "/broken"))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("path", "extra"), [("/br", "brotli"), ("/zstd", "zstd")])
def test_a_body_that_cannot_be_unpacked_is_an_error(
    server: Server,
    path: str,
    extra: str,
    stream: bool,  # noqa: FBT001
) -> None:
    with pytest.raises(DecodeError, match=rf"Accept-Encoding of the request, or pip install 'urllib3\[{extra}\]'"):
        HttpTransport().send(get(server, path, stream=stream))


@pytest.mark.parametrize(("path", "status"), [("/failed-br", 503), ("/empty-br", 200)])
def test_a_packed_error_or_no_body_need_not_be_unpacked(server: Server, path: str, status: int) -> None:
    assert HttpTransport().send(get(server, path)).status == status


def test_another_protocol_is_a_response(server: Server) -> None:
    assert HttpTransport().send(get(server, "/switched")).status == 101


@pytest.mark.parametrize("stream", [False, True])
def test_a_status_without_a_body_needs_no_chunk(server: Server, stream: bool) -> None:  # noqa: FBT001
    answer = HttpTransport().send(get(server, "/unchanged", stream=stream))

    assert (answer.status, answer.body) == (304, b"")


def test_a_header_that_is_sent_twice_has_both_values(server: Server) -> None:
    answer = HttpTransport().send(Request("GET", f"{server.url}/twice"))

    assert answer.headers["Link"] == "<a>; rel=next, <b>; rel=last"


def test_a_redirect_is_followed_with_credentials_on_the_same_host(server: Server) -> None:
    request = get(server, "/here", headers={"Authorization": "Bearer abcd"})

    response = HttpTransport().send(request)

    assert response.body.startswith(b"GET /echo?moved=1")
    assert response.request is request
    assert server.seen[1].headers["Authorization"] == "Bearer abcd"


def test_credentials_do_not_follow_to_another_host(server: Server) -> None:
    other = server.url.replace("127.0.0.1", "localhost") + "/echo"
    headers = {"Authorization": "Bearer abcd", "X-API-Key": "abcd", "X-Target": other, "Accept": "text/csv"}

    HttpTransport().send(get(server, "/there", headers=headers))

    sent = server.seen[1].headers
    assert (sent["Authorization"], sent["X-API-Key"], sent["Accept"]) == (None, None, "text/csv")


def test_a_body_does_not_follow_to_another_host(server: Server) -> None:
    other = server.url.replace("127.0.0.1", "localhost") + "/echo?token=abcd"
    request = Request("POST", server.url + "/there", headers={"X-Target": other}, body=b"secret")

    with pytest.raises(FatalError, match=r"another host.*token=\*\*\*\*: a body, which may .* not sent there"):
        HttpTransport().send(request)

    assert len(server.seen) == 1


def test_a_secret_of_the_query_does_not_follow_to_another_host(server: Server) -> None:
    other = server.url.replace("127.0.0.1", "localhost") + "/echo?again=abcd"
    request = get(server, "/there", headers={"X-Target": other}, params={"key": "abcd"}, secret=frozenset({"key"}))

    with pytest.raises(FatalError, match=r"another host.*again=\*\*\*\*: a secret in its URL is not sent there"):
        HttpTransport().send(request)

    assert len(server.seen) == 1


def test_a_post_is_answered_elsewhere_by_a_get(server: Server) -> None:
    response = HttpTransport().send(Request("POST", server.url + "/other", body=b"x"))

    assert response.body == b"GET /echo "


def test_redirects_end(server: Server) -> None:
    with pytest.raises(FatalError, match="more than 10 redirects"):
        HttpTransport().send(get(server, "/round"))

    assert len(server.seen) == 11


def test_a_redirect_to_what_is_no_url_is_an_error(server: Server) -> None:
    with pytest.raises(FatalError, match="an invalid URL"):
        HttpTransport().send(get(server, "/nowhere"))


def test_certificates_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/no/such/bundle.pem")

    with pytest.raises(ConfigError, match=r"/no/such/bundle\.pem"):
        HttpTransport().send(Request("GET", "https://127.0.0.1:1/"))


def test_a_silent_server_is_a_timeout(server: Server) -> None:
    transport = HttpTransport(read_timeout=timedelta(milliseconds=50))

    with pytest.raises(Timeout, match=r"/slow\?token=\*\*\*\*: no response in time"):
        transport.send(get(server, "/slow", params={"token": "abcd"}))


def test_a_transport_with_other_timeouts_has_the_same_limits(server: Server) -> None:
    egress = Egress.parse(server.url.removeprefix("http://"))
    limited = HttpTransport(egress=egress).with_timeouts(connect=None, read=0.05)

    with pytest.raises(Timeout, match="/slow: no response in time"):
        limited.send(get(server, "/slow"))
    with pytest.raises(ConfigError, match="no request may go to"):
        limited.send(Request("GET", "http://127.0.0.1:1/"))


@pytest.mark.parametrize("path", ["/cut", "/hangup"])
def test_a_broken_connection_is_transient_and_shows_no_secret(server: Server, path: str) -> None:
    with pytest.raises(Timeout, match="the connection failed") as caught:
        HttpTransport().send(get(server, path, params={"token": "abcd"}))

    assert "abcd" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_nobody_listening_is_transient() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]

    with pytest.raises(TransientError, match="Connection refused"):
        HttpTransport().send(Request("GET", f"http://127.0.0.1:{port}/"))


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1/", "http://", "http://[no", "http://127.0.0.1:99999/"])
def test_what_is_no_url_is_a_matter_of_the_config(url: str) -> None:
    with pytest.raises(ConfigError, match="check the URL"):
        HttpTransport().send(Request("GET", url))


@pytest.mark.parametrize("url", ["127.0.0.1:18531/items", "localhost:80", "api.test", "/items"])
def test_a_url_without_a_scheme_is_told_so(url: str) -> None:
    with pytest.raises(ConfigError, match="has no scheme; check the URL, https:// or http:// is missing"):
        HttpTransport().send(Request("GET", url))


def test_a_header_with_a_line_break_is_refused(server: Server) -> None:
    with pytest.raises(CdkError) as caught:
        HttpTransport().send(get(server, "/echo", headers={"Authorization": "Bearer abcd\r\nX: y"}))

    assert "abcd" not in str(caught.value)


def test_a_proxy_of_the_environment_is_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url)

    HttpTransport().send(Request("GET", "http://api.test/users"))

    assert server.asked() == [("GET", "http://api.test/users")]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_requires_a_login_is_named(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Proxy(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - the name that http.server looks up
            self.send_response(407)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_CONNECT(self) -> None:  # noqa: N802 - as above
            self.do_GET()

    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Proxy)) as proxy:
        monkeypatch.setenv(f"{scheme}_proxy", f"http://127.0.0.1:{proxy.server_port}")
        with pytest.raises(ConfigError, match="the proxy requires credentials: put them into its address"):
            HttpClient(HttpTransport()).send(Request("GET", f"{scheme}://api.test/users"))


def test_a_host_that_no_name_server_knows_may_need_a_proxy() -> None:
    with pytest.raises(Timeout, match="if only a proxy resolves it, set HTTP_PROXY and HTTPS_PROXY"):
        HttpTransport().send(Request("GET", "http://nowhere.invalid/users"))


def test_a_retry_waits_as_the_server_says(server: Server) -> None:
    time = Time()
    handler = HttpErrorHandler(retry_policy=RetryPolicy(backoff=Backoff(jitter=0), clock=time.clock))

    response = HttpClient(HttpTransport(), error_handler=handler, sleep=time.sleep).send(get(server, "/limited"))

    assert response.body == b"ok"
    assert time.slept == [30]


def test_threads_may_share_a_transport(server: Server) -> None:
    transport = HttpTransport()
    bodies: list[bytes] = []

    def work(i: int) -> None:
        bodies.extend(transport.send(get(server, f"/echo?{i}.{n}")).body for n in range(5))

    crew = [threading.Thread(target=work, args=(i,)) for i in range(4)]  # noqa: TID251 - threads are tested
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()

    assert sorted(bodies) == sorted(f"GET /echo?{i}.{n} ".encode() for i in range(4) for n in range(5))


def test_a_transport_travels_without_its_connections(server: Server) -> None:
    transport = HttpTransport()
    transport.send(get(server, "/echo"))

    again = pickle.loads(pickle.dumps(transport))  # noqa: S301 - made here

    assert again.send(get(server, "/echo")).status == 200


def test_a_library_that_patches_the_adapter_sees_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []

    def send(adapter: HTTPAdapter, request: PreparedRequest, **_: Any) -> requests.Response:
        seen.append(request.path_url)
        raw = urllib3.HTTPResponse(io.BytesIO(b"[1]"), {"X-A": "b"}, 201, preload_content=False)
        response = adapter.build_response(request, raw)
        assert response.content == b"[1]"
        return response

    monkeypatch.setattr(HTTPAdapter, "send", send)

    response = HttpTransport().send(Request("GET", "https://api.test/users", {"page": 1}))

    assert (response.status, response.headers["x-a"], response.json()) == (201, "b", [1])
    assert seen == ["/users?page=1"]


def test_importing_the_front_door_loads_no_http_library() -> None:
    code = "import cdk.rest, sys; print([m for m in ('requests', 'requests_cache', 'urllib3') if m in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "kind", ["cut-gzip", "cut-deflate", "cut-gzip-chunks", "cut-deflate-chunks", "cut-twice", "long-gzip"]
)
def test_a_packed_body_without_its_end_is_a_broken_connection(server: Server, kind: str, stream: bool) -> None:  # noqa: FBT001
    response: bytes | None = None
    with pytest.raises(Timeout, match="is truncated, or other bytes follow it"):
        response = HttpTransport().send(get(server, f"/{kind}", stream=stream)).body

    assert response is None


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/cut-status", "/cut-line", "/cut-headers"])
def test_headers_without_their_end_are_a_broken_connection(server: Server, path: str, stream: bool) -> None:  # noqa: FBT001
    with pytest.raises(Timeout, match="closed within the headers"):
        HttpTransport().send(get(server, path, stream=stream))


@pytest.mark.parametrize("stream", [False, True])
def test_a_body_without_a_length_ends_with_the_connection_or_its_last_chunk(server: Server, stream: bool) -> None:  # noqa: FBT001
    bodies = {
        path: HttpTransport().send(get(server, path, stream=stream)).body for path in ("/no-length", "/gzip-chunks")
    }

    assert bodies == {"/no-length": b"", "/gzip-chunks": b"squeezed twice"}


@pytest.mark.parametrize("stream", [False, True])
def test_a_part_of_a_body_that_nobody_asked_for_is_an_error(server: Server, stream: bool) -> None:  # noqa: FBT001
    response: bytes | None = None
    for path in ("/part", "/part-of-unknown", "/end", "/undescribed", *(["/undescribed-json"] if stream else [])):
        with pytest.raises(DecodeError, match=r"answered 206 with a part of the body .*, although all of it was"):
            response = HttpTransport().send(get(server, path, stream=stream)).body

    assert response is None
    asked = replace(get(server, "/part", stream=stream), headers={"Range": "bytes=0-3"})
    assert HttpTransport().send(asked).body == b"half"
    for path, body in {
        "/whole": b"whole",
        "/rows": b"rows",
        **({} if stream else {"/undescribed-json": b"{}"}),
    }.items():
        assert HttpTransport().send(get(server, path, stream=stream)).body == body


@pytest.mark.parametrize("path", ENDLESS)
@pytest.mark.parametrize("egress", [None, Egress.parse("127.0.0.1")])
def test_an_answer_that_never_ends_is_given_up(server: Server, path: str, egress: Egress | None) -> None:
    transport = HttpTransport(response_timeout=timedelta(seconds=0.2), egress=egress)

    with pytest.raises(Timeout, match="no response in time"):
        transport.send(get(server, path))


def test_a_silence_lasts_no_longer_than_what_is_left_for_the_answer(server: Server) -> None:
    transport = HttpTransport(response_timeout=timedelta(seconds=0.2))

    with pytest.raises(Timeout, match="no response in time"):
        transport.send(get(server, "/late"))


def test_a_streamed_answer_that_never_ends_is_given_up(server: Server) -> None:
    answer = HttpTransport(response_timeout=timedelta(seconds=0.2)).send(get(server, "/trickle", stream=True))

    with closing(answer.chunks()) as chunks, pytest.raises(Timeout, match="no response in time"):
        list(chunks)


def test_an_answer_behind_a_proxy_that_never_ends_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    transport = HttpTransport(response_timeout=timedelta(seconds=0.2))

    with pytest.raises(Timeout, match="no response in time"):
        transport.send(Request("GET", "http://api.test/trickle"))


def test_an_answer_behind_a_proxy_of_socks_that_never_ends_is_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(ThreadingTCPServer(("127.0.0.1", 0), Socks)) as proxy:
        monkeypatch.setenv("all_proxy", f"socks5://127.0.0.1:{proxy.server_address[1]}")

        with pytest.raises(Timeout, match="no response in time"):
            HttpTransport(response_timeout=timedelta(seconds=0.2)).send(get(server, "/trickle"))


@pytest.mark.parametrize("stream", [False, True])
@given(length=st.integers(max_value=-1).map("{:x}".format) | st.text("ghxyz-+", min_size=1, max_size=3))
@example(length="-1")
def test_a_chunk_of_no_length_ends_no_body(length: str, stream: bool) -> None:  # noqa: FBT001
    with answering(Server()) as server:
        request = get(server, f"/chunk={length}", stream=stream)
        with pytest.raises(Timeout, match="the connection failed"):
            list(HttpTransport().send(request).chunks())
