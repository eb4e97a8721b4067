"""Reading ahead: sends the requests of the next pages of a slice while the current page is read.

If an executor has a thread that no slice needs, a slice can use it to send the request of a later page. The outcome,
including an error, takes effect when that page is read; for pages beyond the last one, it is discarded. A request that
must not be sent yet, or any more, is left to the reading of its page.
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
"""One request is sent ahead per so many pages read, so at most a quarter is wasted beyond the last page."""
_MISSES = 3
"""How many pages may need another request than the one sent ahead (it contains the time, or skips a page)."""


class IdleThreads(Protocol):
    """The threads of an executor, as its slices see them. Thread-safe."""

    def has_idle(self) -> bool:
        """Whether there is a thread that no slice needs at the moment."""

    def submit(self, call: Callable[[], None], /) -> bool:
        """Run a call on an idle thread; False if there is none."""

    def release(self) -> None:
        """Called when the response of a submitted request is used for its page, or discarded."""


class _Later(Generic[T]):
    """A request that was sent ahead. seconds: its duration. unsent: it could not be sent yet; its response is None."""

    def __init__(self, token: Stored, request: object) -> None:
        self.token, self.request, self.seconds, self.unsent = token, request, 0.0, False
        self.response: Future[T | None] = Future()

    def run(self, send: Callable[[], T]) -> None:
        """Send the request, unless it was cancelled."""
        if not self.response.set_running_or_notify_cancel():
            return
        began, response, failure = time.monotonic(), None, None
        try:
            response = send()
        except (Exception, Stopped) as error:  # noqa: BLE001 - raised where its page is read
            failure = error
        except BaseException:  # noqa: BLE001 - no budget or no token at the moment: left to the page, if it is read
            self.unsent = True
        self.seconds = time.monotonic() - began
        if failure is None:
            self.response.set_result(response)
        else:
            self.response.set_exception(failure)


class ReadAhead(Generic[T]):
    """The requests that one slice has sent ahead, the next page first. Used by the thread that reads the slice."""

    def __init__(self, threads: IdleThreads) -> None:
        self._threads = threads
        self._later: deque[_Later[T]] = deque()
        self._extra, self._misses, self._ended = 0.0, 0, False
        self._pages = 1  # the first, before which nothing is known

    @property
    def more(self) -> bool:
        """Whether the request of another page may be sent."""
        within = len(self._later) < self._pages // _PAGES_EACH
        return within and not self._ended and self._misses < _MISSES and self._threads.has_idle()

    @property
    def pending(self) -> bool:
        """Whether a request was sent for a page that has not been read. Thread-safe."""
        return bool(self._later)

    def last(self, token: Stored) -> Stored:
        """The token of the last page that was requested; `token`, that of the page being read, if none was."""
        while self._later and self._later[-1].unsent:
            self._drop(self._later.pop())
        return self._later[-1].token if self._later else token

    def start(self, token: Stored, request: object, send: Callable[[], T]) -> bool:
        """Send the request of another page; False if no thread is idle any more."""
        later: _Later[T] = _Later(token, request)
        if not self._threads.submit(partial(copy_context().run, later.run, send)):
            return False
        self._later.append(later)
        return True

    def end(self) -> bool:
        """Send no further requests. Returns whether reading can stop at this page without wasting a sent request.

        Thread-safe.
        """
        self._ended = True
        return not self._later or self._later[0].unsent

    def response_to(self, request: object) -> Callable[[], T | None]:
        """A function that waits for the response to a request that was sent ahead, and raises its error.

        It returns None if the request was not sent. Call this for each page except the first.
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
        """By how many seconds the requests of the pages since the last call took longer than the waits for them."""
        extra, self._extra = self._extra, 0.0
        return extra

    def close(self) -> None:
        """Drop the responses that were not read."""
        while self._later:
            self._drop(self._later.popleft())

    def _drop(self, later: _Later[T]) -> None:
        later.response.cancel()
        # A request in flight occupies its thread until the response arrives.
        later.response.add_done_callback(lambda _: self._threads.release())


_current: ContextVar[ReadAhead[object] | None] = ContextVar("read_ahead", default=None)


def current_read_ahead() -> ReadAhead[object] | None:
    """The requests sent ahead by the slice being read in this context; None if it must not send any."""
    return _current.get()


def reading_ahead(ahead: ReadAhead[object]) -> None:
    """Allow the slice being read in this context to send requests ahead."""
    _current.set(ahead)
