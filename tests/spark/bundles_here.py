"""Bundles of a stream's run, read in this process, and what a whole read of a stream has."""

from collections import Counter
from collections.abc import Callable, Sequence

from cdk import Stream, StreamState
from cdk.base.values import canonical
from cdk.engine.read import read
from cdk.lake.parquet.writer import DataFile
from cdk.sync.loop.stream_sync import StreamSync
from cdk.sync.tasks.messages import BundleResult, SliceTask


def read_bundle_of(run: StreamSync, most: int, reads: Callable[[Sequence[SliceTask]], BundleResult]) -> list[DataFile]:
    """Plan up to `most` slices, have them read and tell the run; nothing is committed yet."""
    pieces = [SliceTask(n, 0, slice) for n, slice in zip(range(most), iter(run.next, None), strict=False)]
    result = reads(pieces) if pieces else BundleResult()
    (files,) = run.grow([result.grown.get(0, {})], [result.files.get(0, [])])
    assert files is not None
    progress = {item.number: item for item in result.progress}
    for piece in pieces:
        if piece.number in progress:
            run.add_result(piece.slice, progress[piece.number])
        else:
            run.untouched(piece.slice)
    return list(files)


def expected(stream: Stream) -> Counter[str]:
    """The records of the stream, each as often as it is read."""
    pages = [item for item in read(stream, StreamState()) if not isinstance(item, StreamState)]
    return Counter(canonical(record) for page in pages for record in page)
