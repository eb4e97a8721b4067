"""`spark.readStream.format("cdk")` on a real session: stopped, broken and started again, every row once."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cdk.spark import register
from tests.spark.datasource.frames import KEY, keyed_options

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
DAY0 = datetime(2024, 1, 1, tzinfo=UTC)
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
