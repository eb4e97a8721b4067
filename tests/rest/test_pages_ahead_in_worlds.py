"""Pages requested ahead of a world that changes, fails, limits and interrupts: `read` and `sync` see one list."""

import threading
import time
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk import JsonSchema, Slice
from cdk.base.errors import CdkError
from cdk.base.process.concurrency import Learned
from cdk.base.process.interruption import Interrupted
from cdk.base.process.request_lease import RequestLease, current_lease, leasing
from cdk.base.run import current_run, one_run
from cdk.engine.executors import Threads
from cdk.engine.read import read
from cdk.lake.arrow.columns import columns
from cdk.rest import Budget, Offset, PageNumber, Request, Response
from cdk.rest.http.metrics import HttpMetrics, counting, current_metrics
from cdk.state.stream_state import StreamState
from cdk.sync.loop.runner import SyncRunner
from cdk.sync.reports.stream_report import Status
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, TargetOptions
from cdk.sync.tasks import task_concurrency
from cdk.sync.tasks.bundle_task import read_bundle
from cdk.sync.tasks.messages import BundleJob, SliceTask, WriteTarget
from tests.rest.api import Time, response
from tests.rest.test_pages_ahead import Items
from tests.spark.given_source import Given

SIZE = 2
AT_ONCE = 4
Odd = Mapping[int, str]


