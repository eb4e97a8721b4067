"""StateLog: a pipeline's state as an append-only log. A commit creates the next record if it does not exist yet."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from uuid import uuid4

from cdk.base.errors import BadState, StateConflict, StateError, TransientError
from cdk.base.times.clock import Clock, system_clock
from cdk.base.values import JsonValue, to_json
from cdk.state.log.blobs import load, new_layers, to_slot
from cdk.state.log.canonical_json import dumps_canonical
from cdk.state.log.record import RecordStatus, Slot, StateRecord, read_record
from cdk.state.log.slot_value import Frozen, StateValue
from cdk.state.log.value_check import ValueCheck
from cdk.state.stores.protocol import LogStore, StateKey

_TRIES = 3


class StateLog:
    """The records of one key in one store. Belongs to one thread; any number of other logs may use the same key.

    Correctness rests only on the store's promise that exactly one of several writers appends a given number, not on
    leases or clocks. secrets: strings that no record may contain. max_checkpoint_state_size: maximum bytes of the
    canonical text of one slot's value.
    """

    def __init__(
        self,
        store: LogStore,
        key: StateKey,
        *,
        clock: Clock = system_clock,
        secrets: Iterable[str] = (),
        max_checkpoint_state_size: int = 2**24,
    ) -> None:
        self.store, self.key, self.clock = store, key, clock
        self._values = ValueCheck(secrets, max_checkpoint_state_size)

    def head(self) -> StateRecord | None:
        """Return the newest record; None if the log is empty.

        Raises BadState: when the record is damaged or of another format, or when a record between it and the oldest is
        missing. There is no fallback to an older record, because the rows of the newest one would be read twice;
        `repair` goes back on purpose.
        """
        for _ in range(_TRIES):
            # Another run may append or remove records between the listing and the read; then both are repeated.
            numbers = self.store.numbers(self.key)
            if not numbers:
                return None
            head = self._read(numbers[-1])
            if head is not None and not (missing := _missing(head, numbers)):
                return head
            if head is not None and self.store.numbers(self.key) == numbers:
                at = self.store.address_of(self.key, missing)
                raise BadState(at, None, f"record {missing}: the log has {head.first} to {head.seq}")
        raise TransientError("the log kept changing while it was read", path=f"state of {self.key}")

    def at(self, seq: int) -> StateRecord:
        """Return record `seq`. Raises StateError: when it does not exist (any more). BadState: when it is damaged."""
        if (record := self._read(seq)) is None:
            numbers = self.store.numbers(self.key)
            numbers_text = f"{numbers[0]} to {numbers[-1]}" if numbers else "none"
            raise StateError(f"found no record {seq}, expected one of {numbers_text}", path=f"state of {self.key}")
        return record

    def history(self) -> Iterator[StateRecord]:
        """Yield all records, newest first. Raises BadState: when one is damaged, or not its successor's parent."""
        head = record = self.head()
        while record is not None and head is not None:
            yield record
            if record.seq == head.first:
                return
            child, record = record, self._read(record.seq - 1)
            if record is None:
                return  # another run has removed it meanwhile
            if record.digest != child.parent:
                where = f"{self.store.address_of(self.key, record.seq)} digest"
                raise BadState(where, record.digest, f"{child.parent}, on which record {child.seq} was built")

    def value(self, record: StateRecord, slot: str) -> StateValue:
        """Return the value of a slot of the record. Raises BadState: when it is unreadable, or not what was written."""
        return self.load(record, slot)[0]

    def load(self, record: StateRecord, slot: str) -> tuple[StateValue, bytes]:
        """Return the value of a slot of the record, and its canonical text. Raises BadState, as `value` does."""
        return load(self.store, self.key, record.slots[slot], f"{self.store.address_of(self.key, record.seq)} {slot}")

    def check(self, slot: str, value: StateValue) -> Frozen:
        """Check a value and freeze it for appending. Raises BadState, StateTooLarge and StateError, see ValueCheck."""
        return self._values.check(slot, value)

    def append(
        self,
        parent: StateRecord | None,
        slots: Mapping[str, Slot | Frozen],
        *,
        status: RecordStatus,
        run: Mapping[str, JsonValue] | None = None,
        effects: Sequence[JsonValue] = (),
        first: int | None = None,
    ) -> StateRecord:
        """Append the record after `parent` and return it.

        slots: all slots of the record; those taken from an earlier record are kept unchanged. first: the oldest record
        that is still needed; defaults to the parent's.
        Raises StateConflict: when another run appended that number; nothing was stored. TransientError: when the store
        cannot be reached, and it is unknown whether the record was stored. StateError: when `run` or `effects` contain
        a secret.
        """
        seq = parent.seq + 1 if parent else 1
        for name, fact in (("run", dict(run or {})), ("effects", list(effects))):
            self._values.secrets.refuse(dumps_canonical(fact, name), name)
        placed = self.placed(slots, seq, parent)
        record = self._record(seq, parent, placed, status=status, run=run or {}, effects=effects, first=first)
        self._create(record)
        if self._number_was_reused(record):
            self.store.drop(self.key, [seq], [])
            raise self._conflict(seq)
        return record

    def repair(self, to: int, *, run: Mapping[str, JsonValue] | None = None) -> StateRecord:
        """Append a record with the slots of record `to`, where the newest one is unreadable. The log restarts there.

        The content of the damaged records is lost, so a person who knows what became of their rows must decide this.
        Raises StateError: when there is no record `to`. BadState: when it is damaged as well. StateConflict: as
        `append`.
        """
        slots, last = self.at(to).slots, self.store.numbers(self.key)[-1]
        record = self._record(last + 1, None, slots, status="rolled_back", run=run or {}, first=last + 1)
        self._create(record)
        return record

    def _record(
        self,
        seq: int,
        parent: StateRecord | None,
        slots: Mapping[str, Slot],
        *,
        status: RecordStatus,
        run: Mapping[str, JsonValue],
        effects: Sequence[JsonValue] = (),
        first: int | None = None,
    ) -> StateRecord:
        return StateRecord(
            key=self.key,
            seq=seq,
            parent=parent.digest if parent else None,
            attempt=uuid4().hex,
            status=status,
            created_at=self.clock().isoformat(timespec="milliseconds"),
            slots=slots,
            run=run,
            effects=tuple(effects),
            first=first or (parent.first if parent else 1),
            extra=parent.extra if parent else {},
        )

    def placed(self, slots: Mapping[str, Slot | Frozen], seq: int, parent: StateRecord | None) -> dict[str, Slot]:
        """Store the blobs of new values, and return all slots for record `seq`.

        Raises StateError: when a layer contains a secret.
        """
        placed: dict[str, Slot] = {}
        for name, slot in slots.items():
            match slot:
                case Slot():
                    placed[name] = slot
                case Frozen():
                    before = parent.slots.get(name) if parent else None
                    for blob_name, layer, data in new_layers(slot, seq, before):
                        self._values.secrets.refuse(to_json(layer.texts), name)
                        self.store.put_blob(self.key, blob_name, data)
                    stored = to_slot(slot, seq, before)
                    placed[name] = stored.slot
                    if stored.blob is not None:
                        self.store.put_blob(self.key, *stored.blob)
        return placed

    def _create(self, record: StateRecord) -> None:
        """Create the record, unless an earlier attempt whose response was lost has already created it."""
        data = record.to_bytes()
        for tries_left in reversed(range(_TRIES)):
            try:
                if self.store.create(self.key, record.seq, data):
                    return
            except TransientError:
                if not tries_left:
                    raise
                continue
            stored = self._read(record.seq)
            if stored is None or stored.attempt != record.attempt:
                raise self._conflict(record.seq)
            return

    def _number_was_reused(self, record: StateRecord) -> bool:
        """Whether the number was free only because its record was removed while this run was paused and others ran.

        Old records are removed oldest first, so in that case the one before ours is missing as well. The first record
        has no predecessor; there, the next record must have ours as its parent.
        """
        if record.parent is not None:
            return self.store.read(self.key, record.seq - 1) is None
        if self.store.numbers(self.key)[-1] == record.seq:
            return False
        follower = self._read(record.seq + 1)
        return follower is None or follower.parent != record.digest

    def _read(self, seq: int) -> StateRecord | None:
        data = self.store.read(self.key, seq)
        return None if data is None else read_record(data, self.key, seq, self.store.address_of(self.key, seq))

    def _conflict(self, seq: int) -> StateConflict:
        return StateConflict(
            f"found record {seq} of another run, expected none: it moved the state of {self.key} while this one was "
            "reading. This run stored nothing more; run one at a time, then start this one again",
            path=self.store.address_of(self.key, seq),
        )


def _missing(head: StateRecord, numbers: Sequence[int]) -> int:
    """Return the first missing number of the log; 0 when it is complete."""
    present = set(numbers)
    return next((seq for seq in range(head.first, head.seq) if seq not in present), 0)
