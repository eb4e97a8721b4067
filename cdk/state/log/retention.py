"""Retention: how much history a log keeps, and the removal of the rest."""

from datetime import datetime, timedelta

from msgspec import Struct

from cdk.base.errors import BadState, ConfigError
from cdk.state.log.record import StateRecord
from cdk.state.log.state_log import StateLog

_FEWEST = 2
_FEW = 32
"""Number of records up to which every sweep may read all of them."""


class Retention(Struct, frozen=True):
    """Keeps the last `records` records, and additionally all that are younger than `age`.

    The log itself states what may be removed: a record's `first` is the number of the oldest record still needed.
    Readers ignore everything before it. It is removed once that record is stored, by this run or, if this run is
    interrupted, by the next. A wrong clock keeps too much or too little history, but never harms the newest state.
    """

    records: int = 20
    age: timedelta = timedelta(days=30)

    def __post_init__(self) -> None:
        if self.records < _FEWEST:
            raise ConfigError(f"found {self.records}, expected at least {_FEWEST}", path="state retention records")

    def first(self, log: StateLog, head: StateRecord) -> int:
        """Return the number of the oldest record that is still needed once a record follows `head`."""
        first, young = head.first, log.clock() - self.age
        while head.seq + 1 - first >= self.records and self._older(log, first, young):
            first += 1
        return first

    def sweep(self, log: StateLog, head: StateRecord) -> None:
        """Remove the records before the first needed one, and the blobs that no needed record names.

        A blob whose record number is not taken yet may belong to a running attempt, and stays.
        Finding the named blobs takes reading all records. With many records only few calls do that, so that a run reads
        four records on average, regardless of their number.
        Raises BadState: when a needed record is damaged or a blob has a foreign name; nothing is removed then.
        """
        count = head.seq - head.first + 1
        if count > _FEW and head.seq % 2 ** (count.bit_length() - 2):
            return
        old = [seq for seq in log.store.numbers(log.key) if seq < head.first]
        blobs = list(log.store.blobs(log.key))
        named = {name for record in log.history() for slot in record.slots.values() for name in slot.blobs}
        lost = [name for name in blobs if name not in named and _number(name) <= head.seq]
        log.store.drop(log.key, old, lost)

    def _older(self, log: StateLog, seq: int, timestamp: datetime) -> bool:
        try:
            return datetime.fromisoformat(log.at(seq).created_at) < timestamp
        except (BadState, ValueError):
            return False  # its age is unknown


def _number(blob: str) -> int:
    """Return the number of the record that a blob was written for. Raises BadState: when its name has no number."""
    number = blob.partition("-")[0]
    if not number.isdecimal():
        raise BadState("blobs", blob, "names that begin with the number of a record")
    return int(number)
