"""State on the wire. Only this module and `cdk.state.position_json` know the protocol's shapes and magic keys.

    nothing read yet               {}
    full refresh, finished         {"__ab_no_cursor_state_message": true}     read back as nothing: it starts again
    pages, at a token              the token: {"page": 3}
    pages, finished                {"__ab_full_refresh_sync_complete": true}
    cursor                         {"updated_at": "..."}                      other keys are preserved
    cursor, as date ranges         {"slices": [...], "state_type": "date-range"}      read, and written as a cursor
    partitions                     {"use_global_cursor": false, "states": [{"partition", "cursor"}], "parent_state"}
    partitions without a cursor    {"states": [...]}
    shared by partitions           {"use_global_cursor": true, "state": {...}}; beside others: as the partition {}.
                                   `states` beside it has the partitions that were started and are no longer listed; in
                                   tables all partitions, because the edge of each is remembered. With grouped
                                   partitions, `state` has the cursor of all groups

One key is ours, `_cdk`. Beside a cursor value, its `slices` and `through` say what an unfinished attempt read beyond
that value, and `upto` where its plan ends; a completed read leaves none of them. Beside a page token, `trail` detects
cycles of tokens; it is present once a read was resumed. Beside the state of a `PagedStream` whose author advances it,
`paging` has the `token` of the page to resume at and the `state` that was set since the first page. The exact form,
stored in tables, also has `listing`, the list whose pages a token counts, and `edge`, the digests of the records at the
cursor value: `keys`, and `counts` where a digest occurred more than once. A partition that is missing from complete
lists has `missing`, the timestamp since when.

Beside `states`, `_cdk` has `after` while partitions with a cursor are read: the fields of the partition after which an
interrupted read resumes. The partitions up to it were read to their end and are read last. A completed read leaves no
`after`. `in_full` is present during the initial full read of a stream that is read differently once it has a state.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeGuard

from msgspec.structs import replace

from cdk.base.errors import BadState
from cdk.base.values import JsonObject, JsonValue, Stored, as_object
from cdk.state.layers.layered_map import LayeredMap
from cdk.state.position import Checkpoint, Done, Edge, OpenSlice, Position, Resume, Start
from cdk.state.position_json import NO_CURSOR, OWN_KEY, POSITION_KEYS, position_json, position_of
from cdk.state.slice import WHOLE, Partition
from cdk.state.stored_positions import MANY, MANY_IN_MESSAGE, PartitionEntries, StoredPositions, entry_text, since
from cdk.state.stream_state import StreamState
from cdk.state.window import Window

_PARTITION_KEYS = frozenset({"states", "use_global_cursor", "parent_state"})
_PARTITION_MARKS = _PARTITION_KEYS | {"lookback_window"}
_OF_PARTITIONS = frozenset({"states", "use_global_cursor", "state"})
"""Keys that locate partitions. A state without these, but with parents or a lookback window, has one cursor for all."""
_IN_FULL = "in_full"
_RANGE_TYPES = ("date-range", "integer")


class Stateful(Protocol):
    """The properties of a stream that reading and writing its state needs."""

    name: str
    namespace: str | None
    cursor_field: str | None
    partition_field: str | None
    supports_checkpointing: bool

    @property
    def empty_state(self) -> JsonValue:
        """The state that a message carries before anything was read."""

    def migrate_state(self, blob: JsonValue) -> JsonValue:
        """Return a state of an old form in the current form."""


def encode(state: StreamState, *, incremental: bool, resumable: bool = True, exact: bool = False) -> JsonObject:
    """Return the wire form of `state`.

    incremental: the stream has a cursor. resumable: the stream supports checkpoints; a completed full refresh of one
    that does not leaves the no-cursor message, so the next read starts again. exact: also write what only tables need,
    see above. With many partitions, `states` is a `PartitionEntries`, whose texts were made when each partition moved.
    """
    blob = _encode(state, incremental=incremental, resumable=resumable, exact=exact)
    return {**blob, OWN_KEY: {**as_object(blob.get(OWN_KEY)), _IN_FULL: True}} if state.in_full else blob


def _encode(state: StreamState, *, incremental: bool, resumable: bool, exact: bool) -> JsonObject:
    """Return the wire form without the mark of an initial full read."""
    positions, shares = state.positions, state.shares_cursor and WHOLE in state.positions
    if not (resumable or incremental or exact):
        return {NO_CURSOR: True}
    if not (shares or state.parents or state.after) and len(positions) == (WHOLE in positions):
        position = positions.get(WHOLE, Start())
        match position:
            case Done() if not resumable:
                return {NO_CURSOR: True}
            case _:
                return {**state.extra, **position_json(position, exact=exact)}
    blob: JsonObject = {"use_global_cursor": shares} if incremental else {}
    if shares:
        blob["state"] = position_json(positions[WHOLE], exact=exact)
        beside = StoredPositions.of(positions).updated({WHOLE: None})
        # An unfinished partition lies before the shared cursor: if the source lists it again, it is read to its end.
        positions = beside if exact else beside.unfinished()
    if positions or exact or not shares:
        entries = PartitionEntries(StoredPositions.of(positions).texts, exact=exact)
        states: Stored = entries if len(entries) >= (MANY if exact else MANY_IN_MESSAGE) else list(entries)
        blob["states"] = states
    if state.after:
        blob[OWN_KEY] = {"after": state.after.fields}
    if state.parents:
        blob["parent_state"] = {
            name: encode(parent, incremental=True, exact=exact) for name, parent in state.parents.items()
        }
    return {**state.extra, **blob}


def reserved_names(cursor: Mapping[str, JsonValue], *, partitioned: bool) -> list[str]:
    """Return the fields of a cursor or page token whose names a state reserves, so that it could not be read back.

    partitioned: it belongs to a partition, so it is nested below a key of its own.
    """
    reserved = POSITION_KEYS if partitioned else POSITION_KEYS | _PARTITION_MARKS
    if not partitioned and cursor.get("state_type") in _RANGE_TYPES:
        reserved |= {"slices"}
    return sorted(reserved & cursor.keys())


def decode(
    blob: JsonValue, *, path: str = "state", cursor_field: str | None = None, partition_field: str | None = None
) -> StreamState:
    """Parse the wire form of a state.

    path names the place in error messages. cursor_field is needed to read date ranges, partition_field to read the
    old form `{partition value: cursor}`. Raises BadState: when `blob` is not a state.
    """
    match blob:
        case None:
            return StreamState()
        case list():
            return StreamState(_partitions(blob, path))
        case Mapping() if is_in_full(blob):
            own = {name: value for name, value in as_object(blob[OWN_KEY]).items() if name != _IN_FULL}
            rest = {name: value for name, value in {**blob, OWN_KEY: own}.items() if own or name != OWN_KEY}
            return replace(_decode_map(rest, path, cursor_field, partition_field), in_full=True)
        case Mapping():
            return _decode_map(blob, path, cursor_field, partition_field)
        case _:
            raise BadState(path, blob, "a JSON object, or null for a stream that was never read")


def state_of(stream: Stateful, blob: JsonValue, path: str = "") -> StreamState:
    """Parse a stream's state, including old forms. path: where it was found, for errors. Raises BadState.

    A stream that can be read in several ways selects, from here on, the one that resumes from this state.
    """
    return state_of_current_form(stream, stream.migrate_state(blob), path)


def state_of_current_form(stream: Stateful, blob: JsonValue, path: str = "") -> StreamState:
    """Parse a stream's state of the current wire form, otherwise as `state_of`."""
    path = path or f"state of {stream.name}"
    return decode(blob, path=path, cursor_field=stream.cursor_field, partition_field=stream.partition_field)


