"""Connectors whose APIs nobody has: how they page, log in, filter and nest, drawn at random; as manifests."""

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from cdk.declarative.manifest import Manifest
from cdk.declarative.source import ManifestSource

URL = "https://api.example.com/v1/"
PAGES: dict[str, dict[str, Any] | None] = {
    "none": None,
    "number": {"type": "PageIncrement"},
    "number from one": {"type": "PageIncrement", "start_from_page": 1, "inject_on_first_request": True},
    "offset": {"type": "OffsetIncrement"},
    "token": {"type": "CursorPagination", "cursor_value": "{{ response.meta.next }}"},
    "token and flag": {
        "type": "CursorPagination",
        "cursor_value": "{{ response.next }}",
        "stop_condition": "{{ response.is_last }}",
    },
    "page of pages": {
        "type": "CursorPagination",
        "cursor_value": "{{ response.meta.page + 1 }}",
        "stop_condition": "{{ not response.meta.more }}",
    },
    "url": {"type": "CursorPagination", "cursor_value": "{{ response.links.next }}"},
    "link": {
        "type": "CursorPagination",
        "cursor_value": "{{ headers['link']['next']['url'] }}",
        "stop_condition": "{{ 'next' not in headers['link'] }}",
    },
    "last record": {
        "type": "CursorPagination",
        "cursor_value": "{{ last_record['id'] }}",
        "stop_condition": "{{ last_page_size == 0 }}",
    },
}
FILTERS: dict[str, dict[str, Any]] = {
    "none": {},
    "both ends": {"updated_since": "{{ stream_interval.start_time }}", "until": "{{ stream_interval.end_time }}"},
    "days": {
        "from": "{{ format_datetime(stream_interval.start_time, '%Y-%m-%d') }}",
        "to": "{{ format_datetime(stream_interval.end_time, '%Y-%m-%d') }}",
    },
    "epoch in a query": {"q": "updated>={{ format_datetime(stream_interval.start_time, '%s') }} status:open"},
}
LOGINS: dict[str, dict[str, Any]] = {
    "bearer": {"type": "BearerAuthenticator", "api_token": "{{ config['secret'] }}"},
    "oauth": {
        "type": "OAuthAuthenticator",
        "token_refresh_endpoint": f"{URL}token",
        "client_id": "us",
        "client_secret": "{{ config['secret'] }}",
        "grant_type": "client_credentials",
        "access_token_name": "the_token",
    },
    "session": {
        "type": "SessionTokenAuthenticator",
        "login_requester": {"type": "HttpRequester", "url": f"{URL}login", "http_method": "POST"},
        "session_token_path": ["data", "session"],
        "expiration_duration": "PT1H",
        "request_authentication": {"type": "Bearer"},
    },
}


@dataclass(frozen=True)
class Described:
    """A stream of a connector. envelope: where its records lie. filter: None: it has no cursor. step: of its windows.

    child: whether there is another one like it below each of its records.
    """

    pages: str = "number"
    size: int = 3
    envelope: tuple[str, ...] = ("data",)
    filter: str | None = None
    step: str | None = None
    format: str = "%Y-%m-%dT%H:%M:%SZ"
    login: str = "bearer"
    child: bool = False

    def source(self) -> ManifestSource:
        streams = [self._stream("orders", "orders")]
        if self.child:
            parent = {
                "type": "ParentStreamConfig",
                "parent_key": "id",
                "partition_field": "order",
                "stream": streams[0],
            }
            lines = replace(self, envelope=self.envelope or ("lines",))._stream(
                "lines", "orders/{{ stream_partition.order }}/lines"
            )
            router = {"type": "SubstreamPartitionRouter", "parent_stream_configs": [parent]}
            streams.append({**lines, "retriever": {**lines["retriever"], "partition_router": router}})
        secret = {"type": "string", "airbyte_secret": True}
        schema = {"type": "object", "required": ["secret"], "properties": {"secret": secret}}
        return ManifestSource(
            Manifest(
                {
                    "version": "6.0.0",
                    "type": "DeclarativeSource",
                    "check": {"type": "CheckStream", "stream_names": ["orders"]},
                    "spec": {"type": "Spec", "connection_specification": schema},
                    "streams": streams,
                }
            )
        )

    def _stream(self, name: str, path: str) -> dict[str, Any]:
        requester = {
            "type": "HttpRequester",
            "url_base": URL,
            "path": path,
            "authenticator": LOGINS[self.login],
            "request_parameters": {"kind": name, **FILTERS[self.filter or "none"]},
        }
        extractor = {"type": "DpathExtractor", "field_path": [*self.envelope]}
        retriever: dict[str, Any] = {
            "type": "SimpleRetriever",
            "requester": requester,
            "record_selector": {"type": "RecordSelector", "extractor": extractor},
        }
        if (strategy := PAGES[self.pages]) is not None:
            option = {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "page"}
            place = {"type": "RequestPath"} if self.pages in {"url", "link"} else option
            paginator = {"type": "DefaultPaginator", "page_token_option": place}
            retriever["paginator"] = {**paginator, "pagination_strategy": {**strategy, "page_size": self.size}}
        kind = {"type": "integer"} if self.format == "%s" else {"type": "string"}
        properties = {
            "id": {"type": "integer"},
            "state": {"type": "string", "enum": ["open", "closed"]},
            "lines": {
                "type": "array",
                "items": {"type": "object", "properties": {"size": {"type": ["null", "number"]}}},
            },
            "updated_at": kind,
        }
        stream = {
            "type": "DeclarativeStream",
            "name": name,
            "primary_key": "id",
            "retriever": retriever,
            "schema_loader": {"type": "InlineSchemaLoader", "schema": {"type": "object", "properties": properties}},
        }
        return stream if self.filter is None else {**stream, "incremental_sync": self._cursor()}

    def _cursor(self) -> dict[str, Any]:
        windows = {"step": self.step, "cursor_granularity": "PT1S"} if self.step else {}
        return {
            "type": "DatetimeBasedCursor",
            "cursor_field": "updated_at",
            "datetime_format": self.format,
            "start_datetime": {"type": "MinMaxDatetime", "datetime": "2024-01-05", "datetime_format": "%Y-%m-%d"},
            **windows,
        }


@st.composite
def described(draw: st.DrawFn) -> Described:
    pages = draw(st.sampled_from([*PAGES]))
    in_body = pages in {"token", "token and flag", "page of pages", "url"}
    filtered = draw(st.sampled_from([None, *FILTERS]))
    # A day, or no end at all, as the end of a window brings some records with the next window again.
    step = draw(st.sampled_from([None, "P20D"])) if filtered == "both ends" else None
    return Described(
        pages,
        draw(st.integers(1, 4)),
        draw(st.sampled_from([("data",), ("result", "items"), *([] if in_body else [()])])),
        filtered,
        step,
        draw(st.sampled_from(["%Y-%m-%dT%H:%M:%SZ", *(["%s"] if filtered in {"none", "both ends"} else [])])),
        draw(st.sampled_from([*LOGINS])),
        draw(st.booleans()),
    )
