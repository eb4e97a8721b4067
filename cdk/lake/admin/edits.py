"""The edits of a stream's state: each returns a new `TableState` and explains what it means for the table. Pure.

Only `import_state` can move a position forward, because there the user supplies the whole state.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from cdk.base.errors import BadState, StateError
from cdk.base.values import JsonValue
from cdk.base.wording import counted
from cdk.lake.admin.diff import Move, moves
from cdk.lake.delta.table_state import TableState
from cdk.lake.delta.write_modes import traits_of
from cdk.state.position import Checkpoint, Done, Edge, OpenSlice, Position, Resume, Start
from cdk.state.slice import WHOLE, Partition
from cdk.state.stored_positions import StoredPositions
from cdk.state.stream_state import StreamState
from cdk.state.window import Window
from cdk.state.wire import decode, encode, state_of
from cdk.streams.checkpoint.repeated_records import merged, moved
from cdk.streams.cursor import Cursor
from cdk.streams.state_check import check_fields, check_kinds, check_partitions, check_tokens, check_values
from cdk.streams.stream import Stream

_FAR = datetime(9000, 1, 1, tzinfo=UTC)
_NAMED = 3
# A cursor that aligns its windows starts one in each month, and timestamps are written to one of these units.
_DOWN = tuple(timedelta(days=days) for days in range(1, 32))
_UP = tuple(-timedelta(seconds=seconds) for seconds in (1, 60, 3600, 86400, 31 * 86400))


class Change(Struct, frozen=True):
    """An edit of a stream's state: the new state, and its consequences."""

    what: str
    """The description that the table's log gets."""
    saved: TableState
    moves: tuple[Move, ...]
    """The values of the state that change."""
    consequences: tuple[str, ...]
    """What the next sync does with the table's rows, in sentences."""


def reset(saved: TableState, partition: Partition | None = None) -> Change:
    """Make the next sync read the stream, or one partition, from its start.

    Raises StateError: when the state has no such partition.
    """
    if partition is not None:
        if saved.complete and saved.sync_mode != "incremental":
            raise StateError("the last full refresh is complete: the next sync reads every partition from its start")
        state = _decoded_state(saved)
        existing = _partition_in(state, partition)
        if traits_of(saved.write_mode).hidden_until_complete:
            return _from_start(f"reset {partition.key}", saved, _waiting_rows(saved))
        # Without a position of its own, the partition would fall back to that of all partitions.
        anew = Start() if WHOLE in state.positions and existing != WHOLE else None
        positions = StoredPositions.of(state.positions).updated({existing: anew})
        return _with_state(f"reset {partition.key}", saved, replace(state, positions=positions, parents={}))
    return _from_start("reset", saved)


def narrowed(saved: TableState, partition: Partition) -> TableState:
    """Return a state with a single partition, for display. Raises StateError: when the state has no such partition."""
    state = _decoded_state(saved)
    existing = _partition_in(state, partition)
    alone = StreamState({existing: state.positions[existing]})
    return replace(saved, state=encode(alone, incremental=saved.sync_mode == "incremental", exact=True))


def rewound(
    saved: TableState, stream: Stream, to: str, partition: Partition | None = None, until: str | None = None
) -> Change:
    """Move cursors that are beyond `to` back to it. to: a timestamp, or a number for an integer cursor.

    The next sync reads again what an interrupted attempt had read beyond `to`, and all parents of a substream, because
    otherwise the partition of an unchanged parent would not be read again.
    until: where what is read again ends; a cursor beyond it stays, and the next sync goes on from there.
    Raises StateError: when the stream has no cursor, or its state has no such partition, or `until` is not after `to`.
    BadState: when one of the two is not a value of the cursor.
    """
    cursor = stream.cursor
    if cursor is None or saved.sync_mode != "incremental":
        raise StateError(
            "there is no cursor to move back: the stream is read completely each time, or manages its state itself; "
            "use `state reset` or `state set`",
            stream=stream.name,
        )
    state = _decoded_state(saved, stream)
    target, end = _cursor_value(cursor, to), None if until is None else _cursor_value(cursor, until, up=True)
    if end is not None and not _beyond(cursor, end, target):
        raise StateError(f"found nothing between {to} and {until}, expected an end after the beginning")
    what = f"rewind to {to}" if until is None else f"rewind to {to}, until {until}"
    positions = StoredPositions.of(state.positions)
    chosen = positions if partition is None else [_partition_in(state, partition)]
    rewound = {name: _rewound_position(cursor, positions[name], target, end) for name in chosen}
    rewound = {name: position for name, position in rewound.items() if position != positions[name]}
    if not rewound:
        return Change(what, saved, (), ("Every cursor is already there, or before it: nothing changes.",))
    # A user who moves cursors back, possibly to before the start value, decides what is read.
    saved = replace(saved, start=None)
    # The value that the last read reached, and its duration, apply to the old cursors only.
    extra = {name: value for name, value in state.extra.items() if name not in ("state", "lookback_window")}
    new = replace(state, positions=positions.updated(rewound), parents={}, extra=extra)
    interrupted = _is_interrupted(new)
    between = f"The next sync reads again what lies between {to} and {until}, and what is new."
    again = between if interrupted and until is not None else ""
    return _with_state(what, replace(saved, complete=saved.complete and not interrupted), new, again)


