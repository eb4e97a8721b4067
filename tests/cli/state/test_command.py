"""`spark-cdk state` on tables that were filled without Spark."""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from msgspec.structs import replace

from cdk.base.values import Json
from cdk.lake.delta.receipt import Receipt
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_state import TableState
from cdk.lake.delta.write_modes import WriteModeName
from cdk.lake.parquet.writer import DataFile, TableWriter
from cdk.lake.storage.run_lock import only_run
from tests.cli.conftest import CommandLine, Ran
from tests.cli.shop_pipeline import put_shop
from tests.spark.dying import dying_if_reached

ID = pa.schema([("id", pa.int64())])
JAN, FEB, MAR = (f"2024-0{n}-01T00:00:00Z" for n in (1, 2, 3))
INCREMENTAL = TableState("incremental", "append", sync="s1", complete=True)
PAGES = TableState("full_refresh", "overwrite", sync="s1", complete=True)

SHOP = dedent("""
    from datetime import UTC, datetime
    from cdk import CountCursor, DatetimeCursor, Page, PagedStream, Source, Stream

    class Users(PagedStream):
        def read_page(self, slice, token):
            return Page([], None)

    class Orders(Stream):
        cursor = DatetimeCursor("updated_at", start=datetime(2020, 1, 1, tzinfo=UTC))
        def read_records(self, slice):
            yield {}

    class Stamps(Orders):
        cursor = DatetimeCursor("at", start=datetime(2020, 1, 1, tzinfo=UTC), formats=["%ms"])

    class Events(Stream):
        cursor = CountCursor("seq")
        namespace = "log"
        def read_records(self, slice):
            yield {}

    class Shop(Source):
        stream_classes = [Users, Orders, Stamps, Events]
        config_schema = {"type": "object", "properties": {"api_key": {"type": "string", "airbyte_secret": True}}}
""")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return put_shop(tmp_path, SHOP, monkeypatch)


class Filled(NamedTuple):
    """A table and what was put into it."""

    root: Path

    def open(self) -> StreamTable:
        return StreamTable(self.root, "shop", self.root.name, ID)

    def add(self, state: Json, *ids: int, base: TableState = INCREMENTAL, **more: Json) -> None:
        writer = TableWriter(self.root, ID)
        writer.write([pa.RecordBatch.from_pylist([{"id": i} for i in ids], ID)])
        table = self.open()
        before = table.saved.records if table.saved else 0
        table.commit(replace(base, state=state, records=before + len(ids), **more), writer.close())

    @property
    def saved(self) -> TableState:
        saved = self.open().saved
        assert saved is not None
        return saved

    @property
    def ids(self) -> list[int]:
        return sorted(i for uri in DeltaTable(str(self.root)).file_uris() for i in pq.read_table(uri)["id"].to_pylist())

    @property
    def version(self) -> int:
        return int(DeltaTable(str(self.root)).version())

    @property
    def note(self) -> Json:
        return json.loads(DeltaTable(str(self.root)).history(1)[0]["spark-cdk.note"])


@pytest.fixture
def orders(folder: Path) -> Filled:
    filled = Filled(folder / "tables" / "orders")
    for n, moment in enumerate((JAN, FEB, MAR)):
        filled.add({"updated_at": moment}, n)
    return filled


@pytest.fixture
def state(cli: CommandLine) -> CommandLine:
    return lambda verb, *argv: cli("state", verb, "pipeline.yaml", *argv)


def answer(ran: Ran) -> Json:
    return json.loads("\n".join(ran.lines))


def test_show_says_where_each_stream_stands(state: CommandLine, orders: Filled, folder: Path) -> None:
    Filled(folder / "tables" / "users").add({"page": 3}, base=replace(PAGES, complete=False))

    ran = state("show")

    assert (ran.code, ran.stderr) == (0, "")
    assert ran.lines == [
        "orders: state 3, complete, incremental append, generation 1 with 3 rows",
        f"  updated_at: {MAR}",
        "  retained: 3, 2, 1",
        "users: state 1, interrupted, full_refresh overwrite, generation 1 with 0 rows",
        "  page: 3",
        "  retained: 1",
    ]
    assert orders.version == 3


def test_show_gives_programs_the_whole_state(state: CommandLine, orders: Filled) -> None:
    (found,) = answer(state("show", "--stream", "orders", "--json"))["streams"]

    assert (found["number"], found["state"], found["retained"], found["lost"]) == (
        3,
        {"updated_at": MAR},
        [3, 2, 1],
        None,
    )
    assert found["path"] == str(orders.root)


def test_show_tells_of_a_lost_state_and_of_streams_that_are_not_there(state: CommandLine, orders: Filled) -> None:
    for path in (orders.root / "_cdk_state" / "shop").iterdir():
        path.unlink()

    shown = state("show")
    assert shown.code == 1
    assert shown.lines[0].startswith("orders: the state cannot be read: ")
    ran = state("show", "--stream", "ordres")
    assert (ran.code, ran.stderr) == (
        1,
        "Error: no table of this pipeline belongs to a stream 'ordres'; did you mean 'orders'?\n",
    )


def test_a_damaged_log_is_told_beside_the_states_of_the_other_tables(
    state: CommandLine, orders: Filled, folder: Path
) -> None:
    Filled(folder / "tables" / "users").add(None, 1, base=PAGES)
    path = max((orders.root / "_delta_log").glob("*.json"))
    path.write_text("no log")

    shown, as_json, verified = state("show"), answer(state("show", "--json"))["streams"], state("verify")

    assert shown.lines[0].startswith(f"orders: the state cannot be read: {path}: the table's log is damaged: found no ")
    assert shown.lines[1].startswith("users: state 1, complete")
    assert [found["lost"] is None for found in as_json] == [False, True]
    assert (verified.code, verified.lines[-1]) == (1, "shop: 2 tables, something is broken")
    assert f"orders: broken: {path}: the table's log is damaged: " in "\n".join(verified.lines)


