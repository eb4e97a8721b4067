"""Blobs: how a value lies in a store. Small ones in the record, large ones beside it, changed ones as what changed.

A large value is a chain of layers (`cdk.state.layers.layer_file`), as the state of a table is: one of the whole, then
one of what changed, for each record that changed it. So a record costs what changed since the one before. When what
changed outgrows the whole, or the layers become many, the whole is written again.

A layer has texts by key. Of a JSON object they are those of its leaves, by their paths: `"users","id-7"`. Only objects
are looked into; a list is set as a whole. So what grows large belongs into objects, by key.

What another store has as layers, such as a table's positions, is taken as it lies: a record copies the layers that
the one before has not, and does not read the others.

A blob's name begins with the number of the record it is written for, and ends with the digest that vouches for it. Once
that number is taken, a blob of it that no record names never will be named: it can be removed, without a clock and
without asking who is running.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from cdk.base.errors import BadState
from cdk.base.values import JsonObject, JsonValue, Stored, canonical, from_json
from cdk.state.layers.layer_file import FORMAT, StoredLayer, to_bytes
from cdk.state.layers.layered_map import Texts, joined
from cdk.state.log.canonical_json import loads_canonical
from cdk.state.log.record import Slot
from cdk.state.log.slot_value import Frozen, StateValue, value_digest
from cdk.state.stores.key import StateKey
from cdk.state.stores.protocol import LogStore

INLINE = 16 * 1024
"""Texts of more bytes become blobs."""

_LAYERS = 20


class Placed(NamedTuple):
    """A slot as its record will say it, and the blob that must be stored before, beside those of its maps."""

    slot: Slot
    blob: tuple[str, bytes] | None


def new_layers(value: Frozen, seq: int, before: Slot | None) -> Iterator[tuple[str, StoredLayer, bytes]]:
    """The layers of a value's maps that record `seq` is to store, by their names. Raises StateError: one is missing."""
    known = _layers(before)
    for layer in (layer for part in value.maps for layer in part.layers if layer.digest not in known):
        data, name = layer.read(), f"{seq}-{layer.digest}"
        yield name, StoredLayer(partial(_part, data), layer.entries, layer.digest, name), data


def _layers(before: Slot | None) -> dict[str, str]:
    """The layers of a slot's maps, by their digests."""
    return (
        {} if before is None else {name.partition("-")[2]: name for part in before.maps for name, _ in part["layers"]}
    )


def to_slot(value: Frozen, seq: int, before: Slot | None) -> Placed:
    """How record `seq` keeps a value; `before`: the slot in its parent."""
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
        news = changes(old, texts)
        data, digest = to_bytes(news)
        full_size, later = before.json["stored"]
        if later + len(data) <= full_size // 2:
            chain = [*before.blobs, f"{seq}-{digest}"], [*before.json["entries"], len(news)]
            return _placed(json, data, *chain, [full_size, later + len(data)])
    data, digest = to_bytes(texts)
    return _placed(json, data, [f"{seq}-{digest}"], [len(texts)], [len(data), 0])


def _placed(json: JsonObject, data: bytes, names: list[str], entries: list[int], stored: list[int]) -> Placed:
    slot = Slot({**json, "encoding": FORMAT, "blobs": names, "entries": entries, "stored": stored})
    return Placed(slot, (names[-1], data))


def _base(value: Frozen, before: Slot | None) -> Mapping[str, str] | None:
    """The texts of the parent's value; None where the whole is to be written."""
    if before is None or value.base is None or before.maps or not 0 < len(before.blobs) <= _LAYERS:
        return None
    standing = value_digest(before.json["kind"], before.json["version"], value.base)
    if before.json["encoding"] != FORMAT or before.digest != standing:
        return None
    return flattened(loads_canonical(value.base, "slot"))


def load(store: LogStore, key: StateKey, slot: Slot, path: str) -> tuple[StateValue, bytes]:
    """A slot's value and its canonical text. path: where the slot is, for errors.

    Raises BadState: a blob is missing or cut, or the value is not the one whose digest the record has.
    """
    try:
        kind, version, expected = slot.json["kind"], slot.json["version"], slot.digest
        value = _unpack(store, key, slot, path) if "blobs" in slot.json else slot.json["value"]
        text = canonical(value).encode()
        maps = [[part["at"], [name.partition("-")[2] for name, _ in part["layers"]]] for part in slot.maps]
        if (actual := value_digest(kind, version, text, maps)) != expected:
            raise BadState(f"{path}.digest", actual, f"{expected}: the value was changed after it was written")
        if maps:
            value = from_json(text)  # another one than that of the record
            for part in slot.maps:
                _put(value, part["at"], _texts(store, key, part["layers"], path))
            text = canonical(value).encode()
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadState(path, f"a slot or layer that does not fit ({error!r})", "what an earlier run wrote") from error
    return StateValue(kind, version, value), text


def _put(value: Stored, at: Sequence[str], texts: Mapping[str, str]) -> None:
    for name in at[:-1]:
        value = value[name]
    value[at[-1]] = {key: from_json(text) for key, text in texts.items()}


def _unpack(store: LogStore, key: StateKey, slot: Slot, path: str) -> Stored:
    if slot.json["encoding"] != FORMAT:
        raise BadState(f"{path}.encoding", slot.json["encoding"], f"{FORMAT!r}; a newer kit may have written it")
    named = list(zip(slot.json["blobs"], slot.json["entries"], strict=True))
    return assembled(_texts(store, key, named, path))


def _texts(store: LogStore, key: StateKey, named: Sequence[tuple[str, int]], path: str) -> Mapping[str, str]:
    """The texts that layers make together. named: the blob of each, the oldest first, and its entries."""

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
    """The canonical texts of a value's leaves by their paths; a path is the keys as JSON, with commas between."""
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
    """The value of such texts. Raises ValueError and TypeError: they are of none."""
    if "" in texts:
        return from_json(texts[""])
    # Two long texts are parsed far faster than millions of short ones.
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
    """What is to be set and removed in `old` to make `new` of it."""
    news: dict[str, str | None] = {path: text for path, text in new.items() if old.get(path) != text}
    return news | dict.fromkeys(old.keys() - new.keys())
