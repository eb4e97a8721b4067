"""Syncs on a real Spark session: what lands, what a further sync adds, what an interrupted one leaves."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from threading import Lock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from cdk import (
    ConfigError,
    Item,
    Json,
    JsonSchema,
    Page,
    PagedStream,
    ServerError,
    Slice,
    StaleToken,
    Start,
    StateConflict,
    Stream,
)
from cdk.base.task_map import run_inline
from cdk.base.values import canonical
from cdk.engine.read import read
from cdk.lake.admin.locate import StreamLocation
from cdk.lake.admin.state_admin import Admin
from cdk.lake.storage.folder import LocalFolder
from cdk.lake.storage.run_lock import between_runs
from cdk.rest.auth.tokens import TokenEnded
from cdk.spark.sync_runner import SyncRunner
from cdk.state.stream_state import StreamState
from cdk.sync.reports.run_history import RunHistory
from cdk.sync.reports.run_report import SyncResult
from cdk.sync.reports.stream_report import Status
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from tests.samples import STREAMS, Comments, Orders, Plain, ShopOrders, TypedOrders, Users, told
from tests.spark.given_source import Given

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("session")]

APPEND = StreamOptions(write_mode="append")
Sync = Callable[..., SyncResult]


@pytest.fixture
def sync(tmp_path: Path) -> Sync:
    def run(
        *streams: Stream,
        options: Mapping[str, StreamOptions] | None = None,
        interval: float = 1.0,
        name: str = "test",
        workers: Workers | None = None,
    ) -> SyncResult:
        pipeline = Pipeline(
            name=name,
            source=SourceOptions(connector="given"),
            target=TargetOptions(path=str(tmp_path)),
            streams=options,
            checkpoint_interval=timedelta(seconds=interval),
        )
        return SyncRunner(pipeline, Given(streams), workers=workers).run()

    return run


def table(folder: Path) -> pa.Table:
    delta = DeltaTable(str(folder))
    files = delta.file_uris()
    return pq.read_table(files) if files else pa.schema(delta.schema().to_arrow()).empty_table()


def rows(folder: Path, stream: Stream) -> Counter[str]:
    """The records in a stream's table, put together again from its columns and what the schema did not declare."""
    return Counter(canonical(told(row, stream)) for row in table(folder / stream.name).to_pylist())


def expected(stream: Stream) -> Counter[str]:
    pages = [item for item in read(stream, StreamState()) if not isinstance(item, StreamState)]
    return Counter({canonical(record) for page in pages for record in page})


# A job of Spark for each page takes half a minute.
@pytest.mark.parametrize(("interval", "workers"), [(0.0, Workers(run_inline, 2)), (1.0, None)])
def test_every_kind_of_stream_lands_once_and_whole(
    sync: Sync, tmp_path: Path, interval: float, workers: Workers | None
) -> None:
    result = sync(*STREAMS, interval=interval, workers=workers)

    assert result.ok
    for stream in STREAMS:
        assert rows(tmp_path, stream) == expected(stream), stream.name


def test_a_further_sync_appends_nothing(sync: Sync, tmp_path: Path) -> None:
    incremental = [stream for stream in STREAMS if stream.incremental]
    sync(*incremental)

    again = sync(*incremental)

    assert [report.written for report in again.streams] == [0] * len(incremental)
    for stream in incremental:
        assert rows(tmp_path, stream) == expected(stream), stream.name


def test_a_full_refresh_replaces_the_rows_or_adds_a_generation(sync: Sync, tmp_path: Path) -> None:
    options = {"users": APPEND, "comments": StreamOptions(write_mode="overwrite")}
    for _ in range(2):
        sync(Users(), Comments(), options=options)

    assert rows(tmp_path, Users()) == Counter(dict.fromkeys(expected(Users()), 2))
    assert rows(tmp_path, Comments()) == expected(Comments())
    generations = table(tmp_path / "users")["_airbyte_generation_id"].to_pylist()
    assert Counter(generations) == {1: 15, 2: 15}


class Breaking(Users):
    """Breaks at its third page until it is mended."""

    name = "users"
    mended: Path

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        if token == {"page": 2} and not self.mended.exists():
            raise ServerError("the third page is broken")
        return super().read_page(slice, token)


