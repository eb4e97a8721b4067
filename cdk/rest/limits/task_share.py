"""TaskShare: one task's part of what an API allows, where several tasks of a sync read from it at once.

A limit of `c` calls in any stretch of `p` seconds is `c` places, each free again `p` after it was taken. The places are
dealt out to lanes in turn, and a task leases some of the lanes for as long as it runs; no task takes a place of
another's lane, so all tasks together keep to the limit without a word between them. Where there are more lanes than
places, the lanes take turns: calls are then spread evenly, each at a moment that belongs to one lane.

Moments are seconds since 1970, by the clocks of the machines: these may differ by little against the stretches of a
budget.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

Rates: TypeAlias = Sequence[tuple[int, float]]
"""Limits and their stretches in seconds; all hold at once. None: nothing is limited but by what the API reports."""


@dataclass(frozen=True)
class BudgetUsage:
    """What is known of a budget."""

    calls: tuple[float, ...] = ()
    """When calls were allowed, oldest first."""
    closed: float = 0.0
    """The API allows no call before this moment."""
    renewed: float = 0.0
    """Calls before this moment no longer count, for the API began to count anew."""
    stretch: float = 0.0
    """For how many seconds a call counts."""
    limit: int = 0
    """The largest of its limits."""
    lanes: int = 0
    """How many lanes may have a place each; 0 where they take turns, and may be any number."""
    used: float = field(default=0.0, compare=False)
    """Which part of what it was allowed a task has used."""

    def __add__(self, other: "BudgetUsage") -> "BudgetUsage":
        renewed = max(self.renewed, other.renewed)
        calls = tuple(sorted(at for at in (*self.calls, *other.calls) if at >= renewed))
        closed, stretch = max(self.closed, other.closed), max(self.stretch, other.stretch)
        limit, lanes = max(self.limit, other.limit), max(self.lanes, other.lanes)
        return BudgetUsage(calls, closed, renewed, stretch, limit, lanes)


@dataclass(frozen=True)
class TaskShare:
    """Which of how many lanes a task holds, and what was used before it."""

    lanes: tuple[int, ...] = (0,)
    """Its lanes, ascending."""
    of: int = 1
    """How many lanes there are."""
    divided: float = 0.0
    """When the lanes were divided; the same for all tasks that run at once."""
    spent: Mapping[str, BudgetUsage] = field(default_factory=dict)
    """What is known of these lanes, by budget."""
    before: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The calls that had been made on any lane when the lanes were divided, by budget."""
    requests: int | None = None
    """How many requests it may send in all; None: any number."""
    lost: float = 0.0
    """The last moment at which a task may have called on these lanes that died, and brought no account of it."""
    named: Mapping[str, tuple[tuple[int, ...], int]] = field(default_factory=dict)
    """Its lanes of budgets that were known when it began, and how many those have, in place of `lanes` and `of`."""

    def part(self, total: int) -> int:
        """This task's part of a whole number: the parts of all lanes are the whole, and differ by one at most."""
        return sum(total // self.of + (lane < total % self.of) for lane in self.lanes)

    def of_budget(self, budget: str) -> "TaskShare":
        """The share of one budget. Without a lane: the task must not call."""
        lanes, of = self.named.get(budget, (self.lanes, self.of))
        return replace(self, lanes=lanes, of=of, lost=0.0 if budget in self.named else self.lost)

    @property
    def fraction(self) -> float:
        """This task's part of everything."""
        return len(self.lanes) / self.of


UNSHARED = TaskShare()
"""The share of a process that shares with none."""
NOTHING = BudgetUsage()