DAMAGE: Mapping[str, Callable[[Path], object]] = {
    "no JSON": lambda path: path.write_text("no log"),
    "empty": lambda path: path.write_text(""),
    "missing": lambda path: path.with_name(f"{1:020}.json").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize(
    "verb", ["log", "gc --days 0", "gc --days 0 --dry-run", "fork store", "reset", "reset --dry-run"]
)
def test_a_verb_leaves_a_table_with_a_damaged_log_out_and_says_so(
    state: CommandLine, orders: Filled, folder: Path, verb: str, damage: str
) -> None:
    users = Filled(folder / "tables" / "users")
    users.add(None, 1, base=PAGES)
    (users.root / "_cdk_state" / "shop" / "draft.json.1").write_text("{}")
    DAMAGE[damage](max((orders.root / "_delta_log").glob("*.json")))
    before = sorted(orders.root.rglob("*"))

    ran, alone = state(*verb.split()), state(*verb.split(), "--stream", "orders")

    assert (ran.code, alone.code) == (1, 1)
    assert any(line.startswith("users") for line in ran.lines), ran.lines
    assert re.search("^orders: broken: .*the table's log is damaged: ", "\n".join(ran.lines), re.MULTILINE)
    assert "the table's log is damaged: " in alone.stderr + "\n".join(alone.lines)
    assert sorted(orders.root.rglob("*")) == before


UNSUPPORTED: Mapping[str, Json] = {
    "feature": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["later"], "writerFeatures": ["later"]},
    "version": {"minReaderVersion": 9, "minWriterVersion": 9},
}


@pytest.mark.parametrize("protocol", UNSUPPORTED)
@pytest.mark.parametrize("verb", ["show", "log", "verify", "gc --days 0", "fork store", "reset", "export -"])
def test_a_verb_leaves_a_table_out_that_cannot_be_opened(
    state: CommandLine, orders: Filled, folder: Path, verb: str, protocol: str
) -> None:
    users = Filled(folder / "tables" / "users")
    users.add(None, 1, base=PAGES)
    (users.root / "_cdk_state" / "shop" / "draft.json.1").write_text("{}")
    commit = orders.root / "_delta_log" / f"{orders.version + 1:020}.json"
    commit.write_text(json.dumps({"protocol": UNSUPPORTED[protocol]}))

    ran = state(*verb.split())

    assert ran.code == 1
    assert any("users" in line for line in ran.lines), ran.lines
    assert re.search(r"^orders: .*\bdelta-rs cannot open ", "\n".join([*ran.lines, ran.stderr]), re.MULTILINE)


def test_an_export_has_the_states_that_can_be_read_and_names_the_others(
    state: CommandLine, orders: Filled, folder: Path
) -> None:
    Filled(folder / "tables" / "users").add(None, 1, base=PAGES)
    newest = max((orders.root / "_cdk_state" / "shop").iterdir(), key=lambda path: int(path.stem))
    newest.unlink()

    printed, written = state("export", "-"), state("export", "all.json")
    alone = state("export", "all.json", "--stream", "orders")

    assert (printed.code, written.code, alone.code) == (1, 1, 1)
    (exported,) = answer(printed)
    assert exported["stream"]["stream_descriptor"] == {"name": "users"}
    assert json.loads((folder / "all.json").read_text()) == [exported]
    assert (written.lines, alone.lines) == (["1 state in all.json"], [])
    for ran in (printed, written, alone):
        assert ran.stderr.startswith(f"orders: broken: {newest}: the table is at state ")


def test_log_says_what_moved(state: CommandLine, orders: Filled) -> None:
    state("rewind", "--to", "2024-02-15", "--stream", "orders")

    lines = state("log").lines

    assert lines[0] == "orders"
    assert lines[1].endswith("version 4, state 4, 0 rows, rewind to 2024-02-15, complete, sync s1")
    assert lines[2] == f"      updated_at: {MAR} → 2024-02-15T00:00:00Z"
    assert lines[3].endswith("version 3, state 3, 1 row, complete, sync s1")
    (found,) = answer(state("log", "--limit", "1", "--json"))["streams"]
    assert [(one["version"], one["number"]) for one in found["commits"]] == [(4, 4)]
    assert orders.version == 4


def test_log_counts_rows_that_were_added_and_none_that_were_written_again(state: CommandLine, orders: Filled) -> None:
    table = orders.open()
    (first, *_), merged = table.files(), TableWriter(orders.root, ID)
    merged.write([pa.RecordBatch.from_pylist([{"id": 0}, {"id": 9}], ID)])
    table.commit(INCREMENTAL, merged.close(), remove=[first], receipt=Receipt(read=1, staged=1, added=1))
    state("rollback", "3", "--tables", "--stream", "orders")

    restored, added, *_ = answer(state("log", "--json"))["streams"][0]["commits"]

    assert (restored["operation"], restored["rows"]) == ("RESTORE", None)
    assert (added["number"], added["rows"]) == (4, 1)


def test_diff_compares_two_states_of_a_stream(state: CommandLine, orders: Filled) -> None:
    ran = state("diff", "1", "3", "--stream", "orders")

    assert ran.lines == ["records: 1 → 3", f"updated_at: {JAN} → {MAR}"]
    assert state("diff", "2", "2").lines == ["no differences"]
    refused = state("diff", "2", "9")
    assert (refused.code, refused.stderr) == (1, "Error: orders: state 9 is not retained, expected one of 1, 2, 3\n")
    assert orders.version == 3


@pytest.mark.parametrize(
    "argv",
    [
        ("reset",),
        ("set", "orders", "new.json"),
        ("rewind", "--to", "2024-01-15"),
        ("rollback", "1"),
        ("rollback", "1", "--tables"),
        ("import", "import.json", "--replace"),
        ("fork", "second"),
        ("gc", "--days", "0"),
    ],
    ids=" ".join,
)
def test_a_dry_run_changes_nothing_and_a_running_sync_keeps_changes_out(
    state: CommandLine, orders: Filled, folder: Path, argv: tuple[str, ...]
) -> None:
    (folder / "new.json").write_text(json.dumps({"updated_at": JAN}))
    (folder / "import.json").write_text(json.dumps({"orders": {"updated_at": JAN}}))
    (orders.root / f"part-{'0' * 32}.parquet").write_bytes(b"left over")
    before = sorted(path for path in (folder / "tables").rglob("*"))
    verb, *rest = argv

    dry = state(verb, *rest, "--dry-run")

    assert (dry.code, dry.stderr) == (0, "")
    assert any("would be" in line for line in dry.lines)
    assert sorted((folder / "tables").rglob("*")) == before
    with only_run(folder / "tables", "shop"):
        refused = state(verb, *rest)
    assert refused.code == 75
    assert "another sync of the pipeline 'shop' is running, by process" in refused.stderr
    assert sorted(path for path in (folder / "tables").rglob("*") if path.suffix != ".lock") == [
        *(path for path in sorted([*before, folder / "tables" / "_cdk"]))
    ]
    assert (state(verb, *rest).code, orders.ids) == (0, [0] if "--tables" in rest else [0, 1, 2])
    assert sorted((folder / "tables").rglob("*")) != before