def import_state(
    saved: TableState, stream: Stream, blob: JsonValue, what: str = "set", *, of_another: bool = False
) -> Change:
    """Replace the state by `blob`, in any form that the stream reads.

    of_another: it may be the state of another read than the one whose rows the table has.
    Raises BadState: when the stream cannot resume from it.
    """
    state = state_of(stream, blob)
    check_values(stream, state)
    check_fields(stream, state)
    check_tokens(stream, state)
    before = _decoded_state(saved, stream)
    check_partitions(stream, state, before)
    if saved.sync_mode == "incremental":
        # A rewound state does not show that its sync was interrupted.
        complete = not _is_interrupted(state) and (saved.complete or state != before)
        change = _with_state(what, replace(saved, complete=complete), state)
        return replace(change, consequences=tuple(_consequences_of_import(saved, stream, state)))
    return _full_refresh_from(saved, state, stream, what, of_another=of_another)


def set_state(saved: TableState, stream: Stream, blob: JsonValue) -> Change:
    """Replace the state by one that a person chose.

    Raises BadState: as `import_state`, and for a position of a kind that the stream never writes.
    """
    check_kinds(stream, state_of(stream, blob), incremental=saved.sync_mode == "incremental")
    return import_state(saved, stream, blob)


def _full_refresh_from(saved: TableState, state: StreamState, stream: Stream, what: str, *, of_another: bool) -> Change:
    """Make a full refresh resume from `state`, which is only possible with a state from the middle of a read.

    The state of a complete read says nothing about the next read, and a generation that is hidden until it is complete
    must have all rows of its read.
    """
    if state.after is None and not any(_is_open(position, stream) for position in state.positions.values()):
        text = "The state is that of a complete read, and a full refresh reads everything again."
        return _from_start(what, saved, text)
    if traits_of(saved.write_mode).hidden_until_complete:
        between = not saved.complete and saved.state is not None
        if between and state == state_of(stream, saved.state):
            return Change(what, saved, (), ("The stream is already at this position: nothing changes.",))
        why = f"What was read before is not in the table, and an {saved.write_mode} table has all rows of one read."
        return _from_start(what, saved, _waiting_rows(saved) if between and not of_another else why)
    new = saved
    if saved.complete:
        new = replace(saved, complete=False, generation=saved.generation + 1, records=0, pending=())
    # Rows that the state skips were not read, which does not make them stale.
    change = _with_state(what, replace(new, rows_before=None), state)
    consequence = "The next sync resumes from there; what lies before it is not part of the new generation."
    return replace(change, moves=tuple(moves(saved.state, change.saved.state)), consequences=(consequence,))


def rolled_back(
    saved: TableState | None, older: TableState, number: int, version: int | None = None, *, has_rows: bool = True
) -> Change:
    """Return to an earlier state of the same table. version: the version whose rows are restored; None: rows stay.

    has_rows: whether the rows that stay include those of that state, which a RESTORE or a rollback may have undone.
    """
    what, again = f"rollback to state {number}", "What was read since is read again."
    resumes = older.sync_mode != "incremental" and older.state and not older.complete
    if resumes:
        again = "The next sync resumes the read that was interrupted then; the one after it reads everything again."
    if version is None:
        consequence = _consequence(saved or older, again)
        reads_on = resumes or older.sync_mode == "incremental"
        if reads_on and not has_rows and not traits_of(older.write_mode).hidden_until_complete:
            consequence = (
                f"The rows of state {number} are not in the table, because it was restored since: no sync reads them "
                "again. With --tables they come back."
            )
        older = _beside_later_rows(saved, older)
    else:
        what, consequence = (
            f"{what}, rows of version {version}",
            f"The table has the rows of its version {version} again. {again}",
        )
    before = None if saved is None else saved.state
    return Change(what, replace(older, logged=None), tuple(moves(before, older.state)), (consequence,))


