"""Connectors of a few rows: one that is right, and many that lose or repeat rows once they are killed.

Each stream has three pages of two rows, read by a token or by a cursor.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import random
from typing import ClassVar

from cdk import Checkpoint, Item, JsonSchema, Page, PagedStream, Partition, Slice, Source, Stream
from cdk.rest import Token

PAGES = [[{"id": 2 * page + n, "at": page} for n in range(2)] for page in range(3)]
ROWS = sum(map(len, PAGES))
SCHEMA: JsonSchema = {"type": "object", "properties": {"id": {"type": "integer"}, "at": {"type": "integer"}}}


class Paged(PagedStream):
    """Right: the token says which page is next."""

    schema = SCHEMA

    def read_page(self, slice: Slice, token: Token | None) -> Page:  # noqa: ARG002
        number = 0 if token is None else int(token["page"])
        return Page(PAGES[number], {"page": number + 1} if number + 1 < len(PAGES) else None)


class Checkpointed(Stream):
    """Right: a state after the records that it covers."""

    schema = SCHEMA
    cursor_field = "at"
    supports_checkpointing = True

    def read_records(self, slice: Slice) -> Iterator[Item]:
        after = (slice.start.cursor or {}).get("at", -1)
        for page in PAGES:
            if page[0]["at"] > after:
                yield from page
                yield Checkpoint({"at": page[0]["at"]})


class TokenIgnored(Paged):
    """Counts pages by itself, and begins with the first one in each process."""

    number = 0

    def read_page(self, slice: Slice, token: Token | None) -> Page:  # noqa: ARG002
        number, self.number = self.number, self.number + 1
        return super().read_page(slice, {"page": number})


class PageSizeLearned(Paged):
    """Asks for larger pages once it knows how many rows there are, which it only learns from the first page."""

    size = 3

    def read_page(self, slice: Slice, token: Token | None) -> Page:  # noqa: ARG002
        rows = [row for page in PAGES for row in page]
        if token is None:
            self.size = 2
        number = 0 if token is None else int(token["page"])
        begin, end = number * self.size, (number + 1) * self.size
        return Page(rows[begin:end], {"page": number + 1} if end < len(rows) else None)


class SeenRemembered(Paged):
    """Drops what overlapping pages repeat by a memory that no state has."""

    seen: ClassVar[set[int]] = set()

    def read_page(self, slice: Slice, token: Token | None) -> Page:
        page = super().read_page(slice, token)
        records, following = page.records, page.next
        before = PAGES[int(token["page"]) - 1] if token is not None else ()
        fresh = [record for record in (*before, *records) if record["id"] not in self.seen]
        self.seen.update(record["id"] for record in fresh)
        return Page(fresh, following)


class SideFile(Paged):
    """Keeps in a file how far it got."""

    def read_page(self, slice: Slice, token: Token | None) -> Page:  # noqa: ARG002
        file = Path(str(self.config["side_file"]))
        number = int(file.read_text()) if file.exists() else 0
        page = super().read_page(slice, {"page": number})
        if page.next is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(str(number + 1))
        return page


class StateFirst(Checkpointed):
    """Says a state before the records that it covers."""

    def read_records(self, slice: Slice) -> Iterator[Item]:
        after = (slice.start.cursor or {}).get("at", -1)
        for page in PAGES:
            if page[0]["at"] > after:
                yield Checkpoint({"at": page[0]["at"]})
                yield from page


class StateAhead(Checkpointed):
    """Says a state that is beyond the last record."""

    def read_records(self, slice: Slice) -> Iterator[Item]:
        for item in super().read_records(slice):
            yield Checkpoint({"at": len(PAGES)}) if isinstance(item, Checkpoint) else item


class StateBackwards(Checkpointed):
    """Says a state that goes back in the end of a whole read, so that the next one repeats rows."""

    def read_records(self, slice: Slice) -> Iterator[Item]:
        yield from super().read_records(slice)
        if slice.start.cursor is None:
            yield Checkpoint({"at": 0})


class Endless(Checkpointed):
    """Says the same state again and again, where it is interrupted after each."""

    def read_records(self, slice: Slice) -> Iterator[Item]:
        yield from super().read_records(slice)
        yield Checkpoint({"at": 0})


class NewestFirst(Checkpointed):
    """Says the greatest value when only the newest rows were read."""

    def read_records(self, slice: Slice) -> Iterator[Item]:
        after = (slice.start.cursor or {}).get("at", -1)
        for page in reversed(PAGES):
            if page[0]["at"] > after:
                yield from page
                yield Checkpoint({"at": len(PAGES) - 1})


class Chance(Paged):
    """Gives other rows each time."""

    def read_page(self, slice: Slice, token: Token | None) -> Page:
        page = super().read_page(slice, token)
        records, following = page.records, page.next
        return Page([{**record, "price": random()} for record in records], following)


class Turning(Paged):
    """Gives the rows other values with each read, such as those that others had before."""

    primary_key = "id"

    def read_page(self, slice: Slice, token: Token | None) -> Page:
        file = Path(f"{self.config['side_file']}-turns")
        turns = len(file.read_text()) if file.exists() else 0
        page = super().read_page(slice, token)
        records, following = page.records, page.next
        if following is None:
            file.write_text("." * (turns + 1))
        return Page([{**record, "at": (record["id"] + turns) % ROWS} for record in records], following)


class OnlyPages(Paged):
    """Reads one page of each part, and knows no reason why that is all."""

    def partitions(self) -> Sequence[Partition]:
        return [Partition({"part": part}) for part in range(2)]

    def read_page(self, slice: Slice, token: Token | None) -> Page:  # noqa: ARG002
        return Page(PAGES[slice.partition["part"]], None, doubt=lambda: "there may be more")


class SomePages(OnlyPages):
    """As above, but one of the parts has a second page."""

    def read_page(self, slice: Slice, token: Token | None) -> Page:
        page = super().read_page(slice, token)
        return page if token or slice.partition["part"] else Page(page.records, {"page": 2})


RIGHT = (Paged, Checkpointed)
BROKEN_BY_KILLS = (TokenIgnored, PageSizeLearned, SeenRemembered, SideFile)
BROKEN_ANYWAY = (StateFirst, StateAhead, StateBackwards, NewestFirst, Chance, Turning)


class BrokenByKills(Source):
    stream_classes: Sequence[type[Stream]] = BROKEN_BY_KILLS


class BrokenAnyway(Source):
    stream_classes: Sequence[type[Stream]] = (*RIGHT, *BROKEN_ANYWAY)


class Doubtful(Source):
    stream_classes: Sequence[type[Stream]] = (OnlyPages, SomePages)


class NeverEnding(Source):
    stream_classes: Sequence[type[Stream]] = (Endless,)