@pytest.mark.parametrize(
    "argv", [("reset",), ("reset", "--stream", "orders"), ("rollback", "1"), ("gc",)], ids=" ".join
)
def test_the_first_sync_of_a_pipeline_keeps_changes_out_before_it_has_tables(
    state: CommandLine, folder: Path, argv: tuple[str, ...]
) -> None:
    verb, *rest = argv

    with only_run(folder / "tables", "shop"):
        refused = state(verb, *rest)

    assert refused.code == 75
    assert "another sync of the pipeline 'shop' is running, by process" in refused.stderr


def test_a_change_of_a_target_that_does_not_exist_creates_none(state: CommandLine, folder: Path) -> None:
    refused = state("reset")

    assert refused.code == 1
    assert "the folder does not exist; run a sync" in refused.stderr
    assert not (folder / "tables").exists()


def test_a_change_leaves_the_name_of_a_cut_sync_alone(state: CommandLine, orders: Filled, folder: Path) -> None:
    lock = folder / "tables" / "_cdk" / "shop.sync"
    lock.parent.mkdir()
    lock.write_text("abc by process 1 on host")

    assert state("reset").code == 0
    assert lock.read_text() == "abc by process 1 on host"
    assert orders.saved.state is None


def test_reset_reads_from_the_start_in_a_new_generation(state: CommandLine, orders: Filled) -> None:
    ran = state("reset", "--stream", "orders")

    assert ran.code == 0
    doubled = "Records that it reads again are added as further rows."
    assert ran.lines == [
        "orders: reset: done, version 4 of the table",
        f"  updated_at: {MAR} → nothing",
        f"  The next sync reads the stream from its start. {doubled}",
        "  Rows of the new read have _airbyte_generation_id 2.",
    ]
    assert orders.saved == TableState("incremental", "append", generation=2)
    assert orders.ids == [0, 1, 2]
    assert orders.note["what"] == "reset"
    assert orders.note["moves"] == [f"updated_at: {MAR} → nothing"]


PARTITIONS: Json = {
    "use_global_cursor": False,
    "states": [{"partition": {"shop": s}, "cursor": {"updated_at": MAR}} for s in ("a", "b")],
    "parent_state": {"shops": {"updated_at": MAR}},
}


def test_show_of_a_partition_leaves_out_the_others(state: CommandLine, orders: Filled) -> None:
    orders.add(PARTITIONS)
    lines = state("show", "--partition", '{"shop": "b"}').lines

    assert [line for line in lines if "shop" in line] == [f'  {{"shop":"b"}} updated_at: {MAR}']
    assert state("show", "--partition", '{"shop": "c"}').code == 1


def test_reset_of_a_partition_leaves_the_others(state: CommandLine, orders: Filled) -> None:
    orders.add(PARTITIONS)

    assert state("reset", "--partition", '{"shop": "a"}').code == 0

    # The parents are read anew: one that has not changed would not bring its partition up.
    assert orders.saved.state == {"use_global_cursor": False, "states": PARTITIONS["states"][1:]}
    assert orders.saved.generation == 1
    unknown = state("reset", "--partition", '{"shop": "c"}')
    expected = 'expected one of its 1, such as {"shop":"b"}'
    assert (unknown.code, unknown.stderr) == (1, f'Error: the state has no partition {{"shop":"c"}}, {expected}\n')
    assert state("reset", "--partition", "shop a").code == 2
    assert state("reset", "--partition", "3").code == 2


def test_reset_of_a_partition_begins_there_also_where_others_share_a_cursor(state: CommandLine, orders: Filled) -> None:
    shared = {"partition": {}, "cursor": {"updated_at": FEB}}
    orders.add({"use_global_cursor": False, "states": [shared, *PARTITIONS["states"]]})

    state("reset", "--partition", '{"shop": "a"}')

    states = orders.saved.state["states"]
    assert {"partition": {"shop": "a"}, "cursor": {}} in states
    assert shared in states


def test_reset_helps_where_the_state_is_lost(state: CommandLine, orders: Filled) -> None:
    newest = max((orders.root / "_cdk_state" / "shop").iterdir(), key=lambda path: int(path.stem))
    newest.unlink()

    assert state("rewind", "--to", "2024-01-15").code == 1
    assert state("reset").code == 0
    assert orders.saved == TableState("incremental", "append", generation=2)
    assert orders.ids == [0, 1, 2]


@pytest.mark.parametrize("verb", [("reset",), ("rollback", "2")], ids=" ".join)
def test_what_helps_where_a_state_is_cut_off_is_named(
    state: CommandLine, orders: Filled, verb: tuple[str, ...]
) -> None:
    newest = max((orders.root / "_cdk_state" / "shop").iterdir(), key=lambda path: int(path.stem))
    newest.write_bytes(newest.read_bytes()[:50])

    shown, as_json = state("show"), state("show", "--json")

    assert (shown.code, as_json.code) == (1, 1)
    assert f"`spark-cdk state {verb[0]}`" in shown.lines[0]
    assert state(*verb).code == 0
    assert state("show").code == 0


def test_reset_helps_where_every_state_is_lost(state: CommandLine, orders: Filled) -> None:
    for path in (orders.root / "_cdk_state" / "shop").iterdir():
        path.unlink()

    assert state("reset").code == 0
    assert (orders.saved.state, orders.saved.complete) == (None, False)


def test_a_table_whose_folder_of_states_is_gone_is_broken_until_a_reset(state: CommandLine, orders: Filled) -> None:
    shutil.rmtree(orders.root / "_cdk_state")

    broken = state("verify")

    assert broken.code == 1
    assert any("this file is missing" in line for line in broken.lines)
    assert state("reset").code == 0
    assert (orders.saved.state, orders.ids) == (None, [0, 1, 2])
    assert state("verify").code == 0


def test_reset_takes_over_a_copy_of_a_table_by_the_name_of_its_stream(state: CommandLine, folder: Path) -> None:
    copy = Filled(folder / "tables" / "orders")
    write_deltalake(str(copy.root), pa.table({"id": [1, 2], "_airbyte_raw_id": ["a", "b"]}))

    assert state("reset", "--stream", "orders").code == 0
    assert (copy.saved.state, copy.ids) == (None, [1, 2])


