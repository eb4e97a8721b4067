"""`push_down` on a real session: fewer requests, and the same rows."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.readwriter import DataFrameReader

from cdk.spark import register
from connectors.shop.backend import Backend
from tests.spark.datasource.frames import ids, shop_reader

pytestmark = pytest.mark.spark

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def spark(session: SparkSession) -> Iterator[SparkSession]:
    register(session)
    # Of a person who wants it: `register` sets nothing.
    session.conf.set(PUSH_DOWN, True)
    yield session
    session.conf.unset(PUSH_DOWN)


def pushed(reader: DataFrameReader) -> DataFrameReader:
    return reader.option("push_down", "true")


def test_a_filter_on_the_cursor_reads_fewer_windows_and_gives_the_same_rows(
    spark: SparkSession, address: str, shop: Backend
) -> None:
    orders = shop_reader(spark, "orders", address).load().cache()
    whole = ids(orders.where(wanted()))
    before = shop.stats()["orders"]["pages"]
    narrowed = ids(pushed(shop_reader(spark, "orders", address)).load().where(wanted()))

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
    orders, every = shop_reader(spark, "orders", address).load(), {order["id"] for order in shop._orders}
    first, last = "updated_at < '2024-01-05T00:00:00Z'", "updated_at >= '2024-01-25T00:00:00Z'"

    some = set(ids(orders.where(first)))
    both = set(ids(orders.where(first).union(orders.where(last))))

    assert len(some) < len(both) < len(every)
    assert both - some == set(ids(orders.where(last)))
    assert set(ids(orders)) == every


def wanted() -> str:
    return "updated_at >= '2024-01-10T12:00:00Z' and updated_at < '2024-01-12T01:00:00Z' and status = 'shipped'"


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


def test_a_filter_by_a_moment_of_the_driver_is_understood(spark: SparkSession, address: str, shop: Backend) -> None:
    since = datetime(2024, 1, 29, tzinfo=UTC)
    newest = pushed(shop_reader(spark, "orders", address)).load().where(f.col("updated_at") > f.lit(since))

    assert ids(newest) == sorted(o["id"] for o in shop._orders if o["updated_at"] > "2024-01-29T00:00:00Z")
    assert shop.stats()["orders"]["pages"] <= 3
