import re
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl

import orjson
import pytest

from cdk.base.errors import ConfigError, ManifestError
from cdk.base.values import Json
from cdk.state.slice import Slice
from cdk.state.stream_state import StreamState
from cdk.streams.read_slice import read_slice
from cdk.streams.stream import Stream
from cdk.testing import MockApi, ReadResult, read
from tests.compat.sources import URL, manifest, source


def planned(stream: Stream) -> list[Slice]:
    return list(iter(stream.checkpoint_reader(StreamState()).next, None))


def test_an_authenticator_exchanges_a_token_and_uses_it(tmp_path: Path) -> None:
    code = """
import base64
from dataclasses import dataclass
from airbyte_cdk.sources.declarative.auth import DeclarativeOauth2Authenticator

@dataclass
class BasicExchange(DeclarativeOauth2Authenticator):
    def get_refresh_request_headers(self):
        pair = f"{self.get_client_id()}:{self.get_client_secret()}"
        return {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}

    def build_refresh_request_body(self):
        return {"grant_type": self.get_grant_type()}
"""
    api = MockApi()
    token = api.post("/token").returns(json={"access_token": "secret-1", "expires_in": 3600})
    items = api.get("/items").returns(json={"data": [{"id": 1}]})
    signs = {
        "type": "CustomAuthenticator",
        "class_name": "source_x.components.BasicExchange",
        "client_id": "{{ config['id'] }}",
        "client_secret": "{{ config['secret'] }}",
        "token_refresh_endpoint": "https://api.example.com/token",
        "grant_type": "client_credentials",
    }
    written = manifest(
        requester={"authenticator": signs},
        partition_router={"type": "ListPartitionRouter", "cursor_field": "n", "values": ["1", "2"]},
    )

    run = read(source(tmp_path, code, written, api), config={"id": "me", "secret": "hush"})

    assert run.error is None
    assert len(token.requests) == 1
    assert parse_qs((token.requests[0].body or b"").decode()) == {"grant_type": ["client_credentials"]}
    assert token.requests[0].headers["Authorization"] == "Basic bWU6aHVzaA=="
    assert [asked.headers["Authorization"] for asked in items.requests] == ["Bearer secret-1"] * 2
    assert "secret-1" not in items.requests[0].hide("secret-1")


def test_an_authenticator_whose_header_has_the_credentials_sends_them_once(tmp_path: Path) -> None:
    code = """
import requests
from dataclasses import dataclass
from airbyte_cdk.sources.declarative.auth import DeclarativeOauth2Authenticator

@dataclass
class InHeader(DeclarativeOauth2Authenticator):
    def get_refresh_request_headers(self):
        return {"Authorization": "Basic abc"}
"""
    api = MockApi()
    token = api.post("/token").returns(json={"access_token": "secret-1", "expires_in": 3600})
    api.get("/items").returns(json={"data": [{"id": 1}]})
    signs = {
        "type": "CustomAuthenticator",
        "class_name": "source_x.components.InHeader",
        "client_id": "me",
        "client_secret": "hush",
        "token_refresh_endpoint": "https://api.example.com/token",
        "grant_type": "client_credentials",
    }

    run = read(source(tmp_path, code, manifest(requester={"authenticator": signs}), api))

    assert run.error is None
    assert token.requests[0].headers["Authorization"] == "Basic abc"
    assert parse_qs((token.requests[0].body or b"").decode()) == {"grant_type": ["client_credentials"]}