def test_reset_of_what_was_never_read_is_refused(state: CommandLine, folder: Path) -> None:
    StreamTable(folder / "tables" / "orders", "shop", "orders", ID).add([])
    (folder / "tables" / "orders" / "_cdk_state" / "shop").mkdir(parents=True)

    named, every = state("reset", "--stream", "orders"), state("reset")

    assert (named.code, named.stderr) == (
        1,
        "Error: orders: nothing was committed for this stream yet: there is no state\n",
    )
    assert (every.code, every.stderr) == (1, "Error: pipeline.yaml: there is no stream with a state\n")


@pytest.mark.parametrize("argv", [("reset",), ("rewind", "--to", "2024-01-15"), ("fork", "second")], ids=" ".join)
def test_a_stream_whose_first_commit_was_killed_keeps_no_other_from_being_changed(
    state: CommandLine, orders: Filled, folder: Path, argv: tuple[str, ...]
) -> None:
    stamps = StreamTable(folder / "tables" / "stamps", "shop", "stamps", ID)
    with dying_if_reached("after_state_blob"):
        stamps.commit(replace(INCREMENTAL, state={"at": 1}))
    verb, *rest = argv

    ran = state(verb, *rest)

    assert (ran.code, [line for line in ran.lines if "done" in line]) == (0, [ran.lines[0]])
    assert orders.version == 4
    assert state("verify").code == 0


def test_reset_of_a_partition_needs_the_name_of_its_stream(state: CommandLine, orders: Filled, folder: Path) -> None:
    Filled(folder / "tables" / "stamps").add({"at": "1"})

    ran = state("reset", "--partition", "{}")

    assert (ran.code, orders.version) == (1, 3)
    assert "choose one with --stream" in ran.stderr


def test_set_takes_any_form_of_the_state_and_refuses_others(state: CommandLine, orders: Filled, folder: Path) -> None:
    new = folder / "new.json"
    new.write_text(json.dumps({"slices": [{"start": JAN, "end": FEB}], "state_type": "date-range"}))

    assert state("set", "orders", "new.json").code == 0
    assert orders.saved.state == {"updated_at": JAN}
    assert (orders.saved.complete, orders.saved.records) == (True, 3)
    new.write_text('"not a state"')
    ran = state("set", "orders", "new.json")
    assert ran.code == 1
    assert "state of orders: found 'not a state', expected a JSON object" in ran.stderr


@pytest.mark.parametrize("mode", ["append", "append_dedup"])
def test_set_on_a_complete_full_refresh_goes_on_in_a_new_generation(
    state: CommandLine, folder: Path, mode: WriteModeName
) -> None:
    users, base = Filled(folder / "tables" / "users"), replace(PAGES, write_mode=mode)
    users.add(None, 1, base=base)
    (folder / "new.json").write_text('{"page": 7}')

    state("set", "users", "new.json")

    assert users.saved == replace(base, state={"page": 7}, complete=False, generation=2)


def test_a_state_in_the_middle_of_an_overwrite_begins_none_that_lacks_the_rows_before(
    state: CommandLine, folder: Path
) -> None:
    users = Filled(folder / "tables" / "users")
    users.add(None, 1, base=PAGES)
    (folder / "new.json").write_text('{"page": 7}')

    done = state("set", "users", "new.json")

    assert done.code == 0
    assert any("What was read before is not in the table" in line for line in done.lines)
    assert users.saved == replace(PAGES, records=1)


@pytest.mark.parametrize("verb", ["set", "reset"])
def test_an_interrupted_overwrite_that_is_moved_begins_anew_for_its_rows_are_those_of_one_read(
    state: CommandLine, folder: Path, verb: str
) -> None:
    users = Filled(folder / "tables" / "users")
    page, part = {"page": 7}, {"states": [{"partition": {"shop": "a"}, "cursor": {"page": 7}}]}
    waiting = DataFile("waiting.parquet", 1, 3, 0)
    users.add(page if verb == "set" else part, base=replace(PAGES, complete=False, pending=(waiting,)))
    (folder / "new.json").write_text('{"page": 5}')

    if verb == "set":
        done = state("set", "users", "new.json")
    else:
        done = state("reset", "--stream", "users", "--partition", '{"shop": "a"}')

    assert done.code == 0
    assert any("the next sync would duplicate or miss some of them" in line for line in done.lines)
    assert users.saved == TableState("full_refresh", "overwrite", generation=2)


def test_the_state_of_a_complete_full_refresh_reads_nothing_as_done(state: CommandLine, folder: Path) -> None:
    users = Filled(folder / "tables" / "users")
    users.add({"page": 2}, 1, base=replace(PAGES, write_mode="append", complete=False))
    (folder / "new.json").write_text('{"__ab_full_refresh_sync_complete": true}')

    state("set", "users", "new.json")

    assert users.saved == TableState("full_refresh", "append", generation=2)


def test_rewind_moves_cursors_back_and_never_forward(state: CommandLine, orders: Filled, folder: Path) -> None:
    stamps, events = Filled(folder / "tables" / "stamps"), Filled(folder / "tables" / "log" / "events")
    users = Filled(folder / "tables" / "users")
    states = [{"partition": {"shop": s}, "cursor": {"updated_at": m}} for s, m in (("a", JAN), ("b", MAR))]
    orders.add({"use_global_cursor": False, "states": states, "parent_state": {"shops": {"updated_at": MAR}}})
    stamps.add({"at": 1_709_251_200_000})
    events.add({"seq": 90})
    users.add({"page": 3}, base=PAGES)

    ran = state("rewind", "--to", "2024-02-01", "--stream", "orders", "--stream", "stamps")

    assert ran.code == 0
    assert [item["cursor"]["updated_at"] for item in orders.saved.state["states"]] == [JAN, FEB]
    assert "parent_state" not in orders.saved.state
    assert stamps.saved.state == {"at": 1_706_745_600_000}
    assert "  Records" not in ran.lines
    assert any("are added as further rows" in line for line in ran.lines)
    again = state("rewind", "--to", "2024-02-02", "--stream", "stamps")
    assert again.lines[0] == "stamps: rewind to 2024-02-02: nothing to do"
    assert state("rewind", "--to", "20", "--stream", "log.events").code == 0
    assert events.saved.state == {"seq": 20}
    assert state("rewind", "--to", "2024-01-01", "--stream", "users").code == 1
    assert state("rewind", "--to", "today", "--stream", "orders").code == 1
    assert users.version == 1


