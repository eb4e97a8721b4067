"""Positions as JSON: the part of a state that describes one partition. `cdk.state.wire` documents the keys."""

from collections.abc import Mapping, Sequence
from typing import TypeGuard, assert_never

from msgspec.structs import asdict, replace

from cdk.base.errors import BadState
from cdk.base.values import JsonObject, JsonValue, as_object
from cdk.state.position import (
    UNKNOWN_LISTING,
    Checkpoint,
    Done,
    Edge,
    Listing,
    OpenSlice,
    Paging,
    Position,
    Resume,
    Start,
    Trail,
)
from cdk.state.window import Window

NO_CURSOR = "__ab_no_cursor_state_message"
OWN_KEY = "_cdk"
_COMPLETE = "__ab_full_refresh_sync_complete"
_OLD_NO_CURSOR = "__ab_full_refresh_state_message"
POSITION_KEYS = frozenset({NO_CURSOR, OWN_KEY, _COMPLETE, _OLD_NO_CURSOR})
"""Keys with a meaning of their own, which appear beside the fields of a cursor or page token."""


def position_json(position: Position, *, exact: bool) -> JsonObject:
    """Return the JSON of a position. exact: include what only tables need."""
    match position:
        case Start():
            return {}
        case Done():
            return {_COMPLETE: True}
        case Checkpoint(cursor, edge, resume, trail, listing, paging):
            own = _resume(resume, exact=exact) if resume else {}
            if exact and edge is not None and edge.keys:
                own["edge"] = _edge(edge, exact=exact)
            if trail is not None:
                own["trail"] = _trail(trail)
            if exact and listing != UNKNOWN_LISTING:
                own["listing"] = _listing(listing)
            if paging is not None:
                own["paging"] = {"token": dict(paging.token), "state": dict(paging.state)}
            return {**cursor, OWN_KEY: own} if own else dict(cursor)
        case _:
            assert_never(position)


def position_of(blob: JsonValue, path: str) -> Position:
    """Parse a position. Raises BadState naming `path`."""
    if blob is None:
        return Start()
    if not isinstance(blob, Mapping):
        raise BadState(path, blob, "a JSON object with a cursor value or a page token")
    if blob.get(_COMPLETE):
        return Done()
    if not blob or NO_CURSOR in blob or _OLD_NO_CURSOR in blob:
        return Start()
    if OWN_KEY not in blob:
        return Checkpoint(dict(blob))
    cursor = {k: v for k, v in blob.items() if k != OWN_KEY}
    return replace(_own_parts(blob, path), cursor=cursor)


def _own_parts(blob: Mapping[str, JsonValue], path: str) -> Checkpoint:
    """Parse what the kit stores beside a cursor value, as a checkpoint with an empty cursor. Raises BadState."""
    own, where = blob.get(OWN_KEY, {}), f"{path}.{OWN_KEY}"
    if not isinstance(own, Mapping):
        raise BadState(where, own, "the object that an earlier run of this kit saved there")
    edge, trail = _to_edge(own.get("edge"), where), _to_trail(own.get("trail"), where)
    listing, paging = _to_listing(own.get("listing"), where), _to_paging(own.get("paging"), where)
    return Checkpoint({}, edge, _to_resume(own, where), trail, listing, paging)


def _listing(listing: Listing) -> JsonObject:
    return {name: value for name, value in asdict(listing).items() if value}


def _to_listing(blob: JsonValue, path: str) -> Listing:
    if blob is None:
        return UNKNOWN_LISTING
    match {"fingerprint": "", "total": 0, "end": "", **as_object(blob)}:
        case {"fingerprint": str() as fingerprint, "total": int() as total, "end": str() as end}:
            return Listing(fingerprint, total, end)
        case _:
            raise BadState(f"{path}.listing", blob, '{"fingerprint": string, "total": number, "end": string}')


def _to_paging(blob: JsonValue, path: str) -> Paging | None:
    match blob:
        case None:
            return None
        case {"token": Mapping() as token, "state": Mapping() as state}:
            return Paging(dict(token), dict(state))
        case _:
            raise BadState(f"{path}.paging", blob, '{"token": {...}, "state": {...}}')


def _trail(trail: Trail) -> list[JsonValue]:
    return [trail.held, trail.steps, trail.limit, *([True] if trail.noticed else [])]


def _to_trail(blob: JsonValue, path: str) -> Trail | None:
    match blob:
        case None:
            return None
        case [str() as held, int() as steps, int() as limit, *more] if 0 <= steps <= limit and more in ([], [True]):
            return Trail(held, steps, limit, bool(more))
        case _:
            raise BadState(f"{path}.trail", blob, "[digest of a token, steps since it, steps until it is replaced]")


def _resume(resume: Resume, *, exact: bool) -> JsonObject:
    blob: JsonObject = {"through": resume.through}
    if resume.upto is not None:
        blob["upto"] = resume.upto
    if resume.open:
        blob["slices"] = [_open_slice(item, exact=exact) for item in resume.open]
    return blob


def _open_slice(item: OpenSlice, *, exact: bool) -> JsonObject:
    w = item.window
    blob: JsonObject = {"window": [w.start, w.end, w.until, w.last]}
    match item.position:
        case Done():
            blob["done"] = True
        case Checkpoint(cursor, trail=trail, listing=listing):
            blob["cursor"] = dict(cursor)
            if trail is not None:
                blob["trail"] = _trail(trail)
            if exact and listing != UNKNOWN_LISTING:
                blob["listing"] = _listing(listing)
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
        raise BadState(f"{path}.slices", slices, "a list of windows that were started")
    opened = tuple(_to_open_slice(item, f"{path}.slices[{i}]") for i, item in enumerate(slices))
    return Resume(own["through"], opened, own.get("upto"))


def _to_open_slice(blob: JsonValue, path: str) -> OpenSlice:
    match item := as_object(blob):
        case {"window": [start, end, until, bool() as last]}:
            position: Position = Start()
            if item.get("done"):
                position = Done()
            elif isinstance(cursor := item.get("cursor"), Mapping):
                trail, listing = _to_trail(item.get("trail"), path), _to_listing(item.get("listing"), path)
                position = Checkpoint(dict(cursor), trail=trail, listing=listing)
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
