"""Connections that a connector opens beside the kit are seen, whatever library opens them."""

import asyncio
import errno
import http.client
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import ThreadingHTTPServer
from typing import Any

import pytest
import requests

from cdk import ConfigError, Json, Page, PagedStream, Slice
from cdk.rest import HttpTransport, Request
from cdk.rest.http.egress import Egress, limited
from cdk.rest.http.own_connections import OwnConnection, limiting, noticing, refusing
from cdk.streams.read_slice import read_slice
from tests.local_server import QuietHandler, answering


class Handler(QuietHandler):
    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        self.answer(200, b"[]")


@pytest.fixture
def port() -> Iterator[int]:
    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield server.server_address[1]


def by_requests(port: int) -> None:
    assert requests.get(f"http://127.0.0.1:{port}/", timeout=9).json() == []


def by_urllib(port: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=9) as answer:
        assert answer.read() == b"[]"


def by_http_client(port: int) -> None:
    connection = http.client.HTTPConnection("localhost", port, timeout=9)
    connection.connect()
    connection.close()


def by_a_socket(port: int) -> None:
    with socket.socket() as opened:
        assert opened.connect_ex(("127.0.0.1", port)) == 0


def by_asyncio(port: int) -> None:
    async def connect() -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        await writer.wait_closed()

    asyncio.run(connect())


@pytest.mark.parametrize("connect", [by_requests, by_urllib, by_http_client, by_a_socket, by_asyncio])
def test_an_own_connection_is_refused_in_the_block_and_nowhere_else(connect: Callable[[int], None], port: int) -> None:
    with refusing():
        with refusing():
            pass
        with pytest.raises(OwnConnection, match=rf"to (127.0.0.1|::1):{port} that the kit does not open \(.*, in"):
            connect(port)

    connect(port)


def test_a_host_is_named_before_anybody_is_asked_for_its_address() -> None:
    line = requests_line.__code__.co_firstlineno + 1

    with refusing(), pytest.raises(OwnConnection) as raised:
        requests_line("https://api.example.invalid/users")

    assert "to api.example.invalid:443 that" in str(raised.value)
    assert f" ({__file__}:{line}, in requests_line), expected requests by the kit" in str(raised.value)


def requests_line(url: str) -> None:
    requests.get(url, timeout=9)


def test_other_threads_are_refused_too(port: int) -> None:
    errors: list[Exception] = []

    def connect() -> None:
        try:
            by_requests(port)
        except OwnConnection as error:
            errors.append(error)

    with refusing():
        thread = threading.Thread(target=connect)  # noqa: TID251 - as a connector does it
        thread.start()
        thread.join()

    assert len(errors) == 1