def _beside_later_rows(saved: TableState | None, older: TableState) -> TableState:
    """Return an earlier state for a table with rows of later generations, whose numbers must not be used again.

    The rest of an interrupted read cannot tell which rows are stale: later reads have set their number in its rows.
    """
    traits = traits_of(older.write_mode)
    if saved is None or saved.generation <= older.generation or traits.hidden_until_complete:
        return older
    if older.complete or older.sync_mode == "incremental":
        return replace(older, generation=saved.generation)
    records = saved.records if traits.merges else 0
    return replace(older, generation=saved.generation + 1, rows_before=None, records=records)


def _from_start(what: str, saved: TableState, *why: str) -> Change:
    """Make the next sync read the stream from its start, in a new generation. why: the first of the consequences."""
    consequences = [*why, _consequence(saved, "The next sync reads the stream from its start.")]
    if why and (saved.complete or saved.state is None):
        return Change(what, saved, (), tuple(consequences))
    traits = traits_of(saved.write_mode)
    if traits.repeats_rows:
        consequences.append(f"Rows of the new read have _airbyte_generation_id {saved.generation + 1}.")
    new = TableState(
        saved.sync_mode,
        saved.write_mode,
        generation=saved.generation + 1,
        records=saved.records if traits.merges else 0,
        keys=saved.keys,
        json_keys=saved.json_keys,
    )
    return Change(what, new, tuple(moves(saved.state, None)), tuple(consequences))


def _waiting_rows(saved: TableState) -> str:
    """Return why a generation that is not visible yet can only be resumed at the position of its rows."""
    return (
        "The rows that are not visible yet are those of the interrupted read, up to its position: from another "
        "position, the next sync would duplicate or miss some of them, and an "
        f"{saved.write_mode} table has all rows of one read exactly once."
    )


def _is_interrupted(state: StreamState) -> bool:
    """Whether an incremental state has windows that were started, or partitions that have not been read yet."""
    return state.after is not None or any(
        isinstance(at, Checkpoint) and at.resume is not None for at in state.positions.values()
    )


def _is_open(position: Position, stream: Stream) -> bool:
    """Whether a position of a full refresh is in the middle of a partition."""
    match position:
        case Done():
            return False
        case Checkpoint(resume=None) if stream.cursor_field is not None:
            return stream.cursor_field not in position.cursor
        case _:
            return True


def _decoded_state(saved: TableState, stream: Stream | None = None) -> StreamState:
    return decode(saved.state) if stream is None else state_of(stream, saved.state)


def _with_state(what: str, saved: TableState, state: StreamState, again: str = "") -> Change:
    blob = encode(state, incremental=saved.sync_mode == "incremental", exact=True)
    consequence = _consequence(saved, again or "The next sync reads again what lies after the new position.")
    # It is unknown which window an edited state was read for.
    return Change(what, replace(saved, state=blob, window=None), tuple(moves(saved.state, blob)), (consequence,))


def _consequences_of_import(saved: TableState, stream: Stream, state: StreamState) -> Iterator[str]:
    """Yield what is read again, and what is never read, when a state replaces the existing one."""
    if not state.positions:
        yield _consequence(saved, "The next sync reads the stream from its start.")
    elif saved.state is None:
        yield _consequence(saved, "The next sync resumes from there, and what lies before it is not read.")
        if any(state.positions) and not stream.partitioned:
            yield "Only a sync lists the stream's partitions: it reads those that the state lacks from their start."
    else:
        before = _decoded_state(saved, stream)
        directions = Counter(
            _direction(stream.cursor, before.of(partition), state.of(partition))
            for partition in dict.fromkeys([*before.positions, *state.positions])
        )
        if set(directions) == {"same"}:
            yield "Every cursor is already at this position."
        of = {
            direction: "" if len(directions) == n == 1 else f" of {counted(n, 'partition')}"
            for direction, n in directions.items()
        }
        if "back" in of:
            yield _consequence(saved, f"The next sync reads again what lies after the new position{of['back']}.")
        if "forward" in of:
            yield (
                f"No sync reads what lies between the old and the new position{of['forward']}: it is skipped. "
                "`spark-cdk state rollback` restores the old position."
            )
        if "unknown" in of:
            first = f"The next sync resumes from the new position{of['unknown']}: what was read after it is read again"
            yield _consequence(saved, f"{first}, and what was not read before it is skipped.")


_Direction: TypeAlias = Literal["same", "back", "forward", "unknown"]


def _direction(cursor: Cursor | None, old: Position, new: Position) -> _Direction:
    """Return the direction in which a position moves; unknown if it is not a single cursor value."""
    if old == new:
        return "same"
    if Start() in (old, new):
        return "back" if new == Start() else "forward"
    if cursor is None:
        return "unknown"
    match old, new:
        case (
            Checkpoint(cursor={cursor.field: before}, resume=None),
            Checkpoint(cursor={cursor.field: after}, resume=None),
        ) if cursor.greatest([before]) is not None and cursor.greatest([after]) is not None:
            # The digests of records at the cursor value are lost: these records are read again.
            return "forward" if _beyond(cursor, after, before) else "back"
        case _:
            return "unknown"