def test_an_authenticator_evaluates_its_settings_itself(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.auth import DeclarativeOauth2Authenticator

class Named(DeclarativeOauth2Authenticator):
    def get_auth_header(self):
        return {"X-Client": self._client_id.eval(self.config), "X-Token": self.get_access_token()}
"""
    api = MockApi()
    api.post("/token").returns(json={"access_token": "secret-1", "expires_in": 3600})
    items = api.get("/items").returns(json={"data": []})
    signs = {
        "type": "CustomAuthenticator",
        "class_name": "source_x.components.Named",
        "client_id": "{{ config['id'] }}",
        "client_secret": "hush",
        "token_refresh_endpoint": f"{URL}/token",
    }

    run = read(source(tmp_path, code, manifest(requester={"authenticator": signs}), api), config={"id": "me"})

    assert run.error is None
    assert (items.requests[0].headers["X-Client"], items.requests[0].headers["X-Token"]) == ("me", "secret-1")


def test_an_authenticator_builds_the_headers_of_its_exchange(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass
from airbyte_cdk.sources.declarative.auth import DeclarativeOauth2Authenticator

@dataclass
class Tagged(DeclarativeOauth2Authenticator):
    def build_refresh_request_headers(self):
        return {**(super().build_refresh_request_headers() or {}), "X-Tag": "mine"}
"""
    api = MockApi()
    token = api.post("/token").returns(json={"access_token": "secret-1", "expires_in": 3600})
    api.get("/items").returns(json={"data": [{"id": 1}]})
    signs = {
        "type": "CustomAuthenticator",
        "class_name": "source_x.components.Tagged",
        "token_refresh_endpoint": "https://api.example.com/token",
        "grant_type": "client_credentials",
    }

    for more in ({}, {"refresh_request_headers": {"X-Of-Manifest": "yes"}}):
        run = read(source(tmp_path, code, manifest(requester={"authenticator": {**signs, **more}}), api))
        assert run.error is None

    assert [request.headers["X-Tag"] for request in token.requests] == ["mine", "mine"]
    assert [request.headers.get("X-Of-Manifest") for request in token.requests] == [None, "yes"]


@pytest.mark.parametrize(
    ("into", "sent"),
    [
        ("header", ({"x-key": "hush"}, {}, b"")),
        ("request_parameter", ({}, {"x-key": "hush"}, b"")),
        ("body_data", ({"content-type": "application/x-www-form-urlencoded"}, {}, b"x-key=hush")),
        ("body_json", ({"content-type": "application/json"}, {}, b'{"x-key":"hush"}')),
    ],
)
def test_an_authenticator_puts_a_key_where_its_option_says(tmp_path: Path, into: str, sent: tuple[object, ...]) -> None:
    code = """
from airbyte_cdk.sources.declarative.auth.token import ApiKeyAuthenticator
from airbyte_cdk.sources.declarative.auth.token_provider import InterpolatedStringTokenProvider

class Key(ApiKeyAuthenticator):
    def __init__(self, request_option, config, parameters):
        template = "{{ config['key'] }}"
        provider = InterpolatedStringTokenProvider(config=config, api_token=template, parameters=parameters)
        super().__init__(request_option, provider, config, parameters)
"""
    api = MockApi()
    items = api.post("/items").returns(json={"data": [{"id": 1}]})
    signs = {
        "type": "CustomAuthenticator",
        "class_name": "components.Key",
        "request_option": {"type": "RequestOption", "inject_into": into, "field_name": "x-key"},
    }
    written = manifest(requester={"http_method": "POST", "authenticator": signs})

    run = read(source(tmp_path, code, written, api), config={"key": "hush"})

    assert run.error is None
    [asked] = items.requests
    headers = {name.lower(): value for name, value in asked.headers.items()}
    assert ({name: headers[name] for name in ("x-key", "content-type") if name in headers}) == sent[0]
    assert (dict(asked.params), asked.body or b"") == sent[1:]
    assert "hush" not in asked.hide("hush")


def test_an_authenticator_is_called_with_the_request(tmp_path: Path) -> None:
    code = """
from dataclasses import InitVar, dataclass
from typing import Any, Mapping
from airbyte_cdk.sources.declarative.auth.declarative_authenticator import NoAuth
from airbyte_cdk.sources.declarative.interpolation import InterpolatedString

@dataclass
class Signature(NoAuth):
    config: Mapping[str, Any]
    key: str

    def __post_init__(self, parameters):
        self._key = InterpolatedString.create(self.key, parameters=parameters).eval(self.config)

    def __call__(self, request):
        request.headers["X-Signature"] = f"{self._key}:{request.method}:{request.path_url}"
        return request
"""
    api = MockApi()
    items = api.get("/items").returns(json={"data": []})
    signs = {"class_name": "components.Signature", "key": "{{ config.key }}"}

    run = read(source(tmp_path, code, manifest(requester={"authenticator": signs}), api), config={"key": "k"})

    assert run.error is None
    assert items.requests[0].headers["X-Signature"] == "k:GET:/items"
    assert items.requests[0].is_secret("X-Signature")


def test_an_authenticator_holds_others_of_the_manifest(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass
from typing import Any, Mapping
from airbyte_cdk.sources.declarative.auth.declarative_authenticator import DeclarativeAuthenticator

@dataclass
class Either(DeclarativeAuthenticator):
    config: Mapping[str, Any]
    basic_auth: DeclarativeAuthenticator
    oauth: DeclarativeAuthenticator

    def __new__(cls, basic_auth, oauth, config, *args, **kwargs):
        return oauth if config["kind"] == "oauth" else basic_auth
"""
    api = MockApi()
    items = api.get("/items").returns(json={"data": []})
    signs = {
        "class_name": "components.Either",
        "basic_auth": {"type": "BasicHttpAuthenticator", "username": "u", "password": "p"},
        "oauth": {"type": "BearerAuthenticator", "api_token": "t"},
    }
    built = source(tmp_path, code, manifest(requester={"authenticator": signs}), api)

    runs = [read(built, config={"kind": kind}) for kind in ("oauth", "basic")]

    assert [run.error for run in runs] == [None, None]
    assert [asked.headers["Authorization"] for asked in items.requests] == ["Bearer t", "Basic dTpw"]


def test_a_strategy_finds_the_next_page(tmp_path: Path) -> None:
    code = """
from dataclasses import InitVar, dataclass
from typing import Any, Mapping, Optional
from airbyte_cdk.sources.declarative.requesters.paginators.strategies.page_increment import PageIncrement

@dataclass
class UntilTotal(PageIncrement):
    def next_page_token(self, response, last_page_size, last_record, last_page_token_value=None):
        assert last_page_size == 2 and last_record["id"] and response.headers["X-Any"] == "1"
        current = response.json()["page"]
        if current == response.json()["pages"]:
            return None
        return super().next_page_token(response, last_page_size, last_record, current)
"""
    api = MockApi()
    for page in (1, 2, 3):
        data = [{"id": f"{page}a"}, {"id": f"{page}b"}]
        body = {"data": data, "page": page, "pages": 3}
        api.get("/items", params={"page": page, "size": 2}).returns(json=body, headers={"X-Any": "1"})
    written = manifest(
        paginator={
            "type": "DefaultPaginator",
            "pagination_strategy": {
                "class_name": "components.UntilTotal",
                "page_size": 2,
                "start_from_page": 1,
                "inject_on_first_request": True,
            },
            "page_token_option": {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "page"},
            "page_size_option": {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "size"},
        }
    )

    run = read(source(tmp_path, code, written, api))

    assert run.error is None
    assert [record["id"] for record in run.records] == ["1a", "1b", "2a", "2b", "3a", "3b"]


@pytest.mark.parametrize(
    "takes", ["**given", "*_, stream_slice=None, last_page_size=0, **_other", "stream_slice, last_page_size"]
)
def test_a_strategy_gets_the_slice_and_whatever_else_it_takes(tmp_path: Path, takes: str) -> None:
    code = f"""
class Named:
    def next_page_token(self, response, {takes}):
        {"stream_slice, last_page_size = given['stream_slice'], given['last_page_size']" if takes == "**given" else ""}
        return stream_slice["shelf"] if last_page_size else None
"""
    option = {"type": "RequestOption", "field_name": "page", "inject_into": "request_parameter"}
    strategy = {"type": "CustomPaginationStrategy", "class_name": "components.Named"}
    written = manifest(
        paginator={"type": "DefaultPaginator", "pagination_strategy": strategy, "page_token_option": option},
        partition_router={"type": "ListPartitionRouter", "cursor_field": "shelf", "values": ["a"]},
    )
    api = MockApi()
    api.get("/items", {"page": "a"}).returns(json={"data": []})
    api.get("/items").returns(json={"data": [{"id": 1}]})

    run = read(source(tmp_path, code, written, api))

    assert (run.error, run.records) == (None, [{"id": 1}])


def test_a_strategy_that_counts_in_itself_counts_each_slice_for_itself(tmp_path: Path) -> None:
    code = """
class Counting:
    def __init__(self, **_):
        self.page = 0

    def reset(self):
        self.page = 0

    def next_page_token(self, response, last_records):
        self.page += 1
        return self.page if last_records else None
"""
    option = {"type": "RequestOption", "field_name": "page", "inject_into": "request_parameter"}
    strategy = {"type": "CustomPaginationStrategy", "class_name": "components.Counting"}
    shelf = {"type": "RequestOption", "field_name": "shelf", "inject_into": "request_parameter"}
    written = manifest(
        paginator={"type": "DefaultPaginator", "pagination_strategy": strategy, "page_token_option": option},
        partition_router={
            "type": "ListPartitionRouter",
            "cursor_field": "shelf",
            "values": ["a", "b"],
            "request_option": shelf,
        },
    )
    api = MockApi()
    for name in ("a", "b"):
        for page in range(4):
            asked = {"shelf": name, **({"page": page} if page else {})}
            api.get("/items", asked).returns(json={"data": [{"id": f"{name}{page}"}] if page < 3 else []})
    (stream,) = source(tmp_path, code, written, api).streams({})
    stream = stream.resuming_pages()
    slices = planned(stream)

    pages = [page for pair in zip(*(read_slice(stream, each) for each in slices), strict=True) for page in pair]

    assert [record["id"] for page in pages for record in page.records] == ["a0", "b0", "a1", "b1", "a2", "b2"]
    # What it has counted is in no state: a read that is interrupted begins the slice anew.
    assert {type(page.position).__name__ for page in pages} == {"NoneType", "Done"}


def test_a_strategy_that_begins_without_its_base_has_no_size(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.requesters.paginators.strategies.page_increment import PageIncrement

class UntilEmpty(PageIncrement):
    def __post_init__(self, parameters):
        self.first_page = 1

    def next_page_token(self, response, last_page_size, last_record, last_page_token_value=None):
        return (last_page_token_value or self.first_page) + 1 if last_page_size else None
"""
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}]})
    api.get("/items", params={"page": 2}).returns(json={"data": []})
    strategy = {"class_name": "components.UntilEmpty", "page_size": 20}
    token = {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "page"}
    paginator = {"type": "DefaultPaginator", "pagination_strategy": strategy, "page_token_option": token}

    run = read(source(tmp_path, code, manifest(paginator=paginator), api))

    assert run.error is None
    assert run.records == [{"id": 1}]