def is_in_full(blob: Stored) -> bool:
    """Whether a state was written during the initial full read of a stream, see `StreamState.in_full`."""
    return isinstance(blob, Mapping) and _IN_FULL in as_object(blob.get(OWN_KEY))


def _decode_map(
    blob: Mapping[str, JsonValue], path: str, cursor_field: str | None, partition_field: str | None
) -> StreamState:
    if blob.get("state_type") in _RANGE_TYPES and "slices" in blob:
        return _from_ranges(blob, path, cursor_field)
    if not _PARTITION_MARKS.isdisjoint(blob):
        return _from_partitions(blob, path)
    if partition_field is not None and _is_partition_map(blob):
        return StreamState(
            {Partition({partition_field: key}): position_of(v, f"{path}.{key}") for key, v in blob.items()}
        )
    return StreamState(_without_partitions(position_of(blob, path)))


def _without_partitions(position: Position) -> dict[Partition, Position]:
    """Return the positions of a stream without partitions."""
    return {} if position == Start() else {WHOLE: position}


def _from_partitions(blob: Mapping[str, JsonValue], path: str) -> StreamState:
    positions: Mapping[Partition, Position] = _partitions(blob.get("states") or [], f"{path}.states")
    shares = bool(blob.get("use_global_cursor")) and "state" in blob
    if shares:
        shared = _without_partitions(position_of(blob["state"], f"{path}.state"))
        positions = StoredPositions.of(positions).updated(shared)
    extra = {
        k: v
        for k, v in blob.items()
        if k not in _PARTITION_KEYS and k != OWN_KEY and not (k == "state" and WHOLE in positions)
    }
    if _OF_PARTITIONS.isdisjoint(blob):
        # As in airbyte-cdk 7.39.1 (`ConcurrentPerPartitionCursor`): each partition starts from this cursor.
        cursor = {k: extra.pop(k) for k in extra.keys() - _PARTITION_MARKS}
        positions = _without_partitions(position_of(cursor, path))
    parents = blob.get("parent_state") or {}
    if not isinstance(parents, Mapping):
        raise BadState(f"{path}.parent_state", parents, "an object that maps a parent stream's name to its state")
    return StreamState(
        positions=positions,
        parents={
            name: decode(parent, path=f"{path}.parent_state.{name}") for name, parent in parents.items() if parent
        },
        extra=extra,
        shares_cursor=shares and WHOLE in positions,
        after=_after(blob.get(OWN_KEY, {}), f"{path}.{OWN_KEY}"),
    )


