"""Kills a sync at random moments and looks at its tables: `make crash`, or `python -m tests.spark.kill --help`.

A round reads the demo shop into fresh tables, all streams in one write mode, at one of the places of `kill_places.py`.
Its runs are killed with SIGKILL one after the other: the Python driver, the JVM, an executor or a Python worker, at a
random moment. The last run is left alone. Where a sync replaces or removes rows, the tables are full before the first
kill, and some records have left or changed since. Then
  - rows = distinct rows = the rows of an undisturbed sync,
  - pages fetched again, over the round, are no more than one checkpoint interval can fetch times the kills,
  - a further sync appends nothing,
  - a customer added afterwards brings the whole history.
At the place `here` the syncs are forks of this program, and a kill costs a tenth. In half of the kills reading and
commits take turns there. In the others tasks run in threads beside the commits, as before Spark joins, and from some
moment on as after it. At `hand-over` a sync begins in the driver and Spark joins it: half of the kills are before that,
half after it.
After each kill and each further sync, `spark-cdk state verify` finds nothing wrong, and each commit of rows has a
receipt.
"""

import argparse
import itertools
import math
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from zlib import crc32

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from cdk import Json, Record
from cdk.base.task_map import run_inline
from cdk.lake.parquet.generation_diff import FLAG
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.tasks.workers import Workers, beside_the_driver
from cdk.testing.proving.proof import verify
from connectors.shop.api import serving
from connectors.shop.backend import Backend, Sizes
from connectors.shop.source import Shop
from tests.spark.kill_places import HERE, JVM, LATENCY, LOCAL, PLACES, THREADED, WORKER, Place
from tests.sync.loop.simulated_tasks import SimulatedCluster

T = TypeVar("T")

