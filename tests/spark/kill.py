"""Kills a sync at random moments and looks at its tables: `make crash`, or `python -m tests.spark.kill --help`.

A round reads the demo shop into fresh tables, all streams in one write mode. Its runs are killed with SIGKILL one after
the other: the Python driver, the JVM or a Python worker, at a random moment. The last run is left alone. Where a sync
replaces or removes rows, the tables are full before the first kill, and some records have left or changed since. Then
  - rows = distinct rows = the rows of an undisturbed sync,
  - pages fetched again, over the round, are no more than one checkpoint interval can fetch times the kills,
  - a further sync appends nothing,
  - a customer added afterwards brings the whole history.
With `--without-spark` the syncs are forks of this program, and a kill costs a tenth. In half of the rounds reading and
commits take turns there. In the others tasks run in threads beside the commits, as before Spark joins, and from some
moment on as after it.
After each kill and each further sync, `spark-cdk state verify` finds nothing wrong, and each commit of rows has a
receipt.
"""

import argparse
import itertools
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from cdk import Json, Record
from cdk.base.task_map import run_inline
from cdk.lake.parquet.generation_diff import FLAG
from cdk.spark.cluster import warm_daemon
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.tasks.workers import Workers, beside_the_driver
from cdk.testing.proving.proof import verify
from connectors.shop.api import serving
from connectors.shop.backend import Backend, Sizes
from connectors.shop.source import Shop
from tests.sync.loop.simulated_tasks import SimulatedCluster

VICTIMS = ("driver", "jvm", "worker")
FORK, THREADED = "fork", "threaded"
"""The victims where there is no Spark: tasks take turns with commits, or run beside them."""
STREAMS = {"products": "name", "orders": "status", "visits": "customer_id"}
"""The streams, and what divides their tables where they are divided; not every record has it."""
SIZES = Sizes(products=3000, orders=3000, customers=40, visits=60)
# A task fetches some 16 pages, and a run is killed before its 36th: before its first commit, or after some.
LATENCY, CONCURRENCY, INTERVAL = 0.05, 4, 0.15
# A sync that nobody kills needs no commits on its way: they are most of the processor time that it would take.
UNDISTURBED = 60.0
# What all slices together can fetch in one interval, and the page that each may be in the middle of.
MOST_AGAIN = round(INTERVAL / LATENCY + 1) * CONCURRENCY
MODES = {
    "append": "{write_mode: append}",
    "overwrite": "{sync_mode: full_refresh, write_mode: overwrite}",
    "merged": "{write_mode: append_dedup}",
    "logged": "{write_mode: append_dedup, history: true}",
    "divided": "{write_mode: append, partition_by: FIELD}",
    "parted": "{write_mode: append_dedup, partition_by: FIELD}",
    "flagged": "{sync_mode: full_refresh, write_mode: append_dedup, remove_stale: {removal: soft}}",
    "removed": "{sync_mode: full_refresh, write_mode: append_dedup, remove_stale: {removal: hard}}",
}
EARLIER = {"overwrite", "flagged", "removed"}
"""The modes in which the tables are full before the first kill."""
PIPELINE = """
name: kill
source: {{connector: shop, config: {{base_url: "{address}"}}}}
streams:
{streams}
target: {{path: tables}}
checkpoint_interval: {interval}s
concurrency: {concurrency}
spark: {{start: {start}, master: "{master}"}}
"""


@dataclass(frozen=True)
class Kill:
    """One kill: whom, after how many pages of this run, and the rows that were committed.

    again: pages of this run that an earlier one had fetched. receipts: those that add up after it, of all tables.
    survived: the sync got to its end all the same.
    """

    victim: str
    pages: int
    committed: int
    again: int
    receipts: int
    survived: bool


class Failed(Exception):
    """A promise was broken."""


class Varied(Backend):
    """A shop whose records differ from page to page: fields come late, are missing, and change their type.

    What a record has depends on its id alone, and on whether the shop was edited. One page of 16 takes so long that
    what was read beside it is handed over before.
    """

    edited = False

    def get(self, path: str, query: Mapping[str, str]) -> Json:
        answer = super().get(path, query)
        if crc32(f"{path}{sorted(query.items())}".encode()) % 16 == 0:
            threading.Event().wait(6 * LATENCY)
        return {
            name: list(self._varied(value)) if isinstance(value, list) and path != "/_stats" else value
            for name, value in answer.items()
        }

    def edit(self) -> None:
        """Some records leave, customers too, and some change. No page was fetched before."""
        with self._lock:
            self.edited = True
            self._asked.clear()
            self._pages_again.clear()

    def _varied(self, records: Sequence[Record]) -> Iterator[Record]:
        for record in records:
            edit = _number(record) % 11 if self.edited and "newcomer" not in str(record["id"]) else None
            if edit != 0:
                yield {**_varied(record), **({"edited": True} if edit == 1 else {})}


