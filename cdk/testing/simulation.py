"""simulated: a block of a test in which a transport replaces the network, and time passes only in waits."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from threading import Lock
from typing import Self

from cdk.base.times.clock import assume_utc, simulated_time, system_clock
from cdk.rest import Transport
from cdk.rest.http.transport import simulated_network


class MockClock:
    """A clock that stands still except for waits, which return at once and advance it by their length.

    waits: the seconds of each wait, in order. Safe to use from several threads.
    """

    def __init__(self, now: datetime | str | None = None) -> None:
        """now: the initial time, a datetime or ISO 8601 string, in UTC if it has no zone. Default: the present."""
        timestamp = datetime.fromisoformat(now) if isinstance(now, str) else now or system_clock()
        self._now = assume_utc(timestamp)
        self._moving = Lock()
        self.waits: list[float] = []

    def __call__(self) -> datetime:
        return self._now

    def restarted(self) -> Self:
        """Return a clock of the same kind that starts at the current time of this one."""
        return type(self)(self._now)

    def sleep(self, seconds: float) -> None:
        """Advance the clock by `seconds` without waiting."""
        with self._moving:
            self._now += timedelta(seconds=seconds)
            self.waits.append(seconds)


class FixedClock(MockClock):
    """A clock that stands still, also in waits, so that all requests with the current time are the same."""

    def sleep(self, seconds: float) -> None:
        """Return at once."""
        self.waits.append(seconds)


@contextmanager
def simulated(transport: Transport | None = None, clock: MockClock | None = None) -> Iterator[None]:
    """Replace the network and the time for everything that runs in this process inside the block.

    transport: answers every request of the kit, including those of authenticators; None leaves the current one. clock:
    None means a new MockClock if there is a transport, so that no test waits, or else the current clock.
    """
    with ExitStack() as stack:
        if transport is not None:
            stack.enter_context(simulated_network(transport))
        if clock is not None or transport is not None:
            stack.enter_context(simulated_time(clock or MockClock()))
        yield
