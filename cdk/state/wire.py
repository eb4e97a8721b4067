"""State on the wire: the only place that knows the Airbyte protocol's shapes and magic keys.

    nothing read yet               {}
    full refresh, finished         {"__ab_no_cursor_state_message": true}     read back as nothing: it starts again
    pages, at a token              the token: {"page": 3}
    pages, finished                {"__ab_full_refresh_sync_complete": true}
    cursor                         {"updated_at": "..."}                      other keys are carried along
    cursor, as date ranges         {"slices": [...], "state_type": "date-range"}
    partitions                     {"use_global_cursor": false, "states": [{"partition", "cursor"}], "parent_state"}
    partitions without a cursor    {"states": [...]}
    shared by partitions           {"use_global_cursor": true, "state": {...}}; beside others: as the partition {}

One key is ours, `_cdk`, beside a cursor value: `slices` and `through` say what an unfinished attempt read beyond it. On
the protocol it is there only while a slice was cut in the middle. Beside the token of a page, `trail` notices tokens
that go in a circle; it is there once a read was resumed. The exact form, kept in tables, also says which
windows were closed without a record, and `edge` holds the digests of the records at the cursor value: `keys`, and in
`counts` how often each came, where that is more than once. A partition that complete lists lack has `missing`, since
when.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeAlias, TypeGuard, assert_never

from cdk.base.errors import BadState
from cdk.base.times.clock import parse_timestamp
from cdk.base.values import JsonObject, JsonValue
from cdk.state.position import Checkpoint, Done, Edge, OpenSlice, Position, Resume, Start, Trail
from cdk.state.slice import WHOLE, Partition
from cdk.state.stream_state import StreamState
from cdk.state.window import Window

_COMPLETE = "__ab_full_refresh_sync_complete"
_NO_CURSOR = "__ab_no_cursor_state_message"
_OLD_NO_CURSOR = "__ab_full_refresh_state_message"
_OWN_KEY = "_cdk"
_PARTITION_KEYS = frozenset({"states", "use_global_cursor", "parent_state"})
_RANGE_TYPES = ("date-range", "integer")


Memo: TypeAlias = dict[Partition, tuple[Position, JsonObject]]
"""What was written of each partition, and for which position."""


def encode(
    state: StreamState,
    *,
    incremental: bool,
    resumable: bool = True,
    cursor_field: str | None = None,
    exact: bool = False,
    memo: Memo | None = None,
) -> JsonObject:
    """Return the wire form of `state`.

    incremental: the stream has a cursor. resumable: it supports checkpoints; a plain full refresh that is done
    leaves the no-cursor message, so the next read starts again. exact: write also what only tables need, see above.
    memo: what was written of each partition before; a state of many partitions then costs what has changed.
    """
    positions = state.positions
    if not (resumable or incremental or exact):
        return {_NO_CURSOR: True}
    if not state.parents and set(positions) <= {WHOLE}:
        position = positions.get(WHOLE, Start())
        match position:
            case Checkpoint() if state.ranges_from is not None and cursor_field is not None:
                return {**state.extra, **_ranges(position, cursor_field, state.ranges_from, exact=exact)}
            case Done() if not resumable:
                return {_NO_CURSOR: True}
            case _:
                return {**state.extra, **_position(position, exact=exact)}
    blob: JsonObject = {"use_global_cursor": False} if incremental else {}
    memo = {} if memo is None else memo
    states: list[JsonValue] = []
    for partition, position in positions.items():
        known = memo.get(partition)
        if known is None or known[0] is not position:
            entry: JsonObject = {"partition": partition.fields, "cursor": _position(position, exact=exact)}
            if exact and (since := state.missing.get(partition)) is not None:
                entry["missing"] = since.isoformat()
            known = memo[partition] = (position, entry)
        states.append(known[1])
    blob["states"] = states
    if state.parents:
        blob["parent_state"] = {
            name: encode(parent, incremental=True, exact=exact) for name, parent in state.parents.items()
        }
    return {**state.extra, **blob}


def decode(
    blob: JsonValue, *, path: str = "state", cursor_field: str | None = None, partition_field: str | None = None
) -> StreamState:
    """Return the state that a blob stands for.

    path names the place in error messages. cursor_field is needed to read date ranges, partition_field to read the
    old form `{partition value: cursor}`. Raises BadState for anything that is no state.
    """
    match blob:
        case None:
            return StreamState()
        case list():
            return StreamState(_partitions(blob, path)[0])
        case Mapping():
            return _decode_map(blob, path, cursor_field, partition_field)
        case _:
            raise BadState(path, blob, "a JSON object, or null for a stream that was never read")


def _decode_map(
    blob: Mapping[str, JsonValue], path: str, cursor_field: str | None, partition_field: str | None
) -> StreamState:
    if blob.get("state_type") in _RANGE_TYPES and "slices" in blob:
        return _from_ranges(blob, path, cursor_field)
    if not _PARTITION_KEYS.isdisjoint(blob):
        return _from_partitions(blob, path)
    if partition_field is not None and _is_partition_map(blob):
        return StreamState(
            {Partition({partition_field: key}): _to_position(v, f"{path}.{key}") for key, v in blob.items()}
        )
    return StreamState(_without_partitions(_to_position(blob, path)))


def _without_partitions(position: Position) -> dict[Partition, Position]:
    """The position of a stream without partitions."""
    return {} if position == Start() else {WHOLE: position}


def _from_partitions(blob: Mapping[str, JsonValue], path: str) -> StreamState:
    positions, missing = _partitions(blob.get("states") or [], f"{path}.states")
    if blob.get("use_global_cursor") and "state" in blob:
        positions = _without_partitions(_to_position(blob["state"], f"{path}.state"))
    parents = blob.get("parent_state") or {}
    if not isinstance(parents, Mapping):
        raise BadState(f"{path}.parent_state", parents, "an object that maps a parent stream's name to its state")
    return StreamState(
        positions=positions,
        missing=missing,
        parents={
            name: decode(parent, path=f"{path}.parent_state.{name}") for name, parent in parents.items() if parent
        },
        extra={
            k: v
            for k, v in blob.items()
            if k not in _PARTITION_KEYS and k != _OWN_KEY and not (k == "state" and WHOLE in positions)
        },
    )


def _is_partition_map(blob: Mapping[str, JsonValue]) -> bool:
    return bool(blob) and all(isinstance(value, Mapping) for value in blob.values()) and _OWN_KEY not in blob


def _partitions(items: JsonValue, path: str) -> tuple[dict[Partition, Position], dict[Partition, datetime]]:
    """Where each partition stands, and since when lists of the source lack some."""
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise BadState(path, items, 'a list of {"partition": {...}, "cursor": {...}}')
    positions: dict[Partition, Position] = {}
    missing: dict[Partition, datetime] = {}
    for i, item in enumerate(items):
        match entry := _object(item):
            case {"partition": Mapping() as fields, "cursor": cursor}:
                partition = _partition(fields, f"{path}[{i}]")
                positions[partition] = _to_position(cursor, f"{path}[{i}].cursor")
                if (since := entry.get("missing")) is not None:
                    missing[partition] = _since(since, f"{path}[{i}].missing")
            case _:
                raise BadState(f"{path}[{i}]", item, '{"partition": {...}, "cursor": {...}}')
    return positions, missing


def _object(blob: JsonValue) -> Mapping[str, JsonValue]:
    return blob if isinstance(blob, Mapping) else {}


def _since(text: JsonValue, path: str) -> datetime:
    since = parse_timestamp(text, ()) if isinstance(text, str) else None
    if since is None:
        raise BadState(path, text, "a moment in ISO 8601, such as 2024-01-01T00:00:00+00:00")
    return since


def _partition(fields: Mapping[str, JsonValue], path: str) -> Partition:
    try:
        return Partition(fields)
    except TypeError as error:
        raise BadState(f"{path}.partition", fields, "values that JSON can hold") from error


def _position(position: Position, *, exact: bool) -> JsonObject:
    match position:
        case Start():
            return {}
        case Done():
            return {_COMPLETE: True}
        case Checkpoint(cursor, edge, resume, trail):
            own = _resume(resume, exact=exact) if resume and (exact or resume.open) else {}
            if exact and edge is not None and edge.keys:
                own["edge"] = _edge(edge, exact=exact)
            if trail is not None:
                own["trail"] = _trail(trail)
            return {**cursor, _OWN_KEY: own} if own else dict(cursor)
        case _:
            assert_never(position)


def _to_position(blob: JsonValue, path: str) -> Position:
    if blob is None:
        return Start()
    if not isinstance(blob, Mapping):
        raise BadState(path, blob, "a JSON object with a cursor value or a page token")
    if blob.get(_COMPLETE):
        return Done()
    if not blob or _NO_CURSOR in blob or _OLD_NO_CURSOR in blob:
        return Start()
    if _OWN_KEY not in blob:
        return Checkpoint(dict(blob))
    edge, resume, trail = _to_own(blob, path)
    return Checkpoint({k: v for k, v in blob.items() if k != _OWN_KEY}, edge, resume, trail)


def _to_own(blob: Mapping[str, JsonValue], path: str) -> tuple[Edge | None, Resume | None, Trail | None]:
    own, where = blob.get(_OWN_KEY, {}), f"{path}.{_OWN_KEY}"
    if not isinstance(own, Mapping):
        raise BadState(where, own, "the object that an earlier run of this kit left there")
    return _to_edge(own.get("edge"), where), _to_resume(own, where), _to_trail(own.get("trail"), where)


def _trail(trail: Trail) -> list[JsonValue]:
    return [trail.held, trail.steps, trail.limit]


def _to_trail(blob: JsonValue, path: str) -> Trail | None:
    match blob:
        case None:
            return None
        case [str() as held, int() as steps, int() as limit] if 0 <= steps <= limit:
            return Trail(held, steps, limit)
        case _:
            raise BadState(f"{path}.trail", blob, "[digest of a token, steps since it, steps until it is replaced]")


def _resume(resume: Resume, *, exact: bool) -> JsonObject:
    blob: JsonObject = {"through": resume.through}
    if resume.open:
        blob["slices"] = [_open_slice(item, exact=exact) for item in resume.open]
    return blob


def _open_slice(item: OpenSlice, *, exact: bool) -> JsonObject:
    w = item.window
    blob: JsonObject = {"window": [w.start, w.end, w.until, w.last]}
    match item.position:
        case Done():
            blob["done"] = True
        case Checkpoint(cursor, trail=trail):
            blob["cursor"] = dict(cursor)
            if trail is not None:
                blob["trail"] = _trail(trail)
        case Start():
            pass
    if item.edge is not None:
        blob["edge"] = _edge(item.edge, exact=exact)
    return blob


def _to_resume(own: Mapping[str, JsonValue], path: str) -> Resume | None:
    if "through" not in own:
        return None
    slices = own.get("slices", [])
    if not isinstance(slices, Sequence):
        raise BadState(f"{path}.slices", slices, "a list of windows that were begun")
    return Resume(own["through"], tuple(_to_open_slice(s, f"{path}.slices[{i}]") for i, s in enumerate(slices)))


def _to_open_slice(blob: JsonValue, path: str) -> OpenSlice:
    match item := _object(blob):
        case {"window": [start, end, until, bool() as last]}:
            position: Position = Start()
            if item.get("done"):
                position = Done()
            elif isinstance(cursor := item.get("cursor"), Mapping):
                position = Checkpoint(dict(cursor), trail=_to_trail(item.get("trail"), path))
            return OpenSlice(Window(start, end, until, last), position, _to_edge(item.get("edge"), path))
        case _:
            raise BadState(path, blob, '{"window": [start, end, until, last], "cursor": {...} or "done": true}')


def _edge(edge: Edge, *, exact: bool) -> JsonObject:
    blob: JsonObject = {"value": edge.value}
    if exact:
        for name, known in (("keys", edge.keys), ("counts", edge.counts), ("held", edge.held)):
            if known:
                blob[name] = dict(known)
    return blob


def _to_edge(blob: JsonValue, path: str) -> Edge | None:
    if blob is None:
        return None
    if isinstance(blob, Mapping) and "value" in blob:
        keys, counts, held = (blob.get(name, {}) for name in ("keys", "counts", "held"))
        if isinstance(keys, Mapping) and _are_counts(counts) and _are_counts(held):
            return Edge(blob["value"], dict(keys), dict(counts), dict(held))
    raise BadState(f"{path}.edge", blob, '{"value": ..., "keys": {...}, "counts": {digest: number}}')


def _are_counts(blob: JsonValue) -> TypeGuard[Mapping[str, int]]:
    return isinstance(blob, Mapping) and all(type(count) is int and count > 0 for count in blob.values())


def _ranges(position: Checkpoint, cursor_field: str, start: JsonValue, *, exact: bool) -> JsonObject:
    """The peer's concurrent form. A range that was closed is written as one; half-read ones travel in our key."""
    most_recent = position.cursor.get(cursor_field)
    resume = position.resume
    first = {
        "start": start,
        "end": resume.through if resume else most_recent,
        "most_recent_cursor_value": most_recent,
    }
    slices = [first]
    for item in resume.open if resume else ():
        if item.position == Done():
            greatest = item.edge.value if item.edge else None
            slices.append({"start": item.window.start, "end": item.window.end, "most_recent_cursor_value": greatest})
    blob: JsonObject = {"slices": slices, "state_type": _RANGE_TYPES[0]}
    own = _position(position, exact=exact).get(_OWN_KEY)
    return {**blob, _OWN_KEY: own} if own else blob


