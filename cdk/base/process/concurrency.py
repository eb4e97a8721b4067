"""Concurrency: adapts the number of slices that are read concurrently, the level, to what the API sustains.

It measures how long each thread takes from page to page, which gives the throughput of a level in pages per second, and
compares consecutive levels: a further thread is worthwhile if it adds at least a third of what an unimpeded thread
would. It needs no clock, and no prior knowledge of the API.

- Starting from 1, the level doubles while each doubling is worthwhile, after a round of one page per thread.
- Later it occasionally tries a quarter more or a quarter less. After a failed trial, the wait for the next one doubles.
- If pages take twice as long as before, it tries half the level.
- A complaint (a 429, a 5xx, a timeout, anything that makes a request wait and be repeated) halves the level, once for
  simultaneous complaints. The level that caused it is avoided for a while, twice as long each time.
- It does not grow while the process computes more than it waits: further threads would only compete for the CPU.
"""

from collections.abc import Callable
from contextvars import ContextVar

from msgspec import Struct

DEFAULT_CEILING = 10
"""The highest level unless the source or the run sets another limit: Airbyte's default, and what APIs that limit
simultaneous requests usually accept."""

BUSY = 0.35
"""The share of a core above which a process is too busy for another thread."""

_WORTHWHILE = 1 / 3
"""The throughput that a further thread must add, as a fraction of that of an unimpeded thread."""

_MOST_SLOWDOWN = 2.0
"""The slowdown of pages that makes it try half the level."""

_LEAST_PAGES = 4
"""The fewest pages to compare two levels by, once doubling has ended."""

_LONGEST_HOLD, _SHUN, _LONGEST_SHUN = 16, 16, 256
"""The most rounds between two trials; the first and the longest number of rounds to avoid a level after a complaint."""


class Learned(Struct, frozen=True):
    """What a read has learned about the best level; the next read continues from it."""

    level: int = 1
    doubling: bool = True
    up: bool = True
    """Whether the next trial goes up, or down."""
    hold: int = 1
    """Rounds between two trials."""
    shunned: int | None = None
    """The level that caused a complaint."""
    shun: int = _SHUN
    since: int = 0
    """The rounds to avoid that level, and those that have passed."""
    complaints: int = 0
    """How often complaints of the source lowered the level."""
    held_back: bool = False
    """Whether only the ceiling or the CPU load of the process prevents a higher level."""


BEGINNING = Learned()
"""The start without prior knowledge."""