class Threaded(PagedStream):
    """Reads in a thread of its own."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:  # noqa: ARG002
        records: list[dict[str, Json]] = []

        def work() -> None:
            with suppress(OwnConnection):
                requests.get(f"http://127.0.0.1:{self._port}/", timeout=9)
                records.append({"id": 1})

        thread = threading.Thread(target=work)  # noqa: TID251 - as a connector does it
        thread.start()
        thread.join()
        return Page([records[0]], None)


def test_a_stream_that_fails_of_a_refusal_in_a_thread_of_its_own_names_that(port: int) -> None:
    with refusing(), pytest.raises(OwnConnection) as raised:
        list(read_slice(Threaded(port), Slice()))
    assert [len(page.records) for page in read_slice(Threaded(port), Slice())] == [1, 0]

    text = str(raised.value)
    assert f"to 127.0.0.1:{port} that the kit does not open ({__file__}:" in text
    assert (
        "; this was tried in a thread of the connector, which then failed: IndexError: list index out of range" in text
    )


def test_what_sends_nothing_to_others_goes_on(port: int, tmp_path: str) -> None:
    with refusing():
        asyncio.run(asyncio.sleep(0))
        with socket.socket(type=socket.SOCK_DGRAM) as opened:
            opened.connect(("127.0.0.1", port))
        with socket.socket(socket.AF_UNIX) as opened, suppress(FileNotFoundError):
            opened.connect(f"{tmp_path}/nobody")
        socket.getaddrinfo("localhost", port)
        with socket.create_server(("127.0.0.1", 0)):
            pass


def test_the_requests_of_the_kit_and_what_talks_to_spark_are_no_own_connections(port: int) -> None:
    spark: dict[str, Any] = {"__name__": "py4j.clientserver"}
    exec("def call(connect, port):\n    connect(port)", spark)  # noqa: S102 - made here

    with refusing(), noticing() as beside:
        assert HttpTransport().send_once(Request("GET", f"http://127.0.0.1:{port}/")).json() == []
        spark["call"](by_requests, port)

    assert beside == {}


def test_own_connections_are_noticed_once_for_each_line(port: int) -> None:
    with noticing() as beside:
        for _ in range(3):
            by_a_socket(port)
        by_asyncio(port)
    by_requests(port)

    assert [text.rpartition(", ")[2] for text in beside.values()] == ["in by_a_socket)", "in connect)"]
    assert all(text.startswith(f"127.0.0.1:{port} ({__file__}:") for text in beside.values())


@contextmanager
def only_to(egress: str) -> Iterator[None]:
    with limited(Egress.parse(egress)), limiting():
        yield


@pytest.mark.parametrize("connect", [by_requests, by_urllib, by_http_client, by_a_socket, by_asyncio])
def test_an_own_connection_to_where_no_request_may_go_is_refused_with_its_line(
    connect: Callable[[int], None], port: int
) -> None:
    with only_to(f"127.0.0.1:{port},::1"):
        connect(port)
    with only_to("public"), pytest.raises(ConfigError, match=rf"127.0.0.1:{port}|::1:{port}") as raised:
        connect(port)

    assert f" with --egress public: the address is not public; if that host is right, add it there ({__file__}:" in str(
        raised.value
    )
    connect(port)


def test_no_limit_of_requests_is_no_limit_of_own_connections(port: int) -> None:
    with limiting():
        by_requests(port)


def test_a_host_that_is_not_in_the_list_is_refused_before_anybody_is_asked_for_its_address() -> None:
    line = requests_line.__code__.co_firstlineno + 1

    with only_to("api.example.com"), pytest.raises(ConfigError) as raised:
        requests_line("https://other.example.invalid/users")

    assert str(raised.value) == (
        "no request may go to other.example.invalid:443 with --egress api.example.com: it is not in the list; if that "
        f"host is right, add it there ({__file__}:{line}, in requests_line)"
    )


def test_another_port_than_that_of_the_list_is_refused(port: int) -> None:
    with only_to(f"127.0.0.1:{port + 1}"), pytest.raises(ConfigError, match=f"127.0.0.1:{port} .* not in the list"):
        by_requests(port)


def test_an_address_is_allowed_where_a_name_of_the_list_leads_there(port: int) -> None:
    with only_to(f"localhost:{port}"):
        by_requests(port)
        by_asyncio(port)


def test_a_name_that_is_connected_to_without_a_look_up_counts_by_the_name(port: int) -> None:
    with only_to("localhost"), socket.socket() as opened:
        opened.connect(("localhost", port))
    with only_to("public"), socket.socket() as opened, pytest.raises(ConfigError, match="it is this machine"):
        opened.connect(("localhost", port))


def test_datagrams_to_where_no_request_may_go_are_refused() -> None:
    with only_to("public"), socket.socket(type=socket.SOCK_DGRAM) as opened:
        refused = pytest.raises(ConfigError, match=r"127\.0\.0\.1:9 ")
        with refused:
            opened.sendto(b"text", ("127.0.0.1", 9))
    with only_to("public"), socket.socket(type=socket.SOCK_DGRAM) as opened, refused:
        opened.connect(("127.0.0.1", 9))


def test_a_socket_that_was_refused_is_closed() -> None:
    with only_to("public"), socket.socket() as opened:
        with pytest.raises(ConfigError):
            opened.connect(("127.0.0.1", 9))
        with pytest.raises(OSError, match=f"Errno {errno.EBADF}"):
            opened.getpeername()


def test_what_sends_nothing_is_not_limited() -> None:
    with only_to("api.example.com"):
        asyncio.run(asyncio.sleep(0))
        socket.getaddrinfo("localhost", None)
        socket.gethostbyname("localhost")
        with socket.create_server(("127.0.0.1", 0)):
            pass


def test_the_kit_checks_its_own_requests_itself_and_what_talks_to_spark_is_not_limited(port: int) -> None:
    spark: dict[str, Any] = {"__name__": "py4j.clientserver", "socket": socket}
    exec("def call(port):\n    socket.create_connection(('127.0.0.1', port)).close()", spark)  # noqa: S102 - made here

    with only_to("public"):
        spark["call"](port)
        with pytest.raises(ConfigError, match=r"add it there$"):
            HttpTransport().send_once(Request("GET", f"http://127.0.0.1:{port}/"))


def test_a_connector_that_spark_runs_is_limited(port: int) -> None:
    """In a task the functions of Spark call the kit, which calls the connector."""
    spark: dict[str, Any] = {"__name__": "pyspark.worker"}
    kit: dict[str, Any] = {"__name__": "cdk.sync.tasks.bundle_task"}
    for module in (spark, kit):
        exec("def call(connect, *further):\n    connect(*further)", module)  # noqa: S102 - made here

    with only_to("public"), pytest.raises(ConfigError, match=f"127.0.0.1:{port} "):
        spark["call"](kit["call"], by_requests, port)
