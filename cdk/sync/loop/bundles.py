"""Bundles: which slices the next task reads.

Slices that can stop at any page share tasks with each other, and those that cannot with their like: the first do not
wait for the others. Where the order of the read decides which row is newer, slices go in waves. A stream that says how
many of its slices may be read at once has bundles of its own, whose threads together are never more; of the streams
that are read in one task at a time, one bundle is read. A bundle is as large as a task reads in a few seconds: it
starts small, and follows what tasks get through.

A slice whose task died is a suspect: it is read in a task of its own, beside others; when that dies, too, alone, with
nothing else running. A slice whose task dies then is what kills it.
"""

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import count

from cdk.base.errors import TransientError
from cdk.base.process.concurrency import Learned
from cdk.base.task_map import TaskLost
from cdk.state.slice import Slice
from cdk.sync.loop.stream_sync import StreamSync
from cdk.sync.tasks.task_concurrency import TaskConcurrency

_BUNDLE_SECONDS = 4.0
"""How long a task of short slices takes: a bundle that takes less is followed by larger ones."""
_FIRST_SLICES_PER_THREAD = 64
"""Slices of the first bundles for each that is read at once: some sources answer in 30 ms."""
_MOST_SLICES = 10_000
"""Of a bundle, and of those that wait in a queue."""


class SliceLost(TransientError):
    """A slice whose task died, alone as well."""

    def __init__(self, slice: Slice, lost: TaskLost) -> None:
        """slice: the one whose task died. lost: how Spark reported the task."""
        super().__init__(
            f"{slice}: the process that reads it died again and again, also with nothing beside it, most likely for "
            "want of memory; give tasks more of it, or have the stream read smaller slices or pages; what was "
            "committed is safe",
            detail=lost.detail,
        )


class Suspicion(IntEnum):
    """How a slice is read whose task has died."""

    NONE = 0
    APART = 1
    """In a task of its own."""
    ALONE = 2
    """While no other task runs."""


class BundleKind(IntEnum):
    """Which slices share tasks, for they are interrupted or committed in the same way."""

    STOPPING = 0
    """Those that can stop at a page; and all of them, where one task runs at a time."""
    TO_END = 1
    """Those that are read to their end."""
    IN_ORDER = 2
    """Those that are committed in the order of the read: a wave of them is dealt to tasks, and then the next."""


@dataclass(frozen=True)
class PlannedSlice:
    """A slice that waits for a task, or is in one."""

    stream: int
    """The place of its stream in the sync."""
    attempt: int
    """The attempt of its stream; what an earlier one brings does not count."""
    slice: Slice
    number: int = 0
    """Its place in the read: of two rows of a commit that are otherwise equal, that of the later slice is the newer."""


@dataclass(frozen=True)
class Bundle:
    """The slices of one task."""

    slices: Sequence[PlannedSlice]
    threads: int
    """How many of them, or of their pages, it reads at once, at most."""
    first_threads: int = 1
    """How many it begins with."""
    queue: "_Queue | None" = None
    """Where they waited; None for a suspect."""
    suspicion: Suspicion = Suspicion.NONE
    handed_over: bool = False
    """These go on after their task has handed over the others; there is nothing to learn from it any more."""


