"""Cursors that authors advance by hand, in syncs that commit all the while: each row comes once, and they end."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from cdk import Checkpoint, Item, Json, Record, Slice, Source, StateMixin, Stream
from cdk.base.task_map import run_inline
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.stream_report import Status
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from tests.worlds.table import rows

COUNT = 3
CALLS = 2 * COUNT
SHORT = timedelta(microseconds=1)


class Kept(Source):
    """One stream, which ends with an error once it is read too often."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def streams(self, _: Json) -> Sequence[Stream]:
        return [self._stream]


class AtEnd(StateMixin):
    """Sets its state when all is read, and asks for what is no older: most APIs do."""

    cursor_field: str | None = "n"
    inclusive = True

    def __init__(self, calls: list[int]) -> None:
        super().__init__()
        self._calls = calls

    def read_records(self, _: Slice) -> Iterator[Item]:
        yield from self._since(self.state.get("n", 0))
        self.state = {"n": COUNT}

    def _since(self, since: int) -> Iterator[Record]:
        self._calls.append(since)
        assert len(self._calls) <= CALLS
        return ({"n": n} for n in range(1, COUNT + 1) if n > since or (n == since and self.inclusive))


class AfterEach(AtEnd):
    inclusive = False

    def read_records(self, _: Slice) -> Iterator[Item]:
        for record in self._since(self.state.get("n", 0)):
            yield record
            self.state = record


class Behind(AtEnd):
    inclusive = False

    def read_records(self, slice: Slice) -> Iterator[Item]:
        yield from self._since((slice.start.cursor or {"n": 0})["n"])
        yield Checkpoint({"n": COUNT})


class BeforeEach(AtEnd):
    inclusive = False

    def read_records(self, _: Slice) -> Iterator[Item]:
        for record in self._since(self.state.get("n", 0)):
            self.state = record
            yield record


class Descending(AtEnd):
    inclusive = False

    def read_records(self, _: Slice) -> Iterator[Item]:
        for record in sorted(self._since(self.state.get("n", 0)), key=lambda record: -record["n"]):
            yield record
            self.state = {"n": max(record["n"], self.state.get("n", 0))}


@pytest.mark.parametrize("kind", [AtEnd, AfterEach, Behind, BeforeEach, Descending], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("mode", ["append", "append_dedup", "overwrite"])
def test_a_sync_that_commits_all_the_while_reads_each_row_once(tmp_path: Path, kind: type[AtEnd], mode: str) -> None:
    check_sync(tmp_path, kind([]), mode, "full_refresh" if mode == "overwrite" else "incremental")


@pytest.mark.parametrize("kind", [AtEnd, AfterEach, Behind], ids=lambda kind: kind.__name__)
def test_places_that_are_no_cursor_are_gone_on_from(tmp_path: Path, kind: type[AtEnd]) -> None:
    stream = kind([])
    stream.cursor_field = None

    check_sync(tmp_path, stream, "append", "full_refresh", timedelta(0))


def check_sync(folder: Path, stream: AtEnd, mode: str, sync_mode: str, interval: timedelta = SHORT) -> None:
    """Sync a stream that commits at each page: all rows are there once."""
    stream.primary_key, stream.schema = "n", {"properties": {"n": {"type": "integer"}}}
    pipeline = Pipeline(
        name="world",
        source=SourceOptions(connector="given"),
        target=TargetOptions(path=str(folder)),
        streams={stream.name: StreamOptions.model_validate({"sync_mode": sync_mode, "write_mode": mode})},
        checkpoint_interval=interval,
    )

    (report,) = SyncRunner(pipeline, Kept(stream), workers=Workers(run_inline, 1)).run().streams

    assert (report.status, report.failure) == (Status.DONE, None)
    assert sorted(row["n"] for row in rows(folder / stream.name)) == list(range(1, COUNT + 1))
