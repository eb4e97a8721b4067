"""StateSession: what one run sees of a log, and what it adds to it.

| reads | and writes: `commit` | or `none` |
|---|---|---|
| `latest` | a normal run | a pause, a preview, a dry run |
| `ignore` | a run that starts anew, its state going on from the old | a dry run of that |
| `at:<seq>` | a run again from an earlier point | an inspection |

What is read decides what handlers see, never where the log goes on: that is after its newest record, always.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from cdk.base.errors import ConfigError, StateConflict, StateError, TransientError
from cdk.base.logs import logger
from cdk.base.values import JsonValue, Stored
from cdk.state.log.blobs import INLINE
from cdk.state.log.canonical_json import loads_canonical
from cdk.state.log.record import Slot, StateRecord
from cdk.state.log.retention import Retention
from cdk.state.log.sink_transaction import MarkedSink, SinkTransaction
from cdk.state.log.slot_value import Frozen, Kind, StateValue
from cdk.state.log.state_log import StateLog

Write: TypeAlias = Literal["commit", "none"]

_AT = "at:"


@dataclass(frozen=True, slots=True)
class Mode:
    """What a run sees and whether it writes. read: `latest`, `ignore` or `at:<seq>`; write: `commit` or `none`.

    Raises ConfigError: something else.
    """

    read: str = "latest"
    write: Write = "commit"

    def __post_init__(self) -> None:
        if self.read not in {"latest", "ignore"} and self.seq is None:
            raise ConfigError(f"found {self.read!r}, expected 'latest', 'ignore' or 'at:<number>'", path="state read")
        if self.write not in {"commit", "none"}:
            raise ConfigError(f"found {self.write!r}, expected 'commit' or 'none'", path="state write")

    @property
    def seq(self) -> int | None:
        """The record that is read, where a number says which."""
        number = self.read.removeprefix(_AT)
        return int(number) if self.read.startswith(_AT) and number.isdecimal() else None


@contextmanager
def open_session(
    log: StateLog,
    mode: Mode | None = None,
    *,
    run: Mapping[str, JsonValue] | None = None,
    retention: Retention | None = None,
    sink: MarkedSink | None = None,
    blind: bool = False,
) -> Iterator["StateSession"]:
    """A session of a run; one that writes holds the log's lease, where the store has any.

    run: facts about the run that its records say, such as its id and the connector's version; never its config.
    sink: has its rows committed by `commit`, each time with a marker. What an earlier run left between its rows and
    its record is made good now. A session that writes nothing does not look at it.
    blind: nobody reads values, so none is loaded.
    Raises StateConflict: another run holds the lease. BadState: what the run would see was damaged; it is read now,
    before anything is read from a source or written to a sink. StateError: nobody knows which state the sink's rows
    belong to.
    """
    mode = mode or Mode()
    if mode.write == "none":
        yield StateSession(log, mode, run or {}, retention or Retention())
        return
    with log.store.lease(log.key):
        landing = SinkTransaction(log, sink) if sink is not None else None
        if landing is not None:
            landing.reconcile(mode.seq, trusting=mode.read == "latest")
        yield StateSession(log, mode, run or {}, retention or Retention(), landing, blind=blind)


class StateSession:
    """Values to read, proposals to make, commits. Belongs to one thread. Made by `open_session`.

    head: the newest record of the log, as far as this session knows.
    """

    def __init__(
        self,
        log: StateLog,
        mode: Mode,
        run: Mapping[str, JsonValue],
        retention: Retention,
        landing: SinkTransaction | None = None,
        *,
        blind: bool = False,
    ) -> None:
        self._log = log
        self._transaction = landing
        self._mode = mode
        self._run = {"mode": {"read": mode.read, "write": mode.write}, **run}
        self._retention = retention
        self.head = log.head()
        base = self.head if mode.read == "latest" else None if mode.seq is None else log.at(mode.seq)
        # Texts, not values: a handler may change what it was given, and must not so change what is compared.
        self._visible = {name: _Visible(*log.load(base, name)) for name in base.slots} if base and not blind else {}
        self._stored = {name: s.text for name, s in self._visible.items()} if base is self.head else {}
        self._blind = blind
        self._proposals: dict[str, Frozen | None] = {}
        self._over = ""

    @property
    def slots(self) -> Sequence[str]:
        """The slots that handlers see, in order."""
        return sorted(self._visible)

    def value(self, slot: str) -> StateValue | None:
        """What the slot held when the session was opened, a copy; None when it had nothing to show."""
        visible = self._visible.get(slot)
        return visible.copy() if visible else None

    def read(self, slot: str, kind: Kind) -> Stored:
        """The same as a value of `kind`, in today's form; None when there is nothing to show.

        Raises BadState: it is of another kind, or of a version that this kit does not know.
        """
        value = self.value(slot)
        return None if value is None else kind.read(value, f"state of {self._log.key} {slot}")

    def propose(self, slot: str, value: StateValue) -> None:
        """Have the next commit set a slot; a later proposal replaces an earlier one. Takes a copy.

        To be called before the data it covers is committed, since it is here that a value is refused:
        BadState, StateTooLarge, StateError (a secret), each naming the slot and the place.
        """
        self._proposals[slot] = self._log.check(slot, value)

    def remove(self, slot: str) -> None:
        """Have the next commit leave a slot out; slots that nobody mentions stay."""
        self._proposals[slot] = None

    def withdraw(self, slot: str) -> None:
        """Take a proposal back: the rows that it covers did not become durable."""
        self._proposals.pop(slot, None)

    def commit(self, status: Literal["partial", "final"], effects: Sequence[JsonValue] = ()) -> StateRecord | None:
        """Append what was proposed, after the data it covers is durable; None when there is nothing to say.

        A marked sink's rows are made durable by this call. effects: what was done to sinks, such as a table's new
        version. A record is due when a slot changed, when rows wait in a marked sink, when there are effects, or when
        the newest record is partial and this is final. A session that writes nothing says None.
        Raises StateConflict: another run moved the state. TransientError: the store cannot be reached, and whether the
        record was stored is not known. After either the session commits nothing more: only a new one knows where the
        log stands. The same goes for what a marked sink raises; then no row was committed.
        """
        if self._mode.write == "none":
            return None
        if self._over:
            raise StateConflict(f"this session is over: {self._over}", path=f"state of {self._log.key}")
        changed = {name: proposal for name, proposal in self._proposals.items() if self._differs(name, proposal)}
        ends = status == "final" and self.head is not None and self.head.status == "partial"
        rows = self._transaction is not None and self._transaction.sink.pending
        if not (changed or effects or ends or rows):
            self._proposals.clear()
            return None
        record = self._append(changed, status, effects)
        self.head = record
        for name, proposal in changed.items():
            self._stored.pop(name, None)
            if proposal is not None:
                self._stored[name] = proposal.text
        self._proposals.clear()
        if status == "final":
            self._sweep(record)
        return record

    def _append(
        self, changed: Mapping[str, Frozen | None], status: Literal["partial", "final"], effects: Sequence[JsonValue]
    ) -> StateRecord:
        slots: dict[str, Slot | Frozen] = {
            **(self.head.slots if self.head else {}),
            **{n: self._based(n, f) for n, f in changed.items() if f},
        }
        for name, proposal in changed.items():
            if proposal is None:
                slots.pop(name)
        first = self._retention.first(self._log, self.head) if status == "final" and self.head else None
        try:
            if self._transaction is not None:
                slots = self._transaction.commit(self.head, slots, status=status, run=self._run, effects=effects)
            return self._log.append(self.head, slots, status=status, run=self._run, effects=effects, first=first)
        except Exception as error:
            # Proposals whose rows a sink refused must not come with the rows of others.
            if self._transaction is not None or isinstance(error, StateConflict | TransientError):
                self._over = str(error)
            raise

    def _sweep(self, record: StateRecord) -> None:
        try:
            self._retention.sweep(self._log, record)
        except (StateError, TransientError) as error:
            # The record is there, and so the commit succeeded; the next final one sweeps again.
            logger.warning("old state of %s was not removed: %s", self._log.key, error)

    def _based(self, name: str, proposal: Frozen) -> Frozen:
        base = self._stored.get(name)
        if self._blind and base is None and len(proposal.text) > INLINE and self.head and name in self.head.slots:
            base = self._log.load(self.head, name)[1]
        return replace(proposal, base=base)

    def _differs(self, name: str, proposal: Frozen | None) -> bool:
        """Whether a proposal changes what the newest record says."""
        stands = self.head.slots.get(name) if self.head else None
        if proposal is None or stands is None:
            return (proposal is None) != (stands is None)
        return proposal.digest != stands.digest


@dataclass(frozen=True, slots=True)
class _Visible:
    """A value as it was read; `copy` makes another of its text."""

    value: StateValue
    text: bytes

    def copy(self) -> StateValue:
        return replace(self.value, value=loads_canonical(self.text, "slot"))
