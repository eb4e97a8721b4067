"""StoredPositions: the positions of many partitions, stored as JSON texts that are parsed on access.

A million positions take a gigabyte as objects, and a fifth of that as texts. Moves are recorded as they happen, so the
cost of a checkpoint depends on how many partitions moved since the previous one.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from cdk.base.errors import BadState
from cdk.base.times.clock import parse_timestamp
from cdk.base.values import JsonObject, JsonValue, SerializedJson, Stored, canonical, from_json
from cdk.state.layers.layered_map import LayeredMap
from cdk.state.position import Position
from cdk.state.position_json import OWN_KEY, position_json, position_of
from cdk.state.slice import Partition

MANY = 1_000
"""Number of partitions of a state from which on their entries stay texts."""
MANY_IN_MESSAGE = 16
"""The same for a state message, which follows every page: parsing texts only to write them took as long as a page."""
_MISSING = "missing"
_THROUGH = '"through"'
_MAY_DIFFER = (f'"{OWN_KEY}"', f'"{_MISSING}"')
"""Keys below which there may be parts that only tables store."""


class StoredPositions(Mapping[Partition, Position]):
    """Positions by partition. Immutable.

    texts: maps a partition's key to its entry in the exact form of a state, without the partition.
    """

    __slots__ = ("texts",)

    def __init__(self, texts: LayeredMap) -> None:
        self.texts = texts

    @classmethod
    def of(
        cls, positions: Mapping[Partition, Position], missing: Mapping[Partition, datetime] | None = None
    ) -> "StoredPositions":
        """Convert a map of positions. missing: since when a partition is missing from complete lists; for tables only.

        Raises NotJson: when JSON cannot represent a cursor.
        """
        if isinstance(positions, StoredPositions):
            return positions
        missing = missing or {}
        return cls(LayeredMap.of({p.key: entry_text(at, missing.get(p)) for p, at in positions.items()}))

    def __getitem__(self, partition: Partition) -> Position:
        return _entry(partition.key, self.texts[partition.key])[0]

    def __contains__(self, partition: object) -> bool:
        return isinstance(partition, Partition) and self.texts.text(partition.key) is not None

    def __iter__(self) -> Iterator[Partition]:
        return (Partition(_object(key)) for key in self.texts)

    def __len__(self) -> int:
        return len(self.texts)

    def __eq__(self, other: object) -> bool:
        return self.texts == other.texts if isinstance(other, StoredPositions) else super().__eq__(other)

    __hash__ = None  # type: ignore[assignment] # unhashable, like other maps

    def updated(self, positions: Mapping[Partition, Position | None]) -> "StoredPositions":
        """Return a copy with some partitions moved or, where the position is None, removed."""
        changes = {p.key: None if at is None else entry_text(at) for p, at in positions.items()}
        return StoredPositions(self.texts.updated(changes))

    def unfinished(self) -> "StoredPositions":
        """Return the positions of partitions with a cursor that were started and not read to their end."""
        likely = {key: text for key, text in self.texts.items() if _THROUGH in text}
        return StoredPositions(LayeredMap.of({k: t for k, t in likely.items() if _entry(k, t)[0].resume is not None}))


class MovingPositions:
    """The positions of a stream during a read, and which of them have moved. Belongs to one thread."""

    def __init__(self, positions: Mapping[Partition, Position]) -> None:
        """Load all layers of the positions. Raises StateError: when a layer is missing or was changed."""
        self._texts = StoredPositions.of(positions).texts
        self._texts.load()
        self._moved: dict[str, str | None] = {}

    def get(self, partition: Partition) -> Position | None:
        """Return the position of a partition; None if it has none."""
        text = self._text(partition.key)
        return None if text is None else _entry(partition.key, text)[0]

    def __contains__(self, partition: Partition) -> bool:
        return self._text(partition.key) is not None

    def _text(self, key: str) -> str | None:
        return self._moved[key] if key in self._moved else self._texts.text(key)

    def move(self, partition: Partition, position: Position | None) -> bool:
        """Move a partition to a position or, with None, forget it. Return whether that changed anything."""
        text = None if position is None else entry_text(position)
        if text == self._text(partition.key):
            return False
        self._moved[partition.key] = text
        return True

    def known(self) -> Iterator[str]:
        """Yield the keys of the partitions that have a position."""
        yield from (key for key in self._texts if key not in self._moved)
        yield from (key for key, text in self._moved.items() if text is not None)

    def missing_since(self, key: str) -> datetime | None:
        """Return since when a partition is missing from the source; None if it is not."""
        text = self._text(key)
        return None if text is None or f'"{_MISSING}"' not in text else _entry(key, text)[1]

    def miss(self, key: str, since: datetime | None) -> None:
        """Record since when a partition is missing from the source; None when it is listed again."""
        text = self._text(key)
        assert text is not None
        self._moved[key] = entry_text(_entry(key, text)[0], since)

    def forget(self, key: str) -> None:
        """Drop a partition from the next checkpoint, as if it had never moved."""
        self._moved[key] = None

    def checkpoint(self) -> StoredPositions:
        """Return the current positions and start recording moves anew."""
        self._texts, self._moved = self._texts.updated(self._moved), {}
        return StoredPositions(self._texts)


class PartitionEntries(Collection[JsonObject], SerializedJson):
    """The `states` list of a state with many partitions: `{"partition": ..., "cursor": ...}` entries in no order.

    exact: the entries include what only tables store.
    """

    __slots__ = ("exact", "texts")

    def __init__(self, texts: LayeredMap, *, exact: bool = True) -> None:
        self.texts, self.exact = texts, exact

    @classmethod
    def of(cls, items: Stored) -> "PartitionEntries | None":
        """Convert the `states` list of a state; None if it is not such a list, or has a partition twice."""
        match items:
            case PartitionEntries():
                return items
            case list():
                texts = {canonical(fields): canonical(rest) for fields, rest in map(_parts, items) if rest}
                return cls(LayeredMap.of(texts)) if len(texts) == len(items) else None
            case _:
                return None

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[JsonObject]:
        return (_object(text) for text in self._wire_texts())

    def __contains__(self, item: object) -> bool:
        return any(item == entry for entry in self)

    def __eq__(self, other: object) -> bool:
        match other:
            case PartitionEntries():
                return self.texts == other.texts and self.exact == other.exact
            case list():
                return sorted(map(canonical, self)) == sorted(map(canonical, other))
            case _:
                return False

    __hash__ = None  # type: ignore[assignment] # unhashable, like lists

    def entry(self, partition: Partition) -> JsonObject | None:
        """Return the entry of one partition, without loading the others; None if it has no entry."""
        text = self.texts.text(partition.key)
        return None if text is None else _object(self._wire_text(partition.key, text))

    def sorted_from(self, key: str, *, back: bool = False) -> Iterator[tuple[str, JsonObject]]:
        """Yield keys and entries from a partition's key on, in key order. back: those before it, nearest first.

        The others are not loaded.
        """
        return ((each, _object(self._wire_text(each, text))) for each, text in self.texts.sorted_from(key, back=back))

    def moved(self, older: "PartitionEntries") -> Iterator[tuple[JsonObject | None, JsonObject | None]]:
        """Yield the entries that differ from those of an older state, as pairs (old, new) in key order."""
        for key, *texts in self.texts.differing(older.texts):
            old, new = (None if text is None else _object(self._wire_text(key, text)) for text in texts)
            yield old, new

    def json_text(self) -> bytes:
        if not self.exact:
            text = ",".join([f'{{"partition":{key},{text[1:]}' for key, text in self.texts.items()])
            if not any(part in text for part in _MAY_DIFFER):
                return f"[{text}]".encode()
        return f"[{','.join(self._wire_texts(ordered=self.exact))}]".encode()

    def _wire_texts(self, *, ordered: bool = False) -> Iterator[str]:
        items = self.texts.items()
        return (self._wire_text(key, text) for key, text in (sorted(items) if ordered else items))

    def _wire_text(self, key: str, text: str) -> str:
        if not self.exact and any(part in text for part in _MAY_DIFFER):
            text = canonical({"cursor": position_json(_entry(key, text)[0], exact=False)})
        return f'{text[:-1]},"partition":{key}}}' if self.exact else f'{{"partition":{key},{text[1:]}'


def with_entries(blob: Stored, *, exact: bool) -> Stored:
    """Return a state with `states` converted to `PartitionEntries` if there are many. exact: see `PartitionEntries`."""
    match blob:
        case {"states": list() as items, **rest} if len(items) >= MANY:
            entries = PartitionEntries.of(items)
            return blob if entries is None else {**rest, "states": PartitionEntries(entries.texts, exact=exact)}
        case _:
            return blob


def split_entries(state: Stored, of: tuple[str, ...] = ()) -> tuple[Stored, dict[tuple[str, ...], LayeredMap]]:
    """Split a table's state into the rest and the entries of its many partitions, its own and those of its parents.

    The entries are keyed by the path of parent names that leads to them, empty for the stream's own. of: the path of
    `state` itself.
    """
    if not isinstance(state, dict):
        return state, {}
    rest, parts = dict(state), dict[tuple[str, ...], LayeredMap]()
    match state.get("states"):
        case list() | PartitionEntries(exact=True) as items if len(items) >= MANY:
            if (entries := PartitionEntries.of(items)) is not None:
                parts[of] = entries.texts
                del rest["states"]
        case _:
            pass
    if isinstance(parents := state.get("parent_state"), dict):
        both = {name: split_entries(parent, (*of, name)) for name, parent in parents.items()}
        rest["parent_state"] = {name: parent for name, (parent, _) in both.items()}
        for _, parts_of_parent in both.values():
            parts |= parts_of_parent
    return rest, parts


def insert_entries(state: Stored, of: Sequence[str], entries: Stored) -> None:
    """Insert entries into a state that `split_entries` has split, in place. of: the path of parent names, as there."""
    for name in of:
        state = state["parent_state"][name]
    state["states"] = entries


def is_same(blob: Stored, other: Stored) -> bool:
    """Whether two states have the same canonical JSON; entries that both share are not compared."""
    match blob, other:
        case {"states": PartitionEntries() as states, **rest}, {"states": PartitionEntries() as others, **others_rest}:
            return states == others and canonical(rest) == canonical(others_rest)
        case _:
            return bool(blob == other) and canonical(blob) == canonical(other)


def entry_text(position: Position, missing: datetime | None = None) -> str:
    """Return a position's entry in the exact form of a state, without its partition. Raises NotJson."""
    entry: JsonObject = {"cursor": position_json(position, exact=True)}
    if missing is not None:
        entry[_MISSING] = missing.isoformat()
    return canonical(entry)


def since(text: JsonValue, path: str) -> datetime:
    """Parse the timestamp since when a partition is missing. Raises BadState."""
    timestamp = parse_timestamp(text, ()) if isinstance(text, str) else None
    if timestamp is None:
        raise BadState(path, text, "a timestamp in ISO 8601, such as 2024-01-01T00:00:00+00:00")
    return timestamp


def _entry(key: str, text: str) -> tuple[Position, datetime | None]:
    entry: Stored = from_json(text)
    missing = entry.get(_MISSING)
    position = position_of(entry.get("cursor"), f"state of {key}")
    return position, None if missing is None else since(missing, f"state of {key}.missing")


def _parts(item: Stored) -> tuple[Stored, Stored]:
    """Split an entry into its partition's fields and the rest; return (None, {}) if it is not an entry."""
    match item:
        case {"partition": dict() as fields, **rest} if rest:
            return fields, rest
        case _:
            return None, {}


def _object(text: str) -> JsonObject:
    value: Stored = from_json(text)
    return dict(value)
