"""Blobs: how a value lies in a store. Small ones in the record, large ones beside it, changed ones as patches.

A large value is a chain: a blob of the whole, then one of what changed, for each record that changed it. So a record
costs what changed since the one before. When the patches outgrow the whole, or become many, the whole is written again.

A patch is what turns one JSON object into another: `{"set": {"new or changed": ...}, "drop": ["missing"], "in": {"an
object": {a patch of it}}}`. Only objects are looked into; a list is set as a whole. So what grows large belongs into
objects, by key.

A blob's name begins with the number of the record it is written for. Once that number is taken, a blob of it that no
record names never will be named: it can be removed, without a clock and without asking who is running.
"""

import zlib
from typing import NamedTuple

from cdk.base.errors import BadState
from cdk.base.values import JsonObject, Stored, canonical
from cdk.state.log.canonical_json import digest, dumps_canonical, loads_canonical
from cdk.state.log.record import Slot
from cdk.state.log.slot_value import Frozen, StateValue, value_digest
from cdk.state.stores.key import StateKey
from cdk.state.stores.protocol import LogStore

INLINE = 16 * 1024
"""Texts of more bytes become blobs."""

_ENCODING = "zlib"
_PATCHES = 20
_LEVEL = 3
_PLAIN = (str, int, bool, type(None))
_LARGEST = 2**29
"""Bytes that a blob may unpack to; more is no state, but an attempt on the memory."""


class Placed(NamedTuple):
    """A slot as its record will say it, and the blob that must be stored before."""

    slot: Slot
    blob: tuple[str, bytes] | None


def to_slot(value: Frozen, seq: int, before: Slot | None) -> Placed:
    """How record `seq` keeps a value; `before`: the slot in its parent."""
    json: JsonObject = {
        "kind": value.kind,
        "version": value.version,
        "since": seq,
        "digest": value.digest,
        "bytes": len(value.text),
    }
    if len(value.text) <= INLINE:
        return Placed(Slot({**json, "value": loads_canonical(value.text, "slot")}), None)
    if (patched := _patched(value, before)) is not None:
        data, chain, (full_size, patches) = patched
        stored = [full_size, patches + len(data)]
    else:
        data, chain = zlib.compress(value.text, _LEVEL), ()
        stored = [len(data), 0]
    name = f"{seq}-{digest(data).partition(':')[2][:16]}"
    slot = Slot({**json, "encoding": _ENCODING, "blobs": [*chain, name], "stored": stored})
    return Placed(slot, (name, data))


def _patched(value: Frozen, before: Slot | None) -> tuple[bytes, tuple[str, ...], list[int]] | None:
    """The patch from the parent's value, the chain before it and its sizes; None where the whole is better."""
    if before is None or value.base is None or not 0 < len(before.blobs) <= _PATCHES:
        return None
    standing = value_digest(before.json["kind"], before.json["version"], value.base)
    if before.json["encoding"] != _ENCODING or before.digest != standing:
        return None
    old, new = loads_canonical(value.base, "slot"), loads_canonical(value.text, "slot")
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return None
    data = zlib.compress(dumps_canonical(diff(old, new), "slot"), _LEVEL)
    stored: list[int] = before.json["stored"]
    return (data, before.blobs, stored) if stored[1] + len(data) <= stored[0] // 2 else None


def load(store: LogStore, key: StateKey, slot: Slot, path: str) -> tuple[StateValue, bytes]:
    """A slot's value and its canonical text. path: where the slot is, for errors.

    Raises BadState: a blob is missing or cut, or the value is not the one whose digest the record has.
    """
    try:
        kind, version, expected = slot.json["kind"], slot.json["version"], slot.digest
        value = _unpack(store, key, slot, path) if slot.blobs else slot.json["value"]
    except (KeyError, TypeError, AttributeError) as error:
        raise BadState(path, f"a slot or patch that does not fit ({error!r})", "what an earlier run wrote") from error
    text = canonical(value).encode()
    if (actual := value_digest(kind, version, text)) != expected:
        raise BadState(f"{path}.digest", actual, f"{expected}: the value was changed after it was written")
    return StateValue(kind, version, value), text


def _unpack(store: LogStore, key: StateKey, slot: Slot, path: str) -> Stored:
    if slot.json["encoding"] != _ENCODING:
        raise BadState(f"{path}.encoding", slot.json["encoding"], f"{_ENCODING!r}; a newer kit may have written it")
    value, *patches = (loads_canonical(_inflated(store, key, name, path), f"{path} blob {name}") for name in slot.blobs)
    for patch in patches:
        value = apply(value, patch)
    return value


def _inflated(store: LogStore, key: StateKey, name: str, path: str) -> bytes:
    if (data := store.blob(key, name)) is None:
        raise BadState(f"{path} blob {name}", None, "the blob that the record names: it was removed")
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(data, _LARGEST)
    except zlib.error as error:
        raise BadState(f"{path} blob {name}", str(error), "what an earlier run wrote") from error
    if not unpacking.eof:
        raise BadState(
            f"{path} blob {name}", f"{len(data)} bytes", f"a whole blob of at most {_LARGEST} bytes unpacked"
        )
    return text


def diff(old: JsonObject, new: JsonObject) -> JsonObject:
    """The patch from `old` to `new`; empty when they have the same canonical text."""
    changed: JsonObject = {}
    inside: JsonObject = {}
    for key in _different(old, new):
        before, value = old.get(key), new[key]
        if isinstance(before, dict) and isinstance(value, dict):
            inside[key] = diff(before, value)
        else:
            changed[key] = value
    dropped = [key for key in old if key not in new]
    parts: JsonObject = {"set": changed, "drop": dropped, "in": inside}
    return {name: part for name, part in parts.items() if part}


def apply(old: dict[str, Stored], patch: dict[str, Stored]) -> dict[str, Stored]:
    """`old` as the patch changes it. Consumes `old`: it may hold the result."""
    for key in patch.get("drop", ()):
        del old[key]
    for key, inner in patch.get("in", {}).items():
        old[key] = apply(old[key], inner)
    old.update(patch.get("set", {}))
    return old


def _different(old: JsonObject, new: JsonObject) -> list[str]:
    """The keys of `new` whose values have another canonical text in `old`, or none.

    1, 1.0 and true are equal in Python and have three texts, 0.0 and -0.0 have two; inside of maps and lists only the
    text tells. One text of a million equal values is far cheaper than a million texts.
    """
    different: list[str] = []
    doubtful: list[str] = []
    missing = object()
    for key, value in new.items():
        before = old.get(key, missing)
        if type(before) is not type(value) or before != value:
            different.append(key)
        elif type(value) not in _PLAIN:
            doubtful.append(key)
    if canonical([old[key] for key in doubtful]) != canonical([new[key] for key in doubtful]):
        different.extend(key for key in doubtful if canonical(old[key]) != canonical(new[key]))
    return different
