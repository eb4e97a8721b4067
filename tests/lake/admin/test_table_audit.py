"""Tables that the kit and others write, restore, join and clean up, and what their receipts add up to."""

import itertools
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk.lake.admin.table_audit import Audit, OtherCommit, audit
from cdk.lake.delta.receipt import RECEIPT, Receipt
from cdk.lake.storage.folder import LocalFolder
from tests.spark.users_table import ids, opened, saved, wrote


class World:
    """A table of ids, written by the kit and by a neighbour. rows: what it has, by the model. others: as the model."""

    def __init__(self, root: Path) -> None:
        self.root, self._next = root, itertools.count()
        self.read = self.others = 0
        self.rows: list[int] = []
        self.versions: dict[int, list[int]] = {}
        opened(root)
        self._seen()

    def append(self) -> None:
        new = [next(self._next) for _ in range(3)]
        opened(self.root).commit(saved({"page": new[0]}), wrote(self.root, *new))
        self.rows = sorted([*self.rows, *new])
        self.read += len(new)

    def overwrite(self) -> None:
        new = [next(self._next) for _ in range(2)]
        opened(self.root).commit(saved({"page": new[0]}), wrote(self.root, *new), overwrite=True)
        self.rows, self.read = new, self.read + len(new)

    def move_state(self) -> None:
        opened(self.root).commit(saved({"page": next(self._next)}))

    def add_a_column(self) -> None:
        opened(self.root).add([pa.field(f"late{next(self._next)}", pa.string())])

    def neighbour_appends(self) -> None:
        new = next(self._next)
        write_deltalake(str(self.root), pa.table({"id": pa.array([new])}), mode="append", schema_mode="merge")
        self.rows, self.others = sorted([*self.rows, new]), self.others + 1

    def neighbour_deletes(self) -> None:
        if self.rows:
            DeltaTable(str(self.root)).delete(f"id = {self.rows[0]}")
            self.rows, self.others = self.rows[1:], self.others - 1

    def neighbour_restores(self) -> None:
        to = min(self.versions, key=lambda version: version * 7 % 5)
        before = len(self.rows)
        if to < DeltaTable(str(self.root)).version():
            DeltaTable(str(self.root)).restore(to)
            self.rows = self.versions[to]
            self.others += len(self.rows) - before

    def neighbour_optimizes(self) -> None:
        DeltaTable(str(self.root)).optimize.compact()

    def _seen(self) -> None:
        self.versions[int(DeltaTable(str(self.root)).version())] = self.rows

    def do(self, name: str) -> None:
        getattr(self, name)()
        self._seen()


ACTS = [name for name in vars(World) if not name.startswith("_") and name != "do"]


@given(st.lists(st.sampled_from(ACTS), max_size=12))
@settings(max_examples=25, deadline=None)
def test_receipts_and_the_commits_of_others_add_up_to_the_rows_that_are_there(
    tmp_path_factory: pytest.TempPathFactory, acts: list[str]
) -> None:
    root = tmp_path_factory.mktemp("lake") / "users"
    world = World(root)
    for act in acts:
        world.do(act)

    found = audit(LocalFolder(root))
    assert ids(root) == world.rows
    assert list(found.contradictions) == []
    assert (found.since, found.start) == (0, 0)
    assert found.receipt.read == world.read
    assert found.others_gained == world.others
    gained = found.receipt.added - found.receipt.removed
    assert gained + world.others == found.rows == found.in_files == len(world.rows)


def test_what_others_did_is_told_by_the_commits_of_the_log(root: Path) -> None:
    world = World(root)
    for act in ("append", "neighbour_deletes", "overwrite"):
        world.do(act)
    DeltaTable(str(root)).restore(1)

    found = audit(LocalFolder(root))
    assert found.other_commits == [OtherCommit(2, "DELETE", -1), OtherCommit(4, "RESTORE", 1)]
    (note,) = found.notes()
    assert note.endswith(
        "without a receipt added or removed rows: version 2, DELETE: 1 row fewer; version 4, RESTORE: 1 row more"
    )
    assert found.summary() == (
        "2 receipts: 5 added, 2 removed; 5 read, 0 of them skipped and 0 merged away; "
        "other commits: as many rows as before; the table has 3 rows"
    )


def test_a_log_that_was_cleaned_up_is_added_up_from_the_oldest_version_it_has(root: Path) -> None:
    world = World(root)
    for act in ("append", "append", "append"):
        world.do(act)
    table = DeltaTable(str(root))
    table.create_checkpoint()
    for version in range(3):
        (root / "_delta_log" / f"{version:020}.json").unlink()
    world.do("append")
    world.do("neighbour_deletes")

    found = audit(LocalFolder(root))
    assert (found.since, found.start, found.receipts, found.contradictions) == (3, 9, 1, [])
    assert (found.receipt, found.others_gained) == (Receipt(read=3, staged=3, added=3), -1)
    assert found.in_files == len(world.rows) == 11
    assert next(found.notes()) == (
        "the log was cleaned up: the receipts are added up from version 3 on, which had 9 rows"
    )
    assert found.summary().startswith("9 rows at version 3; 1 receipt: 3 added")


