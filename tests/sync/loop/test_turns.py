"""Several streams under a limit: each gets its turn, however early every sync ends."""

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdk import Page, PagedStream, Slice, Source, Stream
from cdk.base.process.request_lease import current_lease
from cdk.base.task_map import run_inline
from cdk.lake.delta.write_modes import WriteModeName
from cdk.streams.page import Token
from cdk.sync.loop.resume import turn
from cdk.sync.loop.runner import SyncResult, SyncRunner
from cdk.sync.reports.stream_report import Status
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers

STREAMS, MOST_SYNCS = 4, 60


class Pages(PagedStream):
    """A stream of so many pages with a row each."""

    primary_key = "id"

    def __init__(self, name: str, pages: int) -> None:
        self.name, self._pages = name, pages

    def read_page(self, slice: Slice, token: Token | None) -> Page:  # noqa: ARG002
        current_lease().count()
        page = 0 if token is None else int(token["page"])
        return Page([{"id": page}], {"page": page + 1} if page + 1 < self._pages else None)


class Sized(Source):
    def __init__(self, sizes: list[int]) -> None:
        self._sizes = sizes

    def streams(self, config: object) -> list[Stream]:  # noqa: ARG002
        return [Pages(f"s{number}", size) for number, size in enumerate(self._sizes)]


def sync(folder: Path, sizes: list[int], mode: WriteModeName, limit: int | None, tasks: int) -> SyncResult:
    pipeline = Pipeline(
        name="turns",
        source=SourceOptions(connector="given"),
        target=TargetOptions(path=str(folder)),
        streams={f"s{number}": StreamOptions(write_mode=mode) for number in range(len(sizes))},
        checkpoint_interval=timedelta(0),
        max_requests=limit,
    )
    return SyncRunner(pipeline, Sized(sizes), workers=Workers(run_inline, tasks)).run()


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize(("sizes", "limit"), [([3, 3, 3, 3], 7), ([3, 3, 3, 3], 3), ([1, 5, 2, 4], 2), ([2] * 4, 1)])
def test_each_stream_is_read_to_its_end_however_early_syncs_end(
    tmp_path: Path, sizes: list[int], limit: int, mode: WriteModeName, tasks: int
) -> None:
    done: Counter[str] = Counter()
    for _ in range(MOST_SYNCS):
        result = sync(tmp_path, sizes, mode, limit, tasks)
        done.update(report.name for report in result.streams if report.status is Status.DONE)
        if len(done) == STREAMS:
            break

    assert len(done) == STREAMS
    for number, size in enumerate(sizes):
        ids = DeltaTable(tmp_path / f"s{number}").to_pyarrow_table()["id"].to_pylist()
        assert set(ids) == set(range(size))


def test_what_was_interrupted_comes_first_and_each_sync_has_an_order_of_its_own() -> None:
    names = [f"s{number}" for number in range(STREAMS)]
    firsts = Counter(min(names, key=lambda name: turn(name, f"sync-{n}", resumes=False)) for n in range(1_000))
    interrupted = {min(names, key=lambda name: turn(name, f"sync-{n}", resumes=name == "s3")) for n in range(100)}

    assert min(firsts[name] for name in names) > 200
    assert interrupted == {"s3"}