@pytest.mark.parametrize("write_mode", ["append", "overwrite"])
def test_an_interrupted_sync_resumes_at_its_page(sync: Sync, tmp_path: Path, write_mode: str) -> None:
    options = {"users": StreamOptions.model_validate({"write_mode": write_mode})}
    stream = Breaking()
    stream.mended = tmp_path / "mended"
    first = sync(stream, options=options).streams[0]
    visible = rows(tmp_path, stream).total()
    stream.mended.touch()
    second = sync(stream, options=options).streams[0]

    assert (first.status, first.written) == (Status.FAILED, 6)
    assert visible == (6 if write_mode == "append" else 0)
    assert (second.status, second.resumed, second.read) == (Status.DONE, True, 9)
    assert rows(tmp_path, stream) == expected(Users())


def test_readers_see_the_old_generation_until_the_new_one_is_complete(sync: Sync, tmp_path: Path) -> None:
    stream = Breaking()
    stream.mended = tmp_path / "mended"
    stream.mended.touch()
    sync(stream)
    stream.mended.unlink()
    sync(stream)

    assert rows(tmp_path, stream) == expected(Users())


def test_one_stream_failing_does_not_stop_the_others(sync: Sync, tmp_path: Path) -> None:
    stream = Breaking()
    stream.mended = tmp_path / "never"
    result = sync(stream, Orders(), Plain())

    assert [report.status for report in result.streams] == [Status.FAILED, Status.DONE, Status.DONE]
    assert result.streams[0].failure is not None
    assert "the third page is broken" in result.streams[0].failure.message


def test_a_stream_whose_schema_cannot_be_used_does_not_stop_the_others(sync: Sync) -> None:
    class Unreadable(Users):
        def json_schema(self) -> JsonSchema:
            raise ConfigError("schemas/unreadable.json: no JSON")

    result = sync(Unreadable(), Orders())

    assert [report.status for report in result.streams] == [Status.FAILED, Status.DONE]
    assert result.streams[0].failure is not None
    assert "no JSON" in result.streams[0].failure.message


def test_a_stream_that_cannot_travel_does_not_stop_the_others(sync: Sync) -> None:
    class Locked(Users):
        def __init__(self) -> None:
            super().__init__()
            self.lock = Lock()

    result = sync(Locked(), Orders())

    assert [report.status for report in result.streams] == [Status.FAILED, Status.DONE]
    assert result.streams[0].failure is not None
    assert "cannot be sent to Spark's tasks" in result.streams[0].failure.message


def test_two_streams_of_one_name_are_refused(sync: Sync) -> None:
    class Elsewhere(Users):
        name = "users"

    with pytest.raises(ConfigError, match="two streams called 'users'"):
        sync(Users(), Elsewhere())


def test_a_table_may_not_leave_the_target_or_lie_inside_another(sync: Sync) -> None:
    class Outside(Users):
        name = "../users"

    class Inside(Orders):
        namespace = "users"

    with pytest.raises(ConfigError, match="rename the stream"):
        sync(Outside())
    with pytest.raises(ConfigError, match="inside another"):
        sync(Users(), Inside())


class NewParents(ShopOrders):
    name = "shop_orders"
    shops: tuple[str, ...] = ("a", "b", "c", "new")


def test_a_parent_added_afterwards_brings_its_whole_history(sync: Sync, tmp_path: Path) -> None:
    sync(ShopOrders())
    sync(NewParents())

    assert rows(tmp_path, ShopOrders()) == expected(NewParents())


class Forgetful(Users):
    """Refuses every saved token, as an API whose tokens expire."""

    name = "users"
    forgetful = True

    def read_records(self, slice: Slice) -> Iterator[Item]:
        if self.forgetful and slice.start != Start():
            raise StaleToken("the token has expired")
        return super().read_records(slice)


def test_a_refused_token_is_read_again_and_reported(sync: Sync, tmp_path: Path) -> None:
    result = sync(Forgetful(), options={"users": APPEND}, interval=0.0)

    assert result.ok
    assert result.streams[0].restarted > 0
    assert set(rows(tmp_path, Users())) == set(expected(Users()))


def test_an_overwrite_whose_tokens_are_refused_shows_each_row_once(sync: Sync, tmp_path: Path) -> None:
    options = {"users": StreamOptions(sync_mode="full_refresh", write_mode="overwrite")}

    for _ in range(2):
        result = sync(Forgetful(), options=options, interval=0.0)
        assert result.ok
        assert rows(tmp_path, Users()) == expected(Users())


