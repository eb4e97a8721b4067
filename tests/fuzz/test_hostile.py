"""Hostile input ends in a message or a typed error: soon, in bounded memory, and without a secret."""

import gzip
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from cdk.base.errors import CdkError, ConfigError, DecodeError, FatalError, PaginationLoop, RateLimited, Timeout
from cdk.base.values import Json
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.rest import Headers, HttpTransport, Request, Response, Transport
from cdk.rest.http.egress import Egress
from cdk.testing import MockApi, ReadResult, read
from tests.fuzz.answers import RECORD
from tests.fuzz.manifests import BY_OFFSET, BY_TOKEN, CONFIG, MANIFESTS, PAGED, manifest, stream
from tests.fuzz.servers import Speak, bomb, endless, raw, raw_server, redirects, says

ROOT = Path(__file__).parents[2]
MIB = 2**20


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_random_manifests_configs_states_and_answers_end_in_typed_errors() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.campaign", "--cases", "250", "--seconds", "60"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_manifests_of_the_campaign_are_right_before_they_are_broken(name: str) -> None:
    source = ManifestSource(
        Manifest(MANIFESTS[name]), Runtime(transport=answering(lambda _: {"data": [], "next": None}))
    )

    assert list(source.streams(source.prepare(CONFIG))) != []


def plain(paginator: Json = None) -> Json:
    parts = {} if paginator is None else {"paginator": paginator}
    return manifest(stream("users", requester={"url_base": "{{ config['base'] }}"}, **parts))


def read_all(value: Json, transport: Transport, base: str = "https://api.test") -> ReadResult:
    slept: list[float] = []
    runtime = Runtime(transport=transport, sleep=slept.append)
    run = read(ManifestSource(Manifest(value), runtime), config={**CONFIG, "base": base})
    assert len(slept) < 100
    return run


BODIES: dict[str, Speak] = {
    "/truncated": says(gzip.compress(b'{"data": []}')[:-6], "Content-Encoding: gzip"),
    "/no-gzip": says(b"plain", "Content-Encoding: gzip"),
    "/utf-8": says(b'{"data": [{"id": "\xc3\x28"}]}'),
    "/deep": says(b"[" * 100_000 + b"]" * 100_000),
    "/deep-data": says(b'{"data":' * 100_000 + b"1" + b"}" * 100_000),
    "/half": says(b'{"data": [', length=100),
    "/gigabyte": says(b"{}", length=2**30),
    "/negative": says(b"{", length=-1),
    "/bomb": bomb(200),
    "/bomb-twice": bomb(300, times=2),
    "/endless": endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "/headers": raw(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 100_000 + b"\r\n{}"),
    "/header": raw(b"HTTP/1.1 200 OK\r\nX-A: " + b"b" * 2_000_000 + b"\r\n\r\n{}"),
    "/no-http": raw(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "/nothing": raw(b""),
    "/status": raw(b"HTTP/1.1 99999999999 X\r\n\r\n"),
    "/chunk": raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n"),
    "/huge-chunk": raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 30 + b"\r\nabc\r\n"),
    "/round": redirects("{here}/round"),
    "/scheme": redirects("file:///etc/passwd"),
    "/no-url": redirects("http://[no"),
    "/far": redirects("http://127.0.0.1:1/?secret=1"),
    "/far-name": redirects("http://localhost:1/"),
    "/old-spelling": redirects("http://2130706433:1/"),
}


@pytest.mark.parametrize("path", BODIES)
def test_wrong_answers_of_a_server_end_in_typed_errors_in_bounded_memory(path: str) -> None:
    with raw_server(BODIES) as server:
        transport = HttpTransport(
            read_timeout=timedelta(seconds=5),
            max_bytes=16 * MIB,
            egress=Egress.parse(server.url.removeprefix("http://")),
        )
        value = plain()
        value["streams"][0]["retriever"]["requester"]["path"] = path
        with peak(200 * MIB):
            run = read_all(value, transport, server.url)

    assert isinstance(run.error, CdkError)
    assert run.records == []
    assert len(server.asked) < 40


def test_redirects_to_where_no_request_may_go_name_the_host_and_no_query() -> None:
    with raw_server(BODIES) as server:
        transport = HttpTransport(egress=Egress.parse(server.url.removeprefix("http://")))
        with pytest.raises(ConfigError, match=r"127\.0\.0\.1:1 with --egress") as refused:
            transport.send(Request("GET", f"{server.url}/far"))

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"data": [{"id": Nan}]}', DecodeError),
        (b"\xff\xfe", DecodeError),
        (b"<html>", DecodeError),
        (b"", DecodeError),
        (b'{"data": [1, "x", null]}', CdkError),
    ],
)
def test_bodies_that_are_no_records_are_refused(body: bytes, kind: type[CdkError]) -> None:
    api = MockApi()
    api.get("/users").returns(body=body)

    assert isinstance(read_all(plain(), api).error, kind)


