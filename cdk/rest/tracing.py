"""Trace: records requests, their outcomes and how responses were interpreted, for the connector's author to inspect.

The author's tool reads inside a `tracing` block. All other reads record and retain nothing.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from time import perf_counter

from msgspec import Struct, field
from msgspec.structs import replace

from cdk.base.errors import CdkError
from cdk.base.run import setting
from cdk.base.values import JsonValue
from cdk.rest.http.messages import Request, Response


class Exchange(Struct, frozen=True):
    """A request as it was sent, including credentials, its response or the error instead, and the time it took."""

    request: Request
    outcome: Response | CdkError
    seconds: float


class PageNote(Struct, frozen=True):
    """How a response was interpreted.

    path: of its records; None if unknown. extracted: how many records it has. selected: how many of them remain after
    filters. following: the token of the next page; None at the end. why: the reason for `following`, as text.
    request: the request of the response; None if there were several or it is unknown.
    """

    path: Sequence[str] | None
    extracted: int
    selected: int
    following: JsonValue
    why: str = ""
    request: Request | None = None


class Trace(Struct):
    """What was recorded since the last `drain`, in order. Several threads may add to it."""

    exchanges: list[Exchange] = field(default_factory=list)
    page: PageNote | None = None
    why: str = ""

    def send(self, send: Callable[[Request], Response], request: Request) -> Response:
        """Call `send`, record the exchange, and return the response. Records errors of `send` and raises them again."""
        started = perf_counter()
        try:
            response = send(request)
        except CdkError as error:
            self.exchanges.append(Exchange(request, error, perf_counter() - started))
            raise
        self.exchanges.append(Exchange(request, response, perf_counter() - started))
        return response

    def note(self, page: PageNote) -> None:
        """Record how a response was interpreted. Its `why` is used unless `explain_next` gave a reason."""
        self.page, self.why = replace(page, why=self.why or page.why), ""

    def drain(self) -> "Trace":
        """Return what was recorded, and start over."""
        taken = Trace(self.exchanges, self.page, self.why)
        self.exchanges, self.page, self.why = [], None, ""
        return taken


TRACE: ContextVar[Trace | None] = ContextVar("trace", default=None)
"""The trace of this read; None outside of a `tracing` block, which is all that other reads have to check."""


def tracing() -> AbstractContextManager[Trace]:
    """Record what is read in a block, and in threads that executors start in it."""
    return setting(TRACE, Trace())


def explain_next(text: str, *values: object) -> None:
    """Record why there is a next page, or none, as `text % values`. Paginators call it."""
    if (trace := TRACE.get()) is not None:
        trace.why = text % values if values else text
