"""simulated: a block of a test in which the network is an API of its own, and time passes only where a thread waits."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from threading import Lock

from cdk.base.times.clock import simulated_time, system_clock
from cdk.rest import Transport
from cdk.rest.http.transport import simulated_network


class MockClock:
    """A clock that stands still but for waits, which take no time: the end of a wait is there at once.

    waits: the seconds of each wait, in order. Safe to use from several threads.
    """

    def __init__(self, now: datetime | str | None = None) -> None:
        """now: the first moment, or its ISO 8601 text, in UTC without a zone. Default: the present."""
        moment = datetime.fromisoformat(now) if isinstance(now, str) else now or system_clock()
        self._now = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        self._moving = Lock()
        self.waits: list[float] = []

    def __call__(self) -> datetime:
        return self._now

    def sleep(self, seconds: float) -> None:
        """Let so much time pass."""
        with self._moving:
            self._now += timedelta(seconds=seconds)
            self.waits.append(seconds)


@contextmanager
def simulated(transport: Transport | None = None, clock: MockClock | None = None) -> Iterator[None]:
    """Let all that runs in this process meanwhile, whatever reads it, have this network and this time.

    transport: answers every request of the kit, also those of authenticators; None: what does so already. clock: None:
    a new one where there is a transport, so that no test waits; else what is the time already.
    """
    with ExitStack() as stack:
        if transport is not None:
            stack.enter_context(simulated_network(transport))
        if clock is not None or transport is not None:
            stack.enter_context(simulated_time(clock or MockClock()))
        yield
