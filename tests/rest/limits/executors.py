"""Executors that read one API for a while, against its clock: `python -m tests.rest.limits.executors --help`.

The driver's budgets and those of the tasks are the kit's own; what is made up is time: when tasks begin, how long
answers take, which task dies or is copied. A task reads page by page, in one thread, until its time is spent, as
`read_bundle` does.
"""

import argparse
import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cdk.rest.limits.budget_lanes import BudgetAllocator
from cdk.rest.limits.budget_slice import TermEnded
from cdk.rest.limits.run_budgets import RunBudgets
from cdk.rest.limits.task_budgets import TaskBudgets
from cdk.rest.limits.task_share import Rates, TaskShare

START = 0.5
"""Seconds until a task that was submitted begins."""
INTERVAL = 24.0
"""Seconds between two commits, once they have doubled so far."""


@dataclass(frozen=True)
class Load:
    """What is read. latencies: seconds that an answer takes, by stream. others: streams that call another API.

    seconds: how long. dies, copied: how many of a hundred tasks do not end, or are tried again by Spark.
    """

    rates: Rates
    seconds: float
    latencies: Sequence[float] = (0.2,)
    others: frozenset[int] = frozenset()
    dies: int = 0
    copied: int = 0


@dataclass(frozen=True)
class Use:
    """What an API saw. share: of the calls that it allows. over: calls that came too early. held: see below.

    held: the most seconds that a task had rows before it brought them.
    """

    share: float
    over: int
    held: float


@dataclass
class _Task:
    stream: int
    share: TaskShare
    budgets: TaskBudgets
    began: float
    end: float
    first: float | None = None
    waits: bool = False
    calls: list[float] = field(default_factory=list)

    def longest_wait(self, now: float) -> float:
        first, self.waits = not self.waits, True
        return float("inf") if first else max(0.0, self.end - now)


class Executors:
    """So many of them, each with a task at a time."""

    def __init__(self, count: int, load: Load, seed: int = 1) -> None:
        self._count, self._load, self._random = count, load, random.Random(seed)
        self._now = self._began = 1_700_000_000.0
        self._budgets = RunBudgets(count, BudgetAllocator(lambda: datetime.fromtimestamp(self._now, UTC)))
        self._events: list[tuple[float, int, str, int]] = []
        self._tasks: dict[int, _Task] = {}
        self._sent, self._held, self._number = list[float](), [0.0], 0
        self._due, self._gap = self._began + 4.0, 4.0
        self._waiting: int | None = None

    def read(self) -> Use:
        """Read until the time is over."""
        self._at(self._now, "start")
        until = self._began + self._load.seconds
        while (event := heapq.heappop(self._events))[0] <= until:
            self._now, _, what, number = event
            while self._now >= self._due:
                self._gap = min(2 * self._gap, INTERVAL)
                self._due += self._gap
            if what == "start":
                self._start()
            elif (task := self._tasks.get(number)) is not None:
                self._page(number, task) if what == "page" else self._end(number, None)
        sent = sorted(at for at in (*self._sent, *(at for task in self._tasks.values() for at in task.calls)))
        sent = [at for at in sent if at <= until]
        allowed = min(limit * self._load.seconds / period for limit, period in self._load.rates)
        return Use(len(sent) / allowed, over(sent, self._load.rates), max(self._held))

    def _at(self, moment: float, what: str, number: int = 0) -> None:
        heapq.heappush(self._events, (moment, len(self._events) + 1000 * self._number, what, number))

    def _start(self) -> None:
        while len(self._tasks) < self._count and not self._budgets.exhausted:
            stream = self._random.randrange(len(self._load.latencies)) if self._waiting is None else self._waiting
            share = self._budgets.lease(self._count - len(self._tasks), [stream])
            self._waiting = stream if share is None else None
            if share is None:
                return
            self._number += 1
            chance, copied = self._random.randrange(100), self._random.randrange(100) < self._load.copied
            end = max(self._due, self._now + self._gap / 4)
            task = _Task(stream, share, TaskBudgets(share, copied=copied), self._now, end)
            self._tasks[self._number] = task
            self._at(self._now + START, "page", self._number)
            if copied:
                self._first_attempt(share)
            elif chance < self._load.dies:
                self._at(self._now + START + self._random.random() * (end - self._now), "die", self._number)

    def _first_attempt(self, share: TaskShare) -> None:
        """What was called before the task was tried again, as much as it may have been: nobody gets to know."""
        try:
            portion = TaskBudgets(share).slice_of("a", self._load.rates)
            while (at := portion.reserve(self._now, 1, START)) >= 0:
                self._sent.append(at)
        except TermEnded:
            return

    def _page(self, number: int, task: _Task) -> None:
        if task.first is not None and self._now >= task.end:
            self._end(number, task)
            return
        at = self._now
        if task.stream not in self._load.others:
            try:
                portion = task.budgets.slice_of("a", self._load.rates)
                at = portion.reserve(self._now, 1, task.longest_wait(self._now))
            except TermEnded:
                self._end(number, task)
                return
            task.calls.append(at)
        latency = self._load.latencies[task.stream] * self._random.uniform(0.5, 1.5)
        if task.first is None:
            task.first = at + latency
            task.end = max(task.end, at + (task.end - task.began) / 4)
        self._at(at + latency, "page", number)

    def _end(self, number: int, task: _Task | None) -> None:
        """A task has ended; None: it has died."""
        ended = self._tasks.pop(number)
        usage = None if task is None or task.budgets.lost else task.budgets.usage()
        self._budgets.release(ended.share, usage, 0, [ended.stream])
        self._sent += [at for at in ended.calls if at <= self._now]
        if ended.first is not None:
            self._held.append(self._now - ended.first)
        self._at(self._now, "start")


def over(sent: Sequence[float], rates: Rates) -> int:
    """How many calls, in order, came in a stretch that had its limit already."""
    return sum(
        late < early + period - 1e-4 for limit, period in rates for early, late in zip(sent, sent[limit:], strict=False)
    )


def loads(executors: int) -> dict[str, Load]:
    """What so many executors read."""
    few = [(max(1, executors // 10), 10.0)]
    return {
        "many calls": Load([(6 * executors, 60.0)], 600),
        "few calls": Load(few, 600),
        "few slow calls": Load(few, 600, (30.0,)),
        "hours": Load([(5 * executors, 3600.0)], 3 * 3600),
        "two rates": Load([(3 * executors, 10.0), (12 * executors, 60.0)], 600),
        "half of them elsewhere": Load([(6 * executors, 60.0)], 600, (0.2, 0.2), frozenset({1})),
        "quick and slow": Load([(60 * executors, 60.0)], 600, (0.1, 10.0)),
        "some die": Load([(executors, 10.0)], 600, dies=10, copied=10),
    }


def main() -> None:
    """Print what an API saw of each load."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--executors", type=int, default=1000)
    options = parser.parse_args()
    print("load                     rate used  calls over it  rows held")
    for name, load in loads(options.executors).items():
        use = Executors(options.executors, load).read()
        print(f"{name:24} {use.share:9.1%} {use.over:14} {use.held:8.1f} s", flush=True)


if __name__ == "__main__":
    main()
