"""Worlds of streaming reads of manifests, whose queries end and start anew between any batches: every row comes once.

The manifest changes meanwhile where that changes no row: how long its windows are, how its pages are counted, the order
in which it requests them, and whether partitions share a cursor.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

from cdk.base.secret_masking import Secrets
from cdk.spark.datasource.open_stream import OpenStream
from cdk.spark.datasource.streaming import Offset, StreamReader
from cdk.spark.datasource.task_reader import TaskReader
from cdk.state.stream_state import StreamState
from tests.worlds.manifest_api import UNITS, Api, Plan, source
from tests.worlds.server import DAY0, DIALECTS, PARTS

HOUR = timedelta(hours=1)
FILTERS = ["both", "both", "both", "low", "client", "feed"]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    return Plan(
        dialect=draw(st.sampled_from(sorted(UNITS))),
        router=draw(st.sampled_from(["none", "list", "substream", "follow", "product"])),
        filter=draw(st.sampled_from(FILTERS)),
        lookback=draw(st.sampled_from([0, 0, 1])),
        later_start=draw(st.booleans()),
        min_start=draw(st.booleans()),
        touching=draw(st.booleans()),
    )


@dataclass
class Turn:
    """What happens until some batches are read.

    puts: records that come: their id, how many hours after the one before, how their time is written, and by how many
    hours they are late. part: one that comes or goes. wait: hours. step, pages, descending, shared: of the manifest
    from now on. limit: the most slices of a batch. again: whether the query ends before it commits what it has read,
    and starts anew.
    """

    puts: Sequence[tuple[int, int, int, int]] = ()
    wait: int = 0
    part: int | None = None
    step: str | None = None
    pages: str = "token"
    descending: bool = False
    shared: bool = False
    size: int = 3
    batches: int = 1
    limit: int | None = None
    again: bool = False

    def changed(self, plan: Plan) -> Plan:
        # What ignores the end of a window gives each record with all windows before it.
        step = self.step if plan.filter in {"both", "client"} else None
        descending = self.descending and plan.filter != "feed"
        return replace(plan, step=step, pages=self.pages, descending=descending, shared=self.shared)


TURNS = st.builds(
    Turn,
    puts=st.lists(
        st.tuples(
            st.integers(0, 5), st.sampled_from([0, 0, 1, 7, 24]), st.integers(0, 3), st.sampled_from([0, 0, 1, 7, 24])
        ),
        max_size=5,
    ),
    wait=st.sampled_from([0, 1, 12, 24, 100]),
    part=st.sampled_from([None, None, None, *range(PARTS)]),
    step=st.sampled_from([None, "P1D", "P2D", "P1M"]),
    pages=st.sampled_from(["token", "token", "offset", "page", "none"]),
    descending=st.booleans(),
    shared=st.booleans(),
    size=st.integers(1, 4),
    batches=st.integers(1, 3),
    limit=st.sampled_from([None, 1, 2, 5]),
    again=st.booleans(),
)


class Query:
    """A query, and the serial numbers of the records that its committed batches brought."""

    def __init__(self, api: Api, plan: Plan, lag: timedelta) -> None:
        self.api, self.plan, self.lag = api, plan, lag
        self.records: Counter[int] = Counter()
        self.offset: Offset = self._started().initialOffset()

    def _started(self) -> StreamReader:
        (stream,) = source(self.api, self.plan).open({})
        opened = OpenStream(stream, Secrets(), StreamState())
        return StreamReader(opened, TaskReader.of(opened, 2), lag=self.lag, slices=None)

    def follow(self, turn: Turn) -> None:
        longest = 0 if self.plan.filter == "feed" else self.lag // HOUR + 24 * self.plan.lookback
        for id, hours, form, late in turn.puts:
            self.api.add(id, hours, form, late=min(late, longest), behind=True)
        self.api.clock += timedelta(hours=turn.wait)
        if turn.part is not None:
            self.api.list_part(turn.part, first=False)
        self.plan, self.api.page_size = turn.changed(self.plan), turn.size
        limit, reader = ReadAllAvailable() if turn.limit is None else ReadMaxFiles(turn.limit), self._started()
        for _ in range(turn.batches):
            end: Offset = json.loads(json.dumps(reader.latestOffset(self.offset, limit)))
            if end == self.offset:
                return
            records = self._read(reader, end)
            if turn.again:
                reader = self._started()
                assert self._read(reader, end) == records
            self.records += records
            self.offset = end

    def _read(self, reader: StreamReader, end: Offset) -> Counter[int]:
        batches = (batch for part in reader.partitions(self.offset, end) for batch in reader.read(part))
        return Counter(n for batch in batches for n in batch.column("n").to_pylist())


@given(
    plans(),
    st.lists(st.integers(0, PARTS - 1), unique=True, min_size=1),
    st.lists(TURNS, max_size=7),
    st.sampled_from([0, 0, 5]),
)
@settings(max_examples=60)
def test_a_query_of_a_manifest_brings_every_row_once(
    plan: Plan, listed: list[int], turns: list[Turn], lag: int
) -> None:
    api = Api(dialect=plan.dialect, listed=list(listed), newest_first=plan.filter == "feed")
    query = Query(api, plan, lag * HOUR)

    for turn in [*turns, Turn(wait=1, batches=99)]:
        query.follow(turn)
        assert query.records.total() == len(query.records)

    end = api.now - lag * HOUR
    end -= (end - DAY0) % DIALECTS[plan.dialect].unit + timedelta(days=plan.lookback)
    there = {n for n, record in enumerate(api.records) if plan.router == "none" or record["part"] in api.listed}
    assert {n for n in there if plan.start <= api.times[n] < end} - query.records.keys() == set()
