"""PartitionGroups: partitions in groups, and the groups of an interrupted read."""

from collections.abc import Iterable, Mapping

import pytest

from cdk.declarative.model.stream_plug_points import Router
from cdk.declarative.reading.partition_groups import PartitionGroups
from cdk.state.slice import Partition
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint.parent_state import ParentState


class Listed(Router):
    """The partitions of a list of ids."""

    def __init__(self, ids: str) -> None:
        self._ids = ids

    def partitions(self, parents: Mapping[str, StreamState]) -> Iterable[Partition | ParentState]:  # noqa: ARG002
        return [Partition({"id": each}) for each in self._ids]


def groups(ids: str, *, started: str = "", size: int = 2, deduplicate: bool = True) -> list[str]:
    """Return the ids of each group. started: the groups that a read has started, with commas between them."""
    router: Router = PartitionGroups(Listed(ids), size, deduplicate=deduplicate, warning="")
    if started:
        router = router.resuming(Partition({"id": list(group)}) for group in started.split(","))
    found = [item for item in router.partitions({}) if isinstance(item, Partition)]
    return ["".join(str(each) for each in partition["id"]) for partition in found]


@pytest.mark.parametrize(("deduplicate", "expected"), [(True, ["ab", "c"]), (False, ["ab", "ac"])])
def test_each_value_is_in_one_group_unless_duplicates_are_allowed(deduplicate: bool, expected: list[str]) -> None:  # noqa: FBT001
    assert groups("abac", deduplicate=deduplicate) == expected


def test_a_resumed_read_keeps_the_groups_that_were_started() -> None:
    assert groups("xabcd", started="ab") == ["ab", "xc", "d"]


def test_a_started_group_is_read_without_the_members_that_no_longer_exist() -> None:
    assert groups("bc", started="ab") == ["c", "b"]


def test_the_groups_of_a_router_share_a_cursor_and_send_nothing_themselves() -> None:
    assert PartitionGroups(Listed("a"), 2, deduplicate=True, warning="").shares_cursor
