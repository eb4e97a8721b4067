"""A folder with a pipeline of which one stream was synced and the other failed."""

from pathlib import Path
from textwrap import dedent

import pytest

from cdk.cli.app import run

SECRET = "tok-5f2d91c07b"
CONNECTOR = dedent("""
    from cdk import CountCursor, Partition, Source
    from cdk.rest import Bearer, HttpStream
    from cdk.testing import MockApi

    api = MockApi()
    api.get("/shops").returns(json=[{"id": "a"}, {"id": "b"}])
    api.get("/orders").returns(json=[{"id": 1, "at": 5, "note": "<b>for tok-5f2d91c07b</b>"}])
    api.get("/broken").returns(status=400, json={"error": "no <i>tok-5f2d91c07b</i>"})

    class Orders(HttpStream):
        url_base = "https://api.test"
        transport = api
        cursor = CountCursor("at")
        schema = {"type": "object", "properties": {"id": {"type": "integer"}, "at": {"type": "integer"}}}

        def partitions(self):
            return [Partition({"shop": name}) for name in "ab"]

        def path(self, slice):
            return "/" + self.name

        def authenticator(self):
            return Bearer(self.config["key"])

    class Broken(Orders):
        pass

    class Shop(Source):
        stream_classes = [Orders, Broken]
        config_schema = {"properties": {"key": {"type": "string", "airbyte_secret": True}}}
""")
PIPELINE = dedent("""
    name: shop
    source: {connector: shop.py, config: {key: "${SHOP_KEY}"}}
    target: {path: tables}
    spark: {start: never}
""")


def put_shop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write and sync it, in the folder itself, which is given back."""
    monkeypatch.chdir(folder)
    (folder / "shop.py").write_text(CONNECTOR)
    (folder / "config.json").write_text('{"key": "${SHOP_KEY}"}')
    (folder / ".env").write_text(f"SHOP_KEY={SECRET}")
    (folder / "pipeline.yaml").write_text(PIPELINE)
    assert run(["sync", "pipeline.yaml", "--report", "report.json"]) == 1
    return folder
