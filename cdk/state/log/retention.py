"""Retention: how much history a log keeps, and the removal of the rest."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from cdk.base.errors import BadState, ConfigError
from cdk.state.log.record import StateRecord
from cdk.state.log.state_log import StateLog

_FEWEST = 2
_FEW = 32
"""Records that each removal may read."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Keeps the last `records`, and all younger than `age`; it is enough for a record to be one of them.

    What is removed is said in the log itself: a record's `first` is the oldest one still needed. Everything before is
    removed after that record is there, by this run or, if it is cut, by the next; readers do not look at it.
    A wrong clock keeps too much or too little history, and never harms the newest state.
    """

    records: int = 20
    age: timedelta = timedelta(days=30)

    def __post_init__(self) -> None:
        if self.records < _FEWEST:
            raise ConfigError(f"found {self.records}, expected at least {_FEWEST}", path="state retention records")

    def first(self, log: StateLog, head: StateRecord) -> int:
        """The oldest record that is needed once a record follows `head`."""
        first, young = head.first, log.clock() - self.age
        while head.seq + 1 - first >= self.records and self._older(log, first, young):
            first += 1
        return first

    def sweep(self, log: StateLog, head: StateRecord) -> None:
        """Remove the records before the first that is needed, and the blobs that no needed record names.

        A blob of a number that is not taken yet may be a running attempt's, and stays.
        Which blobs are named, only all records tell together: where many are kept, they are read by few removals, so
        that a run reads four of them on average, however many there are.
        Raises BadState: a record that is needed is damaged, or a blob has a foreign name; nothing is removed then.
        """
        count = head.seq - head.first + 1
        if count > _FEW and head.seq % 2 ** (count.bit_length() - 2):
            return
        numbers = log.store.numbers(log.key)
        old = [seq for seq in numbers if seq < head.first]
        blobs = list(log.store.blobs(log.key))
        named = {name for record in log.history() for slot in record.slots.values() for name in slot.blobs}
        lost = [name for name in blobs if name not in named and _number(name) <= head.seq]
        log.store.drop(log.key, old, lost)

    def _older(self, log: StateLog, seq: int, moment: datetime) -> bool:
        try:
            return datetime.fromisoformat(log.at(seq).created_at) < moment
        except (BadState, ValueError):
            return False  # nobody knows how old it is


def _number(blob: str) -> int:
    """The record that a blob was written for. Raises BadState: its name does not say."""
    number = blob.partition("-")[0]
    if not number.isdecimal():
        raise BadState("blobs", blob, "names that begin with the number of a record")
    return int(number)