def _number(record: Record) -> int:
    return crc32(str(record["id"]).encode())


def _varied(record: Record) -> Record:
    number = _number(record)
    series = int(str(record["id"]).rpartition("-")[2] or 0) if str(record["id"])[-1].isdecimal() else 0
    odd: dict[str, Json] = {
        # As many columns as there are hundreds of records, each met on a later page than the one before.
        f"extra_{series // 100}": series,
        "mixed": [None, series, f"{series}", {"a": [series]}, 12345678901234567890123][number % 5],
    }
    if number % 3 == 0 and "price" in record:
        odd["price"] = "on request"
    if number % 7 == 0:
        odd["nested"] = {f"n{number % 4}": {"deep": [None, number % 2]}}
    missing = {"name", "status", "device"} if number % 5 == 0 else set()
    return {name: value for name, value in {**record, **odd}.items() if name not in missing}


class Trial:
    """The tables of one round, and the shop they are read from."""

    def __init__(
        self,
        folder: Path,
        backend: Backend,
        address: str,
        *,
        master: str = "local[2,4]",
        mode: str = "append",
        start: str = "always",
        interval: float = INTERVAL,
    ) -> None:
        self.folder, self.backend = folder, backend
        self.tables = [*STREAMS, *(f"{name}_history" for name in STREAMS if mode == "logged")]
        self.pipeline = folder / "pipeline.yaml"
        (folder / "sync.log").touch()
        settings = {
            "address": address,
            "interval": interval,
            "concurrency": CONCURRENCY,
            "master": master,
            "start": start,
        }
        streams = (f"  {name}: {MODES[mode].replace('FIELD', field)}" for name, field in STREAMS.items())
        settings["streams"] = "\n".join(streams)
        self.pipeline.write_text(PIPELINE.format(**settings))

    def sync(self, *options: str) -> None:
        """Run a sync to its end. Raises Failed: it did not get there."""
        with self.process(options) as process:
            code = process.wait()
        if code:
            raise Failed(f"a sync left alone ended with exit code {code}:\n{self.log()}")
        self.verify()

    def sync_here(self, *streams: str) -> None:
        """Run a sync whose tasks run in this process: what is asked of it needs no Spark. Raises Failed."""
        pipeline = Pipeline.load(self.pipeline)
        if streams:
            chosen = {name: options for name, options in (pipeline.streams or {}).items() if name in streams}
            pipeline = pipeline.model_copy(update={"streams": chosen})
        result = SyncRunner(pipeline, Shop(), workers=Workers(run_inline, CONCURRENCY)).run()
        _expect(result.ok, f"a sync left alone failed: {result.to_json()}")
        self.verify()

    def verify(self) -> int:
        """How many receipts the tables have. Raises Failed: one does not add up, or a file or state is wrong."""
        receipts, broken = verify(Pipeline.load(self.pipeline), Shop())
        _expect(not broken, f"{len(broken)} findings: {'; '.join(broken[:3])}")
        return receipts

    def sync_killed(self, victim: str, pages: int, seconds: float = 0) -> Kill:
        """Run a sync and kill one of its processes some seconds after it has fetched some pages. Raises Failed."""
        before, again = self.pages(), self.again()
        with self.fork(victim) if victim in {FORK, THREADED} else self.process() as process:
            while self.pages() < before + pages and process.poll() is None:
                threading.Event().wait(0.005)
            threading.Event().wait(seconds)
            # The driver may have fetched the pages, of parents, before there is a worker.
            while (pid := _find(process.pid, victim)) is None and process.poll() is None:
                threading.Event().wait(0.05)
            if process.poll() is None and pid is not None:
                os.kill(pid, signal.SIGKILL)
            # The driver is gone, or fails without its JVM, or gets over the loss of a worker.
            code = process.wait()
        own = code in (0, -signal.SIGKILL) or victim == "jvm"
        _expect(own, f"before it was killed a sync ended with exit code {code}:\n{self.log()}")
        fetched, again, receipts = self.pages() - before, self.again() - again, self.verify()
        return Kill(victim, fetched, self.rows_now(), again, receipts, survived=code == 0)

    def rows(self, stream: str) -> list[str]:
        """The rows of a table, without the columns that each run fills differently, in order.

        What did not fit its column, or has none, is compared, too.
        """
        path = str(self.folder / "tables" / stream)
        if not DeltaTable.is_deltatable(path):
            return []
        files = DeltaTable(path).file_uris()
        if not files:
            return []
        # delta-rs 1.6 aborts one process in five at its exit after `to_pyarrow_table`; reading the files does not.
        table = pa.concat_tables([pq.read_table(file) for file in files], promote_options="permissive")
        shown = table.select([name for name in table.schema.names if name not in _BY_RUN])
        return sorted(map(_text, shown.to_pylist()))

    def compare(self, undisturbed: Mapping[str, Sequence[str]]) -> None:
        """Raises Failed: rows are lost or doubled, seen against those of other tables of the same names."""
        for table in self.tables:
            _compare(table, self.rows(table), undisturbed[table])

    def rows_now(self) -> int:
        return sum(len(self.rows(table)) for table in self.tables)

    def pages(self) -> int:
        return sum(self.backend.stats()[stream]["pages"] for stream in STREAMS)

    def again(self) -> int:
        return sum(self.backend.stats()[stream]["pages_again"] for stream in STREAMS)

    def command(self, *options: str) -> list[str]:
        return [sys.executable, "-m", "cdk", "sync", str(self.pipeline), *options]

    @contextmanager
    def process(self, options: Sequence[str] = ()) -> Iterator[subprocess.Popen[bytes]]:
        with (self.folder / "sync.log").open("ab") as log:
            process = subprocess.Popen(self.command(*options), stdout=log, stderr=log, start_new_session=True)
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    @contextmanager
    def fork(self, victim: str) -> Iterator["Forked"]:
        process = Forked(self, victim)
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            process.wait()

    def log(self) -> str:
        return (self.folder / "sync.log").read_text(errors="replace")[-3000:]