def test_rewind_without_a_stream_leaves_those_without_a_cursor(
    state: CommandLine, orders: Filled, folder: Path
) -> None:
    Filled(folder / "tables" / "users").add({"page": 3}, base=PAGES)

    ran = state("rewind", "--to", "2024-01-15")

    assert ran.lines[0] == "users: has no cursor, left as it is"
    assert orders.saved.state == {"updated_at": "2024-01-15T00:00:00Z"}


def test_rewind_of_a_partition_leaves_the_others(state: CommandLine, orders: Filled) -> None:
    orders.add(PARTITIONS)

    state("rewind", "--to", "2024-02-01", "--partition", '{"shop": "a"}')

    assert [item["cursor"]["updated_at"] for item in orders.saved.state["states"]] == [FEB, MAR]


@pytest.mark.parametrize(
    ("until", "slices", "said"),
    [
        ("2024-01-15", [{"window": ["2024-01-15T00:00:00Z", MAR, MAR, False], "done": True}], "until 2024-01-15: done"),
        ("2024-03-01", None, "until 2024-03-01: done"),
        ("2024-01-01", None, "found nothing between 2024-01-01 and 2024-01-01, expected an end after the beginning"),
        ("today", None, "found 'today'"),
    ],
)
def test_rewind_with_an_end_leaves_a_cursor_beyond_it(
    state: CommandLine, orders: Filled, until: str, slices: Json, said: str
) -> None:
    orders.add({"updated_at": MAR})

    ran = state("rewind", "--to", "2024-01-01", "--until", until)

    assert said in ran.stderr + "\n".join(ran.lines)
    assert ("lies between 2024-01-01 and 2024-01-15, and what is new" in "\n".join(ran.lines)) is bool(slices)
    if ran.code == 0:
        rewound = {"through": JAN, "slices": slices} if slices else None
        assert orders.saved.state == {"updated_at": MAR, "_cdk": rewound} if slices else {"updated_at": JAN}


def test_the_same_rewind_with_an_end_before_a_sync_changes_nothing(state: CommandLine, orders: Filled) -> None:
    orders.add({"updated_at": MAR})
    range_again = ("rewind", "--to", "2024-01-01", "--until", "2024-01-15")
    state(*range_again)
    once = orders.saved.state

    assert "nothing changes" in "\n".join(state(*range_again).lines)
    assert orders.saved.state == once


def test_rewind_drops_what_a_cut_attempt_read_beyond(state: CommandLine, orders: Filled) -> None:
    window = {"window": [MAR, "2024-04-01T00:00:00Z", "2024-04-01T00:00:00Z", True], "cursor": {"page": 2}}
    edge = {"value": JAN, "keys": {"digest": JAN}}
    orders.add({"updated_at": JAN, "_cdk": {"through": MAR, "slices": [window], "edge": edge}}, complete=False)

    state("rewind", "--to", "2024-02-01")

    assert orders.saved.state == {"updated_at": JAN, "_cdk": {"edge": edge}}


def test_a_refusal_for_one_stream_changes_none(state: CommandLine, orders: Filled, folder: Path) -> None:
    users = Filled(folder / "tables" / "users")
    users.add({"page": 3}, base=PAGES)

    ran = state("rewind", "--to", "2024-01-15", "--stream", "orders", "--stream", "users")

    assert ran.code == 1
    assert ran.stderr.startswith("Error: users: there is no cursor to move back")
    assert orders.version == 3


def test_rollback_takes_an_earlier_state(state: CommandLine, orders: Filled) -> None:
    ran = state("rollback", "2")

    assert ran.code == 0
    assert (orders.saved.state, orders.ids) == ({"updated_at": FEB}, [0, 1, 2])
    assert ran.lines[0] == "orders: rollback to state 2: done, version 4 of the table"


def test_rollback_of_tables_brings_rows_and_state_back_in_one_commit(state: CommandLine, orders: Filled) -> None:
    running = orders.open()
    ran = state("rollback", "2", "--tables")

    assert ran.code == 0
    assert (orders.saved.state, orders.saved.records, orders.ids, orders.version) == ({"updated_at": FEB}, 2, [0, 1], 4)
    assert orders.note["what"] == "rollback to state 2, rows of version 2"
    assert "version 4, RESTORE by `spark-cdk state`: 1 row fewer" in "".join(state("verify").lines)
    # A sync of another machine, which the lock does not keep out, is refused.
    with pytest.raises(Exception, match="another run moved this stream's state"):
        running.commit(INCREMENTAL)
    orders.add({"updated_at": MAR}, 7)
    assert (orders.ids, orders.saved.records) == ([0, 1, 7], 3)
    assert state("rollback", "3", "--tables").code == 0
    assert orders.ids == [0, 1, 2]


def test_rollback_of_tables_whose_rows_are_gone_changes_nothing(state: CommandLine, orders: Filled) -> None:
    orders.open().commit(INCREMENTAL, overwrite=True)
    DeltaTable(str(orders.root)).vacuum(0, dry_run=False, enforce_retention_duration=False)

    dry, ran = state("rollback", "3", "--tables", "--dry-run"), state("rollback", "3", "--tables")

    assert dry == ran
    assert ran.code == 1
    assert "the rows of version 3 cannot be restored, so nothing was changed (3 of its files no longer" in ran.stderr
    assert (orders.saved.state, orders.ids) == (None, [])


def test_rollback_to_rows_that_waited_needs_the_tables(state: CommandLine, folder: Path) -> None:
    users = Filled(folder / "tables" / "users")
    writer = TableWriter(users.root, ID)
    users.open()
    writer.write([pa.RecordBatch.from_pylist([{"id": 1}], ID)])
    files = writer.close()
    users.open().commit(replace(PAGES, complete=False, pending=tuple(files), state={"page": 1}))
    users.open().commit(replace(PAGES, records=1), files, overwrite=True)

    refused = state("rollback", "1")

    assert (refused.code, users.ids) == (1, [1])
    assert "are visible now; roll back with --tables" in refused.stderr
    assert state("rollback", "1", "--tables").code == 0
    assert (users.ids, users.saved.pending) == ([], tuple(files))


def test_numbers_belong_to_one_stream(state: CommandLine, orders: Filled, folder: Path) -> None:
    Filled(folder / "tables" / "users").add({"page": 3}, base=PAGES)

    ran = state("rollback", "1")

    assert ran.code == 1
    assert (
        "found 2 streams: orders, users, expected one, because each has its own states; choose one with" in ran.stderr
    )
    assert orders.version == 3


