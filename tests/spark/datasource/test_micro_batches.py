"""The way of a streaming read, batch by batch, without Spark: every record once, whatever the batches and restarts."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import chain

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, ReadMaxRows

from cdk import (
    BadState,
    ConfigError,
    Cursor,
    DatetimeCursor,
    Item,
    Json,
    ParentState,
    Partition,
    Record,
    Slice,
    Stream,
    StreamState,
    following_partitions,
)
from cdk.base.secret_masking import Secrets
from cdk.spark.datasource.open_stream import OpenStream
from cdk.spark.datasource.streaming import StreamReader
from cdk.spark.datasource.task_reader import TaskReader
from cdk.state.wire import decode
from cdk.streams.datetime_cursor import Clamping
from tests import samples

DAY0 = samples.DAY0
HOUR = timedelta(hours=1)
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}


class Clock:
    """A present that a test moves on."""

    now = DAY0 + timedelta(days=2, hours=12)


class Log(Stream):
    """Records by the hour, of a source that grows; it counts both ends of a window."""

    supports_checkpointing = True
    schema = SCHEMA
    cursor: Cursor | None = DatetimeCursor("at", start=DAY0, step=timedelta(days=1))
    records: Iterable[Record] = ()

    def __init__(self, clock: Clock, config: Mapping[str, Json] | None = None) -> None:
        super().__init__(config)
        self.clock, self.records = clock, []

    def now(self) -> datetime:
        return self.clock.now

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.window is not None
        for record in self.records:
            if slice.window.start <= record["at"] <= (slice.window.end or "9"):
                yield {**record, **slice.partition}


class Shops(Log):
    shops: tuple[str, ...] = ("a", "b")

    def partitions(self) -> Iterable[Partition]:
        return [Partition({"shop": shop}, extra={"long": shop * 3}) for shop in self.shops]

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.extra["long"] == slice.partition["shop"] * 3
        return super().read_records(slice)


def log(clock: Clock, kind: type[Log] = Log) -> Log:
    stream = kind(clock)
    stream.records = [{"id": n, "at": samples.moment(n)} for n in range(200)]
    return stream


def reader(
    stream: Stream, *, state: Json = None, lag: timedelta = timedelta(), slices: int | None = None
) -> StreamReader:
    opened = OpenStream(stream, Secrets(), decode(state, cursor_field=stream.cursor_field))
    return StreamReader(opened, TaskReader.of(opened, 2), lag=lag, slices=slices)


def read(reader: StreamReader, start: Mapping[str, str], end: Mapping[str, str]) -> list[int]:
    partitions = reader.partitions(dict(start), dict(end))
    return sorted(i for part in partitions for batch in reader.read(part) for i in batch.column("id").to_pylist())


def drained(reader: StreamReader, start: dict[str, str], limit: ReadLimit) -> tuple[list[list[int]], dict[str, str]]:
    """The batches there are, and the offset behind them."""
    batches = []
    while (end := reader.latestOffset(start, limit)) != start:
        batches.append(read(reader, start, end))
        start = end
    return batches, start


def flat(batches: list[list[int]]) -> list[int]:
    return list(chain.from_iterable(batches))


def test_batches_follow_each_other_without_a_gap_and_without_an_overlap() -> None:
    clock = Clock()
    stream = log(clock)
    found = []
    start = reader(stream).initialOffset()
    for _ in range(5):
        end = reader(stream).latestOffset(start, ReadAllAvailable())
        found += read(reader(stream), start, end)
        start, clock.now = end, clock.now + timedelta(hours=7)

    assert found == list(range(60 + 4 * 7))


def test_a_batch_that_is_repeated_after_a_restart_asks_for_the_same() -> None:
    clock = Clock()
    stream = log(clock, Shops)
    start = reader(stream).initialOffset()
    first = reader(stream)
    end = first.latestOffset(start, ReadAllAvailable())
    before = read(first, start, end)
    clock.now += 50 * HOUR

    assert read(reader(stream), start, end) == before != []
    assert len(before) == 2 * 60


def test_a_limit_of_slices_is_kept_and_nothing_is_left_out() -> None:
    stream = log(Clock(), Shops)
    whole = reader(stream, slices=2)
    batches, end = drained(whole, whole.initialOffset(), whole.getDefaultReadLimit())

    assert isinstance(whole.getDefaultReadLimit(), ReadMaxFiles)
    assert [len(batch) for batch in batches] == [48, 12 + 24, 24 + 12]
    assert drained(reader(stream), end, ReadAllAvailable()) == ([], end)


def test_a_limit_of_rows_gives_one_slice_at_a_time() -> None:
    stream = log(Clock())
    batches, _ = drained(reader(stream), reader(stream).initialOffset(), ReadMaxRows(1))

    assert [len(batch) for batch in batches] == [24, 24, 12]


def test_a_run_over_what_is_available_now_ends_where_it_was_planned() -> None:
    clock = Clock()
    stream = log(clock)
    run = reader(stream)
    run.prepareForTriggerAvailableNow()
    end = run.latestOffset(run.initialOffset(), ReadMaxFiles(1))
    clock.now += 48 * HOUR
    batches, _ = drained(run, end, ReadMaxFiles(1))

    assert [len(batch) for batch in batches] == [24, 12]


def test_a_batch_stays_behind_the_present_by_the_lag_and_by_what_the_cursor_looks_back() -> None:
    clock = Clock()
    stream = log(clock)
    stream.cursor = DatetimeCursor("at", start=DAY0, lookback=5 * HOUR)
    batches, _ = drained(reader(stream, lag=HOUR), reader(stream).initialOffset(), ReadAllAvailable())

    assert batches == [list(range(60 - 6))]


def test_a_cursor_with_an_end_of_its_own_is_read_to_it_and_then_no_more() -> None:
    clock = Clock()
    stream = log(clock)
    stream.cursor = DatetimeCursor("at", start=DAY0, end=DAY0 + 60 * HOUR, step=timedelta(days=1))
    first = reader(stream)
    start = first.initialOffset()
    clock.now = DAY0 + 40 * HOUR
    early, middle = drained(first, start, ReadAllAvailable())[0], first.latestOffset(start, ReadAllAvailable())
    clock.now = DAY0 + 90 * HOUR
    late, end = drained(reader(stream), middle, ReadAllAvailable())
    clock.now += 1000 * HOUR

    assert flat(early + late) == list(range(61))
    assert drained(reader(stream), end, ReadAllAvailable())[0] == []
    assert flat(drained(reader(stream), start, ReadAllAvailable())[0]) == list(range(61))


def test_a_new_partition_brings_its_whole_history() -> None:
    clock = Clock()
    stream = log(clock, Shops)
    _, start = drained(reader(stream), reader(stream).initialOffset(), ReadAllAvailable())
    assert isinstance(stream, Shops)
    stream.shops = ("a", "b", "c")
    batches, _ = drained(reader(stream), start, ReadAllAvailable())

    assert batches == [list(range(60))]


def test_batches_keep_no_partition_behind_which_an_interrupted_read_resumes() -> None:
    states = [{"partition": {"shop": shop}, "cursor": {"updated_at": samples.moment(50)}} for shop in "ab"]
    run = reader(samples.ShopOrders(), state={"states": states, "_cdk": {"after": {"shop": "a"}}})

    assert "_cdk" not in run.initialOffset()["state"]


def test_one_cursor_for_all_partitions_is_where_each_starts_until_each_has_its_own() -> None:
    clock = Clock()
    stream = log(clock, Shops)
    shared = {"use_global_cursor": True, "state": {"at": samples.moment(50)}}
    run = reader(stream, state=shared)
    batches, end = drained(run, run.initialOffset(), ReadAllAvailable())

    assert batches == [sorted([*range(50, 60), *range(50, 60)])]
    assert samples.moment(50) not in end["state"]


def test_the_progress_of_a_parent_is_kept_once_its_children_are_read() -> None:
    class Parent(Log):
        name = "parent"

    class Child(Log):
        def partitions_since(self, parents: Mapping[str, StreamState]) -> Iterable[Partition | ParentState]:
            return following_partitions(parent, parents, of="id")

        def read_records(self, slice: Slice) -> Iterator[Item]:
            yield {"id": slice.partition["of"], "at": samples.moment(0)}

    clock = Clock()
    parent = log(clock, Parent)
    child = Child(clock)
    batches, end = drained(reader(child), reader(child).initialOffset(), ReadMaxFiles(40))
    again = drained(reader(child), end, ReadAllAvailable())[0]

    assert sorted(set(flat(batches))) == list(range(61))
    assert samples.moment(60) in end["state"]
    assert again == []


def test_a_parent_is_followed_no_further_than_the_batches_of_its_children() -> None:
    class Parent(Log):
        name = "parent"

    class Child(Log):
        def partitions_since(self, parents: Mapping[str, StreamState]) -> Iterable[Partition | ParentState]:
            return following_partitions(parent, parents, of="id")

        def read_records(self, slice: Slice) -> Iterator[Item]:
            assert slice.window is not None
            at = samples.moment(slice.partition["of"])
            if str(slice.window.start) <= at <= str(slice.window.end or "9"):
                yield {"id": slice.partition["of"], "at": at}

    clock = Clock()
    parent, child = log(clock, Parent), log(clock, Child)
    first, end = drained(reader(child, lag=9 * HOUR), reader(child).initialOffset(), ReadMaxFiles(40))
    clock.now += 20 * HOUR
    later = drained(reader(child, lag=9 * HOUR), end, ReadMaxFiles(40))[0]

    assert (flat(first), flat(later)) == (list(range(51)), list(range(51, 71)))


def test_pages_are_read_once_from_where_a_state_stands() -> None:
    stream = samples.Users()
    stream.schema = SCHEMA
    run = reader(stream, state={"page": 3})

    assert drained(run, run.initialOffset(), ReadAllAvailable())[0] == [[30, 31, 32, 40, 41, 42]]


def test_partitions_without_a_cursor_are_read_once_each() -> None:
    stream = samples.Comments()
    stream.schema = SCHEMA
    batches, end = drained(reader(stream), reader(stream).initialOffset(), ReadMaxFiles(4))

    assert [len(batch) for batch in batches] == [24, 24, 24, 18]
    assert drained(reader(stream), end, ReadAllAvailable())[0] == []


def manifest_cursor(end: datetime | None = None, clamping: Clamping | None = None) -> DatetimeCursor:
    return DatetimeCursor(
        "at",
        state_format="%Y-%m-%dT%H:%M:%SZ",
        start=DAY0,
        end=None if end is None else lambda _: end,
        step=timedelta(days=1),
        by_request=True,
        rereads_edge=False,
        clamping=clamping,
    )


@pytest.mark.parametrize("end", [None, DAY0 + timedelta(days=300)])
def test_a_source_of_a_manifest_that_ignores_the_end_of_a_window_brings_each_record_once(end: datetime | None) -> None:
    class Endless(Log):
        def read_records(self, slice: Slice) -> Iterator[Item]:
            assert slice.window is not None
            yield from (r for r in self.records if slice.window.start <= r["at"])

    clock = Clock()
    stream = log(clock, Endless)
    stream.cursor = manifest_cursor(end)
    found, start = drained(reader(stream), reader(stream).initialOffset(), ReadAllAvailable())
    clock.now += 7 * HOUR
    found += drained(reader(stream), start, ReadAllAvailable())[0]

    assert flat(found) == list(range(67))


def test_a_cursor_of_a_manifest_whose_windows_end_elsewhere_is_refused() -> None:
    stream = log(Clock())
    start = reader(stream).initialOffset()
    stream.cursor = manifest_cursor(end=DAY0 + HOUR)
    with pytest.raises(ConfigError, match="its cursor ends at '2024-01-01T01:00:00Z'; set a larger lag"):
        reader(stream).latestOffset(start, ReadAllAvailable())
    stream.cursor = manifest_cursor(clamping=Clamping("DAY"))
    with pytest.raises(ConfigError, match="its windows are aligned to days"):
        reader(stream).latestOffset(start, ReadAllAvailable())


def test_a_cursor_that_starts_later_has_nothing_yet() -> None:
    clock = Clock()
    stream = log(clock)
    clock.now = DAY0 - HOUR
    start = reader(stream).initialOffset()

    assert reader(stream).latestOffset(start, ReadAllAvailable()) == start


def test_a_cursor_that_was_changed_under_an_open_batch_is_an_error() -> None:
    stream = log(Clock())
    start = reader(stream).initialOffset()
    end = reader(stream).latestOffset(start, ReadMaxFiles(1))
    stream.cursor = DatetimeCursor("at", start=DAY0 + timedelta(days=30))

    with pytest.raises(BadState, match="change a stream's cursor only between two queries"):
        reader(stream).partitions(start, end)


def grouped() -> Stream:
    stream = samples.Users()
    stream.grouped = True
    return stream


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (grouped(), "its partitions are groups, which change with their members"),
        (samples.Plain(), "neither a cursor nor pages"),
        (samples.Events(), "the end of its cursor 'seq'"),
        (samples.Versions(), "the end of its cursor 'version'"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_stream_whose_batches_have_no_end_that_is_known_before_is_refused(stream: Stream, words: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot be read with readStream: .*{words}"):
        reader(stream)


def test_the_state_of_a_cut_read_is_refused() -> None:
    cut = {"at": samples.moment(5), "_cdk": {"through": samples.moment(9)}}

    with pytest.raises(BadState, match="the state of an interrupted read"):
        reader(log(Clock()), state=cut)