@pytest.mark.parametrize(
    ("finds", "stop"),
    [
        ("super().next_page_token(response, last_page_size, last_record)", "{{ not headers['Link']['next'] }}"),
        ("self._cursor_value.eval(self.config, response=next(self.decoder.decode(response))) or None", None),
    ],
)
def test_a_strategy_extends_the_cursors_of_the_language(tmp_path: Path, finds: str, stop: Json) -> None:
    code = f"""
from airbyte_cdk.sources.declarative.requesters.paginators.strategies.cursor_pagination_strategy import (
    CursorPaginationStrategy,
)

class UntilRepeated(CursorPaginationStrategy):
    def next_page_token(self, response, last_page_size, last_record, last_page_token_value=None):
        token = {finds}
        return None if token == last_page_token_value else token
"""
    api = MockApi()
    api.get("/items", params={"at": "b"}).returns(json={"data": [{"id": 2}], "scroll": "b"})
    next_link = f'<{URL}/items?at=b>; rel="next"'
    api.get("/items").returns(json={"data": [{"id": 1}], "scroll": "b"}, headers={"Link": next_link})
    strategy = {
        "class_name": "components.UntilRepeated",
        "cursor_value": "{{ response['scroll'] }}",
        **({} if stop is None else {"stop_condition": stop}),
    }
    token = {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "at"}
    paginator = {"type": "DefaultPaginator", "pagination_strategy": strategy, "page_token_option": token}

    run = read(source(tmp_path, code, manifest(paginator=paginator), api))

    assert run.error is None
    assert run.records == [{"id": 1}, {"id": 2}]


def test_a_handler_judges_some_answers_and_leaves_the_others_to_the_language(tmp_path: Path) -> None:
    code = """
import requests
from airbyte_cdk.models import FailureType
from airbyte_cdk.sources.declarative.requesters.error_handlers import DefaultErrorHandler
from airbyte_cdk.sources.streams.http.error_handlers.response_models import ErrorResolution, ResponseAction

class Patient(DefaultErrorHandler):
    def interpret_response(self, response_or_exception):
        if isinstance(response_or_exception, requests.Response) and response_or_exception.status_code == 200:
            if response_or_exception.json().get("state") == "busy":
                return ErrorResolution(ResponseAction.RETRY, FailureType.transient_error, "busy")
            if response_or_exception.json().get("state") == "closed":
                return ErrorResolution(ResponseAction.FAIL, FailureType.config_error, "the account is closed")
        return super().interpret_response(response_or_exception)
"""
    api = MockApi()
    items = api.get("/items").returns(json={"state": "busy"}).returns(status=503).returns(json={"data": [{"id": 1}]})
    items.returns(status=418).returns(json={"state": "closed"})
    judge = {
        "class_name": "components.Patient",
        "response_filters": [{"type": "HttpResponseFilter", "http_codes": [418], "action": "IGNORE"}],
        "backoff_strategies": [{"type": "ConstantBackoffStrategy", "backoff_time_in_seconds": 7}],
    }
    built = source(tmp_path, code, manifest(requester={"error_handler": judge}), api)

    first, second, third = read(built), read(built), read(built)

    assert (first.error, first.records, len(items.requests) - 2) == (None, [{"id": 1}], 3)
    assert any("waiting 8.0 s" in line for line in first.logs)
    assert (second.error, second.records) == (None, [])
    assert isinstance(third.error, ConfigError)
    assert "the account is closed" in str(third.error)