def test_an_exported_state_is_read_by_airbyte_and_by_import(state: CommandLine, orders: Filled) -> None:
    edge = {"value": MAR, "keys": {"digest": MAR}}
    orders.add({"updated_at": MAR, "_cdk": {"edge": edge}})

    exported = answer(state("export", "-"))
    state("export", "exact.json", "--format", "exact")
    state("reset")

    assert exported == [
        {"type": "STREAM", "stream": {"stream_descriptor": {"name": "orders"}, "stream_state": {"updated_at": MAR}}}
    ]
    assert state("import", "exact.json", "--replace").code == 0
    assert orders.saved.state == {"updated_at": MAR, "_cdk": {"edge": edge}}


def test_a_cursor_that_partitions_share_is_exported_alone_and_in_full(state: CommandLine, orders: Filled) -> None:
    edge = {"value": MAR, "keys": {"digest": MAR}}
    shared = {"use_global_cursor": True, "state": {"updated_at": MAR}, "lookback_window": 1}
    partition = {"partition": {"shop": "a"}, "cursor": {"updated_at": FEB, "_cdk": {"edge": {**edge, "value": FEB}}}}
    orders.add({**shared, "states": [partition]})

    (exported,) = answer(state("export", "-"))
    state("export", "exact.json", "--format", "exact")
    state("rewind", "--to", JAN, "--stream", "orders")
    rewound = orders.saved.state

    assert exported["stream"]["stream_state"] == shared
    assert (rewound["use_global_cursor"], rewound["state"]) == (True, {"updated_at": JAN})
    assert rewound["states"] == [{"partition": {"shop": "a"}, "cursor": {"updated_at": JAN}}]
    assert state("import", "exact.json", "--replace").code == 0
    assert orders.saved.state == {**shared, "states": [partition]}
    assert state("fork", "other").code == 0
    forked = StreamTable(orders.root, "other", "orders", ID).saved
    assert forked is not None
    assert forked.state == {**shared, "states": [partition]}
    assert state("reset", "--partition", "{}").code == 0
    assert orders.saved.state == {"use_global_cursor": False, "states": [partition], "lookback_window": 1}


def test_a_state_that_was_interrupted_is_so_when_it_is_imported(state: CommandLine, orders: Filled) -> None:
    window = {"through": JAN, "slices": [{"window": [JAN, FEB, FEB, False], "cursor": {"page": 2}}]}
    orders.add({"updated_at": JAN, "_cdk": window})
    state("export", "exact.json", "--format", "exact")

    assert state("import", "exact.json", "--replace").code == 0

    assert not orders.saved.complete


def test_an_interrupted_read_of_partitions_resumes_behind_the_same_one_after_an_edit(
    state: CommandLine, orders: Filled
) -> None:
    read = [{"partition": {"shop": shop}, "cursor": {"updated_at": MAR}} for shop in "ab"]
    saved = {"use_global_cursor": False, "states": read, "_cdk": {"after": {"shop": "b"}}}
    orders.add(saved, complete=False)

    (exported,) = answer(state("export", "-"))
    state("export", "exact.json", "--format", "exact")
    assert exported["stream"]["stream_state"] == saved
    assert state("rewind", "--to", FEB).code == 0
    assert orders.saved.state["_cdk"] == saved["_cdk"]
    assert state("reset", "--partition", '{"shop": "a"}').code == 0
    assert orders.saved.state["_cdk"] == saved["_cdk"]
    assert state("fork", "other").code == 0
    forked = StreamTable(orders.root, "other", "orders", ID).saved
    assert forked is not None
    assert forked.state == orders.saved.state
    assert state("reset").code == 0
    assert state("import", "exact.json", "--replace").code == 0
    assert (orders.saved.state, orders.saved.complete) == (saved, False)


def test_a_state_can_be_imported_before_the_first_sync(state: CommandLine, folder: Path) -> None:
    message = {
        "type": "STREAM",
        "stream": {"stream_descriptor": {"name": "orders"}, "stream_state": {"updated_at": FEB}},
    }
    (folder / "airbyte.json").write_text(json.dumps([message]))

    dry = state("import", "airbyte.json", "--dry-run")
    assert (dry.code, (folder / "tables").exists()) == (0, False)
    assert state("import", "airbyte.json").code == 0

    orders = Filled(folder / "tables" / "orders")
    assert orders.saved == TableState("incremental", "append", complete=True, state={"updated_at": FEB})
    again = state("import", "airbyte.json")
    assert (again.code, again.lines[0], orders.version) == (0, "orders: import: nothing to do", 1)
    (folder / "airbyte.json").write_text(json.dumps([message]).replace(FEB, MAR))
    refused = state("import", "airbyte.json")
    assert (refused.code, orders.version) == (1, 1)
    assert "orders: the stream already has another state; pass --replace" in refused.stderr


@pytest.mark.parametrize(
    ("bookmark", "expected"),
    [
        ({"replication_key": "updated_at", "replication_key_value": FEB}, {"updated_at": FEB}),
        ({"updated_at": FEB}, {"updated_at": FEB}),
        (
            {"partitions": [{"context": {"shop": "a"}, "replication_key_value": FEB}]},
            {"use_global_cursor": False, "states": [{"partition": {"shop": "a"}, "cursor": {"updated_at": FEB}}]},
        ),
    ],
)
def test_singers_bookmarks_are_imported(state: CommandLine, folder: Path, bookmark: Json, expected: Json) -> None:
    (folder / "tap.json").write_text(json.dumps({"type": "STATE", "value": {"bookmarks": {"orders": bookmark}}}))

    assert state("import", "tap.json").code == 0
    assert Filled(folder / "tables" / "orders").saved.state == expected


def dlt(**resources: Json) -> dict[str, Json]:
    """A state.json, as dlt 1.31 writes it."""
    found = {name: {"incremental": cursors} for name, cursors in resources.items()}
    return {"_state_version": 1, "_state_engine_version": 4, "sources": {"shop": {"resources": {**found, "plain": {}}}}}


LAST = {"updated_at": {"initial_value": JAN, "last_value": FEB, "unique_hashes": ["6OdWS8PPNd2U"]}}