class World:
    """An API of numbered records. grows: how many come with each of the first requests.

    odd: pages that are `empty`, `short`, `refused` for good, or answered at the second attempt only (`later`).
    """

    def __init__(self, count: int, grows: int = 0, odd: Odd | None = None) -> None:
        self.count, self._grows, self.odd = count, grows, dict(odd or {})
        self._lock, self.requests, self.runs, self.first = threading.Lock(), 0, set[str](), 0

    def send(self, request: Request) -> Response:
        current_lease().count()
        number = int(request.params.get("page", int(request.params.get("offset", 0)) // SIZE))
        with self._lock:
            self.requests += 1
            self.first = self.first or threading.get_ident()
            self.count += self._grows if self.requests < 20 else 0
            self.runs.add(current_run().id)
            odd, count = self.odd.get(number, ""), self.count
            if odd == "later":
                del self.odd[number]
        status = {"refused": 400, "later": 503}.get(odd, 200)
        current_metrics().count_response(status, 0)
        size = {"empty": 0, "short": 1}.get(odd, SIZE)
        data = [{"id": n} for n in range(SIZE * number, min(SIZE * number + size, count))]
        return response({"data": data}, status=status, request=request)

    def heal(self) -> int:
        """Refuse nothing more; the first page that was refused."""
        refused = {n for n, odd in self.odd.items() if odd == "refused"}
        self.odd = {n: odd for n, odd in self.odd.items() if odd != "refused"}
        return min(refused, default=0)

    def list_between(self, before: int) -> range:
        """How many records a read may bring, from those that there were `before` it, to those that there are now."""
        ends = [SIZE * page + (odd == "short") for page, odd in self.odd.items() if odd in {"empty", "short"}]
        return range(min([before, *ends]), min([self.count, *ends]) + 1)


class Numbered(Items):
    name = "numbered"
    primary_key = "id"

    def __init__(self, world: World, *, offsets: bool = False, budget: Budget | None = None) -> None:
        super().__init__(Offset(SIZE) if offsets else PageNumber(start=0, size=SIZE), world)  # type: ignore[arg-type] # a transport
        self.budget, self.sleep = budget, lambda _: None

    def json_schema(self) -> JsonSchema:
        return {"type": "object", "properties": {"id": {"type": "integer"}}}


WORLDS = st.builds(
    World,
    st.integers(0, 60),
    st.sampled_from([0, 0, 1, 3]),
    st.dictionaries(st.integers(0, 30), st.sampled_from(["empty", "short", "refused", "later"]), max_size=2),
)


@pytest.fixture(autouse=True)
def _waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process computes nothing, as far as it knows, and a sync knows what pays: threads begin."""
    monkeypatch.setattr(time, "process_time", lambda: 0.0)
    monkeypatch.setattr(task_concurrency, "BEGINNING", Learned(AT_ONCE))


def attempt(stream: Numbered, state: StreamState, most: int, ids: list[int]) -> tuple[StreamState, object]:
    """Read on until `most` states have come; the last one, and why it ended. What it covers goes into `ids`."""
    uncovered = list[int]()
    with one_run(), closing(read(stream, state, Threads(AT_ONCE, Learned(AT_ONCE)))) as items:
        try:
            for item in items:
                if not isinstance(item, StreamState):
                    uncovered += [record["id"] for record in item]
                    continue
                ids += uncovered
                state, uncovered, most = item, [], most - 1
                if not most:
                    return state, "cut"
        except (CdkError, Interrupted) as why:
            return state, why
    return state, None


@given(
    world=WORLDS,
    offsets=st.booleans(),
    cuts=st.lists(st.integers(1, 6), max_size=3),
    leases=st.lists(st.integers(1, 12) | st.integers(101, 112), max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_a_read_has_each_record_once_and_in_order_whatever_happens_meanwhile(
    world: World, cuts: list[int], leases: list[int], *, offsets: bool
) -> None:
    before, stream, ids = world.count, Numbered(world, offsets=offsets), list[int]()
    state, attempts = StreamState(), 0
    while True:
        attempts += 1
        metrics, sent = HttpMetrics(), world.requests
        lease = RequestLease(leases.pop() if leases else None)
        unsent = lease.unsent
        with leasing(lease), counting(metrics):
            state, why = attempt(stream, state, cuts.pop() if cuts else -1, ids)
        assert metrics.requests == lease.sent == world.requests - sent
        assert unsent is None or lease.sent <= unsent
        if why is None:
            break
        # A token that was saved would be refused for good, and its slice begin anew.
        healed = world.heal()
        assert not isinstance(why, CdkError) or ids == list(range(SIZE * healed))
        assert attempts < 12

    assert ids == list(range(len(ids)))
    assert len(ids) in world.list_between(before)
    assert "" not in world.runs
    assert len(world.runs) <= attempts


@given(world=WORLDS, offsets=st.booleans(), most=st.sampled_from([None, None, 5]))
@settings(max_examples=12, deadline=None)
def test_a_sync_has_each_record_once_whatever_happens_meanwhile(
    world: World, most: int | None, tmp_path_factory: pytest.TempPathFactory, *, offsets: bool
) -> None:
    folder, before, attempts = tmp_path_factory.mktemp("lake"), world.count, 0
    while True:
        attempts, sent = attempts + 1, world.requests
        target = TargetOptions(path=str(folder))
        pipeline = Pipeline(name="p", source=SourceOptions(connector="given"), target=target, max_requests=most)
        result = SyncRunner(pipeline, Given([Numbered(world, offsets=offsets)])).run()
        (report,) = result.streams
        assert report.http.requests == world.requests - sent
        if report.status is Status.DONE:
            break
        world.heal()
        assert attempts < 12

    ids = sorted(DeltaTable(folder / "numbered").to_pyarrow_table(columns=["id"])["id"].to_pylist())
    assert ids == list(range(len(ids)))
    assert len(ids) in world.list_between(before)


class Paired(World):
    """Answers pages behind the third once two requests have been there."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._here, self._changed, self.most = 0, threading.Condition(), 0

    def send(self, request: Request) -> Response:
        with self._changed:
            self._here += 1
            self.most = max(self.most, self._here)
            self._changed.notify_all()
            if int(request.params.get("page", 0)) > 2:
                assert self._changed.wait_for(lambda: self.most > 1, timeout=20)
            self._here -= 1
        return super().send(request)


def test_a_sync_of_one_slice_requests_pages_ahead(tmp_path: Path) -> None:
    world = Paired(100)
    pipeline = Pipeline(name="p", source=SourceOptions(connector="given"), target=TargetOptions(path=str(tmp_path)))
    (report,) = SyncRunner(pipeline, Given([Numbered(world)])).run().streams

    assert (report.status, report.read) == (Status.DONE, 100)
    assert world.most > 1


def test_a_budget_has_no_page_wait_that_is_not_due_and_none_is_spent_on_more_than_is_free() -> None:
    clock, world, ids, sleepers = Time(), World(23), list[int](), set[int]()

    def sleep(seconds: float) -> None:
        sleepers.add(threading.get_ident())
        clock.sleep(seconds)

    budget = Budget(5, timedelta(seconds=60), clock=clock.clock, sleep=sleep)
    attempt(Numbered(world, budget=budget), StreamState(), -1, ids)

    assert ids == list(range(23))
    assert world.requests <= 12 + AT_ONCE - 1
    assert sum(clock.slept) == pytest.approx(120)
    assert sleepers == {world.first}


def test_a_task_whose_time_is_spent_reads_what_it_has_requested(tmp_path: Path) -> None:
    world = World(100)
    target = WriteTarget(Numbered(world), tmp_path, columns({}), 1)
    job = BundleJob({0: target}, 6, AT_ONCE, learned=Learned(AT_ONCE))
    (progress,) = read_bundle(job, [SliceTask(0, 0, Slice())], clock=lambda: float(world.requests)).progress

    assert (progress.read, progress.done) == (SIZE * world.requests, False)
    assert 6 <= world.requests <= 6 + AT_ONCE
