"""What the offset of a streaming read belongs to: a query resumes only from one of its own stream."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

from cdk import DatetimeCursor, Partition, StateError, Stream
from cdk.base.secret_masking import SecretMarks, Secrets
from cdk.base.values import Json
from cdk.spark.datasource.open_stream import OpenStream
from cdk.spark.datasource.streaming import StreamReader
from cdk.spark.datasource.task_reader import TaskReader
from cdk.state.wire import decode
from tests import samples
from tests.spark.datasource.test_micro_batches import DAY0, HOUR, Clock, Log, Shops, drained, flat, log, reader
from tests.worlds.test_bounded_runs import World

SECRET = "hunter2-hunter2"


def advanced(stream: Stream) -> dict[str, str]:
    """The offset after all that there is."""
    return drained(reader(stream), reader(stream).initialOffset(), ReadAllAvailable())[1]


def test_an_offset_of_another_stream_is_refused() -> None:
    class Renamed(Log):
        name = "renamed"

    offset = advanced(log(Clock()))
    other = reader(log(Clock(), Renamed))

    for plan in (lambda: other.latestOffset(offset, ReadAllAvailable()), lambda: other.partitions(offset, offset)):
        with pytest.raises(StateError) as refused:
            plan()
        assert str(refused.value) == (
            "offset of renamed: found the offset of the stream 'log' in the query's checkpoint, expected that of "
            "'renamed': give each stream a checkpoint folder of its own. If this one was renamed, start a query with "
            "another checkpoint folder, whose option state is the state in this offset"
        )


def test_an_offset_of_another_cursor_is_refused() -> None:
    stream, users = log(Clock()), samples.Users()
    users.name, users.schema = stream.name, Log.schema
    offset = advanced(stream)
    stream.cursor = DatetimeCursor("changed_at", start=DAY0)

    with pytest.raises(StateError, match=r"the offset of the cursor 'at' .* expected that of the cursor 'changed_at'"):
        reader(stream).latestOffset(offset, ReadAllAvailable())
    with pytest.raises(StateError, match=r"the offset of the cursor 'at' .* expected that of one without a cursor"):
        reader(users).latestOffset(offset, ReadAllAvailable())
    with pytest.raises(StateError, match="found the offset of a stream without a cursor in"):
        reader(log(Clock())).latestOffset(advanced(users), ReadAllAvailable())


@pytest.mark.parametrize(
    ("end", "words"), [(None, "one that has no end"), (DAY0 + 90 * HOUR, 'one that ends at "2024-01-04T18:00:00Z"')]
)
def test_a_stream_that_was_read_to_the_end_of_its_cursor_is_refused_where_that_moves(
    end: datetime | None, words: str
) -> None:
    clock = Clock()
    stream = log(clock)
    stream.cursor = DatetimeCursor("at", start=DAY0, end=DAY0 + 20 * HOUR)
    first = reader(stream)
    start = first.initialOffset()
    offset = drained(first, start, ReadAllAvailable())[1]
    clock.now += 100 * HOUR
    assert reader(stream).latestOffset(offset, ReadAllAvailable()) == offset
    stream.cursor = DatetimeCursor("at", start=DAY0, end=end)

    for plan in (
        lambda: reader(stream).latestOffset(offset, ReadAllAvailable()),
        lambda: reader(stream).partitions(start, offset),
    ):
        with pytest.raises(StateError, match=f'its end at "2024-01-01T20:00:00Z" in .*{words}: what follows would not'):
            plan()


def test_an_end_that_moves_before_it_is_reached_is_where_the_stream_ends() -> None:
    clock = Clock()
    stream = log(clock)
    stream.cursor = DatetimeCursor("at", start=DAY0, end=DAY0 + 100 * HOUR)
    batches, offset = drained(reader(stream), reader(stream).initialOffset(), ReadAllAvailable())
    clock.now += 100 * HOUR
    stream.cursor = DatetimeCursor("at", start=DAY0, end=DAY0 + 120 * HOUR)
    later = drained(reader(stream), offset, ReadAllAvailable())[0]

    assert flat(batches + later) == list(range(121))


class Towns(Shops):
    """As `Shops`, after an update of the connector."""

    name = "shops"
    field, values = "town", ("a", "b")

    def partitions(self) -> Iterable[Partition]:
        return [Partition({self.field: value}, extra={"long": "?"}) for value in self.values]


@pytest.mark.parametrize(
    ("field", "values", "words"),
    [
        ("town", ("a", "b"), "the state has partitions by 'shop', but the source's partitions now have 'town'"),
        ("shop", (1, 2), 'the state has the partition {"shop":"1"}, but the source\'s is now {"shop":1}'),
    ],
)
def test_partitions_that_are_named_anew_are_refused(field: str, values: tuple[Json, ...], words: str) -> None:
    stream, renamed = log(Clock(), Shops), log(Clock(), Towns)
    assert isinstance(stream, Shops)
    stream.shops = ("1", "2")
    offset = advanced(stream)
    renamed.field, renamed.values = field, values  # type: ignore[attr-defined] # it is one

    with pytest.raises(StateError) as refused:
        reader(renamed).latestOffset(offset, ReadMaxFiles(1))

    assert words in str(refused.value)
    assert "all of it would be read again. Have the source name it as before, or start a query" in str(refused.value)


def test_a_state_without_a_value_of_the_cursor_is_refused() -> None:
    for state in ({"other": 1}, {"__ab_full_refresh_sync_complete": True}):
        run = reader(log(Clock()), state=state)
        with pytest.raises(StateError, match="but no value of the cursor 'at': all of it would be read again"):
            run.latestOffset(run.initialOffset(), ReadAllAvailable())


def test_partitions_that_are_as_far_as_the_cursor_of_all_stay_there() -> None:
    clock = Clock()
    stream = log(clock, Shops)
    states = [{"partition": {"shop": "a"}, "cursor": {"at": samples.moment(50)}}]
    shared = {"use_global_cursor": True, "state": {"at": samples.moment(60)}, "states": states}
    run = reader(stream, state=shared)
    first, offset = drained(run, run.initialOffset(), ReadAllAvailable())
    clock.now += 10 * HOUR
    second = drained(reader(stream), offset, ReadAllAvailable())[0]

    assert flat(first) == list(range(50, 60))
    assert sorted(flat(second)) == sorted([*range(60, 70), *range(60, 70)])


class Secretive(Shops):
    shops = (SECRET, "b")


def secretive(state: Json = None, *, key: str = SECRET) -> StreamReader:
    """Of a connector that marks the id of a shop as secret."""
    stream = log(Clock(), Secretive)
    stream.guard(SecretMarks([("shop.id", key)]))
    opened = OpenStream(stream, Secrets([SECRET]), decode(state, cursor_field=stream.cursor_field), [SECRET])
    return StreamReader(opened, TaskReader.of(opened, 2), lag=timedelta(), slices=None)


def test_a_state_of_another_program_with_the_secret_is_resumed_from_without_it() -> None:
    states = [{"partition": {"shop": shop}, "cursor": {"at": samples.moment(50)}} for shop in (SECRET, "b")]
    run = secretive({"states": states})
    start = run.initialOffset()
    batches, end = drained(run, start, ReadAllAvailable())

    assert SECRET not in start["state"] + end["state"]
    assert flat(batches) == sorted([*range(50, 60), *range(50, 60)])


def test_an_offset_with_a_secret_is_refused() -> None:
    run = secretive(key="another-secret")

    with pytest.raises(StateError, match="found a secret of the config") as refused:
        run.latestOffset(run.initialOffset(), ReadAllAvailable())

    assert SECRET not in str(refused.value)


def test_the_cursor_of_all_partitions_of_another_program_looks_back_as_in_other_reads() -> None:
    stream = World([4, 4], [1] * 6, "list", has_cursor=True).source().open({})[0]
    run = reader(stream, state={"use_global_cursor": True, "state": {"on": "2024-01-03"}, "lookback_window": 86400})
    batches, _ = drained(run, run.initialOffset(), ReadAllAvailable())

    assert sorted(flat(batches)) == [101, 102, 103, 201, 202, 203]
