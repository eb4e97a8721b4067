"""Streams that show how reading scales: `Busy` needs a core and nothing else, so no server shares it."""

from collections.abc import Iterable, Mapping

import orjson

from cdk import Json, JsonSchema, Page, PagedStream, Partition, Slice, Source

PAGE = 1_000
PAGES = 25
"""Records of a page, and pages of a partition."""


class Busy(PagedStream):
    """Full refresh in partitions; each page is decoded from the same JSON."""

    def __init__(self, config: Mapping[str, Json]) -> None:
        self.parts = int(config["parts"])

    def json_schema(self) -> JsonSchema:
        text: JsonSchema = {"type": "string"}
        return {"type": "object", "properties": {"id": {"type": "integer"}, "part": {"type": "integer"}, "text": text}}

    def partitions(self) -> Iterable[Partition]:
        return [Partition({"part": n}) for n in range(self.parts)]

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        number = 0 if token is None else int(token["page"])
        part = slice.partition["part"]
        text = orjson.dumps([{"id": n, "part": part, "text": f"record {n} " * 20} for n in range(PAGE)])
        following = {"page": number + 1} if number + 1 < PAGES else None
        return Page(orjson.loads(text), following)


class BusySource(Source):
    """That stream alone."""

    name = "busy"
    stream_classes = (Busy,)
