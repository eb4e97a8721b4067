"""StatefulRun: one run, as the handlers of slots see it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from cdk.base.values import JsonValue, Stored
from cdk.state.handlers.options import StatefulOptions
from cdk.state.log.retention import Retention
from cdk.state.log.session import Mode, StateSession, open_session
from cdk.state.log.slot_value import Kind
from cdk.state.log.state_log import StateLog
from cdk.state.stores.memory import MemoryStore


@dataclass(frozen=True, slots=True)
class StatefulRun:
    """A session, the mode it was opened in, and what people want. Made by `stateful_run`."""

    log: StateLog
    session: StateSession
    mode: Mode
    options: StatefulOptions

    @property
    def writes(self) -> bool:
        """Whether anything may last: state, and deletes in a sink."""
        return self.mode.write == "commit"

    @property
    def skip_reason(self) -> str:
        """Why this run removes nothing, whatever it finds; empty when it may."""
        if not self.options.enabled:
            return "stateful_ingestion.enabled is false"
        if self.mode.read == "ignore":
            return "the run ignores what was known"
        return "" if self.options.remove_stale_metadata else "remove_stale_metadata is false"

    def shown(self, slot: str, kind: Kind) -> Stored:
        """What the run may compare itself with; None: nothing. Raises BadState."""
        return self.session.read(slot, kind)

    def standing(self, slot: str, kind: Kind) -> Stored:
        """What the log says now, whatever the run may see: a run that ignores the state forgets nothing.

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
    """A run of these options; what it will see has been read and checked when it begins.

    preview: the run shows what it would do, and neither stores nor removes anything. mode: instead of the options'
    own, such as a run again from an earlier record.
    Raises StateConflict: another run holds the lease. BadState: what the run would see was damaged.
    """
    mode = mode if mode is not None and options.enabled else options.mode(preview=preview)
    log = log if options.enabled else StateLog(MemoryStore(), log.key, clock=log.clock)
    with open_session(log, mode, run=run, retention=retention) as session:
        yield StatefulRun(log, session, mode, options)
