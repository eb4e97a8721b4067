"""Any sequence of runs, cut anywhere, ends with a sink that shows what the source has."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from cdk.state import StaleEntityRemovalHandler, StatefulOptions, StateKey, StateLog, stateful_run
from cdk.state.handlers.entity_set import PRESENT
from cdk.state.stores.memory import MemoryStore
from tests.state.handlers.sinks import Catalog, Crash

IDS = "abcdef"
KEY = StateKey("catalog")


@dataclass(frozen=True)
class Day:
    """A run: what the source has, whether all of it is read, what the sink refuses, after how many steps it is cut."""

    source: frozenset[str]
    complete: bool = True
    stubborn: frozenset[str] = frozenset()
    cut: int | None = None


class Fuse:
    """Ends the process when it has burnt down."""

    def __init__(self) -> None:
        self.left: int | None = None

    def burn(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Crash


class FusedStore(MemoryStore):
    def __init__(self, fuse: Fuse) -> None:
        super().__init__()
        self.fuse = fuse

    def create(self, key: StateKey, seq: int, data: bytes) -> bool:
        self.fuse.burn()
        created = super().create(key, seq, data)
        self.fuse.burn()
        return created


class FusedCatalog(Catalog):
    """Also checks that nothing is removed that the source has, or that was not looked for to the end."""

    def __init__(self, fuse: Fuse) -> None:
        super().__init__()
        self.fuse = fuse
        self.day = Day(frozenset())

    def write(self, id: str) -> None:
        self.fuse.burn()
        super().write(id)

    def _done(self, what: str, ids: Sequence[str], *, shown: bool, hard: bool = False) -> list[str]:
        done = []
        for id in ids:
            self.fuse.burn()
            assert shown or (self.day.complete and id not in self.day.source), f"{what} {id}: {self.day}"
            done += super()._done(what, [id], shown=shown, hard=hard)
        self.fuse.burn()
        return done


def run(day: Day, log: StateLog, sink: FusedCatalog, fuse: Fuse, grace: int) -> None:
    """A run that remembers what it saw before it writes, and may be cut at any step."""
    sink.day, sink.stubborn, fuse.left = day, set(day.stubborn), day.cut
    options = StatefulOptions(enabled=True, fail_safe_threshold=100, allow_empty=True, grace_runs=grace)
    try:
        with stateful_run(log, options) as stateful:
            stale = StaleEntityRemovalHandler(stateful, "tables")
            for id in sorted(day.source):
                stale.add(id)
            if day.complete:
                stale.complete()
            stale.remember()
            stateful.session.commit("partial")
            for id in sorted(day.source):
                sink.write(id)
            stale.reconcile(sink)
            stateful.session.commit("final")
    except Crash:
        pass


SOURCES = st.frozensets(st.sampled_from(IDS))
DAYS = st.builds(Day, SOURCES, st.booleans(), SOURCES, st.none() | st.integers(0, 25))


@settings(max_examples=150, deadline=None)
@given(st.lists(DAYS, max_size=6), SOURCES, st.integers(0, 1))
def test_after_one_run_that_is_not_disturbed_the_sink_shows_what_the_source_has(
    days: list[Day], source: frozenset[str], grace: int
) -> None:
    fuse = Fuse()
    log, sink = StateLog(FusedStore(fuse), KEY), FusedCatalog(fuse)
    for day in days:
        run(day, log, sink, fuse, grace)
    for _ in range(1 + grace):
        run(Day(source), log, sink, fuse, grace)
    calls = len(sink.calls)
    run(Day(source), log, sink, fuse, grace)
    head = log.head()

    assert sink.shown == source
    assert len(sink.calls) == calls
    ids = log.value(head, "entities:tables").value["scopes"].get("", {}).get("ids", {}) if head else {}
    assert ids == dict.fromkeys(source, PRESENT)