class Ending(Forgetful):
    """Its access token ends in the middle of the generation that is read anew."""

    name = "users"
    starts = 0

    def read_records(self, slice: Slice) -> Iterator[Item]:
        pages = super().read_records(slice)
        type(self).starts += 1
        return self._ended(pages) if self.starts == 3 else pages

    @staticmethod
    def _ended(pages: Iterator[Item]) -> Iterator[Item]:
        yield next(pages)
        raise TokenEnded


def test_an_overwrite_whose_tokens_are_refused_again_fails_and_shows_nothing(tmp_path: Path) -> None:
    pipeline = Pipeline(
        name="test",
        source=SourceOptions(connector="given"),
        target=TargetOptions(path=str(tmp_path)),
        streams={"users": StreamOptions(sync_mode="full_refresh", write_mode="overwrite")},
        checkpoint_interval=timedelta(),
    )

    (report,) = SyncRunner(pipeline, Given([Ending()]), workers=Workers(run_inline, 1)).run().streams

    assert report.failure is not None
    assert "refused a page token again" in report.failure.message
    assert rows(tmp_path, Users()) == Counter()


def test_a_second_sync_of_the_pipeline_is_refused_while_one_runs(sync: Sync, tmp_path: Path) -> None:
    class Nested(PagedStream):
        """Starts another sync in the middle of the first one's planning."""

        def partitions(self):  # type: ignore[no-untyped-def]  # noqa: ANN202

            with pytest.raises(StateConflict, match=f"process {os.getpid()}"):
                sync(Users())
            return super().partitions()

        def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:  # noqa: ARG002
            return Page([{"id": 1}], None)

    assert sync(Nested()).ok
    assert not (tmp_path / "users").exists()


def test_a_run_after_one_that_was_refused_says_how_it_ended_itself(tmp_path: Path) -> None:
    pipeline = Pipeline(name="shop", source=SourceOptions(connector="given"), target=TargetOptions(path=str(tmp_path)))
    runner = SyncRunner(pipeline, Given([Users()]), workers=Workers(run_inline, 1))

    with between_runs(tmp_path, "shop"), pytest.raises(StateConflict):
        runner.run()
    assert runner.result.to_json()["status"] == "failed"
    report = runner.run().to_json()

    assert (report["status"], report["error"]) == ("done", None)
    history = RunHistory(LocalFolder(tmp_path), "shop")
    assert [*history.by_sync({report["sync_id"]}).values()] == [report]


def test_two_pipelines_may_fill_one_table_once_somebody_says_so(sync: Sync, tmp_path: Path) -> None:
    orders, target = StreamLocation("orders", LocalFolder(tmp_path / "orders")), LocalFolder(tmp_path)
    assert sync(Orders(), name="first").ok

    (refused,) = sync(Orders(), name="second").streams
    assert refused.failure is not None
    assert (
        "If both are to write to the table, do the same, and then run `spark-cdk state reset`"
        in refused.failure.message
    )
    assert rows(tmp_path, Orders()) == expected(Orders())

    Admin(target, "first").fork(orders, "second")
    Admin(target, "second").reset(orders)
    for name in ("second", "first"):
        assert sync(Orders(), name=name).ok
    assert rows(tmp_path, Orders()) == Counter(dict.fromkeys(expected(Orders()), 2))


def test_an_unknown_stream_is_refused_with_the_nearest_name(sync: Sync) -> None:
    with pytest.raises(ConfigError, match="did you mean 'users'"):
        sync(Users(), options={"user": StreamOptions()})


def test_the_cursor_and_the_key_can_be_overridden(sync: Sync, tmp_path: Path) -> None:
    class Both(Orders):
        name = "orders"

        def rows(self, partition):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            return [{**row, "created_at": row["updated_at"]} for row in super().rows(partition)]

    options = {"orders": StreamOptions(cursor_field="created_at", primary_key="updated_at")}
    sync(Both(), options=options)
    again = sync(Both(), options=options)

    assert again.streams[0].written == 0
    assert rows(tmp_path, Both()) == expected(Both())


def test_spark_reads_the_table_without_delta_jars(sync: Sync, tmp_path: Path, session: SparkSession) -> None:
    sync(TypedOrders())
    sync(TypedOrders())

    files = DeltaTable(str(tmp_path / "orders")).file_uris()
    assert session.read.parquet(*files).where("id >= 0").count() == expected(Orders()).total()
