"""What `spark-cdk plan` expects from past runs, and what it says is another than in the last run."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from cdk import CountCursor, Record, Slice, Stream
from cdk.cli.sync.forecast import Forecast, changes, expected_rows, expected_seconds
from cdk.cli.sync.past_runs import PastRun
from cdk.lake.admin.commit_log import CommitSums
from cdk.lake.delta.receipt import Receipt
from cdk.lake.delta.table_state import TableState
from cdk.lake.storage.folder import LocalFolder
from cdk.sync.loop.preview import PlannedRead
from cdk.sync.settings.stream_plan import StreamPlan

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