class Forked:
    """A sync in a fork of a program that has everything imported; looked at as a Popen is."""

    def __init__(self, trial: Trial, victim: str) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        args = (trial.pipeline, trial.folder / "sync.log", victim)
        self._process = context.Process(target=_sync, args=args, daemon=True)
        self._process.start()
        self.pid = int(self._process.pid or 0)

    def poll(self) -> int | None:
        """How it ended; None while it has not."""
        return self._process.exitcode

    def wait(self) -> int:
        """How it ended, once it has."""
        self._process.join()
        return int(self._process.exitcode or 0)


def _sync(pipeline: Path, log: Path, victim: str) -> None:
    workers = Workers(run_inline, CONCURRENCY)
    if victim == THREADED:
        cluster = SimulatedCluster(run_inline, CONCURRENCY, random.SystemRandom().randrange(20))
        workers = beside_the_driver(CONCURRENCY, cluster)
    result = SyncRunner(Pipeline.load(pipeline), Shop(), workers=workers).run()
    log.write_text(f"{result.to_json()}")
    raise SystemExit(not result.ok)


class Undisturbed:
    """What syncs in a mode come to that nobody kills, for all rounds of the mode.

    rows: of each table, at the end. pages: that the last sync fetched, of a shop of `sizes`.
    """

    def __init__(self, folder: Path, mode: str, sizes: Sizes = SIZES) -> None:
        self.mode, self.sizes, self._full = mode, sizes, folder / "full"
        shop, before = Varied(sizes), 0
        with serving(shop) as address:
            trial = Trial(folder, shop, address, mode=mode, interval=UNDISTURBED)
            if mode in EARLIER:
                trial.sync_here()
                shutil.copytree(folder / "tables", self._full)
                shop.edit()
                before = trial.pages()
            trial.sync_here()
            self.pages = trial.pages() - before
        self.rows = {table: trial.rows(table) for table in trial.tables}

    def begin(self, trial: Trial, shop: Varied) -> None:
        """Have the tables of a trial be as full as they are before the first kill, and edit its shop."""
        if self.mode in EARLIER:
            shutil.copytree(self._full, trial.folder / "tables")
            shop.edit()


