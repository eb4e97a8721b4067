"""Tasks whose times are made up: which of those that run ends next, when it reads, and which dies."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar, cast

from msgspec.structs import replace

from cdk.base.task_map import TaskLost, TaskMap, attempting, run_inline
from cdk.sync.tasks.bundle_task import run_bundle
from cdk.sync.tasks.messages import BundleJob
from cdk.sync.tasks.task_pool import Call, EndedTask, InlineTasks
from cdk.sync.tasks.workers import ClusterStart, Workers

Item = TypeVar("Item")
Result = TypeVar("Result")


class Clock:
    """Stands still until somebody moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Chances:
    """Numbers below a limit, one after the other; 0 when there are no more."""

    def __init__(self, numbers: Sequence[int] = ()) -> None:
        self._numbers = iter(numbers)

    def below(self, limit: int) -> int:
        return next(self._numbers, 0) % limit


PageTime: TypeAlias = Literal["in time", "late", "lost"]
"""What happens while a task reads a page: it is late by then, and what it hands over may be lost."""


class TaskTime:
    """The clock of tasks, and who looks beside them whether they are late.

    pages: what happens at one page after the other, again and again. live: the folder for interim results.
    """

    def __init__(self, pages: Sequence[PageTime], live: Path) -> None:
        self._pages, self._live, self._now = cycle(pages), live, 0.0
        self._calls: list[Callable[[], None]] = []

    def __call__(self) -> float:
        return self._now

    @contextmanager
    def repeating(self, call: Callable[[], None], seconds: float) -> Iterator[None]:
        del seconds
        self._calls.append(call)
        try:
            yield
        finally:
            self._calls.remove(call)

    def page(self) -> None:
        """A page is being read."""
        if not self._calls or (now := next(self._pages)) == "in time":
            return
        self._now += 3600
        for _ in range(2):
            self._calls[-1]()
        for file in self._live.glob("*.interim") if now == "lost" else ():
            file.unlink()


class SimulatedTasks:
    """A pool and a cluster. most: how many tasks have run at once. time: of the tasks; None: as it passes here.

    chances: decide which task ends, whether it has read right after its start or right before its end, whether it was
    tried twice, how long it takes, and whether it has time for more than a page. dies: whether a task dies that ends
    while so many run.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        chances: Chances | None = None,
        dies: Callable[[int], bool] = lambda _: False,
        time: TaskTime | None = None,
    ) -> None:
        self.time = time
        self.clock, self._chances, self._dies = clock or Clock(), chances or Chances(), dies
        self._running: list[tuple[int, Call, list[EndedTask]]] = []
        self.most = self.started = 0

    def start(self, number: int, call: Call, /) -> None:
        self.started += 1
        read = [self._ended(number, call)] if self._chances.below(2) else []
        self._running.append((number, call, read))
        self.most = max(self.most, len(self._running))

    def ended(self, seconds: float | None, /) -> list[EndedTask]:
        if seconds is not None and self._chances.below(4) == 1:
            self.clock.now += seconds
            return []
        number, call, read = self._running.pop(self._chances.below(len(self._running)))
        self.clock.now += self._chances.below(6)
        if self._dies(len(self._running) + 1):
            return [EndedTask(number, None, TaskLost(0, "killed"))]
        return read or [self._ended(number, call)]

    def _ended(self, number: int, call: Call) -> EndedTask:
        inline = InlineTasks()
        if self._chances.below(5) == 1:
            with attempting(1):
                inline.start(number, call)  # a copy, whose result nobody gets
            inline.ended(None)
        inline.start(number, call)
        (ended,) = inline.ended(None)
        return ended

    def spread(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        if self.time is not None and cast("object", work) is run_bundle:
            work = partial(work, clock=self.time, repeating=self.time.repeating)  # type: ignore[call-arg] # it is run_bundle
        if self._chances.below(3) != 1:
            return run_inline(work, items)
        return run_inline(work, [_hurried(item) for item in items])


class SimulatedCluster(ClusterStart[Workers]):
    """A cluster that joins when it is looked for the `joins`-th time, 0: never, whoever has begun to start it."""

    def __init__(self, spread: TaskMap, tasks: int, joins: int) -> None:
        workers = Workers(spread, tasks, engine="simulated")
        super().__init__(lambda: workers)
        self._there, self._joins = workers, joins
        self.left = False

    def begin(self) -> None:
        self.started = self.starting = True

    def joined(self) -> Workers | None:
        self._joins -= 1
        return None if self._joins else self._there

    def leave(self) -> None:
        self.left = True


def _hurried(item: Item) -> Item:
    """A task without time, where it is one that reads."""
    match item:
        case (BundleJob() as job, tasks):
            return cast("Item", (replace(job, seconds=0.0), tasks))
        case _:
            return item
