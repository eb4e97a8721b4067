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


def choice(
    api: MockApi, *, retention: str | None = None, router: dict[str, Any] | None = None, pages: Json = None
) -> dict[str, Any]:
    """The stream of a manifest that is read in two ways."""
    api.get("/export").returns(json=dated("02"))
    api.get("/changes").returns(json=dated("03"))
    full = stream("/export", router, incremental_sync=CURSOR)
    full["retriever"] |= {"paginator": pages} if pages else {}
    return {
        "type": "StateDelegatingStream",
        "name": "items",
        "full_refresh_stream": full,
        "incremental_stream": stream("/changes", router, incremental_sync=CURSOR),
        **({"api_retention_period": retention} if retention else {}),
    }


def delegating(api: MockApi, **parts: Any) -> Stream:
    return source(api, choice(api, **parts))


def source(api: MockApi, made: dict[str, Any]) -> Stream:
    """The only stream of a manifest."""
    check = {"type": "CheckStream", "stream_names": [made["name"]]}
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


PAGES = {
    "type": "DefaultPaginator",
    "pagination_strategy": {"type": "PageIncrement", "page_size": 1, "start_from_page": 1},
    "page_token_option": {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "page"},
}
EXPORTED = ["02", "04", "03"]


def exported(api: MockApi, *, fails_at: int) -> None:
    """Pages of the export, one of which fails; a page without records is the last."""
    api.get("/export").returns(json=dated(EXPORTED[0]))
    for number in range(2, 5):
        days = EXPORTED[number - 1 : number]
        api.get("/export", {"page": number}).returns(json=dated(*days), status=400 if number == fails_at else 200)


@pytest.mark.parametrize("router", [None, LIST])
@pytest.mark.parametrize("fails_at", [2, 3, 4])
def test_an_interrupted_read_in_full_resumes_as_that(fails_at: int, router: dict[str, Any] | None) -> None:
    api = MockApi()
    made = delegating(api, router=router, pages=PAGES)
    exported(api, fails_at=fails_at)
    first = read(made)
    assert first.error is not None
    exported(api, fails_at=0)
    api.requests.clear()

    second = read(made, state=first.state_messages)

    assert second.error is None
    assert paths(api) == {"export"}
    assert api.requests[0].params["page"] == str(fails_at)
    assert {record["id"] for ran in (first, second) for record in ran.records} == set(EXPORTED)
    api.requests.clear()
    read(made, state=second.state_messages)
    assert paths(api) == {"changes"}


@pytest.mark.parametrize("router", [None, LIST])
def test_a_read_in_full_that_had_only_not_been_ended_is_no_longer_one(router: dict[str, Any] | None) -> None:
    """It was killed behind its last record, before anybody knew that it was that."""
    cursor = {"on": "2024-01-02"}
    positions = {"states": [{"partition": {"region": "eu"}, "cursor": cursor}]} if router else cursor
    made = delegating(MockApi(), router=router)

    ended = read(made, state=at({**positions, "_cdk": {"in_full": True}}))

    assert (ended.error, ended.records) == (None, [])
    api = MockApi()
    read(delegating(api, router=router), state=ended.state_messages)
    assert paths(api) == {"changes"}


def test_a_parent_is_read_as_the_state_that_its_child_has_of_it_says() -> None:
    api = MockApi()
    api.get("/items/02").returns(json=dated("06"))
    api.get("/items/03").returns(json=dated("07"))
    parent: dict[str, Any] = {"type": "ParentStreamConfig", "parent_key": "id", "partition_field": "item"}
    parent |= {"stream": choice(api), "incremental_dependency": True}
    router = {"type": "SubstreamPartitionRouter", "parent_stream_configs": [parent]}
    child = stream("/items/{{ stream_partition.item }}", router, name="parts", incremental_sync=CURSOR)
    made = source(api, child)

    first = read(made)
    second = read(made, state=first.state_messages)

    assert first.error is None
    assert [record["id"] for record in first.records] == ["06"]
    assert [record["id"] for record in second.records] == ["07"]
    assert [request.url.rpartition("/")[2] for request in api.requests] == ["export", "02", "changes", "03"]


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
    monkeypatch.setattr("cdk.rest.HttpTransport.send", lambda _, request: api.send(request))
    made = delegating(api)
    made.migrate_state(state)

    there = read(pickle.loads(pickle.dumps(made)))  # noqa: S301 - made here

    assert there.error is None
    assert paths(api) == {path}


def test_a_read_in_full_without_a_cursor_resumes_at_its_pages_in_another_process() -> None:
    api = MockApi()
    made = choice(api, pages=PAGES)
    del made["full_refresh_stream"]["incremental_sync"]
    stream = source(api, made)

    travelled = pickle.loads(pickle.dumps(stream.resuming_pages()))  # noqa: S301 - made here

    supports = [each.supports_checkpointing for each in (stream, stream.resuming_pages(), travelled)]
    assert supports == [False, True, True]
    assert not pickle.loads(pickle.dumps(stream)).supports_checkpointing  # noqa: S301


def test_a_secret_that_identifies_a_partition_is_in_no_state_of_either_stream() -> None:
    api = MockApi()
    router = {**LIST, "values": ["{{ config['account'] }}"]}
    requester = {"request_parameters": {"account": "{{ stream_partition.region }}"}}
    made = choice(api, router=router)
    for each in ("full_refresh_stream", "incremental_stream"):
        made[each]["retriever"]["requester"] |= requester
    spec = {"properties": {"account": {"type": "string", "airbyte_secret": True}}}
    manifest: dict[str, Json] = {
        "version": "6.0.0",
        "check": {"type": "CheckStream", "stream_names": ["items"]},
        "streams": [made],
        "spec": {"type": "Spec", "connection_specification": {"type": "object", **spec}},
    }
    config = {"account": "hunter2-hunter2"}
    source = ManifestSource(Manifest(manifest), Runtime(transport=api, clock=lambda: NOW))
    state: list[Any] = []
    for path in ("export", "changes"):
        api.requests.clear()
        (stream,) = source.open(config)

        found = read(stream, state=state)

        assert (found.error, paths(api)) == (None, {path})
        assert {request.params["account"] for request in api.requests} == {"hunter2-hunter2"}
        assert "<secret account plain>" in str(found.states[-1])
        assert "hunter2" not in str(found.states)
        state = found.state_messages
