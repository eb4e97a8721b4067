"""TaskBudgets: a task's slice of each budget, where those look it up that are about to call."""

import math
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass

from cdk.base.run import setting
from cdk.rest.limits.budget_slice import BudgetSlice, TermEnded
from cdk.rest.limits.task_share import NOTHING, UNSHARED, BudgetUsage, Rates, TaskShare


class TaskBudgets:
    """A task's slice of each budget. Budgets that are alike count as one."""

    def __init__(self, share: TaskShare = UNSHARED, *, copied: bool = False) -> None:
        """copied: the task was started before with the same share, and the calls of that one are unknown."""
        self.share, self.copied = share, copied
        self._lock = threading.Lock()
        self._slices: dict[str, BudgetSlice] = {}
        self._refused = set[str]()

    def slice_of(self, budget: str, rates: Rates, heaviest: int = 1, *, renews: bool = False) -> BudgetSlice:
        """This task's slice of a budget. Raises TermEnded: it holds none, and the next task will."""
        with self._lock:
            if budget not in self._slices:
                share = self.share.of_budget(budget)
                if self.copied or not share.lanes:
                    self._refused.add(budget)
                    raise TermEnded
                known, before = share.spent.get(budget, NOTHING), share.before.get(budget, ())
                self._slices[budget] = BudgetSlice(rates, share, known, heaviest, renews=renews, before=before)
            return self._slices[budget]

    @property
    def lost(self) -> bool:
        """Whether an unknown number of calls was made with this share."""
        return self.copied and bool(self._refused)

    def spent(self) -> Mapping[str, BudgetUsage]:
        """What was spent here, by budget; also of those that it would have needed."""
        with self._lock:
            used = {budget: slice.spent() for budget, slice in self._slices.items()}
            return dict.fromkeys(self._refused, NOTHING) | used


@dataclass
class SliceTerm:
    """How long a slice waits for its next call.

    remaining: seconds until its task ends; infinite for its first call.
    resumable: nothing was requested since its last checkpoint, so that it can go on in another task.
    """

    remaining: Callable[[], float]
    resumable: bool = True


_current: ContextVar[TaskBudgets | None] = ContextVar("task_budgets", default=None)
_term: ContextVar[SliceTerm | None] = ContextVar("slice_term", default=None)


def task_budgets() -> TaskBudgets | None:
    """The budgets of the task that runs here; None where a budget is shared with no other task."""
    return _current.get()


def current_share() -> TaskShare:
    """The share of the task that runs here; the whole where there are no others."""
    mine = _current.get()
    return UNSHARED if mine is None else mine.share


def longest_wait() -> float:
    """How many seconds the slice that is read here may wait for a call, which is then the next that it waits for."""
    term = _term.get()
    return math.inf if term is None or not term.resumable else term.remaining()


def called() -> None:
    """Note that the slice that is read here has sent a request."""
    if (term := _term.get()) is not None:
        term.resumable = False


def sharing(share: TaskShare | TaskBudgets, *, copied: bool = False) -> AbstractContextManager[TaskBudgets]:
    """Let budgets in a block, and in threads that the executors start in it, keep to a share, or go on with it."""
    return setting(_current, TaskBudgets(share, copied=copied) if isinstance(share, TaskShare) else share)


def waiting(term: SliceTerm) -> AbstractContextManager[SliceTerm]:
    """Let calls in a block wait no longer than a slice may."""
    return setting(_term, term)
