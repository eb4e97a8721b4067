"""TaskBudgets: a task's slice of each budget, which code that is about to call looks up here."""

import math
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar

from msgspec import Struct

from cdk.base.run import setting
from cdk.rest.limits.budget_slice import BudgetSlice, TermEnded
from cdk.rest.limits.task_share import NOTHING, UNSHARED, BudgetUsage, Rates, TaskShare


class TaskBudgets:
    """A task's slice of each budget. Budgets with equal settings count as one."""

    def __init__(self, share: TaskShare = UNSHARED, *, copied: bool = False) -> None:
        """copied: whether the task was started before with the same share, so that those calls are unknown."""
        self.share, self.copied = share, copied
        self._lock = threading.Lock()
        self._slices: dict[str, BudgetSlice] = {}
        self._refused = set[str]()

    def slice_of(self, budget: str, rates: Rates, heaviest: int = 1, *, fixed_window: bool = False) -> BudgetSlice:
        """Return this task's slice of a budget. Raises TermEnded: when it has no lanes, which the next task will."""
        with self._lock:
            if budget not in self._slices:
                share = self.share.of_budget(budget)
                if self.copied or not share.lanes:
                    self._refused.add(budget)
                    raise TermEnded
                known, before = share.spent.get(budget, NOTHING), share.before.get(budget, ())
                self._slices[budget] = BudgetSlice(
                    rates, share, known, heaviest, fixed_window=fixed_window, before=before
                )
            return self._slices[budget]

    @property
    def lost(self) -> bool:
        """Whether an unknown number of calls was made with this share, by an earlier copy of the task."""
        return self.copied and bool(self._refused)

    def usage(self) -> Mapping[str, BudgetUsage]:
        """Return the task's usage by budget, including budgets that it needed but had no lanes of."""
        with self._lock:
            used = {budget: slice.usage() for budget, slice in self._slices.items()}
            return dict.fromkeys(self._refused, NOTHING) | used


class SliceTerm(Struct):
    """How long a slice may wait for its next call.

    remaining: returns the seconds until its task ends; infinite for its first call.
    resumable: whether nothing was requested since its last checkpoint, so that it can resume in another task.
    """

    remaining: Callable[[], float]
    resumable: bool = True


_current: ContextVar[TaskBudgets | None] = ContextVar("task_budgets", default=None)
_term: ContextVar[SliceTerm | None] = ContextVar("slice_term", default=None)


def task_budgets() -> TaskBudgets | None:
    """Return the budgets of the current task; None if it shares no budget with other tasks."""
    return _current.get()


def current_share() -> TaskShare:
    """Return the share of the current task; the whole if there are no other tasks."""
    mine = _current.get()
    return UNSHARED if mine is None else mine.share


def max_wait_seconds() -> float:
    """Return how many seconds the current slice may wait for its next call."""
    term = _term.get()
    return math.inf if term is None or not term.resumable else term.remaining()


def note_call() -> None:
    """Record that the current slice has sent a request, so that it is no longer resumable here."""
    if (term := _term.get()) is not None:
        term.resumable = False


def sharing(share: TaskShare | TaskBudgets, *, copied: bool = False) -> AbstractContextManager[TaskBudgets]:
    """Make budgets in a block, and in threads that executors start in it, keep to a share, or to earlier budgets."""
    return setting(_current, TaskBudgets(share, copied=copied) if isinstance(share, TaskShare) else share)


def limiting_waits(term: SliceTerm) -> AbstractContextManager[SliceTerm]:
    """Limit how long calls in a block wait to what their slice may wait."""
    return setting(_term, term)
