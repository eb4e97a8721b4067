"""Preview: a stream page by page, with what was sent for each page and what was made of the response."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from cdk.base.logs import warnings_in
from cdk.base.run import one_run
from cdk.base.values import JsonValue, Record
from cdk.rest import Request, Response
from cdk.rest.pagination.last_page import looking_behind
from cdk.rest.tracing import Exchange, PageNote, Trace, tracing
from cdk.state.slice import Slice
from cdk.state.stream_state import StreamState
from cdk.streams.read_slice import ReadPage, read_slice
from cdk.streams.stream import Stream


@dataclass(frozen=True, slots=True)
class PreviewPage:
    """A page of a slice. Its exchanges hold secrets: `cdk.authoring.exchanges` has them as people may see them.

    slice: as the log calls it. planning: what was sent to find the slice, such as for parents; of its first page alone.
    exchanges: what was sent for the page, further attempts and logins included. records: those that the stream gives.
    note: what was made of the response; None where a stream does not say. next: where a read that is interrupted
    behind this page resumes; None where it cannot. error: why the read ends here.
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
        """The exchange that brought the page; what came after it looked for rows behind the last page."""
        request = None if self.note is None else self.note.request
        brought = (each for each in reversed(self.exchanges) if _answers(each, request))
        return next(brought, self.exchanges[-1] if self.exchanges else None)


def _answers(exchange: Exchange, request: Request | None) -> bool:
    return isinstance(exchange.outcome, Response) and exchange.outcome.request is request


def preview_pages(stream: Stream, state: StreamState) -> Generator[PreviewPage]:
    """The pages of `stream` from `state` on, one slice after the other; each is requested when it is asked for.

    Raises nothing for what fails: the last page then has an error. Close it when not reading to the end.
    """
    warnings: list[str] = []
    with one_run(), tracing() as trace, looking_behind(), warnings_in(warnings, logged=False):
        where, planning, empty = str(Slice()), Trace(), True
        try:
            reader = stream.checkpoint_reader(state)
            while (slice := reader.next()) is not None:
                where, planning, empty = str(slice), trace.drain(), False
                for page in read_slice(stream, slice):
                    if page.position is not None:
                        reader.observe(slice, page.position, page.edge)
                    taken = trace.drain()
                    # The end of a slice that has said all before.
                    if page.records or taken.exchanges or page.warning or planning.exchanges:
                        yield _page(slice, page, planning, taken, warnings)
                    planning = Trace()
            if empty:
                warnings.append(f"{stream.name}: {_NO_SLICE}")
            if warnings:
                yield PreviewPage(where, trace.drain().exchanges, warning="; ".join(warnings))
        except Exception as error:  # noqa: BLE001 - a connector's own code, which an author wants to see fail
            yield PreviewPage(where, planning.exchanges, trace.drain().exchanges, error=error)


_NO_SLICE = "there is nothing to read: its parents or lists bring no partition, or its state covers all"


def _page(slice: Slice, page: ReadPage, planning: Trace, taken: Trace, warnings: list[str]) -> PreviewPage:
    """A page, with the warnings since the one before, which are emptied."""
    warning = "; ".join(filter(None, [*warnings, page.warning or page.doubt]))
    warnings.clear()
    position = page.position
    following = None if position is None or position.token is None else dict(position.token)
    return PreviewPage(str(slice), planning.exchanges, taken.exchanges, page.records, taken.page, following, warning)
