"""Filters leave out requests and never rows: the plan, without Spark."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from cdk import (
    ConfigError,
    CountCursor,
    DatetimeCursor,
    Item,
    Json,
    Partition,
    Slice,
    Stream,
    StreamState,
    list_partitions,
)
from cdk.base.secret_masking import SecretMarks, Secrets
from cdk.base.times.clock import parse_timestamp, write_timestamp
from cdk.spark.datasource.filter_pushdown import PushdownReader
from cdk.spark.datasource.open_stream import OpenStream
from cdk.spark.datasource.source import CdkDataSource
from cdk.spark.datasource.task_reader import TaskReader
from cdk.streams.cursor import Cursor
from cdk.streams.datetime_cursor import Clamping

DAY0 = datetime(2024, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
MOMENTS = [DAY0 + timedelta(hours=7 * n) for n in range(60)]
FILTERS: Mapping[type[Filter], Callable[[datetime, datetime], bool]] = {
    EqualTo: lambda value, wanted: value == wanted,
    GreaterThan: lambda value, wanted: value > wanted,
    GreaterThanOrEqual: lambda value, wanted: value >= wanted,
    LessThan: lambda value, wanted: value < wanted,
    LessThanOrEqual: lambda value, wanted: value <= wanted,
}


class Log(Stream):
    """A source that takes its windows at their word; `after`: without the moment it is asked to start at."""

    schema = {  # noqa: RUF012
        "properties": {"at": {"type": "string", "format": "date-time"}, "n": {"type": "integer"}}
    }
    pattern = "%Y-%m-%dT%H:%M:%SZ"
    after = False

    def __init__(self, cursor: Cursor) -> None:
        super().__init__()
        self.cursor, self.cursor_field = cursor, cursor.field

    def now(self) -> datetime:
        return DAY0 + 30 * DAY

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.window is not None
        start, end = (parse_timestamp(at, (self.pattern,)) for at in (slice.window.start, slice.window.end))
        assert start is not None
        assert end is not None
        for n, at in enumerate(MOMENTS):
            if start <= at <= end and not (self.after and at == start):
                yield {"n": n, "at": at.isoformat()}


class Exclusive(Log):
    after = True


class Numbers(Log):
    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.window is not None
        yield from ({"n": n} for n in range(slice.window.start, 40))


class Towns(Stream):
    schema = {  # noqa: RUF012
        "properties": {"town": {"type": "string"}, "n": {"type": "integer"}}
    }

    def partitions(self) -> Iterable[Partition]:
        return [Partition.of(town=town) for town in ("a", "b", 7, None)]

    def read_records(self, slice: Slice) -> Iterator[Item]:
        yield {**slice.partition, "n": 1}


def manifest_cursor(*, step: timedelta | None = DAY, clamping: Clamping | None = None) -> DatetimeCursor:
    return DatetimeCursor(
        "at",
        state_format="%Y-%m-%dT%H:%M:%SZ",
        start=DAY0,
        step=step,
        granularity=timedelta(seconds=1),
        by_request=True,
        clamping=clamping,
    )


STREAMS = [
    Log(DatetimeCursor("at", start=DAY0, step=DAY)),
    Log(DatetimeCursor("at", start=DAY0, step=3 * DAY, granularity=timedelta(seconds=1))),
    Log(DatetimeCursor("at", start=DAY0)),
    Exclusive(DatetimeCursor("at", start=DAY0)),
    Log(manifest_cursor()),
    Log(manifest_cursor(step=None)),
    Log(manifest_cursor(clamping=Clamping("WEEK"))),
]


def planned(stream: Stream, filters: Sequence[Filter], *, columns: tuple[str, ...] = ()) -> list[Slice]:
    reader = narrowed(stream, filters, columns)
    return [slice for part in reader.partitions() for slice in part.value.slices]


def narrowed(stream: Stream, filters: Sequence[Filter], columns: tuple[str, ...] = ()) -> PushdownReader:
    opened = OpenStream(stream, Secrets(), StreamState())
    reader = PushdownReader(opened, TaskReader.of(opened, 100, 100), partition_columns=columns)
    assert reader.pushFilters(list(filters)) == list(filters)
    return reader


def rows(stream: Stream, filters: Sequence[Filter]) -> list[dict[str, Json]]:
    reader = narrowed(stream, filters)
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: type(stream).__name__)
@settings(max_examples=40)
@given(
    kind=st.sampled_from(list(FILTERS)),
    wanted=st.sampled_from(MOMENTS) | st.datetimes(datetime(2023, 12, 1), datetime(2024, 3, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_no_filter_on_the_cursor_loses_a_row(stream: Stream, kind: type[Filter], wanted: datetime) -> None:
    def passing(rows: Iterable[dict[str, Json]]) -> list[int]:
        return sorted({row["n"] for row in rows if FILTERS[kind](row["at"], wanted)})

    assert passing(rows(stream, [kind(("at",), wanted)])) == passing(rows(stream, []))  # type: ignore[call-arg]


def test_only_windows_that_may_hold_a_row_are_planned() -> None:
    stream = STREAMS[0]
    between = [GreaterThan(("at",), DAY0 + 3 * DAY), LessThanOrEqual(("at",), DAY0 + 5 * DAY)]

    assert len(planned(stream, [])) == 30
    assert [slice.window.start for slice in planned(stream, between) if slice.window] == [
        "2024-01-04T00:00:00Z",
        "2024-01-05T00:00:00Z",
        "2024-01-06T00:00:00Z",
    ]
    assert len(planned(stream, [EqualTo(("at",), DAY0 + 3.5 * DAY)])) == 1


def test_a_window_without_steps_begins_a_day_before_the_filter() -> None:
    (slice,) = planned(STREAMS[2], [GreaterThanOrEqual(("at",), DAY0 + 9 * DAY)])

    assert slice.window is not None
    assert slice.window.start == "2024-01-09T00:00:00Z"


@pytest.mark.parametrize("wanted", [datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)])
def test_the_ends_of_the_calendar_are_moments_too(wanted: datetime) -> None:
    assert planned(STREAMS[2], [GreaterThan(("at",), wanted)]) == planned(STREAMS[2], [])


@pytest.mark.parametrize(
    ("pattern", "states"), [("%s", None), ("%ms", None), ("%d.%m.%Y %H:%M", None), ("%s", "%Y%m%d")]
)
def test_moments_that_a_cursor_spells_in_its_own_way_are_compared_as_moments(pattern: str, states: str | None) -> None:
    class Spelled(Log):
        pass

    stream = Spelled(DatetimeCursor("at", start=DAY0, step=DAY, formats=(pattern,), state_format=states))
    stream.pattern = pattern
    starts = [s.window.start for s in planned(stream, [EqualTo(("at",), DAY0 + 12.5 * DAY)]) if s.window]

    assert starts == [write_timestamp(DAY0 + 12 * DAY, states or pattern)]


def test_a_column_of_text_narrows_nothing() -> None:
    stream = Log(DatetimeCursor("at", start=DAY0, step=DAY))
    stream.schema = {"properties": {"at": {"type": "string"}}}
    filters = [
        GreaterThan(("at",), "2024-01-20"),
        EqualTo(("at",), datetime(2024, 1, 20)),  # noqa: DTZ001 - as the session without time zone has them
        StringStartsWith(("at",), "x"),
    ]

    assert len(planned(stream, filters)) == 30


def test_a_number_is_where_an_open_window_begins() -> None:
    stream = Numbers(CountCursor("n"))
    (slice,) = planned(stream, [GreaterThan(("n",), 30), GreaterThan(("n",), 20)])

    assert slice.window is not None
    assert slice.window.start == 29
    assert planned(stream, [GreaterThan(("n",), -5)]) == planned(stream, [])


def test_a_partition_is_left_out_only_by_a_column_that_is_said_to_hold_it() -> None:
    def towns(filters: Sequence[Filter], *columns: str) -> list[Json]:
        return [slice.partition["town"] for slice in planned(Towns(), filters, columns=columns)]

    assert towns([EqualTo(("town",), "a")]) == ["a", "b", 7, None]
    assert towns([EqualTo(("town",), "a")], "town") == ["a", None]
    assert towns([In(("town",), ["b", "7"])], "town") == ["b", 7, None]  # type: ignore[arg-type]
    assert towns([EqualTo(("n",), 1), EqualTo(("a", "town"), "x")], "town", "n") == ["a", "b", 7, None]


@pytest.mark.parametrize("push_down", ["true", "false"])
def test_only_a_reader_that_was_asked_to_takes_filters(push_down: str) -> None:
    options = {"connector": "shop", "stream": "orders", "config": '{"base_url": "http://127.0.0.1:1"}'}
    source = CdkDataSource({**options, "push_down": push_down})

    # Spark looks at the class: one that overrides `pushFilters` fails where the session does not push down.
    overrides = "pushFilters" in vars(type(source.reader(source.schema())))
    assert overrides is (push_down == "true")


def test_a_partition_column_that_the_stream_lacks_is_refused() -> None:
    config = '{"base_url": "http://127.0.0.1:1"}'
    options = {"connector": "shop", "stream": "orders", "config": config, "push_down": "true"}
    source = CdkDataSource({**options, "partition_columns": "id, Status"})

    with pytest.raises(ConfigError, match=r"_columns: orders has no column 'Status'; did you mean 'status'[?]"):
        source.reader(source.schema())


class Secretive(Towns):
    def partitions(self) -> Iterable[Partition]:
        return list_partitions("town", ["hunter2-hunter2", "b"])


def test_a_partition_that_a_secret_identifies_is_read_for_its_value() -> None:
    stream = Secretive()
    stream.guard(SecretMarks([("town", "hunter2-hunter2")]))

    def restored(wanted: str) -> list[Json]:
        slices = planned(stream, [EqualTo(("town",), wanted)], columns=("town",))
        return [stream.restored(slice.partition)["town"] for slice in slices]

    assert restored("hunter2-hunter2") == ["hunter2-hunter2"]
    assert restored("b") == ["b"]
