"""`spark.readStream.format("cdk")` on a real session: stopped, broken and started again, every row once."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles
from pyspark.sql.streaming.query import StreamingQuery

from cdk import DatetimeCursor, Partition, StateError, Stream
from cdk.base.secret_masking import SecretMarks, Secrets
from cdk.base.values import Json
from cdk.spark import register
from cdk.spark.datasource.open_stream import OpenStream
from cdk.spark.datasource.streaming import StreamReader
from cdk.spark.datasource.task_reader import TaskReader
from cdk.state.wire import decode
from tests import samples
from tests.spark.datasource.frames import KEY, keyed_options
from tests.spark.datasource.test_micro_batches import DAY0, HOUR, Clock, Log, Shops, drained, flat, log, reader
from tests.worlds.test_bounded_runs import World

pytestmark = pytest.mark.spark

# Its clock, and what it has, are files, so that the source grows while a query stands still.
LOG = """
import json
from datetime import datetime, timedelta
from pathlib import Path

from cdk import DatetimeCursor, Stream


class Log(Stream):
    cursor = DatetimeCursor("at", start="2024-01-01T00:00:00Z", step=timedelta(hours=6))
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "at": {"type": "string"}}}

    def now(self):
        return datetime.fromisoformat((Path(self.config["folder"]) / "now").read_text())

    def read_records(self, slice):
        window = slice.window
        with (Path(self.config["folder"]) / "asked").open("a") as file:
            file.write(f"{window.start} {window.end}\\n")
        for line in (Path(self.config["folder"]) / "records").read_text().splitlines():
            record = json.loads(line)
            if window.start <= record["at"] <= window.end:
                yield record
"""
Sink = Callable[[DataFrame, int], None]


class Trial:
    """A source in a folder, and a query over it. batches: the ids that each brought, by number."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.batches: dict[int, list[int]] = {}
        (folder / "log.py").write_text(LOG)
        self.grow(0)

    def grow(self, hours: int) -> None:
        """Let the source be at this hour, with a record every half hour."""
        records = [
            {"id": n, "at": (DAY0 + timedelta(hours=n / 2)).strftime("%Y-%m-%dT%H:%M:%SZ")} for n in range(2 * hours)
        ]
        (self.folder / "records").write_text("\n".join(map(json.dumps, records)))
        (self.folder / "now").write_text((DAY0 + timedelta(hours=hours)).isoformat())

    def start(self, sink: Sink) -> StreamingQuery:
        options = {
            "connector": str(self.folder / "log.py"),
            "config": json.dumps({"folder": str(self.folder)}),
            "stream": "log",
            "lag": "0s",
            "slices_per_batch": "1",
        }
        frame = self.spark.readStream.format("cdk").options(**options).load()
        writer = frame.writeStream.option("checkpointLocation", str(self.folder / "checkpoint"))
        return writer.foreachBatch(sink).trigger(availableNow=True).start()

    def run(self, sink: Sink | None = None) -> None:
        """Take what is available now. Raises StreamingQueryException."""
        assert self.start(sink or self.write).awaitTermination(60)

    def asked(self) -> Counter[str]:
        """How often a window was asked for, by the hour it starts at."""
        return Counter(line[11:16] for line in (self.folder / "asked").read_text().splitlines())

    def write(self, frame: DataFrame, number: int) -> None:
        self.batches[number] = sorted(row.id for row in frame.select("id").collect())


@pytest.fixture
def trial(session: SparkSession, tmp_path: Path) -> Trial:
    register(session)
    return Trial(session, tmp_path)


def test_a_query_that_broke_and_is_started_again_goes_on_where_it_was(trial: Trial) -> None:
    broken: list[int] = []

    def breaking(frame: DataFrame, number: int) -> None:
        trial.write(frame, number)
        if number == 1:
            broken.extend(trial.batches.pop(number))
            raise ValueError("the disk is full")

    trial.grow(9)
    with pytest.raises(StreamingQueryException, match="the disk is full"):
        trial.run(breaking)
    trial.grow(14)
    trial.run()

    assert trial.batches == {0: list(range(12)), 1: broken, 2: list(range(18, 28))}
    assert broken == list(range(12, 18))
    assert trial.asked() == {"00:00": 1, "06:00": 2, "09:00": 1}


def test_a_secret_is_in_no_plan_of_a_query(
    session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register(session)
    source, config = session.readStream.format("cdk").options(**keyed_options(tmp_path)), json.dumps({"key": KEY})
    query = source.option("config", config).load().writeStream.format("noop").start()
    with pytest.raises(StreamingQueryException, match="holds a secret, and Spark shows this option") as refused:
        query.processAllAvailable()
    hidden = session.readStream.format("cdk").options(**keyed_options(tmp_path), secret_config=config)
    hidden.load().explain(extended=True)

    plans = capsys.readouterr().out
    assert "secret_config=*********(redacted)" in plans
    assert KEY not in plans + str(refused.value)


SHOPS = """
import json
from pathlib import Path

from cdk import DatetimeCursor, Source, Stream, following_partitions, list_partitions

SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}, "at": {"type": "string"}}}


class Shops(Stream):
    cursor = DatetimeCursor("at", start="2024-01-01T00:00:00Z")
    schema = SCHEMA

    def partitions(self):
        return list_partitions("account", [self.config["account"], "other"])

    def read_records(self, slice):
        yield {"id": slice.partition["account"][:5], "at": "2024-01-02T00:00:00Z"}


class Orders(Shops):
    def partitions_since(self, parents):
        print("lists those of", self.config["account"])
        return following_partitions(Shops(self.config), parents, shop="id")

    def partitions(self):
        return self.partitions_since({})

    def read_records(self, slice):
        assert slice.partition["account"].startswith(slice.partition["shop"])
        yield {"id": slice.partition["account"], "at": "2024-01-03T00:00:00Z"}


class Secretive(Source):
    stream_classes = (Orders,)
    config_schema = {"type": "object", "properties": {"account": {"type": "string", "airbyte_secret": True}}}
"""


def test_a_secret_that_identifies_partitions_is_in_no_file_of_a_query_that_goes_on(
    session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register(session)
    (tmp_path / "shops.py").write_text(SHOPS)
    rows, checkpoint = Counter[str](), tmp_path / "checkpoint"
    options = {"connector": str(tmp_path / "shops.py"), "secret_config": json.dumps({"account": KEY})}
    stream = session.readStream.format("cdk").options(**options, stream="orders").load()
    writer = stream.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    texts = []
    for _ in range(2):
        query = writer.foreachBatch(lambda frame, _: rows.update(row.id for row in frame.collect())).start()
        assert query.awaitTermination(60)
        query.explain(extended=True)
        texts.append(str(query.lastProgress))

    assert rows == {KEY: 1, "other": 1}
    files = {path: path.read_text() for path in checkpoint.rglob("*") if path.is_file() and path.suffix != ".crc"}
    assert any("<secret account plain>" in text for text in files.values())
    assert [path for path, text in files.items() if KEY in text] == []
    assert KEY not in "".join(texts) + capsys.readouterr().out


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
