"""What the state of many partitions costs a whole sync: `python benchmarks/spark/partitions.py [--partitions 100000]`.

A first sync in the process of the driver, of a source that takes no time, and one before which one in a hundred has
moved, each in a process of its own. CPU, for others may use the machine: of the process, and what its commits took of
it. What they cost by themselves, at a million partitions as well, `benchmarks/state/tables.py` prints.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
from sources import ScaleSource

from cdk.base.task_map import TaskMap, run_inline
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.parquet.writer import DataFile
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.loop.stream_sync import StreamSync
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, TargetOptions
from cdk.sync.tasks.workers import IN_PROCESS

COMMIT = StreamSync.commit


def sync(folder: Path, partitions: int, interval: float, run: int) -> str:
    """One sync; what it cost."""
    moving = 1 if run == 1 else 100
    seconds: list[float] = []
    states = folder / "customers" / "_cdk_state" / "bench"

    def timed(stream: StreamSync, files: Sequence[DataFile], spread: TaskMap = run_inline) -> None:
        cpu = time.process_time()
        COMMIT(stream, files, spread)
        seconds.append(time.process_time() - cpu)

    pipeline = Pipeline(
        name="bench",
        source=SourceOptions(connector="sources.py", config={"customers": partitions, "every": moving, "value": run}),
        target=TargetOptions(path=str(folder), join_small_files=False),
        checkpoint_interval=timedelta(seconds=interval),
    )
    before = set(states.glob("*"))
    cpu = time.process_time()
    with patch.object(StreamSync, "commit", timed):
        result = SyncRunner(pipeline, ScaleSource(), workers=IN_PROCESS).run()
    cpu = time.process_time() - cpu
    assert result.ok
    written = sum(path.stat().st_size for path in states.glob("*") if path not in before)
    table = StreamTable(folder / "customers", "bench", "customers", pa.schema([]))
    assert table.state_version is not None
    state = sum((states / name).stat().st_size for name in table.blobs.names([table.state_version]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    commits = f"{len(seconds)} commits took {sum(seconds):.2f} s, {sum(seconds) / cpu:.1%}"
    bytes_ = f"states: wrote {written:,} bytes, {written / state:.2f} times the last"
    return f"{cpu:6.1f} s CPU; {commits}; {bytes_}; peak memory {peak:,} MB"


def main() -> None:
    """Two syncs, each in a process of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--interval", type=float, default=10, help="seconds between commits, at most")
    parser.add_argument("--run", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.run:
        print(sync(chosen.folder, chosen.partitions, chosen.interval, chosen.run), flush=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        for run, name in ((1, "first"), (2, "next")):
            print(f"{name:6}", end="", flush=True)
            command = [sys.executable, __file__, "--folder", folder, "--run", str(run)]
            more = ["--partitions", str(chosen.partitions), "--interval", str(chosen.interval)]
            subprocess.run([*command, *more], check=True)


if __name__ == "__main__":
    main()
