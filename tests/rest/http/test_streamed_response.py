import gc
import gzip
import pickle
from collections.abc import Generator, Iterator
from contextlib import closing
from http.server import ThreadingHTTPServer
from typing import Any

import pytest
from msgspec.structs import replace

from cdk import DecodeError, Timeout
from cdk.base.errors import BugError
from cdk.rest import CachedTransport, Headers, HttpClient, HttpTransport, Jsonl, Request
from cdk.rest.http.streamed_response import StreamedResponse
from cdk.rest.records.extractor import FieldExtractor
from cdk.testing import MockApi
from tests.local_server import QuietHandler, answering
from tests.rest.api import response

MIB = 2**20
BOMB = gzip.compress(bytes(20 * MIB))
BIG = b'{"id":1}\n' * 200_000


class Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        self.server.clients.add(self.client_address)
        match self.path:
            case "/gzip":
                self.answer(200, gzip.compress(BIG), {"Content-Encoding": "gzip"})
            case "/bomb":
                self.answer(200, BOMB, {"Content-Encoding": "gzip"})
            case "/broken":
                self.answer(200, b"not gzip", {"Content-Encoding": "gzip"})
            case "/cut":
                self.answer(200, BIG, {"Content-Length": str(2**30)})
                self.close_connection = True
            case "/moved":
                self.answer(302, b"", {"Location": "/big"})
            case "/error":
                self.answer(404, b'{"error": "none"}', {})
            case _:
                self.answer(200, BIG, {})


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.clients: set[tuple[str, int]] = set()

    def handle_error(self, *_: Any) -> None:
        """Clients that hang up are what is tested."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with answering(Server()) as server:
        yield server


def ask(server: Server, path: str) -> Request:
    return Request("GET", f"http://127.0.0.1:{server.server_address[1]}{path}", stream=True)


@pytest.mark.parametrize("path", ["/big", "/gzip", "/moved"])
def test_a_stream_is_read_while_it_arrives(server: Server, path: str) -> None:
    transport, request = HttpTransport(), ask(server, path)
    streamed = transport.send(request)

    assert isinstance(streamed, StreamedResponse)
    assert streamed.request is request
    pieces = list(streamed.chunks())
    assert b"".join(pieces) == BIG
    assert max(map(len, pieces)) <= 2**18


def test_a_stream_that_is_read_gives_its_connection_back(server: Server) -> None:
    transport = HttpTransport()

    for _ in range(3):
        for _ in transport.send(ask(server, "/big")).chunks():
            pass

    assert len(server.clients) == 1


def test_a_stream_that_is_left_or_forgotten_does_no_harm(server: Server) -> None:
    transport = HttpTransport()
    with closing(transport.send(ask(server, "/big")).chunks()) as chunks:
        next(chunks)
    transport.send(ask(server, "/big")).close()
    transport.send(ask(server, "/big"))
    gc.collect()

    assert transport.send(ask(server, "/big")).body == BIG


def test_a_stream_that_breaks_off_is_an_error(server: Server) -> None:
    streamed = HttpTransport().send(ask(server, "/cut"))

    with pytest.raises(Timeout, match="the connection failed"):
        list(Jsonl().items(streamed))


def test_a_body_that_is_declared_large_takes_what_it_is(server: Server) -> None:
    with pytest.raises(Timeout, match="the connection failed"):
        HttpTransport().send(replace(ask(server, "/cut"), stream=False))


def test_a_stream_that_is_not_what_its_header_says_is_a_failed_connection(server: Server) -> None:
    with pytest.raises(Timeout, match="Content-Encoding"):
        list(HttpTransport().send(ask(server, "/broken")).chunks())


def test_an_error_is_read_whole(server: Server) -> None:
    answer = HttpTransport().send(ask(server, "/error"))

    assert not isinstance(answer, StreamedResponse)
    assert answer.json() == {"error": "none"}


@pytest.mark.parametrize("stream", [True, False])
def test_a_body_too_large_for_memory_is_an_error_that_says_what_to_do(server: Server, stream: bool) -> None:  # noqa: FBT001
    transport = pickle.loads(pickle.dumps(HttpTransport(max_bytes=4 * MIB)))  # noqa: S301 - our own

    for path in ("/bomb", "/big"):
        request = replace(ask(server, path), stream=stream)
        if path == "/big":
            assert transport.send(request).body == BIG
        else:
            with pytest.raises(DecodeError, match=r"larger than 4 MiB.*use a decoder that streams"):
                _ = transport.send(request).body


def test_the_body_of_a_stream_may_be_looked_at_first() -> None:
    streamed = made(b"{", b'"id": 1}')

    assert streamed.json() == {"id": 1}
    assert streamed.text == '{"id": 1}'
    assert list(streamed.chunks()) == [b'{"id": 1}']


def test_a_paginator_finds_its_token_in_the_body_of_a_stream() -> None:
    streamed = made(b'{"next": ', b'"abc"}')

    assert streamed.value_at("next") == "abc"
    assert streamed.bytes_without_records == b'{"next": "abc"}'


def test_a_body_that_could_not_be_read_is_the_same_error_each_time() -> None:
    def broken() -> Generator[bytes, None, None]:
        yield b"{"
        raise DecodeError("the body is cut off")

    streamed = StreamedResponse(200, Headers({}), broken(), "https://h/", Request("GET", "https://h/"))

    for _ in range(3):
        with pytest.raises(DecodeError, match="cut off"):
            streamed.json()


def test_a_stream_is_read_once() -> None:
    streamed = made(b"a", b"b")

    assert list(streamed.chunks()) == [b"a", b"b"]
    with pytest.raises(BugError, match="already read"):
        streamed.chunks()
    with pytest.raises(BugError, match="already read"):
        _ = streamed.body


def test_a_response_that_is_no_stream_is_one_piece() -> None:
    assert list(response(body=b"ab").chunks()) == [b"ab"]
    response(body=b"ab").close()


def test_streams_are_read_from_canned_answers_and_through_a_cache() -> None:
    api = MockApi()
    api.get("/lines").returns(body=b'{"id": 1}\n{"id": 2}\n')
    request = Request("GET", "https://api.test/lines", stream=True)

    for transport in (api, CachedTransport(api)):
        client = HttpClient(transport)
        for _ in range(2):
            pages = FieldExtractor(Jsonl()).pages(client.send(request))
            assert list(pages) == [[{"id": 1}, {"id": 2}]]


def test_a_cache_keeps_a_stream_as_a_whole(server: Server) -> None:
    transport = CachedTransport(HttpTransport())

    for _ in range(2):
        assert b"".join(transport.send(ask(server, "/big")).chunks()) == BIG


def made(*pieces: bytes) -> StreamedResponse:
    def given() -> Generator[bytes, None, None]:
        yield from pieces

    return StreamedResponse(200, Headers(), given(), "u", Request("GET", "https://api.test/x"))
