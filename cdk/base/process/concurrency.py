"""Concurrency: how many slices are read at once. It begins small, grows while that pays, and shrinks where it does not.

What it goes by is how long each thread takes from page to page. By that the slices that are read at once give so many
pages a second, and two levels that follow one another are compared: threads that bring less than a third of what
they would bring if nothing held them up are not worth it. No clock, and nothing that is known of an API before.

- It doubles from one slice up while each doubling is worth it, once as many pages have come as are read at once.
- Then, now and then, it tries a quarter more and a quarter less. A trial that fails makes the next wait twice as long.
- Pages that take twice as long as they did make it try half as many.
- A complaint (a 429, a 5xx, a time-out, whatever makes a request wait and be sent again) halves it, once for all that
  complain together; the level that brought it is not tried again for a while, twice as long each time.
- While the process computes more than it waits, another thread would only take turns: it does not grow.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

DEFAULT_CEILING = 10
"""Slices read at once, at most, where neither the source nor who runs it says more: what Airbyte reads with, and what
APIs that limit simultaneous requests usually bear."""

BUSY = 0.35
"""The share of a core from which on a process is too busy for another thread."""

_WORTH = 1 / 3
"""What a further thread has to bring, as a part of what one brings that nothing holds up."""

_SLOW = 2.0
"""How many times as long pages take when it is time to try half as many at once."""

_LEAST = 4
"""Pages by which two levels are compared, at least, once doubling has ended."""

_LONGEST_HOLD, _SHUN, _LONGEST_SHUN = 16, 16, 256
"""Rounds between two trials; and until the level that brought a complaint is tried again, at first and at last."""


@dataclass(frozen=True)
class Learned:
    """What reading has taught of how many slices had better be read at once: where the next reading goes on."""

    level: int = 1
    doubling: bool = True
    up: bool = True
    """Whether more are tried next, or fewer."""
    hold: int = 1
    """Rounds between two trials."""
    shunned: int | None = None
    """The level that brought a complaint."""
    shun: int = _SHUN
    since: int = 0
    """Rounds for which it is shunned, and those that have passed."""
    complaints: int = 0
    """How often the source made it shrink."""
    held_back: bool = False
    """Whether nothing but the ceiling, or what the process computes, speaks against more."""


BEGINNING = Learned()
"""Where nothing is known."""


class Concurrency:
    """How many slices may be read at once. `complain` is for any thread, everything else for the one that deals them.

    level: how many, for now: from 1 to `ceiling`.
    """

    def __init__(self, ceiling: int, before: Learned = BEGINNING, load: Callable[[], float] = lambda: 0.0) -> None:
        """load: the share of a core that the process took since it was last asked."""
        self.ceiling = max(1, ceiling)
        self.level = max(1, min(before.level, self.ceiling))
        self._complaints, self._held_back = before.complaints, self.level == self.ceiling
        self._load, self._complained = load, False
        self._doubling, self._up = before.doubling, before.up
        # The level before a trial, and its pages a second; how long pages took when the level was last at rest.
        self._before: tuple[int, float] | None = None
        self._usual: float | None = None
        self._slow = False
        self._hold, self._held = before.hold, 0
        self._shunned, self._shun, self._since = before.shunned, before.shun, before.since
        self._pages, self._seconds, self._leftover = 0, 0.0, 0

    @property
    def learned(self) -> Learned:
        """What it knows by now, but for a trial that has not ended."""
        level = self.level if self._before is None else self._before[0]
        shunned = (self._shunned, self._shun, self._since)
        return Learned(level, self._doubling, self._up, self._hold, *shunned, self._complaints, self._held_back)

    def complain(self) -> None:
        """Note that the source makes a request wait and be sent again."""
        self._complained = True

    def completed(self, seconds: float, reading: int) -> None:
        """Learn from a page. seconds: since its thread had the page before. reading: slices being read, with its own.

        Pages count while as many slices are read as may be: a level that is not used teaches nothing.
        """
        if self._leftover:
            # It began at another level.
            self._leftover -= 1
            self._complained = False
        elif self._complained:
            self._shrink(reading)
        elif reading >= self.level:
            self._pages, self._seconds = self._pages + 1, self._seconds + seconds
            if self._pages >= self._enough:
                self._judge(reading)

    @property
    def _enough(self) -> int:
        return self._round if self._doubling else max(_LEAST, 2 * self.level)

    @property
    def _round(self) -> int:
        # All that were under way when the level doubled came to it late: with them each level takes one page a thread.
        return self.level if self._before is None else max(1, self.level - self._before[0] + 1)

    def _shrink(self, reading: int) -> None:
        self._complaints, self._held_back = self._complaints + 1, False
        self._shun = _SHUN if self._shunned is None else min(2 * self._shun, _LONGEST_SHUN)
        self._shunned, self._since = self.level, 0
        self._before, self._usual, self._doubling, self._complained = None, None, False, False
        self._turn(up=True, hold=max(1, 2 * self._hold))
        self._go(self.level // 2, reading)

    def _judge(self, reading: int) -> None:
        """Compare what a round of pages has brought with the level before, and choose the next."""
        mean = max(self._seconds / self._pages, 1e-9)
        rate = self.level / mean
        busy = self._load() > BUSY
        self._pages, self._seconds = 0, 0.0
        self._since += 1
        if self._before is not None and not self._passed(rate, mean, reading):
            return
        if self._usual is not None and mean > _SLOW * self._usual and self.level > 1:
            self._doubling = False
            if self._slow:
                self._turn(up=False, hold=0)
                self._try(self.level // 2, rate, reading)
            # Some of this round's pages may still have been as quick as before.
            self._slow = not self._slow
            return
        self._slow = False
        self._held_back = busy or self.level == self.ceiling
        self._usual = mean if self._usual is None else (3 * self._usual + mean) / 4
        self._held, self._doubling = self._held + 1, self._doubling and self.level < self.ceiling
        if (following := self._following(busy=busy)) != self.level:
            self._try(following, rate, reading)

    def _passed(self, rate: float, mean: float, reading: int) -> bool:
        """End a trial: whether its level was the better one; else the one before is taken up again."""
        assert self._before is not None
        tried, before, up = (self.level, rate), self._before, self.level > self._before[0]
        self._before = None
        (low, slower), (high, faster) = (before, tried) if up else (tried, before)
        gain = faster / slower
        worth = (gain - 1) / (high / low - 1) >= _WORTH
        if worth == up:
            if up and self._shunned is not None and high >= self._shunned:
                self._shunned = None
            self._turn(up=up, hold=0)
            self._usual = mean
            return True
        if not up and low <= high // 2:
            # It is not for the number of threads that pages take longer.
            self._usual = None
        self._turn(up=not up, hold=max(1, 2 * self._hold))
        # Where it has doubled, the level that is just full lies between.
        self._go(max(low, round(low * gain)) if self._doubling else before[0], reading)
        self._doubling = False
        return False

    def _following(self, *, busy: bool) -> int:
        """The level to try next; the level itself: none, for now."""
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

    def _turn(self, *, up: bool, hold: int) -> None:
        self._up, self._hold, self._held = up, min(hold, _LONGEST_HOLD), 0

    def _try(self, level: int, rate: float, reading: int) -> None:
        self._before = (self.level, rate)
        self._go(level, reading)

    def _go(self, level: int, reading: int) -> None:
        self.level = max(1, min(level, self.ceiling))
        self._pages, self._seconds, self._leftover = 0, 0.0, reading - 1
        self._load()


_current: ContextVar[Concurrency | None] = ContextVar("concurrency", default=None)


def note_complaint() -> None:
    """Note that a request of the slice that is read here has to wait and be sent again."""
    if (current := _current.get()) is not None:
        current.complain()


def complain_to(concurrency: Concurrency) -> None:
    """Let complaints in this context count there."""
    _current.set(concurrency)