def test_a_handler_asks_for_the_first_page_again(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.streams.http.error_handlers import HttpStatusErrorHandler
from airbyte_cdk.sources.streams.http.error_handlers.response_models import ErrorResolution, ResponseAction

class Resetting(HttpStatusErrorHandler):
    def __init__(self, config, parameters, **_):
        super().__init__(None, {400: ErrorResolution(ResponseAction.RESET_PAGINATION, None, "the pages have expired")})
"""
    api = MockApi()
    items = api.get("/items").returns(status=410).returns(json={"data": [{"id": 1}], "next": "b"}).returns(status=400)
    items.returns(json={"data": [{"id": 1}], "next": "b"}).returns(json={"data": [{"id": 2}]})
    strategy = {
        "type": "CursorPagination",
        "cursor_value": "{{ response.next }}",
        "stop_condition": "{{ not response.next }}",
    }
    option = {"type": "RequestOption", "field_name": "page", "inject_into": "request_parameter"}
    paginator = {"type": "DefaultPaginator", "pagination_strategy": strategy, "page_token_option": option}
    judge = {"class_name": "components.Resetting"}

    run = read(source(tmp_path, code, manifest(requester={"error_handler": judge}, paginator=paginator), api))

    assert (run.error, run.records) == (None, [{"id": 1}, {"id": 1}, {"id": 2}])
    assert any("the pages have expired" in line for line in run.logs)


def test_a_filter_of_code_judges_as_one_of_a_manifest(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.requesters.error_handlers import DefaultErrorHandler
from airbyte_cdk.sources.declarative.requesters.error_handlers.http_response_filter import HttpResponseFilter

class Own(DefaultErrorHandler):
    def interpret_response(self, response_or_exception):
        about = HttpResponseFilter(
            config=self.config, parameters={}, action="IGNORE", error_message_contains="not in your plan")
        return about.matches(response_or_exception) or super().interpret_response(response_or_exception)
"""
    api = MockApi()
    # What a record says is no message of the API's; 422 is a status that the language tries again.
    items = api.get("/items").returns(status=422).returns(json={"data": [{"id": 1, "name": "not in your plan"}]})
    items.returns(status=403, json={"message": "this is not in your plan"})
    built = source(tmp_path, code, manifest(requester={"error_handler": {"class_name": "components.Own"}}), api)

    first, second = read(built), read(built)

    assert (first.error, [record["id"] for record in first.records]) == (None, [1])
    assert (second.error, second.records) == (None, [])


CHANGED = """
import requests
from airbyte_cdk.models import FailureType
from airbyte_cdk.sources.declarative.requesters.error_handlers import DefaultErrorHandler
from airbyte_cdk.sources.declarative.requesters.error_handlers.http_response_filter import HttpResponseFilter
from airbyte_cdk.sources.streams.http.error_handlers.response_models import ErrorResolution, ResponseAction

class InPlace(DefaultErrorHandler):
    def interpret_response(self, response_or_exception):
        resolution = super().interpret_response(response_or_exception)
        if resolution.failure_type == FailureType.transient_error:
            resolution.response_action = ResponseAction.IGNORE
        return resolution

class Anew(DefaultErrorHandler):
    def interpret_response(self, response_or_exception):
        base = super().interpret_response(response_or_exception)
        action = ResponseAction.IGNORE if "503" in str(base.error_message) else base.response_action
        return ErrorResolution(action, base.failure_type, base.error_message)

class Filtering(DefaultErrorHandler):
    def __post_init__(self, parameters):
        super().__post_init__(parameters)
        own = HttpResponseFilter(action="IGNORE", http_codes={503}, config=self.config, parameters=parameters)
        self.response_filters = [own, *(self.response_filters or [])]
"""


@pytest.mark.parametrize("name", ["InPlace", "Anew", "Filtering"])
def test_a_handler_changes_what_its_base_has_judged(name: str, tmp_path: Path) -> None:
    api = MockApi()
    api.get("/items").returns(status=503).returns(json={"data": [{"id": 1}]})
    judge = {"type": "CustomErrorHandler", "class_name": f"components.{name}"}
    built = source(tmp_path, CHANGED, manifest(requester={"error_handler": judge}), api)

    first, second = read(built), read(built)

    assert (first.error, first.records) == (None, [])
    assert (second.error, second.records) == (None, [{"id": 1}])


def test_a_handler_that_tries_less_often_is_asked_less_often(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.requesters.error_handlers import DefaultErrorHandler

class Once(DefaultErrorHandler):
    def __post_init__(self, parameters):
        super().__post_init__(parameters)
        self.max_retries = 1
"""
    api = MockApi()
    items = api.get("/items").returns(status=503)
    judge = {"type": "CustomErrorHandler", "class_name": "components.Once"}

    run = read(source(tmp_path, code, manifest(requester={"error_handler": judge}), api))

    assert (len(items.requests), type(run.error).__name__) == (2, "ServerError")


def test_a_handler_begins_with_the_table_of_statuses(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.streams.http.error_handlers import HttpStatusErrorHandler
from airbyte_cdk.sources.streams.http.error_handlers.default_error_mapping import DEFAULT_ERROR_MAPPING

class Limited(HttpStatusErrorHandler):
    def __init__(self, config):
        super().__init__(None, {**DEFAULT_ERROR_MAPPING, 403: DEFAULT_ERROR_MAPPING[429]}, max_retries=1)
"""
    api = MockApi()
    api.get("/items").returns(status=403).returns(json={"data": [{"id": 1}]}).returns(status=404)
    judge = {"type": "CustomErrorHandler", "class_name": "components.Limited"}
    built = source(tmp_path, code, manifest(requester={"error_handler": judge}), api)

    first, second = read(built), read(built)

    assert (first.error, first.records) == (None, [{"id": 1}])
    assert type(second.error).__name__ == "NotFound"


def test_a_backoff_strategy_is_called_by_name_where_it_takes_names_alone(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.streams.http.error_handlers import BackoffStrategy

class Named(BackoffStrategy):
    def backoff_time(self, *, response_or_exception, attempt_count):
        return attempt_count + 40
"""
    api = MockApi()
    api.get("/items").returns(status=429).returns(json={"data": []})
    waits = [{"type": "CustomBackoffStrategy", "class_name": "components.Named"}]
    judge = {"type": "DefaultErrorHandler", "backoff_strategies": waits}

    run = read(source(tmp_path, code, manifest(requester={"error_handler": judge}), api))

    assert run.error is None
    assert any("waiting 42.0 s" in line for line in run.logs)


PARTS = """
from airbyte_cdk.sources.declarative.auth.token import BearerAuthenticator
from airbyte_cdk.sources.declarative.auth.token_provider import InterpolatedStringTokenProvider
from airbyte_cdk.sources.declarative.requesters.http_requester import HttpRequester
from airbyte_cdk.sources.streams.http.error_handlers import HttpStatusErrorHandler
from airbyte_cdk.sources.streams.http.error_handlers.response_models import ErrorResolution, ResponseAction

def bearer(requester, parameters):
    token = InterpolatedStringTokenProvider(api_token="own", config=requester.config, parameters=parameters)
    return BearerAuthenticator(token_provider=token, config=requester.config, parameters=parameters)

class Flat(HttpRequester):
    def _request_params(self, stream_state, stream_slice, next_page_token, extra_params=None):
        extra_params.update(extra_params.pop("page", {}))
        return super()._request_params(stream_state, stream_slice, None, extra_params)

class Versioned(HttpRequester):
    def _join_url(cls, url_base, path=None):
        return f"{url_base}/v2/{path}"

    _join_url = classmethod(_join_url)

    def _get_url(self, *, path=None, **names):
        return super()._get_url(path=path, **names) + "/all"

class Written(HttpRequester):
    def _request_headers(self, stream_state, stream_slice, next_page_token, extra_headers=None):
        return {**super()._request_headers(stream_state, stream_slice, next_page_token, extra_headers), "X-Own": "1"}

    def _request_body_json(self, stream_state, stream_slice, next_page_token, extra_body_json=None):
        return {**super()._request_body_json(stream_state, stream_slice, next_page_token, extra_body_json), "own": 1}

class Signed(HttpRequester):
    def __post_init__(self, parameters):
        self.authenticator = bearer(self, parameters)
        super().__post_init__(parameters)

class SignedByMethod(HttpRequester):
    def get_authenticator(self):
        return bearer(self, {})

class Lenient(HttpRequester):
    def __post_init__(self, parameters):
        self.error_handler = HttpStatusErrorHandler(None, {418: ErrorResolution(ResponseAction.IGNORE)})
        super().__post_init__(parameters)
"""


def asked(tmp_path: Path, name: str, api: MockApi, **retriever: Json) -> ReadResult:
    requester = {"type": "CustomRequester", "class_name": f"components.{name}"}
    return read(source(tmp_path, PARTS, manifest(requester=requester, **retriever), api))


def test_a_requester_changes_parameters_that_pages_put_into_a_request(tmp_path: Path) -> None:
    option = {"type": "RequestOption", "field_name": "page", "inject_into": "request_parameter"}
    strategy = {
        "type": "CursorPagination",
        "cursor_value": "{{ {'session': response.session, 'number': 2} }}",
        "stop_condition": "{{ not response.session }}",
    }
    paginator = {"type": "DefaultPaginator", "pagination_strategy": strategy, "page_token_option": option}
    api = MockApi()
    api.get("/items", {"session": "s1", "number": 2}).returns(json={"data": [{"id": 2}]})
    api.get("/items").returns(json={"data": [{"id": 1}], "session": "s1"})

    run = asked(tmp_path, "Flat", api, paginator=paginator)

    assert (run.error, run.records) == (None, [{"id": 1}, {"id": 2}])


def test_a_requester_changes_where_and_what_is_sent(tmp_path: Path) -> None:
    api = MockApi()
    api.get("/v2/items/all").returns(json={"data": [{"id": 1}]})
    written = api.post("/items").returns(json={"data": [{"id": 2}]})

    assert asked(tmp_path, "Versioned", api).records == [{"id": 1}]
    run = read(
        source(
            tmp_path,
            PARTS,
            manifest(requester={"type": "CustomRequester", "class_name": "components.Written", "http_method": "POST"}),
            api,
        )
    )

    assert run.records == [{"id": 2}]
    assert written.requests[0].headers["X-Own"] == "1"
    assert orjson.loads(written.requests[0].body or b"") == {"own": 1}


@pytest.mark.parametrize("name", ["Signed", "SignedByMethod"])
def test_a_requester_signs_with_an_authenticator_of_its_own(name: str, tmp_path: Path) -> None:
    api = MockApi()
    items = api.get("/items").returns(json={"data": [{"id": 1}]})

    run = asked(tmp_path, name, api)

    assert (run.error, run.records) == (None, [{"id": 1}])
    assert items.requests[0].headers["Authorization"] == "Bearer own"


def test_a_requester_has_an_error_handler_of_its_own(tmp_path: Path) -> None:
    api = MockApi()
    api.get("/items").returns(status=418)

    run = asked(tmp_path, "Lenient", api)

    assert (run.error, run.records) == (None, [])


def test_code_catches_an_error_of_a_request_by_its_failure_type(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass
from airbyte_cdk.sources.declarative.requesters.http_requester import HttpRequester
from airbyte_cdk.sources.declarative.transformations import RecordTransformation
from airbyte_cdk.utils.traced_exception import AirbyteTracedException, FailureType

@dataclass
class Looks(RecordTransformation):
    requester: HttpRequester = None

    def transform(self, record, config=None, stream_state=None, stream_slice=None):
        try:
            self.requester.send_request()
        except AirbyteTracedException as error:
            if error.failure_type != FailureType.config_error:
                raise AirbyteTracedException.from_exception(error)
            record["seen"] = "forbidden"
"""
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}]})
    api.get("/more").returns(status=403).returns(status=404)
    requester = {"type": "HttpRequester", "url_base": URL, "path": "/more"}
    looks = {"type": "CustomTransformation", "class_name": "components.Looks", "requester": requester}
    built = source(tmp_path, code, manifest({"transformations": [looks]}), api)

    first, second = read(built), read(built)

    assert (first.error, first.records) == (None, [{"id": 1, "seen": "forbidden"}])
    assert (second.records, second.error and second.error.failure_type) == ([], "system_error")


