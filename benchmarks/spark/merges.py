"""Merging 10,000 changed rows into a table, three ways: `merges.py FOLDER [--rows 1000000] [--rounds 3]`.

`here` and `spark` are the kit's own merge, in this process or in Spark tasks, committed through a table of the kit;
`delta-rs` is the MERGE of its own. Keys come in the order of the table's rows, or in none: then every file holds some
of those that changed. Each way merges into the same table: what it adds is a copy's, made of hard links.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from msgspec.structs import replace
from processes import KINDS, Usage, forget_peaks, mine

from cdk.base.task_map import TaskMap, run_inline
from cdk.lake.arrow.columns import OWN_COLUMNS, RAW_ID, table_schema
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_state import TableState
from cdk.lake.parquet.dedup import CursorColumn, Identity
from cdk.lake.parquet.merge import TableMerge
from cdk.lake.parquet.writer import DataFile, TableWriter
from cdk.lake.storage.folder import LocalFolder
from cdk.spark.cluster.driver import driver_of
from cdk.spark.cluster.executors import on_executors
from cdk.spark.cluster.session import open_session
from cdk.streams.order import CountOrder
from cdk.sync.settings.pipeline_file import SparkOptions

COLUMNS = {"id": pa.int64(), "version": pa.int64(), "uuid": pa.string(), "name": pa.string(), "amount": pa.float64()}
SCHEMA = table_schema(COLUMNS)
CHANGED = 10_000
FILE_ROWS = 250_000
_KEYS = ("sequential", "random")
NEW = 10
"""One changed row in so many has a key that the table has not."""


Way: TypeAlias = Callable[[Path, list[DataFile]], int]
"""Merges files into the table of a folder, and says how many of its files it replaced."""


@dataclass(frozen=True)
class Work:
    """A table in a folder, `rows` long, and how its keys lie."""

    folder: Path
    rows: int
    keys: str

    def make(self) -> None:
        """Write the table."""
        table = _opened(self.folder)
        order = np.arange(self.rows)
        if self.keys == "random":
            np.random.default_rng(1).shuffle(order)
        files: list[DataFile] = []
        for first in range(0, self.rows, FILE_ROWS):
            files += _written(self.folder, order[first : first + FILE_ROWS], version=1)
        table.commit(TableState("incremental", "append"), files)

    def changed(self, number: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """Keys of the rows that change: recent ones where keys grow with time, any where they are random."""
        chance = np.random.default_rng(number)
        low = 0 if self.keys == "random" else self.rows - self.rows // 20
        old = chance.choice(np.arange(low, self.rows), CHANGED - CHANGED // NEW, replace=False)
        return np.concatenate([old, np.arange(self.rows, self.rows + CHANGED // NEW)])


def main() -> None:
    """Make the tables, merge, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--make", choices=_KEYS, help="only make the table of --rows in FOLDER, with such keys")
    given = parser.parse_args()
    if given.make:
        Work(given.folder, given.rows[0], given.make).make()
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    session = open_session("merges", SparkOptions(), given.folder / "spark.log")
    ways: dict[str, Way] = {
        "here": partial(_merged, run_inline, rows_here=10**12),
        "spark": partial(_merged, partial(on_executors, driver_of(session)), rows_here=-1),
        "delta-rs": _by_delta,
    }
    on_executors(driver_of(session), _imported, [0, 1])
    print("| rows | keys | way | wall s | CPU s | driver s | JVM s | worker s | peak MB | files rewritten |")
    print(f"|{'---|' * 10}")
    for rows in given.rows:
        for keys in _KEYS:
            work = Work(given.folder / f"{keys}-{rows}", rows, keys)
            # Elsewhere: what a large table takes to make would stay in this process, and in its peaks.
            making = [sys.executable, __file__, str(work.folder), "--rows", str(rows), "--make", keys]
            subprocess.run(making, check=True)
            seen: dict[str, list[tuple[Usage, int]]] = {way: [] for way in ways}
            for number in range(given.rounds):
                for way, merge in ways.items():
                    seen[way].append(_measured(work, merge, number))
            for way, uses in seen.items():
                print(f"| {rows:,} | {keys} | {way} | {' | '.join(_cells(uses))} |", flush=True)
            shutil.rmtree(work.folder)


def _measured(work: Work, merge: Way, number: int) -> tuple[Usage, int]:
    copy = work.folder.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(work.folder, copy, copy_function=os.link)
    staged = _written(copy, work.changed(number), version=2)
    forget_peaks()
    before = mine()
    rewritten = merge(copy, staged)
    used = mine().since(before)
    count = DeltaTable(copy).to_pyarrow_dataset().count_rows()
    if count != work.rows + CHANGED // NEW:
        sys.exit(f"{count:,} rows after the merge, expected {work.rows + CHANGED // NEW:,}")
    return used, rewritten


def _merged(spread: TaskMap, folder: Path, staged: list[DataFile], *, rows_here: int) -> int:
    table = _opened(folder)
    identity = Identity(("id",), CursorColumn("version", "version", CountOrder()))
    merge = TableMerge(table.layout(), identity, spread, small_rows=rows_here)
    merged = merge(staged, table.files("id"))
    assert table.saved is not None
    table.commit(replace(table.saved, records=0), merged.add, remove=merged.remove)
    return len(merged.remove)


def _by_delta(folder: Path, staged: list[DataFile]) -> int:
    rows = pa.dataset.dataset([str(folder / file.path) for file in staged]).to_table()
    merge = DeltaTable(folder).merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
    told = merge.when_matched_update_all("s.version >= t.version").when_not_matched_insert_all().execute()
    return int(told["num_target_files_removed"])


def _imported(number: int) -> int:
    """Let a worker begin: unpickling what this module uses has it imported there."""
    return number + len(TableMerge.__name__)


def _opened(folder: Path) -> StreamTable:
    return StreamTable(LocalFolder(folder), "bench", "rows", SCHEMA)


def _written(folder: Path, ids: "np.ndarray[tuple[int], np.dtype[np.int64]]", *, version: int) -> list[DataFile]:
    """Rows with these ids, in a file of their own."""
    size = len(ids)
    hashes = (ids * 2_654_435_761) % 2**48
    uuids = [f"{one:012x}-4000-a000-{one * 7_919 % 2**48:012x}" for one in hashes.tolist()]
    columns = {
        "id": pa.array(ids),
        "version": pa.array(np.full(size, version)),
        "uuid": pa.array(uuids),
        "name": pa.array(np.char.add("name ", (hashes % 1_000).astype(str)).tolist()),
        "amount": pa.array((hashes % 1_000_000) / 100),
        **{name: pa.nulls(size, kind) for name, kind in OWN_COLUMNS.items()},
        RAW_ID: pa.array([f"{version:08x}{one:032x}" for one in ids.tolist()]),
    }
    writer = TableWriter(LocalFolder(folder), SCHEMA, ("id",))
    writer.write([pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)])
    return writer.close()


def _cells(uses: list[tuple[Usage, int]]) -> Iterator[str]:
    def middle(of: Callable[[Usage], float]) -> float:
        return median(of(usage) for usage, _ in uses)

    yield f"{middle(lambda usage: usage.wall):.2f}"
    yield f"{middle(lambda usage: usage.total):.2f}"
    for kind in KINDS:
        yield f"{median(usage.cpu[kind] for usage, _ in uses):.2f}"
    yield f"{middle(lambda usage: max(usage.peak['driver'], usage.peak['worker'])):.0f}"
    yield str(max(count for _, count in uses))


if __name__ == "__main__":
    main()
