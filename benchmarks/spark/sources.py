"""Streams that show how reading scales: no server shares the cores with them.

`Busy` needs a core and nothing else; `Uneven` waits, in one slice much longer than in the others; `Customers` are many
partitions.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

import orjson

from cdk import CountCursor, Item, Json, JsonSchema, Page, PagedStream, Partition, Slice, Source, Stream

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


class Uneven(PagedStream):
    """Slices of one page, which takes `wait` seconds; every `every`-th has `longer` pages, or takes as long in one.

    checkpoints: whether a long slice has pages; else it is one page that takes as long as all of them.
    """

    def __init__(self, config: Mapping[str, Json]) -> None:
        self.parts, self.every, self.longer = int(config["parts"]), int(config["every"]), int(config["longer"])
        self.wait, self.checkpoints = float(config["wait"]), bool(config["checkpoints"])

    def json_schema(self) -> JsonSchema:
        return {"type": "object", "properties": {"part": {"type": "integer"}, "page": {"type": "integer"}}}

    def partitions(self) -> Iterable[Partition]:
        return (Partition({"part": n}) for n in range(self.parts))

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        part, number = slice.partition["part"], 0 if token is None else int(token["page"])
        pages = self.longer if part % self.every == self.every // 2 else 1
        following = {"page": number + 1} if self.checkpoints and number + 1 < pages else None
        time.sleep(self.wait if self.checkpoints else self.wait * pages)  # noqa: TID251 - what is measured is waiting
        return Page([{"part": part, "page": number}], following)


class Customers(Stream):
    """A counter for each of `customers`, which takes no time to read: beyond `value`, every `every`-th has a record."""

    cursor = CountCursor("seq")

    def __init__(self, config: Mapping[str, Json]) -> None:
        self.customers, self.every, self.value = int(config["customers"]), int(config["every"]), int(config["value"])

    def json_schema(self) -> JsonSchema:
        return {"type": "object", "properties": {"customer": {"type": "string"}, "seq": {"type": "integer"}}}

    def partitions(self) -> Iterable[Partition]:
        return (Partition.of(customer=f"c{n:07}") for n in range(self.customers))

    def read_records(self, slice: Slice) -> Iterator[Item]:
        customer = slice.partition["customer"]
        if int(customer[1:]) % self.every == 0:
            yield {"customer": customer, "seq": self.value}


class ScaleSource(Source):
    """The one of those streams that the config is for."""

    name = "scale"

    def streams(self, config: Mapping[str, Json]) -> Sequence[Stream]:
        if "customers" in config:
            return [Customers(config)]
        return [Uneven(config) if "every" in config else Busy(config)]
