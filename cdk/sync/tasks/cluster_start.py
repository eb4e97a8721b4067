"""ClusterStart: workers that start in a thread of their own, while a sync reads without them."""

import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Generic, TypeVar

from cdk.base.logs import logger

W = TypeVar("W")

_PATIENCE = 2.0
"""Seconds that a start has to end once it is cancelled."""


class ClusterStart(Generic[W]):
    """A cluster that may join a sync. Belongs to the driver's thread."""

    def __init__(self, start: Callable[[], W], end: Callable[[], None] = lambda: None) -> None:
        """start: starts workers, in a thread of its own. end: makes a start that still goes on fail, from any thread.

        A start that has ended by then is left alone.
        """
        self._start, self._end = start, end
        self.started = False
        """Whether it was started, however that ends."""
        self.starting = False
        """Whether it was started, and has neither joined nor failed yet."""
        self._over = threading.Event()
        self._workers: W | None = None
        self._error: Exception | None = None

    def begin(self) -> None:
        """Start the workers in a thread of their own; returns at once."""
        self.started = self.starting = True
        # No process waits for a cluster that is not needed any more.
        run = partial(copy_context().run, self._run)
        threading.Thread(target=run, name="cluster-start", daemon=True).start()  # noqa: TID251 - see above

    def _run(self) -> None:
        try:
            self._workers = self._start()
        except Exception as error:  # noqa: BLE001 - the driver's thread looks at it
            self._error = error
        finally:
            self._over.set()

    def joined(self) -> W | None:
        """The workers, as soon as they are ready. A start that fails is a warning: the sync goes on without them."""
        if not self.starting or not self._over.is_set():
            return None
        self.starting = False
        if self._error is not None:
            logger.warning("all is read in this process, for no cluster joins: %s", self._error)
        return self._workers

    def leave(self) -> None:
        """Wait for nothing: a start that still goes on ends, or does so with the process."""
        if self.starting:
            self._end()
            self._over.wait(_PATIENCE)
            self.starting = False
