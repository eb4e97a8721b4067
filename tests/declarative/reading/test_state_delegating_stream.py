"""A stream that is read in full without a state, and incrementally with one."""

import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from cdk.base.values import Json
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.streams.stream import Stream
from cdk.testing import MockApi, read
from tests.declarative.manifests import CURSOR
from tests.declarative.reading.test_manifest_stream import at, dated

NOW = datetime(2024, 1, 31, 12, tzinfo=UTC)
LIST = {"type": "ListPartitionRouter", "cursor_field": "region", "values": ["eu"]}


def stream(path: str, router: dict[str, Any] | None, **parts: Any) -> dict[str, Any]:
    return {
        "type": "DeclarativeStream",
        "name": "items",
        "primary_key": "id",
        "schema_loader": {"type": "InlineSchemaLoader", "schema": {"type": "object", "properties": {}}},
        "retriever": {
            "type": "SimpleRetriever",
            "requester": {"type": "HttpRequester", "url": f"https://api.example.com{path}"},
            "record_selector": {
                "type": "RecordSelector",
                "extractor": {"type": "DpathExtractor", "field_path": ["data"]},
            },
            **({"partition_router": router} if router else {}),
        },
        **parts,
    }


def delegating(api: MockApi, *, retention: str | None = None, router: dict[str, Any] | None = None) -> Stream:
    api.get("/export").returns(json=dated("02"))
    api.get("/changes").returns(json=dated("03"))
    made = {
        "type": "StateDelegatingStream",
        "name": "items",
        "full_refresh_stream": stream("/export", router, incremental_sync=CURSOR),
        "incremental_stream": stream("/changes", router, incremental_sync=CURSOR),
        **({"api_retention_period": retention} if retention else {}),
    }
    check = {"type": "CheckStream", "stream_names": ["items"]}
    runtime = Runtime(transport=api, clock=lambda: NOW)
    (found,) = ManifestSource(Manifest({"version": "6.0.0", "check": check, "streams": [made]}), runtime).streams({})
    return found


def paths(api: MockApi) -> set[str]:
    return {request.url.rpartition("/")[2] for request in api.requests}


@pytest.mark.parametrize(
    ("state", "path"),
    [
        (None, "export"),
        ({}, "export"),
        ({"__ab_no_cursor_state_message": True}, "export"),
        ({"on": "2024-01-02"}, "changes"),
    ],
)
def test_the_state_chooses(state: Json, path: str) -> None:
    api = MockApi()

    made = read(delegating(api), state=at(state) if state is not None else [])

    assert made.error is None
    assert paths(api) == {path}


def test_the_full_read_leaves_a_state_for_the_other() -> None:
    api = MockApi()
    first = read(delegating(api))
    api.requests.clear()

    second = read(delegating(api), state=first.state_messages)

    assert first.states[-1] == {"on": "2024-01-02"}
    assert second.states[-1] == {"on": "2024-01-03"}
    assert [dict(request.params)["since"] for request in api.requests] == ["2024-01-02"]


@pytest.mark.parametrize(
    ("on", "path"),
    [("2024-01-25", "changes"), ("2024-01-24", "export"), ("2023-01-01", "export"), ("long ago", "export")],
)
@pytest.mark.parametrize("router", [None, LIST])
def test_a_state_older_than_what_the_api_keeps_does_not_count(
    on: str, path: str, router: dict[str, Any] | None
) -> None:
    api, state = MockApi(), {"on": on}
    if router is not None:
        states = [{"partition": {"region": "eu"}, "cursor": {"on": on}}]
        state = {"use_global_cursor": False, "states": states, "state": {"on": on}, "lookback_window": 1}  # type: ignore[dict-item]

    made = read(delegating(api, retention="P7D", router=router), state=at(state))

    assert made.error is None
    assert paths(api) == {path}


def test_partitions_without_a_common_value_are_read_in_full() -> None:
    api = MockApi()
    state = {"states": [{"partition": {"region": "eu"}, "cursor": {"on": "2024-01-30"}}]}

    read(delegating(api, retention="P7D", router=LIST), state=at(state))

    assert paths(api) == {"export"}


@pytest.mark.parametrize(("state", "path"), [(None, "export"), ({"on": "2024-01-02"}, "changes")])
def test_what_was_chosen_travels(state: Json, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    api = MockApi()
    monkeypatch.setattr("cdk.rest.RequestsTransport.send", lambda _, request: api.send(request))
    made = delegating(api)
    made.migrate_state(state)

    there = read(pickle.loads(pickle.dumps(made)))  # noqa: S301 - made here

    assert there.error is None
    assert paths(api) == {path}
