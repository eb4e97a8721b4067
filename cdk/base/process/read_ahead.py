"""Reading ahead: the requests of the next pages of a slice, beside that of the page that is read.

Where an executor has a thread that no slice needs, a slice can have it send the request of a page that it is about to
read. What comes of it, an error included, counts once that page is read. Of pages behind the last one nothing does. A
request that may not be sent yet, or no more, is left to the page itself.
"""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Generic, Protocol, TypeVar

from cdk.base.times.clock import Stopped
from cdk.base.values import Stored

T = TypeVar("T")

_PAGES_EACH = 4
"""Pages that are read for each request that is sent ahead: so a quarter is wasted behind the last page, no more."""
_MISSES = 3
"""How often another request than those that were sent may turn out to be due: a time of day in it, or a step of two."""


class IdleThreads(Protocol):
    """The threads of an executor, as its slices see them. For any thread."""

    def has_idle(self) -> bool:
        """Whether there is one that no slice needs, for now."""

    def submit(self, call: Callable[[], None], /) -> bool:
        """Have one run a call; False: there is none to spare."""

    def release(self) -> None:
        """The request of a call is that of the page which is read, or has come to nothing."""


class _Later(Generic[T]):
    """A request that was sent ahead. seconds: how long it took. unsent: it could not be yet; its response is None."""

    def __init__(self, token: Stored, request: object) -> None:
        self.token, self.request, self.seconds, self.unsent = token, request, 0.0, False
        self.response: Future[T | None] = Future()

    def run(self, send: Callable[[], T]) -> None:
        """Send it, unless the response is no longer wanted."""
        if not self.response.set_running_or_notify_cancel():
            return
        began, response, failure = time.monotonic(), None, None
        try:
            response = send()
        except (Exception, Stopped) as error:  # noqa: BLE001 - raised where its page is read
            failure = error
        except BaseException:  # noqa: BLE001 - no turn now, or no token: the page meets it by itself, if it is read
            self.unsent = True
        self.seconds = time.monotonic() - began
        if failure is None:
            self.response.set_result(response)
        else:
            self.response.set_exception(failure)


class ReadAhead(Generic[T]):
    """The requests that one slice has sent ahead, the next page first. Belongs to the thread that reads the slice."""

    def __init__(self, threads: IdleThreads) -> None:
        self._threads = threads
        self._later: deque[_Later[T]] = deque()
        self._extra, self._misses, self._ended = 0.0, 0, False
        self._pages = 1  # the first, before which nothing is known

    @property
    def more(self) -> bool:
        """Whether the request of a further page can be sent."""
        within = len(self._later) < self._pages // _PAGES_EACH
        return within and not self._ended and self._misses < _MISSES and self._threads.has_idle()

    @property
    def pending(self) -> bool:
        """Whether a request was sent for a page that was not read; for any thread."""
        return bool(self._later)

    def last(self, token: Stored) -> Stored:
        """The token of the last page that was requested; `token`: that of the page being read, there is no other."""
        while self._later and self._later[-1].unsent:
            self._drop(self._later.pop())
        return self._later[-1].token if self._later else token

    def start(self, token: Stored, request: object, send: Callable[[], T]) -> bool:
        """Have the request of a further page sent; False: no thread is to spare any more."""
        later: _Later[T] = _Later(token, request)
        if not self._threads.submit(partial(copy_context().run, later.run, send)):
            return False
        self._later.append(later)
        return True

    def end(self) -> bool:
        """Send no more; for any thread. Whether nothing that was sent is lost where reading stops at this page."""
        self._ended = True
        return not self._later or self._later[0].unsent

    def response_to(self, request: object) -> Callable[[], T | None]:
        """What waits for the response to a request that was sent ahead, and raises its error; None: it was not.

        To be called for each page that is read, but the first.
        """
        self._pages += 1
        self._misses += bool(self._later) and self._later[0].request != request
        while self._later:
            later = self._later.popleft()
            if later.request == request:
                self._threads.release()
                return partial(self._wait, later)
            self._drop(later)
        return lambda: None

    def _wait(self, later: _Later[T]) -> T | None:
        began = time.monotonic()
        try:
            return later.response.result()
        finally:
            self._extra += later.seconds - (time.monotonic() - began)

    def extra_seconds(self) -> float:
        """How much longer the pages since the last call took than was waited for them."""
        extra, self._extra = self._extra, 0.0
        return extra

    def close(self) -> None:
        """Drop the responses that were not read."""
        while self._later:
            self._drop(self._later.popleft())

    def _drop(self, later: _Later[T]) -> None:
        later.response.cancel()
        # A request that was sent takes its thread until it is answered.
        later.response.add_done_callback(lambda _: self._threads.release())


_current: ContextVar[ReadAhead[object] | None] = ContextVar("read_ahead", default=None)


def current_read_ahead() -> ReadAhead[object] | None:
    """What the slice that is read here has sent ahead; None where nothing is to be."""
    return _current.get()


def reading_ahead(ahead: ReadAhead[object]) -> None:
    """Let the slice that is read in this context send requests ahead."""
    _current.set(ahead)