def test_a_handler_leaves_what_it_does_not_know_to_the_default_filter(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.requesters.error_handlers import DefaultErrorHandler
from airbyte_cdk.sources.declarative.requesters.error_handlers.default_http_response_filter import (
    DefaultHttpResponseFilter,
)
from airbyte_cdk.sources.streams.http.error_handlers.response_models import (
    SUCCESS_RESOLUTION,
    create_fallback_error_resolution,
)

class Known(DefaultErrorHandler):
    def interpret_response(self, response_or_exception):
        if response_or_exception.status_code == 418:
            return SUCCESS_RESOLUTION
        usual = DefaultHttpResponseFilter(parameters={}, config=self.config)
        return usual.matches(response_or_exception) or create_fallback_error_resolution(response_or_exception)
"""
    api = MockApi()
    items = api.get("/items").returns(status=503).returns(status=418).returns(status=404)
    judge = {"type": "CustomErrorHandler", "class_name": "components.Known"}
    built = source(tmp_path, code, manifest(requester={"error_handler": judge}), api)

    first, second = read(built), read(built)

    assert (first.error, len(items.requests)) == (None, 3)
    assert second.error is not None
    assert "404" in second.error.message


def test_a_backoff_strategy_reads_the_wait_from_the_body(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.streams.http.error_handlers import BackoffStrategy

class FromBody(BackoffStrategy):
    def backoff_time(self, response_or_exception, attempt_count):
        return response_or_exception.json()["wait"] + attempt_count
"""
    api = MockApi()
    api.get("/items").returns(status=429, json={"wait": 40}).returns(json={"data": []})
    judge = {
        "type": "DefaultErrorHandler",
        "backoff_strategies": [{"type": "CustomBackoffStrategy", "class_name": "components.FromBody"}],
    }

    run = read(source(tmp_path, code, manifest(requester={"error_handler": judge}), api))

    assert run.error is None
    assert any("waiting 42.0 s" in line for line in run.logs)


def test_a_requester_says_its_parameters_headers_and_body_itself(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass
from typing import Any, Mapping, Optional
from airbyte_cdk.sources.declarative.requesters.http_requester import HttpRequester
from airbyte_cdk.sources.declarative.schema.inline_schema_loader import InlineSchemaLoader

@dataclass
class Query(HttpRequester):
    schema_loader: InlineSchemaLoader = None

    def get_request_params(self, *, stream_state=None, stream_slice=None, next_page_token=None):
        params = super().get_request_params(stream_slice=stream_slice, next_page_token=next_page_token)
        return {**params, "region": stream_slice["region"]}

    def get_request_headers(self, **kwargs):
        return {"X-Name": self.name}

    def get_request_body_json(self, *, stream_state=None, stream_slice=None, next_page_token=None):
        page = next_page_token and next_page_token["next_page_token"]
        return {"fields": list(self.schema_loader.get_json_schema()["properties"]), "page": page}
"""
    api = MockApi()
    query = api.post("/query").returns(json={"data": [{"id": 1}], "next": 2}).returns(json={"data": [{"id": 2}]})
    asks = {
        "type": "CustomRequester",
        "class_name": "source_x.components.Query",
        "url_base": "https://api.example.com/",
        "path": "query",
        "http_method": "POST",
        "authenticator": {"type": "BearerAuthenticator", "api_token": "t"},
        "schema_loader": {"type": "InlineSchemaLoader", "schema": {"properties": {"id": {}, "name": {}}}},
    }
    written = manifest(
        requester=asks,
        partition_router={"type": "ListPartitionRouter", "cursor_field": "region", "values": ["eu"]},
        paginator={
            "type": "DefaultPaginator",
            "pagination_strategy": {"type": "CursorPagination", "cursor_value": "{{ response.next }}"},
        },
    )

    run = read(source(tmp_path, code, written, api))

    assert run.error is None
    assert run.records == [{"id": 1}, {"id": 2}]
    assert [orjson.loads(asked.body or b"")["page"] for asked in query.requests] == [None, 2]
    assert orjson.loads(query.requests[0].body or b"")["fields"] == ["id", "name"]
    assert tuple(query.requests[0].headers[name] for name in ("X-Name", "Authorization")) == ("items", "Bearer t")
    assert "region=eu" in query.requests[0].full_url


def test_a_requester_sends_itself(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass
from airbyte_cdk.sources.declarative.requesters import HttpRequester

@dataclass
class Twice(HttpRequester):
    request_parameters: dict = None

    def get_request_params(self, **kwargs):
        return dict(self.request_parameters)

    def send_request(self, **kwargs):
        first = super().send_request(**kwargs)
        self._http_client.send_request("post", self._get_url(path="/jobs"), exit_on_rate_limit=self._exit_on_rate_limit)
        return super().send_request(**{**kwargs, "path": first.json()["moved"]})
"""
    api = MockApi()
    api.get("/items", params={"a": "1", "page": 1}).returns(json={"moved": "/other"})
    jobs = api.post("/jobs").returns(json={})
    other = api.get("/other", params={"a": "1", "page": 1}).returns(json={"data": [{"id": 1}]})
    asks = {"type": "CustomRequester", "class_name": "components.Twice", "request_parameters": {"a": "1"}}
    written = manifest(
        requester=asks,
        paginator={
            "type": "DefaultPaginator",
            "pagination_strategy": {
                "type": "PageIncrement",
                "start_from_page": 1,
                "page_size": 5,
                "inject_on_first_request": True,
            },
            "page_token_option": {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "page"},
        },
    )

    run = read(source(tmp_path, code, written, api))

    assert run.error is None
    assert run.records == [{"id": 1}]
    assert (len(jobs.requests), len(other.requests)) == (1, 1)


def test_a_requester_with_a_client_of_its_own_changes_how_requests_are_written(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass
from urllib.parse import urlencode
import requests
from airbyte_cdk.sources.declarative.requesters import HttpRequester
from airbyte_cdk.sources.declarative.requesters.request_options.interpolated_request_options_provider import (
    InterpolatedRequestOptionsProvider, RequestInput)
from airbyte_cdk.sources.streams.http import HttpClient

class Safe(HttpClient):
    def _create_prepared_request(
        self, http_method, url, dedupe_query_params=False, headers=None, params=None, json=None, data=None
    ):
        params = self._dedupe_query_params(url, params) if dedupe_query_params else params or {}
        query = urlencode(params, safe="():,")
        asked = requests.Request(method=http_method, url=url, headers=headers, params=query)
        return self._session.prepare_request(asked)

@dataclass
class SafeRequester(HttpRequester):
    request_parameters: RequestInput = None

    def __post_init__(self, parameters):
        self.request_options_provider = InterpolatedRequestOptionsProvider(
            request_parameters=self.request_parameters, config=self.config, parameters=parameters)
        super().__post_init__(parameters)
        self._http_client = Safe(name=self.name, logger=self.logger, error_handler=self.error_handler,
            authenticator=self._authenticator, use_cache=self.use_cache, disable_retries=self.disable_retries,
            message_repository=self.message_repository)
"""
    api = MockApi()
    items = api.get("/items").returns(json={"data": [{"id": 1}]})
    asks = {
        "type": "CustomRequester",
        "class_name": "components.SafeRequester",
        "request_parameters": {"q": "(name:List(a,{{ config.b }}))"},
        "authenticator": {"type": "BearerAuthenticator", "api_token": "t"},
    }

    run = read(source(tmp_path, code, manifest(requester=asks), api), config={"b": "x"})

    assert run.error is None
    assert run.records == [{"id": 1}]
    assert items.requests[0].full_url.endswith("/items?q=(name:List(a,x))")
    assert items.requests[0].headers["Authorization"] == "Bearer t"


def test_sources_in_one_process_send_with_their_own_transports(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.transformations import RecordTransformation
from airbyte_cdk.sources.streams.http import HttpClient

class Owner(RecordTransformation):
    def transform(self, record, config=None, stream_state=None, stream_slice=None):
        record["owner"] = HttpClient().send_request("GET", "https://api.example.com/owner", {})[1].json()["owner"]
"""
    asks = {"transformations": [{"type": "CustomTransformation", "class_name": "components.Owner"}]}
    sources = []
    for name in ("a", "b"):
        api = MockApi()
        api.get("/items").returns(json={"data": [{"id": 1}]})
        api.get("/owner").returns(json={"owner": name})
        (tmp_path / name).mkdir()
        sources.append(source(tmp_path / name, code, manifest(asks), api))

    # Both are built before the first of them reads.
    streams = [stream for made in sources for stream in made.open({})]
    records = [
        record
        for stream in streams
        for slice in planned(stream)
        for page in read_slice(stream, slice)
        for record in page.records
    ]

    assert records == [{"id": 1, "owner": "a"}, {"id": 1, "owner": "b"}]


SINGLE_USE = """
from airbyte_cdk.sources.declarative.auth.oauth import DeclarativeSingleUseRefreshTokenOauth2Authenticator

class Single(DeclarativeSingleUseRefreshTokenOauth2Authenticator):
    connector_config: dict
    token_refresh_endpoint: str

    def __init__(self, config, token_refresh_endpoint, parameters=None):
        super().__init__(config, token_refresh_endpoint, refresh_token_config_path=["tokens", "next"])
"""


def test_a_refresh_token_that_serves_once_is_saved_when_it_was_exchanged(tmp_path: Path) -> None:
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}]})
    tokens = api.post("/token").returns(json={"access_token": "a1", "expires_in": 3600, "refresh_token": "r2"})
    signer = {
        "type": "CustomAuthenticator",
        "class_name": "components.Single",
        "token_refresh_endpoint": f"{URL}/token",
    }
    config = {"credentials": {"client_id": "i", "client_secret": "s"}, "tokens": {"next": "r1"}}
    made = source(tmp_path, SINGLE_USE, manifest(requester={"authenticator": signer}), api)

    run = read(made, config=config)

    assert run.error is None
    (asked,) = tokens.requests
    assert dict(parse_qsl((asked.body or b"").decode())) == {
        "grant_type": "refresh_token",
        "client_id": "i",
        "client_secret": "s",
        "refresh_token": "r1",
    }
    assert run.config is not None
    saved = {**run.config, "credentials": dict(run.config["credentials"])}
    expires = saved["credentials"].pop("token_expiry_date")
    assert expires > "2024"
    assert saved == {
        "credentials": {"client_id": "i", "client_secret": "s", "access_token": "a1"},
        "tokens": {"next": "r2"},
    }


