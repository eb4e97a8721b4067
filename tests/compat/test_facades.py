"""Components of a manifest that a custom component has as a field, and calls itself."""

from pathlib import Path

import pytest

from cdk.base.values import Json
from cdk.testing import MockApi, read
from tests.compat.sources import URL, manifest, source

ITEMS = [{"id": 1}, {"id": 2}]

INNER = """
from dataclasses import dataclass
from typing import Any
from airbyte_cdk.sources.declarative.auth.declarative_authenticator import DeclarativeAuthenticator
from airbyte_cdk.sources.declarative.decoders import Decoder
from airbyte_cdk.sources.declarative.extractors.record_extractor import RecordExtractor
from airbyte_cdk.sources.declarative.extractors.record_filter import RecordFilter
from airbyte_cdk.sources.declarative.partition_routers.partition_router import PartitionRouter
from airbyte_cdk.sources.declarative.requesters.paginators.strategies.pagination_strategy import PaginationStrategy
from airbyte_cdk.sources.declarative.transformations import RecordTransformation
from airbyte_cdk.sources.streams.http.error_handlers import BackoffStrategy, ErrorHandler

@dataclass
class Authenticator(DeclarativeAuthenticator):
    authenticator: Any

    def get_auth_header(self):
        return {**self.authenticator.get_auth_header(), "X-Name": self.authenticator.auth_header,
                "X-Token": self.authenticator.token}

@dataclass
class Reading(Decoder):
    decoder: Any

    def decode(self, response):
        yield from self.decoder.decode(response)

@dataclass
class Extractor(RecordExtractor):
    extractor: Any

    def extract_records(self, response):
        return list(self.extractor.extract_records(response))

@dataclass
class Filter(RecordFilter):
    record_filter: Any = None

    def filter_records(self, records, stream_state, stream_slice=None, next_page_token=None):
        return self.record_filter.filter_records(records, stream_state, stream_slice, next_page_token)

@dataclass
class Transformation(RecordTransformation):
    transformations: Any

    def transform(self, record, config=None, stream_state=None, stream_slice=None):
        for each in self.transformations:
            each.transform(record, config, stream_state, stream_slice)

@dataclass
class Strategy(PaginationStrategy):
    pagination_strategy: Any

    @property
    def initial_token(self):
        return self.pagination_strategy.initial_token

    def next_page_token(self, response, last_page_size, last_record, last_page_token_value=None):
        return self.pagination_strategy.next_page_token(response, last_page_size, last_record, last_page_token_value)

    def get_page_size(self):
        return self.pagination_strategy.get_page_size()

@dataclass
class Router(PartitionRouter):
    partition_router: Any

    def stream_slices(self):
        return self.partition_router.stream_slices()

    def get_request_params(self, **names):
        return self.partition_router.get_request_params(**names)

@dataclass
class Backoff(BackoffStrategy):
    backoff_strategies: Any

    def backoff_time(self, response_or_exception, attempt_count):
        return self.backoff_strategies[0].backoff_time(response_or_exception, attempt_count)

@dataclass
class Handler(ErrorHandler):
    error_handler: Any

    max_retries = 3
    max_time = 60

    def interpret_response(self, response_or_exception):
        return self.error_handler.interpret_response(response_or_exception)
"""


def test_an_authenticator_calls_one_that_logs_in(tmp_path: Path) -> None:
    api = MockApi()
    tokens = api.post("/token").returns(json={"access_token": "secret-1", "expires_in": 3600})
    items = api.get("/items").returns(json={"data": ITEMS})
    login = {
        "type": "OAuthAuthenticator",
        "token_refresh_endpoint": f"{URL}/token",
        "client_id": "me",
        "client_secret": "hush",
        "grant_type": "client_credentials",
    }
    signs = {"type": "CustomAuthenticator", "class_name": "components.Authenticator", "authenticator": login}

    run = read(source(tmp_path, INNER, manifest(requester={"authenticator": signs}), api))

    assert run.error is None
    assert len(tokens.requests) == 1
    [asked] = items.requests
    assert [asked.headers[name] for name in ("Authorization", "X-Name", "X-Token")] == [
        "Bearer secret-1", "Authorization", "Bearer secret-1"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "retriever",
    [
        {"decoder": {"type": "CustomDecoder", "class_name": "components.Reading", "decoder": {"type": "JsonDecoder"}}},
        {
            "record_selector": {
                "extractor": {
                    "type": "CustomRecordExtractor",
                    "class_name": "components.Extractor",
                    "extractor": {"type": "DpathExtractor", "field_path": ["data"]},
                }
            }
        },
        {
            "record_selector": {
                "record_filter": {
                    "type": "CustomRecordFilter",
                    "class_name": "components.Filter",
                    "record_filter": {"type": "RecordFilter", "condition": "{{ record['id'] < 3 }}"},
                }
            }
        },
    ],
)
def test_a_part_of_a_selector_calls_one_of_the_manifest(tmp_path: Path, retriever: dict[str, Json]) -> None:
    api = MockApi()
    api.get("/items").returns(json={"data": [*ITEMS, *([{"id": 3}] if "record_filter" in str(retriever) else [])]})

    run = read(source(tmp_path, INNER, manifest(**retriever), api))

    assert run.error is None
    assert run.records == ITEMS


