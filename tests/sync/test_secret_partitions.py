"""Partitions that a secret of the config identifies, in the tables of a sync and in their states."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdk import Item, ParentState, Partition, Slice, StreamState, following_partitions, list_partitions
from tests.samples import Orders
from tests.sync.test_row_sources import SECRET, sync


class Accounts(Orders):
    """Orders of two accounts, one of which the config names as a secret."""

    name = "accounts"

    def partitions(self) -> Iterable[Partition]:
        return list_partitions("account", [SECRET, "other"])

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.partition["account"] in {SECRET, "other"}
        yield from super().read_records(slice)


class Payments(Accounts):
    """Of the orders, which are followed."""

    name = "payments"
    hours = (2, 50)

    def partitions_since(self, parents: Mapping[str, StreamState]) -> Iterable[Partition | ParentState]:
        return following_partitions(Accounts(), parents, order="id")


@pytest.mark.parametrize(("kind", "count"), [(Accounts, 2), (Payments, 2 * len(Accounts.hours))])
def test_a_second_sync_resumes_from_a_state_without_the_secret(
    tmp_path: Path, kind: type[Accounts], count: int
) -> None:
    sync(tmp_path, kind())
    rows = DeltaTable(str(tmp_path / kind.name)).to_pyarrow_table().num_rows

    sync(tmp_path, kind())

    assert DeltaTable(str(tmp_path / kind.name)).to_pyarrow_table().num_rows == rows == count * len(kind.hours)
    texts = [line for path in tmp_path.rglob("*.json") for line in path.read_text().splitlines()]
    assert any("<secret key plain>" in text for text in texts)
    # Delta's log also has the least and the greatest value of columns: those are rows, and rows are not masked.
    assert not [text for text in texts if SECRET in text and "add" not in json.loads(text)]