def _after(own: JsonValue, path: str) -> Partition | None:
    """Return the partition after which an interrupted read resumes; None if there is none."""
    match own:
        case {"after": Mapping() as fields} if fields:
            return _partition(fields, f"{path}.after")
        case {"after": other}:
            raise BadState(f"{path}.after", other, "the fields of a partition, an object")
        case Mapping():
            return None
        case _:
            raise BadState(path, own, "the object that an earlier run of this kit saved there")


def _is_partition_map(blob: Mapping[str, JsonValue]) -> bool:
    return bool(blob) and all(isinstance(value, Mapping) for value in blob.values()) and OWN_KEY not in blob


def _partitions(items: JsonValue, path: str) -> StoredPositions:
    """Parse the position of each partition. `PartitionEntries` are not checked again: their writer did that."""
    if isinstance(items, PartitionEntries):
        return StoredPositions(items.texts)
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise BadState(path, items, 'a list of {"partition": {...}, "cursor": {...}}')
    texts: dict[str, str] = {}
    for i, item in enumerate(items):
        match entry := as_object(item):
            case {"partition": Mapping() as fields, "cursor": cursor}:
                missing = entry.get("missing")
                at = None if missing is None else since(missing, f"{path}[{i}].missing")
                text = entry_text(position_of(cursor, f"{path}[{i}].cursor"), at)
                key = _partition(fields, f"{path}[{i}].partition").key
                if texts.setdefault(key, text) != text:
                    words = "a partition that is listed once; another entry has another position"
                    raise BadState(f"{path}[{i}].partition", fields, words)
            case _:
                raise BadState(f"{path}[{i}]", item, '{"partition": {...}, "cursor": {...}}')
    return StoredPositions(LayeredMap.of(texts))


def _partition(fields: Mapping[str, JsonValue], path: str) -> Partition:
    try:
        return Partition(fields)
    except TypeError as error:
        raise BadState(path, fields, "values that JSON can hold") from error


def _from_ranges(blob: Mapping[str, JsonValue], path: str, cursor_field: str | None) -> StreamState:
    if cursor_field is None:
        raise BadState(path, blob, "a state without date ranges: this stream has no cursor")
    slices = blob["slices"]
    if not _are_ranges(slices):
        raise BadState(f"{path}.slices", slices, 'a list of {"start": ..., "end": ...}')
    if not slices:
        return StreamState()
    first, *later = slices
    resume = Resume(first["end"], tuple(_closed_range(item) for item in later)) if later else None
    value = first.get("most_recent_cursor_value")
    position = Checkpoint({cursor_field: first["start"] if value is None else value}, None, resume)
    return StreamState({WHOLE: position})


def _are_ranges(blob: JsonValue) -> TypeGuard[Sequence[Mapping[str, JsonValue]]]:
    return isinstance(blob, Sequence) and all(isinstance(s, Mapping) and {"start", "end"} <= s.keys() for s in blob)


def _closed_range(blob: Mapping[str, JsonValue]) -> OpenSlice:
    greatest = blob.get("most_recent_cursor_value")
    window = Window(blob["start"], blob["end"], blob["end"], last=False)
    return OpenSlice(window, Done(), None if greatest is None else Edge(greatest))
