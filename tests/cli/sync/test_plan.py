"""`spark-cdk plan`: what a sync would do, in figures; it starts no Spark."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import dedent

import pytest
from msgspec.structs import replace

from cdk import CountCursor, Record, Slice, Stream
from cdk.base.task_map import run_inline
from cdk.cli.sync.past_runs import PastRun
from cdk.cli.sync.plan import Forecast, changes, expected_rows, expected_seconds
from cdk.lake.admin.commit_log import CommitSums
from cdk.lake.delta.receipt import Receipt
from cdk.lake.delta.table_state import TableState
from cdk.lake.storage.folder import LocalFolder
from cdk.sources.discovery import find_source
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.loop.preview import PlannedRead
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tasks.workers import Workers
from tests.cli.conftest import CommandLine
from tests.cli.shop_pipeline import PIPELINE, SECRET, put_shop

SHOP = dedent("""
    from datetime import timedelta
    from cdk import DatetimeCursor, FatalError, Source, Stream, parent_partitions
    from cdk.rest import HttpStream
    from cdk.testing import MockApi

    api = MockApi()
    api.get("/teams").returns(json=[{"id": n} for n in range(3)])
    api.get("/teams/*/members").returns(json=[{"id": 1, "on": "2024-01-02"}])

    class Teams(HttpStream):
        url_base = "https://api.test"
        primary_key = "id"
        schema = {"type": "object", "properties": {"id": {"type": "integer"}, "on": {"type": "string"}}}
        transport = api
        def path(self, slice):
            return "/teams"

    class Members(Teams):
        days = {"step": timedelta(days=2), "formats": ["%Y-%m-%d"]}
        cursor = DatetimeCursor("on", start="2024-01-01", end="2024-01-05", **days)
        def partitions(self):
            return parent_partitions(Teams(self.config), team="id")
        def path(self, slice):
            return f"/teams/{slice.partition['team']}/members"

    class Broken(Stream):
        def partitions(self):
            raise FatalError(f"no key {self.config['api_key']}")
        def read_records(self, slice):
            yield {}

    class Shop(Source):
        stream_classes = [Teams, Members, Broken]
        config_schema = {"type": "object", "properties": {"api_key": {"type": "string", "airbyte_secret": True}}}
