"""StaleEntityRemovalHandler: removes entities from a sink that the source no longer has. It uses one `entities:` slot.

This order keeps it correct, whenever the process dies:

1. the entities known to the last run are loaded and checked, before anything is read;
2. entities are added, written and flushed; `remember` stores them as known before they are written;
3. `reconcile` stores which ids are leaving, then asks the sink to remove them, then drops the confirmed ones;
4. the caller commits.

A missing entity only counts as removed if the run proves that it read the whole scope. A scope that was interrupted,
capped, filtered or never read loses nothing; the other scopes proceed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct, field

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
    """The sink that entities were written to. Both methods must be idempotent."""

    def remove(self, ids: Sequence[str], *, hard: bool) -> Iterable[str]:
        """Remove at most 1,000 entities. Return the ids whose removal is durable.

        hard: delete them; otherwise flag them as removed. Missing ids count as removed.
        """

    def revive(self, ids: Sequence[str]) -> Iterable[str]:
        """Clear the flag of entities that are flagged as removed. Return the ids that are certainly visible."""


class ScopeReport(Struct, frozen=True):
    """What `reconcile` did in a scope. `previous`, `current` and `missing` are figures from before the guards."""

    scope: str
    previous: int
    """Number of ids that were known and not leaving."""
    current: int
    """Number of ids that the source has."""
    missing: tuple[str, ...] = ()
    """Ids to be removed, sorted."""
    removed: int = 0
    """Number of removals that the sink confirmed."""
    revived: int = 0
    """Number of revivals that the sink confirmed."""
    pending: tuple[str, ...] = ()
    """Ids whose removal the sink did not confirm; the next run retries them."""
    protected: int = 0
    """Number of ids that are missing but may not be removed."""
    skip_reason: str = ""
    """Why nothing was removed; empty if removals were allowed."""


class _Part(Struct):
    """A pass over a scope or a part of it. done: it reached its end."""

    done: bool = False


class _Scope(Struct):
    """What this run has seen of a scope."""

    present: set[str] = field(default_factory=set)
    parts: list[_Part] = field(default_factory=list)
    proved: bool = False
    flaw: str = ""

    @property
    def gap(self) -> str:
        """Why missing ids prove nothing; empty if the scope was read completely."""
        if self.flaw:
            return self.flaw
        if any(not part.done for part in self.parts):
            return "it was not read completely"
        return "" if self.proved or self.parts else "it was not reported as completely read"


class StaleEntityRemovalHandler:
    """The entities of one slot in one run. Belongs to one thread.

    name: the slot is `entities:<name>`. spared: whether an entity is never removed, for example because it has another
    owner, or a type without a removal flag. Such entities stay known.
    Raises BadState: when the slot's value is invalid.
    """

    def __init__(self, run: StatefulRun, name: str, *, spared: Callable[[str], bool] = lambda _: False) -> None:
        self.slot, self._run, self._spared = f"entities:{name}", run, spared
        path = f"state of {run.log.key} {self.slot}"
        shown = run.shown(self.slot, ENTITIES)
        self._shown = read_sets(shown, path)
        # Parsing a million ids takes a second, so identical values are parsed once.
        newest = shown if run.mode.read == "latest" else run.newest_value(self.slot, ENTITIES)
        self._first = newest is None
        self._newest = self._shown if newest is shown else read_sets(newest, path)
        self._scopes: dict[str, _Scope] = {}
        self._mentioned: set[str] = set()
        self._reconciled = False

    @property
    def known_scopes(self) -> Sequence[str]:
        """The scopes that earlier runs knew, sorted. The run must prove a scope empty that the source has dropped."""
        return sorted({*self._newest, *self._shown})

    def add(self, id: str, scope: str = "") -> None:
        """Record an entity that the source has. Call it before `reconcile`."""
        if self._reconciled:
            why = f"{self.slot}: an entity was added after `reconcile`; call it once, after everything was read"
            raise BugError(why)
        self._scope(scope).present.add(id)

    def mention(self, id: str) -> None:
        """Record an id that other entities refer to: this run does not remove it, but it does not become known."""
        self._mentioned.add(id)

    def watch(self, entities: Iterable[T], id: Callable[[T], str], scope: str = "") -> Iterator[T]:
        """Yield entities unchanged and add each; reaching the end proves that the scope, or this part, was read.

        A scope may be watched in several, possibly interleaved parts. Each part must then reach its end, and `watch`
        must have been called even for a part that is never started.
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
        """Declare that a scope was read completely, where `watch` is not used."""
        self._scope(scope).proved = True

    def incomplete(self, reason: str, scope: str = "") -> None:
        """Declare that a part of a scope was not read; this cannot be revoked."""
        self._scope(scope).flaw = reason

    def remember(self) -> None:
        """Propose all entities that were known or have been seen so far.

        If this is committed before entities are written, every entity in the sink is known, and an interrupted run
        leaves nothing behind that no later run would remove.
        """
        self._propose(self._merged(self._known()))

    def reconcile(self, sink: EntitySink) -> tuple[ScopeReport, ...]:
        """Remove and revive entities in the sink, propose the resulting sets, and return a report per scope.

        Call it once, after everything read was written and flushed: before it asks the sink, it commits a partial
        record with all of the session's proposals. The caller commits the final record. A run that stores nothing does
        not call the sink, and its reports say what would be done.
        Raises RemovalRefused: when a scope is empty or would lose too much; the others were reconciled and committed.
        """
        self._reconciled = True
        known = self._known()
        compared = {name: self._compare(name, ids) for name, ids in known.items()}
        retained_because, refused = self._judge(compared)
        asks = self._run.writes
        sets = self._merged({name: ids for name, ids in known.items() if retained_because[name]})
        sets.update({name: dict(c.ids) for name, c in compared.items() if not retained_because[name]})
        self._propose(sets)
        removals = {name: () if retained_because[name] else (*c.retried, *c.missing) for name, c in compared.items()}
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
            reports.append(ScopeReport(name, *figures, skip_reason=retained_because[name]))
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
        """Return why each scope keeps its entities (empty if it does not), and the refusals for a person to decide."""
        options = self._run.options
        retained_because = {name: self._scope(name).gap or self._run.skip_reason for name in compared}
        counts = {
            name: EntityCounts(c.previous, len(self._current(name)), len(c.missing))
            for name, c in compared.items()
            if not retained_because[name]
        }
        removed = {name: compared[name].missing for name, counted in counts.items() if is_too_much(counted, options)}
        plan = digest(canonical(removed).encode()).partition(":")[2][:12]
        refusals = {name: refusal(name, counted, options, lambda: plan) for name, counted in counts.items()}
        return retained_because | refusals, [text for text in refusals.values() if text]

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
        """Return the known ids by scope. An id that was now seen in another scope moves there, with its number."""
        sets = {name: {**self._shown.get(name, {}), **self._newest.get(name, {})} for name in self._names()}
        if len(sets) == 1:
            return sets
        everywhere = set[str]().union(*(scope.present for scope in self._scopes.values()))
        numbers = {id: number for ids in self._newest.values() for id, number in ids.items()}
        for name, known in sets.items():
            ids_of_scope = self._current(name)
            stay = {id: number for id, number in known.items() if id in ids_of_scope or id not in everywhere}
            sets[name] = stay | {id: numbers[id] for id in ids_of_scope if id not in known and id in numbers}
        return sets

    def _merged(self, known: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
        """Return the sets to store for scopes in which nothing is removed."""
        return {name: merged(ids, self._current(name), first=self._first) for name, ids in known.items()}

    def _names(self) -> list[str]:
        return sorted({*self._newest, *self._shown, *self._scopes})

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
        """Call the sink in batches, and return the ids that it confirmed."""
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
        logger.info("%s: removed %d, %d still to confirm", what, report.removed, len(report.pending))
    else:
        logger.info("%s: would remove %d", what, len(report.missing))
