"""A stream's part in a sync, without Spark: bundles are read in this process, and a crash is an object dropped."""

import errno
import itertools
import json
import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk import (
    DatetimeCursor,
    Item,
    Json,
    JsonSchema,
    NotFound,
    Page,
    Partition,
    Record,
    ServerError,
    Slice,
    Stream,
    TransientError,
)
from cdk.base.errors import CdkError, StateConflict
from cdk.base.task_map import run_inline
from cdk.base.values import canonical
from cdk.lake.admin.locate import OpenTables
from cdk.lake.admin.table_audit import audit
from cdk.lake.delta.write_modes import WriteModeName
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import FileInfo, LocalFolder
from cdk.rest.errors.status_errors import RetriesFailed, Unauthorized
from cdk.state.slice import WHOLE
from cdk.sync.loop.stream_sync import StreamSync
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.settings.stream_options import RemoveStaleOptions
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tables.stream_commit import LOST_IN_A_ROW
from cdk.sync.tasks.bundle_task import read_bundle
from cdk.sync.tasks.messages import BundleJob, Failure
from cdk.testing import MockApi
from tests.declarative.reading.test_state_delegating_stream import EXPORTED, PAGES, delegating, exported, paths
from tests.generated_sources import SPAN, Made, made
from tests.samples import DAY0, STREAMS, Events, Orders, ShopOrders, Users, Versions, told
from tests.spark.bundles_here import expected, read_bundle_of

INCREMENTAL = [stream for stream in STREAMS if stream.incremental]


def opened(root: Path, stream: Stream, mode: WriteModeName | None = None, *, sync: str = "s1") -> StreamSync:
    """The stream's run, in the modes that a pipeline would choose, or for a full refresh in a given one."""
    if stream.incremental and not mode:
        return StreamSync(StreamPlan(stream, LocalFolder(root), "incremental", "append"), OpenTables("shop"), sync=sync)
    return StreamSync(
        StreamPlan(stream, LocalFolder(root), "full_refresh", mode or "overwrite"), OpenTables("shop"), sync=sync
    )


class Ticking:
    """A clock that goes on by a second each time somebody looks."""

    def __init__(self) -> None:
        self._now = itertools.count()

    def __call__(self) -> float:
        return next(self._now)


def read_next(run: StreamSync, *, seconds: float = 1000, most: int = 1000) -> list[DataFile]:
    """Plan and read a bundle; nothing is committed yet."""
    return read_bundle_of(
        run, most, lambda pieces: read_bundle(BundleJob({0: run.target}, seconds, 1), pieces, Ticking())
    )


def finish(run: StreamSync, *, seconds: float = 1000, most: int = 1000) -> StreamReport:
    while run.active:
        run.commit(read_next(run, seconds=seconds, most=most))
    return run.report


def rows(root: Path) -> Counter[str]:
    """The records that a reader of the table sees."""
    files = DeltaTable(str(root)).file_uris()
    return Counter(_line(told(row)) for file in files for row in pq.read_table(file).to_pylist())


def _line(record: Mapping[str, Json]) -> str:
    """A record as text: a column that holds 1.5, too, has 1.0 for 1."""
    numbers = {name: int(v) for name, v in record.items() if isinstance(v, float) and v.is_integer()}
    return canonical({**record, **numbers})


def generations(root: Path) -> Counter[int]:
    files = DeltaTable(str(root)).file_uris()
    return Counter(n for file in files for n in pq.read_table(file)["_airbyte_generation_id"].to_pylist())


def version(root: Path) -> int:
    return int(DeltaTable(str(root)).version())