def _from_ranges(blob: Mapping[str, JsonValue], path: str, cursor_field: str | None) -> StreamState:
    if cursor_field is None:
        raise BadState(path, blob, "a state without date ranges: this stream has no cursor")
    slices = blob["slices"]
    if not _are_ranges(slices):
        raise BadState(f"{path}.slices", slices, 'a list of {"start": ..., "end": ...}')
    if not slices:
        return StreamState()
    first, *later = slices
    edge, resume, _ = _to_own(blob, path)
    if resume is None and later:
        resume = Resume(first["end"], tuple(_closed_range(item) for item in later))
    value = first.get("most_recent_cursor_value")
    position = Checkpoint({cursor_field: first["start"] if value is None else value}, edge, resume)
    extra = {k: v for k, v in blob.items() if k not in ("slices", "state_type", _OWN_KEY)}
    return StreamState({WHOLE: position}, extra=extra, ranges_from=first["start"])


def _are_ranges(blob: JsonValue) -> TypeGuard[Sequence[Mapping[str, JsonValue]]]:
    return isinstance(blob, Sequence) and all(isinstance(s, Mapping) and {"start", "end"} <= s.keys() for s in blob)


def _closed_range(blob: Mapping[str, JsonValue]) -> OpenSlice:
    greatest = blob.get("most_recent_cursor_value")
    window = Window(blob["start"], blob["end"], blob["end"], last=False)
    return OpenSlice(window, Done(), None if greatest is None else Edge(greatest))
