"""StateLog: a pipeline's state, as an append-only log. A commit creates the next record if it is absent."""

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
from cdk.state.stores.key import StateKey
from cdk.state.stores.protocol import LogStore

_TRIES = 3


class StateLog:
    """The records of one key in one store. Belongs to one thread; any number of others may use the same key.

    That exactly one of several writers appends a number is the store's promise, and all that this rests on: not
    leases, not clocks. secrets: texts that no record may contain. max_checkpoint_state_size: bytes that the canonical
    text of one slot's value may have.
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
        self.store = store
        self.key = key
        self.clock = clock
        self._values = ValueCheck(secrets, max_checkpoint_state_size)

    def head(self) -> StateRecord | None:
        """The newest record; None when there is none.

        Raises BadState: it was damaged, is of another format, or a record between the oldest and it is missing. It is
        never passed over for an older one: rows that it stands for would come twice (`repair` goes back on purpose).
        """
        for _ in range(_TRIES):
            # Another run may append, or remove old records, between the list and the read: then both are taken again.
            numbers = self.store.numbers(self.key)
            if not numbers:
                return None
            head = self._read(numbers[-1])
            if head is not None and not (missing := _missing(head, numbers)):
                return head
            if head is not None and self.store.numbers(self.key) == numbers:
                at = self.store.address_of(self.key, missing)
                raise BadState(at, None, f"record {missing}: the log has {head.first} to {head.seq}")
        raise TransientError("the log was changed again and again while it was read", path=f"state of {self.key}")

    def at(self, seq: int) -> StateRecord:
        """Record `seq`. Raises StateError: the log has none, or no more. BadState: it was damaged."""
        if (record := self._read(seq)) is None:
            numbers = self.store.numbers(self.key)
            numbers_text = f"{numbers[0]} to {numbers[-1]}" if numbers else "none"
            raise StateError(f"found no record {seq}, expected one of {numbers_text}", path=f"state of {self.key}")
        return record

    def history(self) -> Iterator[StateRecord]:
        """All records, newest first. Raises BadState: one is damaged, or not the one its successor was built on."""
        head = record = self.head()
        while record is not None and head is not None:
            yield record
            if record.seq == head.first:
                return
            child, record = record, self._read(record.seq - 1)
            if record is None:
                return  # removed meanwhile: another run shortened the log
            if record.digest != child.parent:
                where = f"{self.store.address_of(self.key, record.seq)} digest"
                raise BadState(where, record.digest, f"{child.parent}, on which record {child.seq} was built")

    def value(self, record: StateRecord, slot: str) -> StateValue:
        """The value of a slot that the record has. Raises BadState: it cannot be read, or is not what was written."""
        return self.load(record, slot)[0]

    def load(self, record: StateRecord, slot: str) -> tuple[StateValue, bytes]:
        """The value of a slot that the record has, and its canonical text. Raises BadState, as `value` does."""
        return load(self.store, self.key, record.slots[slot], f"{self.store.address_of(self.key, record.seq)} {slot}")

    def check(self, slot: str, value: StateValue) -> Frozen:
        """A value that may be appended. Raises BadState, StateTooLarge and StateError: see ValueCheck."""
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

        slots: all that the record names; those of an earlier record are carried as they are. first: the oldest record
        that is still needed, if not the parent's.
        Raises StateConflict: another run appended that number; nothing was stored. TransientError: the store cannot be
        reached, and whether the record was stored is not known. StateError: `run` or `effects` contain a secret.
        """
        seq = parent.seq + 1 if parent else 1
        for name, fact in (("run", dict(run or {})), ("effects", list(effects))):
            self._values.secrets.refuse(dumps_canonical(fact, name), name)
        placed = self.placed(slots, seq, parent)
        record = self._record(seq, parent, placed, status=status, run=run or {}, effects=effects, first=first)
        self._create(record)
        if self._came_late(record):
            self.store.drop(self.key, [seq], [])
            raise self._conflict(seq)
        return record

    def repair(self, to: int, *, run: Mapping[str, JsonValue] | None = None) -> StateRecord:
        """Append the slots of record `to` where the newest one cannot be read; the log begins anew with that.

        What the damaged records said is lost: a person decides this, who knows what became of their rows.
        Raises StateError: there is no record `to`. BadState: it is damaged as well. StateConflict: as `append`.
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
        """Every slot as record `seq` says it, once its blobs are stored. Raises StateError: a layer has a secret."""
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
                    placed[name], blob = to_slot(slot, seq, before)
                    if blob is not None:
                        self.store.put_blob(self.key, *blob)
        return placed

    def _create(self, record: StateRecord) -> None:
        """Create the record, or find that an earlier try did: its response was lost on the way."""
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

    def _came_late(self, record: StateRecord) -> bool:
        """Whether the number was free only because its record had been removed: this run slept while others went on.

        Old records are removed oldest first, so then the one before ours is gone as well. The first has none before it:
        there, what follows must have been built on it.
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
    """The first number that the log should have and has not; 0 when it is whole."""
    present = set(numbers)
    return next((seq for seq in range(head.first, head.seq) if seq not in present), 0)
