"""StaleEntityRemovalHandler: removes from a sink what the source has no more, one `entities:` slot.

The order that makes it right, whenever the process dies:

1. what the last run knew is loaded and checked, before anything is read;
2. entities are added, written and flushed; `remember` makes them known before they are written;
3. `reconcile` stores which ids are leaving, then asks the sink, then drops those whose removal the sink confirmed;
4. the caller commits.

Absence means something only where it was proved that all was read. A scope that was cut, capped, selected from or
never looked at loses nothing; the others go on.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from cdk.base.errors import BugError
from cdk.base.logs import logger
from cdk.base.values import canonical
from cdk.state.handlers.entity_set import ENTITIES, LEAVING, PRESENT, Compared, compare, merged, read_sets, write_sets
from cdk.state.handlers.removal_guards import EntityCounts, RemovalRefused, is_too_much, refusal
from cdk.state.handlers.run import StatefulRun
from cdk.state.log.canonical_json import digest

T = TypeVar("T")

_BATCH = 1000


class EntitySink(Protocol):
    """Where entities were written. Both methods may be called again with the same ids, and must not mind."""

    def remove(self, ids: Sequence[str], *, hard: bool) -> Iterable[str]:
        """Remove entities, at most 1,000 at a time; returns the ids whose removal is durable.

        hard: delete; otherwise flag as removed. Ids that are not there count as removed.
        """

    def revive(self, ids: Sequence[str]) -> Iterable[str]:
        """Take the flag off entities that have it; returns the ids that are shown for sure."""


@dataclass(frozen=True)
class ScopeReport:
    """What was done in a scope. Figures are those from before the guards."""

    scope: str
    previous: int
    """Ids that were known and not leaving."""
    current: int
    """Ids that the source has."""
    missing: tuple[str, ...] = ()
    """Ids that were to be removed, in order."""
    removed: int = 0
    """How many removals the sink confirmed."""
    revived: int = 0
    """How many ids the sink shows again, as it confirmed."""
    pending: tuple[str, ...] = ()
    """Ids that it did not confirm; the next run asks again."""
    protected: int = 0
    """Ids that are missing and may not be removed."""
    skip_reason: str = ""
    """Why nothing was removed; empty when it was."""


@dataclass
class _Part:
    """A pass over a scope, or a part of it; done once it came to its end."""

    done: bool = False


@dataclass
class _Scope:
    """What this run says of a scope."""

    present: set[str] = field(default_factory=set)
    parts: list[_Part] = field(default_factory=list)
    proved: bool = False
    flaw: str = ""

    @property
    def gap(self) -> str:
        """Why absence proves nothing; empty when it does."""
        if self.flaw:
            return self.flaw
        if any(not part.done for part in self.parts):
            return "it was not read to its end"
        return "" if self.proved or self.parts else "nothing says that all of it was read"


class StaleEntityRemovalHandler:
    """The entities of one slot in one run. Belongs to one thread.

    name: the slot is `entities:<name>`. spared: entities that are never removed, such as those of other owners or of
    types that carry no flag; they stay known.
    Raises BadState: what the last run left cannot be read.
    """

    def __init__(self, run: StatefulRun, name: str, *, spared: Callable[[str], bool] = lambda _: False) -> None:
        self.slot = f"entities:{name}"
        self._run = run
        self._spared = spared
        path = f"state of {run.log.key} {self.slot}"
        shown = run.shown(self.slot, ENTITIES)
        self._shown = read_sets(shown, path)
        # Reading a million ids takes a second: what is the same is read once.
        standing = shown if run.mode.read == "latest" else run.standing(self.slot, ENTITIES)
        self._first = standing is None
        self._standing = self._shown if standing is shown else read_sets(standing, path)
        self._scopes: dict[str, _Scope] = {}
        self._mentioned: set[str] = set()
        self._reconciled = False

    @property
    def known_scopes(self) -> Sequence[str]:
        """The scopes that earlier runs knew, in order; one that the source dropped has to be proved empty."""
        return sorted({*self._standing, *self._shown})

    def add(self, id: str, scope: str = "") -> None:
        """Note an entity that the source has. Before `reconcile`."""
        if self._reconciled:
            raise BugError(f"{self.slot}: an entity was added after `reconcile`; reconcile once, when all was read")
        self._scope(scope).present.add(id)

    def mention(self, id: str) -> None:
        """Note an id that others refer to: it is not removed in this run, nor does it become known."""
        self._mentioned.add(id)

    def watch(self, entities: Iterable[T], id: Callable[[T], str], scope: str = "") -> Iterator[T]:
        """Pass entities on and see each; the end of `entities` proves that the scope, or this part of it, was read.

        A scope may be watched in parts, one among the other: then each of them has to come to its end, and a part that
        was never begun must have been named all the same.
        """
        part = _Part()
        self._scope(scope).parts.append(part)

        def passing() -> Iterator[T]:
            for entity in entities:
                self.add(id(entity), scope)
                yield entity
            part.done = True

        return passing()

    def complete(self, scope: str = "") -> None:
        """Say that all of a scope was seen, where `watch` cannot tell."""
        self._scope(scope).proved = True

    def incomplete(self, reason: str, scope: str = "") -> None:
        """Say that something of a scope was not read; nothing takes this back."""
        self._scope(scope).flaw = reason

    def remember(self) -> None:
        """Propose what was known and what was seen so far.

        Committed before entities are written, it makes sure that whatever lies in the sink is known, so that a run
        that is cut leaves nothing there which nobody will ever remove.
        """
        self._propose(self._merged(self._known()))

    def reconcile(self, sink: EntitySink) -> tuple[ScopeReport, ...]:
        """Decide, have the sink remove and revive, and propose what is known then; a report for each scope.

        To be called once, when what was read has been written and flushed: it commits a partial record, with all that
        the session was proposed, before it asks the sink. The caller commits the final one. A run that stores nothing
        asks the sink for nothing, and its report says what would be done.
        Raises RemovalRefused: a scope is empty or would lose too much; the other scopes were reconciled, and committed.
        """
        self._reconciled = True
        known = self._known()
        compared = {name: self._compare(name, ids) for name, ids in known.items()}
        kept_because, refused = self._judge(compared)
        asks = self._run.writes
        sets = self._merged({name: ids for name, ids in known.items() if kept_because[name]})
        sets.update({name: dict(c.ids) for name, c in compared.items() if not kept_because[name]})
        self._propose(sets)
        removals = {name: () if kept_because[name] else (*c.retried, *c.missing) for name, c in compared.items()}
        if asks and (refused or any(removals.values()) or any(c.revived for c in compared.values())):
            self._run.session.commit("partial")
        reports = []
        for name, c in compared.items():
            back = self._confirmed(c.revived, sink.revive) if asks else set()
            away = self._confirmed(removals[name], self._remove(sink)) if asks else set()
            sets[name] = {id: PRESENT if id in back else number for id, number in sets[name].items() if id not in away}
            pending = tuple(sorted(id for id, number in sets[name].items() if number == LEAVING))
            removable = tuple(sorted((*c.retried, *c.missing)))
            figures = (c.previous, len(self._current(name)), removable, len(away), len(back), pending, c.protected)
            reports.append(ScopeReport(name, *figures, skip_reason=kept_because[name]))
        if any(report.removed or report.revived for report in reports):
            self._propose(sets)
        for report in reports:
            _log(self.slot, report, wrote=asks)
        if refused:
            if asks:
                self._run.session.commit("partial")
            raise RemovalRefused("; ".join(refused), path=self.slot)
        return tuple(reports)

    def _judge(self, compared: Mapping[str, Compared]) -> tuple[Mapping[str, str], Sequence[str]]:
        """Why each scope keeps what it has, if it does, and what a person has to look at."""
        options = self._run.options
        kept_because = {name: self._scope(name).gap or self._run.skip_reason for name in compared}
        counts = {
            name: EntityCounts(c.previous, len(self._current(name)), len(c.missing))
            for name, c in compared.items()
            if not kept_because[name]
        }
        removed = {name: compared[name].missing for name, counted in counts.items() if is_too_much(counted, options)}
        plan = digest(canonical(removed).encode()).partition(":")[2][:12]
        refusals = {name: refusal(name, counted, options, lambda: plan) for name, counted in counts.items()}
        return kept_because | refusals, [text for text in refusals.values() if text]

    def _compare(self, name: str, known: Mapping[str, int]) -> Compared:
        return compare(
            known,
            self._current(name),
            comparable=self._shown.get(name, {}).keys(),
            first=self._first,
            grace=self._run.options.grace_runs,
            spared=lambda entity: entity in self._mentioned or self._spared(entity),
        )

    def _known(self) -> dict[str, dict[str, int]]:
        """What is known, by scope. An id that was seen in another scope has moved there, with its number."""
        sets = {name: {**self._shown.get(name, {}), **self._standing.get(name, {})} for name in self._names()}
        if len(sets) == 1:
            return sets
        everywhere = set[str]().union(*(scope.present for scope in self._scopes.values()))
        numbers = {id: number for ids in self._standing.values() for id, number in ids.items()}
        for name, known in sets.items():
            ids_of_scope = self._current(name)
            stay = {id: number for id, number in known.items() if id in ids_of_scope or id not in everywhere}
            sets[name] = stay | {id: numbers[id] for id in ids_of_scope if id not in known and id in numbers}
        return sets

    def _merged(self, known: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
        """What is to be remembered where nothing is removed."""
        return {name: merged(ids, self._current(name), first=self._first) for name, ids in known.items()}

    def _names(self) -> list[str]:
        return sorted({*self._standing, *self._shown, *self._scopes})

    def _scope(self, name: str) -> _Scope:
        return self._scopes.setdefault(name, _Scope())

    def _current(self, name: str) -> set[str]:
        return self._scope(name).present

    def _propose(self, sets: dict[str, dict[str, int]]) -> None:
        nonempty = {name: ids for name, ids in sets.items() if ids}
        self._run.session.propose(self.slot, ENTITIES.of(write_sets(nonempty)))

    def _remove(self, sink: EntitySink) -> Callable[[Sequence[str]], Iterable[str]]:
        hard = self._run.options.removal == "hard"
        return lambda ids: sink.remove(ids, hard=hard)

    @staticmethod
    def _confirmed(ids: Sequence[str], request: Callable[[Sequence[str]], Iterable[str]]) -> set[str]:
        """The ids that the sink confirmed, of those that it was asked for."""
        confirmed: set[str] = set()
        for i in range(0, len(ids), _BATCH):
            batch = ids[i : i + _BATCH]
            confirmed.update(set(request(batch)).intersection(batch))
        return confirmed


def _log(slot: str, report: ScopeReport, *, wrote: bool) -> None:
    what = f"{slot} {report.scope}".rstrip()
    if report.skip_reason:
        logger.info("%s: nothing was removed: %s", what, report.skip_reason)
    elif wrote:
        logger.info("%s: removed %d, %d to ask for again", what, report.removed, len(report.pending))
    else:
        logger.info("%s: would remove %d", what, len(report.missing))
