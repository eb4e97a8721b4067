"""Bundles: decides which slices the next task reads.

Slices that can stop at any page share tasks with each other, and those that cannot share other tasks, so that the
former do not wait for the latter. Where the order of the read decides which row is newer, slices are dealt in waves. A
stream that limits how many of its slices are read at once has bundles of its own, whose threads together never exceed
the limit. Of all streams that must be read in one task at a time, only one bundle is read at once. A bundle has as many
slices as a task reads in a few seconds: it starts small, and adapts to what tasks get through.

A slice whose task died is a suspect: it is read in a task of its own, beside other tasks. If that task dies too, it is
read alone, with nothing else running. If the task dies even then, the slice is the cause.
"""

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from enum import IntEnum
from itertools import count

from msgspec import Struct, field
from msgspec.structs import replace

from cdk.base.errors import TransientError
from cdk.base.process.concurrency import Learned
from cdk.base.task_map import TaskLost
from cdk.state.slice import Slice
from cdk.sync.loop.stream_sync import StreamSync
from cdk.sync.tasks.messages import SliceTask
from cdk.sync.tasks.task_concurrency import TaskConcurrency

_BUNDLE_SECONDS = 4.0
"""Target duration of a task of short slices: a bundle that takes less is followed by larger ones."""
_FIRST_SLICES_PER_THREAD = 64
"""Slices per thread in the first bundles: some sources respond in 30 ms."""
_MOST_SLICES = 10_000
"""Maximum number of slices in a bundle, and of those that wait in a queue."""


class SliceLost(TransientError):
    """The error of a slice whose task died even with nothing else running."""

    def __init__(self, slice: Slice, lost: TaskLost) -> None:
        """slice: the one whose task died. lost: the error with which Spark reported it."""
        super().__init__(
            f"{slice}: the process that reads it died repeatedly, even when it read nothing else, most likely "
            "because it ran out of memory; give tasks more memory, or have the stream read smaller slices or pages; "
            "committed rows are safe",
            detail=lost.detail,
        )


class Suspicion(IntEnum):
    """How a slice is read after its task has died."""

    NONE = 0
    APART = 1
    """In a task of its own, beside others."""
    ALONE = 2
    """In a task of its own, while no other task runs."""


class BundleKind(IntEnum):
    """Groups of slices that share tasks, because they stop or are committed in the same way."""

    STOPPING = 0
    """Slices that can stop at a page; all slices if only one task runs at a time."""
    TO_END = 1
    """Slices that are read to their end."""
    IN_ORDER = 2
    """Slices that are committed in the order of the read, dealt to tasks one wave after the other."""


class Bundle(Struct, frozen=True):
    """The slices of one task."""

    slices: Sequence[SliceTask]
    threads: int
    """Maximum number of slices, or of their pages, that the task reads at once."""
    first_threads: int = 1
    """Number of slices that the task reads at once when it starts."""
    queue: "_Queue | None" = None
    """The queue in which the slices waited; None for a suspect."""
    suspicion: Suspicion = Suspicion.NONE
    handed_over: bool = False
    """Whether this is what remains after an interim result. Bundle sizes are no longer adapted by it."""


