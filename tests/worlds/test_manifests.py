"""Worlds of manifests: tables that a generated manifest fills, sync by sync, and what each must hold.

A plain model counts how often each record must be in the table at least, and how often it may be there at most.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from cdk import Json, Record
from cdk.base.task_map import run_inline
from cdk.base.values import to_json
from cdk.lake.admin.edits import rewound
from cdk.lake.admin.formats import message
from cdk.lake.admin.state_admin import Admin
from cdk.lake.storage.object_store import folder_at
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.settings.stream_plan import StreamPlan, plan_stream
from cdk.sync.tables.table_writer import import_into_table
from cdk.sync.tasks.workers import Workers
from tests.worlds.manifest_api import UNITS, Api, Plan, source
from tests.worlds.server import DAY0, DIALECTS, PARTS, part_of
from tests.worlds.table import problems, rows

Cell = tuple[int, int]
"""A part, and a half of it."""
NEVER = datetime.min.replace(tzinfo=UTC)
SECOND = timedelta(seconds=1)
MOST_REQUESTS = 3000
"""More than any sync here needs."""
LATE = (0, 1, 7, 24)
PUTS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from([0, 0, 1, 7, 24]),
        st.integers(0, 3),
        st.sampled_from(LATE),
        st.sampled_from([..., ..., ..., ..., None, "never"]),
    ),
    min_size=1,
    max_size=5,
)
Puts = Sequence[tuple[int, float, int, float, Json]]
"""Of each record its id, the hours after the last one, how its time is written, how late it is, and what it has there.
"""
SIZES, WHICH = st.integers(1, 4), st.integers(0, 9)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """A manifest that says nothing that its API does not keep."""
    router = draw(
        st.sampled_from(["none", "list", "substream", "follow", "product", "group", "parent_group", "group", "list"])
    )
    filter = draw(st.sampled_from(["both", "both", "both", "low", "client", "feed"]))
    return Plan(
        dialect=draw(st.sampled_from(sorted(UNITS))),
        router=router,
        pages=draw(st.sampled_from(["token", "token", "offset", "page", "none"])),
        filter=filter,
        # What ignores the end of a window gives each record with all windows before it.
        step=draw(st.sampled_from([None, "P1D", "P2D", "P1M"])) if filter in {"both", "client"} else None,
        lookback=draw(st.sampled_from([0, 0, 1])),
        shared=draw(st.booleans()),
        later_start=draw(st.booleans()),
        min_start=draw(st.booleans()),
        end=draw(st.sampled_from([None, None, -1])),
        cursor=draw(st.sampled_from([True, True, True, True, False])),
    )


@dataclass
class Model:
    """What the table must hold, by the serial numbers of records.

    must, may: how often at least, and how often at most beyond once. again: what a person has had read again, by cell;
    the next sync that reads the cell does so. skipped: records of cells that nobody knew before others had read on.
    known: cells that the state knows; of groups, those that were there last. asked: how many records there were when
    the last sync began that got to its end, if it has reached any; reached: where that one ended. begun: how many there
    were when the first one did that has not got to its end; None: the last one has. shares: the state has one cursor.
    """

    must: Counter[int] = field(default_factory=Counter)
    may: Counter[int] = field(default_factory=Counter)
    again: dict[Cell, set[int]] = field(default_factory=dict)
    skipped: set[int] = field(default_factory=set)
    known: set[Cell] = field(default_factory=set)
    asked: int = 0
    reached: datetime = NEVER
    begun: int | None = None
    shares: bool = False


class Manifests(RuleBasedStateMachine):
    """One manifest's stream, its table, and what people do with its state."""

    def __init__(self) -> None:
        super().__init__()
        self._temporary = TemporaryDirectory()
        self.folder = Path(self._temporary.name)
        self.model, self.name = Model(), "world"

    def teardown(self) -> None:
        self._temporary.cleanup()

    @initialize(
        plan=plans(),
        mode=st.sampled_from(["append", "append", "append", "append_dedup", "overwrite"]),
        interval=st.sampled_from([0, 0, 30]),
        tasks=st.sampled_from([1, 1, 2]),
        puts=PUTS,
        listed=st.lists(st.integers(0, PARTS - 1), unique=True, min_size=1),
    )
    def begin(  # noqa: PLR0917 - all that a world is made of
        self, plan: Plan, mode: str, interval: int, tasks: int, puts: Puts, listed: Sequence[int]
    ) -> None:
        """Make a world."""
        self.plan, self.mode, self.interval, self.tasks = plan, mode, interval, tasks
        self.api = Api(dialect=plan.dialect, listed=list(listed), newest_first=plan.filter == "feed")
        self._put(puts)

    # What the source does.

    @rule(puts=PUTS)
    def put(self, puts: Puts) -> None:
        """Records come, in order; while a sync is interrupted, none that is older than it."""
        self._put(puts)

    def _put(self, puts: Puts, *, busy: bool = False) -> None:
        # A feed has no place for such records, and nothing is asked for before the end of a cursor moves on.
        dated = self.plan.filter == "feed" or not self.plan.cursor or self.plan.end is not None
        for id, hours, form, late, cursor in puts:
            by = min(late, 24 * self.plan.lookback)
            self.api.add(id, hours, form, late=by, cursor=... if dated else cursor, behind=busy or self._cut)
        if (busy or self._cut) and self.plan.descending and self.plan.pages in {"offset", "page"}:
            # The pages that are still to come begin with records that were there.
            self.model.may.update(range(len(self.api.records)))

    @rule(hours=st.sampled_from([1, 12, 24, 100]))
    def wait(self, hours: float) -> None:
        self.api.clock += timedelta(hours=hours)

    @rule(part=st.integers(0, PARTS - 1), first=st.booleans())
    def change_parts(self, part: int, first: bool) -> None:  # noqa: FBT001
        """A part comes or goes."""
        if self.plan.grouped and self._cut and part in self.api.listed:
            return  # the rest of an interrupted sync reads what is left of a group anew
        self.api.list_part(part, first=first)

    # What the pipeline does.

    @rule(size=SIZES)
    def sync(self, size: int) -> None:
        self._sync(size)

    @rule(size=SIZES, request=st.integers(0, 9))
    def sync_that_is_interrupted(self, size: int, request: int) -> None:
        self.api.at = {request: self.api.fail}
        self._sync(size)

    @rule(size=SIZES, request=st.integers(0, 9), puts=PUTS)
    def sync_while_records_come(self, size: int, request: int, puts: Puts) -> None:
        # Pages that are counted shift where the newest come first.
        if self.plan.pages == "token" or self.plan.filter != "feed":
            self.api.at = {request: lambda: self._put(puts, busy=True)}
        self._sync(size)

    # What people do with its state.

    @precondition(lambda self: self._incremental and self._there())
    @rule(which=WHICH)
    def rewind(self, which: int) -> None:
        """To the time of a record. Where a sync was interrupted, all that it has read may come again."""
        model, there = self.model, self._there()
        to = self.api.times[there[which % len(there)]]
        if self.plan.end is not None and to >= self._ends(self.api.now):
            return
        plan = self._planned()
        self._admin.change(plan.location, lambda saved: rewound(saved, plan.stream, f"{to:%Y-%m-%dT%H:%M:%SZ}"))
        for n in there:
            time, known = self.api.times[n], model.again.setdefault(self._cell(n), set())
            if n in self.api.undated or (n in known and not self._cut):
                continue
            if to <= time <= model.reached and not self._cut:
                known.add(n)
            if self._cut or to - self._lookback <= time:
                model.may[n] += 1

    @precondition(lambda self: self._incremental and self._there() and not self._cut)
    @rule()
    def export_and_import_as_airbyte_does(self) -> None:
        """The state forgets which records it has at the cursor, and where they share one, which partitions it knows."""
        model, times, there = self.model, self.api.times, self._there()
        exported = self._import(exact=False)
        # A shared cursor looks back by as long as the read took that reached it, a day more where it has no time.
        took = timedelta(seconds=exported.get("lookback_window", 0) if model.shares else 0)
        unit = max(SECOND, DIALECTS[self.plan.dialect].unit)
        dated = [n for n in there if n not in self.api.undated and times[n] <= model.reached]
        for n in there:
            cell = [times[m] for m in dated if model.shares or self._cell(m) == self._cell(n)]
            margin = self._lookback + unit - (-took // unit) * unit
            if n in self.api.undated or not cell or times[n] >= max(cell) - margin:
                model.may[n] += 1
        if model.shares:
            model.known = set()

    @precondition(lambda self: self._incremental and self._there())
    @rule()
    def export_and_import_all(self) -> None:
        self._import(exact=True)

    def _import(self, *, exact: bool) -> Json:
        """Export the state and import it again; as it was exported."""
        plan = self._planned()
        saved = self._admin.status(plan.location).saved
        assert saved is not None
        exported: Json = json.loads(to_json(message(plan.location, saved, exact=exact)))
        state: Json = exported["stream"]["stream_state"]
        import_into_table(self._admin, plan, state, replaces=True)
        return state

    @precondition(lambda self: self._incremental and self._there())
    @rule()
    def fork(self) -> None:
        """The pipeline gets another name."""
        name = f"{self.name}-"
        self._admin.fork(self._planned().location, name)
        self.name = name

    @precondition(lambda self: self.plan.router in {"list", "substream", "follow", "product"} and not self._cut)
    @rule()
    def share_the_cursor_or_not(self) -> None:
        """The manifest changes."""
        self.plan = replace(self.plan, shared=not self.plan.shared)

    @precondition(lambda self: self.plan.filter != "feed")
    @rule()
    def ask_in_another_order(self) -> None:
        """The manifest changes, and each page with it."""
        self.plan = replace(self.plan, descending=not self.plan.descending)

    # How it is done.

    def _sync(self, size: int) -> None:
        model, before = self.model, len(self._rows())
        if model.begun is None:
            model.begun = len(self.api.records)
        self.api.page_size = size
        now = self.api.now
        report = self._run()
        self.api.at = {}
        if report.status is Status.DONE:
            self._completed(now)
        else:
            assert report.failure is not None
            assert report.failure.message == "the server is down", report.failure
        if self.mode == "append":
            assert (report.written, report.read - report.skipped) == (len(self._rows()) - before,) * 2
        self._check()

    @property
    def _cut(self) -> bool:
        return self.model.begun is not None

    def _run(self) -> StreamReport:
        self.api.most = self.api.requests + MOST_REQUESTS
        made, workers = source(self.api, self.plan), Workers(run_inline, self.tasks)
        pipeline = Pipeline(
            name=self.name,
            source=SourceOptions(connector="given"),
            target=TargetOptions(path=str(self.folder)),
            streams={"things": self._options},
            checkpoint_interval=timedelta(seconds=self.interval),
            concurrency=self.tasks,
        )
        (report,) = SyncRunner(pipeline, made, workers=workers).run().streams
        if report.restarted:
            # Rows of a slice that is read again from its start are there again, which the report says.
            self.model.may.update(record["n"] for record in self.api.records)
        return report

    @property
    def _options(self) -> StreamOptions:
        full = {"sync_mode": "full_refresh"} if self.mode == "overwrite" and self.plan.cursor else {}
        empty = {"remove_stale": {"allow_empty": True}} if self.mode == "overwrite" else {}
        return StreamOptions.model_validate({"write_mode": self.mode, **full, **empty})

    @property
    def _admin(self) -> Admin:
        return Admin(folder_at(str(self.folder), {}), self.name)

    def _planned(self) -> StreamPlan:
        (stream,) = source(self.api, self.plan).streams({})
        return plan_stream(stream, self._options, folder_at(str(self.folder), {}))

    def _rows(self) -> list[Record]:
        return rows(self.folder / "things")

    def _there(self) -> list[int]:
        """The records that are in the table."""
        return sorted({row["n"] for row in self._rows()})

    # The model.

    @property
    def _incremental(self) -> bool:
        return self.plan.cursor and self.mode != "overwrite"

    @property
    def _lookback(self) -> timedelta:
        return timedelta(days=self.plan.lookback)

    def _cell(self, n: int) -> Cell:
        record = self.api.records[n]
        return (
            record["part"] if self.plan.router != "none" else 0,
            record["half"] if self.plan.router == "product" else 0,
        )

    def _is_listed(self, n: int) -> bool:
        return self.plan.router == "none" or self.api.records[n]["part"] in self.api.listed

    def _ends(self, now: datetime) -> datetime:
        """Where a sync ends that is planned at `now`, as windows write it."""
        end = now if self.plan.end is None else now + timedelta(days=self.plan.end)
        return end - (end - DAY0) % DIALECTS[self.plan.dialect].unit

    def _is_read(self, n: int, end: datetime) -> bool:
        """Whether a sync that ends there must read a record."""
        if not self.plan.cursor or (n in self.api.undated and self.plan.start < end and self.plan.end is None):
            return True
        time = self.api.times[n]
        if n in self.api.undated or time < self.plan.start:
            return False
        # Where nothing lies between the cursor and the end, nothing is asked for until the end moves on.
        return time < end or (time == end and self.plan.end is None)

    def _completed(self, now: datetime) -> None:
        """Bring the model to where a sync that got to its end brings the table."""
        model, count, end = self.model, len(self.api.records), self._ends(now)
        assert model.begun is not None
        listed = [n for n in range(count) if self._is_listed(n)]
        new = [n for n in listed if n < model.begun and self._is_read(n, end)]
        if not self._incremental:
            adds = self.mode == "append"
            model.must = model.must + Counter(new) if adds else Counter(new)
            model.may.update(range(count) if adds and model.must else ())
        else:
            self._advance(new, {self._cell(n) for n in listed})
            model.reached = max(model.reached, end)
        model.asked = model.begun if self._there() else 0
        model.begun, model.shares = None, self.plan.shares

    def _advance(self, new: Sequence[int], cells: set[Cell]) -> None:
        model = self.model
        if model.shares or self.plan.shares:
            unknown = [n for n in new if self._cell(n) not in model.known and n < model.asked]
            model.skipped.update(n for n in unknown if not model.must[n])
        for n in new:
            model.must[n] = max(model.must[n], 0 if n in model.skipped else 1)
        for cell in cells:
            model.must.update(model.again.pop(cell, ()))
        if self.plan.grouped and cells:
            model.again.clear()  # those that are away start where the others have got to, once they are back
        there = {self._cell(n) for n in self._there() if n not in self.api.undated}
        model.known = cells if self.plan.grouped else model.known | (cells & there)

    def _check(self) -> None:
        found, model = self._rows(), self.model
        for row in found:
            record = self.api.records[row["n"]]
            assert not (wrong := list(problems(row, record))), wrong
            assert not self.plan.cursor or row["n"] in self.api.undated or self.api.times[row["n"]] >= self.plan.start
        numbers = Counter(row["n"] for row in found)
        if self.mode == "append_dedup":
            self._check_newest(found)
            return
        if self.mode == "append" or not self._cut:
            assert not (twice := [n for n in numbers if numbers[n] > 1 + model.may[n]]), f"twice: {twice}"
        if not self._cut:
            assert not (lost := [n for n, times in model.must.items() if numbers[n] < times]), f"lost: {lost}"

    def _check_newest(self, found: Sequence[Record]) -> None:
        """One row for each key, no older than the newest record that must be there.

        A record without a time that came later is newer: where an earlier commit brought the other, it replaces that.
        """
        assert len({row["id"] for row in found}) == len(found)
        if self._cut:
            return
        rows = {row["id"]: row["n"] for row in found}
        for n in self.model.must:
            if self.model.must[n]:
                row = rows[self.api.records[n]["id"]]
                assert (row in self.api.undated and row > n) or self._order(row) >= self._order(n), n

    def _order(self, n: int) -> datetime:
        if not self.plan.cursor:
            return self.api.times[0]
        return NEVER if n in self.api.undated else self.api.times[n]


TestManifests = Manifests.TestCase
TestManifests.settings = settings(max_examples=15, stateful_step_count=14, report_multiple_bugs=False)


def begin(world: Manifests, plan: Plan, puts: Puts, listed: Sequence[int] = (0, 1, 2), interval: int = 30) -> None:
    """Nothing is read yet."""
    world.begin(plan, "append", interval, 1, puts, listed)


def put_of(part: int, hours: float = 0) -> tuple[int, float, int, float, Json]:
    """A record of a part, some hours after the last one."""
    return next(id for id in range(100) if part_of(id) == part), hours, 0, 0, ...


def partitions_that_cannot_be_read_before_the_cursor_starts(world: Manifests) -> None:
    begin(world, Plan(router="list", later_start=True), [put_of(0)], interval=0)
    world.sync(4)
    world.put([put_of(part, 24) for part in (0, 1, 2)])
    world.sync(4)


def a_feed_whose_newest_page_lies_behind_the_end_of_its_cursor(world: Manifests) -> None:
    begin(world, Plan(filter="feed", end=-1), [put_of(0), put_of(0), put_of(0, 100), put_of(0)])
    world.sync(2)


def a_feed_of_counted_pages_that_shift_while_a_read_is_interrupted(world: Manifests) -> None:
    begin(world, Plan(filter="feed", pages="offset"), [put_of(0), put_of(0), put_of(0)], interval=0)
    world.sync_that_is_interrupted(1, 2)
    world.put([put_of(0)])
    world.sync(1)
    world.sync(1)


def pages_that_are_asked_for_in_another_order_while_a_read_is_interrupted(world: Manifests) -> None:
    puts = [put_of(0), put_of(1, 1), put_of(2, 1)]
    world.begin(Plan(pages="offset", cursor=False), "overwrite", 0, 1, puts, [0])
    world.sync_that_is_interrupted(1, 2)
    world.ask_in_another_order()
    world.sync(1)


def windows_whose_pages_are_asked_for_in_another_order_while_one_is_interrupted(world: Manifests) -> None:
    begin(world, Plan(router="list"), [put_of(0), put_of(0, 1), put_of(0, 1)], interval=0)
    world.sync_that_is_interrupted(1, 2)
    world.ask_in_another_order()
    world.sync(1)


def groups_that_get_another_member(world: Manifests) -> None:
    begin(world, Plan(router="group"), [put_of(1), put_of(2)], [1, 2])
    world.sync(4)
    world.change_parts(0, first=True)
    world.sync(4)


def days_of_states_that_may_be_seconds_of_records(world: Manifests) -> None:
    begin(world, Plan(dialect="days as seconds", filter="client"), [put_of(0), put_of(1, 24)], [0, 1])
    world.sync(4)
    world.put([put_of(0, 24)])
    world.sync(4)


def times_of_states_that_may_be_milliseconds_of_records(world: Manifests) -> None:
    begin(world, Plan(dialect="milliseconds"), [put_of(0), put_of(1, 1)], [0, 1])
    world.sync(4)
    world.put([put_of(0, 1)])
    world.sync(4)


def groups_of_days_that_get_another_member(world: Manifests) -> None:
    puts = [put_of(1), put_of(1, 24), put_of(2, 24)]
    begin(world, Plan(dialect="days", router="parent_group", step="P1D"), puts, [1, 2])
    world.sync(4)
    world.change_parts(0, first=True)
    world.sync(4)


def groups_of_records_without_a_time_that_get_another_member(world: Manifests) -> None:
    begin(world, Plan(router="group"), [(*put_of(1)[:4], None), (*put_of(2)[:4], "never")], [1, 2])
    world.sync(4)
    world.change_parts(0, first=True)
    world.sync(4)


def a_member_comes_to_groups_while_a_read_of_them_is_interrupted(world: Manifests) -> None:
    begin(world, Plan(router="parent_group"), [put_of(1), put_of(2)], [1, 2], interval=0)
    world.sync_that_is_interrupted(1, 2)
    world.put([put_of(0)])
    world.change_parts(0, first=True)
    world.sync(1)
    world.sync(1)


def parents_that_are_followed_behind_the_end_of_their_childrens_cursor(world: Manifests) -> None:
    begin(world, Plan(dialect="days", router="follow", end=-1), [put_of(2), put_of(2, 24)], [2], interval=0)
    world.sync(4)
    world.change_parts(1, first=False)
    world.sync(4)
    world.wait(24)
    world.sync(4)


def parents_that_are_followed_before_the_cursor_of_their_children_starts(world: Manifests) -> None:
    undated = (*put_of(2)[:4], None)
    begin(world, Plan(dialect="days", router="follow", later_start=True), [put_of(2), undated, put_of(1)], interval=0)
    world.sync(1)
    world.wait(100)
    world.sync(1)


def groups_of_days_of_which_the_newest_was_read_before_an_interruption(world: Manifests) -> None:
    begin(world, Plan(dialect="days", router="group", step="P1D"), [put_of(2), put_of(1, 24)], [0, 1, 2], interval=0)
    world.wait(96)
    world.sync_that_is_interrupted(4, 4)
    world.sync(4)
    saved = world._admin.status(world._planned().location).saved
    assert saved is not None
    assert saved.state["state"]["at"] == world.api.records[-1]["at"]
    world.sync(4)


def a_shared_cursor_that_looks_back_by_as_long_as_a_read_took(world: Manifests) -> None:
    begin(world, Plan(dialect="days", router="parent_group", shared=True), [put_of(2), put_of(2, 48)], interval=0)
    world.sync(4)
    world.wait(24)
    world.sync_while_records_come(4, 1, [put_of(2, 24), put_of(2, 24)])
    world.export_and_import_as_airbyte_does()
    world.sync(4)


def a_newer_version_without_a_time(world: Manifests) -> None:
    id, *_ = put_of(0)
    world.begin(Plan(), "append_dedup", 30, 1, [put_of(0)], [0])
    world.sync(4)
    world.put([(id, 0, 0, 0, None)])
    world.sync(4)
    assert [row["n"] for row in world._rows()] == [1]


def groups_that_are_rewound_while_a_member_is_away(world: Manifests) -> None:
    begin(world, Plan(dialect="days", router="parent_group", filter="low"), [put_of(2), put_of(2, 24)], interval=0)
    world.sync(4)
    world.rewind(0)
    world.change_parts(2, first=False)
    world.put([put_of(1)])
    world.sync(4)
    world.change_parts(2, first=False)
    world.sync(4)


def groups_of_days_that_are_rewound(world: Manifests) -> None:
    begin(world, Plan(dialect="days", router="group"), [put_of(1), put_of(2, 24), put_of(1, 24)], [1, 2])
    world.sync(4)
    world.rewind(1)
    world.sync(4)


@pytest.mark.parametrize(
    "happen",
    [
        parents_that_are_followed_behind_the_end_of_their_childrens_cursor,
        parents_that_are_followed_before_the_cursor_of_their_children_starts,
        groups_of_days_of_which_the_newest_was_read_before_an_interruption,
        a_shared_cursor_that_looks_back_by_as_long_as_a_read_took,
        groups_that_are_rewound_while_a_member_is_away,
        groups_of_days_that_are_rewound,
        a_member_comes_to_groups_while_a_read_of_them_is_interrupted,
        partitions_that_cannot_be_read_before_the_cursor_starts,
        a_feed_whose_newest_page_lies_behind_the_end_of_its_cursor,
        a_feed_of_counted_pages_that_shift_while_a_read_is_interrupted,
        pages_that_are_asked_for_in_another_order_while_a_read_is_interrupted,
        windows_whose_pages_are_asked_for_in_another_order_while_one_is_interrupted,
        days_of_states_that_may_be_seconds_of_records,
        times_of_states_that_may_be_milliseconds_of_records,
        groups_that_get_another_member,
        groups_of_days_that_get_another_member,
        groups_of_records_without_a_time_that_get_another_member,
        a_newer_version_without_a_time,
    ],
)
def test_a_world_in_which_a_manifest_lost_or_doubled_rows_once(happen: Callable[[Manifests], None]) -> None:
    world = Manifests()
    happen(world)
    world.teardown()
