"""Several parents of one name, whose progress a state keeps under that name."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from cdk.base.values import Json
from cdk.declarative.model.declared_stream import DeclaredStream
from cdk.declarative.reading.parents_in_turn import PartitionOrigin, PartitionsInTurn
from cdk.state.position import Checkpoint
from cdk.state.slice import WHOLE, Partition, Slice
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint.parent_state import ParentState
from cdk.streams.page import Item
from cdk.testing import MockApi
from tests.declarative.manifests import CURSOR, queries, run
from tests.declarative.reading.test_state_delegating_stream import stream

FOLLOWED = {**CURSOR, "cursor_field": "u"}
USERS: list[dict[str, Json]] = [
    {"id": "a0", "boss": "b0", "u": "2024-01-05"},
    {"id": "a1", "boss": "b1", "u": "2024-01-06"},
]


def users(key: str, path: str = "/users") -> dict[str, Any]:
    followed = {**stream(path, None), "name": "users", "incremental_sync": FOLLOWED}
    return {
        "type": "ParentStreamConfig",
        "stream": followed,
        "parent_key": key,
        "partition_field": "user",
        "incremental_dependency": True,
    }


def substream(*configs: dict[str, Any]) -> dict[str, Any]:
    return {"type": "SubstreamPartitionRouter", "parent_stream_configs": list(configs)}


def union(*configs: dict[str, Any]) -> dict[str, Any]:
    routers = [substream(config) for config in configs]
    return {"type": "UnionPartitionRouter", "partition_field": "user", "partition_routers": routers}


def grouped(*configs: dict[str, Any]) -> dict[str, Any]:
    return {"type": "GroupingPartitionRouter", "group_size": 1, "underlying_partition_router": substream(*configs)}


USER = "stream_partition.user"
SHOWN = {"request_parameters": {"of": f"{{{{ {USER} if {USER} is string else {USER} | join(',') }}}}"}}


def api(failing: str = "", **more: Json) -> MockApi:
    """One whose users are those that changed since, and that refuses the items of one."""
    made = MockApi()
    made.get("/users").returns(json={"data": USERS})
    made.get("/users", {"since": "2024-01-06"}).returns(json={"data": USERS[1:]})
    for path, rows in more.items():
        made.get(f"/{path}").returns(json={"data": rows})
    made.get("/items").returns(json={"data": [{"id": 1, "on": "2024-01-02"}]})
    if failing:
        made.get("/items", {"of": failing}).returns(status=400, json={})
    return made


def asked(made: MockApi, router: Json, **parts: Any) -> tuple[list[str], Any]:
    """Whose items were asked for, and the read."""
    result = run(made, partition_router=router, requester=SHOWN, stream={"incremental_sync": CURSOR}, **parts)
    return [query["of"] for query in queries(made) if "of" in query], result


@pytest.mark.parametrize("router", [substream, union, grouped])
def test_a_parent_that_comes_twice_advances_only_when_the_children_of_both_are_read(
    router: Callable[..., dict[str, Any]],
) -> None:
    both = router(users("id"), users("boss"))

    first, cut = asked(api(failing="b0"), both)
    second, whole = asked(api(), both, state=cut.state_messages)
    third, _ = asked(api(), both, state=whole.state_messages)

    assert cut.error is not None
    assert first == ["a0", "a1", "b0", "b1"]
    assert "b0" in second
    assert (whole.error, whole.states[-1]["parent_state"]) == (None, {"users": {"u": "2024-01-06"}})
    assert third == ["a1", "b1"]


def test_different_streams_of_one_name_are_read_in_full_with_a_warning() -> None:
    both = substream(users("id"), users("id", "/bosses"))
    bosses: list[Json] = [{"id": "b0", "u": "2024-01-02"}]

    _, first = asked(api(bosses=bosses), both)
    found, second = asked(api(bosses=bosses), both, state=first.state_messages)

    assert (first.error, second.error) == (None, None)
    assert first.states[-1]["parent_state"] == {}
    assert found == ["a0", "a1", "b0"]
    (warning,) = second.warnings
    assert warning.startswith("items: found different streams named 'users' among its parents")


def test_of_different_streams_below_a_union_one_warning_tells() -> None:
    both = substream(users("id"), users("id", "/bosses"))
    united = {**union(users("id")), "partition_routers": [both, substream(users("boss"))]}

    _, made = asked(api(bosses=[{"id": "b0", "u": "2024-01-02"}]), united)

    assert made.error is None
    assert len(made.warnings) == 1


class Parent(DeclaredStream):
    def __init__(self, name: str) -> None:
        super().__init__({})
        self.name = name

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002 - it is not read
        return iter(())


def state(name: str, value: int) -> ParentState:
    return ParentState(name, StreamState().with_(WHOLE, Checkpoint({"u": value})))


def origin(name: str, *items: Partition | ParentState) -> PartitionOrigin:
    def partitions(_: Mapping[str, StreamState]) -> Iterator[Partition | ParentState]:
        yield from items

    return PartitionOrigin([Parent(name)], partitions)


A, B, C, D = (Partition({"id": name}) for name in "abcd")


def test_what_the_first_had_read_counts_behind_the_last() -> None:
    origins = [
        origin("users", A, state("users", 1), B, state("users", 2)),
        origin("teams", C, state("teams", 5)),
        # It has met what came while the first was read.
        origin("users", D, state("users", 3)),
    ]

    found = [*PartitionsInTurn("items", origins).partitions({})]

    assert found == [A, B, C, state("teams", 5), D, state("users", 2)]


def test_where_the_first_has_nothing_new_the_parent_stays() -> None:
    origins = [origin("users"), origin("users", D, state("users", 3))]

    assert [*PartitionsInTurn("items", origins).partitions({})] == [D]
