"""Blobs: how values are stored. Small values are in the record, large ones beside it, changes as differences.

A large value is a chain of layers (`cdk.state.layers.layer_file`), like the state of a table: one with the whole value,
then one with the difference for each record that changed it. The cost of a record therefore depends on what changed
since the previous one. When the differences outgrow half of the whole, or there are many layers, the whole is written
again.

A layer has texts by key. For a JSON object these are its leaves by their paths: `"users","id-7"`. Only objects are
flattened; a list is one leaf. Data that grows large should therefore be in objects, by key.

Values that another store already holds as layers, such as a table's positions, are taken over unchanged: a record
copies the layers that the previous record lacks, and does not read the others.

A blob's name starts with the number of the record that it is written for, and ends with the digest that vouches for it.
Once that number is taken, a blob of that number that no record names can never be named any more. It can be removed
without a clock, and without knowing which runs are active.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct

from cdk.base.errors import BadState
from cdk.base.values import JsonObject, JsonValue, Stored, canonical, from_json
from cdk.state.layers.layer_file import FORMAT, StoredLayer, to_bytes
from cdk.state.layers.layered_map import Texts, joined
from cdk.state.log.canonical_json import loads_canonical
from cdk.state.log.record import Slot
from cdk.state.log.slot_value import Frozen, StateValue, value_digest
from cdk.state.stores.protocol import LogStore, StateKey

INLINE = 16 * 1024
"""Maximum bytes of a text in a record; longer ones become blobs."""

_LAYERS = 20


class Placed(Struct, frozen=True):
    """A slot for a record, and the blob that must be stored before the record, besides those of the slot's maps."""

    slot: Slot
    blob: tuple[str, bytes] | None


def new_layers(value: Frozen, seq: int, before: Slot | None) -> Iterator[tuple[str, StoredLayer, bytes]]:
    """Yield name, layer and bytes of each map layer that record `seq` must store.

    Raises StateError: when a layer is missing.
    """
    known = _layers(before)
    for layer in (layer for part in value.maps for layer in part.layers if layer.digest not in known):
        data, name = layer.read(), f"{seq}-{layer.digest}"
        yield name, StoredLayer(partial(_part, data), layer.entries, layer.digest, name), data


def _layers(before: Slot | None) -> dict[str, str]:
    """Return the names of the layers of a slot's maps, by digest."""
    return (
        {} if before is None else {name.partition("-")[2]: name for part in before.maps for name, _ in part["layers"]}
    )


def to_slot(value: Frozen, seq: int, before: Slot | None) -> Placed:
    """Convert a value to a slot of record `seq`. before: the slot in the parent record."""
    json: JsonObject = {
        "kind": value.kind,
        "version": value.version,
        "since": seq,
        "digest": value.digest,
        "bytes": value.size,
    }
    if value.maps:
        known = _layers(before)
        json["maps"] = [
            {
                "at": list(part.at),
                "layers": [[known.get(at.digest, f"{seq}-{at.digest}"), at.entries] for at in part.layers],
            }
            for part in value.maps
        ]
    if len(value.text) <= INLINE:
        return Placed(Slot({**json, "value": loads_canonical(value.text, "slot")}), None)
    texts = flattened(loads_canonical(value.text, "slot"))
    if (old := _base(value, before)) is not None and before is not None:
        changed = changes(old, texts)
        data, digest = to_bytes(changed)
        full_size, later = before.json["stored"]
        if later + len(data) <= full_size // 2:
            chain = [*before.blobs, f"{seq}-{digest}"], [*before.json["entries"], len(changed)]
            return _placed(json, data, *chain, [full_size, later + len(data)])
    data, digest = to_bytes(texts)
    return _placed(json, data, [f"{seq}-{digest}"], [len(texts)], [len(data), 0])


def _placed(json: JsonObject, data: bytes, names: list[str], entries: list[int], stored: list[int]) -> Placed:
    slot = Slot({**json, "encoding": FORMAT, "blobs": names, "entries": entries, "stored": stored})
    return Placed(slot, (names[-1], data))


def _base(value: Frozen, before: Slot | None) -> Mapping[str, str] | None:
    """Return the texts of the parent's value; None if the whole value has to be written."""
    if before is None or value.base is None or before.maps or not 0 < len(before.blobs) <= _LAYERS:
        return None
    base_digest = value_digest(before.json["kind"], before.json["version"], value.base)
    if before.json["encoding"] != FORMAT or before.digest != base_digest:
        return None
    return flattened(loads_canonical(value.base, "slot"))


