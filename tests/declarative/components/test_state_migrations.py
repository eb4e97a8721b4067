"""Old forms of states."""

from typing import Any

import pytest

from cdk.base.errors import ManifestError
from cdk.base.values import Json
from tests.declarative.manifests import CURSOR, option, queries, run, source
from tests.declarative.test_delegating import stream
from tests.declarative.test_stream import LIST, answering, at, dated

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


@pytest.mark.parametrize("router", [None, [LIST, {**LIST, "cursor_field": "kind", "request_option": option("kind")}]])
def test_it_takes_exactly_one_field_of_partitions(router: Json) -> None:
    parts = {} if router is None else {"partition_router": router}
    with pytest.raises(ManifestError, match="expected a stream with one ListPartitionRouter"):
        source(answering(lambda _: None), stream=MIGRATES, **parts).streams({})
