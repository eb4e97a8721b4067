"""StatefulRun: one run, as slot handlers see it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from msgspec import Struct

from cdk.base.values import JsonValue, Stored
from cdk.state.handlers.options import StatefulOptions
from cdk.state.log.retention import Retention
from cdk.state.log.session import Mode, StateSession, open_session
from cdk.state.log.slot_value import Kind
from cdk.state.log.state_log import StateLog
from cdk.state.stores.memory import MemoryStore


class StatefulRun(Struct, frozen=True):
    """A session with its log, its mode and the user's options. Made by `stateful_run`."""

    log: StateLog
    session: StateSession
    mode: Mode
    options: StatefulOptions

    @property
    def writes(self) -> bool:
        """Whether the run may change anything durable: the state, or entities in a sink."""
        return self.mode.write == "commit"

    @property
    def skip_reason(self) -> str:
        """Why this run may not remove anything; empty if it may."""
        if not self.options.enabled:
            return "stateful_ingestion.enabled is false"
        if self.mode.read == "ignore":
            return "the run ignores the saved state"
        return "" if self.options.remove_stale_metadata else "remove_stale_metadata is false"

    def shown(self, slot: str, kind: Kind) -> Stored:
        """Return the value of a slot that the run may compare with; None if there is none. Raises BadState."""
        return self.session.read(slot, kind)

    def newest_value(self, slot: str, kind: Kind) -> Stored:
        """Return a slot's value in the newest record, regardless of the mode: a run that ignores the state keeps it.

        Raises BadState.
        """
        if self.mode.read == "latest":
            return self.session.read(slot, kind)
        head = self.session.head
        if head is None or slot not in head.slots:
            return None
        return kind.read(self.log.value(head, slot), f"state of {self.log.key} {slot}")


@contextmanager
def stateful_run(
    log: StateLog,
    options: StatefulOptions,
    *,
    preview: bool = False,
    mode: Mode | None = None,
    run: Mapping[str, JsonValue] | None = None,
    retention: Retention | None = None,
) -> Iterator[StatefulRun]:
    """Open a run with these options. All values that it can see are read and checked before the block starts.

    preview: the run reports what it would do, but neither stores nor removes anything. mode: overrides the mode of the
    options, for example to rerun from an earlier record.
    Raises StateConflict: when another run holds the lease. BadState: when a value that the run can see is damaged.
    """
    mode = mode if mode is not None and options.enabled else options.mode(preview=preview)
    log = log if options.enabled else StateLog(MemoryStore(), log.key, clock=log.clock)
    with open_session(log, mode, run=run, retention=retention) as session:
        yield StatefulRun(log, session, mode, options)
