"""Intents: with a marked sink, rows and state that are stored in two places advance together.

A marked sink commits rows together with a string, the marker. The content of the next record is stored beforehand as
an intent, and the intent's name becomes the marker that is committed with the rows. A session that opens the log
therefore finds the sink's marker

- in the newest record: rows and state are consistent;
- as the name of an intent for the next record: the rows were committed, but the record was not appended. It is now;
- nowhere: the sink was restored, emptied, or belongs to another log. That is an error.

An intent whose name is in no sink stands for rows that were never committed, and is ignored. As a blob that no record
names, it is removed once its record number is taken. Until then, a run that was paused may still commit its rows.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import uuid4

from cdk.base.errors import BadState, StateConflict, StateError
from cdk.base.values import JsonValue, Stored
from cdk.state.log.canonical_json import digest, dumps_canonical, loads_canonical
from cdk.state.log.record import FORMAT, RecordStatus, Slot, StateRecord
from cdk.state.log.slot_value import Frozen, Kind
from cdk.state.log.state_log import StateLog

MARKER = Kind("cdk/marker")
"""Kind of the `sink:` slots: the sink's marker at the time when the record was appended."""

_INTENT = Kind("cdk/intent")
_NAME = re.compile(r"[0-9]+-intent-[0-9a-f]{32}")


class MarkedSink(Protocol):
    """A sink that stores a marker string in the same transaction as rows, for example in a table of the same database.

    name: identifies the sink within the log; part of a slot's name.
    """

    name: str

    @property
    def pending(self) -> bool:
        """Whether rows are waiting for `commit`."""

    def marker(self) -> str | None:
        """Return the marker of the newest commit, of any run; None before the first."""

    def commit(self, before: str | None, after: str) -> None:
        """Commit the waiting rows and set the marker to `after`, in one transaction.

        Raises StateConflict: when the marker is not `before`, because another run has moved it. Any other error means
        that nothing was committed, unless `marker` returns `after` afterwards.
        """


class SinkTransaction:
    """A log and the sink whose rows its records stand for. Belongs to one thread.

    marker: the sink's marker when it was last read or set.
    """

    def __init__(self, log: StateLog, sink: MarkedSink) -> None:
        self.sink = sink
        self.marker: str | None = None
        self._log, self._slot = log, f"sink:{sink.name}"

    def reconcile(self, at: int | None, *, trusting: bool) -> None:
        """Bring the log in line with the sink: append the missing record of rows that were already committed.

        at: number of the record to read. If the sink was restored to it, all slots of the log go back to it as well.
        trusting: treat an unknown marker as an error; false where a person has chosen the record to read.
        Raises StateError: when the marker is unknown. StateConflict: when another run appends at the same time.
        """
        head, self.marker = self._log.head(), self.sink.marker()
        if self.marker == self._of(head):
            return
        if (intent := self._intended(head)) is not None:
            slots = {name: Slot(slot) for name, slot in intent["slots"].items()}
            facts = {"run": intent["run"], "effects": intent["effects"]}
            self._log.append(head, self._with_marker(slots), status=intent["status"], **facts)
        elif at is not None and self._of(restored := self._log.at(at)) == self.marker:
            self._log.append(head, restored.slots, status="rolled_back")
        elif trusting:
            raise self._unknown(head)

    def commit(
        self,
        head: StateRecord | None,
        slots: Mapping[str, Slot | Frozen],
        *,
        status: RecordStatus,
        run: Mapping[str, JsonValue],
        effects: Sequence[JsonValue],
    ) -> dict[str, Slot | Frozen]:
        """Store the intent of the record after `head`, commit the rows under its name, and return the record's slots.

        Raises what the sink raises; then no row was committed. StateError: when `run` or `effects` contain a secret.
        """
        facts = {"status": status, "run": dict(run), "effects": list(effects)}
        self._log.check(self._slot, _INTENT.of(facts))  # refuses an invalid record before its rows are committed
        seq = head.seq + 1 if head else 1
        placed = self._log.placed(slots, seq, head)
        intent = {
            "format": FORMAT,
            "parent": head.digest if head else None,
            "attempt": uuid4().hex,
            "slots": {name: dict(slot.json) for name, slot in placed.items()},
            **facts,
        }
        data = dumps_canonical(intent, "intent")
        marker = _name(seq, data)
        self._log.store.put_blob(self._log.key, marker, data)
        try:
            self.sink.commit(self.marker, marker)
        except Exception:
            if self.sink.marker() != marker:
                raise
        self.marker = marker
        return self._with_marker(placed)

    def _with_marker(self, slots: Mapping[str, Slot]) -> dict[str, Slot | Frozen]:
        return {**slots, self._slot: self._log.check(self._slot, MARKER.of(self.marker))}

    def _of(self, record: StateRecord | None) -> str | None:
        """Return the sink's marker at the time of a record; None before the sink's first commit."""
        if record is None or self._slot not in record.slots:
            return None
        value = self._log.value(record, self._slot)
        marker: str = MARKER.read(value, f"state of {self._log.key} {self._slot}")
        return marker

    def _intended(self, head: StateRecord | None) -> dict[str, Stored] | None:
        """Return the intent that the sink's marker names, or None if it is not one for the record after `head`.

        Raises BadState: when the intent is damaged, or was written by a newer kit.
        """
        if self.marker is None or not _NAME.fullmatch(self.marker):
            return None
        if (data := self._log.store.blob(self._log.key, self.marker)) is None:
            return None
        where = f"state of {self._log.key} blob {self.marker}"
        if self.marker != (name := _name(int(self.marker.partition("-")[0]), data)):
            raise BadState(where, name, "its own name: the intent was changed or truncated after it was written")
        intent: dict[str, Stored] = loads_canonical(data, where)
        if intent.get("format") != FORMAT:
            raise BadState(f"{where} format", intent.get("format"), f"{FORMAT!r}; a newer kit may have written it")
        return intent if intent["parent"] == (head.digest if head else None) else None

    def _unknown(self, head: StateRecord | None) -> StateError:
        """Return the error for an unknown marker, with its reason and what to do."""
        path, now = f"state of {self._log.key} {self._slot}", self._log.head()
        if now != head:
            return StateConflict("another run moved the state at the same time; start this one again", path=path)
        older = next((record.seq for record in self._log.history() if self._of(record) == self.marker), None)
        known = f"its marker is that of record {older}, and a run that reads 'at:{older}' resumes from there"
        return StateError(
            f"found the marker {self.marker!r} in the sink, expected {self._of(head)!r}: the sink was restored, "
            f"emptied or filled from another log; {known if older else 'no record knows it'}. Otherwise restore the "
            "sink, or read 'ignore' to start afresh",
            path=path,
        )


def _name(seq: int, data: bytes) -> str:
    return f"{seq}-intent-{digest(data).partition(':')[2][:32]}"
