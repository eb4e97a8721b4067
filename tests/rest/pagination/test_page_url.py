"""Page tokens in which an API echoes the credentials it was asked with."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cdk.base.secret_masking import Secrets
from cdk.base.values import Json, JsonSchema, canonical
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.rest import ApiKey, Authenticator, CursorToken, Headers, HttpStream, Request, Response
from cdk.state.position import Checkpoint, Position
from cdk.state.slice import Slice
from cdk.state.stream_state import StreamState
from cdk.streams.page import ReadPage
from cdk.streams.read_slice import read_slice
from cdk.streams.source import Source
from tests.declarative.manifests import CURSOR

# Manifests read texts such as "a"#b and 1_000 as values of Python, as Airbyte does; not with a letter in front.
SECRETS = (
    st.text("abcXYZ019 &+/=%?#\"'<\\é-_", min_size=7, max_size=23).filter(lambda s: s.strip() == s).map("X{}".format)
)
ECHOES = ("parameter", "other parameter", "path", "opaque", "beside", "quoted by letters")
SENT = ("header", "parameter", "own parameter", "session")
PAGES = 4


def session(key: str, login: int) -> str:
    """The token of a login. It does not hold the key: what cuts that out does not cut this."""
    return f"{login}-{key[::-1]}"


class Echo:
    """An API with pages that echo the key in the token of the next, and that wants key and token whole."""

    def __init__(self, echo: str, key: str) -> None:
        self.echo, self.key, self.logins, self.asked = echo, key, 0, 0

    def send(self, request: Request) -> Response:
        parts = urlsplit(request.full_url)
        if parts.path == "/login":
            self.logins += 1
            return self._answer(request, {"token": session(self.key, self.logins)})
        self.asked += 1
        query = parse_qs(parts.query, keep_blank_values=True)
        current = session(self.key, self.logins) if self.logins else self.key
        sent = [*query.get("apikey", []), *query.get("own", []), request.headers.get("X-Key")]
        if current not in sent or len(query.get("apikey", [])) > 1:
            return Response(401, Headers(), b"{}", request.full_url, request)
        page = self._page(parts.path, query, current)
        if page is None:
            return Response(401, Headers(), b"{}", request.full_url, request)
        body = {
            "data": [{"id": page, "on": "2024-01-02"}],
            **({"next": self._next(page + 1, current)} if page < PAGES else {}),
        }
        return self._answer(request, body)

    def _answer(self, request: Request, body: Any) -> Response:
        return Response(200, Headers(), json.dumps(body).encode(), request.full_url, request)

    def _page(self, path: str, query: Mapping[str, list[str]], key: str) -> int | None:
        """The page that is asked for; None when the key in its token is not the one that is valid now."""
        token = query.get("after", [""])[0]
        if self.echo in {"opaque", "beside"} and token:
            if self.echo == "beside":
                _, number, told = token.split(" ", 2)
                return int(number) if told == key else None
            opened = json.loads(urlsafe_b64decode(token))
            return int(opened["page"]) if opened["key"] == key else None
        page = int(query.get("page", ["1"])[0])
        if self.echo == "path" and page > 1:
            return page if unquote(path) == f"/{key}/items" else None
        if self.echo in {"other parameter", "quoted by letters"} and page > 1:
            return page if query.get("echo") == [key] else None
        return page

    def _next(self, page: int, key: str) -> str:
        match self.echo:
            case "parameter":
                return f"https://api.test/items?apikey={quote(key, safe='')}&page={page}"
            case "other parameter":
                return f"https://api.test/items?page={page}&echo={quote(key, safe='')}"
            case "quoted by letters":
                spelled = "".join(
                    f"%{ord(c):02X}" if c.isascii() and (n % 2 == 0 or not c.isalnum()) else quote(c)
                    for n, c in enumerate(key)
                )
                return f"https://api.test/items?page={page}&echo={spelled}"
            case "path":
                return f"https://api.test/{quote(key, safe='')}/items?page={page}"
            case "opaque":
                return urlsafe_b64encode(json.dumps({"page": page, "key": key}, ensure_ascii=False).encode()).decode()
            case _:
                return f"page {page} {key}"


SPEC: JsonSchema = {"type": "object", "properties": {"key": {"type": "string", "airbyte_secret": True}}}


class Items(HttpStream):
    name = "items"
    url_base = "https://api.test"
    records_path = ("data",)

    def path(self, slice: Slice) -> str:  # noqa: ARG002
        return "/items"

    def authenticator(self) -> Authenticator | None:
        kinds: dict[str, Authenticator] = {
            "header": ApiKey(self.config["key"], name="X-Key"),
            "parameter": ApiKey(self.config["key"], name="apikey", send_in="request_parameter"),
        }
        return kinds.get(self.config["sent"])

    def params(self, slice: Slice) -> Mapping[str, Json]:  # noqa: ARG002
        return {"apikey": self.config["key"]} if self.config["sent"] == "own parameter" else {}


class Python(Source):
    config_schema = SPEC

    def __init__(self, api: Echo) -> None:
        self.api = api

    def streams(self, config: Mapping[str, Json]) -> Sequence[HttpStream]:
        stream = Items(config)
        stream.transport = self.api
        stream.paginator = CursorToken("next", param="after" if self.api.echo in {"opaque", "beside"} else None)
        return [stream]


def manifest(api: Echo, sent: str) -> ManifestSource:
    key = "{{ config['key'] }}"
    placed = {"type": "RequestOption", "inject_into": "header", "field_name": "X-Key"}
    auth: dict[str, Any] = {
        "header": {"authenticator": {"type": "ApiKeyAuthenticator", "api_token": key, "inject_into": placed}},
        "parameter": {
            "authenticator": {
                "type": "ApiKeyAuthenticator",
                "api_token": key,
                "inject_into": {**placed, "inject_into": "request_parameter", "field_name": "apikey"},
            }
        },
        "own parameter": {"request_parameters": {"own": key}},
        "session": {
            "authenticator": {
                "type": "SessionTokenAuthenticator",
                "login_requester": {"type": "HttpRequester", "url": "https://api.test/login", "http_method": "POST"},
                "session_token_path": ["token"],
                "expiration_duration": "PT1H",
                "request_authentication": {"type": "ApiKey", "inject_into": placed},
            }
        },
    }
    option = (
        {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "after"}
        if api.echo in {"opaque", "beside"}
        else {"type": "RequestPath"}
    )
    stream = {
        "type": "DeclarativeStream",
        "name": "items",
        "primary_key": "id",
        "incremental_sync": CURSOR,
        "schema_loader": {"type": "InlineSchemaLoader", "schema": {"type": "object", "properties": {}}},
        "retriever": {
            "type": "SimpleRetriever",
            "requester": {"type": "HttpRequester", "url": "https://api.test/items", **auth[sent]},
            "record_selector": {
                "type": "RecordSelector",
                "extractor": {"type": "DpathExtractor", "field_path": ["data"]},
            },
            "paginator": {
                "type": "DefaultPaginator",
                "pagination_strategy": {"type": "CursorPagination", "cursor_value": "{{ response.next }}"},
                "page_token_option": option,
            },
        },
    }
    spec = {"type": "Spec", "connection_specification": SPEC}
    check = {"type": "CheckStream", "stream_names": ["items"]}
    whole = {"version": "6.0.0", "check": check, "streams": [stream], "spec": spec}
    return ManifestSource(Manifest(whole), Runtime(transport=api))


def sources(echo: str, sent: str, key: str) -> Iterator[tuple[Any, Echo]]:
    api = Echo(echo, key)
    yield manifest(api, sent), api
    if sent != "session":
        api = Echo(echo, key)
        yield Python(api), api


def pages(source: Source, config: Mapping[str, Json], start: Position | None = None) -> list[ReadPage]:
    """The pages of the one slice of `items`, from a position that was saved."""
    stream = source.open(config)[0]
    slice = stream.checkpoint_reader(StreamState()).next()
    assert slice is not None
    return list(read_slice(stream, slice if start is None else replace(slice, start=start)))


def ids(read: list[ReadPage]) -> list[Any]:
    return [record["id"] for page in read for record in page.records]


def positions(read: list[ReadPage]) -> list[Checkpoint]:
    return [page.position for page in read if isinstance(page.position, Checkpoint)]


@example(echo="parameter", sent="parameter", key="000 0000")
@example(echo="parameter", sent="session", key="a secret of words")
@example(echo="beside", sent="header", key="X000000?")
@settings(max_examples=25, deadline=None)
@given(echo=st.sampled_from(ECHOES), sent=st.sampled_from(SENT), key=SECRETS)
def test_what_an_api_echoes_of_a_secret_is_in_no_state_and_is_sent_again(echo: str, sent: str, key: str) -> None:
    config = {"key": key, "sent": sent}
    for number, (source, _) in enumerate(sources(echo, sent, key)):
        whole = pages(source, config)

        assert ids(whole) == [1, 2, 3, 4]
        assert len(positions(whole)) == PAGES - 1
        for page, position in enumerate(positions(whole), 2):
            assert not Secrets([key, session(key, 1)]).holds(canonical(position.cursor))
            again, _ = list(sources(echo, sent, key))[number]
            assert ids(pages(again, config, position)) == list(range(page, PAGES + 1))


@pytest.mark.parametrize("sent", SENT)
def test_a_key_that_was_changed_is_sent_in_a_saved_token(sent: str) -> None:
    before = pages(manifest(Echo("path", "the-old-key"), sent), {"key": "the-old-key"})

    after = pages(manifest(Echo("path", "a-new-key"), sent), {"key": "a-new-key"}, positions(before)[0])

    assert ids(after) == [2, 3, 4]
