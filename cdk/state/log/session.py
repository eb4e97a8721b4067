"""StateSession: one run's view of a log, and what the run appends to it.

| read | write: `commit` | write: `none` |
|---|---|---|
| `latest` | a normal run | a pause, a preview, a dry run |
| `ignore` | a run that starts anew, appending to the existing log | a dry run of that |
| `at:<seq>` | a rerun from an earlier point | an inspection |

`read` only decides what handlers see. New records are always appended after the newest one.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

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


class Mode(Struct, frozen=True):
    """Which state a run sees and whether it writes. read: `latest`, `ignore` or `at:<seq>`; write: `commit` or `none`.

    Raises ConfigError: when a value is anything else.
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
        """Number of the record to read with `at:<seq>`; None in the other modes."""
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
    """Open the session of a run. A session that writes holds the log's lease, where the store supports leases.

    run: facts about the run to store in its records, such as its id and the connector's version; never its config.
    sink: a marked sink, whose rows `commit` commits with a marker. If an earlier run died between committing its rows
    and appending the record, the record is appended now. A session that writes nothing ignores the sink.
    blind: the caller reads no values, so none is loaded.
    Raises StateConflict: when another run holds the lease. BadState: when a value that the run can see is damaged; all
    are read here, before anything is read from a source or written to a sink. StateError: when no record matches the
    sink's marker.
    """
    mode = mode or Mode()
    if mode.write == "none":
        yield StateSession(log, mode, run or {}, retention or Retention())
        return
    with log.store.lease(log.key):
        transaction = SinkTransaction(log, sink) if sink is not None else None
        if transaction is not None:
            transaction.reconcile(mode.seq, trusting=mode.read == "latest")
        yield StateSession(log, mode, run or {}, retention or Retention(), transaction, blind=blind)


class StateSession:
    """Reads the values of slots, collects proposals and commits them. Belongs to one thread. Made by `open_session`.

    head: the newest record of the log that this session knows.
    """

    def __init__(
        self,
        log: StateLog,
        mode: Mode,
        run: Mapping[str, JsonValue],
        retention: Retention,
        transaction: SinkTransaction | None = None,
        *,
        blind: bool = False,
    ) -> None:
        self._log = log
        self._transaction = transaction
        self._mode = mode
        self._run = {"mode": {"read": mode.read, "write": mode.write}, **run}
        self._retention = retention
        self.head = log.head()
        base = self.head if mode.read == "latest" else None if mode.seq is None else log.at(mode.seq)
        # Texts instead of values: a handler may modify the value it received, which must not affect comparisons.
        self._visible = {name: log.load(base, name) for name in base.slots} if base and not blind else {}
        self._stored = {name: text for name, (_, text) in self._visible.items()} if base is self.head else {}
        self._blind = blind
        self._proposals: dict[str, Frozen | None] = {}
        self._over = ""

    @property
    def slots(self) -> Sequence[str]:
        """Names of the slots that handlers see, sorted."""
        return sorted(self._visible)

    def value(self, slot: str) -> StateValue | None:
        """Return a copy of a slot's value at the time the session was opened; None if the run sees no value."""
        if slot not in self._visible:
            return None
        value, text = self._visible[slot]
        return replace(value, value=loads_canonical(text, "slot"))

    def read(self, slot: str, kind: Kind) -> Stored:
        """Return a slot's value, read as the current version of `kind`; None if the run sees no value.

        Raises BadState: when it is of another kind, or of a version that this kit does not know.
        """
        value = self.value(slot)
        return None if value is None else kind.read(value, f"state of {self._log.key} {slot}")

    def propose(self, slot: str, value: StateValue) -> None:
        """Set a slot with the next commit; a later proposal replaces an earlier one. Copies the value.

        Call it before committing the data that the value covers, because this is where a value is refused.
        Raises BadState, StateTooLarge and StateError (a secret), each naming the slot and the path.
        """
        self._proposals[slot] = self._log.check(slot, value)

    def remove(self, slot: str) -> None:
        """Remove a slot with the next commit. Slots without a proposal stay unchanged."""
        self._proposals[slot] = None

    def withdraw(self, slot: str) -> None:
        """Withdraw a proposal whose rows did not become durable."""
        self._proposals.pop(slot, None)

    def commit(self, status: Literal["partial", "final"], effects: Sequence[JsonValue] = ()) -> StateRecord | None:
        """Append the proposals as a record and return it; None if no record is due.

        The data that they cover must be durable, except for the rows of a marked sink, which this call commits.
        effects: what was done to sinks, such as a table's new version. A record is due when a slot changed, when rows
        wait in a marked sink, when there are effects, or when the newest record is partial and this one is final. A
        session that writes nothing always returns None.
        Raises StateConflict: when another run moved the state. TransientError: when the store cannot be reached, and it
        is unknown whether the record was stored. After either, the session refuses further commits: only a new session
        knows the state of the log. The same applies to errors of a marked sink, after which no row was committed.
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
            # Proposals whose rows a sink refused must not be committed with later rows.
            if self._transaction is not None or isinstance(error, StateConflict | TransientError):
                self._over = str(error)
            raise

    def _sweep(self, record: StateRecord) -> None:
        try:
            self._retention.sweep(self._log, record)
        except (StateError, TransientError) as error:
            # The record is stored, so the commit has succeeded; the next final one sweeps again.
            logger.warning("old state of %s was not removed: %s", self._log.key, error)

    def _based(self, name: str, proposal: Frozen) -> Frozen:
        base = self._stored.get(name)
        if self._blind and base is None and len(proposal.text) > INLINE and self.head and name in self.head.slots:
            base = self._log.load(self.head, name)[1]
        return replace(proposal, base=base)

    def _differs(self, name: str, proposal: Frozen | None) -> bool:
        """Whether a proposal differs from the newest record."""
        stands = self.head.slots.get(name) if self.head else None
        if proposal is None or stands is None:
            return (proposal is None) != (stands is None)
        return proposal.digest != stands.digest