def load(store: LogStore, key: StateKey, slot: Slot, path: str) -> tuple[StateValue, bytes]:
    """Return a slot's value and its canonical text. path: location of the slot, for errors.

    Raises BadState: when a blob is missing or truncated, or the value does not have the digest in the record.
    """
    try:
        kind, version, expected = slot.json["kind"], slot.json["version"], slot.digest
        value = _unpack(store, key, slot, path) if "blobs" in slot.json else slot.json["value"]
        text = canonical(value).encode()
        maps = [[part["at"], [name.partition("-")[2] for name, _ in part["layers"]]] for part in slot.maps]
        if (actual := value_digest(kind, version, text, maps)) != expected:
            raise BadState(f"{path}.digest", actual, f"{expected}: the value was changed after it was written")
        if maps:
            value = from_json(text)  # a copy, so that the record's own value stays unchanged
            for part in slot.maps:
                _insert(value, part["at"], _texts(store, key, part["layers"], path))
            text = canonical(value).encode()
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadState(path, f"a slot or layer that does not fit ({error!r})", "what an earlier run wrote") from error
    return StateValue(kind, version, value), text


def _insert(value: Stored, at: Sequence[str], texts: Mapping[str, str]) -> None:
    for name in at[:-1]:
        value = value[name]
    value[at[-1]] = {key: from_json(text) for key, text in texts.items()}


def _unpack(store: LogStore, key: StateKey, slot: Slot, path: str) -> Stored:
    if slot.json["encoding"] != FORMAT:
        raise BadState(f"{path}.encoding", slot.json["encoding"], f"{FORMAT!r}; a newer kit may have written it")
    named = list(zip(slot.json["blobs"], slot.json["entries"], strict=True))
    return assembled(_texts(store, key, named, path))


def _texts(store: LogStore, key: StateKey, named: Sequence[tuple[str, int]], path: str) -> Mapping[str, str]:
    """Return the joined texts of layers. named: blob name and number of entries of each layer, oldest first."""

    def read(name: str, offset: int, size: int | None) -> bytes:
        if (data := store.blob(key, name)) is None:
            raise BadState(f"{path} blob {name}", None, "the blob that the record names: it was removed")
        return _part(data, offset, size)

    layers = [
        StoredLayer(partial(read, name), entries, name.partition("-")[2], f"{path} blob {name}")
        for name, entries in named
    ]
    return {key: text for key, text in joined(layers).items() if text is not None}


def _part(data: bytes, offset: int, size: int | None) -> bytes:
    return data[offset:] if size is None else data[offset : offset + size]


def flattened(value: JsonValue) -> Mapping[str, str]:
    """Return the canonical texts of a value's leaves by path; a path is its keys as JSON, separated by commas."""
    texts: dict[str, str] = {}
    branches = [("", value)]
    while branches:
        path, branch = branches.pop()
        if not (isinstance(branch, dict) and branch):
            texts[path] = canonical(branch)
            continue
        before = f"{path}," if path else ""
        for key, item in branch.items():
            if isinstance(item, dict):
                branches.append((f"{before}{canonical(key)}", item))
            else:
                texts[f"{before}{canonical(key)}"] = canonical(item)
    return texts


def assembled(texts: Mapping[str, str]) -> Stored:
    """Rebuild a value from its flattened texts. Raises ValueError and TypeError: when they do not form a value."""
    if "" in texts:
        return from_json(texts[""])
    # Parsing two long texts is far faster than parsing millions of short ones.
    paths: Stored = from_json(f"[{','.join(f'[{path}]' for path in texts)}]")
    leaves: Stored = from_json(f"[{','.join(texts.values())}]")
    value: dict[str, Stored] = {}
    for path, leaf in zip(paths, leaves, strict=True):
        branch = value
        for key in path[:-1]:
            branch = branch.setdefault(key, {})
        branch[path[-1]] = leaf
    return value


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> Texts:
    """Return what to set and remove in `old` to get `new`."""
    changed: dict[str, str | None] = {path: text for path, text in new.items() if old.get(path) != text}
    return changed | dict.fromkeys(old.keys() - new.keys())
