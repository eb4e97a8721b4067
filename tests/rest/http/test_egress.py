import os
import pickle
import socket
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any

import pytest

from cdk import ConfigError
from cdk.rest import HttpClient, HttpTransport, Request
from cdk.rest.http.egress import VARIABLE, Egress, is_public, limited, process_egress
from tests.local_server import QuietHandler, answering

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "no_proxy")


class Handler(QuietHandler):
    """Answers, or redirects to what the header X-Target says."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        self.server.seen.append(self.path)
        target = self.headers.get("User-Agent", "")
        if target.startswith("to "):
            self.answer(302, b"ok", {"Location": target.removeprefix("to ")})
        else:
            self.answer(200, b"ok")


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[str] = []
        self.met = 0
        self.port = self.server_address[1]

    def get_request(self) -> tuple[socket.socket, Any]:
        self.met += 1
        return super().get_request()


@pytest.fixture
def server() -> Iterator[Server]:
    with answering(Server()) as server:
        yield server


@pytest.fixture
def inner() -> Iterator[Server]:
    with answering(Server()) as server:
        yield server


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)


def get(url: str, redirect: str = "") -> Request:
    return Request("GET", url, headers={"User-Agent": f"to {redirect}"} if redirect else {})


def through(egress: str) -> HttpTransport:
    return HttpTransport(egress=Egress.parse(egress))


PUBLIC = ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"]
INNER = [
    *("0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.8.8.8", "169.254.169.254", "172.16.0.1"),  # noqa: S104
    *("192.168.1.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "168.63.129.16"),
    *("::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "2001::1"),
    *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::10.0.0.1", "2002:7f00:1::1", "fe80::1%1"),
]


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize("address", INNER)
def test_addresses_of_inner_networks_are_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    ("egress", "host", "port"),
    [
        ("public", "api.example.com", 443),
        ("public", "8.8.8.8", 53),
        ("api.example.com", "API.example.com.", 443),
        ("*.example.com", "a.b.example.com", 80),
        ("a.com, b.com:8443", "b.com", 8443),
        ("127.0.0.1:8000", "127.1", 8000),
        ("::1", "[::1]", 80),
        ("[::1]:8000", "::1", 8000),
        ("public,10.0.0.5", "10.0.0.5", 80),
    ],
)
def test_hosts_that_are_meant_are_allowed(egress: str, host: str, port: int) -> None:
    Egress.parse(egress).check_host(host, port)


@pytest.mark.parametrize(
    ("egress", "host", "port"),
    [
        ("public", "127.0.0.1", 80),
        ("public", "localhost", 80),
        ("public", "a.localhost.", 80),
        ("public", "2130706433", 80),
        ("public", "0x7f.1", 80),
        ("public", "[::ffff:127.0.0.1]", 80),
        ("public,10.0.0.5", "10.0.0.6", 80),
        ("api.example.com", "example.com", 443),
        ("*.example.com", "example.com", 443),
        ("*.example.com", "badexample.com", 443),
        ("b.com:8443", "b.com", 443),
        ("127.0.0.1:8000", "127.0.0.1", 8001),
        ("public", "", 0),
    ],
)
def test_other_hosts_are_refused_by_name(egress: str, host: str, port: int) -> None:
    with pytest.raises(ConfigError, match="--egress"):
        Egress.parse(egress).check_host(host, port)


@pytest.mark.parametrize(
    ("egress", "host", "names"),
    [
        ("public", "8.8.8.8", ()),
        ("10.0.0.5", "10.0.0.5", ()),
        ("api.example.com", "10.0.0.5", ()),
        ("*.example.com", "10.0.0.5", ("api.example.com",)),
        ("api.example.com", "8.8.8.8", ("api.example.com",)),
        ("api.example.com:443", "api.example.com", ()),
    ],
)
def test_a_connection_may_go_where_a_name_of_the_list_that_was_looked_up_may_lead(
    monkeypatch: pytest.MonkeyPatch, egress: str, host: str, names: tuple[str, ...]
) -> None:
    leads(monkeypatch, "10.0.0.5")

    Egress.parse(egress).check_connection(host, 443, names)


@pytest.mark.parametrize(
    ("egress", "host", "names"),
    [
        ("public", "10.0.0.6", ("api.example.com",)),
        ("public", "api.example.com", ()),
        ("*.example.com", "10.0.0.5", ()),
        ("*.example.com", "10.0.0.6", ("api.example.com",)),
        ("api.example.com", "8.8.8.8", ()),
        ("api.example.com", "8.8.8.8", ("other.example.com",)),
        ("api.example.com:80", "8.8.8.8", ("api.example.com",)),
        ("api.example.com:80", "10.0.0.5", ("api.example.com",)),
    ],
)
def test_a_connection_that_no_name_of_the_list_explains_is_refused(
    monkeypatch: pytest.MonkeyPatch, egress: str, host: str, names: tuple[str, ...]
) -> None:
    leads(monkeypatch, "10.0.0.5")

    with pytest.raises(ConfigError, match=f"{host}:443 with --egress"):
        Egress.parse(egress).check_connection(host, 443, names)


@pytest.mark.parametrize(
    "text", ["", " , ", "http://a.com", "a.com/x", "a*.com", "a.com:0", "a.com:x", "a.com:70000", "a.b:80:90"]
)
def test_a_list_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--egress, or SPARK_CDK_EGRESS .* expected `public`"):
        Egress.parse(text)


def test_a_host_and_port_in_the_list_are_reached(server: Server) -> None:
    assert through(f"127.0.0.1:{server.port}").send(get(f"http://127.0.0.1:{server.port}/")).body == b"ok"


def test_a_request_to_another_host_is_refused_with_the_host_and_the_option_but_no_query(server: Server) -> None:
    client = HttpClient(through("public"))
    with pytest.raises(ConfigError) as refused:
        client.send(get(f"http://127.0.0.1:{server.port}/?q=private"))

    assert f"127.0.0.1:{server.port}" in str(refused.value)
    assert "--egress public" in str(refused.value)
    assert "q=" not in str(refused.value)
    assert server.met == 0


def test_a_redirect_to_another_port_is_refused(server: Server, inner: Server) -> None:
    with pytest.raises(ConfigError, match=f"127.0.0.1:{inner.port} "):
        through(f"127.0.0.1:{server.port}").send(
            get(f"http://127.0.0.1:{server.port}/", f"http://127.0.0.1:{inner.port}/?token=private")
        )

    assert (server.seen, inner.met) == (["/"], 0)


def test_a_name_that_leads_to_an_inner_address_is_refused_before_anything_is_connected(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    leads(monkeypatch, "127.0.0.1")
    with pytest.raises(ConfigError, match=r"api\.example\.com:\d+ .* 127\.0\.0\.1 is not public"):
        through("public").send(get(f"http://api.example.com:{server.port}/"))

    assert server.met == 0


def test_a_name_that_leads_elsewhere_a_moment_later_is_refused_before_anything_is_sent(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    leads(monkeypatch, "8.8.8.8", "127.0.0.1")
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1 is not public"):
        through("public").send(get(f"http://api.example.com:{server.port}/"))

    assert server.seen == []


def test_a_name_may_lead_to_an_inner_address_that_is_in_the_list(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    leads(monkeypatch, "127.0.0.1")

    assert through("public,127.0.0.1").send(get(f"http://api.example.com:{server.port}/")).body == b"ok"


def test_a_name_in_the_list_is_trusted_wherever_it_leads(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    leads(monkeypatch, "127.0.0.1")

    assert through("api.example.com").send(get(f"http://api.example.com:{server.port}/")).body == b"ok"


def test_a_proxy_is_allowed_and_the_name_behind_it_is_checked(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")

    assert through("public").send(get("http://api.example.com/x")).body == b"ok"
    for url in ("http://127.0.0.1/", "http://2130706433/", "http://localhost/"):
        with pytest.raises(ConfigError, match="--egress"):
            through("public").send(get(url))
    assert server.seen == ["http://api.example.com/x"]


def test_the_limit_of_the_process_holds_for_transports_that_were_used_before(server: Server) -> None:
    transport, request = HttpTransport(), get(f"http://127.0.0.1:{server.port}/")
    transport.send(request)

    with limited(Egress.parse("public")):
        assert os.environ[VARIABLE] == "public"
        with pytest.raises(ConfigError, match="--egress public"):
            transport.send(request)

    assert transport.send(request).body == b"ok"
    assert (process_egress(), VARIABLE in os.environ) == (None, False)


def test_a_transport_cannot_leave_the_limit_of_the_process(server: Server) -> None:
    with limited(Egress.parse("public")), pytest.raises(ConfigError, match="--egress public"):
        through("127.0.0.1").send(get(f"http://127.0.0.1:{server.port}/"))


def test_the_limit_travels_to_other_processes(server: Server) -> None:
    there = pickle.loads(pickle.dumps(through("public")))  # noqa: S301 - our own

    with pytest.raises(ConfigError, match="--egress public"):
        there.send(get(f"http://127.0.0.1:{server.port}/"))


def leads(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Let every name lead to one address after the other; the last one stays."""
    left = list(addresses)

    def look_up(_: Any, port: Any, *__: Any, **___: Any) -> list[Any]:
        address = left.pop(0) if len(left) > 1 else left[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
