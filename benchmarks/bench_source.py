"""The bench's streams as HttpStreams: what the peers read, read with this kit.

Run it against the bench server: `spark-cdk read --connector benchmarks/bench_source.py --config C --catalog K`, where
the config holds `base_url`, the data set included: `http://127.0.0.1:8099/n=1000000,rec=std,days=100`.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta

from cdk import DatetimeCursor, Json, JsonSchema, Partition, Slice, Source, parent_partitions
from cdk.rest import CursorToken, HttpStream

_TEXT: JsonSchema = {"type": ["string", "null"]}

SCHEMA: JsonSchema = {
    "type": "object",
    "additionalProperties": True,
    "properties": {
        "id": {"type": "integer"},
        "parent_id": {"type": ["integer", "null"]},
        "uuid": {"type": "string"},
        "name": _TEXT,
        "email": _TEXT,
        "status": _TEXT,
        "amount": _TEXT,
        "quantity": {"type": ["integer", "null"]},
        "is_active": {"type": ["boolean", "null"]},
        "created_at": _TEXT,
        "updated_at": _TEXT,
        "address": {
            "type": ["object", "null"],
            "properties": {"city": {"type": "string"}, "zip": {"type": "string"}, "geo": {"type": "object"}},
        },
        "tags": {"type": ["array", "null"], "items": {"type": "string"}},
    },
}


CONFIG_SCHEMA: JsonSchema = {
    "type": "object",
    "required": ["base_url"],
    "properties": {"base_url": {"type": "string", "description": "The server and the data set."}},
}


class Items(HttpStream):
    """Full refresh, resumable by page."""

    primary_key = "id"
    records_path = ("data",)
    paginator = CursorToken("next_page", param="page")
    schema = SCHEMA

    @property
    def url_base(self) -> str:
        return str(self.config["base_url"])

    def path(self, slice: Slice) -> str:
        return "items"

    def params(self, slice: Slice) -> Mapping[str, Json]:
        return {"per_page": 1000, "page": 1}


class ItemsIncremental(Items):
    """Incremental in windows of a day, over the hundred days that the server has."""

    cursor = DatetimeCursor(
        "updated_at",
        start="2024-01-01T00:00:00Z",
        end="2024-04-09T23:59:59Z",
        step=timedelta(days=1),
        granularity=timedelta(seconds=1),
    )

    def params(self, slice: Slice) -> Mapping[str, Json]:
        assert slice.window is not None
        window = {"updated_since": slice.window.start, "updated_until": slice.window.end}
        return {**super().params(slice), **window}


class Parents(Items):
    """The parents of the children."""

    def path(self, slice: Slice) -> str:
        return "parents"


class Children(Items):
    """A substream: one request a parent."""

    def partitions(self) -> Iterable[Partition]:
        return parent_partitions(Parents(self.config), parent_id="id")

    def path(self, slice: Slice) -> str:
        return f"parents/{slice.partition['parent_id']}/children"


class ChildrenIncremental(Children):
    """An incremental substream: a cursor a parent."""

    cursor = DatetimeCursor("updated_at", start="2024-01-01T00:00:00Z")


class BenchSource(Source):
    """All of them."""

    name = "bench"
    config_schema = CONFIG_SCHEMA
    stream_classes = (Items, ItemsIncremental, Parents, Children, ChildrenIncremental)
