"""The pages of a slice, as a task reads them: none where the stream is followed and its source has not changed."""

from collections.abc import Iterator

from cdk.base.errors import ConfigError, FatalError
from cdk.base.logs import logger
from cdk.declarative.reading.manifest_stream import ManifestStream
from cdk.engine.boundary_dedup import remembering
from cdk.rest.conditional_requests import NotModified, asking, travelling
from cdk.rest.http_stream import HttpStream
from cdk.state.position import Checkpoint, Done
from cdk.state.slice import Slice
from cdk.state.source_state import HttpSnapshot
from cdk.streams.read_slice import ReadPage
from cdk.streams.stream import Stream
from cdk.sync.tasks.messages import Progress, Target


def to_follow(stream: Stream, where: str) -> Stream:
    """The stream as tasks can follow it. where: the setting that asks for it, for errors.

    Raises ConfigError: its requests cannot be made conditional.
    """
    if isinstance(stream, ManifestStream):
        return stream
    if not isinstance(stream, HttpStream):
        raise ConfigError(
            f"{where}: found a {type(stream).__name__}, expected an HttpStream or a stream of a manifest, "
            "whose requests go through the kit; leave it out"
        )
    if stream.http_method != "GET":
        raise ConfigError(
            f"{where}: the stream sends {stream.http_method}; only a GET can be conditional. Leave it out"
        )
    return travelling(stream)


def pages_of(target: Target, slice: Slice, progress: Progress) -> Iterator[ReadPage]:
    """The pages of a slice, less what is remembered. progress: told what a followed source said, once all was read.

    Raises FatalError: the stream is followed, and a slice is more than one page. Raises what reading raises.
    """
    if target.source is None:
        return remembering(target.stream, slice)
    return _conditional(target.stream, slice, target.source, progress)


def _conditional(stream: Stream, slice: Slice, known: HttpSnapshot, progress: Progress) -> Iterator[ReadPage]:
    with asking(known) as asked:
        try:
            for page in remembering(stream, slice):
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
    if asked.request is None:
        raise FatalError(
            "a followed stream sends a GET for a slice, and this one sent none, so nothing is known of its source; "
            "leave follow_source out",
            stream=stream.name,
        )
    progress.asked = asked
