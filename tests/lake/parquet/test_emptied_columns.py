"""Fields that every row of a table has and no record of a sync: drawn syncs beside a plain model of their table."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk import Item, Json, Page, Record, Slice, Stream
from cdk.lake.admin.locate import OpenTables
from cdk.lake.arrow.columns import RAW_ID
from cdk.lake.delta.write_modes import WriteModeName
from cdk.lake.parquet.emptied_columns import EmptiedColumns
from cdk.lake.parquet.table_files import FilledColumns
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import LocalFolder
from cdk.sync.loop.stream_sync import StreamSync
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tasks.bundle_task import read_bundle
from cdk.sync.tasks.messages import BundleJob
from tests.spark.bundles_here import read_bundle_of

FIELDS = ("a b", "name", "nested", "deep.er")
VALUES: Mapping[str, Json] = {"a b": 1, "name": "n", "nested": {"x": 1}, "deep.er": True}


class Read(NamedTuple):
    """What the source has in one sync."""

    keys: range
    has: Mapping[str, int]
    """Every how many records a field has a value; 0: in none."""

    def records(self) -> list[Record]:
        return [{"id": n, **{f: VALUES[f] for f, k in self.has.items() if k and n % k == 0}} for n in self.keys]


class Source(Stream):
    name = "users"
    primary_key = "id"
    supports_checkpointing = True

    def __init__(self, read: Read, *, declared: bool) -> None:
        super().__init__({})
        self.read = read
        kinds = {"a b": "integer", "name": "string", "deep.er": "boolean"} if declared else {}
        self.schema = {"properties": {"id": {"type": "integer"}, **{f: {"type": k} for f, k in kinds.items()}}}

    def read_records(self, slice: Slice) -> Iterator[Item]:
        records = self.read.records()
        first = int((slice.start.cursor or {}).get("first", 0))
        for n in range(first, len(records), 8):
            yield Page(records[n : n + 8], {"first": n + 8} if n + 8 < len(records) else None)


def warned(
    root: Path,
    read: Read,
    mode: WriteModeName,
    sync: str,
    *,
    declared: bool,
    partition_by: Sequence[str] = (),
    pipeline: str = "shop",
) -> Sequence[str]:
    stream = Source(read, declared=declared)
    plan = StreamPlan(stream, LocalFolder(root), "full_refresh", mode, partition_by=tuple(partition_by))
    run = StreamSync(plan, OpenTables(pipeline), sync=sync)
    while run.active:
        # A bundle without time: each page is committed by itself.
        run.commit(read_bundle_of(run, 1, lambda pieces: read_bundle(BundleJob({0: run.target}, 0, 1), pieces)))
    return [text for text in run.current_report.warnings if "found no" in text]


@st.composite
def reads(draw: st.DrawFn) -> Read:
    start, count = draw(st.integers(0, 30)), draw(st.sampled_from([2, 3, 9, 10, 25, 50]))
    return Read(range(start, start + count), {f: draw(st.sampled_from([0, 1, 1, 2])) for f in FIELDS})


MODES: Sequence[WriteModeName] = ("append", "overwrite", "append_dedup")


PIPELINES = st.sampled_from(["shop", "shop", "store"])


FULL, OTHER = Read(range(12), {"name": 1}), Read(range(12, 24), {"deep.er": 1})


@example([(FULL, "shop"), (OTHER, "store"), (FULL, "shop"), (OTHER, "store")], "overwrite", True, ())
@example([(FULL, "shop"), (OTHER, "shop")], "append_dedup", True, ("name",))
@given(
    st.lists(st.tuples(reads(), PIPELINES), min_size=2, max_size=4),
    st.sampled_from(MODES),
    st.booleans(),
    st.sampled_from([(), ("name",)]),
)
@settings(max_examples=25, deadline=None)
def test_fields_that_all_rows_had_and_no_record_has_are_named(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: list[tuple[Read, str]],
    mode: WriteModeName,
    declared: bool,  # noqa: FBT001 - drawn
    parts: Sequence[str],
) -> None:
    root = tmp_path_factory.mktemp("lake") / "users"
    table: list[Record] = []
    last = ""
    for n, (read, other) in enumerate(drawn):
        # A second pipeline that adds to a table has its state forked from the first.
        pipeline = other if mode == "overwrite" else "shop"
        records = read.records()
        partition_by = parts if declared else ()
        texts = warned(root, read, mode, f"s{n}", declared=declared, partition_by=partition_by, pipeline=pipeline)
        emptied = [
            field for field in FIELDS if all(field in row for row in table) and not any(field in row for row in records)
        ]
        columns = ["a_b" if field == "a b" else field for field in emptied]
        enough = 3 if len(table) >= 50 else 10
        # Another pipeline in the same table may have other fields.
        expected = columns if last == pipeline and len(table) >= 10 and len(records) >= enough else []
        last = pipeline

        assert len(texts) == bool(expected), texts
        for text in texts:
            listed = text.partition(" in any of the ")[0]
            assert sorted(listed.removeprefix("users: found no ").split(", ")) == sorted(map(repr, expected))
            assert f"{len(records)} records of this sync" in text
            assert f"all {len(table)} existing rows" in text
        match mode:
            case "append":
                table += records
            case "overwrite":
                table = records
            case "append_dedup":
                newer = {row["id"] for row in records}
                table = [row for row in table if row["id"] not in newer] + records


def test_a_field_that_is_new_is_named_beside_one_that_is_gone(tmp_path: Path) -> None:
    before, after = Read(range(12), {"name": 1, "a b": 1}), Read(range(12, 24), {"name": 1, "deep.er": 1})
    assert warned(tmp_path, before, "append", "s1", declared=False) == []

    assert warned(tmp_path, after, "append", "s2", declared=False) == [
        (
            "users: found no 'a_b' in any of the 12 records of this sync, expected some: all 12 existing rows have a "
            "value. Check a record of the source, which may have renamed the field (new: 'deep.er')"
        )
    ]
    # Now no longer each row has it.
    assert warned(tmp_path, after, "append", "s3", declared=False) == []


@pytest.mark.parametrize("turned", [False, True])
def test_a_column_that_a_file_lacks_is_empty_there(*, turned: bool) -> None:
    def file(**nulls: int) -> DataFile:
        return DataFile("f", 1, 10, 0, json.dumps({"nullCount": {RAW_ID: 0, "id": 0, **nulls}}))

    emptied = EmptiedColumns(lambda: FilledColumns(50, full={"id", "name"}, some={"id", "name"}))
    files = [file(), file(name=10, mail=0)]
    emptied.add(files[::-1] if turned else files)

    text = emptied.warning()
    assert text.startswith("found no 'name' in any of the 20 records")
    assert "mail" not in text
    assert "(new" not in text
