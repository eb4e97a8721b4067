"""LayeredMap: an immutable map of strings that shares unchanged entries with the version before it.

It is a stack of layers, oldest first; each has the texts that an update set, and None for keys that it removed. The
cost of an update therefore depends on the size of the change. Once there are many layers of similar weight, they are
joined; once replaced entries weigh as much as live ones, all layers are.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import groupby, repeat, takewhile
from operator import itemgetter
from typing import Protocol, TypeAlias, TypeVar

T = TypeVar("T")

Texts: TypeAlias = Mapping[str, str | None]
"""Texts by key; None where a key is removed."""

_FEW = 1_000
"""Number of texts below which copying all of them is as fast as maintaining layers."""
_SIMILAR = 16
"""Number of layers of similar weight that are joined into one; also the factor between two weight classes."""
_ABSENT = object()


class Layer(Protocol):
    """The keys that one update, or several joined ones, set and removed."""

    @property
    def texts(self) -> Texts:
        """All keys that it sets and removes; loads the layer if necessary."""

    def get(self, key: str, default: T) -> str | T | None:
        """Return the text of a key, None if it is removed, `default` if the layer lacks it. Need not load all of it."""

    def sorted_from(self, key: str, *, back: bool = False) -> Iterator[tuple[str, str | None]]:
        """Yield its entries from a key on, in key order. back: those before the key, nearest first.

        Need not load more than the caller consumes.
        """

    def __len__(self) -> int:
        """Return the number of keys that it sets or removes."""


class MemoryLayer:
    """A layer in memory that is not stored in a file yet."""

    def __init__(self, texts: Texts) -> None:
        self.texts, self.get = texts, texts.get

    def sorted_from(self, key: str, *, back: bool = False) -> Iterator[tuple[str, str | None]]:
        return ((each, self.texts[each]) for each in sorted(self.texts, reverse=back) if (each < key) is back)

    def __len__(self) -> int:
        return len(self.texts)


class LayeredMap(Mapping[str, str]):
    """Texts by key. Immutable: an update returns a new map. Keys are in insertion order, except in loaded layers.

    size: number of characters of all keys and texts, which is their bytes as far as they are ASCII.
    """

    __slots__ = ("_length", "layers", "size")

    def __init__(self, layers: Sequence[Layer] = (), length: int = 0, size: int = 0) -> None:
        """length, size: those of the map that the layers form together."""
        self.layers, self._length, self.size = tuple(layers), length, size

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> "LayeredMap":
        """Return a map of these texts, which the caller must not change afterwards."""
        return cls([MemoryLayer(texts)], len(texts), sum(len(key) + len(text) for key, text in texts.items()))

    def __getitem__(self, key: str) -> str:
        text = self.text(key)
        if text is None:
            raise KeyError(key)
        return text

    def text(self, key: str) -> str | None:
        """Return the text of a key, or None. Faster than `get`, which raises and catches an error for a missing key."""
        for layer in reversed(self.layers):
            text = layer.get(key, _ABSENT)
            if text is not _ABSENT:
                return text  # type: ignore[return-value] # not _ABSENT, so it comes from the layer
        return None

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def items(self) -> Iterable[tuple[str, str]]:  # type: ignore[override] # a dict's own view, which is faster
        return self.texts.items()

    def sorted_from(self, key: str, *, back: bool = False) -> Iterator[tuple[str, str]]:
        """Yield keys and texts from a key on, in key order. back: those before the key, nearest first.

        The cost depends on how many the caller consumes, not on the size of the map.
        """
        return ((each, text) for each, text in _together(self.layers, key, back=back) if text is not None)

    def differing(self, older: "LayeredMap") -> Iterator[tuple[str, str | None, str | None]]:
        """Yield (key, old text, new text) for each key that differs from an older map, in key order.

        The cost depends on how many the caller consumes.
        """
        same = self.shared(older)
        shared = LayeredMap(self.layers[:same])
        # Each entry is tagged with its map, because only one of the two maps may have the key.
        entries = (zip(_together(each.layers[same:], ""), repeat(each), strict=False) for each in (older, self))
        key_of: Callable[[tuple[tuple[str, str | None], LayeredMap]], str] = lambda each: each[0][0]  # noqa: E731
        for key, group in groupby(merge(*entries, key=key_of), key_of):
            texts = [(whose, text) for (_, text), whose in group]
            before = shared.get(key) if len(texts) == 1 else None
            old, new = (next((text for whose, text in texts if whose is each), before) for each in (older, self))
            if old != new:
                yield key, old, new

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LayeredMap) or len(self) != len(other):
            return False
        return all(text == other.get(key) for key, text in self.since(other).items())

    __hash__ = None  # type: ignore[assignment] # unhashable, like other maps

    @property
    def texts(self) -> Mapping[str, str]:
        """All texts as one dict. Loads all layers."""
        return _without_removed(joined(self.layers), self._length)

    def updated(self, changes: Texts) -> "LayeredMap":
        """Return a copy with some texts set or, where the text is None, removed."""
        changed: dict[str, str | None] = {}
        length, size = self._length, self.size
        for key, text in changes.items():
            before = self.text(key)
            if text == before:
                continue
            changed[key] = text
            if text is not None:
                length, size = length + 1, size + len(key) + len(text)
            if before is not None:
                length, size = length - 1, size - len(key) - len(before)
        if not changed:
            return self
        most, layers = absorbed(list(map(len, self.layers)), len(changed), length), list(self.layers)
        if most == len(layers) or length < _FEW:
            flat = _without_removed(joined([*layers, MemoryLayer(changed)]), length)
            return LayeredMap([MemoryLayer(flat)], length, size)
        below = len(layers) - most
        return LayeredMap([*layers[:below], MemoryLayer(joined([*layers[below:], MemoryLayer(changed)]))], length, size)

    def shared(self, other: "LayeredMap") -> int:
        """Return how many of the oldest layers are the same objects as those of another map."""
        return sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(self.layers, other.layers, strict=False)))

    def load(self) -> None:
        """Load all layers into memory. Raises what the layers raise."""
        for layer in self.layers:
            _ = layer.texts

    def since(self, older: "LayeredMap") -> Texts:
        """Return the changes that turn `older` into this map; some of them may already be present in `older`.

        The cost depends on how much differs or was joined since.
        """
        if not older.layers:
            return self.texts
        same = self.shared(older)
        if same == len(older.layers):
            return joined(self.layers[same:])
        keys = dict.fromkeys(key for layer in (*older.layers[same:], *self.layers[same:]) for key in layer.texts)
        return {key: text for key in keys if (text := self.get(key)) != older.get(key)}


def _together(layers: Sequence[Layer], key: str, *, back: bool = False) -> Iterator[tuple[str, str | None]]:
    """Yield the merged entries of layers, as `Layer.sorted_from` does; for equal keys the newer layer counts."""
    entries = (layer.sorted_from(key, back=back) for layer in reversed(layers))
    return (next(each) for _, each in groupby(merge(*entries, key=itemgetter(0), reverse=back), itemgetter(0)))


def joined(layers: Sequence[Layer]) -> Texts:
    """Return what layers set and remove together; for equal keys the newer layer counts."""
    if len(layers) == 1:
        return layers[0].texts
    texts: dict[str, str | None] = {}
    for layer in layers:
        texts.update(layer.texts)
    return texts


def _without_removed(texts: Texts, length: int) -> Mapping[str, str]:
    """Return texts without the removed keys. length: number of remaining texts.

    Avoids a copy where no key is removed: one of a million entries takes 100 MB.
    """
    if len(texts) == length:
        return texts  # type: ignore[return-value] # no value is None
    return {key: text for key, text in texts.items() if text is not None}


def absorbed(weights: Sequence[int], weight: int, live: int) -> int:
    """Return how many of the newest layers to join with a new one; if all of them, the result is the whole map.

    weights: those of the existing layers, oldest first. weight: that of the new layer. live: number of live entries.
    """
    if sum(weights) + weight > 2 * live:
        return len(weights)
    most = 0
    while (run := _run(weights[: len(weights) - most], weight)) >= _SIMILAR - 1:
        weight += sum(weights[len(weights) - most - run : len(weights) - most])
        most += run
    return most


def _run(weights: Sequence[int], weight: int) -> int:
    """Return how many of the newest layers, counted from the end, have at most the magnitude of `weight`."""
    magnitude: Callable[[int], int] = lambda weight: weight.bit_length() // (_SIMILAR.bit_length() - 1)  # noqa: E731
    run = 0
    while run < len(weights) and magnitude(weights[-1 - run]) <= magnitude(weight):
        run += 1
    return run
