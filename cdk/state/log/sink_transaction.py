"""Intents: rows and state that lie in two places move together, where the sink has a marker.

A marked sink commits rows together with a text, the marker. What the next record will say is stored before, as an
intent, and the intent's name is the marker that goes with the rows. So whoever opens the log finds the sink's marker

- in the newest record: rows and state are where they were left;
- as the name of an intent for the next record: the rows were committed and the record was not appended; it is now;
- nowhere: the sink was restored, emptied, or belongs to another log. That is an error.

An intent whose name no sink has stands for rows that nobody committed, and is ignored. It is a blob that no record
names, and goes as these do, once its number is taken. Until then a run that slept may still commit its rows.
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
"""The kind of `sink:` slots: the marker that the sink had when the record was appended."""

_INTENT = Kind("cdk/intent")
_NAME = re.compile(r"[0-9]+-intent-[0-9a-f]{32}")


class MarkedSink(Protocol):
    """A place for rows that keeps a text with them, such as a row of a table in the same database.

    name: which sink of the log's this is; part of a slot's name.
    """

    name: str

    @property
    def pending(self) -> bool:
        """Whether rows wait for `commit`."""

    def marker(self) -> str | None:
        """The marker of the newest commit, whoever made it; None before the first."""

    def commit(self, before: str | None, after: str) -> None:
        """Make the rows that wait durable and the marker `after`, both or neither, in one transaction.

        Raises StateConflict: the marker is not `before`; another run has moved it. Whatever else is raised means that
        it did not happen, unless `marker` then says `after`.
        """


class SinkTransaction:
    """A log, and the sink whose rows its records stand for. Belongs to one thread.

    marker: where the sink stood when it was last looked at.
    """

    def __init__(self, log: StateLog, sink: MarkedSink) -> None:
        self.sink = sink
        self.marker: str | None = None
        self._log = log
        self._slot = f"sink:{sink.name}"

    def reconcile(self, at: int | None, *, trusting: bool) -> None:
        """Have the log stand where the sink does: append the record of rows that were committed without one.

        at: the record that is to be read. A sink that was restored to it takes the log along: all slots go back.
        trusting: a marker that nobody knows is an error; else a person has chosen what is read.
        Raises StateError: such a marker. StateConflict: another run goes on at this moment.
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
        """Store the intent of the record after `head`, and commit the rows under its name. Gives the record's slots.

        Raises what the sink raises; then no row was committed. StateError: `run` or `effects` hold a secret.
        """
        facts = {"status": status, "run": dict(run), "effects": list(effects)}
        self._log.check(self._slot, _INTENT.of(facts))  # a record that would be refused is refused before its rows
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
        """The marker that the sink had when the record was appended; None before the sink's first commit."""
        if record is None or self._slot not in record.slots:
            return None
        value = self._log.value(record, self._slot)
        marker: str = MARKER.read(value, f"state of {self._log.key} {self._slot}")
        return marker

    def _intended(self, head: StateRecord | None) -> dict[str, Stored] | None:
        """The intent that the sink's marker names, if it is for the record after `head`.

        Raises BadState: it was damaged, or a kit wrote it that is newer than this one.
        """
        if self.marker is None or not _NAME.fullmatch(self.marker):
            return None
        if (data := self._log.store.blob(self._log.key, self.marker)) is None:
            return None
        where = f"state of {self._log.key} blob {self.marker}"
        if self.marker != (name := _name(int(self.marker.partition("-")[0]), data)):
            raise BadState(where, name, "its own name: the intent was changed or cut after it was written")
        intent: dict[str, Stored] = loads_canonical(data, where)
        if intent.get("format") != FORMAT:
            raise BadState(f"{where} format", intent.get("format"), f"{FORMAT!r}; a newer kit may have written it")
        return intent if intent["parent"] == (head.digest if head else None) else None

    def _unknown(self, head: StateRecord | None) -> StateError:
        """Why the sink's marker means nothing here, and what to do."""
        path, now = f"state of {self._log.key} {self._slot}", self._log.head()
        if now != head:
            return StateConflict("another run moved the state at this moment; start this one again", path=path)
        older = next((record.seq for record in self._log.history() if self._of(record) == self.marker), None)
        known = f"it stands where record {older} stood, and a run that reads 'at:{older}' goes on from there"
        return StateError(
            f"found the marker {self.marker!r} in the sink, expected {self._of(head)!r}: the sink was restored, "
            f"emptied or filled from another log; {known if older else 'no record knows it'}. Otherwise restore the "
            "sink, or read 'ignore' to begin anew",
            path=path,
        )


def _name(seq: int, data: bytes) -> str:
    return f"{seq}-intent-{digest(data).partition(':')[2][:32]}"
