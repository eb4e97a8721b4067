"""AuthorState: what is wrong with the states of a cursor that its author advances, as far as one slice shows it."""

from collections.abc import Sequence

from cdk.base.process.connector_line import defined_at
from cdk.base.records.raw_json_lines import field_values
from cdk.base.values import Record
from cdk.state.position import Checkpoint, Position
from cdk.state.slice import Slice
from cdk.streams.order import NaturalOrder
from cdk.streams.stream import Stream

_ORDER = NaturalOrder()
_TEXT = b"\0"


class AuthorState:
    """Compares the records of a slice with the states that come between them.

    A state says that all records before it were yielded, and the next read asks for what is newer. So a record that is
    older than a state before it is lost where the read is interrupted between the two, and one that is newer than the
    last state comes again. Only numbers and timestamps are compared, and none once a state is less than one before it:
    that one is no greatest value, but a place in a list that descends.
    """

    def __init__(self, stream: Stream, slice: Slice) -> None:
        self._stream = stream
        self._field = stream.cursor_field or ""
        self._started = bool(slice.start.cursor)
        self._state: object = (slice.start.cursor or {}).get(self._field)
        self._rank = _rank(self._state)
        self._any_state = self._any_records = self._descends = False
        self._older: object = None
        """A record that came after the state and is older than it."""
        self._newer: object = None
        """The greatest value that came after the state, where it is newer."""

    def warning(self, records: Sequence[Record], position: Position | None) -> str:
        """What to say of the records that a page has brought, and of the state that followed them."""
        self._any_records = self._any_records or bool(records)
        if self._any_state and records and not self._descends:
            self._compare([value for value in field_values(records, self._field) if value is not None])
        if isinstance(position, Checkpoint):
            return self._advance(position) if position.paging is None else ""
        return self._end() if position is not None else ""

    def _compare(self, values: Sequence[object]) -> None:
        for value in _ends(values):
            rank = _rank(value)
            if rank is None or self._rank is None or rank[:1] != self._rank[:1]:
                continue
            if rank < self._rank:
                self._older = value
            elif rank > self._rank:
                self._newer = value

    def _advance(self, position: Checkpoint) -> str:
        value = position.cursor.get(self._field)
        before, self._state, self._rank = (self._state, self._rank), value, _rank(value)
        older, self._older, self._newer = self._older, None, None
        if before[1] is not None and self._rank is not None and self._rank < before[1]:
            self._descends = True
        self._any_state = True
        return "" if older is None or self._descends else self._lost(older, before[0])

    def _end(self) -> str:
        if not self._any_records or self._descends:
            return ""
        if not self._any_state:
            return "" if self._started else self._none()
        return self._lost(self._older, self._state) if self._older is not None else self._again()

    def _none(self) -> str:
        return (
            f"{self._stream.name}: it has the cursor {self._field!r}, and no state came with its "
            "records: each read begins at its start, and an incremental sync that appends adds all of them again. Set "
            "`self.state`, as a whole and not in place, or yield a Checkpoint, with `supports_checkpointing = True`"
        )

    def _lost(self, value: object, state: object) -> str:
        return (
            f"{self._stream.name}: a record with {value!r} in {self._field!r} came after a state with {state!r}: where "
            "a read is interrupted between the two, the record is never read, for the next read asks for what is "
            "newer. Ask the API for ascending order, or set the state once, behind all records"
            f"{defined_at(self._stream.read_records)}"
        )

    def _again(self) -> str:
        if self._newer is None:
            return ""
        return (
            f"{self._stream.name}: records with up to {self._newer!r} in {self._field!r} came after the last state, "
            f"which has {self._state!r}: the next read asks for them again, and an incremental sync that appends adds "
            f"them again. Set the state behind the last record, too{defined_at(self._stream.read_records)}"
        )


def _ends(values: Sequence[object]) -> Sequence[object]:
    """The least and the greatest of values that are all numbers or all strings; none of others."""
    kinds = set(map(type, values))
    if kinds and (kinds <= {int, float} or kinds == {str}):
        return [min(values), max(values)]  # type: ignore[type-var] # they are of one kind
    return ()


def _rank(value: object) -> bytes | None:
    """Where a number or a timestamp stands; None for all else."""
    rank = _ORDER.rank(value)
    return rank if isinstance(rank, bytes) and not rank.startswith(_TEXT) else None
