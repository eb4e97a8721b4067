"""Preview: reads a stream page by page, with the requests for each page and what the stream made of the response."""

from collections.abc import Generator, Sequence

from msgspec import Struct

from cdk.base.logs import warnings_in
from cdk.base.run import one_run
from cdk.base.values import JsonValue, Record
from cdk.rest import Response
from cdk.rest.pagination.last_page import checking_pages_after_end
from cdk.rest.tracing import Exchange, PageNote, Trace, tracing
from cdk.state.slice import Slice
from cdk.state.stream_state import StreamState
from cdk.streams.page import ReadPage
from cdk.streams.read_slice import read_slice
from cdk.streams.stream import Stream


class PreviewPage(Struct, frozen=True):
    """A page of a slice. Its exchanges contain secrets: `cdk.authoring.exchanges` prepares them for display.

    slice: its name in the log. planning: requests sent to find the slice, such as for parents; only on its first page.
    exchanges: requests for the page, including retries and logins. records: those that the stream yields. note: what
    the stream made of the response; None if it does not say. next: where a read interrupted after this page resumes;
    None if it cannot. error: why the read ends here.
    """

    slice: str
    planning: Sequence[Exchange] = ()
    exchanges: Sequence[Exchange] = ()
    records: Sequence[Record] = ()
    note: PageNote | None = None
    next: JsonValue = None
    warning: str = ""
    error: Exception | None = None

    @property
    def answer(self) -> Exchange | None:
        """The exchange that returned the page; later ones looked for records after the last page."""
        request = None if self.note is None else self.note.request
        for each in reversed(self.exchanges):
            if isinstance(each.outcome, Response) and each.outcome.request is request:
                return each
        return self.exchanges[-1] if self.exchanges else None


def preview_pages(stream: Stream, state: StreamState) -> Generator[PreviewPage]:
    """Yield the pages of `stream` from `state` on, slice by slice; each page is requested when the caller asks for it.

    Does not raise when a read fails: the last page has the error instead. Close the generator if not reading to the
    end.
    """
    warnings: list[str] = []
    with one_run(), tracing() as trace, checking_pages_after_end(), warnings_in(warnings, logged=False):
        where, planning, empty = str(Slice()), Trace(), True
        try:
            reader = stream.checkpoint_reader(state)
            while (slice := reader.next()) is not None:
                where, planning, empty = str(slice), trace.drain(), False
                for page in read_slice(stream, slice):
                    if page.position is not None:
                        reader.observe(slice, page.position, page.edge)
                    taken = trace.drain()
                    # Otherwise, it is the end of a slice, with nothing new to show.
                    if page.records or taken.exchanges or page.warning or planning.exchanges:
                        yield _page(slice, page, planning, taken, warnings)
                    planning = Trace()
            if empty:
                warnings.append(f"{stream.name}: {_NO_SLICE}")
            if warnings:
                yield PreviewPage(where, trace.drain().exchanges, warning="; ".join(warnings))
        except Exception as error:  # noqa: BLE001 - a connector's own code, which an author wants to see fail
            yield PreviewPage(where, planning.exchanges, trace.drain().exchanges, error=error)


_NO_SLICE = "there is nothing to read: its parents or lists return no partition, or its state covers everything"


def _page(slice: Slice, page: ReadPage, planning: Trace, taken: Trace, warnings: list[str]) -> PreviewPage:
    """Return a page with the warnings since the previous one, and clear these."""
    warning = "; ".join(filter(None, [*warnings, page.warning or page.doubt]))
    warnings.clear()
    position = page.position
    following = None if position is None or position.token is None else dict(position.token)
    return PreviewPage(str(slice), planning.exchanges, taken.exchanges, page.records, taken.page, following, warning)