def test_an_authenticator_adds_a_header_and_nothing_else(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.auth.declarative_authenticator import NoAuth
from airbyte_cdk.sources.streams.http.requests_native_auth.abstract_token import AbstractHeaderAuthenticator

class Key(AbstractHeaderAuthenticator):
    auth_header = "X-Key"

    def __init__(self, config):
        assert isinstance(NoAuth(parameters={}), AbstractHeaderAuthenticator)
        self._config = config

    @property
    def token(self):
        return self._config["key"]
"""
    api = MockApi()
    items = api.get("/items").returns(json={"data": [{"id": 1}]})
    key = {"type": "CustomAuthenticator", "class_name": "components.Key"}

    run = read(source(tmp_path, code, manifest(requester={"authenticator": key}), api), config={"key": "k"})

    assert run.error is None
    assert [request.headers["X-Key"] for request in items.requests] == ["k"]


@pytest.mark.parametrize(
    ("limits", "refused"),
    [
        ("UnlimitedCallRatePolicy(matchers=[])", None),
        ("MovingWindowCallRatePolicy(rates=[Rate(5, timedelta(seconds=1))], matchers=[])", None),
        ("Session(api_budget=APIBudget([]))", "Session"),
    ],
)
def test_limits_of_custom_code_are_refused(tmp_path: Path, limits: str, refused: str | None) -> None:
    code = f"""
from datetime import timedelta
import requests
from airbyte_cdk.sources.declarative.transformations import RecordTransformation
from airbyte_cdk.sources.streams.call_rate import (
    APIBudget, LimiterMixin, MovingWindowCallRatePolicy, Rate, UnlimitedCallRatePolicy,
)

class Session(LimiterMixin, requests.Session):
    pass

class Limited(RecordTransformation):
    def __init__(self):
        self.limits = {limits}

    def transform(self, record, **kwargs):
        record["seen"] = True
"""
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}]})
    written = manifest({"transformations": [{"type": "CustomTransformation", "class_name": "components.Limited"}]})

    run = read(source(tmp_path, code, written, api))

    if refused is None:
        assert (run.error, run.records) == (None, [{"id": 1, "seen": True}])
    else:
        assert isinstance(run.error, ManifestError)
        assert f"creates its own {refused}; declare its limits as `api_budget`" in str(run.error)


def test_a_client_that_custom_code_makes_waits_as_its_backoff_strategy_says(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.transformations import RecordTransformation
from airbyte_cdk.sources.streams.http import HttpClient
from airbyte_cdk.sources.streams.http.error_handlers import BackoffStrategy

class Slowly(BackoffStrategy):
    def backoff_time(self, response_or_exception, attempt_count):
        return 40.0 + attempt_count

class Owner(RecordTransformation):
    def transform(self, record, config=None, stream_state=None, stream_slice=None):
        client = HttpClient(backoff_strategy=Slowly())
        record["owner"] = client.send_request("GET", "https://api.example.com/owner", {})[1].json()["owner"]
"""
    api, waits = MockApi(), list[float]()
    api.get("/items").returns(json={"data": [{"id": 1}]})
    api.get("/owner").returns(status=503).returns(status=503).returns(json={"owner": "me"})
    change = {"transformations": [{"type": "CustomTransformation", "class_name": "components.Owner"}]}

    run = read(source(tmp_path, code, manifest(change), api, waits=waits))

    assert run.error is None
    assert run.records == [{"id": 1, "owner": "me"}]
    assert waits == [42, 43]  # a second more than the strategy says, see `RetryPolicy`


JOINS = """
from airbyte_cdk.sources.declarative.transformations import RecordTransformation
from airbyte_cdk.sources.streams.http import HttpStream
from airbyte_cdk.sources.streams.http.requests_native_auth import TokenAuthenticator

class Join(HttpStream):
    url_base = "https://api.example.com/v1/"
    http_method = "POST"
    primary_key = "id"

    def __init__(self, channels=None, **kwargs):
        self.channels = channels or []
        super().__init__(**kwargs)

    def path(self, **kwargs):
        return "join"

    def request_params(self, next_page_token=None, **kwargs):
        return next_page_token or {}

    def request_body_json(self, stream_slice=None, **kwargs):
        return {"channel": stream_slice["channel"]}

    def parse_response(self, response, stream_slice=None, **kwargs):
        self.logger.info("joined %s", stream_slice["channel"])
        return response.json()["members"]

    def next_page_token(self, response):
        return response.json().get("next")

class Joining(RecordTransformation):
    def transform(self, record, config=None, stream_state=None, stream_slice=None):
        stream = Join(authenticator=TokenAuthenticator("t"), channels=["a"])
        slice = {"channel": record["id"]}
        record["members"] = list(stream.read_records(sync_mode="full_refresh", stream_slice=slice))
"""


def test_custom_code_reads_a_stream_that_it_writes_in_python(tmp_path: Path) -> None:
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}]})
    joins = api.post("/v1/join").returns(status=503).returns(json={"members": ["x"], "next": {"page": 2}})
    joins.returns(json={"members": ["y"]})
    asks = {"transformations": [{"type": "CustomTransformation", "class_name": "components.Joining"}]}

    run = read(source(tmp_path, JOINS, manifest(asks), api))

    assert (run.error, run.records) == (None, [{"id": 1, "members": ["x", "y"]}])
    assert [orjson.loads(request.body or b"") for request in joins.requests] == [{"channel": 1}] * 3
    assert [request.headers["Authorization"] for request in joins.requests] == ["Bearer t"] * 3
    assert joins.requests[2].full_url.endswith("/v1/join?page=2")


