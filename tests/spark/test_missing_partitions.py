"""Partitions that leave their source and come back: the table has each row once, and the state stays small.

Beside each table is a plain model: what a person would write down who sees what each sync is shown.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk import (
    CountCursor,
    Cursor,
    Item,
    Json,
    Page,
    ParentState,
    Partition,
    Record,
    Slice,
    StateMixin,
    Stream,
    StreamState,
    following_partitions,
)
from cdk.base.errors import ConfigError
from cdk.base.task_map import run_inline
from cdk.lake.admin.locate import OpenTables
from cdk.lake.storage.folder import LocalFolder
from cdk.state.wire import decode
from cdk.sync.loop.stream_sync import StreamSync
from cdk.sync.reports.stream_report import Status
from cdk.sync.settings.pipeline_file import StreamOptions
from cdk.sync.settings.stream_plan import plan_stream
from cdk.sync.tasks.bundle_task import read_bundle
from cdk.sync.tasks.messages import BundleJob
from tests.spark.bundles_here import read_bundle_of

DAY0 = datetime(2024, 1, 1, tzinfo=UTC)
AFTER = timedelta(days=30)


class Source:
    """Shops that are listed or not, and the orders of each; every change has a greater number than all before."""

    def __init__(self) -> None:
        self.day, self.seq = 0, 0
        self.listed: list[str] = []
        self.opened: list[Record] = []
        self.orders: dict[str, list[Record]] = {}

    def open(self, shop: str) -> None:
        self.listed.append(shop)
        self.opened.append({"shop": shop, "nr": len(self.opened) + 1})

    def sell(self, shop: str, order: int) -> None:
        self.seq += 1
        self.orders.setdefault(shop, []).append({"shop": shop, "id": order, "seq": self.seq})


class Orders(Stream):
    primary_key: str | tuple[str, ...] = ("shop", "id")
    supports_checkpointing = True
    cursor: Cursor | None = CountCursor("seq")
    schema: Mapping[str, Json] = {
        "properties": {"shop": {"type": "string"}, "id": {"type": "integer"}, "seq": {"type": "integer"}}
    }

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source

    def now(self) -> datetime:
        return DAY0 + timedelta(days=self.source.day)

    def partitions(self) -> Iterable[Partition]:
        return [Partition.of(shop=shop) for shop in self.source.listed]

    def read_records(self, slice: Slice) -> Iterator[Item]:
        low = 0 if slice.window is None else slice.window.start
        yield Page([row for row in self.source.orders.get(slice.partition["shop"], ()) if row["seq"] >= low], None)


class ByHand(StateMixin, Orders):
    """Its author keeps the cursor by hand."""

    name = "orders"
    cursor = None
    cursor_field = "seq"

    def read_records(self, slice: Slice) -> Iterator[Item]:
        after = self.state.get("seq", 0)
        yield from (row for row in self.source.orders.get(slice.partition["shop"], ()) if row["seq"] > after)
        self.state = {"seq": max([after, *(row["seq"] for row in self.source.orders.get(slice.partition["shop"], ()))])}


class Shops(Orders):
    cursor = CountCursor("nr")
    primary_key = "shop"

    def partitions(self) -> Iterable[Partition]:
        return [Partition()]

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.window is not None
        yield Page([row for row in self.source.opened if row["nr"] >= slice.window.start], None)


class OrdersOfNewShops(Orders):
    """Shops are listed while they are new: the state of the parent narrows the list."""

    name = "orders"

    def partitions_since(self, parents: Mapping[str, StreamState]) -> Iterable[Partition | ParentState]:
        return following_partitions(Shops(self.source), parents, shop="shop")


def sync(stream: Stream, root: Path, options: Mapping[str, Json], name: str, *, cut: bool = False) -> StreamSync:
    run = StreamSync(
        plan_stream(stream, StreamOptions.model_validate(options), LocalFolder(root)), OpenTables("shop"), sync=name
    )
    run.prepare(run_inline)
    while run.active:
        run.commit(read_bundle_of(run, 2, lambda pieces: read_bundle(BundleJob({0: run.target}, 1000, 1), pieces)))
        if cut:
            return run
    assert run.report.status is Status.DONE
    return run


def table(root: Path, name: str = "orders") -> Counter[tuple[str, int, int]]:
    files = DeltaTable(str(root / name)).file_uris()
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return Counter((row["shop"], row["id"], row["seq"]) for row in rows)


def known(run: StreamSync) -> set[str]:
    return {partition["shop"] for partition in decode(run.saved.state).positions}


class Model:
    """What is in the table, and which shops the state knows, for a person who was there.

    after: how long a shop may be missing until it is forgotten; None: for ever.
    """

    def __init__(self, mode: str, after: timedelta | None) -> None:
        self.mode, self.after = mode, after
        self.rows: Counter[tuple[str, int, int]] = Counter()
        self.read: dict[str, int] = {}
        self.missing: dict[str, int] = {}

    def sees(self, source: Source) -> None:
        if self.mode == "overwrite":
            self.rows.clear()
            self.read.clear()
        for shop in source.listed:
            self.missing.pop(shop, None)
            for row in source.orders.get(shop, ()):
                if row["seq"] <= self.read.get(shop, 0):
                    continue
                if self.mode == "append_dedup":
                    self.rows = Counter({r: n for r, n in self.rows.items() if r[:2] != (shop, row["id"])})
                self.rows[shop, row["id"], row["seq"]] += 1
            self.read[shop] = source.seq

    def forgets(self, source: Source) -> None:
        """After a complete read."""
        if self.after is None or not source.listed:
            return
        for shop in [*self.read]:
            if shop in source.listed:
                continue
            if timedelta(days=source.day - self.missing.setdefault(shop, source.day)) >= self.after:
                del self.read[shop], self.missing[shop]


STEPS = st.lists(
    st.tuples(
        st.sets(st.integers(0, 5)),  # shops that are listed
        st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=4),  # orders that come or change
        st.sampled_from([0, 9, 21, 31]),  # days that go by
        st.booleans(),  # the sync is cut after its first commit, and begun again
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.parametrize(
    ("options", "after"),
    [
        ({}, None),
        ({"forget_partitions_after": "20d"}, timedelta(days=20)),
        ({"write_mode": "append_dedup"}, AFTER),
        ({"write_mode": "append_dedup", "forget_partitions_after": "never"}, None),
        ({"write_mode": "append_dedup", "forget_partitions_after": "0s"}, timedelta()),
        ({"write_mode": "append_dedup", "history": True}, None),
        ({"write_mode": "append_dedup", "deletes": "hard"}, None),
        ({"sync_mode": "full_refresh", "remove_stale": {"allow_empty": True}}, None),
    ],
    ids=str,
)
@given(stream_type=st.sampled_from([Orders, ByHand]), steps=STEPS)
@settings(max_examples=6, deadline=None)
def test_partitions_that_leave_and_come_back_bring_each_row_once(
    tmp_path_factory: pytest.TempPathFactory,
    stream_type: type[Orders],
    options: Mapping[str, Json],
    after: timedelta | None,
    steps: list[tuple[set[int], list[tuple[int, int]], int, bool]],
) -> None:
    root = tmp_path_factory.mktemp("lake")
    source = Source()
    mode = options.get("write_mode") or ("overwrite" if options.get("sync_mode") else "append")
    model = Model(mode, after)
    for n, (listed, orders, days, cut) in enumerate(steps):
        source.day += days
        source.listed = sorted(f"shop{i}" for i in listed)
        for shop, order in orders:
            source.sell(f"shop{shop}", order)
        if cut:
            sync(stream_type(source), root, options, f"s{n}", cut=True)
        run = sync(stream_type(source), root, options, f"s{n}")
        model.sees(source)
        model.forgets(source)

        assert table(root) == model.rows
        assert known(run) == set(model.read)


@given(opened=st.lists(st.integers(0, 3), min_size=1, max_size=6))
@settings(max_examples=8, deadline=None)
def test_partitions_that_a_parents_state_leaves_out_are_not_missing(
    tmp_path_factory: pytest.TempPathFactory, opened: list[int]
) -> None:
    root = tmp_path_factory.mktemp("lake")
    source = Source()
    options = {"write_mode": "append_dedup", "forget_partitions_after": "0s"}
    for n, shops in enumerate(opened):
        source.day += 40
        for i in range(shops):
            source.open(f"shop{n}-{i}")
            source.sell(f"shop{n}-{i}", 1)
        run = sync(OrdersOfNewShops(source), root, options, f"s{n}")

        assert table(root) == Counter((r["shop"], r["id"], r["seq"]) for rows in source.orders.values() for r in rows)
        assert known(run) == set(source.listed)


def test_a_further_sync_commits_nothing_though_a_partition_is_missing(tmp_path: Path) -> None:
    source = Source()
    for shop in ("a", "b"):
        source.open(shop)
        source.sell(shop, 1)
    options = {"write_mode": "append_dedup"}
    sync(Orders(source), tmp_path, options, "s1")
    source.listed = ["a"]
    sync(Orders(source), tmp_path, options, "s2")
    source.day = 29
    assert sync(Orders(source), tmp_path, options, "s3").report.commits == 0


def test_a_partition_that_was_away_for_months_is_appended_once(tmp_path: Path) -> None:
    source = Source()
    for shop in ("a", "b"):
        source.open(shop)
        source.sell(shop, 1)
    every: list[dict[str, Json]] = [{}, {"write_mode": "append_dedup", "history": True}]
    for options in every:
        root = tmp_path / str(len(options))
        for n, listed in enumerate((["a", "b"], ["a"], ["a"], ["a", "b"])):
            source.listed, source.day = listed, 60 * n
            sync(Orders(source), root, options, f"s{n}")

        for name in ("orders", "orders_history")[: 1 + bool(options)]:
            assert table(root, name) == {("a", 1, 1): 1, ("b", 1, 2): 1}


def test_how_long_partitions_may_be_missing_is_nothing_for_a_full_refresh(tmp_path: Path) -> None:
    options = {"sync_mode": "full_refresh", "forget_partitions_after": "1d"}
    with pytest.raises(
        ConfigError, match=r"orders.forget_partitions_after: the state of a full refresh has no partitions"
    ):
        sync(Orders(Source()), tmp_path, options, "s1")
