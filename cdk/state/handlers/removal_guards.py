"""Guards: conditions for removing anything. Used for entity sets in slots and for rows of tables."""

from collections.abc import Callable

from msgspec import Struct

from cdk.base.errors import StateError
from cdk.state.handlers.run import StatefulOptions

_OFF = 100.0


class RemovalRefused(StateError):
    """A run would remove an implausible number of entities. Nothing of the scope was removed; a person has to decide.

    path: the slot.
    """


class EntityCounts(Struct, frozen=True):
    """Figures of a scope. previous: known and not leaving; current: seen now; missing: removals, without retries."""

    previous: int
    current: int
    missing: int

    @property
    def percent(self) -> float:
        """Percentage of the known entities that would be removed."""
        return 100.0 * self.missing / self.previous if self.previous else 0.0


def refusal(scope: str, counted: EntityCounts, options: StatefulOptions, plan: Callable[[], str]) -> str:
    """Return why a person has to approve the removals of a scope; empty if no approval is needed.

    plan: returns the id of the removals, which `accept_removals` repeats to approve them.
    """
    if is_empty(counted, options):
        return (
            f"{_named(scope)}: found no entities, expected some of the {counted.previous:,} known ones; none of them "
            "was removed. Check the source and its filters; if it really is empty, set allow_empty"
        )
    if not is_too_much(counted, options) or (name := plan()) == options.accept_removals:
        return ""
    other = f" (it is {options.accept_removals!r}, which is another plan)" if options.accept_removals else ""
    return (
        f"{_named(scope)}: found {counted.missing:,} of {counted.previous:,} entities missing ({counted.percent:.1f} "
        f"%), expected at most {options.fail_safe_threshold:g} % (fail_safe_threshold); none of them was removed. "
        f"Check the source and its filters; if they really are missing, run once with accept_removals: {name}{other}"
    )


def is_too_much(counted: EntityCounts, options: StatefulOptions) -> bool:
    """Whether the removals exceed the fail-safe: both its percentage and its absolute minimum."""
    threshold = options.fail_safe_threshold
    over = threshold < _OFF and counted.percent > threshold and counted.missing > options.fail_safe_min
    return over and not is_empty(counted, options)


def is_empty(counted: EntityCounts, options: StatefulOptions) -> bool:
    """Whether a scope that had entities has none now, and `allow_empty` is not set."""
    return counted.current == 0 and counted.previous > 0 and not options.allow_empty


def _named(scope: str) -> str:
    return f"scope {scope!r}" if scope else "the set"
