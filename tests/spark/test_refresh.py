"""A platform has an incremental stream read anew: the rows of earlier generations leave when the read is whole."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk import CountCursor, Json, Page, PagedStream, ServerError, Slice
from cdk.base.task_map import run_inline
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from tests.spark.given_source import Given

PER_PAGE = 2
Mode = Literal["append", "append_dedup"]


class Changes(PagedStream):
    """Rows that changed, two to a page. breaks_at: the page at which the source fails; None: it does not."""

    primary_key = "id"
    cursor = CountCursor("version", start=0)
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "version": {"type": "integer"}}}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__({})
        self.rows: list[dict[str, Json]] = []
        self.breaks_at: int | None = None

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        assert slice.window is not None
        page = token["page"] if token else 0
        if page == self.breaks_at:
            raise ServerError("broken")
        found = [row for row in self.rows if row["version"] > slice.window.start]
        following = (page + 1) * PER_PAGE
        return Page(found[page * PER_PAGE : following], {"page": page + 1} if following < len(found) else None)


@dataclass
class Step:
    """What happens: new rows, lost rows, a refresh, and where the source breaks."""

    added: int
    lost: int
    refresh: bool
    breaks_at: int | None


@dataclass
class World:
    """A source, its table, and what the table should hold."""

    folder: Path
    mode: Mode
    stream: Changes = field(default_factory=Changes)
    generation: int = 1
    version: int = 0
    least: int = 0

    def step(self, step: Step) -> None:
        if step.refresh:
            # At other times pages would shift below a read that was cut.
            self.stream.rows = self.stream.rows[step.lost :]
        for _ in range(step.added):
            self.version += 1
            key = self.version % 5 if self.mode == "append_dedup" else self.version
            self.stream.rows.append({"id": key, "version": self.version})
        self.generation += step.refresh
        self.least = self.generation if step.refresh or self.least else 0
        before, self.stream.breaks_at = self.shown(), step.breaks_at
        done = self.sync()
        if done and self.least:
            assert self.shown() == self.expected()
            assert {row["_airbyte_generation_id"] for row in self.table()} <= {self.generation}
            self.least = 0
        elif self.least and self.mode == "append":
            # What was there stays in sight until all is read.
            assert self.shown() == before

    def sync(self) -> bool:
        options = StreamOptions(
            sync_mode="incremental",
            write_mode=self.mode,
            generation_id=self.generation,
            minimum_generation_id=self.least,
        )
        pipeline = Pipeline(
            name="refresh",
            source=SourceOptions(connector="given"),
            target=TargetOptions(path=str(self.folder)),
            streams={"changes": options},
            checkpoint_interval=timedelta(),
        )
        return SyncRunner(pipeline, Given([self.stream]), workers=Workers(run_inline, 1)).run().ok

    def expected(self) -> list[tuple[int, int]]:
        pairs = [(row["id"], row["version"]) for row in self.stream.rows]
        return sorted(dict(pairs).items()) if self.mode == "append_dedup" else pairs

    def shown(self) -> list[tuple[int, int]]:
        return sorted((row["id"], row["version"]) for row in self.table())

    def table(self) -> list[dict[str, Json]]:
        folder = self.folder / "changes"
        files = DeltaTable(str(folder)).file_uris() if folder.exists() else []
        return pq.read_table(files).to_pylist() if files else []


BREAKS = st.sampled_from([None, None, 0, 1, 2])
STEPS = st.builds(Step, added=st.integers(0, 5), lost=st.integers(0, 2), refresh=st.booleans(), breaks_at=BREAKS)


@pytest.mark.parametrize("mode", ["append", "append_dedup"])
def test_a_refresh_leaves_what_the_source_has_and_nothing_else(
    mode: Mode, tmp_path_factory: pytest.TempPathFactory
) -> None:
    @given(steps=st.lists(STEPS, min_size=2, max_size=5))
    @settings(max_examples=6, deadline=None)
    def any_steps(steps: list[Step]) -> None:
        world = World(tmp_path_factory.mktemp("lake"), mode)
        world.step(Step(4, 0, refresh=False, breaks_at=None))
        for step in [*steps, Step(1, 1, refresh=True, breaks_at=None), Step(2, 0, refresh=False, breaks_at=None)]:
            world.step(step)
        assert world.shown() == world.expected()

    any_steps()