@given(st.sampled_from(STREAMS), st.sampled_from(["append", "overwrite"]), st.integers(0, 2**16), st.integers(0, 6))
@settings(max_examples=25, deadline=None)
def test_a_sync_cut_anywhere_any_number_of_times_lands_every_record_once(
    tmp_path_factory: pytest.TempPathFactory, stream: Stream, mode: WriteModeName, seed: int, crashes: int
) -> None:
    root = tmp_path_factory.mktemp("lake") / stream.name
    chance = random.Random(seed)
    chosen = None if stream.incremental else mode
    for _ in range(crashes):
        run = opened(root, stream, chosen)
        for _ in range(chance.randrange(4)):
            run.commit(read_next(run, seconds=chance.randrange(6), most=chance.randrange(1, 4)))
        # Cut before a commit: its files are there and nobody names them.
        read_next(run, seconds=chance.randrange(6))
    report = finish(opened(root, stream, chosen), seconds=chance.randrange(6), most=chance.randrange(1, 4))

    assert report.status is Status.DONE
    assert rows(root) == expected(stream)
    assert report.total == rows(root).total()
    found = audit(LocalFolder(root))
    assert (found.rows, found.in_files, found.contradictions, found.other_commits) == (
        report.total,
        report.total,
        [],
        [],
    )


@pytest.mark.parametrize("stream", INCREMENTAL, ids=lambda stream: stream.name)
@pytest.mark.parametrize("seconds", [0, 1000])
def test_a_further_incremental_sync_adds_and_commits_nothing(tmp_path: Path, stream: Stream, seconds: float) -> None:
    finish(opened(tmp_path, stream))
    before, landed = version(tmp_path), rows(tmp_path)
    report = finish(opened(tmp_path, stream, sync="s2"), seconds=1000)

    assert (report.status, report.written, report.commits, report.resumed) == (Status.DONE, 0, 0, False)
    assert version(tmp_path) == before
    again = finish(opened(tmp_path, stream, sync="s3"), seconds=seconds, most=1)
    assert again.written == 0
    assert rows(tmp_path) == landed == expected(stream)


