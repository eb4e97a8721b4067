"""The manifest of one stream, and a way to read it: for tests of what makes its requests."""

from collections.abc import Mapping
from typing import Any

from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.protocol.messages import AirbyteStateMessage
from cdk.testing import MockApi, ReadResult, read

URL = "https://api.example.com/items"
CURSOR = {
    "type": "DatetimeBasedCursor",
    "cursor_field": "on",
    "datetime_format": "%Y-%m-%d",
    "start_datetime": "2024-01-01",
    "end_datetime": "2024-01-31",
    "start_time_option": {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "since"},
    "end_time_option": {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "until"},
}


def option(name: str, place: str = "request_parameter") -> dict[str, Any]:
    return {"type": "RequestOption", "inject_into": place, "field_name": name}


def paginator(strategy: Mapping[str, Any], *, token: Any = None, size: bool = False) -> dict[str, Any]:
    return {
        "type": "DefaultPaginator",
        "pagination_strategy": strategy,
        "page_token_option": token or option("page"),
        **({"page_size_option": option("limit")} if size else {}),
    }


def source(
    api: MockApi,
    *,
    requester: Mapping[str, Any] | None = None,
    selector: Mapping[str, Any] | None = None,
    stream: Mapping[str, Any] | None = None,
    runtime: Runtime | None = None,
    **retriever: Any,
) -> ManifestSource:
    """A source with the stream `items`, whose records lie under `data`; the rest as told."""
    runtime = runtime or Runtime()
    runtime.transport = api
    made = {
        "type": "DeclarativeStream",
        "name": "items",
        "primary_key": "id",
        "schema_loader": {"type": "InlineSchemaLoader", "schema": {"type": "object", "properties": {}}},
        "retriever": {
            "type": "SimpleRetriever",
            "requester": {"type": "HttpRequester", "url": URL, **(requester or {})},
            "record_selector": {
                "type": "RecordSelector",
                "extractor": {"type": "DpathExtractor", "field_path": ["data"]},
                **(selector or {}),
            },
            **retriever,
        },
        **(stream or {}),
    }
    check = {"type": "CheckStream", "stream_names": ["items"]}
    return ManifestSource(Manifest({"version": "6.0.0", "check": check, "streams": [made]}), runtime)


def run(api: MockApi, *, state: list[AirbyteStateMessage] | None = None, **parts: Any) -> ReadResult:
    """Read the stream of `source`."""
    return read(source(api, **parts), "items", config={"region": "eu"}, state=state or [])


def queries(api: MockApi) -> list[dict[str, Any]]:
    """The parameters of each request, in order."""
    return [dict(request.params) for request in api.requests]


def ids(made: ReadResult) -> list[Any]:
    assert made.error is None
    return [record["id"] for record in made.records]