""")
MERGED = "streams: {members: {write_mode: append_dedup, deletes: hard, history: true}}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return put_shop(tmp_path, SHOP, monkeypatch)


def test_a_full_refresh_that_appends_is_said_to_repeat_its_rows(cli: CommandLine, folder: Path) -> None:
    pipeline = (folder / "pipeline.yaml").read_text()
    (folder / "pipeline.yaml").write_text(f"{pipeline}\nstreams: {{teams: {{write_mode: append}}}}\n")

    said = cli("plan", "pipeline.yaml").lines

    assert said[0] == "teams: full_refresh, append (adds every row again, as a new generation), from its start"


def test_slices_windows_requests_and_the_state_are_told_and_nothing_is_read(cli: CommandLine, folder: Path) -> None:
    ran = cli("plan", "pipeline.yaml")

    assert ran.code == 1
    assert ran.lines == [
        "teams: full_refresh, overwrite (replaces all rows once the new ones are complete), from its start",
        "  1 slice",
        "  at least 1 requests to read, 0 to plan",
        "  the state afterwards, at most: read to the end",
        "members: incremental, append (adds rows), from its start",
        *ran.lines[5:8],
        "broken: full_refresh, overwrite (replaces all rows once the new ones are complete), from its start",
        "  cannot be planned: no key ****",
        "nothing was written",
    ]
    assert ran.lines[5] == "  6 slices of 3 partitions, 2024-01-01 to 2024-01-05"
    assert ran.lines[6].startswith("  at least 6 requests to read, ")
    assert ran.lines[7].startswith('  the state afterwards, at most: {"team":0} on 2024-01-05, ')
    assert not (folder / "tables").exists()


def test_how_rows_are_merged_is_told(cli: CommandLine, folder: Path) -> None:
    (folder / "pipeline.yaml").write_text(PIPELINE + MERGED)

    ran = cli("plan", "pipeline.yaml")

    assert ran.code == 0
    merged = "rows replace those with the same id, and deleted ones are removed, and the history keeps all versions"
    assert ran.lines[0] == f"members: incremental, append_dedup ({merged}), from its start"


def test_a_plan_goes_on_from_the_state_of_the_table(cli: CommandLine, folder: Path) -> None:
    path = folder / "pipeline.yaml"
    path.write_text(PIPELINE + "streams: [members]\n")
    assert SyncRunner(Pipeline.load(path), find_source("shop.py"), workers=Workers(run_inline, 1)).run().ok

    ran = cli("plan", "pipeline.yaml")

    assert 'resumes from {"team":0} on 2024-01-' in ran.lines[0]


def test_programs_get_one_document_of_as_many_slices_as_they_want(cli: CommandLine) -> None:
    ran = cli("plan", "pipeline.yaml", "--most", "4", "--json")

    answer = json.loads("\n".join(ran.lines))
    assert (ran.code, answer["format"], answer["pipeline"]) == (1, "spark-cdk-plan/1", "shop")
    teams, members, broken = answer["streams"]
    assert (teams["slices"], teams["complete"]) == (1, True)
    assert (members["slices"], members["complete"], members["state_afterwards"]) == (4, False, None)
    assert (broken["least_requests"], broken["error"]) == (None, "no key ****")
    assert SECRET not in "".join(ran.lines)


def test_what_changed_since_the_last_run_and_what_is_expected_are_told(cli: CommandLine, folder: Path) -> None:
    path = folder / "pipeline.yaml"
    path.write_text(PIPELINE + "spark: {start: never}\nstreams: [members]\n")
    assert cli("sync", "pipeline.yaml", "--report", "report.json").code == 0
    (folder / "shop.py").write_text(SHOP.replace("for n in range(3)", "for n in range(1, 5)"))
    assert cli("plan", "pipeline.yaml").lines[1:3] == [
        "  2 partitions since the last run",
        "  1 partition of the state with nothing to read, or no longer listed",
    ]
    assert any(line.startswith("expected to take ") for line in cli("plan", "pipeline.yaml").lines)
    path.write_text(PIPELINE + "spark: {start: never}\nstreams: [teams]\n")

    said = cli("plan", "pipeline.yaml").lines

    assert said[1] == "  new since the last run"
    assert not any("expected" in line for line in said)


FEW = """
from cdk import DatetimeCursor, Stream, list_partitions


class Few(Stream):
    primary_key = "id"
    schema = {"type": "object", "properties": {"id": {"type": "string"}, "at": {"type": "string"}}}
    cursor = DatetimeCursor("at", start="2024-01-01T00:00:00Z")

    def partitions(self):
        return list_partitions("p", NAMES)

    def read_records(self, slice):
        yield {"id": slice.partition["p"], "at": "2025-10-01T00:00:00Z"}