class Concurrency:
    """How many slices may be read concurrently. Only `complain` is thread-safe; the rest is for the scheduling thread.

    level: the current number, from 1 to `ceiling`.
    """

    def __init__(self, ceiling: int, before: Learned = BEGINNING, load: Callable[[], float] = lambda: 0.0) -> None:
        """load: returns the share of a core that the process has used since the last call."""
        self.ceiling = max(1, ceiling)
        self.level = max(1, min(before.level, self.ceiling))
        self._complaints, self._held_back = before.complaints, self.level == self.ceiling
        self._load, self._complained = load, False
        self._doubling, self._up = before.doubling, before.up
        # The level before a trial with its pages per second; the usual seconds per page outside of trials.
        self._before: tuple[int, float] | None = None
        self._usual: float | None = None
        self._slow = False
        self._hold, self._held = before.hold, 0
        self._shunned, self._shun, self._since = before.shunned, before.shun, before.since
        self._pages, self._seconds, self._leftover = 0, 0.0, 0

    @property
    def learned(self) -> Learned:
        """What was learned so far, without an unfinished trial."""
        level = self.level if self._before is None else self._before[0]
        shunned = (self._shunned, self._shun, self._since)
        return Learned(level, self._doubling, self._up, self._hold, *shunned, self._complaints, self._held_back)

    def complain(self) -> None:
        """Record that the source made a request wait and be repeated. Thread-safe."""
        self._complained = True

    def completed(self, seconds: float, reading: int) -> None:
        """Learn from a page. seconds: since the previous page of its thread. reading: slices being read, with its own.

        Pages only count while the level is fully used.
        """
        if self._leftover:
            # The page was started at another level.
            self._leftover -= 1
            self._complained = False
        elif self._complained:
            self._shrink(reading)
        elif reading >= self.level:
            self._pages, self._seconds = self._pages + 1, self._seconds + seconds
            if self._pages >= self._pages_to_compare:
                self._end_round(reading)

    @property
    def _pages_to_compare(self) -> int:
        return self._pages_of_round if self._doubling else max(_LEAST_PAGES, 2 * self.level)

    @property
    def _pages_of_round(self) -> int:
        # Pages in flight when the level doubled do not count for it: so each level takes one page per thread.
        return self.level if self._before is None else max(1, self.level - self._before[0] + 1)

    def _shrink(self, reading: int) -> None:
        """Halve the level after a complaint, and avoid the current one for a while."""
        self._complaints, self._held_back = self._complaints + 1, False
        self._shun = _SHUN if self._shunned is None else min(2 * self._shun, _LONGEST_SHUN)
        self._shunned, self._since = self.level, 0
        self._before, self._usual, self._doubling, self._complained = None, None, False, False
        self._plan_trial(up=True, hold=max(1, 2 * self._hold))
        self._set_level(self.level // 2, reading)

    def _end_round(self, reading: int) -> None:
        """Compare the round of pages with the previous level, and choose the next level."""
        mean = max(self._seconds / self._pages, 1e-9)
        rate = self.level / mean
        busy = self._load() > BUSY
        self._pages, self._seconds = 0, 0.0
        self._since += 1
        if self._before is not None and not self._end_trial(rate, mean, reading):
            return
        if self._usual is not None and mean > _MOST_SLOWDOWN * self._usual and self.level > 1:
            self._doubling = False
            if self._slow:
                self._plan_trial(up=False, hold=0)
                self._start_trial(self.level // 2, rate, reading)
            # Some pages of this round may still have been fast, so wait for a second slow round.
            self._slow = not self._slow
            return
        self._slow = False
        self._held_back = busy or self.level == self.ceiling
        self._usual = mean if self._usual is None else (3 * self._usual + mean) / 4
        self._held, self._doubling = self._held + 1, self._doubling and self.level < self.ceiling
        if (following := self._following(busy=busy)) != self.level:
            self._start_trial(following, rate, reading)

    def _end_trial(self, rate: float, mean: float, reading: int) -> bool:
        """End a trial. Return whether its level was better; if not, restore the previous level.

        rate: pages per second. mean: seconds per page. reading: as for `completed`.
        """
        assert self._before is not None
        tried, before, up = (self.level, rate), self._before, self.level > self._before[0]
        self._before = None
        (low, slower), (high, faster) = (before, tried) if up else (tried, before)
        gain = faster / slower
        is_worthwhile = (gain - 1) / (high / low - 1) >= _WORTHWHILE
        if is_worthwhile == up:
            if up and self._shunned is not None and high >= self._shunned:
                self._shunned = None
            self._plan_trial(up=up, hold=0)
            self._usual = mean
            return True
        if not up and low <= high // 2:
            # Fewer threads did not help, so the number of threads is not why pages take longer.
            self._usual = None
        self._plan_trial(up=not up, hold=max(1, 2 * self._hold))
        # After doubling, the best level lies between the two.
        self._set_level(max(low, round(low * gain)) if self._doubling else before[0], reading)
        self._doubling = False
        return False

    def _following(self, *, busy: bool) -> int:
        """The level to try next; the current level for no trial. busy: the process cannot use another thread."""
        if self._doubling:
            return self.level if busy else min(2 * self.level, self.ceiling)
        if self._held <= self._hold:
            return self.level
        step = max(1, self.level // 4)
        shuns = self._shunned is not None and self._since <= self._shun
        highest = min(self.ceiling, self._shunned - 1) if shuns and self._shunned else self.ceiling
        up, down = min(self.level + step, highest), max(self.level - step, 1)
        up = self.level if busy else max(up, self.level)
        first, second = (up, down) if self._up else (down, up)
        return second if first == self.level else first

    def _plan_trial(self, *, up: bool, hold: int) -> None:
        self._up, self._hold, self._held = up, min(hold, _LONGEST_HOLD), 0

    def _start_trial(self, level: int, rate: float, reading: int) -> None:
        self._before = (self.level, rate)
        self._set_level(level, reading)

    def _set_level(self, level: int, reading: int) -> None:
        self.level = max(1, min(level, self.ceiling))
        self._pages, self._seconds, self._leftover = 0, 0.0, reading - 1
        self._load()


_current: ContextVar[Concurrency | None] = ContextVar("concurrency", default=None)


def note_complaint() -> None:
    """Record that a request of the slice being read in this context must wait and be repeated."""
    if (current := _current.get()) is not None:
        current.complain()


def complain_to(concurrency: Concurrency) -> None:
    """Direct the complaints of this context to `concurrency`."""
    _current.set(concurrency)
