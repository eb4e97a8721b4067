"""The schema that the first records of a stream show, beside what it declares."""

from collections.abc import Iterator, Mapping, Sequence

import pytest

from cdk import Item, Json, JsonSchema, Page, PagedStream, Record, Slice
from cdk.engine.first_pages import PAGES, RECORDS, schema_with_inferred_fields


class Shown(PagedStream):
    """Pages that are given; asked counts them."""

    def __init__(self, pages: Sequence[Sequence[Record]], **declared: Json) -> None:
        super().__init__()
        self.pages, self.declared, self.asked = pages, declared, 0

    def json_schema(self) -> JsonSchema:
        return {"type": "object", "title": "shown", "properties": self.declared}

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        del slice
        n = token["n"] if token else 0
        self.asked += 1
        return Page(self.pages[n], {"n": n + 1} if n + 1 < len(self.pages) else None)


def test_what_is_declared_stays_and_what_is_not_gets_the_type_of_its_values() -> None:
    stream = Shown([[{"id": "a", "x": 1, "n": None}], [{"x": 0.5, "o": {"a": 1}}], [{"m": 1}, {"m": "a"}]], id={})

    assert schema_with_inferred_fields(stream) == {
        "type": "object",
        "title": "shown",
        "properties": {
            "id": {},
            "x": {"type": ["null", "number"]},
            "o": {"type": ["null", "object"]},
            "m": {"type": ["null", "integer", "string"]},
        },
    }


@pytest.mark.parametrize(
    ("pages", "asked"),
    [
        ([[{"a": 1}]] * 9, PAGES),
        ([[], [], *[[{"a": 1}]] * 9], PAGES + 2),
        ([[{"a": n} for n in range(RECORDS)], [{"b": 1}]], 1),
        ([[]], 1),
    ],
)
def test_no_more_than_the_first_pages_are_read(pages: Sequence[Sequence[Record]], asked: int) -> None:
    stream = Shown(pages)

    schema_with_inferred_fields(stream)

    assert stream.asked == asked


class Plain(PagedStream):
    """A stream that declares nothing."""

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        del slice, token
        return Page([{"big": 2**70}], None)

    def read_records(self, slice: Slice) -> Iterator[Item]:
        yield from self.read_page(slice, None).records


def test_a_stream_without_a_schema_gets_one() -> None:
    assert schema_with_inferred_fields(Plain())["properties"] == {"big": {"type": ["null", "number", "string"]}}
