"""Tables in an S3 store: the same promises as on a disk, also while the store answers with errors."""

import logging
import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cdk import Json, StateConflict, Stream
from cdk.base.errors import CdkError, ConfigError, TransientError
from cdk.base.values import canonical
from cdk.lake.admin.locate import OpenTables
from cdk.lake.admin.table_audit import audit
from cdk.lake.delta import stream_table
from cdk.lake.delta.pinned_table import FilesMissing
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_state import TableState
from cdk.lake.delta.write_modes import WriteModeName
from cdk.lake.parquet.writer import DataFile, TableWriter
from cdk.lake.storage.folder import Folder
from cdk.lake.storage.run_lock import only_run
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.loop.stream_sync import StreamSync
from cdk.sync.reports.run_report import SyncResult
from cdk.sync.reports.stream_report import Status
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, SyncMode, TargetOptions
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tasks.bundle_task import read_bundle
from cdk.sync.tasks.messages import BundleJob, Failure
from connectors.shop.api import serving
from connectors.shop.backend import Backend
from tests.docs.page import DOCS, play
from tests.samples import Orders, Users, told
from tests.spark.bundles_here import expected, read_bundle_of
from tests.spark.given_source import Given
from tests.spark.object_store import DENIED, SECRET, ObjectStore, Trouble

ID = pa.schema([("id", pa.int64())])
COMMIT = r"PUT /lake/.*/_delta_log/0*[1-9]\d*\.json"


def opened(root: Folder) -> StreamTable:
    return StreamTable(root, "shop", "users", ID)


def wrote(root: Folder, *ids: int) -> list[DataFile]:
    writer = TableWriter(root, ID)
    writer.write([pa.RecordBatch.from_pylist([{"id": i} for i in ids], ID)])
    return writer.close()


def saved(state: Json, **more: Json) -> TableState:
    return TableState("incremental", "append", state=state, **more)


def table(root: Folder) -> Any:
    return DeltaTable(root.uri, storage_options=root.storage_options)


def ids(root: Folder) -> list[int]:
    return sorted(table(root).to_pyarrow_table()["id"].to_pylist())


def state(root: Folder) -> Json:
    found = opened(root).saved
    return None if found is None else found.state


def test_rows_and_state_of_a_commit_are_found_by_the_next_run(lake: Folder) -> None:
    root = lake.join("users")
    first, second = opened(root), saved({"page": 2}, records=3, pending=(DataFile("x", 1, 2, 3),))
    first.commit(saved({"page": 1}), wrote(root, 1, 2))
    first.commit(second, wrote(root, 3))

    assert opened(root).saved == second
    assert ids(root) == [1, 2, 3]


def test_a_commit_names_no_file_that_the_store_has_lost_and_its_receipts_add_up(lake: Folder) -> None:
    root = lake.join("users")
    table = opened(root)
    table.commit(saved({"page": 1}), wrote(root, 1, 2))
    lost = wrote(root, 3)
    root.delete(lost[0].path)
    with pytest.raises(FilesMissing, match=f"1 of 1 files .* such as {lost[0].path}"):
        table.commit(saved({"page": 2}), lost)
    table.commit(saved({"page": 2}), wrote(root, 3))

    assert (ids(root), state(root)) == ([1, 2, 3], {"page": 2})
    found = audit(root)
    assert (found.receipts, found.receipt.added, found.in_files, found.contradictions) == (2, 3, 3, [])


@pytest.mark.parametrize("name", ["order items", "größe", "50% off?#1"])
def test_a_table_may_be_called_as_nothing_in_a_url_is(lake: Folder, name: str) -> None:
    root = lake.join(name)
    for n in range(3):
        opened(root).commit(saved(n), wrote(root, n))
    table(root).create_checkpoint()
    opened(root).commit(saved(3), wrote(root, 3))

    assert (ids(root), state(root)) == ([0, 1, 2, 3], 3)


def test_of_two_runs_from_one_version_the_second_is_refused_and_adds_nothing(lake: Folder) -> None:
    root = lake.join("users")
    opened(root).commit(saved({"page": 1}), wrote(root, 1))
    first, second = opened(root), opened(root)
    first.commit(saved({"page": 2}), wrote(root, 2))

    with pytest.raises(StateConflict, match="another run moved this stream's state") as caught:
        second.commit(saved({"page": 9}), wrote(root, 9))

    assert caught.value.path == str(root)
    assert (ids(root), state(root)) == ([1, 2], {"page": 2})


def test_a_restore_brings_the_state_of_its_rows_back(lake: Folder) -> None:
    root = lake.join("users")
    opened(root).commit(saved("one"), wrote(root, 1))
    at = table(root).version()
    opened(root).commit(saved("two"), wrote(root, 2))
    table(root).restore(at)

    assert (ids(root), state(root)) == ([1], "one")


