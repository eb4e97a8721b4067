"""AuthorState: finds mistakes in the states of a cursor that its author advances by hand, slice by slice."""

from collections.abc import Sequence
from operator import itemgetter

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
    """Compares the records of a slice with the states between them.

    A state claims that all records up to it were yielded, and the next read requests newer ones. So if a read is
    interrupted between a state and a later record with an older value, that record is lost; and a record that is newer
    than the last state is read again. Only numbers and timestamps are compared.
    """

    def __init__(self, stream: Stream, slice: Slice) -> None:
        self._stream, self._field = stream, stream.cursor_field or ""
        self._started = bool(slice.start.cursor)
        self._state: object = (slice.start.cursor or {}).get(self._field)
        self._rank = self._start = _rank(self._state)
        self._any_state = self._any_records = self._is_ahead = self._in_pages = False
        self._older: object = None
        """The value of a record that followed the state and is older than it."""
        self._newer: object = None
        """The greatest value that followed the state, if it is newer."""
        self._greatest: tuple[bytes, object] | None = None
        self._last: object = None

    def warning(self, records: Sequence[Record], position: Position | None) -> str:
        """The warning about a page of records and the state that follows them; empty for none."""
        self._any_records = self._any_records or bool(records)
        if records:
            self._compare([value for value in field_values(records, self._field) if value is not None])
        if isinstance(position, Checkpoint):
            self._in_pages = position.paging is not None or self._in_pages
            return self._advance(position) if position.paging is None else ""
        return self._end() if position is not None else ""

    def _compare(self, values: Sequence[object]) -> None:
        for value in _ends(values):
            rank = _rank(value)
            if rank is None:
                continue
            if self._any_state and self._rank is not None and rank[:1] == self._rank[:1]:
                if rank < self._rank or (rank == self._rank and self._is_ahead):
                    self._older = value
                elif rank > self._rank:
                    self._newer = value
            if self._greatest is None or rank > self._greatest[0]:
                self._greatest = rank, value
        self._last = values[-1] if values else self._last

    def _advance(self, position: Checkpoint) -> str:
        value = position.cursor.get(self._field)
        before, self._state, self._rank = self._state, value, _rank(value)
        older, self._older, self._newer = self._older, None, None
        greatest = self._start if self._greatest is None else self._greatest[0]
        self._is_ahead = self._rank is not None and (greatest is None or self._rank > greatest)
        self._any_state = True
        return "" if older is None else self._lost(older, before)

    def _end(self) -> str:
        if not self._any_records:
            return ""
        if not self._any_state:
            return "" if self._started else self._none()
        if self._older is not None:
            return self._lost(self._older, self._state)
        # A computed state, such as the greatest value minus an hour, is meant to lie before its records.
        if self._in_pages and self._state == self._last and self._greatest is not None and self._rank is not None:
            rank, value = self._greatest
            self._newer = value if rank > self._rank else self._newer
        return "" if self._newer is None else self._again()

    def _none(self) -> str:
        return (
            f"{self._stream.name}: it has the cursor {self._field!r}, but no state came with its records: each read "
            "starts from the beginning, and an incremental sync that appends adds all of them again. Set "
            "`self.state`, as a whole and not in place, or yield a Checkpoint, with `supports_checkpointing = True`"
        )

    def _lost(self, value: object, state: object) -> str:
        return (
            f"{self._stream.name}: a record with {value!r} in {self._field!r} came after a state with {state!r}: if "
            "a read is interrupted between the two, and the next one requests only newer records, this record is "
            "never read. Request ascending order from the API and set the state after the record, or set it once, "
            f"after all records{defined_at(self._stream.read_records)}"
        )

    def _again(self) -> str:
        return (
            f"{self._stream.name}: the last state has {self._state!r} in {self._field!r}, but records with up to "
            f"{self._newer!r} were read: the next read requests these again, and an incremental sync that appends "
            "adds them again. Set the state to the greatest value, after the last "
            f"record{defined_at(self._stream.read_records)}"
        )


def _ends(values: Sequence[object]) -> Sequence[object]:
    """The least and the greatest value, if all are numbers or all are strings; empty otherwise."""
    kinds = set(map(type, values))
    if kinds and kinds <= {int, float}:
        return [min(values), max(values)]  # type: ignore[type-var] # they are numbers
    if kinds != {str}:
        return ()
    if len({len(str(value)) for value in values}) == 1:
        return [min(values), max(values)]  # type: ignore[type-var] # they are strings
    # "10" is greater than "9", although it sorts before it as a string.
    ranked = [(rank, value) for value in values if (rank := _rank(value)) is not None]
    return [min(ranked, key=itemgetter(0))[1], max(ranked, key=itemgetter(0))[1]] if ranked else ()


def _rank(value: object) -> bytes | None:
    """The rank of a number or a timestamp; None for anything else."""
    rank = _ORDER.rank(value)
    return rank if isinstance(rank, bytes) and not rank.startswith(_TEXT) else None
