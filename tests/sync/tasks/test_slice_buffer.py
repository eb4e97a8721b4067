"""Rows of a slice that come as text and as objects, in pages of any size, some of them before they are safe."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk import Checkpoint, Json, JsonSchema, Page, Slice, Stream
from cdk.base.records.raw_json_lines import JsonLines
from cdk.base.values import Record
from cdk.lake.arrow.columns import RAW_ID, columns
from cdk.lake.parquet.writer import Limits
from cdk.state.slice import Partition
from cdk.streams.page import Item
from cdk.sync.tasks.bundle_task import read_bundle
from cdk.sync.tasks.messages import BundleJob, SliceTask, WriteTarget

# Pages of a slice: (text or objects, whether a position follows, ids; an odd one has a value that does not fit).
PAGES = st.lists(st.tuples(st.booleans(), st.booleans(), st.lists(st.booleans(), min_size=1, max_size=4)), max_size=6)


class Paged(Stream):
    supports_checkpointing = True

    def __init__(self, slices: Sequence[Sequence[tuple[bool, bool, list[bool]]]]) -> None:
        super().__init__()
        self.pages = slices

    def json_schema(self) -> JsonSchema:
        return {"properties": {name: {"type": "integer"} for name in ("slice", "id", "value")}}

    def read_records(self, slice: Slice) -> Iterator[Item]:
        part, number = slice.partition["part"], 0
        for text, safe, fits in self.pages[part]:
            records: list[dict[str, Json]] = []
            for fit in fits:
                records.append({"slice": part, "id": number, "value": 1 if fit else "odd"})
                number += 1
            lines = JsonLines(b"\n".join(map(orjson.dumps, records)), len(records))
            page: Sequence[Record] = lines if text else records
            yield Page(page, {"page": number} if safe else None)
        yield Checkpoint({"page": number})


@given(st.lists(PAGES, min_size=1, max_size=3), st.sampled_from([1, 3, 1000]), st.sampled_from([1, 200, 2**20]))
@settings(max_examples=80, deadline=None)
def test_every_row_lands_once_in_order_and_counts_for_its_slice(
    tmp_path_factory: pytest.TempPathFactory,
    slices: list[list[tuple[bool, bool, list[bool]]]],
    gathered: int,
    held: int,
) -> None:
    root, stream = tmp_path_factory.mktemp("table"), Paged(slices)
    target = WriteTarget(stream, root, columns(stream.json_schema()), 1)
    pieces = [SliceTask(n, 0, Slice(Partition.of(part=n))) for n in range(len(slices))]

    limits = Limits(gathered=gathered, held_bytes=held)
    result = read_bundle(BundleJob({0: target}, 100, 1, limits=limits), pieces)

    rows = written(root, [file.path for file in result.files.get(0, [])])
    for n, pages in enumerate(slices):
        fits = [fit for _, _, records in pages for fit in records]
        assert [row["id"] for row in rows if row["slice"] == n] == list(range(len(fits)))
        progress = result.progress[n]
        assert (progress.rows, progress.rejected) == (len(fits), fits.count(False))


def written(root: Path, files: Sequence[str]) -> list[dict[str, Json]]:
    """The rows in the order they were made."""
    rows = [row for file in files for row in pq.read_table(root / file).to_pylist()]
    return sorted(rows, key=lambda row: str(row[RAW_ID]))
