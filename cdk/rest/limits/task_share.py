"""TaskShare: one task's part of what an API allows, when several tasks of a sync read from it at the same time.

A limit of `c` calls in any `p` seconds is modelled as `c` places, each free again `p` seconds after it was taken. The
places are dealt to lanes in turn, and a task leases some of the lanes while it runs. No task takes a place of another
task's lane, so all tasks together keep the limit without communicating. If there are more lanes than places, the lanes
take turns: calls are then spread evenly over time, and each turn belongs to one lane.

Times are seconds since 1970, by the clocks of the machines, which must differ only little compared to the periods of a
budget.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

Rates: TypeAlias = Sequence[tuple[int, float]]
"""Limits and their periods in seconds; all apply at once. Empty: only what the API reports is a limit."""


class BudgetUsage(Struct, frozen=True):
    """The known usage of a budget."""

    calls: tuple[float, ...] = ()
    """The times at which calls were allowed, oldest first."""
    closed: float = 0.0
    """The API allows no calls before this time."""
    renewed: float = 0.0
    """Calls before this time no longer count, because the API's limit was reset."""
    period_seconds: float = 0.0
    """How many seconds a call counts."""
    limit: int = 0
    """The largest of its limits."""
    lanes: int = 0
    """The maximum number of lanes with a place each; 0 if they take turns, so that there may be any number."""
    used: float = 0.0
    """The fraction of its allowance that a task has used."""

    def __add__(self, other: "BudgetUsage") -> "BudgetUsage":
        renewed = max(self.renewed, other.renewed)
        calls = tuple(sorted(at for at in (*self.calls, *other.calls) if at >= renewed))
        closed, period_seconds = max(self.closed, other.closed), max(self.period_seconds, other.period_seconds)
        limit, lanes = max(self.limit, other.limit), max(self.lanes, other.lanes)
        return BudgetUsage(calls, closed, renewed, period_seconds, limit, lanes)


class TaskShare(Struct, frozen=True):
    """The lanes that a task holds, and their usage before the task."""

    lanes: tuple[int, ...] = (0,)
    """Its lanes, in ascending order."""
    lane_count: int = 1
    """The total number of lanes."""
    divided: float = 0.0
    """When the lanes were divided; equal for all tasks that run at the same time."""
    spent: Mapping[str, BudgetUsage] = field(default_factory=dict)
    """The known usage of these lanes, by budget."""
    before: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The calls on any lane before the lanes were divided, by budget."""
    requests: int | None = None
    """How many requests the task may send in total; None for any number."""
    lost: float = 0.0
    """The last time at which a task that died without reporting its usage may have called on these lanes."""
    named: Mapping[str, tuple[tuple[int, ...], int]] = field(default_factory=dict)
    """By budget, if it was known when the task started: its lanes and their total, as `lanes` and `lane_count`."""

    def part(self, total: int) -> int:
        """Return this task's part of an integer. The parts of all lanes add up to it, and differ by at most one."""
        return sum(total // self.lane_count + (lane < total % self.lane_count) for lane in self.lanes)

    def of_budget(self, budget: str) -> "TaskShare":
        """Return the share of one budget. If it has no lanes, the task must not call."""
        lanes, lane_count = self.named.get(budget, (self.lanes, self.lane_count))
        return replace(self, lanes=lanes, lane_count=lane_count, lost=0.0 if budget in self.named else self.lost)

    @property
    def fraction(self) -> float:
        """This task's fraction of the whole."""
        return len(self.lanes) / self.lane_count


UNSHARED = TaskShare()
"""The share of a process that shares its budgets with no other."""
NOTHING = BudgetUsage()
