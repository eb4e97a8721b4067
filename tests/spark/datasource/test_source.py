"""`spark.read.format("cdk")` on a real session, against an API that counts what it is asked."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.readwriter import DataFrameReader

from cdk.lake.arrow.columns import columns, table_schema
from cdk.spark import register
from connectors.shop.api import serving
from connectors.shop.backend import Backend, Sizes
from connectors.shop.streams import Orders
from tests.docs.page import BLOCK, DOCS

pytestmark = pytest.mark.spark

KEYED = """
from cdk import Page, PagedStream, Source


class Keyed(PagedStream):
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "n": {"type": "number"}}}

    def read_page(self, slice, token):
        key = self.config["key"]
        if self.config.get("fail"):
            raise ValueError(f"the key {key} was refused")
        return Page([{"id": 1, "n": 1.5}, {"id": "two", "extra": len(key)}], None)


class Keys(Source):
    stream_classes = (Keyed,)
    config_schema = {
        "type": "object",
        "required": ["key"],
        "properties": {"key": {"type": "string", "airbyte_secret": True}, "fail": {"type": "boolean"}},
    }
"""
KEY = "hunter-of-rows"
PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def spark(session: SparkSession) -> SparkSession:
    register(session)
    # Of a person who wants it: `register` sets nothing.
    session.conf.set(PUSH_DOWN, True)
    return session


@pytest.fixture
def shop() -> Backend:
    return Backend(Sizes(products=120, orders=600, customers=4, visits=30))


@pytest.fixture
def address(shop: Backend) -> Iterator[str]:
    with serving(shop) as address:
        yield address


def cdk(spark: SparkSession, stream: str, address: str) -> DataFrameReader:
    config = json.dumps({"base_url": address})
    return spark.read.format("cdk").option("connector", "shop").option("config", config).option("stream", stream)


def pushed(reader: DataFrameReader) -> DataFrameReader:
    return reader.option("push_down", "true")


def keyed(spark: SparkSession, folder: Path, *, fail: bool = False) -> DataFrame:
    (folder / "keyed.py").write_text(KEYED)
    (folder / "config.json").write_text(json.dumps({"key": KEY, "fail": fail}))
    options = {"connector": str(folder / "keyed.py"), "config_file": str(folder / "config.json"), "stream": "keyed"}
    return spark.read.format("cdk").options(**options).load()


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def test_a_stream_is_read_once_and_whole_with_the_columns_of_its_table(
    spark: SparkSession, address: str, shop: Backend
) -> None:
    orders = cdk(spark, "orders", address).load()

    assert orders.columns == table_schema(columns(Orders().json_schema())).names
    assert ids(orders) == sorted(order["id"] for order in shop._orders)
    assert all(field.nullable for field in orders.schema)


def test_a_filter_on_the_cursor_reads_fewer_windows_and_gives_the_same_rows(
    spark: SparkSession, address: str, shop: Backend
) -> None:
    orders = cdk(spark, "orders", address).load().cache()
    whole = ids(orders.where(wanted()))
    before = shop.stats()["orders"]["pages"]
    narrowed = ids(pushed(cdk(spark, "orders", address)).load().where(wanted()))

    assert narrowed == whole != []
    assert before >= 30
    assert shop.stats()["orders"]["pages"] - before <= 4
    orders.unpersist()


@pytest.mark.parametrize("push_down", [True, False])
def test_a_frame_has_all_rows_whatever_was_asked_of_it_before(
    push_down: bool,  # noqa: FBT001 - a parameter
    spark: SparkSession,
    address: str,
    shop: Backend,
) -> None:
    spark.conf.set(PUSH_DOWN, push_down)
    orders, every = cdk(spark, "orders", address).load(), {order["id"] for order in shop._orders}
    first, last = "updated_at < '2024-01-05T00:00:00Z'", "updated_at >= '2024-01-25T00:00:00Z'"

    some = set(ids(orders.where(first)))
    both = set(ids(orders.where(first).union(orders.where(last))))

    assert len(some) < len(both) < len(every)
    assert both - some == set(ids(orders.where(last)))
    assert set(ids(orders)) == every
    spark.conf.set(PUSH_DOWN, True)


def test_registering_sets_nothing_of_the_session(spark: SparkSession) -> None:
    spark.conf.unset(PUSH_DOWN)
    before = {row.key: row.value for row in spark.sql("SET").collect()}

    register(spark)

    assert {row.key: row.value for row in spark.sql("SET").collect()} == before
    spark.conf.set(PUSH_DOWN, True)


def wanted() -> str:
    return "updated_at >= '2024-01-10T12:00:00Z' and updated_at < '2024-01-12T01:00:00Z' and status = 'shipped'"


def test_a_state_is_where_a_read_starts(spark: SparkSession, address: str, shop: Backend) -> None:
    state = json.dumps({"updated_at": "2024-01-20T00:00:00Z"})
    orders = cdk(spark, "orders", address).option("state", state).load()

    assert ids(orders) == sorted(o["id"] for o in shop._orders if o["updated_at"] >= "2024-01-20T00:00:00Z")


def test_nothing_to_read_is_an_empty_frame(spark: SparkSession, address: str) -> None:
    done = json.dumps({"__ab_full_refresh_sync_complete": True})

    assert cdk(spark, "products", address).option("state", done).load().collect() == []


def test_a_manifest_is_read_and_a_text_that_does_not_fit_its_column_is_kept(
    spark: SparkSession, tmp_path: Path, address: str
) -> None:
    page = (DOCS / "how-to" / "use-a-manifest.md").read_text()
    manifest = next(text for kind, text in BLOCK.findall(page) if kind == "yaml" and text.startswith("# shop.yaml"))
    (tmp_path / "shop.yaml").write_text(manifest)
    options = {"manifest": str(tmp_path / "shop.yaml"), "config": json.dumps({"base_url": address})}
    visits = spark.read.format("cdk").options(**options).option("stream", "visits").load()
    rows = keyed(spark, tmp_path).orderBy(f.col("id").desc_nulls_last()).collect()

    assert visits.select("id").distinct().count() == 4 * 30
    assert [(row.id, row.n, row._airbyte_additional) for row in rows] == [
        (1, 1.5, None),
        (None, None, json.dumps({"extra": len(KEY)}, separators=(",", ":"))),
    ]
    assert rows[1]._airbyte_meta.changes[0].original == "two"


def test_partitions_are_left_out_by_columns_that_are_said_to_hold_them(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "towns.py").write_text(TOWNS)
    options = {"connector": str(tmp_path / "towns.py"), "stream": "towns", "config": json.dumps({"log": str(tmp_path)})}
    towns = spark.read.format("cdk").options(**options)

    assert towns.load().where("town = 'a'").count() == 2
    assert sorted(path.name for path in tmp_path.glob("asked-*")) == ["asked-a", "asked-b", "asked-c"]
    for path in tmp_path.glob("asked-*"):
        path.unlink()
    assert pushed(towns).option("partition_columns", "town").load().where("town in ('a', 'c') and id > 0").count() == 2
    assert sorted(path.name for path in tmp_path.glob("asked-*")) == ["asked-a", "asked-c"]


TOWNS = """
from pathlib import Path