class Suspects:
    """The slices under suspicion, by object identity: a slice that made progress is a new object, without suspicion."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Slice, Suspicion]] = {}

    def suspicion(self, slice: Slice) -> Suspicion:
        """Return how the slice must be read."""
        return self._known.get(id(slice), (slice, Suspicion.NONE))[1]

    def accuse(self, bundle: Bundle) -> SliceTask | None:
        """Record that a task died. Return its slice if nothing else was running, so that the slice is the cause."""
        if bundle.suspicion is Suspicion.ALONE:
            return bundle.slices[0]
        for planned in bundle.slices:
            slice = planned.slice
            self._known[id(slice)] = (slice, Suspicion(min(self.suspicion(slice) + 1, Suspicion.ALONE)))
        return None

    def clear(self, slice: Slice) -> None:
        """Clear a slice that was read at least in part."""
        self._known.pop(id(slice), None)


class _Queue(Struct, eq=False):
    """The waiting slices of one kind: of one stream with a limit, of all `in_one_task` streams, or of all others."""

    kind: BundleKind
    bundle_size: int
    """Maximum number of slices in a bundle."""
    stream: int | None = None
    """The stream whose limit applies, or the first of the `in_one_task` streams; None for streams without a limit."""
    waiting: deque[SliceTask] = field(default_factory=deque)
    wave: deque[Sequence[SliceTask]] = field(default_factory=deque)
    """The bundles of the current wave, which are committed together, that are still to be dealt."""
    turn: int = 0
    """Number of the last bundle that was dealt from this queue."""


class Bundles:
    """Plans the slices of a sync in advance, and deals them to tasks. Belongs to the driver's thread."""

    def __init__(
        self, streams: Sequence[StreamSync], tasks: int, concurrency: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """tasks: maximum number of concurrent tasks. concurrency: maximum number of slices read at once in total."""
        self._streams, self._tasks, self._clock = streams, tasks, clock
        self.concurrency = TaskConcurrency(concurrency)
        self._threads_per_task = max(1, concurrency // tasks)
        self._queues: dict[tuple[BundleKind, int | None], _Queue] = {}
        self._waiting_suspects = deque[SliceTask]()
        self._running: list[Bundle] = []
        self._numbers, self._turns = count(), count(1)
        self.suspects = Suspects()
        self.all_planned = False
        """Whether planning finds no further slice until a task ends or a commit is made."""

    @property
    def idle_tasks(self) -> int:
        """Number of further tasks that could run now."""
        return max(0, min(self.concurrency.tasks_of(self._tasks) - len(self._running), self._idle_threads))

    @property
    def _idle_threads(self) -> int:
        """Number of further slices that could be read at once within the sync's limit."""
        return self.concurrency.limit - sum(bundle.threads for bundle in self._running)

    @property
    def divisible(self) -> bool:
        """Whether a waiting slice can be read in parallel to another one."""
        waiting = self._waiting
        return waiting > 0 and waiting + sum(len(bundle.slices) for bundle in self._running) > 1

    @property
    def beginning_tasks(self) -> int:
        """Number of tasks that are about to start, as far as is known, including the one of the last dealt bundle."""
        return 1 + (min(self.idle_tasks, self._waiting) if self.all_planned else self.idle_tasks)

    @property
    def _waiting(self) -> int:
        """Number of waiting slices that may be read now."""
        waiting = ((queue, len(queue.waiting) + sum(map(len, queue.wave))) for queue in self._queues.values())
        return len(self._waiting_suspects) + sum(
            min(slices, self._free_threads(queue.stream)) for queue, slices in waiting
        )

    def grow(self, tasks: int) -> None:
        """Raise the number of concurrent tasks, unless only one may run."""
        if 1 < self._tasks < tasks:
            self._tasks, self._threads_per_task = tasks, max(1, self.concurrency.limit // tasks)

    def plan(self, seconds: float) -> bool:
        """Plan slices of all streams in turn for up to `seconds`, or until there are enough.

        Return whether there are more to plan. However slow planning is, each call plans at least one slice if there is
        one.
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
        """Whether fewer slices wait in a stream's queue than the idle tasks will read soon."""
        queue = self._queue_of(n)
        enough = queue.bundle_size * max(1, self.idle_tasks) + self.concurrency.limit
        return not self.in_wave(n) and len(queue.waiting) < min(_MOST_SLICES, enough)

    def _plan_one(self, n: int) -> bool:
        """Plan the next slice of a stream and queue it. Return False if there is none for now."""
        stream = self._streams[n]
        slice = stream.next()
        if slice is None:
            return False
        suspected = self.suspects.suspicion(slice) is not Suspicion.NONE
        waiting = self._waiting_suspects if suspected else self._queue_of(n).waiting
        waiting.append(SliceTask(next(self._numbers), n, slice, stream.attempt))
        return True

    def _queue_of(self, n: int) -> _Queue:
        """Return the queue of a stream's slices."""
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
        """Return how many more slices a stream's own limit allows now. n: its index; None for no limit."""
        if n is None:
            return sys.maxsize
        stream, running = self._streams[n].stream, [bundle.slices[0].stream for bundle in self._running]
        if stream.in_one_task and any(self._streams[other].stream.in_one_task for other in running):
            return 0
        limit = sys.maxsize if stream.max_concurrency is None else max(1, stream.max_concurrency)
        return limit - sum(bundle.threads for bundle in self._running if bundle.slices[0].stream == n)

    def plans_more_for(self, bundle: Bundle) -> bool:
        """Whether a task should be short, because more slices are being planned or more tasks may run soon."""
        few = len(bundle.slices) < self._threads_per_task and not self.all_planned
        more = self.concurrency.growing and self.concurrency.tasks_of(self._tasks) < self._tasks
        return not bundle.suspicion and (few or more)

    def next(self) -> Bundle | None:
        """Return the bundle to read in a new task; None if there is none or no further task may run."""
        if not self.idle_tasks or any(bundle.suspicion is Suspicion.ALONE for bundle in self._running):
            return None
        self._drop_obsolete()
        suspects = (planned for planned in self._waiting_suspects if self._free_threads(planned.stream) > 0)
        suspect = next(suspects, None)
        bundle = self._bundle_of_queue() if suspect is None else self._bundle_of_suspect(suspect)
        if bundle is not None:
            self._running.append(bundle)
        return bundle

    def put_back(self, bundle: Bundle) -> None:
        """Put back, to the front, the slices of a bundle whose task cannot start now."""
        self._running.remove(bundle)
        if bundle.queue is None:
            self._waiting_suspects.extendleft(reversed(bundle.slices))
        elif bundle.queue.kind is BundleKind.IN_ORDER:
            bundle.queue.wave.appendleft(bundle.slices)
        else:
            bundle.queue.waiting.extendleft(reversed(bundle.slices))

    def _bundle_of_suspect(self, planned: SliceTask) -> Bundle | None:
        """Return a suspect's own bundle; None if other tasks have to end first."""
        suspicion = self.suspects.suspicion(planned.slice)
        if suspicion is Suspicion.ALONE and self._running:
            return None
        self._waiting_suspects.remove(planned)
        return Bundle([planned], 1, suspicion=suspicion)

    def _bundle_of_queue(self) -> Bundle | None:
        """Return the next bundle, from the queue with the fewest running tasks, of these the one that waits longest.

        None if there is no bundle to read now.
        """
        ready = [queue for queue in self._queues.values() if self._is_ready(queue)]
        if not ready or (all(queue.kind is BundleKind.TO_END for queue in ready) and self._leaves_a_task()):
            return None
        queue = min(ready, key=lambda queue: (self._tasks_of(queue), queue.turn))
        tasks = 1 if self._in_one_task(queue) else min(self.idle_tasks, self._free_threads(queue.stream))
        queue.turn = next(self._turns)
        if queue.kind is BundleKind.IN_ORDER:
            if not queue.wave:
                self._start_wave(queue, tasks)
            return self._bundle(queue.wave.popleft(), queue)
        # The waiting slices are divided among all idle tasks.
        size = min(queue.bundle_size, math.ceil(len(queue.waiting) / (tasks if len(ready) == 1 else 1)))
        return self._bundle([queue.waiting.popleft() for _ in range(size)], queue)

    def _is_ready(self, queue: _Queue) -> bool:
        """Whether a new task may read from a queue now."""
        begins = bool(queue.waiting) and not (queue.kind is BundleKind.IN_ORDER and self._tasks_of(queue))
        return (begins or bool(queue.wave)) and self._free_threads(queue.stream) > 0

    def _start_wave(self, queue: _Queue, tasks: int) -> None:
        """Deal the first waiting slices to `tasks` tasks in turn, so that each gets early and late ones."""
        waiting = list(queue.waiting)
        wave, rest = waiting[: queue.bundle_size * tasks], waiting[queue.bundle_size * tasks :]
        queue.wave.extend(wave[n::tasks] for n in range(min(tasks, len(wave))))
        # Remainders of this wave's slices must come before the rest, so the rest goes back to the schedule.
        queue.waiting.clear()
        for planned in rest:
            self._streams[planned.stream].untouched(planned.slice)

    def in_wave(self, n: int) -> bool:
        """Whether a wave that contains slices of a stream is being read."""
        queue = self._queue_of(n)
        return queue.kind is BundleKind.IN_ORDER and (bool(queue.wave) or self._tasks_of(queue) > 0)

    def _leaves_a_task(self) -> bool:
        """Whether to reserve the last idle task for slices that can stop, which may be planned later."""
        can_stop = any(stream.active and stream.stops_at_pages for stream in self._streams)
        to_end = sum(bundle.queue is not None and bundle.queue.kind is BundleKind.TO_END for bundle in self._running)
        return can_stop and to_end >= max(1, self.concurrency.tasks_of(self._tasks) - 1)

    def _in_one_task(self, queue: _Queue) -> bool:
        """Whether a queue allows only one task, which gets all idle threads but one per other idle task."""
        return queue.stream is not None and self._streams[queue.stream].stream.in_one_task

    def _tasks_of(self, queue: _Queue) -> int:
        """Return the number of running tasks with slices from a queue."""
        return sum(bundle.queue is queue for bundle in self._running)

    def _bundle(self, slices: Sequence[SliceTask], queue: _Queue) -> Bundle:
        """Return a bundle of these slices, whose threads are the task's share of the idle ones.

        If some idle tasks have no slices to read, this task may use their threads to request pages ahead. It leaves
        each of them one thread, for slices that a commit may free up, or its full share if this task cannot stop
        before its slices' ends.
        """
        share = math.ceil(self._idle_threads / self.idle_tasks)
        if self._in_one_task(queue):
            share = self._idle_threads - (self.idle_tasks - 1)
        threads = min(len(slices), share)
        if self.all_planned and (others := self._waiting) < self.idle_tasks:
            reserve = self._threads_per_task if queue.kind is BundleKind.TO_END else 1
            threads = max(threads, (self._idle_threads - (self.idle_tasks - 1 - others) * reserve) // (1 + others))
        threads = min(threads, self._free_threads(queue.stream))
        return Bundle(slices, threads, min(threads, self.concurrency.learned.level), queue)

    def ended(self, bundle: Bundle, started: int, seconds: float, learned: Learned | None = None) -> None:
        """Adapt the size of bundles and the number of slices read at once to a task that has ended.

        started: number of its slices that were started. seconds: how long it took. learned: the concurrency that it
        settled on; None if unknown.
        """
        self._running.remove(bundle)
        if learned is not None:
            self.concurrency.ended(bundle.first_threads, learned, sum(other.first_threads for other in self._running))
        queue = bundle.queue
        if queue is None or bundle.handed_over:
            return
        if started < len(bundle.slices):
            # Only slightly more than it got through: slices behind a long one wait, as no other task can take them.
            queue.bundle_size = max(self._threads_per_task, started + started // 8)
        elif seconds < _BUNDLE_SECONDS and len(bundle.slices) >= queue.bundle_size:
            queue.bundle_size = min(2 * queue.bundle_size, _MOST_SLICES)

    def discard(self, bundle: Bundle) -> None:
        """Forget a bundle for which no task was started."""
        self._running.remove(bundle)

    def continue_with(self, bundle: Bundle, numbers: Collection[int], threads: int) -> Bundle:
        """Return the part of a bundle that continues after an interim result: the slices with these numbers."""
        slices = [planned for planned in bundle.slices if planned.number in numbers]
        rest = replace(bundle, slices=slices, threads=threads, first_threads=len(slices), handed_over=True)
        if slices:
            self._running.append(rest)
        return rest

    def _drop_obsolete(self) -> None:
        """Drop waiting slices of an earlier attempt at a stream, or of a stream that is no longer read."""
        self._waiting_suspects = deque(filter(self._is_current, self._waiting_suspects))
        for queue in self._queues.values():
            queue.waiting = deque(filter(self._is_current, queue.waiting))
            parts = (list(filter(self._is_current, part)) for part in queue.wave)
            queue.wave = deque(part for part in parts if part)

    def _is_current(self, planned: SliceTask) -> bool:
        stream = self._streams[planned.stream]
        return stream.active and stream.attempt == planned.attempt
