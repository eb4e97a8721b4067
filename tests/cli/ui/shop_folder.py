"""A folder with a pipeline: a stream that was synced, one that failed, and one that failed and was resumed."""

from pathlib import Path
from textwrap import dedent

import pytest

from cdk.cli.app import run

SECRET = "tok-5f2d91c07b"
CONNECTOR = dedent("""
    from pathlib import Path
    from cdk import Checkpoint, CountCursor, Partition, Source, Stream, TransientError
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

    class Visits(Stream):
        supports_checkpointing = True
        cursor_field = "id"

        def read_records(self, slice):
            for number in range((slice.start.cursor or {}).get("id", -1) + 1, 5):
                if number == 2 and not Path("mended").exists():
                    raise TransientError("the door is shut, says tok-5f2d91c07b")
                yield {"id": number}
                yield Checkpoint({"id": number})

    class Shop(Source):
        stream_classes = [Orders, Broken, Visits]
        config_schema = {"properties": {"key": {"type": "string", "airbyte_secret": True}}}
""")
PIPELINE = dedent("""
    name: shop
    source: {connector: shop.py, config: {key: "${SHOP_KEY}"}}
    target: {path: tables}
    spark: {start: never}
""")


def put_shop(folder: Path, monkeypatch: pytest.MonkeyPatch, target: str = "{path: tables}") -> Path:
    """Write and sync it, in the folder itself, which is given back."""
    monkeypatch.chdir(folder)
    (folder / "shop.py").write_text(CONNECTOR)
    (folder / "config.json").write_text('{"key": "${SHOP_KEY}"}')
    (folder / ".env").write_text(f"SHOP_KEY={SECRET}")
    (folder / "pipeline.yaml").write_text(PIPELINE.replace("{path: tables}", target))
    assert run(["sync", "pipeline.yaml", "--report", "failed.json"]) == 1
    (folder / "mended").touch()
    assert run(["sync", "pipeline.yaml", "--stream", "visits", "--report", "resumed.json"]) == 0
    return folder


MANIFEST = dedent("""
    version: 6.48.0
    type: DeclarativeSource
    check: {type: CheckStream, stream_names: [items]}
    streams:
      - type: DeclarativeStream
        name: items
        schema_loader: {type: InlineSchemaLoader, schema: {}}
        retriever:
          type: SimpleRetriever
          requester: {type: HttpRequester, url_base: "http://127.0.0.1:9", path: items}
          record_selector: {type: RecordSelector, extractor: {type: DpathExtractor, field_path: []}}
""")
"""A connector without code; nobody answers it."""
