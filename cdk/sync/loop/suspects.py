"""Suspects: slices whose task died, until it is known which of them kills it.

A task that runs out of memory takes its process with it, and says nothing. Spark tries it again, gives up on the whole
job, and tells which task it was. A slice that is suspected is read in a task of its own, beside others; when one of
these dies, too, alone, with nothing else running. Who dies alone did it.
"""

from collections.abc import Sequence

from cdk.base.errors import TransientError
from cdk.base.task_map import TaskLost
from cdk.state.slice import Slice
from cdk.sync.tasks.messages import SliceTask

Bundle = list[SliceTask]

_APART, _ALONE = 1, 2


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


class Suspects:
    """The slices under suspicion, as the objects they are: one that got further is another, and free of it."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Slice, int]] = {}

    def bundles(self, pieces: Sequence[SliceTask], tasks: int) -> list[Bundle]:
        """The pieces to read now, dealt to so many tasks; those that are left out wait for their turn."""
        suspects = [(self._level(piece), piece) for piece in pieces]
        worst = max(level for level, _ in suspects)
        if worst == _ALONE:
            return [[next(piece for level, piece in suspects if level == _ALONE)]]
        if worst == _APART:
            return [[piece] for level, piece in suspects if level == _APART]
        return [list(pieces[n::tasks]) for n in range(tasks)]

    def accuse(self, bundles: Sequence[Bundle], lost: TaskLost) -> SliceTask | None:
        """Take note that a task died. The piece that has died alone, if it is one."""
        of_task = lost.task is not None and lost.task < len(bundles)
        accused = bundles[lost.task] if of_task and lost.task is not None else [p for bundle in bundles for p in bundle]
        if len(bundles) == 1 and len(accused) == 1 and self._level(accused[0]) == _ALONE:
            return accused[0]
        for piece in accused:
            self._known[id(piece.slice)] = (piece.slice, min(self._level(piece) + 1, _ALONE))
        return None

    def clear(self, slice: Slice) -> None:
        """A slice was read, some of it at least."""
        self._known.pop(id(slice), None)

    def _level(self, piece: SliceTask) -> int:
        return self._known.get(id(piece.slice), (piece.slice, 0))[1]
