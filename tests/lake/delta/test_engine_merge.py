"""Merging by delta-rs is merging: the same rows, figures and records as by files, in worlds that are made up."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from cdk.base.errors import FatalError
from cdk.base.task_map import run_inline
from cdk.lake.admin.locate import OpenTables, StreamLocation
from cdk.lake.arrow.coerce import change
from cdk.lake.arrow.columns import DELETED_AT, META, TIMESTAMP_UTC
from cdk.lake.arrow.record_batches import RecordBatchBuilder
from cdk.lake.delta.receipt import CommitRows, Receipt
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_state import TableState
from cdk.lake.delta.write_modes import AppendDedup, Committed, WriteModeSetup
from cdk.lake.parquet.dedup import CursorColumn, Identity
from cdk.lake.parquet.partitioning import without_empty
from cdk.lake.parquet.writer import DataFile, TableWriter
from cdk.lake.storage.folder import LocalFolder
from cdk.streams.order import CountOrder
from tests.spark.featured_table import FEATURES, delete_by_vector, give

COLUMNS = {
    "id": pa.int64(),
    "Name-of": pa.string(),
    "v": pa.int64(),
    "tags": pa.list_(pa.string()),
    DELETED_AT: TIMESTAMP_UTC,
}
ENGINE = ["a change feed", "CHECK constraints"]

ids = st.one_of(st.none(), st.integers(0, 3))
V = CursorColumn("v", "v", CountOrder())
records = st.fixed_dictionaries(
    {
        "id": ids | st.sampled_from([None, "x", "y"]),
        "Name-of": st.sampled_from(["a", "b", "", None]),
        "v": st.one_of(st.none(), st.integers(0, 3)),
        "tags": st.sampled_from([None, [], ["x", None]]),
        DELETED_AT: st.sampled_from([None, None, None, "2024-01-01T00:00:00Z"]),
    }
)
pages = st.lists(st.lists(records, min_size=1, max_size=6), min_size=1, max_size=3)


class Lake:
    """A table that is merged into. feature: one that has it merged by delta-rs, or none. by: what partitions it."""

    def __init__(
        self, folder: Path, identity: Identity, feature: str = "", *, history: bool = False, by: Sequence[str] = ()
    ) -> None:
        self.root = folder / (feature or "plain")
        self.rows = RecordBatchBuilder(COLUMNS, generation=1)
        schema = self.rows.schema
        StreamTable(self.root, "shop", "users", schema, partition_by=by)
        if feature:
            given_ = FEATURES[feature]
            give(self.root, replace(given_, properties={**given_.properties, **_small(feature)}))
        self.table = StreamTable(self.root, "shop", "users", schema)
        beside = LocalFolder(folder / f"{feature}_history") if history else None
        location = StreamLocation("users", self.table.root, history=beside)
        opened = partial(OpenTables("shop").history, location, self.table, ("id",))
        self.mode = AppendDedup(WriteModeSetup(self.table, schema, identity, ("id",), opened))
        self.mode.prepare(run_inline)
        assert len(self.mode.tables) == 1 + history
        self.saved = TableState("incremental", "append_dedup")

    def take(self, batches: Sequence[pa.RecordBatch]) -> Committed:
        files: list[DataFile] = []
        for batch in batches:
            writer = TableWriter(self.mode.staging, batch.schema, (), self.table.partition_by)
            writer.write([batch])
            files += writer.close()
        rows = CommitRows(files, Receipt(read=sum(file.rows for file in files)))
        self.saved = structs.replace(self.saved, state={"n": (self.saved.records, len(files))})
        done = self.mode.commit(self.saved, rows)
        self.saved = done.saved
        return done

    def contents(self) -> Counter[str]:
        return Counter(map(repr, pa.table(DeltaTable(str(self.root)).scan(columns=list(COLUMNS))).to_pylist()))


def row(id: int | None, v: int | None, name: str | None = "a") -> dict[str, Any]:
    return {"id": id, "Name-of": name, "v": v, "tags": None, DELETED_AT: None}


def _small(feature: str) -> dict[str, str]:
    return {"delta.constraints.small": "v IS NULL OR v < 100"} if feature == "CHECK constraints" else {}


@settings(max_examples=10, deadline=None, phases=[Phase.explicit, Phase.generate])  # shrinking takes minutes
@example([[[row(1, 2)]]], [1, 1, 2], None, False, ("id",), "a change feed", False)
@example([[[row(1, 1, None)]], [[row(1, 2, None)]]], [], None, False, ("id", "Name-of"), "a change feed", False)
@example([[[row(1, 2)]], [[row(1, 1)]]], [], V, True, ("id",), "CHECK constraints", True)
@example([[[row(None, 1)]], [[row(None, 1, None)]]], [None, 0, None], None, False, ("id",), "a change feed", False)
@given(
    rounds=st.lists(pages, min_size=1, max_size=2),
    theirs=st.lists(ids, max_size=4),
    cursor=st.sampled_from([None, V]),
    hard=st.booleans(),
    keys=st.sampled_from([("id",), ("id", "Name-of")]),
    feature=st.sampled_from(ENGINE),
    history=st.booleans(),
)
def test_both_ways_of_merging_give_the_same_table(  # noqa: PLR0917 - Hypothesis gives them by name
    rounds: list[list[list[dict[str, Any]]]],
    theirs: list[int | None],
    cursor: CursorColumn | None,
    hard: bool,  # noqa: FBT001
    keys: tuple[str, ...],
    feature: str,
    history: bool,  # noqa: FBT001
) -> None:
    with TemporaryDirectory() as folder:
        identity = Identity(keys, cursor, hard)
        lakes = [Lake(Path(folder), identity, one, history=history) for one in ("", feature)]
        if theirs:
            # Another writer knows no keys: one may be there several times.
            more = pa.table({"id": pa.array(theirs, pa.int64()), "v": pa.array([1] * len(theirs), pa.int64())})
            for lake in lakes:
                write_deltalake(str(lake.root), more, mode="append", schema_mode="merge")
        for read in rounds:
            batches = [lakes[0].rows.batch(page) for page in read]
            files, engine = (lake.take(batches) for lake in lakes)

            assert engine.receipt == files.receipt
            assert engine.saved.records == files.saved.records
            assert lakes[1].contents() == lakes[0].contents()
        # What others wrote is counted by the first merge.
        assert lakes[1].saved.records == lakes[1].contents().total() or not any(map(any, rounds))


@pytest.mark.parametrize("feature", ["", "a change feed"])
def test_copies_of_a_row_without_a_key_give_way_to_the_row_that_is_read_again(tmp_path: Path, feature: str) -> None:
    lake = Lake(tmp_path, Identity(("id",)), feature)
    page = lake.rows.batch([row(None, 1), row(2, 1)])
    lake.take([page])
    write_deltalake(str(lake.root), pa.table(DeltaTable(str(lake.root)).scan()), mode="append")

    done = lake.take([page])

    assert (done.receipt.added, done.receipt.removed) == (2, 4)
    assert lake.contents() == Counter(map(repr, (row(None, 1), row(2, 1))))


@pytest.mark.parametrize("feature", ["", "a change feed"])
def test_rows_of_another_writer_without_key_and_id_stay_beside_what_is_read(tmp_path: Path, feature: str) -> None:
    lake = Lake(tmp_path, Identity(("id",)), feature)
    theirs = [row(None, 1, None), row(None, 2, None)]
    write_deltalake(
        str(lake.root), pa.Table.from_pylist(theirs, pa.schema(COLUMNS)), mode="append", schema_mode="merge"
    )

    for _ in range(2):
        lake.take([lake.rows.batch([row(None, 1, None)])])

    assert lake.contents() == Counter(map(repr, [*theirs, theirs[0]]))


def test_files_that_were_read_are_gone_once_their_rows_are_merged(tmp_path: Path) -> None:
    lake = Lake(tmp_path, Identity(("id",)), "a change feed")
    one = {"id": 1, "Name-of": "a", "v": 1, "tags": None, DELETED_AT: None}

    first = lake.take([lake.rows.batch([one])])
    second = lake.take([lake.rows.batch([{**one, "v": 2}, {**one, "id": 2}])])

    there = {path.name for path in lake.root.glob("*.parquet")}
    named = {uri.rpartition("/")[2] for uri in DeltaTable(str(lake.root)).file_uris()}
    assert {file.path for file in second.files} <= named
    assert there == named | {file.path for file in first.files}


def test_a_row_that_a_vector_deleted_is_not_there_to_be_replaced(tmp_path: Path) -> None:
    lake = Lake(tmp_path, Identity(("id",), V), "deletion vectors")
    page = [{"id": n, "Name-of": "a", "v": 9, "tags": None, DELETED_AT: None} for n in range(4)]
    (file,) = lake.take([lake.rows.batch(page)]).files
    there = pa.table(DeltaTable(str(lake.root)).scan(columns=["id"]))["id"].to_pylist()
    delete_by_vector(lake.root, {file.path: [there.index(0), there.index(1)]})
    # Older than the row that was deleted, which would win over it.
    done = lake.take([lake.rows.batch([{**page[0], "v": 1}, {**page[2], "v": 10}])])

    assert (done.receipt.added, done.receipt.removed, done.receipt.stale, done.saved.records) == (2, 1, 0, 3)
    found = pa.table(DeltaTable(str(lake.root)).scan(columns=["id", "v"])).to_pylist()
    assert sorted((row["id"], row["v"]) for row in found) == [(0, 1), (2, 10), (3, 9)]


def test_a_row_whose_key_its_column_holds_only_since_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    lake = Lake(tmp_path, Identity(("id",)), "a change feed")
    lake.take([lake.rows.batch([row(1, 1)])])
    # As it came while the column was narrower.
    note = {"changes": [change("id", "NULLED", "more than 32 bits", 7)]}
    there = lake.rows.batch([row(2, 1)]).to_pylist()[0] | {"id": None, META: note}
    write_deltalake(str(lake.root), pa.Table.from_pylist([there], lake.rows.schema), mode="append")
    version = DeltaTable(str(lake.root)).version()

    with pytest.raises(FatalError, match="rows have null in 'id', a column of the primary key"):
        lake.take([lake.rows.batch([row(7, 2)])])

    assert DeltaTable(str(lake.root)).version() == version


def test_an_empty_string_that_no_partition_holds_is_named_as_what_cannot_be_matched(tmp_path: Path) -> None:
    lake = Lake(tmp_path, Identity(("Name-of", "id")), "a change feed", by=("Name-of",))
    lake.take([without_empty(lake.rows.batch([row(1, 1), row(2, 1, "")]), lake.table.partition_by)])
    version = DeltaTable(str(lake.root)).version()

    with pytest.raises(FatalError, match=r"an empty string in 'Name-of', a column .* without Name-of in partition_by"):
        lake.take([lake.rows.batch([row(1, 2)])])

    assert DeltaTable(str(lake.root)).version() == version
