"""What may be sent to which host."""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from urllib3.util import parse_url

from cdk.base.secret_masking import Secrets
from cdk.base.values import Json
from cdk.rest import ApiKey, Authenticator, Basic, Bearer, CursorToken, ForeignHost, HttpStream, LinkHeader, Request
from cdk.rest.http.origin import CredentialScope, Origin, may_follow, named_origins, origin
from cdk.state.slice import Partition, Slice
from cdk.testing import read
from tests.two_servers import SPELLED, Answer, Told, api_and_stranger

API = "https://api.test"
SECRET = "s3cr3t-0f-the-api"
SECRETS = (SECRET, b64encode(f"me:{SECRET}".encode()).decode())
PIECES = st.lists(
    st.sampled_from(["a.test", "b.test", "@", ":", "\\", "/", "?", "#", "%40", "[", "]", "80", " ", "\t"])
)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://API.test/a?b=//c", Origin("https", "api.test", 443)),
        ("HTTP://me:you@api.test:8080", Origin("http", "api.test", 8080)),
        ("http://[::1]:80?x", Origin("http", "[::1]", 80)),
        ("http://api.test:/", Origin("http", "api.test", 80)),
        ("http://[:]/", Origin()),
        ("http://[80]/", Origin()),
        ("//api.test/a", Origin()),
        ("ftp://api.test/a", Origin()),
        ("https://api.test\\@evil.test/", Origin()),
        ("https://a@api.test@evil.test/", Origin()),
        ("https://api.test :80/", Origin()),
        ("https://api.test:x/", Origin()),
        ("", Origin()),
    ],
)
def test_the_origin_of_a_url(url: str, expected: Origin) -> None:
    assert origin(url) == expected


@given(PIECES)
def test_an_origin_is_what_every_reader_finds(pieces: list[str]) -> None:
    url = f"http://{''.join(pieces)}"
    ours = origin(url)

    if ours.host:
        assert (urlsplit(url).hostname or "").strip("[]") == ours.host.strip("[]")
        assert (parse_url(url).host or "").lower() == ours.host


@pytest.mark.parametrize(
    ("old", "new", "may"),
    [
        ("https://api.test", "https://api.test:443/x", True),
        ("http://api.test", "https://api.test", True),
        ("https://api.test", "http://api.test", False),
        ("https://api.test", "https://api.test:8443", False),
        ("http://api.test:8080", "https://api.test", False),
        ("http://api.test", "https://api.test:8443", False),
        ("https://api.test", "https://api.test.evil.test", False),
        ("https://api.test", "https://evil.test", False),
    ],
)
def test_credentials_follow_to_the_same_origin_and_up_to_tls(old: str, new: str, *, may: bool) -> None:
    assert may_follow(origin(old), origin(new)) is may
    assert CredentialScope.of([old]).covers(origin(new)) is may


@pytest.mark.parametrize(
    ("host", "target", "covered"),
    [
        ("*.example.com", "https://eu.example.com", True),
        ("api-*.example.com", "https://api-eu.example.com", True),
        ("*.example.com", "https://a.b.example.com", False),
        ("*.example.com", "https://example.com", False),
        ("*.example.com", "http://eu.example.com", False),
        ("*.example.com", "https://evil.com/.example.com", False),
        ("*.example.com", "", False),
    ],
)
def test_a_wildcard_stands_for_one_part_of_a_host(host: str, target: str, *, covered: bool) -> None:
    scope = CredentialScope(frozenset([Origin("https", host, 443)]))

    assert scope.covers(origin(target)) is covered


def test_a_config_names_urls_and_hosts() -> None:
    config: dict[str, Any] = {
        "url": "http://shop.test:8080/v1",
        "more": [{"host": "files.shop.test"}, "eu.shop.test:8443"],
        "user": "me@shop.test",
        "since": "2024-01-01T00:00:00Z",
        "size": 5,
    }

    assert set(map(str, named_origins(config))) == {
        "http://shop.test:8080",
        "https://files.shop.test",
        "https://eu.shop.test:8443",
    }


def test_a_request_without_secrets_goes_anywhere_without_headers_of_its_own() -> None:
    headers = {"X-Version": "2", "Accept": "text/csv"}
    request = Request("GET", "https://files.test/a", {"page": 2}, headers, scope=CredentialScope.of([API]))

    sent = request.outgoing()

    assert (sent.full_url, sent.headers) == ("https://files.test/a?page=2", {"Accept": "text/csv"})


@pytest.mark.parametrize(
    "held",
    [
        {"headers": {"Authorization": "Bearer abcd"}},
        {"params": {"api_key": "abcd"}},
        {"params": {"k": "abcd"}, "secret": frozenset({"k"})},
        {"hidden": frozenset({"abcd"})},
        {"body": b"{}"},
        {"url": "https://files.test/a?api_key=abcd"},
        {"url": f"https://files.test/{SECRET}"},
    ],
)
def test_a_request_with_secrets_does_not_leave_its_scope(held: Mapping[str, Any]) -> None:
    scope = CredentialScope(frozenset([origin(API)]), Secrets([SECRET]))
    request = Request(**{"method": "GET", "url": "https://files.test/a", "scope": scope, **held})

    with pytest.raises(ForeignHost, match=r"expected a URL on https://api\.test") as refused:
        request.outgoing()

    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://files.test/a", "http:///a", "//files.test/a"])