"""


@pytest.mark.parametrize("names", ["abc", "cab"])
def test_a_new_partition_begins_where_the_cursor_does_and_the_plan_says_so(
    cli: CommandLine, folder: Path, names: str
) -> None:
    text = "name: few\nsource: {connector: few.py}\ntarget: {path: tables}\nspark: {start: never}\n"
    (folder / "few.yaml").write_text(text)
    (folder / "few.py").write_text(FEW.replace("NAMES", "'ab'"))
    assert cli("sync", "few.yaml").code == 0
    (folder / "few.py").write_text(FEW.replace("NAMES", repr(names)))

    ran = cli("plan", "few.yaml")

    assert any("3 slices of 3 partitions, 2024-01-01T00:00:00Z to " in line for line in ran.lines), ran.lines


def test_programs_get_what_changed_and_what_is_expected(cli: CommandLine, folder: Path) -> None:
    path = folder / "pipeline.yaml"
    path.write_text(PIPELINE + "spark: {start: never}\nstreams: [teams, members]\n")
    assert cli("sync", "pipeline.yaml", "--report", "report.json").code == 0

    answer = json.loads("\n".join(cli("plan", "pipeline.yaml", "--json").lines))

    teams, members = answer["streams"]
    assert teams["expected_rows"] == {"about": 3, "from": "as in the last complete read"}
    assert (members["expected_rows"], members["changes"]) == (None, [])
    assert (members["new_partitions"], members["quiet_partitions"]) == (0, 0)
    assert answer["expected_seconds"]["from"].startswith("the median of the last 1 run")


BEGIN = datetime(2024, 3, 1, tzinfo=UTC)


class Orders(Stream):
    cursor = CountCursor("at")
    primary_key = ("shop", "id")

    def read_records(self, slice: Slice) -> Iterator[Record]:
        yield {"id": slice.partition.key}


PLAN = StreamPlan(Orders(), LocalFolder(Path("/nowhere")), "incremental", "append")
SAVED = TableState("incremental", "append", complete=True, records=50, state={"at": 5})


def planned(plan: StreamPlan = PLAN, saved: TableState | None = SAVED) -> PlannedRead:
    return PlannedRead(plan, state=None if saved is None else saved.state, saved=saved)


def run(day: float, rows: int, status: str = "done", *, seconds: float = 60, reported: bool = True) -> PastRun:
    began = BEGIN + timedelta(days=day)
    sums, ended = CommitSums(commits=1, receipt=Receipt(read=rows, added=rows)), began + timedelta(seconds=seconds)
    stream = PastRun("orders", status, "", began, ended, reported=False, sums=sums)
    return PastRun(f"run{day}", status, "", began, ended, reported=reported, sums=sums, streams=[stream])


def test_an_incremental_sync_brings_as_much_a_day_as_the_last_ones() -> None:
    runs = [run(4, 10), run(3, 20, "failed"), run(2, 30), run(0, 100_000)]

    expected = expected_rows(planned(), runs, BEGIN + timedelta(days=6, seconds=60))

    assert expected == Forecast(30, "as 60 rows in 4 d 00 h of the last 3 runs")


def test_a_full_refresh_brings_what_the_last_complete_one_did_less_what_an_interrupted_one_has() -> None:
    plan, whole = replace(PLAN, sync_mode="full_refresh"), replace(SAVED, sync_mode="full_refresh")
    runs = [run(3, 20, "interrupted"), run(2, 300), run(1, 200)]

    assert expected_rows(planned(plan, whole), runs, BEGIN) == Forecast(300, "as in the last complete read")
    interrupted = expected_rows(planned(plan, replace(whole, complete=False)), runs, BEGIN)
    assert interrupted is not None
    assert interrupted.amount == 250


def test_nothing_is_expected_where_no_past_run_says_it() -> None:
    assert expected_rows(planned(), [], BEGIN) is None
    assert expected_rows(planned(), [run(0, 10)], BEGIN) is None
    assert expected_rows(planned(), [run(1, 10, "failed"), run(0, 10, "interrupted")], BEGIN) is None
    assert expected_rows(planned(saved=None), [run(1, 10), run(0, 10)], BEGIN) is None
    assert expected_seconds([run(0, 10, reported=False), run(0, 10, "failed")], ["orders"]) is None
    assert expected_seconds([run(0, 10)], ["orders", "users"]) is None


def test_a_sync_takes_the_median_of_the_last_ones_of_these_streams() -> None:
    runs = [run(2, 1, seconds=10), run(1, 1, seconds=400), run(0, 1, seconds=20)]

    assert expected_seconds(runs, ["orders"]) == Forecast(20, "the median of the last 3 runs, 10 s to 6 m 40 s")


def test_what_is_another_than_in_the_last_run_is_said() -> None:
    merged = replace(PLAN, write_mode="append_dedup")
    saved = replace(SAVED, keys=("id",), state={"since": 5})

    assert [*changes(planned(merged, saved), first_run=False)] == [
        "the write mode changed since the last run: append → append_dedup",
        "the primary key changed since the last run: id → shop, id",
        "the cursor changed since the last run: since → at",
    ]
    assert [*changes(planned(), first_run=False)] == []
    assert [*changes(planned(saved=None), first_run=False)] == ["new since the last run"]
    assert [*changes(planned(saved=None), first_run=True)] == []