def test_states_that_nobody_needs_are_removed(lake: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    root = lake.join("users")
    run = opened(root)
    monkeypatch.setattr(stream_table, "_RETAINED_STATES", 2)
    for n in range(5):
        run.commit(saved(n))

    assert len(root.join("_cdk_state", "shop").names()) == 2
    assert state(root) == 4


def test_opening_a_table_does_not_read_its_whole_log(server: ObjectStore, lake: Folder) -> None:
    root = lake.join("users")
    run = opened(root)
    for n in range(21):
        run.commit(saved(n))
    server.asked()
    opened(root)

    assert len([request for request in server.asked() if "_delta_log/0" in request and request.endswith("json")]) < 21


@pytest.mark.parametrize("status", [500, 503])
def test_a_commit_whose_answer_is_lost_counts_once(server: ObjectStore, lake: Folder, status: int) -> None:
    root = lake.join("users")
    run = opened(root)
    server.misbehave(Trouble(COMMIT, status=status, times=1, done=True))
    run.commit(saved("one"), wrote(root, 1))
    run.commit(saved("two"), wrote(root, 2))

    assert (ids(root), state(root)) == ([1, 2], "two")


def test_a_commit_that_the_store_refuses_is_an_error_and_changes_nothing(server: ObjectStore, lake: Folder) -> None:
    root = lake.join("users")
    run = opened(root)
    run.commit(saved("one"), wrote(root, 1))
    files = wrote(root, 2)
    server.misbehave(Trouble(COMMIT))
    with pytest.raises(TransientError, match="SlowDown: Please reduce your request rate") as caught:
        run.commit(saved("two"), files)
    server.misbehave()

    assert (caught.value.path, caught.value.stream) == (str(root), "users")
    assert (ids(root), state(root)) == ([1], "one")


def test_a_key_that_the_store_repeats_is_in_no_error_and_no_traceback(server: ObjectStore, lake: Folder) -> None:
    body = f"<Error><Code>InvalidAccessKeyId</Code><Message>No.</Message><Key>{SECRET}</Key></Error>"
    server.misbehave(Trouble("_delta_log", status=403, body=body))
    with pytest.raises(ConfigError, match="the store rejects the access keys") as refused:
        opened(lake.join("users"))
    told = Failure.of(refused.value)

    assert SECRET not in told.message + told.detail


def test_old_states_that_cannot_be_removed_do_not_spoil_a_commit(server: ObjectStore, lake: Folder) -> None:
    root = lake.join("users")
    run = opened(root)
    server.misbehave(
        Trouble("DELETE", status=403, body=DENIED), Trouble("GET .*prefix=[^&]*_cdk_state", status=403, body=DENIED)
    )
    for n in range(3):
        run.commit(saved(n))

    assert state(root) == 2


def test_a_file_that_is_given_up_leaves_nothing_behind(server: ObjectStore, lake: Folder) -> None:
    root = lake.join("users")
    writer = TableWriter(root, ID)
    writer.write([pa.RecordBatch.from_pylist([{"id": 1}], ID)])
    server.misbehave(Trouble("PUT", status=403, body=DENIED))
    with pytest.raises(ConfigError, match="access denied"):
        writer.close()
    writer.discard()
    server.misbehave()

    assert root.names() == []


def test_a_cut_sync_is_known_on_another_machine_and_a_second_one_here_is_refused(
    lake: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut() -> str:
        with only_run(lake, "shop") as sync:
            with pytest.raises(StateConflict, match="another sync of the pipeline 'shop' is running") as refused:
                only_run(lake, "shop").__enter__()
            assert refused.value.path == f"{lake}/_cdk/shop.lock"
            cuts.append(sync)
            raise InterruptedError

    cuts: list[str] = []
    with pytest.raises(InterruptedError):
        cut()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
    with only_run(lake, "shop") as rest:
        pass
    with only_run(lake, "shop") as following:
        pass

    assert [rest] == cuts
    assert following != rest


# The sync without Spark, with an error at any request.


def read_next(run: StreamSync, most: int, seconds: float) -> list[DataFile]:
    job = pickle.loads(pickle.dumps(BundleJob({0: run.target}, seconds, 1)))  # noqa: S301 - as a task gets it
    return read_bundle_of(run, most, lambda pieces: read_bundle(job, pieces))


def run_through(root: Folder, stream: Stream, mode: WriteModeName) -> None:
    sync_mode: SyncMode = "incremental" if stream.incremental else "full_refresh"
    run = StreamSync(StreamPlan(stream, root, sync_mode, mode), OpenTables("shop"), sync="s1")
    while run.active:
        run.commit(read_next(run, 4, 100 if stream.incremental else 0))


def rows(root: Folder) -> Counter[str]:
    return Counter(canonical(told(row)) for row in table(root).to_pyarrow_table().to_pylist())


@pytest.mark.parametrize("done", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize(("stream", "mode"), [(Orders(), "append"), (Users(), "overwrite")], ids=["append", "replace"])
def test_an_error_at_any_request_ends_the_run_and_the_next_ones_lose_and_double_nothing(
    server: ObjectStore, lake: Folder, stream: Stream, mode: WriteModeName, *, done: bool
) -> None:
    """Not a status that clients try again: each error then is the end of a run."""
    failures = 0
    for after in range(3, 68, 13):
        root = lake.join(f"{stream.name}-{after}")
        server.misbehave(
            Trouble(root.uri.removeprefix("s3:/"), status=403, body=DENIED, after=after, times=2, done=done)
        )
        for _ in range(4):
            try:
                run_through(root, stream, mode)
                break
            except CdkError as error:
                assert str(root) in str(error)  # noqa: PT017 - which of the runs it ends is not known
                failures += 1
        server.misbehave()

        assert rows(root) == expected(stream), after
    assert failures >= 2


# On Spark.

Sync = Callable[..., SyncResult]


@pytest.fixture
def sync(server: ObjectStore, lake: Folder) -> Sync:
    def run(*streams: Stream, interval: float = 0, watch: Callable[..., None] = lambda *_: None) -> SyncResult:
        pipeline = Pipeline(
            name="test",
            source=SourceOptions(connector="given"),
            target=TargetOptions(path=str(lake), storage=server.storage),
            checkpoint_interval=timedelta(seconds=interval),
        )
        return SyncRunner(pipeline, Given(streams), watch=watch).run()

    return run


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_a_sync_on_spark_lands_whole_and_a_further_one_appends_what_is_new(sync: Sync, lake: Folder) -> None:
    streams = [Orders(), Users()]
    assert sync(*streams, interval=1).ok
    again = sync(*streams, interval=1)

    assert again.ok
    assert [report.written for report in again.streams] == [0, 15]
    for stream in streams:
        assert rows(lake.join(stream.name)) == expected(stream), stream.name


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_a_sync_on_spark_that_is_cut_is_resumed(sync: Sync, lake: Folder) -> None:
    def cut(reports: Sequence[Any], _: float) -> None:
        if sum(report.commits for report in reports) >= 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        sync(Users(), Orders(), watch=cut)
    result = sync(Users(), Orders())

    assert result.ok
    assert any(report.resumed for report in result.streams)
    assert (rows(lake.join("users")), rows(lake.join("orders"))) == (expected(Users()), expected(Orders()))


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_a_store_in_trouble_fails_a_sync_on_spark_and_the_next_one_completes_it(
    server: ObjectStore, sync: Sync, lake: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    # A task's file is refused once, and Spark tries the task again; a commit's answer is lost; then commits fail.
    server.misbehave(
        Trouble(r"PUT /lake/.*\.parquet", status=403, body=DENIED, times=1),
        Trouble(f"{COMMIT}", times=1, done=True),
        Trouble(COMMIT, after=2),
    )
    first = sync(Orders())
    server.misbehave()
    before = rows(lake.join("orders")).total()
    second = sync(Orders())

    (report,) = first.streams
    assert report.status is Status.FAILED
    assert report.failure is not None
    assert report.failure.message.startswith("s3://lake/")
    assert "SlowDown" in report.failure.message
    assert SECRET not in report.failure.message + report.failure.detail + caplog.text
    assert 0 < before == report.written < expected(Orders()).total()
    assert second.ok
    assert rows(lake.join("orders")) == expected(Orders())


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_a_sync_on_spark_that_was_overtaken_is_refused(sync: Sync, lake: Folder) -> None:
    def overtake(reports: Sequence[Any], _: float) -> None:
        if not overtaken and sum(report.commits for report in reports) == 1:
            overtaken.append(True)
            other = StreamSync(
                StreamPlan(Orders(), lake.join("orders"), "incremental", "append"), OpenTables("test"), sync="other"
            )
            other.commit(read_next(other, 1, 0))

    overtaken: list[bool] = []
    (report,) = sync(Orders(), watch=overtake).streams
    completed = sync(Orders())

    assert overtaken
    assert report.status is Status.FAILED
    assert report.failure is not None
    assert "another run moved this stream's state" in report.failure.message
    assert completed.ok
    assert rows(lake.join("orders")) == expected(Orders())


@pytest.mark.spark
@pytest.mark.usefixtures("session", "lake")
def test_the_page_about_object_storage_does_what_it_says(
    server: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    # The page is about Amazon's S3: what leads to the test's store instead comes from the environment.
    monkeypatch.setenv("LAKE_KEY", "key")
    monkeypatch.setenv("LAKE_SECRET", SECRET)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.address)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    with serving(Backend()) as address:
        play(DOCS / "how-to" / "sync-into-object-storage.md", tmp_path, address)
