"""What a connection leads to: certificates, proxies, and mock libraries in its place."""

import os
import select
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from http.server import ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from socket import inet_ntoa
from socketserver import BaseRequestHandler, ThreadingTCPServer
from textwrap import dedent

import pytest
import requests
import responses
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from cdk import CdkError, ConfigError, Timeout, TransientError
from cdk.base.times.clock import system_clock
from cdk.rest import HttpTransport, Request
from tests.local_server import QuietHandler, answering

Serve = Callable[..., str]
IPV4 = 1
"""The kind of an address in SOCKS."""


class Api(QuietHandler):
    def do_GET(self) -> None:  # noqa: N802 - the name that http.server looks up
        body = self.headers.get("Host", "").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Tunnels(QuietHandler):
    """A proxy that relays connections, and refuses those without its login."""

    def do_CONNECT(self) -> None:  # noqa: N802 - as above
        if self.headers.get("Proxy-Authorization") != "Basic bWU6cHc=":
            self.send_error(407)
            return
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port))) as upstream:
            self.send_response(200)
            self.end_headers()
            relay(self.connection, upstream)
        self.close_connection = True


def relay(client: socket.socket, upstream: socket.socket) -> None:
    ends = {client: upstream, upstream: client}
    while data := (readable := select.select(list(ends), [], [])[0][0]).recv(65536):
        ends[readable].sendall(data)


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Serves over TLS with a certificate for `name`, written to `authority.pem`; returns the URL."""
    with ExitStack() as stack:

        def start(name: str = "127.0.0.1") -> str:
            certificate = certificate_for(name, tmp_path)
            server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
            server.socket = server_side(certificate).wrap_socket(server.socket, server_side=True)
            stack.enter_context(answering(server))
            return f"https://127.0.0.1:{server.server_port}"

        yield start


def server_side(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def certificate_for(name: str, folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "An authority of the test")])
    try:
        alternative: x509.GeneralName = x509.IPAddress(ip_address(name))
    except ValueError:
        alternative = x509.DNSName(name)
    now = system_clock()
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    pem = certificate.public_bytes(Encoding.PEM)
    (folder / "authority.pem").write_bytes(pem)
    both = folder / "server.pem"
    both.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + pem)
    return both


def test_an_authority_of_the_environment_is_trusted(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = serve()
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "authority.pem"))
    transport = HttpTransport()

    answers = [transport.send(Request("GET", f"{url}/users")).text for _ in range(2)]

    assert answers == [url.removeprefix("https://")] * 2


def test_an_authority_that_is_not_known_is_not_trusted(serve: Serve) -> None:
    with pytest.raises(TransientError, match=r"no secure connection .*name its authority in REQUESTS_CA_BUNDLE"):
        HttpTransport().send(Request("GET", serve()))


def test_a_certificate_for_another_host_is_not_trusted(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = serve("other.test")
    monkeypatch.setenv("CURL_CA_BUNDLE", str(tmp_path / "authority.pem"))

    with pytest.raises(TransientError, match="no secure connection"):
        HttpTransport().send(Request("GET", url))


def test_certificates_without_one_in_pem_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "empty.pem"))

    with pytest.raises(ConfigError, match=r"empty\.pem of REQUESTS_CA_BUNDLE cannot be read: .*; name a file"):
        HttpTransport().send(Request("GET", "https://127.0.0.1:1"))


def test_a_tunnel_of_a_proxy_is_checked_end_to_end(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = serve()
    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Tunnels)) as proxy:
        monkeypatch.setenv("https_proxy", f"http://me:pw@127.0.0.1:{proxy.server_port}")
        with pytest.raises(TransientError, match="no secure connection"):
            HttpTransport().send(Request("GET", url))
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "authority.pem"))

        assert HttpTransport().send(Request("GET", url)).text == url.removeprefix("https://")


def test_a_host_that_the_environment_excepts_is_reached_without_the_proxy(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = serve()
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.0/8")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "authority.pem"))

    assert HttpTransport().send(Request("GET", url)).ok


@pytest.mark.parametrize("secure", [False, True])
def test_the_authority_of_a_proxy_may_be_one_of_the_environment(
    serve: Serve,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    secure: bool,  # noqa: FBT001
) -> None:
    url = serve()
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Tunnels if secure else Api)
    proxy.socket = server_side(tmp_path / "server.pem").wrap_socket(proxy.socket, server_side=True)
    with answering(proxy):
        for name in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(name, f"https://me:pw@127.0.0.1:{proxy.server_port}")
        request = Request("GET", url if secure else "http://api.test/users")
        with pytest.raises(TransientError, match=r"the proxy failed .*name its authority in REQUESTS_CA_BUNDLE"):
            HttpTransport().send(request)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "authority.pem"))

        assert HttpTransport().send(request).text == request.url.split("/")[2]


class Socks(BaseRequestHandler):
    """A proxy that relays connections by SOCKS 5, without a login."""

    def handle(self) -> None:
        self.request.recv(64)
        self.request.sendall(b"\5\0")
        *_, kind = self.request.recv(4)
        assert kind == IPV4
        host, port = inet_ntoa(self.request.recv(4)), int.from_bytes(self.request.recv(2), "big")
        with socket.create_connection((host, port)) as upstream:
            self.request.sendall(b"\5\0\0\1" + bytes(6))
            relay(self.request, upstream)


@pytest.mark.parametrize("secure", [False, True])
def test_a_proxy_may_be_one_of_socks(
    serve: Serve,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    secure: bool,  # noqa: FBT001
) -> None:
    with (
        answering(ThreadingTCPServer(("127.0.0.1", 0), Socks)) as proxy,
        answering(ThreadingHTTPServer(("127.0.0.1", 0), Api)) as api,
    ):
        url = serve() if secure else f"http://127.0.0.1:{api.server_port}"
        monkeypatch.setenv("all_proxy", f"socks5://127.0.0.1:{proxy.server_address[1]}")
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "authority.pem"))

        assert HttpTransport().send(Request("GET", url)).text == url.partition("://")[2]


def test_the_package_for_socks_is_named_if_it_is_missing() -> None:
    program = dedent("""
        import sys
        sys.modules["socks"] = None
        from cdk.rest import HttpTransport, Request
        HttpTransport().send(Request("GET", "http://api.test/users"))
    """)
    environment = {**os.environ, "http_proxy": "socks5://127.0.0.1:1"}
    run = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, env=environment)

    assert "ConfigError: a SOCKS proxy needs PySocks: pip install pysocks" in run.stderr


@pytest.mark.parametrize(
    "proxy", ["http://", "http://127.0.0.1:x", "http://[::", "ftp://127.0.0.1:1", "me:pw@127.0.0.1:1"]
)
def test_a_proxy_that_is_none_is_an_error(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", proxy)

    with pytest.raises(ConfigError, match=r"a proxy of the environment is not the URL of one, .* check HTTP_PROXY"):
        HttpTransport().send(Request("GET", "http://api.test/users"))


@pytest.mark.parametrize(
    ("error", "translated"),
    [
        (requests.exceptions.ReadTimeout("slow"), Timeout),
        (requests.exceptions.ConnectionError("refused"), Timeout),
        (requests.exceptions.SSLError("expired"), TransientError),
        (requests.exceptions.ProxyError("none"), TransientError),
        (requests.exceptions.InvalidHeader("odd"), ConfigError),
    ],
    ids=lambda value: getattr(value, "__name__", None) or type(value).__name__,
)
def test_an_error_of_a_mock_library_is_that_of_the_network(error: Exception, translated: type[CdkError]) -> None:
    with responses.RequestsMock() as api:
        api.get("https://api.test/users", body=error)

        with pytest.raises(translated, match=r"^GET https://api\.test/users: "):
            HttpTransport().send(Request("GET", "https://api.test/users"))


@pytest.mark.parametrize("stream", [False, True])
def test_a_mock_library_sees_the_request_and_its_answer_is_read_once(stream: bool) -> None:  # noqa: FBT001
    request = Request("POST", "https://api.test/users", headers={"user-agent": "mine"}, body=b"{}", stream=stream)
    with responses.RequestsMock() as api:
        api.post("https://api.test/users", body="[1]", status=201, headers={"X-A": "b", "Content-Length": "3"})
        answer = HttpTransport().send(request)

        assert (answer.status, answer.headers["x-a"], answer.body) == (201, "b", b"[1]")
        sent = api.calls[0].request
        assert (sent.body, sent.headers["User-Agent"], sent.headers["content-length"]) == (b"{}", "mine", "2")