def test_a_url_that_names_no_host_for_http_is_said_to_be_that(url: str) -> None:
    request = Request("GET", url, headers={"Authorization": "Bearer abcd"}, scope=CredentialScope.of([url]))

    with pytest.raises(ForeignHost, match=r"^GET .*: expected http:// or https://, and a host; correct the URL$"):
        request.outgoing()


def test_where_no_host_is_named_the_refusal_says_who_names_one() -> None:
    request = Request("GET", API, headers={"Authorization": "Bearer abcd"}, scope=CredentialScope.of([]))

    with pytest.raises(ForeignHost, match="expected a URL on a host that the config or `url_base` names; credentials"):
        request.outgoing()


def test_what_is_no_absolute_url_is_left_to_the_transport() -> None:
    request = Request("GET", "api.test/v1", headers={"Authorization": "Bearer abcd"}, scope=CredentialScope.of([]))

    assert request.outgoing() is request


def test_a_request_that_an_authenticator_changed_does_not_leave_its_scope() -> None:
    request = Request("GET", "https://files.test/a", headers={"X-Shop": "7"}, scope=CredentialScope.of([API]))

    with pytest.raises(ForeignHost):
        request.outgoing(authorized=True)


class Items(HttpStream):
    records_path = ("data",)
    foreign = ""

    @property
    def url_base(self) -> str:
        return str(self.config["base"]) if self.config["where"] != "path" else ""

    def partitions(self) -> Iterable[Partition]:
        if self.config["where"] in {"parent", "path"}:
            return [Partition.of(id="here", url=self.config["base"] + "/first"), Partition.of(id=1, url=self.foreign)]
        return [Partition()]

    def path(self, slice: Slice) -> str:
        return str(slice.partition.get("url", "/first"))

    def authenticator(self) -> Authenticator | None:
        kinds: dict[str, Authenticator] = {
            "bearer": Bearer(SECRET),
            "basic": Basic("me", SECRET),
            "header": ApiKey(SECRET, name="X-Own"),
            "parameter": ApiKey(SECRET, name="k", send_in="request_parameter"),
        }
        return kinds.get(self.config["auth"])

    def headers(self, slice: Slice) -> Mapping[str, str]:  # noqa: ARG002
        return {"Cookie": f"sid={SECRET}"} if self.config["auth"] == "cookie" else {}

    def params(self, slice: Slice) -> Mapping[str, Json]:  # noqa: ARG002
        return {"access_token": SECRET} if self.config["auth"] == "own parameter" else {}


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Told, Told]]:
    with api_and_stranger() as both:
        yield both


PLACES: Mapping[str, dict[str, Answer]] = {
    "next": {"/first": (200, {}, b'{"data": [{"id": 1}], "next": "URL"}')},
    "link": {"/first": (200, {"Link": '<URL>; rel="next"'}, b'{"data": [{"id": 1}]}')},
    "parent": {},
    "path": {},
    "redirect": {"/first": (307, {"Location": "URL"}, b"")},
    "second redirect": {"/first": (302, {"Location": "/second"}, b""), "/second": (302, {"Location": "URL"}, b"")},
}


@settings(max_examples=60, deadline=None)
@given(
    auth=st.sampled_from(["bearer", "basic", "header", "parameter", "cookie", "own parameter"]),
    where=st.sampled_from(sorted(PLACES)),
    spelling=st.sampled_from(sorted(SPELLED)),
)
def test_a_stranger_learns_no_secret_of_a_stream(
    servers: tuple[Told, Told], auth: str, where: str, spelling: str
) -> None:
    api, stranger = servers
    url = SPELLED[spelling].format(api=api.host, port=api.server_port, foreign=stranger.host, secret=SECRET)
    written = orjson.dumps(url)[1:-1]
    answers: dict[str, Answer] = {
        path: (
            status,
            {name: text.replace("URL", url) for name, text in headers.items()},
            body.replace(b"URL", written),
        )
        for path, (status, headers, body) in PLACES[where].items()
    }
    api.begin(answers)
    stranger.begin({"/page": (302, {"Location": "/page2"}, b""), "/page2": (302, {"Location": f"{api.url}/back"}, b"")})
    stream = Items({"base": api.url, "auth": auth, "where": where})
    # Not in the config: what that names is trusted.
    stream.foreign, stream.paginator = url, LinkHeader() if where == "link" else CursorToken("next")

    read(stream)

    assert api.knows(*SECRETS)
    assert stranger.knows(*SECRETS) == []
    assert not any("/back" in heard for heard in api.knows(*SECRETS))