def test_a_log_of_which_only_the_last_version_is_left_says_so(root: Path) -> None:
    world = World(root)
    world.do("append")
    DeltaTable(str(root)).create_checkpoint()
    for version in range(2):
        (root / "_delta_log" / f"{version:020}.json").unlink()

    found = audit(LocalFolder(root))
    assert (found.since, found.start, found.receipts, found.in_files, found.contradictions) == (1, 3, 0, 3, [])


Damage = Callable[[list[dict[str, Any]], Path], None]


def receipt_says_more(lines: list[dict[str, Any]], root: Path) -> None:
    del root
    for line in lines:
        if RECEIPT in line.get("commitInfo", {}):
            line["commitInfo"][RECEIPT] = Receipt(read=4, staged=4, added=4).to_text()


def receipt_is_none(lines: list[dict[str, Any]], root: Path) -> None:
    del root
    for line in lines:
        if RECEIPT in line.get("commitInfo", {}):
            line["commitInfo"][RECEIPT] = "gone"


def log_counts_less(lines: list[dict[str, Any]], root: Path) -> None:
    del root
    for line in lines:
        if "add" in line:
            line["add"]["stats"] = '{"numRecords": 1}'


def file_holds_less(lines: list[dict[str, Any]], root: Path) -> None:
    for line in lines:
        if "add" in line:
            pq.write_table(pq.read_table(root / line["add"]["path"]).slice(1), root / line["add"]["path"])


def rows_only_move(lines: list[dict[str, Any]], root: Path) -> None:
    del root
    for line in lines:
        line.get("commitInfo", {}).pop(RECEIPT, None)
        if "add" in line:
            line["add"]["dataChange"] = False


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (
            receipt_says_more,
            "version 1 contradicts its receipt: found 4 on the left and 3 on the right of [^.]* leave$",
        ),
        (receipt_is_none, "version 1 contradicts its receipt: found 'gone', expected the receipt of a commit"),
        (log_counts_less, "has 3 rows by its footer, and 1 by the log"),
        (file_holds_less, "has 2 rows by its footer, and 3 by the log"),
        (rows_only_move, "version 1, WRITE, claims only to move rows, and has 3 rows more"),
    ],
)
def test_figures_that_contradict_each_other_are_found(root: Path, damage: Damage, text: str) -> None:
    World(root).do("append")
    log = root / "_delta_log" / f"{1:020}.json"
    lines = [orjson.loads(line) for line in log.read_bytes().splitlines()]
    damage(lines, root)
    log.write_bytes(b"\n".join(map(orjson.dumps, lines)))

    assert [one for one in audit(LocalFolder(root)).contradictions if re.search(text, one)]


def test_a_file_that_is_gone_leaves_no_count(root: Path) -> None:
    World(root).do("append")
    gone = next(root.glob("part-*.parquet"))
    gone.unlink()

    found = audit(LocalFolder(root))
    assert (found.rows, found.in_files) == (3, None)
    assert found.contradictions == [f"a file of the table is missing: {gone.name}"]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\0" * 40 + b"\x20\0\0\0PAR1"])
def test_a_file_that_is_damaged_leaves_no_count(root: Path, content: bytes) -> None:
    World(root).do("append")
    damaged = next(root.glob("part-*.parquet"))
    damaged.write_bytes(content)

    found = audit(LocalFolder(root))
    assert (found.rows, found.in_files) == (3, None)
    (text,) = found.contradictions
    assert text.startswith(f"a file of the table is damaged: {damaged.name}: ")


def test_rows_that_a_deletion_vector_takes_are_none(root: Path) -> None:
    World(root).do("append")
    name = next(root.glob("part-*.parquet")).name
    old = {"path": name, "deletionTimestamp": 0, "dataChange": True}
    new = {
        "path": name,
        "partitionValues": {},
        "size": 1,
        "modificationTime": 0,
        "dataChange": True,
        "stats": '{"numRecords": 3}',
        "deletionVector": {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 2},
    }
    lines = [{"commitInfo": {"operation": "DELETE"}}, {"remove": old}, {"add": new}]
    copy = root.with_name("copy")
    shutil.copytree(root, copy)
    (copy / "_delta_log" / f"{2:020}.json").write_bytes(b"\n".join(map(orjson.dumps, lines)))

    found = audit(LocalFolder(copy))
    assert (found.other_commits, found.rows, found.in_files, found.contradictions) == (
        [OtherCommit(2, "DELETE", -2)],
        1,
        1,
        [],
    )


def test_files_whose_rows_the_log_does_not_count_are_said() -> None:
    found = Audit(0, other_commits=[OtherCommit(4, "WRITE", None)], rows=None, in_files=7)

    assert found.others_gained is None
    assert found.summary().endswith("other commits: an unknown number of rows; the table has 7 rows")
    assert found.to_json()["other_commits"] == [{"version": 4, "operation": "WRITE", "gained": None}]
