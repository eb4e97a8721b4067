"""`spark.read.format("cdk")` on a real session, against an API that counts what it is asked."""

import json
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from cdk.lake.arrow.columns import columns, table_schema
from cdk.spark import register
from connectors.shop.backend import Backend
from connectors.shop.streams import Orders
from tests.docs.page import BLOCK, DOCS
from tests.spark.datasource.frames import KEY, ids, keyed, keyed_options, shop_reader

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark(session: SparkSession) -> SparkSession:
    register(session)
    return session


def test_a_stream_is_read_once_and_whole_with_the_columns_of_its_table(
    spark: SparkSession, address: str, shop: Backend
) -> None:
    orders = shop_reader(spark, "orders", address).load()

    assert orders.columns == table_schema(columns(Orders().json_schema())).names
    assert ids(orders) == sorted(order["id"] for order in shop._orders)
    assert all(field.nullable for field in orders.schema)


def test_registering_sets_nothing_of_the_session(spark: SparkSession) -> None:
    before = {row.key: row.value for row in spark.sql("SET").collect()}

    register(spark)

    assert {row.key: row.value for row in spark.sql("SET").collect()} == before


def test_two_sessions_of_a_program_read_each_with_its_own_registration(spark: SparkSession, address: str) -> None:
    other = spark.newSession()
    other.conf.set("of.the.other", "1")
    register(other)

    assert ids(shop_reader(other, "products", address).load()) == ids(shop_reader(spark, "products", address).load())
    assert SparkSession.active().conf.get("of.the.other", "") == ""


def test_a_state_is_where_a_read_starts(spark: SparkSession, address: str, shop: Backend) -> None:
    state = json.dumps({"updated_at": "2024-01-20T00:00:00Z"})
    orders = shop_reader(spark, "orders", address).option("state", state).load()

    assert ids(orders) == sorted(o["id"] for o in shop._orders if o["updated_at"] >= "2024-01-20T00:00:00Z")


def test_nothing_to_read_is_an_empty_frame(spark: SparkSession, address: str) -> None:
    done = json.dumps({"__ab_full_refresh_sync_complete": True})

    assert shop_reader(spark, "products", address).option("state", done).load().collect() == []


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


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("sttream", "orders", "option sttream: unknown key; did you mean 'stream'?"),
        ("stream", "order", "the source has no stream 'order'; did you mean 'orders'?"),
        ("connector", "shopp", "found no connector 'shopp'; did you mean 'shop'?"),
        ("config", '{"base_ulr": "x"}', "option config: base_url: found nothing ('base_ulr' is unknown)"),
        ("state", "[1]", "found 1, expected"),
    ],
)
def test_a_wrong_option_is_refused_in_words(spark: SparkSession, option: str, value: str, words: str) -> None:
    with pytest.raises(AnalysisException) as refused:
        shop_reader(spark, "orders", "http://127.0.0.1:1").option(option, value).load()

    assert words in str(refused.value)


def test_a_schema_of_ones_own_is_refused(spark: SparkSession, address: str) -> None:
    with pytest.raises(Exception, match=r"leave out \.schema") as refused:
        shop_reader(spark, "orders", address).schema("id string").load().collect()

    assert "ConfigError" in str(refused.value)


def test_a_secret_is_in_no_error_and_in_no_plan(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Exception, match="was refused") as failed:
        keyed(spark, tmp_path, fail=True).collect()
    (tmp_path / "config.json").write_text(json.dumps({"key": KEY, "fail": KEY}))
    options = keyed_options(tmp_path)
    with pytest.raises(Exception, match="fail: found") as misfit:
        spark.read.format("cdk").options(**options, config_file=str(tmp_path / "config.json")).load()
    for name in ("config", "secret_config"):
        frame = spark.read.format("cdk").options(**options).option(name, json.dumps({"key": KEY})).load()
        frame.where("id > 0").explain(extended=True)

    for text in (capsys.readouterr().out, str(failed.value), str(misfit.value)):
        assert KEY not in text
    assert "the key **** was refused" in str(failed.value)
