"""Trace: requests, what came of each, and what was made of the responses, for an author who looks on.

The author's tool reads in a block of `tracing`; in all other reads nothing is noted, and nothing retained.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter
from typing import NamedTuple

from cdk.base.errors import CdkError
from cdk.base.run import setting
from cdk.base.values import JsonValue
from cdk.rest.http.messages import Request, Response


class Exchange(NamedTuple):
    """A request as it was sent, credentials included, and its response, or the error in place of one."""

    request: Request
    outcome: Response | CdkError
    seconds: float


class PageNote(NamedTuple):
    """What was made of a response.

    path: where its records lie; None where that is not known. extracted: how many it held. selected: those that
    filters have left of them. following: the token of the next page; None at the end. why: what tells so, in words.
    request: the one that it answers; None: several, or none that is known.
    """

    path: Sequence[str] | None
    extracted: int
    selected: int
    following: JsonValue
    why: str
    request: Request | None = None


@dataclass
class Trace:
    """What was noted since it was last drained, in order. Threads may add to it at once."""

    exchanges: list[Exchange] = field(default_factory=list)
    page: PageNote | None = None
    why: str = ""

    def send(self, send: Callable[[Request], Response], request: Request) -> Response:
        """The response that `send` gives, noted. Raises what it raises, noted as well."""
        started = perf_counter()
        try:
            response = send(request)
        except CdkError as error:
            self.exchanges.append(Exchange(request, error, perf_counter() - started))
            raise
        self.exchanges.append(Exchange(request, response, perf_counter() - started))
        return response

    def note(
        self,
        path: Sequence[str] | None,
        extracted: int,
        selected: int,
        following: JsonValue,
        why: str = "",
        *,
        request: Request | None = None,
    ) -> None:
        """Note what was made of a response, see `PageNote`. why: where `explain_next` was not called for it."""
        self.page = PageNote(path, extracted, selected, following, self.why or why, request)
        self.why = ""

    def drain(self) -> "Trace":
        """What was noted; from now on it is noted anew."""
        taken = Trace(self.exchanges, self.page, self.why)
        self.exchanges, self.page, self.why = [], None, ""
        return taken


TRACE: ContextVar[Trace | None] = ContextVar("trace", default=None)
"""Where it is noted; None where no tool looks on, which is all that a read then has to find out."""


def tracing() -> AbstractContextManager[Trace]:
    """Note what is read in a block, and in threads that the executors start in it."""
    return setting(TRACE, Trace())


def explain_next(text: str, *values: object) -> None:
    """Say what tells that there is a next page, or none, as `text % values`; called by paginators."""
    if (trace := TRACE.get()) is not None:
        trace.why = text % values if values else text