def test_a_number_of_any_size_is_a_record_or_a_typed_error() -> None:
    api = MockApi()
    api.get("/users").returns(body=b'{"data": [{"id": ' + b"9" * 4000 + b"}]}")
    run = read_all(plain(), api)

    assert run.records or isinstance(run.error, CdkError)


@pytest.mark.parametrize("paginator", [PAGED, BY_OFFSET], ids=["page", "offset"])
def test_a_page_that_is_the_one_before_is_no_page(paginator: Json) -> None:
    api = MockApi()
    api.get("/users").returns(json={"data": [RECORD, RECORD]}).returns(json={"data": [RECORD, RECORD]}).returns(
        json={"data": []}
    )
    run = read_all(plain(paginator), api)

    assert isinstance(run.error, PaginationLoop)
    assert run.records == [RECORD] * 2
    assert len(api.requests) == 2


@pytest.mark.parametrize("pages", [2, 3])
def test_two_pages_of_one_record_may_be_the_same_and_three_are_a_loop(pages: int) -> None:
    api = MockApi()
    route = api.get("/users")
    for _ in range(pages):
        route.returns(json={"data": [RECORD]})
    route.returns(json={"data": []})
    of_one = {**PAGED, "pagination_strategy": {"type": "PageIncrement", "page_size": 1, "start_from_page": 1}}
    run = read_all(plain(of_one), api)

    assert run.records == [RECORD] * 2
    assert isinstance(run.error, PaginationLoop) is (pages > 2)


def test_tokens_that_go_in_a_circle_end_as_a_loop() -> None:
    turns, numbers = count(), count()

    def body(_: Request) -> Json:
        return {"data": [{"id": next(numbers) % 50}], "next": {"url": f"https://api.test/users?p={next(turns) % 7}"}}

    api = answering(body)
    run = read_all(plain(BY_TOKEN), api)

    assert isinstance(run.error, PaginationLoop)
    assert len(api.requests) < 40


@pytest.mark.parametrize("header", ["Retry-After", "X-Reset"])
def test_an_api_that_asks_to_wait_for_years_ends_the_read(header: str) -> None:
    value = plain()
    value["streams"][0]["retriever"]["requester"]["error_handler"] = {
        "type": "DefaultErrorHandler",
        "backoff_strategies": [
            {"type": "WaitTimeFromHeader", "header": "Retry-After"},
            {"type": "WaitUntilTimeFromHeader", "header": "X-Reset"},
        ],
    }
    api = MockApi()
    api.get("/users").returns(status=429, headers={header: "9" * 30})

    assert isinstance(read_all(value, api).error, RateLimited)


def test_an_api_that_never_answers_ends_the_read() -> None:
    api = MockApi()
    api.get("/users").raises(Timeout("no response in time"))

    assert isinstance(read_all(plain(), api).error, Timeout)
    assert len(api.requests) < 20


def test_a_manifest_that_refers_to_itself_is_refused(tmp_path: Path) -> None:
    for text in (
        "definitions: &a\n  b: *a\nstreams: [*a]\n",
        "streams: &s\n  - *s\n",
        json.dumps({**plain(), "definitions": {"a": {"$ref": "#/definitions/a"}}, "x": {"$ref": "#/definitions/a"}}),
        json.dumps({**plain(), "streams": [{"$ref": "#/streams/0"}]}),
    ):
        file = tmp_path / "manifest.yaml"
        file.write_text(text)
        with pytest.raises(ConfigError):
            ManifestSource.load(file)


def test_aliases_that_multiply_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    file = tmp_path / "manifest.yaml"
    file.write_text("\n".join([*lines, "streams: [*a11]"]))

    with peak(200 * MIB), pytest.raises(ConfigError):
        ManifestSource.load(file)


class Answering:
    """A transport that answers with what a function gives, at most so often."""

    def __init__(self, body: Callable[[Request], Json]) -> None:
        self._body = body
        self.requests: list[Request] = []

    def send(self, request: Request) -> Response:
        self.requests.append(request)
        if len(self.requests) > 1000:
            raise FatalError("the server of this test has had enough")
        return Response(200, Headers({}), json.dumps(self._body(request)).encode(), request.full_url, request)


def answering(body: Callable[[Request], Json]) -> Answering:
    return Answering(body)


@contextmanager
def peak(most: int) -> Iterator[None]:
    """Fail when more than `most` bytes are taken inside."""
    tracemalloc.start()
    try:
        yield
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken < most


def test_an_expression_that_never_ends_on_a_records_text_stops_the_stream_by_name() -> None:
    endless_search = "{{ (record['name'] | regex_search('^((a|a)*)$')) != '' }}"
    selector = {"record_filter": {"type": "RecordFilter", "condition": endless_search}}
    value = manifest(stream("users", selector=selector))
    body = {"data": [{"id": 1, "name": "a" * 40 + "b", "updated_at": "2024-01-01"}]}
    api = MockApi()
    api.get("/users").returns(json=body)

    run = read_all(value, api)

    assert run.records == []
    assert any("was stopped after 2 seconds" in str(message) for message in run.messages)