def _consequence(saved: TableState, first: str) -> str:
    return f"{first} {traits_of(saved.write_mode).reread}."


def _partition_in(state: StreamState, partition: Partition) -> Partition:
    """Return the partition as the state has it. Raises StateError: when the state lacks it."""
    if partition in state.positions:
        return partition
    named = ", ".join(name.key for name in islice(state.positions, _NAMED))
    available = f"one of its {len(state.positions):,}, such as {named}" if state.positions else "one; it has none"
    raise StateError(f"the state has no partition {partition.key}, expected {available}")


def _cursor_value(cursor: Cursor, to: str, *, up: bool = False) -> object:
    """Return the start of a window that is nearest to `to`: at it or after it if `up`, else at it or before it."""
    first = next(iter(cursor.windows(to, _FAR, again=False)), None)
    if first is None:
        raise StateError(f"found {to!r}, expected a value before the cursor's own end, and before the year {_FAR.year}")
    tried = chain([to], (cursor.back(to, by) for by in (_UP if up else _DOWN)))
    starts = (window.start for at in tried for window in islice(cursor.windows(at, _FAR, again=False), 1))
    reaches = cursor.state_order.reaches
    return next((at for at in starts if (reaches(at, to) if up else reaches(to, at))), first.start)


def _rewound_position(cursor: Cursor, position: Position, target: object, end: object = None) -> Position:
    """Return a position at most at `target`, with the digests of records before it and of those without a value.

    end: of what is read again; None: no end. A position beyond `end` is that of a read that was interrupted there.
    """
    match position:
        case Checkpoint(cursor={cursor.field: value, **kept}, edge=edge, resume=resume):
            if cursor.greatest([value]) is None:
                raise BadState(f"state.{cursor.field}", value, "a value of the stream's cursor")
            if end is not None and (reopened := _reopened(cursor, position, value, target, end)) is not None:
                return reopened
            if resume is not None and resume.through == target and end in _finished_from(resume):
                return position  # the same rewind, before a sync
            if resume is not None and _beyond(cursor, value, resume.through):
                # An earlier rewind had an end, and what lies before that end is still to be read.
                target = target if _beyond(cursor, resume.through, target) else resume.through
            at = target if _beyond(cursor, value, target) else value
            edges = [edge, *(() if resume is None else (item.edge for item in resume.open))]
            if resume is not None and (at != value or resume.open or _beyond(cursor, resume.through, target)):
                resume = None
            edge = _outside(cursor, edges, at, target)
            return replace(position, cursor={**kept, cursor.field: at}, edge=edge, resume=resume)
        case _:
            return position


def _reopened(cursor: Cursor, position: Checkpoint, value: object, target: object, end: object) -> Checkpoint | None:
    """Return the position with everything between `target` and `end` still to read; None if it is not beyond `end`."""
    resume = position.resume or Resume(cursor.window_value(value))
    if not _beyond(cursor, resume.through, end):
        return None
    # To the reader, an earlier attempt has read what follows `end`, and nothing before it.
    finished = OpenSlice(Window(end, resume.through, resume.through, last=False), Done())
    resume = replace(resume, through=target, open=(finished, *resume.open))
    return replace(position, edge=_outside(cursor, [position.edge], value, target, end), resume=resume)


def _finished_from(resume: Resume) -> list[object]:
    """Return where what follows the next window to read was finished before; empty if that was not."""
    return [item.window.start for item in resume.open[:1] if isinstance(item.position, Done)]


def _outside(
    cursor: Cursor, edges: Iterable[Edge | None], at: object, target: object, end: object = None
) -> Edge | None:
    """Merge what edges remember of records that are not read again between `target` and `end`, for a cursor at `at`."""

    def stays(value: object) -> bool:
        if cursor.order.rank(value) is None or cursor.precedes(Window(target), value):
            return True
        return end is not None and not cursor.precedes(Window(end), value)

    def before(edge: Edge) -> Edge:
        keys = {digest: value for digest, value in edge.keys.items() if stays(value)}
        return moved(cursor, replace(edge, keys=keys, held={}), at)

    return merged(cursor, (before(edge) for edge in edges if edge is not None))


def _beyond(cursor: Cursor, value: object, target: object) -> bool:
    """Whether `value` is greater than `target`. Of equal values, `greatest` returns the last one."""
    return bool(value != target and cursor.greatest([value, target]) == value)
