"""Receipts: what a sync says it did, what the table's log says, and what a plain model of the world says."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from cdk import CountCursor, Item, Json, JsonSchema, Page, Slice, Stream
from cdk.base.errors import BadState, BugError, ReceiptError
from cdk.base.task_map import run_inline
from cdk.base.values import Record
from cdk.lake.admin.locate import OpenTables
from cdk.lake.arrow.columns import DELETED_AT
from cdk.lake.delta.receipt import RECEIPT, Receipt
from cdk.lake.delta.write_modes import WriteModeName
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import LocalFolder
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.loop.stream_sync import StreamSync
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.settings.stream_options import RemoveStaleOptions
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tables.stale_removal import RemovalRequest
from cdk.sync.tasks.bundle_task import read_bundle
from cdk.sync.tasks.messages import BundleJob
from cdk.sync.tasks.workers import Workers
from tests.spark.bundles_here import read_bundle_of
from tests.spark.given_source import Given

SOUND = Receipt(read=12, skipped=2, staged=10, superseded=2, stale=1, deleted=1, hidden=3, shown=4, added=7, removed=2)


def test_a_receipt_that_adds_up_passes() -> None:
    SOUND.check(5, stream="orders", path="/lake/orders")
    # A file of another writer need not say how many rows it has.
    SOUND.check(None, stream="orders", path="/lake/orders")


@pytest.mark.parametrize("name", ["read", "skipped", "staged", "superseded", "stale", "deleted", "hidden", "shown"])
@pytest.mark.parametrize("by", [-1, 1])
def test_any_figure_that_is_off_is_an_error_that_names_stream_and_figures(name: str, by: int) -> None:
    wrong = replace(SOUND, **{name: getattr(SOUND, name) + by})
    with pytest.raises(ReceiptError) as caught:
        wrong.check(5, stream="orders", path="/lake/orders")

    assert isinstance(caught.value, BugError)
    assert caught.value.stream == "orders"
    assert str(caught.value).startswith("/lake/orders: orders: the rows of a commit do not add up")
    assert f"{name} {getattr(wrong, name)}" in str(caught.value)


def test_rows_that_the_log_does_not_gain_are_an_error() -> None:
    with pytest.raises(ReceiptError, match="found 5 on the left and 4 on the right of added - removed"):
        SOUND.check(4, stream="orders", path="/lake/orders")


def test_a_receipt_reads_back_and_leaves_out_figures_that_it_does_not_know() -> None:
    assert Receipt.from_text(SOUND.to_text(), "version 1") == SOUND
    assert Receipt.from_text('{"read": 1, "blessed": 7}', "version 1") == Receipt(read=1)
    assert Receipt(read=1, added=2) + Receipt(read=3, removed=1) == Receipt(read=4, added=2, removed=1)


@pytest.mark.parametrize("text", ["", "[]", '{"read": "many"}', '{"read": null}'])
def test_what_is_no_receipt_is_refused(text: str) -> None:
    with pytest.raises(BadState, match="version 1: found"):
        Receipt.from_text(text, "version 1")


class Changing(Stream):
    """Records of small integer ids in pages; more and more of them have fields that the schema does not declare."""

    name = "things"
    primary_key = "id"
    schema: JsonSchema | None = {  # noqa: RUF012 - as an author writes it
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "shelf": {"type": "string"},
            "size": {"type": "integer"},
            DELETED_AT: {"type": "string"},
        },
    }

    def __init__(self, pages: Sequence[Sequence[Record]]) -> None:
        super().__init__()
        self._pages = pages

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        for page in self._pages:
            yield Page(page, None)


records = st.fixed_dictionaries(
    {
        "id": st.integers(0, 5),
        "shelf": st.sampled_from(["a", "b"]),
        "size": st.one_of(st.integers(0, 9), st.just("odd")),
    },
    optional={"late": st.just("x"), "later": st.just("y"), DELETED_AT: st.just("2024-01-01T00:00:00Z")},
)
pages_of_a_sync = st.lists(st.lists(records, min_size=1, max_size=4), max_size=5)


@dataclass(frozen=True)
class World:
    """How a table is written. hard: rows of keys that are deleted leave it."""

    mode: WriteModeName
    parted: bool = False
    hard: bool = False
    history: bool = False

    def after(self, syncs: Sequence[Sequence[Sequence[Record]]]) -> Counter[tuple[Json, ...]]:
        """The rows of the table after these reads."""
        reads = [[record for page in pages for record in page] for pages in syncs]
        if self.mode == "overwrite":
            # A read that finds nothing does not empty the table unasked.
            return Counter(map(shown, next(filter(None, reversed(reads)), [])))
        if self.mode == "append":
            return Counter(shown(record) for read in reads for record in read)
        newest = {record["id"]: record for read in reads for record in read}
        return Counter(shown(one) for one in newest.values() if not (self.hard and DELETED_AT in one))

    def sync(self, target: Path, pages: Sequence[Sequence[Record]]) -> StreamReport:
        dedup = self.mode == "append_dedup"
        options = StreamOptions.model_validate(
            {"write_mode": self.mode, "sync_mode": "full_refresh"}
            | ({"partition_by": ["shelf"]} if self.parted else {})
            | ({"deletes": "hard" if self.hard else "soft", "history": self.history} if dedup else {})
        )
        pipeline = Pipeline(
            name="test",
            source=SourceOptions(connector="given"),
            target=TargetOptions(path=str(target)),
            streams={"things": options},
            checkpoint_interval=timedelta(0),
        )
        (report,) = SyncRunner(pipeline, Given([Changing(pages)]), workers=Workers(run_inline, 2)).run().streams
        return report


def shown(record: Mapping[str, Json]) -> tuple[Json, ...]:
    """What tells a row: a size that is no integer is null in its column."""
    size = record.get("size")
    names = ("id", "shelf", "late", "later", DELETED_AT)
    return (size if isinstance(size, int) else None, *(record.get(name) for name in names))


def rows(root: Path) -> list[Mapping[str, Json]]:
    return [row for file in DeltaTable(str(root)).file_uris() for row in pq.read_table(file).to_pylist()]


def read_in_this_process(run: StreamSync) -> list[DataFile]:
    return read_bundle_of(run, 99, lambda pieces: read_bundle(BundleJob({0: run.target}, 100, 1), pieces))


def receipts(root: Path) -> list[Receipt]:
    """Those of all commits of a table, oldest first."""
    history = sorted(DeltaTable(str(root)).history(), key=lambda commit: int(commit["version"]))
    return [Receipt.from_text(commit[RECEIPT], str(root)) for commit in history if RECEIPT in commit]


WORLDS = [
    World(mode, parted, hard, history)
    for mode in ("append", "overwrite", "append_dedup")
    for parted in (False, True)
    for hard, history in ([(False, False), (True, False), (True, True)] if mode == "append_dedup" else [(False, False)])
]
LATE_COLUMN: list[list[Record]] = [[{"id": 1, "shelf": "a"}], [{"id": 2, "shelf": "a", "late": "x"}]]


@given(st.sampled_from(WORLDS), st.lists(pages_of_a_sync, min_size=1, max_size=3))
@example(World("append"), [LATE_COLUMN])
@example(World("append", parted=True), [LATE_COLUMN])
@example(World("overwrite"), [LATE_COLUMN])
@example(World("append_dedup"), [LATE_COLUMN])
@settings(max_examples=25, deadline=None)
def test_the_table_has_exactly_what_was_read_and_its_receipts_say_so(
    tmp_path_factory: pytest.TempPathFactory, world: World, syncs: list[list[list[Record]]]
) -> None:
    target = tmp_path_factory.mktemp("lake")
    reports = [world.sync(target, pages) for pages in syncs]

    in_table = rows(target / "things")
    assert Counter(map(shown, in_table)) == world.after(syncs)
    given_out = [record for pages in syncs for page in pages for record in page]
    total = sum(receipts(target / "things"), Receipt())
    assert total.added - total.removed == len(in_table)
    assert (total.read, total.skipped, total.staged) == (len(given_out), 0, len(given_out))
    assert total.rejected == sum(record.get("size") == "odd" for record in given_out)
    assert total.hidden == total.shown
    # The report of a run has those of its own commits.
    assert sum((report.by_commit.receipt for report in reports), Receipt()) == total
    if world.history:
        logged = sum(receipts(target / "things_history"), Receipt())
        assert (logged.staged, logged.added, logged.removed) == (len(given_out), len(given_out), 0)


@pytest.mark.parametrize("mode", ["append", "overwrite", "append_dedup"])
def test_a_commit_whose_files_lack_rows_that_were_read_is_not_made(tmp_path: Path, mode: WriteModeName) -> None:
    things = Changing([[{"id": n, "shelf": "a"}] for n in range(4)])
    run = StreamSync(
        StreamPlan(things, LocalFolder(tmp_path / "things"), "full_refresh", mode), OpenTables("test"), sync="s1"
    )
    files = read_in_this_process(run)
    before = DeltaTable(str(tmp_path / "things")).version()

    with pytest.raises(ReceiptError, match=r"things: .* found 4 on the left and 0 on the right of read = staged"):
        run.commit([])
    with pytest.raises(ReceiptError, match="found 4 on the left and 5 on the right of read = staged"):
        run.commit([*files, *(replace(file, rows=1) for file in files)])
    assert DeltaTable(str(tmp_path / "things")).version() == before
    assert run.table.saved is None

    run.commit(files)
    assert run.report.status is Status.DONE
    assert len(rows(tmp_path / "things")) == 4


class Growing(Stream):
    """Two records at each number, in ascending order; a further read begins with those that the last one ended with."""

    name = "events"
    cursor = CountCursor("seq", ordered=True)
    count = 20

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.window is not None
        yield Page([{"seq": n // 2, "id": n} for n in range(self.count) if n // 2 >= slice.window.start], {})


def test_what_a_read_skips_is_in_the_receipt(tmp_path: Path) -> None:
    stream = Growing()
    for sync, count in (("s1", 20), ("s2", 25)):
        stream.count = count
        run = StreamSync(
            StreamPlan(stream, LocalFolder(tmp_path / "events"), "incremental", "append"), OpenTables("test"), sync=sync
        )
        while run.active:
            run.commit(read_in_this_process(run))

    first, second = (receipt for receipt in receipts(tmp_path / "events") if receipt.read)
    assert first == Receipt(read=20, staged=20, added=20)
    assert second == Receipt(read=7, skipped=2, staged=5, added=5)


def test_the_receipt_stands_in_the_metadata_of_the_commit_as_one_json_object(tmp_path: Path) -> None:
    World("append").sync(tmp_path, LATE_COLUMN)

    (commit,) = (one for one in DeltaTable(str(tmp_path / "things")).history() if RECEIPT in one)
    assert orjson.loads(commit[RECEIPT]) == asdict(Receipt(read=2, staged=2, added=2))


def test_a_table_whose_files_do_not_say_how_many_rows_they_have_can_be_written(tmp_path: Path) -> None:
    World("append_dedup").sync(tmp_path, LATE_COLUMN)
    root = tmp_path / "things"
    log = root / "_delta_log" / f"{DeltaTable(str(root)).version():020}.json"
    actions = [orjson.loads(line) for line in log.read_bytes().splitlines()]
    for action in actions:
        if "add" in action:
            del action["add"]["stats"]
    log.write_bytes(b"\n".join(map(orjson.dumps, actions)))

    report = World("append_dedup").sync(tmp_path, [[{"id": 1, "shelf": "b"}]])

    assert report.status is Status.DONE
    assert sorted((row["id"], row["shelf"]) for row in rows(root)) == [(1, "b"), (2, "a")]
    assert pa.table(DeltaTable(str(root)).get_add_actions())["num_records"].null_count <= 1


class Versioned(Stream):
    """Records with a number that grows with each change; an API may give an older one later."""

    name = "things"
    primary_key = "id"
    cursor_field = "v"
    schema: JsonSchema | None = {  # noqa: RUF012 - as an author writes it
        "type": "object",
        "properties": {"id": {"type": "integer"}, "v": {"type": "integer"}},
    }

    def __init__(self, records: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self._records = records

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        yield from ({"id": id, "v": v} for id, v in self._records)


def synced(root: Path, stream: Stream, sync: str, removal: RemovalRequest | None = None) -> StreamReport:
    plan = StreamPlan(stream, LocalFolder(root), "full_refresh", "append_dedup")
    run = StreamSync(plan, OpenTables("test"), sync=sync, removal=removal)
    run.prepare(run_inline)
    while run.active:
        run.commit(read_in_this_process(run))
    return run.report


def test_rows_that_are_older_than_others_of_their_key_are_in_the_receipt(tmp_path: Path) -> None:
    synced(tmp_path / "things", Versioned([(1, 2), (2, 1), (2, 3)]), "s1")
    synced(tmp_path / "things", Versioned([(1, 1), (2, 4), (3, 1)]), "s2")

    first, second = receipts(tmp_path / "things")
    assert first == Receipt(read=3, staged=3, superseded=1, added=2)
    assert second == Receipt(read=3, staged=3, stale=1, added=2, removed=1)
    assert sorted((row["id"], row["v"]) for row in rows(tmp_path / "things")) == [(1, 2), (2, 4), (3, 1)]


@pytest.mark.parametrize(("removal", "removed"), [("hard", 2), ("soft", 0), ("report", 0)])
def test_rows_that_the_source_has_no_more_are_in_the_receipt_as_they_leave(
    tmp_path: Path, removal: str, removed: int
) -> None:
    wanted = RemovalRequest(RemoveStaleOptions.model_validate({"removal": removal, "fail_safe_threshold": 1.0}))
    synced(tmp_path / "things", Versioned([(n, 1) for n in range(5)]), "s1", wanted)
    report = synced(tmp_path / "things", Versioned([(n, 1) for n in range(3)]), "s2", wanted)

    assert report.status is Status.DONE
    total = sum(receipts(tmp_path / "things"), Receipt())
    assert (total.read, total.added, total.removed) == (8, 8, 3 + removed)
    assert total.added - total.removed == len(rows(tmp_path / "things"))