@pytest.mark.parametrize("value", [FEB, f"\uf027{FEB}"])
def test_last_values_of_dlt_are_imported(state: CommandLine, folder: Path, value: str) -> None:
    (folder / "state.json").write_text(json.dumps(dlt(orders={"updated_at": {"last_value": value}})))

    assert state("import", "state.json").code == 0
    assert Filled(folder / "tables" / "orders").saved.state == {"updated_at": FEB}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"bookmarks": {"ordres": {}}}, "bookmarks.ordres: the source has no such stream; did you mean 'orders'?"),
        ({"bookmarks": {"users": {"id": 3}}}, "bookmarks.users: the stream has no cursor"),
        ({"bookmarks": {"orders": {"id": 3}}}, "expected a replication_key_value, or a value of 'updated_at'"),
        ({"bookmarks": {"orders": {"replication_key": "id", "replication_key_value": 3}}}, "found 'id', expected"),
        ({"bookmarks": {"orders": {"progress_markers": {}, "updated_at": FEB}}}, "expected a finished bookmark"),
        ({"bookmarks": {"orders": {"partitions": [{"updated_at": FEB}]}}}, "expected a bookmark with a context"),
        ({"bookmarks": {"orders": {"partitions": "a"}}}, "expected a list of bookmarks"),
        ({"bookmarks": {"orders": 3}}, "expected a map with replication_key_value"),
        ({"bookmarks": 3}, "expected a map from stream to bookmark"),
        (
            dlt(ordres={"updated_at": {"last_value": 3}}),
            "resources.ordres: the source has no such stream; did you mean 'ord",
        ),
        (dlt(orders={"at": {"last_value": 3}}), "expected a map with 'updated_at', the stream's cursor"),
        (dlt(users={"id": {"last_value": 3}}), "resources.users: the stream has no cursor"),
        (
            {"sources": {**dlt(orders=LAST)["sources"], "b": dlt(orders=LAST)["sources"]["shop"]}},
            "shop.resources.orders has",
        ),
        (dlt(orders={"updated_at": {"last_value": None}}), "has no state of a stream of this pipeline"),
        ({"sources": []}, "has no state of a stream of this pipeline"),
        ({"something": 3}, "expected a state message"),
        ([], "has no state of a stream of this pipeline"),
    ],
)
def test_what_is_not_understood_is_refused(state: CommandLine, folder: Path, document: Json, said: str) -> None:
    (folder / "state.json").write_text(json.dumps(document))

    ran = state("import", "state.json")

    assert ran.code == 1
    assert said in ran.stderr
    assert not (folder / "tables").exists()


def test_a_fork_begins_where_the_first_pipeline_stands(state: CommandLine, orders: Filled) -> None:
    assert state("fork", "second").code == 0

    second = StreamTable(orders.root, "second", "orders", ID)
    assert second.saved == replace(INCREMENTAL, state={"updated_at": MAR}, sync="", records=3)
    assert state("fork", "second").lines[0] == "orders: fork from shop: nothing to do"
    second.commit(replace(second.saved, state={"updated_at": "2024-04-01T00:00:00Z"}))
    assert orders.saved.state == {"updated_at": MAR}
    again = state("fork", "second")
    assert (again.code, "'second' already has a state of its own" in again.stderr) == (1, True)
    assert state("fork", "a/b").code == 2
    assert state("fork", "shop").code == 2


@pytest.mark.parametrize("verb", ["show", "verify"])
def test_tables_that_a_pipeline_filled_under_another_name_are_told(
    state: CommandLine, orders: Filled, folder: Path, verb: str
) -> None:
    assert orders.saved.records == 3
    assert not any(" of the target " in line for line in state(verb).lines)
    file = folder / "pipeline.yaml"
    file.write_text(file.read_text().replace("name: shop", "name: store", 1))

    ran = state(verb)

    assert ran.code == 0
    (line,) = [line for line in ran.lines if " of the target " in line]
    assert line.startswith("1 table of the target belongs only to 'shop'; if that was the pipeline's name before")
    StreamTable(folder / "tables" / "users", "store", "users", ID).commit(PAGES)
    (line,) = [line for line in state(verb).lines if " of the target " in line]
    assert line == "1 table of the target belongs only to 'shop'"
    assert not any(" of the target " in line for line in state(verb, "--stream", "users").lines)


def test_an_export_into_a_folder_that_is_missing_says_that_it_cannot_be_written(
    state: CommandLine, orders: Filled
) -> None:
    assert orders.saved.records == 3
    assert "nowhere/states.json: cannot be written: No such file" in state("export", "nowhere/states.json").stderr


def test_a_fork_of_rows_that_wait_is_refused(state: CommandLine, folder: Path) -> None:
    users = Filled(folder / "tables" / "users")
    users.add({"page": 1}, base=replace(PAGES, complete=False, pending=(DataFile("a", 1, 1, 0),)))

    ran = state("fork", "second")

    assert (ran.code, "a full refresh was interrupted" in ran.stderr) == (1, True)


def test_verify_finds_nothing_where_all_is_well(state: CommandLine, orders: Filled) -> None:
    assert state("verify").lines == [
        "orders: 3 receipts: 3 added, 0 removed; 3 read, 0 of them skipped and 0 merged away; the table has 3 rows",
        "shop: 1 table, nothing is broken",
    ]
    assert orders.version == 3


def test_verify_finds_what_is_gone(state: CommandLine, orders: Filled, folder: Path) -> None:
    users = Filled(folder / "tables" / "users")
    users.add({"page": 1}, base=replace(PAGES, complete=False, pending=(DataFile("gone.parquet", 1, 1, 0),)))
    states = sorted((orders.root / "_cdk_state" / "shop").iterdir(), key=lambda path: int(path.stem))
    states[0].write_text("no json")
    next(orders.root.glob("part-*.parquet")).unlink()

    ran = state("verify")

    assert ran.code == 1
    found = [line for line in ran.lines if ": note: " in line or ": broken: " in line]
    assert found[0].startswith("orders: broken: a file of the table is missing: part-")
    assert found[1].startswith("orders: note: a rollback to state 1 is not possible: ")
    assert found[2].startswith("users: note: files of a generation that is not visible yet are missing")
    assert ran.lines[0].endswith("the table has an unknown number of rows")
    states[-1].unlink()
    told = answer(state("verify", "--stream", "orders", "--json"))
    assert told["ok"] is False
    assert any("this file is missing" in finding["text"] for finding in told["findings"])
    assert [(one["stream"], one["receipts"], one["rows"]) for one in told["receipts"]] == [("orders", 3, None)]


def test_a_file_that_another_program_removed_is_found_by_verify_and_not_by_an_append(
    state: CommandLine, orders: Filled
) -> None:
    next(orders.root.glob("part-*.parquet")).unlink()

    orders.add({"updated_at": MAR}, 3)

    ran = state("verify")
    assert ran.code == 1
    assert any(line.startswith("orders: broken: a file of the table is missing: part-") for line in ran.lines)
    with pytest.raises(FileNotFoundError):
        _ = orders.ids