STREAMS = {"products": "name", "orders": "status", "visits": "customer_id"}
"""The streams, and what divides their tables where they are divided; not every record has it."""
SIZES = Sizes(products=3000, orders=3000, customers=40, visits=60)
# A task fetches some 16 pages, and a run is killed before its 36th: before its first commit, or after some.
CONCURRENCY, INTERVAL = 4, 0.15
# Four slices read as many in the driver in two seconds, at the latency of a hand-over.
BEFORE_SPARK = 16
# A sync that nobody kills needs no commits on its way: they are most of the processor time that it would take.
UNDISTURBED = 60.0
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

    joined: Spark had a worker. again: pages of this run that an earlier one had fetched.
    receipts: those that add up after it, of all tables.
    survived: the sync got to its end all the same.
    """

    victim: str
    pages: int
    committed: int
    joined: bool
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
        place: Place = LOCAL,
        mode: str = "append",
        interval: float = INTERVAL,
    ) -> None:
        self.folder, self.backend, self.place = folder, backend, place
        self.tables = [*STREAMS, *(f"{name}_history" for name in STREAMS if mode == "logged")]
        self.pipeline = folder / "pipeline.yaml"
        (folder / "sync.log").touch()
        settings = {
            "address": address,
            "interval": interval,
            "concurrency": CONCURRENCY,
            "master": place.master,
            "start": place.start,
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
        verified = verify(Pipeline.load(self.pipeline), Shop())
        _expect(not verified.broken, f"{len(verified.broken)} findings: {'; '.join(verified.broken[:3])}")
        return verified.receipts

    def sync_killed(self, victim: str, pages: int, seconds: float = 0, *, awaited: bool = False) -> Kill:
        """Run a sync and kill one of its processes some seconds after it has fetched some pages. Raises Failed.

        awaited: these are counted from when Spark has a worker.
        """
        first, again = self.pages(), self.again()
        with self.fork(victim) if self.place.in_forks else self.process() as process:
            if awaited:
                _wait_for(process, lambda: self.place.process(process.pid, WORKER), 0.05)
            before = self.pages() if awaited else first
            _wait_for(process, lambda: self.pages() >= before + pages, 0.005)
            threading.Event().wait(seconds)
            # The driver may have fetched the pages, of parents, before there is a worker.
            pid = _wait_for(process, lambda: self.place.process(process.pid, victim), 0.05)
            joined = not self.place.in_forks and self.place.process(process.pid, WORKER) is not None
            if process.poll() is None and pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            # The driver is gone, or fails without its JVM, or gets over the loss of a worker.
            code = process.wait()
        own = code in (0, -signal.SIGKILL) or victim == JVM
        _expect(own, f"before it was killed a sync ended with exit code {code}:\n{self.log()}")
        fetched, again, receipts = self.pages() - first, self.again() - again, self.verify()
        return Kill(victim, fetched, self.rows_now(), joined, again, receipts, survived=code == 0)

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


def round_of_kills(
    folder: Path, victims: Sequence[str], chance: random.Random, undisturbed: Undisturbed, place: Place = HERE
) -> list[Kill]:
    """One round, see the module; it ends early when a sync survives. Raises Failed: found this, promised that."""
    backend, latencies = Varied(undisturbed.sizes), [place.latency]
    with serving(backend, latency=lambda: latencies[-1]) as address:
        trial = Trial(folder, backend, address, place=place, mode=undisturbed.mode)
        undisturbed.begin(trial, backend)
        kills: list[Kill] = []
        for victim in victims:
            # The kills of a round leave pages over.
            # A kill comes in a commit as often as in a page.
            seconds = chance.choice((0, chance.uniform(0, 2 * INTERVAL)))
            pages = chance.randint(1, 3 * undisturbed.pages // 4 // len(victims))
            awaited = place.hands_over and chance.choice((True, False))
            if place.hands_over:
                # Spark needs some seconds, in which the driver reads so many.
                pages = chance.randint(1, BEFORE_SPARK)
            kills.append(trial.sync_killed(victim, pages, seconds, awaited=awaited))
            if kills[-1].survived:
                break
        else:
            latencies.append(LATENCY)  # the rest need not last
            trial.sync_here() if place.in_forks else trial.sync()
        again, most = trial.again(), most_again(place) * len(kills)
        _expect(again <= most, f"{again} pages fetched again, at most {most} promised")
        latencies.append(LATENCY)
        trial.compare(undisturbed.rows)
        before = trial.rows_now()
        trial.sync_here("orders", "visits")
        _expect(trial.rows_now() == before, f"a further sync appended {trial.rows_now() - before} rows")
        backend.add(NEWCOMER)
        trial.sync_here("visits")
        found = sum('"newcomer-' in row for row in trial.rows("visits"))
        _expect(found == len(NEWCOMER["visits"]), f"{found} of {len(NEWCOMER['visits'])} visits of a new customer")
        return kills


def most_again(place: Place) -> int:
    """How many pages one kill may cost.

    It is what all slices together can fetch in one interval, and the page that each is in the middle of. Once Spark
    has joined, those of the driver and of Spark's tasks are read side by side.
    """
    slices = CONCURRENCY * (2 if place.hands_over else 1)
    return (math.ceil(INTERVAL / place.latency) + 1) * slices


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


def _wait_for(process: "subprocess.Popen[bytes] | Forked", look: Callable[[], T], pause: float) -> T | None:
    """What `look` finds, once it finds something; None where the process ends before that."""
    while not (found := look()):
        if process.poll() is not None:
            return None
        threading.Event().wait(pause)
    return found


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def main() -> int:
    """Run rounds until the kills are used up; print each. Returns 1 if a promise was broken; its tables stay."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=30, help="at all places together")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--place", action="append", choices=tuple(PLACES), help="more than one may be named; else all")
    options = parser.parse_args()
    places: Sequence[str] = options.place or tuple(PLACES)
    print(f"seed {options.seed}")
    print("place      mode       victim   joined  pages fetched  rows committed  of these pages again  receipts")
    campaign = Campaign(Path(tempfile.mkdtemp(prefix="spark-cdk-kill-")), random.Random(options.seed))
    for number, place in enumerate(places):
        campaign.run(place, (options.kills + number) // len(places))
    done, broken = campaign.done, campaign.broken
    by_kind = ", ".join(f"{place} {mode} {count}" for (place, mode), count in done.items())
    if broken:
        failed = ", ".join(f"{place} {mode}" for place, mode in broken)
        print(f"{done.total()} kills ({by_kind}): {broken.total()} rounds FAILED: {failed}")
        return 1
    shutil.rmtree(campaign.home)
    print(f"{done.total()} kills ({by_kind}): nothing lost, nothing doubled, every receipt adds up")
    return 0


class Campaign:
    """Rounds at several places, with their tables in `home`. done, broken: kills and rounds, by place and mode."""

    def __init__(self, home: Path, chance: random.Random) -> None:
        self.home, self._chance = home, chance
        self.done: Counter[tuple[str, str]] = Counter()
        self.broken: Counter[tuple[str, str]] = Counter()
        self._undisturbed: dict[str, Undisturbed] = {}
        self._rounds = itertools.count()

    def run(self, name: str, kills: int) -> None:
        """Run rounds at a place until it has had so many kills, in each mode in turn."""
        modes = itertools.cycle(MODES)
        with ExitStack() as stack:
            place = stack.enter_context(PLACES[name](_made(self.home / name)))
            while (rest := kills - sum(count for (at, _), count in self.done.items() if at == name)) > 0:
                self._round(name, place, next(modes), rest)

    def _round(self, name: str, place: Place, mode: str, most: int) -> None:
        if mode not in self._undisturbed:
            self._undisturbed[mode] = Undisturbed(_made(self.home / mode), mode)
        folder = _made(self.home / f"{next(self._rounds)}")
        victims = place.round(self._chance)[-most:]
        try:
            kills = round_of_kills(folder, victims, self._chance, self._undisturbed[mode], place)
        except Failed as failed:
            print(f"FAILED: {name}, {mode}, {folder}: {failed}", flush=True)
            self.done[name, mode] += len(victims)
            self.broken[name, mode] += 1
            return
        shutil.rmtree(folder)
        for kill in kills:
            who = f"{name:10} {mode:10} {kill.victim:8} {'yes' if kill.joined else 'no':6}"
            figures = f"{kill.pages:14} {kill.committed:15} {kill.again:20} {kill.receipts:9}"
            print(f"{who} {figures}{'  survived' if kill.survived else ''}", flush=True)
        self.done[name, mode] += len(kills)


if __name__ == "__main__":
    sys.exit(main())
