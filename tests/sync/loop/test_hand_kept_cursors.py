"""Cursors that authors advance by hand, in syncs that commit all the while: each row comes once, and they end."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from cdk import Checkpoint, Item, Json, Slice, Source, StateMixin, Stream
from cdk.base.task_map import run_inline
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.stream_report import Status
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from tests.worlds.table import rows

COUNT = 3
CALLS = 2 * COUNT


class Kept(Source):
    """One stream, which ends with an error once it is read too often."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def streams(self, _: Json) -> Sequence[Stream]:
        return [self._stream]


class AtEnd(StateMixin):
    """Sets its state when all is read, and asks for what is no older: most APIs do."""

    cursor_field = "n"
    inclusive = True

    def __init__(self, calls: list[int]) -> None:
        super().__init__()
        self._calls = calls

    def read_records(self, _: Slice) -> Iterator[Item]:
        yield from self._since(self.state.get("n", 0))
        self.state = {"n": COUNT}

    def _since(self, since: int) -> Iterator[Item]:
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


@pytest.mark.parametrize("kind", [AtEnd, AfterEach, Behind], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("mode", ["append", "append_dedup", "overwrite"])
def test_a_sync_that_commits_all_the_while_reads_each_row_once(tmp_path: Path, kind: type[AtEnd], mode: str) -> None:
    calls = list[int]()
    stream = kind(calls)
    stream.primary_key, stream.schema = "n", {"properties": {"n": {"type": "integer"}}}
    sync_mode = "full_refresh" if mode == "overwrite" else "incremental"
    pipeline = Pipeline(
        name="world",
        source=SourceOptions(connector="given"),
        target=TargetOptions(path=str(tmp_path)),
        streams={stream.name: StreamOptions.model_validate({"sync_mode": sync_mode, "write_mode": mode})},
        checkpoint_interval=timedelta(0),
    )

    (report,) = SyncRunner(pipeline, Kept(stream), workers=Workers(run_inline, 1)).run().streams

    assert (report.status, report.failure) == (Status.DONE, None)
    assert sorted(row["n"] for row in rows(tmp_path / stream.name)) == list(range(1, COUNT + 1))