class MoreEvents(Events):
    name = "events"
    count = 20

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.window is not None
        records = [{"seq": n // 2, "id": n} for n in range(self.count) if n // 2 >= slice.window.start]
        yield Page(records, {})


def test_a_further_incremental_sync_adds_what_is_new(tmp_path: Path) -> None:
    stream = MoreEvents()
    finish(opened(tmp_path, stream))
    stream.count = 25
    report = finish(opened(tmp_path, stream, sync="s2"))

    assert (report.read, report.written, report.skipped, report.total) == (7, 5, 2, 25)
    assert rows(tmp_path).total() == 25
    assert set(rows(tmp_path).values()) == {1}


def test_a_sync_without_a_commit_counts_no_rows_that_another_program_has_deleted(tmp_path: Path) -> None:
    stream = MoreEvents()
    finish(opened(tmp_path, stream))
    DeltaTable(str(tmp_path)).delete("id < 5")

    report = finish(opened(tmp_path, stream, sync="s2"))

    assert (report.commits, report.skipped, report.total) == (0, 2, 15)


def exporting(api: MockApi) -> Stream:
    """A stream that is read in full, in four pages, until that is finished, and by its changes from then on."""
    stream = delegating(api, pages=PAGES)
    exported(api, fails_at=0)
    return stream


@pytest.mark.parametrize("pages", [0, 1, 2, 3])
def test_a_stream_that_is_read_in_two_ways_is_read_in_full_until_that_is_finished(tmp_path: Path, pages: int) -> None:
    api = MockApi()
    run = opened(tmp_path, exporting(api))
    for _ in range(pages):
        run.commit(read_next(run, seconds=0))
    finish(opened(tmp_path, exporting(api), sync="s2"))
    assert paths(api) == {"export"}
    api.requests.clear()

    finish(opened(tmp_path, exporting(api), sync="s3"))

    assert paths(api) == {"changes"}
    assert {json.loads(line)["id"] for line in rows(tmp_path)} == set(EXPORTED)


class Unfiltered(Orders):
    """The API ignores which window is asked for."""

    name = "unfiltered"

    def read_records(self, slice: Slice) -> Iterator[Item]:
        yield Page(self.rows(slice.partition), None)


def test_records_that_belong_to_another_window_are_counted_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stream = Unfiltered()
    count = len(stream.rows(WHOLE))
    first = finish(opened(tmp_path, stream))
    further = finish(opened(tmp_path, stream, sync="s2"))

    assert (first.written, further.written, rows(tmp_path).total()) == (count, 0, count)
    assert [(r.read % count, r.read - r.skipped) for r in (first, further)] == [(0, count), (0, 0)]
    assert first.skipped > 0 < further.skipped == further.read
    assert audit(LocalFolder(tmp_path)).contradictions == []
    # The driver logs the first warning of each sync.
    said = [line for line in caplog.messages if "lie outside of the window that was requested" in line]
    assert len(said) == 2
    assert said[0].startswith("unfiltered: ")


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_full_refresh_after_a_complete_one_reads_everything_again(tmp_path: Path, mode: WriteModeName) -> None:
    for n in range(3):
        report = finish(opened(tmp_path, Users(), mode, sync=f"s{n}"))
        assert (report.written, report.total, report.resumed) == (15, 15, False)

    assert generations(tmp_path) == ({1: 15, 2: 15, 3: 15} if mode == "append" else {3: 15})


def test_a_stream_that_the_cut_sync_has_completed_is_not_read_again(tmp_path: Path) -> None:
    finish(opened(tmp_path, Users(), "append"))
    run = opened(tmp_path, Users(), "append")

    assert (run.active, run.report.status, run.next()) == (False, Status.DONE, None)
    assert run.report.total == 15


def test_an_overwrite_is_hidden_until_it_is_complete(tmp_path: Path) -> None:
    stream = Users()
    finish(opened(tmp_path, stream))
    run = opened(tmp_path, stream, sync="s2")
    seen = []
    while run.active:
        run.commit(read_next(run, seconds=0))
        seen.append(generations(tmp_path))

    assert seen == [{1: 15}] * 4 + [{2: 15}]
    assert rows(tmp_path) == expected(stream)


def in_columns(source: Made) -> Counter[str]:
    """What a source has, as it comes out of columns that hold text."""
    found: Counter[str] = Counter()
    for text, count in source.stream().all().items():
        record: dict[str, Json] = orjson.loads(text)
        in_text = {name: v if isinstance(v, str) else canonical(v) for name, v in record.items() if v is not None}
        found[_line(told(in_text))] += count
    return found


@given(made(), st.lists(st.integers(0, 3), max_size=3), st.integers(1, 5), st.booleans())
@settings(max_examples=8, deadline=None)
def test_every_record_of_a_made_up_source_is_appended_once_wherever_syncs_are_cut(
    source: Made,
    cuts: list[int],
    resized: int,
    at_once: bool,  # noqa: FBT001
) -> None:
    # What comes between two syncs lies at the greatest value there is, and may equal what is there.
    source.rows.append((SPAN, "red"))
    with TemporaryDirectory() as folder:
        root = Path(folder) / "made"
        for n, commits in enumerate(cuts):
            run = opened(root, source.stream(), sync=f"cut {n}")
            for _ in range(commits):
                if run.active:
                    run.commit(read_next(run, seconds=0, most=3))
            source.page_size = resized
        finish(opened(root, source.stream(), sync="last"), seconds=1000 if at_once else 0)
        assert rows(root) == in_columns(source)

        source.rows += [(SPAN, colour) for _, colour in source.later]
        report = finish(opened(root, source.stream(), sync="more"))
        assert rows(root) == in_columns(source)
        assert report.written == len(source.later) * len(list(source.stream().partitions()))


class Renamed(ShopOrders):
    """Orders of shops, whose cursor and ids may be changed."""

    schema: JsonSchema = {"type": "object", "properties": {"id": {"type": "integer"}}}  # noqa: RUF012
    field = "updated_at"
    ids: tuple[Json, ...] = (1, 2)
    partition_fields: tuple[str, ...] = ("shop",)

    def __init__(self) -> None:
        super().__init__()
        self.cursor = DatetimeCursor(self.field, start=DAY0, step=timedelta(days=1))

    def partitions(self) -> Iterable[Partition]:
        return [Partition(dict.fromkeys(self.partition_fields, shop)) for shop in self.ids]

    def read_records(self, slice: Slice) -> Iterator[Item]:
        for row in self.rows(Partition.of(shop=next(iter(slice.partition.values()), 0))):
            yield {**row, "id": hash((*slice.partition.values(), row["id"])) % 2**31, self.field: row["updated_at"]}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"field": "changed_at"}, "has 'updated_at', but no value of the cursor 'changed_at'"),
        ({"ids": ("1", "2")}, 'has the partition {"shop":1}, but the source\'s is now {"shop":"1"}, of another type'),
        ({"partition_fields": ("store",)}, "has partitions by 'shop', but the source's partitions now have 'store'"),
        (
            {"partition_fields": ("shop", "store")},
            "has partitions by 'shop', but the source's partitions now have 'shop', 'store'",
        ),
        ({"partition_fields": ()}, "has partitions by 'shop', but the source's partitions now have no fields"),
    ],
)
def test_what_the_state_knows_by_another_name_is_not_appended_again(
    tmp_path: Path, changed: dict[str, Json], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    total = finish(opened(tmp_path, Renamed())).total
    for name, value in changed.items():
        monkeypatch.setattr(Renamed, name, value)
    report = finish(opened(tmp_path, Renamed(), sync="s2"))

    assert (report.status, report.read, report.total) == (Status.FAILED, 0, total)
    assert report.failure is not None
    assert said in report.failure.message
    assert f"added to the {total} rows of the table" in report.failure.message
    assert "`spark-cdk state reset`" in report.failure.message


def test_what_the_state_knows_by_another_name_is_merged_again_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def run(sync: str) -> StreamReport:
        return finish(
            StreamSync(
                StreamPlan(Renamed(), LocalFolder(tmp_path), "incremental", "append_dedup"),
                OpenTables("shop"),
                sync=sync,
            )
        )

    run("s1")
    monkeypatch.setattr(Renamed, "field", "changed_at")
    assert run("s2").status is Status.DONE
    assert caplog.text.count("renamed: the state of") == 1


class Shelves(ShopOrders):
    """Orders of many shops, some of which the source does not have any more."""

    shops = tuple("abcdefgh")
    gone: tuple[str, ...] = ("a", "c", "h")
    error: type[CdkError] = NotFound

    def read_records(self, slice: Slice) -> Iterator[Item]:
        if slice.partition["shop"] in self.gone:
            raise self.error(f"shop {slice.partition['shop']} is gone")
        return super().read_records(slice)


@pytest.mark.parametrize(("error", "most"), [(NotFound, 1), (NotFound, 2), (Unauthorized, 1000), (RetriesFailed, 2)])
def test_a_partition_that_is_gone_keeps_no_later_one_from_being_read(
    tmp_path: Path, error: type[CdkError], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Shelves, "error", error)
    there = Counter({text: n for text, n in expected(ShopOrders()).items() if '"shop":"b"' in text})
    report = finish(opened(tmp_path, Shelves()), most=most)

    assert report.status is Status.FAILED
    assert report.failure is not None
    assert report.failure.message == "shop a is gone"
    assert {text for text in rows(tmp_path) if '"shop":"b"' in text} == set(there)
    assert len(rows(tmp_path)) == 5 * len(there)

    again = finish(opened(tmp_path, Shelves(), sync="s2"), most=most)
    assert (again.status, again.written) == (Status.FAILED, 0)

    monkeypatch.setattr(Shelves, "gone", ())
    assert finish(opened(tmp_path, Shelves(), sync="s3"), most=most).status is Status.DONE
    assert rows(tmp_path) == expected(Shelves())


def test_a_full_refresh_of_which_a_part_is_gone_is_not_complete(tmp_path: Path) -> None:
    report = finish(opened(tmp_path, Shelves(), "overwrite"))

    assert report.status is Status.FAILED
    assert rows(tmp_path) == Counter()


class Leaving(Users):
    """Users until they all leave; pages stay, with `instead` in them."""

    left = False
    instead: Sequence[Record] = ()

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        page = super().read_page(slice, token)
        return Page(self.instead, page.next) if self.left else page


@pytest.mark.parametrize("seconds", [0, 1000])
def test_an_overwrite_that_would_empty_its_table_asks_first_and_reads_again(tmp_path: Path, seconds: float) -> None:
    stream = Leaving()
    finish(opened(tmp_path, stream))
    stream.left = True
    for sync in ("s2", "s3"):
        report = finish(opened(tmp_path, stream, sync=sync), seconds=seconds)

        assert report.status is Status.FAILED
        assert report.failure is not None
        assert report.failure.message.startswith("streams.leaving: found no record, expected some")
        assert "would empty the table, which has 15 rows; they are retained" in report.failure.message
        assert "set streams.leaving.remove_stale: {allow_empty: true}, or pass --allow-empty" in report.failure.message
        assert rows(tmp_path) == expected(Users())

    stream.left = False
    assert finish(opened(tmp_path, stream, sync="s4")).status is Status.DONE
    assert rows(tmp_path) == expected(Users())


@pytest.mark.parametrize("seconds", [0, 1000])
@pytest.mark.parametrize(
    "page", [{"error": "busy"}, {"id": None, "error": "busy"}], ids=["no key", "a key that is null"]
)
def test_an_overwrite_whose_records_have_no_key_asks_first_and_reads_again(
    tmp_path: Path, page: Record, seconds: float
) -> None:
    stream = Leaving()
    stream.primary_key = "id"
    finish(opened(tmp_path, stream))
    stream.left, stream.instead = True, [page]
    report = finish(opened(tmp_path, stream, sync="s2"), seconds=seconds)

    assert report.failure is not None
    assert "found 5 without the primary key 'id', which the table's rows have" in report.failure.message
    assert rows(tmp_path) == expected(Users())

    stream.left = False
    assert finish(opened(tmp_path, stream, sync="s4")).status is Status.DONE
    assert rows(tmp_path) == expected(Users())
    assert audit(LocalFolder(tmp_path)).contradictions == []


def test_an_overwrite_may_empty_its_table_where_it_is_allowed(tmp_path: Path) -> None:
    stream = Leaving()
    finish(opened(tmp_path, stream))
    stream.left = True
    plan = StreamPlan(stream, LocalFolder(tmp_path), "full_refresh", "overwrite", allow_empty=True)

    assert finish(StreamSync(plan, OpenTables("shop"), sync="s2")).status is Status.DONE
    assert rows(tmp_path) == Counter()


class Shrinking(Leaving):
    """Users, and then the first one alone."""

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        page = super().read_page(slice, token)
        return Page([{"id": 0, "name": "the last"}], None) if self.left else page


def shrunk(folder: Path, remove_stale: RemoveStaleOptions | None) -> StreamReport:
    """The report of an overwrite of so many rows by one."""
    stream = Shrinking()
    finish(opened(folder, stream))
    stream.left = True
    plan = StreamPlan(stream, LocalFolder(folder), "full_refresh", "overwrite", remove_stale=remove_stale)
    sync = StreamSync(plan, OpenTables("shop"), sync="s2")
    finish(sync)
    return sync.current_report


def test_an_overwrite_of_many_rows_by_few_is_warned_of(tmp_path: Path) -> None:
    report = shrunk(tmp_path, None)

    assert report.status is Status.DONE
    (warning,) = report.warnings
    assert warning.startswith("shrinking: this overwrite replaced 15 rows with 1 (93.3 % fewer).")
    assert "version 3 of the table has the previous rows" in warning
    assert warning.endswith("set streams.shrinking.remove_stale: {fail_safe_threshold: 75}")
    assert DeltaTable(str(tmp_path), version=3).count() == 15


def test_an_overwrite_of_many_rows_by_few_is_refused_where_the_user_wants_that(tmp_path: Path) -> None:
    report = shrunk(tmp_path, RemoveStaleOptions(fail_safe_threshold=90))

    assert report.failure is not None
    assert "would leave 93.3 % fewer rows than the 15 of the table, expected at most 90 %" in report.failure.message
    assert rows(tmp_path) == expected(Users())


@pytest.mark.parametrize("options", [{"fail_safe_threshold": 95}, {"fail_safe_min": 14}, {"fail_safe_threshold": 100}])
def test_an_overwrite_within_the_fail_safe_is_not_warned_of(tmp_path: Path, options: Mapping[str, float]) -> None:
    report = shrunk(tmp_path, RemoveStaleOptions.model_validate(options))

    assert (report.status, report.warnings) == (Status.DONE, ())


def test_an_overwrite_that_was_cut_goes_on_and_keeps_what_it_had(tmp_path: Path) -> None:
    stream = Users()
    finish(opened(tmp_path, stream))
    cut = opened(tmp_path, stream, sync="s2")
    for _ in range(2):
        cut.commit(read_next(cut, seconds=0))
    rest = opened(tmp_path, stream, sync="s3")
    report = finish(rest)

    assert (report.resumed, report.read, report.written, report.total) == (True, 9, 9, 15)
    assert generations(tmp_path) == {2: 15}
    assert rows(tmp_path) == expected(stream)


def test_an_overwrite_whose_hidden_files_were_vacuumed_begins_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stream = Users()
    finish(opened(tmp_path, stream))
    cut = opened(tmp_path, stream, sync="s2")
    for _ in range(2):
        cut.commit(read_next(cut, seconds=0))
    vacuum(tmp_path)
    report = finish(opened(tmp_path, stream, sync="s3"))

    assert (report.resumed, report.read) == (False, 15)
    assert generations(tmp_path) == {3: 15}
    assert rows(tmp_path) == expected(stream)
    assert "users: files of the interrupted sync are missing" in caplog.text


def vacuum(root: Path) -> None:
    """Remove every file that no version of the table names."""
    DeltaTable(str(root)).vacuum(retention_hours=0, full=True, enforce_retention_duration=False, dry_run=False)


@given(st.sampled_from(STREAMS), st.sampled_from(["append", "overwrite"]), st.integers(0, 2**16))
@settings(max_examples=25, deadline=None)
def test_files_that_are_gone_before_their_commit_are_read_again(
    tmp_path_factory: pytest.TempPathFactory, stream: Stream, mode: WriteModeName, seed: int
) -> None:
    root = tmp_path_factory.mktemp("lake") / stream.name
    chance = random.Random(seed)
    run, vacuums = opened(root, stream, None if stream.incremental else mode), 0
    while run.active:
        files = read_next(run, seconds=chance.randrange(6), most=chance.randrange(1, 4))
        if chance.random() < 1 / 3 and vacuums < LOST_IN_A_ROW - 1:
            vacuum(root)
            vacuums += 1
        run.commit(files)

    assert run.report.status is Status.DONE
    assert rows(root) == expected(stream)
    assert run.report.total == rows(root).total()


def test_a_file_that_was_cut_before_its_commit_is_read_again(tmp_path: Path) -> None:
    run = opened(tmp_path, Users())
    files = read_next(run)
    whole = (tmp_path / files[0].path).read_bytes()
    (tmp_path / files[0].path).write_bytes(whole[: len(whole) // 2])
    run.commit(files)

    assert (run.report.read, run.report.commits, run.active) == (0, 0, True)
    assert (finish(run).read, rows(tmp_path)) == (15, expected(Users()))


def test_files_that_are_gone_again_and_again_fail_the_stream_and_move_no_state(tmp_path: Path) -> None:
    run = opened(tmp_path, Users(), "append")
    for _ in range(LOST_IN_A_ROW - 1):
        files = read_next(run)
        vacuum(tmp_path)
        run.commit(files)
    files = read_next(run)
    vacuum(tmp_path)
    with pytest.raises(TransientError, match=r"1 of 1 files of a commit are missing"):
        run.commit(files)

    assert run.table.saved is None
    assert not rows(tmp_path)
    # The next sync reads what is missing.
    assert (finish(opened(tmp_path, Users(), "append")).read, rows(tmp_path)) == (15, expected(Users()))


class Filling(LocalFolder):
    """A folder on a disk that is full once a file of the folder says so."""

    def make_durable(self, name: str) -> FileInfo:
        if (self.path / "full").exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().make_durable(name)


def test_a_disk_that_is_full_when_small_files_are_to_be_joined_fails_no_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("cdk.lake.parquet.table_rows.MANY", 3)
    for sync in ("s1", "s2"):
        finish(opened(tmp_path, Users(), "append", sync=sync))
    run = StreamSync(StreamPlan(Users(), Filling(tmp_path), "full_refresh", "append"), OpenTables("shop"), sync="s3")
    finish(run)
    (tmp_path / "full").touch()

    run.compact()

    assert run.report.status is Status.DONE
    assert "No space left on device" in caplog.text
    assert len(DeltaTable(str(tmp_path)).file_uris()) >= 3


@pytest.mark.parametrize("history", [False, True])
def test_a_merge_whose_files_are_gone_is_read_again(tmp_path: Path, *, history: bool) -> None:
    things = Things()
    other = LocalFolder(tmp_path / "things_history") if history else None
    plan = StreamPlan(things, LocalFolder(tmp_path / "things"), "full_refresh", "append_dedup", history=other)
    first = StreamSync(plan, OpenTables("shop"), sync="s1")
    first.prepare(run_inline)
    finish(first)
    run = StreamSync(plan, OpenTables("shop"), sync="s2")
    run.prepare(run_inline)
    files = read_next(run)
    for root in filter(Path.exists, (tmp_path / "things", tmp_path / "things_history")):
        vacuum(root)
    run.commit(files)

    assert (run.report.commits, run.active) == (0, True)
    assert finish(run).status is Status.DONE
    assert sorted(row["id"] for row in table_rows(tmp_path / "things")) == [0, 1, 2]
    if history:
        assert len(table_rows(tmp_path / "things_history")) == 6


@pytest.mark.parametrize(("hours", "left"), [(1, True), (25, False)])
def test_the_next_sync_removes_the_keys_that_a_killed_merge_has_left(tmp_path: Path, hours: int, *, left: bool) -> None:
    plan = StreamPlan(Things(), LocalFolder(tmp_path / "things"), "full_refresh", "append_dedup")
    keys = tmp_path / "things" / "_cdk_merge" / "0.parquet"
    keys.parent.mkdir(parents=True)
    keys.write_bytes(b"keys")
    then = keys.stat().st_mtime - hours * 3600
    os.utime(keys, (then, then))
    run = StreamSync(plan, OpenTables("shop"), sync="s1")
    run.prepare(run_inline)

    # A run on another machine may be merging with a young one.
    assert keys.exists() == left


class Things(Stream):
    name = "things"
    primary_key = "id"
    schema: JsonSchema | None = {"type": "object", "properties": {"id": {"type": "integer"}}}  # noqa: RUF012 - as an author writes it

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        yield from ({"id": n} for n in range(3))


def table_rows(root: Path) -> list[dict[str, Json]]:
    return [row for file in DeltaTable(str(root)).file_uris() for row in pq.read_table(file).to_pylist()]


def test_what_a_sync_has_saved_says_whether_it_is_complete(tmp_path: Path) -> None:
    run = opened(tmp_path, Orders())
    complete = []
    while run.active:
        run.commit(read_next(run, most=1))
        assert run.table.saved is not None
        complete.append(run.table.saved.complete)

    assert complete == [False] * (len(complete) - 1) + [True]


def test_a_mode_that_changes_begins_a_new_generation(tmp_path: Path) -> None:
    finish(opened(tmp_path, Orders()))
    full = finish(opened(tmp_path, Orders(), "append", sync="s2"))
    again = finish(opened(tmp_path, Orders(), sync="s3"))

    assert (full.written, again.written) == (21, 21)
    assert generations(tmp_path) == {1: 21, 2: 21, 3: 21}


class Breaking(Users):
    name = "users"

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        if token == {"page": 2}:
            raise ServerError("the third page is broken")
        return super().read_page(slice, token)


def test_a_stream_that_fails_commits_what_is_covered_and_is_not_complete(tmp_path: Path) -> None:
    report = finish(opened(tmp_path, Breaking(), "append"))

    assert (report.status, report.read, report.written, report.commits) == (Status.FAILED, 6, 6, 1)
    assert report.failure is not None
    assert report.failure.message == "the third page is broken"
    assert rows(tmp_path).total() == 6
    rest = finish(opened(tmp_path, Users(), "append", sync="s2"))
    assert (rest.resumed, rest.written) == (True, 9)
    assert rows(tmp_path) == expected(Users())


class BadPlan(ShopOrders):
    """Its list of parents breaks in the middle."""

    name = "shop_orders"

    def partitions(self) -> Iterable[Partition]:
        yield Partition.of(shop="a")
        raise ServerError("no more shops")


def test_a_plan_that_breaks_fails_the_stream_and_keeps_what_was_read(tmp_path: Path) -> None:
    report = finish(opened(tmp_path, BadPlan()))

    assert report.status is Status.FAILED
    assert report.failure is not None
    assert report.failure.message == "no more shops"
    assert rows(tmp_path).total() == report.written > 0
    finish(opened(tmp_path, ShopOrders(), sync="s2"))
    assert rows(tmp_path) == expected(ShopOrders())


def test_a_commit_that_is_refused_takes_back_what_it_covered(tmp_path: Path) -> None:
    stream = Users()
    first, second = opened(tmp_path, stream, "append"), opened(tmp_path, stream, "append")
    files = read_next(first)
    second.commit(read_next(second, seconds=0))
    with pytest.raises(StateConflict) as caught:
        first.commit(files)
    first.refused(Failure.of(caught.value))

    report = first.report
    assert (report.status, report.read, report.written, report.total, report.commits) == (Status.FAILED, 0, 0, 0, 0)
    assert report.failure is not None
    assert "another run moved this stream's state" in report.failure.message
    finish(second)
    assert rows(tmp_path) == expected(stream)


def test_a_slice_that_a_task_had_no_time_for_comes_again(tmp_path: Path) -> None:
    run = opened(tmp_path, ShopOrders())
    slice = run.next()
    assert slice is not None
    run.untouched(slice)

    assert run.next() == slice
    run.untouched(slice)
    finish(run)
    assert rows(tmp_path) == expected(ShopOrders())


def test_a_cursor_that_an_author_advances_by_hand_is_kept_when_the_slice_ends(tmp_path: Path) -> None:
    report = finish(opened(tmp_path, Versions()))
    again = finish(opened(tmp_path, Versions(), sync="s2"))

    assert (report.written, again.read, again.written) == (6, 0, 0)