from cdk import Stream, list_partitions


class Towns(Stream):
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "town": {"type": "string"}}}

    def partitions(self):
        return list_partitions("town", ["a", "b", "c"])

    def read_records(self, slice):
        (Path(self.config["log"]) / f"asked-{slice.partition['town']}").touch()
        yield {"id": 0, **slice.partition}
        yield {"id": 1, **slice.partition}
"""


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("sttream", "orders", "option sttream: is unknown; did you mean 'stream'?"),
        ("stream", "order", "the source has no stream 'order'; did you mean 'orders'?"),
        ("connector", "shopp", "found no connector 'shopp'; did you mean 'shop'?"),
        ("config", '{"base_ulr": "x"}', "option config: base_url: found nothing ('base_ulr' is unknown)"),
        ("state", "[1]", "found 1, expected"),
    ],
)
def test_a_wrong_option_is_refused_in_words(spark: SparkSession, option: str, value: str, words: str) -> None:
    with pytest.raises(AnalysisException) as refused:
        cdk(spark, "orders", "http://127.0.0.1:1").option(option, value).load()

    assert words in str(refused.value)


def test_a_schema_of_ones_own_is_refused(spark: SparkSession, address: str) -> None:
    with pytest.raises(Exception, match=r"leave out \.schema") as refused:
        cdk(spark, "orders", address).schema("id string").load().collect()

    assert "ConfigError" in str(refused.value)


def test_a_secret_is_in_no_error_and_in_no_plan(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Exception, match="was refused") as failed:
        keyed(spark, tmp_path, fail=True).collect()
    (tmp_path / "config.json").write_text(json.dumps({"key": KEY, "fail": KEY}))
    with pytest.raises(Exception, match="fail: found") as misfit:
        spark.read.format("cdk").options(
            connector=str(tmp_path / "keyed.py"), config_file=str(tmp_path / "config.json"), stream="keyed"
        ).load()
    options = {"connector": str(tmp_path / "keyed.py"), "stream": "keyed"}
    config = json.dumps({"key": KEY})
    for name in ("config", "secret_config"):
        spark.read.format("cdk").options(**options).option(name, config).load().where("id > 0").explain(extended=True)
    spark.readStream.format("cdk").options(**options, secret_config=config).load().explain(extended=True)
    query = spark.readStream.format("cdk").options(**options, config=config).load().writeStream.format("noop").start()
    with pytest.raises(StreamingQueryException, match="holds a secret, and Spark shows this option") as shown:
        query.processAllAvailable()

    plans = capsys.readouterr().out
    assert "secret_config=*********(redacted)" in plans
    for text in (plans, str(shown.value), str(failed.value), str(misfit.value)):
        assert KEY not in text
    assert "the key **** was refused" in str(failed.value)


def test_a_filter_by_a_moment_of_the_driver_is_understood(spark: SparkSession, address: str, shop: Backend) -> None:
    since = datetime(2024, 1, 29, tzinfo=UTC)
    newest = pushed(cdk(spark, "orders", address)).load().where(f.col("updated_at") > f.lit(since))

    assert ids(newest) == sorted(o["id"] for o in shop._orders if o["updated_at"] > "2024-01-29T00:00:00Z")
    assert shop.stats()["orders"]["pages"] <= 3