def test_verify_tells_of_rows_that_were_deleted_and_of_a_restore(state: CommandLine, orders: Filled) -> None:
    DeltaTable(str(orders.root)).delete("id = 0")
    deleted = state("verify")
    DeltaTable(str(orders.root)).restore(2)
    restored = state("verify")

    others = "orders: note: commits without a receipt added or removed rows: version 4, DELETE: 1 row fewer"
    assert deleted.lines[1:-1] == [others]
    assert restored.lines[1:-1] == [
        f"{others}; version 5, RESTORE: as many rows as before",
        "orders: note: the table was restored; its rows belong to state 2",
    ]
    assert (deleted.code, restored.code) == (0, 0)


def test_verify_says_that_a_table_was_replaced(state: CommandLine, orders: Filled) -> None:
    DeltaTable.create(str(orders.root), ID, mode="overwrite")

    ran = state("verify")

    assert ran.code == 1
    assert "orders: broken: " in "\n".join(ran.lines)
    assert "the state belongs to another table: found the id " in "\n".join(ran.lines)


def test_verify_adds_the_receipts_up_and_finds_rows_that_are_lost(state: CommandLine, orders: Filled) -> None:
    file = next(orders.root.glob("part-*.parquet"))
    pq.write_table(pq.read_table(file).slice(1), file)

    ran = state("verify")

    assert ran.code == 1
    assert ran.lines[0].endswith(
        "3 added, 0 removed; 3 read, 0 of them skipped and 0 merged away; the table has 2 rows"
    )
    assert ran.lines[1] == f"orders: broken: {file.name} has 0 rows by its footer, and 1 by the log"


def test_verify_says_where_a_cleaned_up_log_begins(state: CommandLine, orders: Filled) -> None:
    DeltaTable(str(orders.root)).create_checkpoint()
    for version in range(3):
        (orders.root / "_delta_log" / f"{version:020}.json").unlink()
    DeltaTable(str(orders.root)).delete("id = 0")

    ran = state("verify")

    assert ran.code == 0
    assert ran.lines[1].startswith("orders: note: the log was cleaned up: the receipts are added up from version 3 on")
    assert ran.lines[3] == "orders: note: the table has 2 rows, and its state counts 3: some were deleted since"


def test_gc_removes_what_nobody_names(state: CommandLine, orders: Filled) -> None:
    orphan = orders.root / f"part-{'0' * 32}.parquet"
    orphan.write_bytes(b"rows")
    theirs = orders.root / "notes.txt"
    theirs.write_text("mine")
    states = orders.root / "_cdk_state" / "shop"
    draft = states / f"{9 << 20}.json"
    draft.write_text(json.dumps({"pending": [{"path": orphan.name}], "logged": []}))
    waiting = TableWriter(orders.root, ID)
    waiting.write([pa.RecordBatch.from_pylist([{"id": 9}], ID)])
    pending = waiting.close()
    orders.add({"updated_at": MAR}, pending=tuple(pending))
    orders.open().commit(orders.saved, overwrite=True)

    young = state("gc")
    assert young.lines == ["0 files, 0 bytes removed"]
    ran = state("gc", "--days", "0")

    assert (ran.code, ran.lines[-1].startswith("2 files, ")) == (0, True)
    assert not orphan.exists()
    assert not draft.exists()
    assert theirs.exists()
    assert (orders.root / pending[0].path).exists()
    DeltaTable(str(orders.root)).restore(3)
    assert orders.ids == [0, 1, 2]


def test_gc_removes_the_keys_that_a_killed_merge_has_left(state: CommandLine, orders: Filled) -> None:
    keys = orders.root / "_cdk_merge" / "0.parquet"
    keys.parent.mkdir()
    keys.write_bytes(b"keys")

    assert state("gc").lines == ["0 files, 0 bytes removed"]
    ran = state("gc", "--days", "0")

    assert ran.lines[-2:] == [f"orders: {keys}, 4 bytes, keys of a merge that was killed", "1 file, 4 bytes removed"]
    assert not keys.exists()


def test_gc_leaves_a_table_with_a_damaged_state_out_and_says_so(
    state: CommandLine, orders: Filled, folder: Path
) -> None:
    users = Filled(folder / "tables" / "users")
    users.add(None, 1, base=PAGES)
    (orders.root / "_cdk_state" / "other").mkdir()
    (orders.root / "_cdk_state" / "other" / "1.json").write_text("no json")
    drafts = [table.root / "_cdk_state" / "shop" / f"{7 << 20}.tmp" for table in (orders, users)]
    for draft in drafts:
        draft.write_text("{}")

    ran = state("gc", "--days", "0")

    assert ran.code == 1
    assert [draft.exists() for draft in drafts] == [True, False]
    assert any(line.startswith("users: ") for line in ran.lines)
    assert "expected a state; remove it if it is no longer needed" in ran.lines[-1]


@pytest.mark.parametrize(
    ("verb", "option", "value"),
    [("gc", "--days", "nan"), ("gc", "--days", "inf"), ("gc", "--days", "1e300"), ("log", "--limit", "9" * 30)],
)
def test_numbers_that_no_table_can_have_are_refused(
    state: CommandLine, orders: Filled, verb: str, option: str, value: str
) -> None:
    ran = state(verb, option, value)

    assert ran.code == 2
    assert f"Invalid value for '{option}'" in ran.stderr
    assert orders.version == 3


def test_files_of_any_age_may_be_spared(state: CommandLine, orders: Filled) -> None:
    (orders.root / f"part-{'0' * 32}.parquet").write_bytes(b"rows")

    assert state("gc", "--days", "1e8").lines == ["0 files, 0 bytes removed"]


def test_no_secret_is_said(state: CommandLine, orders: Filled, folder: Path) -> None:
    (folder / "new.json").write_text('"hunter2"')

    ran = state("set", "orders", "new.json")

    assert ran.code == 1
    assert "hunter2" not in ran.stderr
    assert orders.version == 3


def test_every_verb_and_option_is_in_the_reference(cli: CommandLine) -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "cli.md").read_text()
    from cdk.cli.state.command import state as group  # noqa: PLC0415

    for name, verb in group.commands.items():
        assert f"`spark-cdk state {name}" in page
        said = page.partition(f"`spark-cdk state {name}")[2].partition("\n### ")[0]
        assert [
            flag for option in verb.params for flag in option.opts if flag[0] == "-" and f"`{flag}" not in said
        ] == []
    assert cli("state", "--help").code == 0