def test_a_transformation_calls_those_of_the_manifest(tmp_path: Path) -> None:
    api = MockApi()
    api.get("/items").returns(json={"data": ITEMS})
    field = {"type": "AddedFieldDefinition", "path": ["name"], "value": "{{ stream_partition.name }}"}
    change = {
        "type": "CustomTransformation",
        "class_name": "components.Transformation",
        "transformations": [{"type": "AddFields", "fields": [field]}],
    }
    router = {"type": "ListPartitionRouter", "cursor_field": "name", "values": ["a"]}

    run = read(source(tmp_path, INNER, manifest({"transformations": [change]}, partition_router=router), api))

    assert run.error is None
    assert run.records == [{"id": 1, "name": "a"}, {"id": 2, "name": "a"}]


@pytest.mark.parametrize(
    ("inner", "tokens"),
    [
        ({"type": "PageIncrement", "page_size": 2, "inject_on_first_request": True}, ["0", "1"]),
        ({"type": "OffsetIncrement", "page_size": 2}, [None, "2"]),
        ({"type": "CursorPagination", "cursor_value": "{{ response.next }}", "page_size": 2}, [None, "b"]),
    ],
)
def test_a_strategy_calls_one_of_the_manifest(tmp_path: Path, inner: Json, tokens: list[str | None]) -> None:
    api = MockApi()
    for token, data, following in zip(tokens, (ITEMS, [{"id": 3}]), ("b", None), strict=True):
        params = {} if token is None else {"at": token}
        api.get("/items", params={**params, "size": 2}).returns(json={"data": data, "next": following})
    option = {"type": "RequestOption", "inject_into": "request_parameter"}
    paginator = {
        "type": "DefaultPaginator",
        "pagination_strategy": {
            "type": "CustomPaginationStrategy",
            "class_name": "components.Strategy",
            "pagination_strategy": inner,
        },
        "page_token_option": {**option, "field_name": "at"},
        "page_size_option": {**option, "field_name": "size"},
    }

    run = read(source(tmp_path, INNER, manifest(paginator=paginator), api))

    assert run.error is None
    assert run.records == [*ITEMS, {"id": 3}]


def test_a_router_calls_one_of_the_manifest(tmp_path: Path) -> None:
    api = MockApi()
    items = api.get("/items").returns(json={"data": ITEMS})
    option = {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "name"}
    router = {
        "type": "CustomPartitionRouter",
        "class_name": "components.Router",
        "partition_router": {
            "type": "ListPartitionRouter", "cursor_field": "name", "values": ["a", "b"], "request_option": option,
        },
    }  # fmt: skip

    run = read(source(tmp_path, INNER, manifest(partition_router=router), api))

    assert run.error is None
    assert [asked.params for asked in items.requests] == [{"name": "a"}, {"name": "b"}]


@pytest.mark.parametrize("within", ["DefaultErrorHandler", "CustomErrorHandler"])
def test_a_handler_calls_one_of_the_manifest(tmp_path: Path, within: str) -> None:
    api = MockApi()
    api.get("/items").returns(status=503).returns(json={"data": ITEMS})
    constant: Json = {"type": "ConstantBackoffStrategy", "backoff_time_in_seconds": 7}
    backoff = {"class_name": "components.Backoff", "backoff_strategies": [constant]}
    handler: Json = {
        "type": "DefaultErrorHandler",
        "backoff_strategies": [{"type": "CustomBackoffStrategy", **backoff}],
    }
    if within == "CustomErrorHandler":
        handler = {"type": "CustomErrorHandler", "class_name": "components.Handler", "error_handler": handler}
    waits: list[float] = []

    run = read(source(tmp_path, INNER, manifest(requester={"error_handler": handler}), api, waits=waits))

    assert run.error is None
    assert run.records == ITEMS
    # As in Airbyte, a second is added, and a custom handler waits as long as requests do that have no strategies.
    assert [wait == 8 for wait in waits] == [within == "DefaultErrorHandler"]
