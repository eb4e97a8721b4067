"""Logs that another engine cleans up, after it has added, deleted and joined rows, or restored the table.

A sync resumes from the state that belongs to the rows: each record is there once, unless the engine has deleted it. It
may refuse only where nothing shows whether its last rows were undone.
"""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk.base.task_map import run_inline
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from tests.spark.given_source import Given
from tests.worlds.server import Counted, Server
from tests.worlds.table import rows

Step = tuple[str, int]
"""What happens, and a number: of records, of rows, or of versions back."""
WORKS = ("sync", "sync", "append", "delete", "delete the newest", "compact", "vacuum", "restore", "clean")
STEPS = st.lists(st.tuples(st.sampled_from(WORKS), st.integers(0, 3)), min_size=2, max_size=9)
SCHEMA = {"type": "object", "properties": {name: {"type": "integer"} for name in ("id", "n", "part", "v")}}
MOST_REQUESTS = 100


class CleanedTable:
    """A table of a sync and of another engine, and what it must hold.

    versions: after each version, the records that the table's state covers, and the serial numbers of the rows, the
    engine's being negative. newest: the records of the last commit that added rows. undone: whether the engine has
    restored the table to an older state since.
    """

    def __init__(self, folder: Path, mode: str, *, constrained: bool) -> None:
        """constrained: whether a constraint has delta-rs write the rows."""
        self.mode, self.folder, self.path = mode, folder, folder / "things"
        self.server = Server(page_size=2)
        self.versions: dict[int, tuple[int, Counter[int]]] = {}
        self.covered, self.numbers = 0, Counter[int]()
        self.undone = False
        self.newest: set[int] = set()
        self._added = 0
        assert self.sync(0 if constrained else 3)
        if constrained:
            DeltaTable(self.path).alter.add_constraint({"bounds": "n > -100"})
            assert self.sync(3)
        self.note()

    def sync(self, records: int) -> bool:
        """Put records and sync; false if the sync was refused, as it may be."""
        for _ in range(records):
            self.server.put(len(self.server.records), {})
        report = self._synced()
        if report.status is not Status.DONE:
            assert report.failure is not None
            assert re.search(
                "the log no longer has version|none of the rows that its commit added", report.failure.message
            )
            assert self.undone or not self.newest & (+self.numbers).keys()
            return False
        new = range(self.covered, len(self.server.records))
        self.numbers.update(new)
        self.covered, self.undone = len(self.server.records), False
        self.newest = set(new) or self.newest
        self.check()
        self.server.settle()
        return True

    def _synced(self) -> StreamReport:
        pipeline = Pipeline(
            name="world",
            source=SourceOptions(connector="given"),
            target=TargetOptions(path=str(self.folder)),
            streams={"things": StreamOptions.model_validate({"write_mode": self.mode})},
            checkpoint_interval=timedelta(seconds=30),
        )
        self.server.most = self.server.requests + MOST_REQUESTS
        (report,) = (
            SyncRunner(pipeline, Given([Counted(self.server, SCHEMA)]), workers=Workers(run_inline, 1)).run().streams
        )
        return report

    def check(self) -> None:
        assert Counter(row["n"] for row in rows(self.path)) == +self.numbers

    def work(self, name: str, number: int) -> None:
        """Have the engine do something."""
        table = DeltaTable(self.path)
        match name:
            case "append":
                added = [-1 - self._added - each for each in range(number)]
                self._added += number
                columns = pa.schema([("id", pa.int64()), ("n", pa.int64())])
                if number:
                    self.numbers.update(added)
                    own = [{"id": n, "n": n} for n in added]
                    write_deltalake(self.path, pa.Table.from_pylist(own, columns), mode="append", schema_mode="merge")
            case "delete":
                self._delete(table, sorted(+self.numbers)[: number + 1])
            case "delete the newest":
                self._delete(table, sorted(self.newest))
            case "compact":
                table.optimize.compact()
            case "vacuum":
                table.vacuum(0, dry_run=False, enforce_retention_duration=False)
                self.versions.clear()
            case "restore":
                self._restore(table, number)
            case "clean":
                table.create_checkpoint()
                for version in range(table.version()):
                    (self.path / "_delta_log" / f"{version:020}.json").unlink(missing_ok=True)
                self.versions.clear()
            case _:
                raise ValueError(name)
        self.check()

    def _delete(self, table: DeltaTable, numbers: Sequence[int]) -> None:
        if numbers:
            table.delete(f"n in ({', '.join(map(str, numbers))})")
        for number in numbers:
            del self.numbers[number]

    def _restore(self, table: DeltaTable, back: int) -> None:
        version = table.version() - 1 - back
        if version not in self.versions:
            return
        table.restore(version)
        covered, self.numbers = self.versions[version][0], Counter(self.versions[version][1])
        self.undone = self.undone or covered != self.covered
        self.covered = covered

    def note(self) -> None:
        """Note what the newest version holds."""
        self.versions[DeltaTable(self.path).version()] = self.covered, Counter(self.numbers)


@example("append", [("append", 3), ("compact", 0), ("clean", 0), ("sync", 1)], False)
@example("append", [("delete", 0), ("compact", 0), ("clean", 0), ("sync", 1)], False)
@example("append_dedup", [("append", 1), ("compact", 0), ("clean", 0), ("vacuum", 0), ("sync", 1)], False)
@example("append", [("sync", 2), ("restore", 0), ("append", 2), ("clean", 0), ("sync", 1)], False)
@example("append", [("sync", 2), ("restore", 0), ("append", 2), ("clean", 0), ("sync", 1)], True)
@example("append", [("append", 2), ("compact", 0), ("clean", 0), ("sync", 1)], True)
@example("append", [("append", 2), ("append", 1), ("restore", 0), ("clean", 0), ("sync", 1)], False)
@settings(max_examples=25)
@given(st.sampled_from(["append", "append_dedup"]), STEPS, st.booleans())
def test_a_sync_resumes_where_its_rows_stand_or_is_refused_as_nothing_shows_where(
    mode: str,
    steps: list[Step],
    constrained: bool,  # noqa: FBT001 - the property's
) -> None:
    with TemporaryDirectory() as folder:
        table = CleanedTable(Path(folder), mode, constrained=constrained)
        for name, number in [*steps, ("sync", 1)]:
            if name != "sync":
                table.work(name, number)
            elif not table.sync(number):
                return
            table.note()
