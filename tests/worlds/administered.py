"""A pipeline that somebody administers between syncs, kills and the work of other engines, beside a plain model of it.

The module is the connector of the pipeline: `source` has the stream of the world that runs.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import ClassVar, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable

from cdk import DatetimeCursor, Item, Json, Page, PagedStream, Partition, Slice, Stream, list_partitions
from cdk.base.task_map import run_inline
from cdk.cli.app import run
from cdk.lake.delta.pinned_table import app_of
from cdk.lake.delta.state_blobs import number
from cdk.lake.parquet.table_files import commit_at
from cdk.lake.storage.folder import LocalFolder
from cdk.sources.discovery import find_source
from cdk.sync.loop.runner import SyncRunner
from cdk.sync.reports.stream_report import StreamReport
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.tasks.workers import Workers
from tests.samples import DAY0, moment, pages
from tests.spark.dying import dying_if_reached
from tests.spark.given_source import Given

SECRET = "hunter2hunter2"
IDS = 5
"""Records of a partition have so many keys: later records of a key are newer versions of it."""
NAME = "sales of 'today'"
NAMESPACE = "my shop"

_given: list[Stream] = []
source = Given(_given)


class Things(Stream):
    """Records in windows of a day, with pages inside; both edges of a window are in it."""

    name = NAME
    namespace = NAMESPACE
    primary_key = "id"
    supports_checkpointing = True
    cursor = DatetimeCursor("updated_at", start=DAY0, step=timedelta(days=1))
    parts: ClassVar[Sequence[str]] = ("",)

    def __init__(self, world: "World") -> None:
        self.world = world
        types = {"id": "string", "n": "integer", "part": "string", "updated_at": "string"}
        self.schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in types.items()}}

    def now(self) -> datetime:
        """No record appears before it, so none appears late."""
        return DAY0 + timedelta(hours=self.world.hours[-1])

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.window is not None
        part = next(iter(slice.partition.values()), "")
        low, high = slice.window.start, slice.window.end
        yield from pages([r for r in self.world.records_of(str(part)) if low <= r["updated_at"] <= high], slice, 2)


class Shops(Things):
    name = NAME
    parts: ClassVar[Sequence[str]] = ("a", "b", "c")

    def partitions(self) -> Iterable[Partition]:
        return list_partitions("shop", self.parts)


class Accounts(Shops):
    """As `Shops`, one of which the config names as a secret: states have a mark instead."""

    name = NAME
    parts = ("a", SECRET)


class Paged(PagedStream):
    """The same records without a cursor, in pages of two."""

    name = NAME
    namespace = NAMESPACE
    primary_key = "id"
    parts = ("",)

    def __init__(self, world: "World") -> None:
        self.world, self.schema = world, Things(world).schema

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:  # noqa: ARG002
        at = token["at"] if token else 0
        records = self.world.records_of("")
        return Page(records[at : at + 2], {"at": at + 2} if at + 2 < len(records) else None)


KINDS: Mapping[str, type[Things] | type[Paged]] = {
    "plain": Things,
    "shops": Shops,
    "accounts": Accounts,
    "paged": Paged,
}
OPTIONS: Mapping[str, Json] = {
    "append": {"write_mode": "append"},
    "overwrite": {"write_mode": "overwrite", "sync_mode": "full_refresh"},
    "append_dedup": {"write_mode": "append_dedup"},
    "history": {"write_mode": "append_dedup", "history": True},
}

Key = tuple[str, int]


@dataclass
class Covered:
    """What a state covers: records that a sync from it does not read. maybe: unknown whether it does."""

    records: set[Key] = field(default_factory=set)
    maybe: set[Key] = field(default_factory=set)

    def without(self, keys: Iterable[Key]) -> "Covered":
        gone = set(keys)
        return Covered(self.records - gone, self.maybe - gone)


@dataclass
class Owner:
    """A pipeline: what its state covers; None: it has no state. states: of each number. versions: of the table's.

    killed: the sync that was killed last and that the next one continues; empty if there is none.
    """

    name: str
    killed: str = ""
    now: Covered | None = None
    states: dict[int, Covered] = field(default_factory=dict)
    versions: dict[int, Covered | None] = field(default_factory=dict)


class Ended(NamedTuple):
    """How a verb ended, and what it wrote."""

    code: int
    text: str


class World:
    """A stream of a kind in a mode, its table, and what is to be in it. rows: how often each record is there."""

    def __init__(self, folder: Path, kind: str, mode: str) -> None:
        self.folder, self.kind, self.mode, self.stream = folder, kind, mode, KINDS[kind](self)
        self.hours: list[int] = []
        self.columns = 0
        self.columns_at: list[int] = []
        self.root = folder / "tables" / NAMESPACE / NAME
        self.owners = {name: Owner(name) for name in ("shop", "store")}
        self.rows = Counter[Key]()
        self.rows_at: dict[int, Counter[Key]] = {-1: Counter()}
        self.markers_at: dict[int, Mapping[str, int]] = {}
        self.is_vacuumed = self.lacks_rows = False
        for name in self.owners:
            (folder / f"{name}.json").write_text(json.dumps(self._settings(name)))
        _given[:] = [self.stream]

    def _settings(self, name: str) -> Json:
        return {
            "name": name,
            "source": {"connector": "tests.worlds.administered", "config": {"key": SECRET}},
            "target": {"path": str(self.folder / "tables")},
            "streams": {NAME: {**OPTIONS[self.mode], "schema": "evolve"}},
            "checkpoint_interval": "0s",
        }

    # the source

    def records_of(self, part: str) -> list[Mapping[str, Json]]:
        return [
            {
                "id": f"{part[:1]}{n % IDS}",
                "n": n,
                "part": part[:1],
                "updated_at": moment(hour),
                **{f"c{c}": n if c % 2 else {"x": n} for c in range(self.columns_at[n])},
            }
            for n, hour in enumerate(self.hours)
        ]

    @property
    def keys(self) -> set[Key]:
        return {(part[:1], n) for part in self.stream.parts for n in range(len(self.hours))}

    def grow(self, hours: Sequence[int]) -> None:
        """Let records appear, each so many hours after the one before."""
        for hour in hours:
            self.hours.append((self.hours[-1] if self.hours else 0) + hour)
            self.columns_at.append(self.columns)

    def evolve(self) -> None:
        """Give later records a column more."""
        self.columns += 1

    # syncs

    def sync_to(self, owner: str = "shop", point: str = "", time: int = 1) -> StreamReport | None:
        """Sync to the end, or until a crash point; None if it was killed there."""
        pipeline = Pipeline.load(self.folder / f"{owner}.json", lambda *_: {})
        report = None
        if point:
            with dying_if_reached(point, time):
                (report,) = self._runner(pipeline).run().streams
        else:
            (report,) = self._runner(pipeline).run().streams
        return report

    @staticmethod
    def _runner(pipeline: Pipeline) -> SyncRunner:
        return SyncRunner(pipeline, find_source("tests.worlds.administered"), workers=Workers(run_inline, 1))

    # verbs

    def state(self, verb: str, *argv: str, owner: str = "shop") -> Ended:
        """Run a verb of `spark-cdk state`."""
        path = str(self.folder / f"{owner}.json")
        with redirect_stdout(StringIO()) as shown, redirect_stderr(StringIO()) as errors:
            code = run(["state", verb, path, *argv])
        return Ended(code, shown.getvalue() + (errors.getvalue() if code else ""))

    def shown(self, owner: str = "shop") -> Json:
        """What `show --json` says of the stream."""
        streams = json.loads(self.state("show", "--json", owner=owner).text)["streams"]
        return (
            streams[0] if streams else {"number": None, "retained": [], "complete": True, "state": None, "lost": None}
        )

    # the table

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(str(self.root))

    @property
    def exists(self) -> bool:
        return DeltaTable.is_deltatable(str(self.root))

    def rows_of(self, table: DeltaTable) -> Counter[Key]:
        return Counter(zip(*self._columns(table, "part", "n"), strict=True))

    @staticmethod
    def _columns(table: DeltaTable, *names: str) -> list[list[Json]]:
        rows = pa.table(table.to_pyarrow_table())
        return [rows[name].to_pylist() for name in names]

    @property
    def root_of_history(self) -> Path:
        return self.root.with_name(f"{NAME}_history")

    def markers(self, version: int) -> Mapping[str, int]:
        """The numbers of the states that a version of the table moved its pipelines to."""
        markers = commit_at(LocalFolder(self.root), version).markers
        apps = {name: app_of(name, NAME) for name in self.owners}
        return {name: number(markers[app]) for name, app in apps.items() if app in markers}

    # the model

    def follow(self, *readers: str) -> None:
        """Note what the new versions of the table have. readers: the pipelines whose state their commits moved."""
        newest = self.table.version() if self.exists else -1
        for version in range(max(self.rows_at) + 1, newest + 1):
            self.rows_at[version] = self.rows_of(DeltaTable(str(self.root), version=version))
            markers = self.markers_at[version] = self.markers(version)
            for name, owner in self.owners.items():
                if name in readers and name in markers and owner.now is not None:
                    gained = set(self.rows_at[version] - self.rows_at[version - 1])
                    unknown = set() if self.mode == "append" else self.keys
                    owner.now = Covered(owner.now.records | gained, (owner.now.maybe | unknown) - gained)
                if name in markers and owner.now is not None:
                    owner.states[markers[name]] = deepcopy(owner.now)
                owner.versions[version] = deepcopy(owner.now) if owner.states else None
        self.rows = self.rows_at[max(self.rows_at)]

    def newest(self) -> set[Key]:
        """The newest record of each key."""
        return {(part, n) for part, n in self.keys if n + IDS >= len(self.hours)}

    def check_sync(self, before: Counter[Key], covered: Covered, *, ended: bool) -> None:
        """Check that the rows are those that a sync must leave. before: the rows before it."""
        others = Counter({key: count for key, count in before.items() if key[1] < 0})
        if self.mode == "append":
            for key in self.keys:
                least = before[key] + (ended and key not in covered.records and key not in covered.maybe)
                most = before[key] + (key not in covered.records)
                assert least <= self.rows[key] <= most, (key, before[key], self.rows[key], covered)
            assert all(self.rows[key] == count for key, count in others.items())
        elif ended and self.mode == "overwrite":
            assert self.rows == Counter(self.keys)
        elif ended and not self.lacks_rows:
            assert self.rows == Counter(self.newest()) + others