def test_a_stream_written_in_python_that_is_refused_ends_the_stream_that_reads_it(tmp_path: Path) -> None:
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}]})
    api.post("/v1/join").returns(status=403)
    asks = {"transformations": [{"type": "CustomTransformation", "class_name": "components.Joining"}]}

    run = read(source(tmp_path, JOINS, manifest(asks), api))

    assert "POST https://api.example.com/v1/join answered 403" in str(run.error)


@pytest.mark.parametrize(("before", "circle"), [(0, 1), (0, 2), (1, 3), (4, 5)])
def test_a_stream_written_in_python_whose_page_tokens_go_in_a_circle_is_an_error(
    tmp_path: Path, before: int, circle: int
) -> None:
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}]})
    joins = api.post("/v1/join")
    pages = [*range(before), *[before + n for n in range(circle)] * 4]
    for page in pages:
        joins.returns(json={"members": ["x"], "next": {"page": page}})
    joins.returns(json={"members": []})
    asks = {"transformations": [{"type": "CustomTransformation", "class_name": "components.Joining"}]}

    run = read(source(tmp_path, JOINS, manifest(asks), api))

    assert re.search("next_page_token returned {'page': .* again", str(run.error))
    assert before + circle < len(joins.requests) <= len(pages)


def test_a_stream_written_in_python_has_page_tokens_that_json_cannot_hold(tmp_path: Path) -> None:
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}]})
    api.post("/v1/join").returns(json={"members": ["x"], "next": 2}).returns(json={"members": ["y"]})
    asks = {"transformations": [{"type": "CustomTransformation", "class_name": "components.Joining"}]}
    code = JOINS.replace('response.json().get("next")', '{"page": {2}} if "next" in response.json() else None')

    run = read(source(tmp_path, code, manifest(asks), api))

    assert (run.error, run.records) == (None, [{"id": 1, "members": ["x", "y"]}])


def test_a_handler_of_code_asks_the_filters_of_the_manifest(tmp_path: Path) -> None:
    code = """
import requests
from airbyte_cdk.sources.declarative.requesters.error_handlers import DefaultErrorHandler
from airbyte_cdk.sources.streams.http.error_handlers.response_models import SUCCESS_RESOLUTION

class Asking(DefaultErrorHandler):
    def interpret_response(self, response_or_exception):
        for each in self.response_filters:
            if matched := each.matches(response_or_exception=response_or_exception):
                return matched
        return SUCCESS_RESOLUTION
"""
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}]}).returns(json={"data": [], "error": "the key is invalid"})
    filters = [
        {"type": "HttpResponseFilter", "action": "FAIL"},
        {
            "type": "HttpResponseFilter",
            "action": "FAIL",
            "error_message_contains": "invalid",
            "error_message": "no key",
        },
    ]
    judge = {"class_name": "components.Asking", "response_filters": filters}
    built = source(tmp_path, code, manifest(requester={"error_handler": judge}), api)

    first, second = read(built), read(built)

    assert (first.error, first.records) == (None, [{"id": 1}])
    assert "no key" in str(second.error)
