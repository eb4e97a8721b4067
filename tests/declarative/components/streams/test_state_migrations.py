"""Old forms of states."""

from typing import Any

import pytest

from cdk.base.errors import ManifestError
from cdk.base.values import Json
from cdk.declarative.components import register
from cdk.declarative.components.streams.streams import DeclarativeStream
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext, Runtime
from cdk.declarative.syntax.validation import validated
from tests.declarative.manifests import CURSOR, URL, option, queries, run, source
from tests.declarative.reading.test_manifest_stream import LIST, answering, at, dated
from tests.declarative.reading.test_state_delegating_stream import stream

MIGRATES: dict[str, Any] = {
    "incremental_sync": CURSOR,
    "state_migrations": [{"type": "LegacyToPerPartitionStateMigration"}],
}
OLD = {"eu": {"on": "2024-01-03"}, "us": {"on": "2024-01-05"}}


def test_a_map_of_cursors_becomes_a_list_of_partitions() -> None:
    api = answering(lambda _: dated())

    made = run(api, partition_router=LIST, stream=MIGRATES, state=at(OLD))

    assert made.error is None
    assert [query["since"] for query in queries(api)] == ["2024-01-03", "2024-01-05"]


@pytest.mark.parametrize(
    "blob",
    [
        None,
        {},
        {"use_global_cursor": True, "state": {"on": "2024-01-03"}},
        {"states": []},
        {"on": "2024-01-03"},
        {"eu": {"on": "2024-01-03", "at": 1}},
        {"eu": {"at": "2024-01-03"}},
    ],
)
def test_other_states_stay_as_they_are(blob: Json) -> None:
    (made,) = source(answering(lambda _: None), partition_router=LIST, stream=MIGRATES).streams({})

    assert made.migrate_state(blob) == blob


def test_partitions_of_a_parent_know_that_it_has_none() -> None:
    parent = {"stream": stream("/parents", None), "parent_key": "id", "partition_field": "pid"}
    config = {"type": "ParentStreamConfig", **parent}
    router = {"type": "SubstreamPartitionRouter", "parent_stream_configs": [config]}
    (made,) = source(answering(lambda _: None), partition_router=router, stream=MIGRATES).streams({})

    assert made.migrate_state({"13": {"on": "2024-01-03"}}) == {
        "states": [{"partition": {"pid": "13", "parent_slice": {}}, "cursor": {"on": "2024-01-03"}}]
    }


def listed(name: str) -> dict[str, Any]:
    return {"type": "ListPartitionRouter", "cursor_field": name, "values": ["1"]}


CUSTOM = {"type": "CustomPartitionRouter", "class_name": "components.Mine"}
PARENT = {"stream": stream("/parents", None), "parent_key": "id", "partition_field": "pid"}
UNION = {"type": "UnionPartitionRouter", "partition_field": "uid", "partition_routers": [listed("a"), listed("b")]}


def migrated(stream_parts: Json, blob: Json) -> Json:
    """A state after the migrations of a stream that is not built otherwise: its router may be custom code."""
    register()
    component = validated(
        Component.registry["DeclarativeStream"],
        {"name": "items", "incremental_sync": CURSOR, "state_migrations": [{}], **stream_parts},
    )
    assert isinstance(component, DeclarativeStream)
    (migration,) = component.state_migrations
    return migration.build(BuildContext({}, Runtime(), "items"), component)(blob)


def simple(router: Json) -> dict[str, Any]:
    selector = {"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": []}}
    return {
        "type": "SimpleRetriever",
        "requester": {"url": URL},
        "record_selector": selector,
        "partition_router": router,
    }


@pytest.mark.parametrize(
    ("router", "field"),
    [
        (UNION, "uid"),
        ({**CUSTOM, "parent_stream_configs": [PARENT]}, "pid"),
        ({**CUSTOM, "parent_stream_configs": [{**PARENT, "partition_field": "{{ 'p' ~ 'q' }}"}]}, "pq"),
    ],
)
def test_partitions_of_other_routers_have_one_field(router: Json, field: str) -> None:
    found = migrated({"retriever": simple(router)}, OLD)

    assert found == {"states": [{"partition": {field: name}, "cursor": cursor} for name, cursor in OLD.items()]}


@pytest.mark.parametrize(
    "router",
    [
        {"type": "SubstreamPartitionRouter", "parent_stream_configs": [PARENT, PARENT]},
        {**CUSTOM, "parent_stream_configs": [PARENT, PARENT]},
    ],
)
def test_partitions_of_several_parents_never_had_such_states(router: Json) -> None:
    assert migrated({"retriever": simple(router)}, OLD) == OLD


def test_streams_of_jobs_have_them_too() -> None:
    url = {"type": "HttpRequester", "url": URL}
    status = {"type": "AsyncJobStatusMap", "completed": ["x"], "failed": [], "running": [], "timeout": []}
    jobs = {
        "type": "AsyncRetriever",
        "creation_requester": url,
        "polling_requester": url,
        "download_requester": url,
        "status_mapping": status,
        "status_extractor": {"type": "DpathExtractor", "field_path": ["status"]},
        "record_selector": simple(None)["record_selector"],
        "partition_router": UNION,
    }

    assert "states" in migrated({"retriever": jobs}, OLD)


def test_a_migration_that_tells_no_type_is_this_one() -> None:
    for written in ({}, {"Type": "LegacyToPerPartitionStateMigration"}):
        parts = {"retriever": simple(LIST), "state_migrations": [written]}
        assert "states" in migrated(parts, OLD)


@pytest.mark.parametrize("router", [None, [LIST, {**LIST, "cursor_field": "kind", "request_option": option("kind")}]])
def test_it_takes_exactly_one_field_of_partitions(router: Json) -> None:
    parts = {} if router is None else {"partition_router": router}
    with pytest.raises(ManifestError, match="expected a stream with one partition_router: a ListPartitionRouter"):
        source(answering(lambda _: None), stream=MIGRATES, **parts).streams({})
