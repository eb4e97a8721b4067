"""What the state of many partitions costs a sync: `python benchmarks/state/tables.py [--partitions 1000000]`.

Without Spark, API and rows: slices are planned, taken as read, and committed to a table, in one process for each line.

grow     a first read in 12 commits, and all bytes that they wrote; beside them slices are planned, and nothing is read
open     the table, and the first slice planned, by a process that does nothing else
move     the same, and one partition in a hundred moves, in one commit
log      a state log follows the table: its first record, and that of the commit before
find     where one partition stands, without a sync
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from secrets import token_hex

import pyarrow as pa

from cdk import Item, Partition, Slice, Stream
from cdk.lake.admin.edits import narrowed
from cdk.lake.admin.locate import OpenTables, StreamLocation
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_state import TableState
from cdk.lake.storage.folder import LocalFolder
from cdk.state import StateKey, StateLog
from cdk.state.position import Done, Edge
from cdk.state.stores.local import LocalStore
from cdk.streams.count_cursor import CountCursor
from cdk.sync.loop.slice_schedule import SliceSchedule
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.tables.state_log_mirror import mirror_states, state_check
from cdk.sync.tasks.messages import SliceResult

COMMITS = 12
SCHEMA = pa.schema([("id", pa.int64())])
PIPELINE = Pipeline.model_validate({"name": "bench", "source": {"connector": "bench"}, "target": {"path": "."}})


class Customers(Stream):
    """A counter for each customer."""

    name = "customers"
    cursor = CountCursor("seq")

    def partitions(self) -> Iterator[Partition]:
        return (Partition.of(customer=f"c{n:07}") for n in range(self.config["partitions"]))

    def read_records(self, slice: Slice) -> Iterator[Item]:
        yield {"seq": 1}


@dataclass
class Run:
    """A sync of the stream, as its driver sees it."""

    folder: Path
    partitions: int
    commit_seconds: float = 0.0
    written: int = 0

    def __post_init__(self) -> None:
        self.table = StreamTable(self.folder, "bench", "customers", SCHEMA)
        self.saved = self.table.saved or TableState("incremental", "append")
        stream = Customers({"partitions": self.partitions})
        self.schedule = SliceSchedule(stream, self.saved.state, single=False, check=lambda _: None)
        self.check = state_check(PIPELINE, ["a-secret-of-the-config"])
        self.slices = iter(self.schedule.next, None)

    def move(self, count: int, value: int) -> None:
        """Take the next slices as read, up to a value of the cursor."""
        for slice in islice(self.slices, count):
            seen = {token_hex(10): value}
            self.schedule.add_result(slice, SliceResult(0, (Done(),), Edge(value, seen)))

    def commit(self) -> float:
        """Commit the state; CPU seconds."""
        before, cpu = self.files, time.process_time()
        saved = TableState("incremental", "append", state=self.schedule.state())
        self.check("customers", saved)
        self.table.commit(saved)
        cpu = time.process_time() - cpu
        self.commit_seconds += cpu
        self.written += sum(size for name, size in self.files.items() if name not in before)
        return cpu

    @property
    def files(self) -> dict[str, int]:
        """The files of the states and of the log, with their bytes."""
        found = [*self.folder.glob("_cdk_state/*/*"), *self.folder.glob("_delta_log/*")]
        return {path.name: path.stat().st_size for path in found}


def grow(folder: Path, partitions: int) -> str:
    """A first read."""
    cpu = time.process_time()
    run = Run(folder, partitions)
    for _ in range(COMMITS):
        run.move(-(-partitions // COMMITS), 1)
        run.commit()
    cpu = time.process_time() - cpu
    assert run.table.state_version is not None
    state = sum(run.files[name] for name in run.table.blobs.names([run.table.state_version]))
    seconds = f"{run.commit_seconds:.2f} s CPU in {COMMITS} commits, {cpu - run.commit_seconds:.1f} s beside them"
    return f"{seconds}; wrote {run.written:,} bytes, {run.written / state:.2f} times the state"


def open_(folder: Path, partitions: int) -> str:
    """The next sync begins."""
    cpu = time.process_time()
    run = Run(folder, partitions)
    next(run.slices)
    return f"{time.process_time() - cpu:.2f} s CPU"


def move(folder: Path, partitions: int) -> str:
    """The next sync, which commits after one in a hundred."""
    run = Run(folder, partitions)
    run.move(partitions // 100, 2)
    seconds = run.commit()
    return f"{seconds:.2f} s CPU in the commit; wrote {run.written:,} bytes"


def find(folder: Path, partitions: int) -> str:
    """One partition's position."""
    cpu = time.process_time()
    saved = StreamTable(folder, "bench", "customers", SCHEMA).saved
    assert saved is not None
    narrowed(saved, Partition.of(customer=f"c{partitions // 2:07}"))
    return f"{time.process_time() - cpu:.2f} s CPU"


def log(folder: Path, partitions: int) -> str:  # noqa: ARG001 - of all that the table has
    """A record of where the table stands."""
    lake, store = StreamLocation("customers", LocalFolder(folder)), folder.parent / "log"
    before = sum(path.stat().st_size for path in store.rglob("*"))
    cpu = time.process_time()
    states = StateLog(LocalStore(store), StateKey("bench"), max_checkpoint_state_size=2**30)
    mirror_states(states, [lake], OpenTables("bench"), "final", "s1")
    cpu = time.process_time() - cpu
    return f"{cpu:.2f} s CPU; wrote {sum(path.stat().st_size for path in store.rglob('*')) - before:,} bytes"


CASES = {"grow": grow, "log": log, "open": open_, "move": move, "find": find}
ORDER = ("grow", "log", "open", "move", "log", "find")


def main() -> None:
    """Each case in a process of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.case:
        line = CASES[chosen.case](chosen.folder / "table", chosen.partitions)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"{chosen.case:6} {line}; peak memory {peak:,} MB", flush=True)
        return
    print(f"{chosen.partitions:,} partitions")
    with tempfile.TemporaryDirectory() as folder:
        for case in ORDER:
            command = [sys.executable, __file__, "--case", case, "--folder", folder]
            subprocess.run([*command, "--partitions", str(chosen.partitions)], check=True)


if __name__ == "__main__":
    main()
