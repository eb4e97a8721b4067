"""Tables that somebody removes while a sync fills them; tasks run in this process."""

import shutil
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from cdk import Json, Page, Slice
from cdk.base.task_map import run_inline
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.stream_report import StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from tests.samples import Orders, TypedOrders, Users
from tests.spark.given_source import Given


class Losing(Users):
    """Users, at whose third page something happens."""

    name = "users"

    def __init__(self, deed: Callable[[], object]) -> None:
        self._deed = deed

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        if token == {"page": 2}:
            self._deed()
        return super().read_page(slice, token)


def sync(folder: Path, stream: Users, mode: str) -> list[StreamReport]:
    pipeline = Pipeline(
        name="shop",
        source=SourceOptions(connector="given"),
        target=TargetOptions(path=str(folder)),
        streams={stream.name: StreamOptions.model_validate({"write_mode": mode}), "orders": StreamOptions()},
        checkpoint_interval=timedelta(),
    )
    return list(SyncRunner(pipeline, Given([stream, Orders()]), workers=Workers(run_inline, 1)).run().streams)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize(
    "lose",
    [
        shutil.rmtree,
        lambda table: shutil.rmtree(table / "_delta_log"),
        lambda table: table.rename(table.with_name("elsewhere")),
    ],
    ids=["the table", "its log", "moved"],
)
def test_a_table_that_is_gone_ends_its_stream_and_says_so(
    tmp_path: Path, lose: Callable[[Path], object], mode: str
) -> None:
    sync(tmp_path, Users(), mode)

    lost, other = sync(tmp_path, Losing(lambda: lose(tmp_path / "users")), mode)

    assert lost.failure is not None
    assert "the table no longer exists: its folder, or the log in it, was removed or moved" in lost.failure.message
    assert other.failure is None


REMOVALS: Mapping[str, Callable[[DeltaTable], object]] = {
    "overwrite": lambda table: write_deltalake(table, table.to_pyarrow_table().slice(0, 1), mode="overwrite"),
    "DELETE": lambda table: table.delete(),
    "a part": lambda table: table.delete("id = 1"),
    "compaction": lambda table: table.optimize.compact(),
    "nothing": lambda _: None,
}


@pytest.mark.parametrize("options", [{}, {"write_mode": "append_dedup"}, {"sync_mode": "full_refresh"}])
@pytest.mark.parametrize("removal", REMOVALS)
def test_rows_that_another_program_has_removed_are_warned_of_where_they_do_not_come_back(
    tmp_path: Path, removal: str, options: Mapping[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    def sync_orders() -> None:
        pipeline = Pipeline(
            name="shop",
            source=SourceOptions(connector="given"),
            target=TargetOptions(path=str(tmp_path)),
            streams={"orders": StreamOptions.model_validate(options)},
        )
        assert SyncRunner(pipeline, Given([TypedOrders()]), workers=Workers(run_inline, 1)).run().ok

    sync_orders()
    REMOVALS[removal](DeltaTable(str(tmp_path / "orders")))
    caplog.clear()
    sync_orders()

    warnings = [text for text in caplog.messages if "another program has removed rows" in text]
    assert bool(warnings) == ("sync_mode" not in options and removal in {"overwrite", "DELETE"})
    if warnings:
        assert f"the table has {'0' if removal == 'DELETE' else '1'} rows, but had " in warnings[0]
