"""A sync whose slices take unlike times: `python benchmarks/spark/uneven.py [--parts 50000] [--start needed]`.

Each line is a sync of its own, in processes of its own. Nothing but waiting takes time in the stream, so the least is
(all waiting) / concurrency, and then the last of the long slices alone; `x` is against that sum. `gap` is the longest
time that a row waited for its commit, from when its page came: while one long slice is all that is left to read, there
is nothing to commit, however long that takes.

rolling      every 2,500th slice has 250 times the pages of the others
stuck        one slice waits for a minute without a checkpoint, beside 3,000 short ones
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from processes import run

from cdk.base.values import Json
from cdk.lake.arrow.columns import EXTRACTED_AT

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Work:
    """What is read. parts: slices. every: which of them are long. longer: how many times. wait: seconds of a page.

    checkpoints: whether a long slice has pages, or is one.
    """

    parts: int
    every: int
    longer: int
    wait: float
    checkpoints: bool

    def least(self, concurrency: int) -> float:
        """Seconds that no way of reading can undercut by much."""
        long = self.parts // self.every
        waiting = (self.parts - long + long * self.longer) * self.wait
        return waiting / concurrency + self.longer * self.wait

    @property
    def rows(self) -> int:
        """Rows of the table."""
        long = self.parts // self.every
        return self.parts - long + (long * self.longer if self.checkpoints else long)


def main() -> None:
    """Run the cases and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--parts", type=int, default=50_000)
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--interval", type=int, default=10, help="seconds between commits")
    parser.add_argument("--start", default="needed", help="when Spark starts: needed, always, never")
    parser.add_argument("--cases", default="rolling,stuck")
    given = parser.parse_args()
    cases = {
        "rolling": (Work(given.parts, 2_500, 250, 0.1, checkpoints=True), given.concurrency),
        "stuck": (Work(3_001, 3_001, 600, 0.1, checkpoints=False), min(given.concurrency, 8)),
    }
    print("| case | rows | wall s | least s | x | CPU s | commits | gap s |\n|---|---|---|---|---|---|---|---|")
    for name in given.cases.split(","):
        work, concurrency = cases[name]
        print(f"| {name} | {_measured(work, concurrency, given.interval, given.start)} |", flush=True)


def _measured(work: Work, concurrency: int, interval: int, start: str) -> str:
    with tempfile.TemporaryDirectory(prefix="uneven-") as folder:
        path, report = Path(folder, "pipeline.yaml"), Path(folder, "report.json")
        config = {key: getattr(work, key) for key in ("parts", "every", "longer", "wait", "checkpoints")}
        pipeline: Mapping[str, Json] = {
            "name": "uneven",
            "source": {"connector": str(HERE / "sources.py"), "config": config},
            "target": {"path": f"{folder}/tables"},
            # An overwrite shows all rows at its end, whenever they were committed.
            "streams": {"uneven": {"write_mode": "append"}},
            "concurrency": concurrency,
            "checkpoint_interval": f"{interval}s",
            "spark": {"start": start, "master": "local[2]"},
        }
        path.write_bytes(orjson.dumps(pipeline))
        command: Sequence[str | Path] = [
            Path(sys.executable).with_name("spark-cdk"),
            "sync",
            path,
            "--report",
            report,
            "--no-progress",
        ]
        usage = run(command, log=Path(folder, "sync.log"))
        table = DeltaTable(f"{folder}/tables/uneven")
        rows = table.to_pyarrow_table(columns=["part", "page"])
        if (rows.num_rows, rows.group_by(["part", "page"]).aggregate([]).num_rows) != (work.rows, work.rows):
            raise RuntimeError(f"the table has {rows.num_rows} rows, expected {work.rows}, each once")
        waits = _waits(Path(folder, "tables", "uneven"))
    least = work.least(concurrency)
    figures = (f"{work.rows:,}", f"{usage.wall:.1f}", f"{least:.1f}", f"{usage.wall / least:.2f}")
    return " | ".join([*figures, f"{usage.total:.1f}", str(len(waits)), f"{max(waits):.1f}"])


def _waits(table: Path) -> Sequence[float]:
    """The longest wait of a row for each commit that brought rows, in seconds."""
    waits: list[float] = []
    for log in sorted((table / "_delta_log").glob("*.json")):
        actions = [orjson.loads(line) for line in log.read_bytes().splitlines()]
        # What joins small files brings no rows.
        files = [action["add"]["path"] for action in actions if action.get("add", {}).get("dataChange")]
        moment = next((action["commitInfo"]["timestamp"] / 1000 for action in actions if "commitInfo" in action), 0.0)
        first = [pc.min(pq.read_table(table / file, columns=[EXTRACTED_AT])[EXTRACTED_AT]).as_py() for file in files]
        if first:
            waits.append(moment - min(first).timestamp())
    return waits


if __name__ == "__main__":
    main()
