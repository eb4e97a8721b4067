"""Frames of the demo shop, whose API counts what it is asked, and of a source with a secret."""

import json
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameReader

_KEYED = """
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


def shop_reader(spark: SparkSession, stream: str, address: str) -> DataFrameReader:
    config = json.dumps({"base_url": address})
    return spark.read.format("cdk").option("connector", "shop").option("config", config).option("stream", stream)


def keyed(spark: SparkSession, folder: Path, *, fail: bool = False) -> DataFrame:
    (folder / "config.json").write_text(json.dumps({"key": KEY, "fail": fail}))
    return spark.read.format("cdk").options(**keyed_options(folder), config_file=str(folder / "config.json")).load()


def keyed_options(folder: Path) -> dict[str, str]:
    """A source in `folder` whose config has a secret, but for the config."""
    (folder / "keyed.py").write_text(_KEYED)
    return {"connector": str(folder / "keyed.py"), "stream": "keyed"}


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())