class Suspects:
    """The slices under suspicion, as the objects they are: one that got further is another, and free of it."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Slice, Suspicion]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def suspicion(self, slice: Slice) -> Suspicion:
        """How the slice is to be read."""
        return self._known.get(id(slice), (slice, Suspicion.NONE))[1]

    def accuse(self, bundle: Bundle) -> PlannedSlice | None:
        """Note that a task died; the slice that has died alone, if it is one."""
        if bundle.suspicion is Suspicion.ALONE:
            return bundle.slices[0]
        for planned in bundle.slices:
            slice = planned.slice
            self._known[id(slice)] = (slice, Suspicion(min(self.suspicion(slice) + 1, Suspicion.ALONE)))
        return None

    def clear(self, slice: Slice) -> None:
        """A slice was read, some of it at least."""
        self._known.pop(id(slice), None)


@dataclass(eq=False)
class _Queue:
    """The slices that wait for a task: those of one kind, of one stream that has a limit, or of those in one task."""

    kind: BundleKind
    bundle_size: int
    """How many slices a bundle has at most."""
    stream: int | None = None
    """The stream whose limit holds, or the first of those that are read in one task; None: those without a limit."""
    waiting: deque[PlannedSlice] = field(default_factory=deque)
    wave: deque[Sequence[PlannedSlice]] = field(default_factory=deque)
    """What is left to deal of those that are committed together."""
    turn: int = 0
    """The number of the bundle that was last dealt from it."""


class Bundles:
    """Plans the slices of a sync ahead, and deals them to tasks. Belongs to the driver's thread."""

    def __init__(
        self, streams: Sequence[StreamSync], tasks: int, concurrency: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """tasks: how many run at once, at most. concurrency: slices read at once, at most, in all of them together."""
        self._streams, self._tasks, self._clock = streams, tasks, clock
        self.concurrency = TaskConcurrency(concurrency)
        self._threads_per_task = max(1, concurrency // tasks)
        self._queues: dict[tuple[BundleKind, int | None], _Queue] = {}
        self._waiting_suspects = deque[PlannedSlice]()
        self._running: list[Bundle] = []
        self._numbers, self._turns = count(), count(1)
        self.suspects = Suspects()
        self.all_planned = False
        """Whether planning brings no slice before a task ends, or a commit was made."""

    @property
    def idle(self) -> int:
        """How many more tasks could run."""
        return max(0, min(self.concurrency.tasks_of(self._tasks) - len(self._running), self._idle_threads))

    @property
    def _idle_threads(self) -> int:
        """How many more slices could be read at once, of all that the sync may."""
        return self.concurrency.limit - sum(bundle.threads for bundle in self._running)

    @property
    def divisible(self) -> bool:
        """Whether a slice waits that can be read beside others."""
        waiting = self._waiting
        return waiting > 0 and waiting + sum(len(bundle.slices) for bundle in self._running) > 1

    @property
    def beginning_tasks(self) -> int:
        """How many tasks are about to begin, as far as is known, with that of the bundle that was dealt last."""
        return 1 + (min(self.idle, self._waiting) if self.all_planned else self.idle)

    @property
    def _waiting(self) -> int:
        """How many slices wait that may be read now."""
        waiting = ((queue, len(queue.waiting) + sum(map(len, queue.wave))) for queue in self._queues.values())
        return len(self._waiting_suspects) + sum(
            min(slices, self._free_threads(queue.stream)) for queue, slices in waiting
        )

    def grow(self, tasks: int) -> None:
        """Let more tasks run at once, where several do."""
        if 1 < self._tasks < tasks:
            self._tasks, self._threads_per_task = tasks, max(1, self.concurrency.limit // tasks)

    def plan(self, seconds: float) -> bool:
        """Plan slices of all streams in turn until there are enough, for so long; whether there are more to plan.

        However slow the planning is, it brings a slice where there is one.
        """
        end, planned = self._clock() + seconds, 0
        self.all_planned = False
        while streams := [n for n, stream in enumerate(self._streams) if stream.active and self._lacks_slices(n)]:
            before = planned
            for n in streams:
                if planned and self._clock() >= end:
                    return True
                planned += self._plan_one(n)
            if planned == before:
                self.all_planned = True
                break
        return False

    def _lacks_slices(self, n: int) -> bool:
        """Whether fewer slices wait in the queue of a stream than the idle tasks would soon read."""
        queue = self._queue_of(n)
        enough = queue.bundle_size * max(1, self.idle) + self.concurrency.limit
        return not self.in_wave(n) and len(queue.waiting) < min(_MOST_SLICES, enough)

    def _plan_one(self, n: int) -> bool:
        """Have the next slice of a stream wait; False: there is none for now."""
        stream = self._streams[n]
        slice = stream.next()
        if slice is None:
            return False
        suspected = self.suspects.suspicion(slice) is not Suspicion.NONE
        waiting = self._waiting_suspects if suspected else self._queue_of(n).waiting
        waiting.append(PlannedSlice(n, stream.attempt, slice, next(self._numbers)))
        return True

    def _queue_of(self, n: int) -> _Queue:
        """Where the slices of a stream wait."""
        stream, kind = self._streams[n], BundleKind.STOPPING
        if self._tasks > 1 and (stream.in_read_order or not stream.stops_at_pages):
            kind = BundleKind.IN_ORDER if stream.in_read_order else BundleKind.TO_END
        limited = None if stream.stream.max_concurrency is None else n
        if limited is None and stream.stream.in_one_task:
            alike = (other.stream.in_one_task and other.stream.max_concurrency is None for other in self._streams)
            limited = list(alike).index(True)
        if (kind, limited) not in self._queues:
            threads = self.concurrency.limit if stream.stream.in_one_task else self._threads_per_task
            size = threads * (1 if kind is BundleKind.TO_END else _FIRST_SLICES_PER_THREAD)
            self._queues[kind, limited] = _Queue(kind, size, limited)
        return self._queues[kind, limited]

    def _free_threads(self, n: int | None) -> int:
        """How many slices of a stream may be read beside those that are, as it says itself; None: it sets no limit."""
        if n is None:
            return sys.maxsize
        stream, running = self._streams[n].stream, [bundle.slices[0].stream for bundle in self._running]
        if stream.in_one_task and any(self._streams[other].stream.in_one_task for other in running):
            return 0
        limit = sys.maxsize if stream.max_concurrency is None else max(1, stream.max_concurrency)
        return limit - sum(bundle.threads for bundle in self._running if bundle.slices[0].stream == n)

    def plans_more_for(self, bundle: Bundle) -> bool:
        """Whether a task is to be short: planning brings more slices soon, or more tasks may soon run."""
        few = len(bundle.slices) < self._threads_per_task and not self.all_planned
        more = self.concurrency.growing and self.concurrency.tasks_of(self._tasks) < self._tasks
        return not bundle.suspicion and (few or more)

    def next(self) -> Bundle | None:
        """The bundle that a task is to read now; None where there is none, or no further task may run."""
        if not self.idle or any(bundle.suspicion is Suspicion.ALONE for bundle in self._running):
            return None
        self._drop_obsolete()
        suspects = (planned for planned in self._waiting_suspects if self._free_threads(planned.stream) > 0)
        suspect = next(suspects, None)
        bundle = self._bundle_of_queue() if suspect is None else self._bundle_of_suspect(suspect)
        if bundle is not None:
            self._running.append(bundle)
        return bundle

    def put_back(self, bundle: Bundle) -> None:
        """Have the slices of a bundle whose task cannot begin now come first."""
        self._running.remove(bundle)
        if bundle.queue is None:
            self._waiting_suspects.extendleft(reversed(bundle.slices))
        elif bundle.queue.kind is BundleKind.IN_ORDER:
            bundle.queue.wave.appendleft(bundle.slices)
        else:
            bundle.queue.waiting.extendleft(reversed(bundle.slices))

    def _bundle_of_suspect(self, planned: PlannedSlice) -> Bundle | None:
        """A suspect's own bundle; None: others have to end first."""
        suspicion = self.suspects.suspicion(planned.slice)
        if suspicion is Suspicion.ALONE and self._running:
            return None
        self._waiting_suspects.remove(planned)
        return Bundle([planned], 1, suspicion=suspicion)

    def _bundle_of_queue(self) -> Bundle | None:
        """The next bundle of the queue that the fewest tasks read from, and that waits longest; None: there is none."""
        ready = [queue for queue in self._queues.values() if self._is_ready(queue)]
        if not ready or (all(queue.kind is BundleKind.TO_END for queue in ready) and self._leaves_a_task()):
            return None
        queue = min(ready, key=lambda queue: (self._tasks_of(queue), queue.turn))
        tasks = 1 if self._in_one_task(queue) else min(self.idle, self._free_threads(queue.stream))
        queue.turn = next(self._turns)
        if queue.kind is BundleKind.IN_ORDER:
            if not queue.wave:
                self._deal_wave(queue, tasks)
            return self._bundle(queue.wave.popleft(), queue)
        # What there is is shared by all idle tasks.
        size = min(queue.bundle_size, math.ceil(len(queue.waiting) / (tasks if len(ready) == 1 else 1)))
        return self._bundle([queue.waiting.popleft() for _ in range(size)], queue)

    def _is_ready(self, queue: _Queue) -> bool:
        """Whether a task may read from it now."""
        begins = bool(queue.waiting) and not (queue.kind is BundleKind.IN_ORDER and self._tasks_of(queue))
        return (begins or bool(queue.wave)) and self._free_threads(queue.stream) > 0

    def _deal_wave(self, queue: _Queue, tasks: int) -> None:
        """Deal the first slices that wait to so many tasks in turn: each has early ones and late ones."""
        waiting = list(queue.waiting)
        wave, rest = waiting[: queue.bundle_size * tasks], waiting[queue.bundle_size * tasks :]
        queue.wave.extend(wave[n::tasks] for n in range(min(tasks, len(wave))))
        # Those that this wave does not get to come before them.
        queue.waiting.clear()
        for planned in rest:
            self._streams[planned.stream].untouched(planned.slice)

    def in_wave(self, n: int) -> bool:
        """Whether slices are being read that are committed together with those of a stream."""
        queue = self._queue_of(n)
        return queue.kind is BundleKind.IN_ORDER and (bool(queue.wave) or self._tasks_of(queue) > 0)

    def _leaves_a_task(self) -> bool:
        """Whether the last idle task is left to slices that can stop, which may come."""
        can_stop = any(stream.active and stream.stops_at_pages for stream in self._streams)
        to_end = sum(bundle.queue is not None and bundle.queue.kind is BundleKind.TO_END for bundle in self._running)
        return can_stop and to_end >= max(1, self.concurrency.tasks_of(self._tasks) - 1)

    def _in_one_task(self, queue: _Queue) -> bool:
        """Whether no second task may read from it: the one gets all idle threads but one for each other task."""
        return queue.stream is not None and self._streams[queue.stream].stream.in_one_task

    def _tasks_of(self, queue: _Queue) -> int:
        """How many tasks read slices that waited there."""
        return sum(bundle.queue is queue for bundle in self._running)

    def _bundle(self, slices: Sequence[PlannedSlice], queue: _Queue) -> Bundle:
        """A bundle of these slices; its task reads its part of those at once that are left to the idle ones.

        Where some of these have nothing to do, it may request pages ahead in their place. It leaves each one, for what
        a commit may bring; where it cannot stop before its end, what is their part.
        """
        share = math.ceil(self._idle_threads / self.idle)
        if self._in_one_task(queue):
            share = self._idle_threads - (self.idle - 1)
        threads = min(len(slices), share)
        if self.all_planned and (others := self._waiting) < self.idle:
            reserve = self._threads_per_task if queue.kind is BundleKind.TO_END else 1
            threads = max(threads, (self._idle_threads - (self.idle - 1 - others) * reserve) // (1 + others))
        threads = min(threads, self._free_threads(queue.stream))
        return Bundle(slices, threads, min(threads, self.concurrency.learned.level), queue)

    def ended(self, bundle: Bundle, started: int, seconds: float, learned: Learned | None = None) -> None:
        """Learn from a task that has ended how large the next bundles are to be, and how many slices read at once.

        started: how many of its slices were started. seconds: how long it took. learned: what it came to; None: not
        known.
        """
        self._running.remove(bundle)
        if learned is not None:
            self.concurrency.ended(bundle.first_threads, learned, sum(other.first_threads for other in self._running))
        queue = bundle.queue
        if queue is None or bundle.handed_over:
            return
        if started < len(bundle.slices):
            # Few more than it came to: if one of them is long, no other task gets at those that wait behind it.
            queue.bundle_size = max(self._threads_per_task, started + started // 8)
        elif seconds < _BUNDLE_SECONDS and len(bundle.slices) >= queue.bundle_size:
            queue.bundle_size = min(2 * queue.bundle_size, _MOST_SLICES)

    def discard(self, bundle: Bundle) -> None:
        """Forget a bundle of which no task was started; there is nothing to learn from it."""
        self._running.remove(bundle)

    def go_on(self, bundle: Bundle, numbers: Collection[int], threads: int) -> Bundle:
        """What goes on of a bundle that has ended otherwise: the slices of these numbers, with so many threads."""
        slices = [planned for planned in bundle.slices if planned.number in numbers]
        rest = replace(bundle, slices=slices, threads=threads, first_threads=len(slices), handed_over=True)
        if slices:
            self._running.append(rest)
        return rest

    def _drop_obsolete(self) -> None:
        """Forget what was planned by an earlier attempt at a stream, or of one that is not read any more."""
        for waiting in (self._waiting_suspects, *(queue.waiting for queue in self._queues.values())):
            current = [planned for planned in waiting if self._is_current(planned)]
            if len(current) != len(waiting):
                waiting.clear()
                waiting.extend(current)
        for queue in self._queues.values():
            parts = ([planned for planned in part if self._is_current(planned)] for part in queue.wave)
            queue.wave = deque(part for part in parts if part)

    def _is_current(self, planned: PlannedSlice) -> bool:
        stream = self._streams[planned.stream]
        return stream.active and stream.attempt == planned.attempt
