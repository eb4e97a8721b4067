"""A table of which a file of the log is damaged: what is said, and that what is advised helps and loses nothing."""

import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdk import CountCursor, Item, Json, Slice, Stream
from cdk.base.errors import StateError
from cdk.base.task_map import run_inline
from cdk.lake.admin.locate import StreamLocation
from cdk.lake.admin.verify import audits, findings
from cdk.lake.storage.folder import LocalFolder
from cdk.lake.storage.table_log import BrokenLog
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.stream_report import StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from tests.samples import pages
from tests.spark.given_source import Given

BACKUP = "Restore the file from a backup"
ANEW = "Without a backup, the rows of the table are unknown: move the table's folder away"
UNDONE = "the table and its state are then those before that commit, and the next sync reads its records again"
SPARE = "the commits that it sums up exist, and are read instead"


class Orders(Stream):
    name = "orders"
    primary_key = "n"
    supports_checkpointing = True
    cursor = CountCursor("n", start=0)

    def __init__(self) -> None:
        self.count = 9

    def json_schema(self) -> Json:
        return {"properties": {"n": {"type": "integer"}}}

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.window is not None
        yield from pages([{"n": n} for n in range(int(slice.window.start), self.count)], slice)


class Lake:
    """A table after two syncs. The pages have three records."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.stream = folder, Orders()
        self.log = folder / "orders" / "_delta_log"
        self.one = StreamLocation(
            "orders", LocalFolder(folder / "orders"), None, LocalFolder(folder / "orders_history")
        )
        self.sync()
        self.stream.count = 18
        self.sync()

    def sync(self) -> StreamReport:
        pipeline = Pipeline(
            name="shop",
            source=SourceOptions(connector="given"),
            target=TargetOptions(path=str(self.folder)),
            streams={"orders": StreamOptions(write_mode="append_dedup", history=True)},
            checkpoint_interval=timedelta(),
        )
        (report,) = SyncRunner(pipeline, Given([self.stream]), workers=Workers(run_inline, 1)).run().streams
        return report

    def commit(self, version: int) -> Path:
        return self.log / f"{version:020}.json"

    @property
    def newest(self) -> Path:
        return max(self.log.glob("*.json"))

    def checkpoint(self, version: int = 3) -> Path:
        table = DeltaTable(str(self.folder / "orders"))
        table.load_as_version(version)
        table.create_checkpoint()
        return self.log / f"{version:020}.checkpoint.parquet"

    @property
    def rows(self) -> list[list[int]]:
        tables = (DeltaTable(str(self.folder / name)).to_pyarrow_table() for name in ("orders", "orders_history"))
        return [sorted(table["n"].to_pylist()) for table in tables]

    def broken(self) -> str:
        """Why a sync fails, which `state verify` says, too."""
        failure = self.sync().failure
        assert failure is not None
        audited, unreadable = audits(self.one)
        found = [*unreadable, *findings(self.one, "shop", audited)]
        assert [(issue.stream, issue.text) for issue in found if issue.broken] == [("orders", failure.message)]
        return failure.message


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:300])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut_at_a_line(path: Path) -> None:
    path.write_bytes(b"\n".join(path.read_bytes().splitlines()[:-1]))


@pytest.mark.parametrize("entry", [Path.mkdir, lambda path: path.symlink_to("nowhere")])
def test_what_has_the_name_of_the_next_commit_is_to_be_moved_out_before_anything_is_read(
    lake: Lake, entry: Callable[[Path], None]
) -> None:
    following = lake.commit(int(lake.newest.stem) + 1)
    entry(following)
    lake.stream.count = 20

    said = lake.broken()

    assert said == (
        f"{following}: the table's log is damaged: found a folder or a broken link with the name of the next commit, "
        "expected that nothing has it yet. Move it out of the folder"
    )
    following.rename(lake.folder / "moved")
    assert lake.sync().failure is None
    assert lake.rows == [list(range(20))] * 2


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (cut, "found no JSON in line 1 (unexpected end of data), expected an object"),
        (empty, "found an empty file, expected JSON objects"),
        (lambda path: path.write_bytes(bytes(500)), "found no JSON in line 1"),
        (lambda path: path.write_text("[1]"), "found no object in line 1, expected one"),
        (cut_at_a_line, "found a commit of a sync without the line that moves the state"),
    ],
)
def test_a_newest_commit_that_is_damaged_may_be_moved_away_and_is_read_again(
    lake: Lake, damage: Callable[[Path], None], found: str
) -> None:
    damage(lake.newest)

    said = lake.broken()

    assert said.startswith(f"{lake.newest}: the table's log is damaged: {found}")
    assert BACKUP in said
    assert UNDONE in said
    lake.newest.unlink()
    assert lake.sync().failure is None
    assert lake.rows[0] == list(range(18))
    assert set(lake.rows[1]) == set(range(18))


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (cut, "found no JSON in line 1"),
        (empty, "found an empty file"),
        (Path.unlink, "the file is missing, and newer commits exist"),
    ],
)
def test_without_a_commit_in_the_middle_all_is_to_be_read_again(
    lake: Lake, damage: Callable[[Path], None], found: str
) -> None:
    damage(lake.commit(2))

    said = lake.broken()

    assert said.startswith(f"{lake.commit(2)}: the table's log is damaged: {found}")
    assert f"{BACKUP}. {ANEW}" in said
    shutil.rmtree(lake.folder / "orders")
    assert lake.sync().failure is None
    assert lake.rows[0] == list(range(18))
    assert set(lake.rows[1]) == set(range(18))


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (cut, "the checkpoint cannot be read (Parquet magic bytes not found in footer"),
        (empty, "the checkpoint cannot be read (it is empty)"),
        (Path.unlink, "the log names checkpoint 3, and none of its files exists"),
    ],
)
def test_a_checkpoint_may_be_moved_away_where_all_commits_are_there(
    lake: Lake, damage: Callable[[Path], None], found: str
) -> None:
    path, hint = lake.checkpoint(), lake.log / "_last_checkpoint"
    damage(path)

    said = lake.broken()

    assert said.startswith(f"{path if path.exists() else hint}: the table's log is damaged: {found}")
    assert said.endswith(SPARE)
    path.unlink(missing_ok=True)
    hint.unlink()
    assert lake.sync().failure is None
    assert lake.rows == [list(range(18))] * 2


def test_a_checkpoint_whose_commits_are_gone_is_needed(lake: Lake) -> None:
    cut(lake.checkpoint())
    lake.commit(1).unlink()

    assert f"{BACKUP}. {ANEW}" in lake.broken()


@pytest.mark.parametrize("damage", [cut, empty])
def test_a_commit_before_a_checkpoint_stops_no_sync(lake: Lake, damage: Callable[[Path], None]) -> None:
    lake.checkpoint()
    damage(lake.commit(2))

    assert lake.sync().failure is None
    ((issue,),) = [audits(lake.one)[1]]
    assert issue.text.startswith(f"{lake.commit(2)}: the table's log is damaged: ")
    assert "move it out of the folder: a later checkpoint has the rows of the table" in issue.text
    lake.commit(2).unlink()
    assert audits(lake.one)[1] == []


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": "3"}', '{"size": 3}'])
def test_a_log_that_does_not_say_which_checkpoint_is_the_newest_can_be_read(lake: Lake, content: str) -> None:
    lake.checkpoint()
    (lake.log / "_last_checkpoint").write_text(content)

    assert lake.sync().failure is None
    empty(lake.newest)
    assert "found an empty file" in lake.broken()


def test_what_delta_rs_says_besides_is_said_in_a_line(lake: Lake) -> None:
    path = lake.commit(0)
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if "metaData" not in line))

    with pytest.raises(StateError, match="delta-rs cannot open the table: ") as refused:
        lake.one.open("shop")

    assert not isinstance(refused.value, BrokenLog)
    assert (refused.value.path, refused.value.stream) == (str(lake.folder / "orders"), "orders")
    assert "\n" not in str(refused.value)