def round_of_kills(folder: Path, victims: Sequence[str], chance: random.Random, undisturbed: Undisturbed) -> list[Kill]:
    """One round, see the module; it ends early when a sync survives. Raises Failed: found this, promised that."""
    backend = Varied(undisturbed.sizes)
    with serving(backend, latency=LATENCY) as address:
        trial = Trial(folder, backend, address, mode=undisturbed.mode)
        undisturbed.begin(trial, backend)
        kills: list[Kill] = []
        for victim in victims:
            # The kills of a round leave pages over.
            # A kill comes in a commit as often as in a page.
            seconds = chance.choice((0, chance.uniform(0, 2 * INTERVAL)))
            pages = chance.randint(1, 3 * undisturbed.pages // 4 // len(victims))
            kills.append(trial.sync_killed(victim, pages, seconds))
            if kills[-1].survived:
                break
        else:
            trial.sync_here() if victims[-1] in {FORK, THREADED} else trial.sync()
        again, most = trial.again(), MOST_AGAIN * len(kills)
        _expect(again <= most, f"{again} pages fetched again, at most {most} promised")
        trial.compare(undisturbed.rows)
        before = trial.rows_now()
        trial.sync_here("orders", "visits")
        _expect(trial.rows_now() == before, f"a further sync appended {trial.rows_now() - before} rows")
        backend.add(NEWCOMER)
        trial.sync_here("visits")
        found = sum('"newcomer-' in row for row in trial.rows("visits"))
        _expect(found == len(NEWCOMER["visits"]), f"{found} of {len(NEWCOMER['visits'])} visits of a new customer")
        return kills


NEWCOMER = {
    "customers": [{"id": 9999, "name": "New", "email": "new@shop.example", "joined_at": "2024-01-01T00:00:00Z"}],
    "visits": [
        {"id": f"newcomer-{day}", "customer_id": 9999, "visited_at": f"2024-01-{day:02d}T00:00:00Z"}
        for day in range(1, 31)
    ],
}


def _compare(stream: str, found: Sequence[str], expected: Sequence[str]) -> None:
    _expect(len(found) == len(set(found)), f"{stream}: {len(found) - len(set(found))} rows doubled")
    lost = set(expected) - set(found)
    _expect(not lost, f"{stream}: {len(lost)} rows lost, such as {next(iter(lost), None)}")
    _expect(list(found) == list(expected), f"{stream}: {len(found)} rows, {len(expected)} in an undisturbed sync")


_BY_RUN = {"_airbyte_raw_id", "_airbyte_extracted_at", "_airbyte_generation_id"}
"""Columns that each run fills differently."""


def _text(row: Record) -> str:
    values = {name: name == FLAG.name or value for name, value in row.items() if value is not None}
    return orjson.dumps(values, option=orjson.OPT_SORT_KEYS, default=str).decode()


def _expect(holds: bool, said: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        raise Failed(said)


_DAEMONS = ("pyspark.daemon", warm_daemon.__name__)


def _find(driver: int, victim: str) -> int | None:
    """The process to kill: the driver itself, or a descendant: the JVM, a forked Python worker, an executor."""
    if victim in {"driver", FORK, THREADED}:
        return driver
    listed = subprocess.run(
        ["ps", "-Ao", "pid=,ppid=,command="],  # noqa: S607
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    rows = [
        (int(pid), int(ppid), command) for pid, ppid, command in (line.split(None, 2) for line in listed.splitlines())
    ]
    family, size = {driver}, 0
    while len(family) > size:
        size = len(family)
        family |= {pid for pid, ppid, _ in rows if ppid in family}
    if victim == "executor":
        return next((pid for pid, _, command in rows if pid in family and "CoarseGrainedExecutor" in command), None)
    if victim == "jvm":
        return next((pid for pid, _, command in rows if pid in family and "java" in command.split()[0]), None)
    daemons = {pid for pid, _, command in rows if pid in family and any(d in command for d in _DAEMONS)}
    workers = [pid for pid, ppid, _ in rows if ppid in daemons]
    return workers[0] if workers else None


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def main() -> int:
    """Run rounds until the kills are used up; print each. Returns 1 if a promise was broken; its tables stay."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--without-spark", action="store_true")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    print(f"seed {options.seed}")
    print("mode       victim   pages fetched  rows committed  pages fetched again in that run  receipts")
    done: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    undisturbed: dict[str, Undisturbed] = {}
    home = Path(tempfile.mkdtemp(prefix="spark-cdk-kill-"))
    for number, mode in enumerate(itertools.cycle(MODES)):
        if done.total() >= options.kills:
            break
        # A worker's death is survived, so it comes last.
        victims = [chance.choice(("driver", "jvm")) for _ in range(4)] + ["worker"]
        if options.without_spark:
            victims = [chance.choice((FORK, THREADED))] * 8
        victims = victims[: options.kills - done.total()]
        if mode not in undisturbed:
            undisturbed[mode] = Undisturbed(_made(home / mode), mode)
        folder = _made(home / f"{number}")
        try:
            kills = round_of_kills(folder, victims, chance, undisturbed[mode])
        except Failed as failed:
            print(f"FAILED: {mode}, {folder}: {failed}", flush=True)
            done[mode] += len(victims)
            broken[mode] += 1
            continue
        shutil.rmtree(folder)
        for kill in kills:
            note = "  survived" if kill.survived else ""
            figures = f"{kill.pages:13} {kill.committed:15} {kill.again:31} {kill.receipts:9}"
            print(f"{mode:10} {kill.victim:8} {figures}{note}", flush=True)
        done[mode] += len(kills)
    by_mode = ", ".join(f"{mode} {count}" for mode, count in done.items())
    if broken:
        print(f"{done.total()} kills ({by_mode}): {broken.total()} rounds FAILED: {', '.join(broken)}")
        return 1
    shutil.rmtree(home)
    print(f"{done.total()} kills ({by_mode}): nothing lost, nothing doubled, every receipt adds up")
    return 0


if __name__ == "__main__":
    sys.exit(main())
