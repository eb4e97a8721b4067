"""The pages of a slice, as a task reads them: none where the stream is followed and its source has not changed."""

from collections.abc import Iterator

from cdk.base.errors import FatalError
from cdk.base.logs import logger
from cdk.engine.boundary_dedup import read_without_boundary_duplicates
from cdk.rest.conditional_requests import NotModified, conditional_reads
from cdk.state.position import Checkpoint, Done
from cdk.state.slice import Slice
from cdk.state.source_state.http_validators import HttpSnapshot
from cdk.streams.read_slice import ReadPage
from cdk.streams.stream import Stream
from cdk.sync.tasks.messages import SliceResult, WriteTarget


def read_pages_conditionally(target: WriteTarget, slice: Slice, progress: SliceResult) -> Iterator[ReadPage]:
    """The pages of a slice, less what is remembered. progress: told what a followed source said, once all was read.

    Raises FatalError: the stream is followed, and a slice is more than one page. Raises what reading raises.
    """
    if target.source is None:
        return read_without_boundary_duplicates(target.stream, slice)
    return _conditional(target.stream, slice, target.source, progress)


def _conditional(stream: Stream, slice: Slice, known: HttpSnapshot, progress: SliceResult) -> Iterator[ReadPage]:
    with conditional_reads(known) as result:
        try:
            for page in read_without_boundary_duplicates(stream, slice):
                if isinstance(page.position, Checkpoint):
                    raise FatalError(
                        "a followed stream has one page for a slice, and this one has a next: that the first page has "
                        "not changed says nothing about the others; read it without `follow_source`, or by a cursor",
                        stream=stream.name,
                    )
                yield page
        except NotModified as same:
            logger.info("%s: nothing new, %s", stream.name, same)
            yield ReadPage((), Done())
    if result.request is None:
        raise FatalError(
            "a followed stream sends a GET for a slice, and this one sent none, so nothing is known of its source; "
            "leave follow_source out",
            stream=stream.name,
        )
    progress.conditional = result
