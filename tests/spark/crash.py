"""A sync in a process of its own that dies at a named point, in every write mode.

The process is forked from a server that has everything imported, and tasks run in it, so that a death costs a tenth of
a second instead of a Spark start. What Spark adds, tasks that are tried again elsewhere, tests/spark/kill.py sees to.
"""

import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

import pyarrow.parquet as pq
from deltalake import DeltaTable

from cdk import DatetimeCursor, Item, Json, Page, Partition, Record, Slice, Source, Stream
from cdk.base.task_map import run_inline
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.settings.stream_options import RemoveStaleOptions
from cdk.sync.tasks.workers import Workers
from cdk.testing.proving.proof import verify
from tests.samples import DAY0, Orders, Users, moment, pages
from tests.sync.loop.simulated_tasks import SimulatedCluster

MODES: Mapping[str, StreamOptions] = {
    "append": StreamOptions(write_mode="append"),
    "again": StreamOptions(sync_mode="full_refresh", write_mode="append"),
    "overwrite": StreamOptions(sync_mode="full_refresh", write_mode="overwrite"),
    "merged": StreamOptions(write_mode="append_dedup"),
    "logged": StreamOptions(write_mode="append_dedup", history=True),
    "parted": StreamOptions(write_mode="append_dedup", partition_by=("shelf", "day")),
    "flagged": StreamOptions(sync_mode="full_refresh", write_mode="append_dedup", remove_stale=RemoveStaleOptions()),
    "removed": StreamOptions(
        sync_mode="full_refresh", write_mode="append_dedup", remove_stale=RemoveStaleOptions(removal="hard")
    ),
}
"""A stream of each name, and how it is written."""
LEFT = 3
"""How many users leave the source of a mode that removes rows, between a first sync and those that may die."""


class Edits(Orders):
    """Changes of seven things, in windows of a day; a key comes again in other windows, pages and places."""

    name = "merged"
    cursor = DatetimeCursor("updated_at", start=DAY0, step=timedelta(days=1))

    def rows(self, partition: Partition) -> list[dict[str, Json]]:
        return [{**partition, "id": i * 3 % 7, "n": i, "updated_at": moment(i * 3)} for i in range(30)]

    def json_schema(self) -> Mapping[str, Json]:
        return {"properties": {"id": {"type": "integer"}, "n": {"type": "integer"}, "updated_at": {"type": "string"}}}

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.window is not None
        low, high = slice.window.start, slice.window.end
        rows: list[Record] = [r for r in self.rows(slice.partition) if low <= r["updated_at"] <= high]
        yield from pages(rows, slice)


class Moves(Edits):
    """The same, on shelves: some things are on another one after each change, some stay."""

    def rows(self, partition: Partition) -> list[dict[str, Json]]:
        rows = super().rows(partition)
        return [
            {**row, "shelf": row["n"] % 3 if row["id"] % 2 else None, "day": row["updated_at"][:10]} for row in rows
        ]

    def json_schema(self) -> Mapping[str, Json]:
        kinds = {"shelf": {"type": "integer"}, "day": {"type": "string"}}
        return {"properties": {**super().json_schema()["properties"], **kinds}}


class Named(Users):
    """A full refresh of fifteen users."""

    def json_schema(self) -> Mapping[str, Json]:
        return {"properties": {"id": {"type": "integer"}}}


class Left(Named):
    """The same, without those who have left."""

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        page = super().read_page(slice, token)
        return Page([row for row in page.records if row["id"] >= LEFT], page.next)


class Everything(Source):
    """A stream for each mode. left: some users have left those of modes that remove rows."""

    wanted: ClassVar[tuple[str, ...]] = tuple(MODES)

    def __init__(self, *, left: bool = True) -> None:
        self._left = left

    def streams(self, config: Mapping[str, Json]) -> list[Stream]:
        del config
        made: list[Stream] = []
        for name, options in MODES.items():
            incremental = Moves() if options.partition_by else Edits()
            users = Left() if options.remove_stale and self._left else Named()
            stream: Stream = users if options.sync_mode == "full_refresh" else incremental
            stream.name = name
            made.append(stream)
        return made


def _pipeline(folder: Path, mode: str) -> Pipeline:
    return Pipeline(
        name="crash",
        source=SourceOptions(connector="crash"),
        target=TargetOptions(path=str(folder)),
        streams={mode: MODES[mode]},
        checkpoint_interval=timedelta(),
        concurrency=2,
    )


def sync(folder: Path, mode: str, *, left: bool = True) -> bool:
    """Sync the stream of `mode`, a commit for every page; whether it got to its end."""
    # Another process reads from the third bundle on, or what passes for it here.
    workers = Workers(run_inline, 2, cluster=SimulatedCluster(run_inline, 2, 3))
    return SyncRunner(_pipeline(folder, mode), Everything(left=left), workers=workers).run().ok


@dataclass(frozen=True)
class Death:
    """Where a sync is to die, and the how manieth time it gets there."""

    point: str
    time: int = 1


def run(folder: Path, mode: str, death: Death | None = None) -> bool:
    """Sync in a process of its own. Whether it died.

    Raises AssertionError: it failed in another way, or `spark-cdk state verify` finds something wrong afterwards.
    """
    if MODES[mode].remove_stale and not (folder / mode).exists():
        assert sync(folder, mode, left=False)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process = context.Process(target=_run, args=(folder, mode, death))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL), f"the sync ended with {process.exitcode}"
    verified = verify(_pipeline(folder, mode), Everything())
    assert not verified.broken
    return process.exitcode != 0


def _run(folder: Path, mode: str, death: Death | None) -> None:
    if death is not None:
        os.environ["CDK_CRASH_AT"] = f"{death.point}:{death.time}"
    raise SystemExit(0 if sync(folder, mode) else 1)


def told(table: Path) -> list[tuple[Json, ...]]:
    """The rows that a reader of a table sees, without the kit's own columns."""
    if not DeltaTable.is_deltatable(str(table)):
        return []
    files = DeltaTable(str(table)).file_uris()
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return sorted(
        (tuple(v for k, v in row.items() if not k.startswith("_airbyte")) for row in rows),
        key=lambda row: [(value is None, value or 0) for value in row],
    )


def check(folder: Path, mode: str) -> None:
    """Raise AssertionError: a table does not hold what an undisturbed sync leaves in it."""
    edits = [(row["id"], row["n"], row["updated_at"]) for row in Edits().rows(Partition())]
    newest = {edit[0]: edit for edit in edits}
    moves = {row["id"]: tuple(row.values()) for row in Moves().rows(Partition())}
    expected: Mapping[str, list[tuple[Json, ...]]] = {
        "append": sorted(edits),
        "again": [(n * 10 + i,) for n in range(5) for i in range(3)],
        "overwrite": [(n * 10 + i,) for n in range(5) for i in range(3)],
        "merged": sorted(newest.values()),
        "logged": sorted(newest.values()),
        "parted": list(moves.values()),
        "flagged": [(n * 10 + i, n * 10 + i < LEFT) for n in range(5) for i in range(3)],
        "removed": [(n * 10 + i,) for n in range(5) for i in range(3) if n * 10 + i >= LEFT],
    }
    rows = told(folder / mode)
    if mode == "flagged":
        rows = [(id, deleted_at is not None) for id, deleted_at in rows]
    assert Counter(rows) == Counter(expected[mode])
    if mode == "logged":
        assert Counter(told(folder / "logged_history")) == Counter(edits)
