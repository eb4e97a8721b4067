"""LayeredMap: an immutable map of texts that shares with the one before it all that did not change.

It is a stack of layers, the oldest first; each has the texts that an update set, and None for keys that it removed. So
an update costs what it changes. Layers of a similar weight are joined once there are many, and all are once what
later ones have replaced weighs as much as what counts.
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
"""Texts that are copied as fast as layers are looked after."""
_SIMILAR = 16
"""Layers of similar weight that become one; also how many times as heavy the next weight is."""
_ABSENT = object()


class Layer(Protocol):
    """What one update, or several together, set and removed."""

    @property
    def texts(self) -> Texts:
        """All that it sets and removes; read where it is not loaded."""

    def get(self, key: str, default: T) -> str | T | None:
        """What it says of one key; `default`: nothing. Need not load all of it."""

    def sorted_from(self, key: str, *, back: bool = False) -> Iterator[tuple[str, str | None]]:
        """What it says of a key and those after it, in their order. back: of those before it, the nearest first.

        Need not load what is not asked for.
        """

    def __len__(self) -> int:
        """How many keys it says something of."""


class MemoryLayer:
    """A layer that no file has yet: what an update set and removed."""

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self.get = texts.get

    def sorted_from(self, key: str, *, back: bool = False) -> Iterator[tuple[str, str | None]]:
        ordered = sorted(self.texts, reverse=back)
        return ((each, self.texts[each]) for each in ordered if (each < key) is back)

    def __len__(self) -> int:
        return len(self.texts)


class LayeredMap(Mapping[str, str]):
    """Texts by key. A value: an update makes another one. Order is that in which keys came, but for loaded ones.

    size: bytes of all keys and texts, as far as they are ASCII.
    """

    __slots__ = ("_length", "layers", "size")

    def __init__(self, layers: Sequence[Layer] = (), length: int = 0, size: int = 0) -> None:
        """length, size: of the map that the layers make together."""
        self.layers, self._length, self.size = tuple(layers), length, size

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> "LayeredMap":
        """A map of these texts, which may not change any more."""
        return cls([MemoryLayer(texts)], len(texts), sum(len(key) + len(text) for key, text in texts.items()))

    def __getitem__(self, key: str) -> str:
        text = self.text(key)
        if text is None:
            raise KeyError(key)
        return text

    def text(self, key: str) -> str | None:
        """The text of a key; None where there is none, for which `get` raises and catches an error."""
        for layer in reversed(self.layers):
            text = layer.get(key, _ABSENT)
            if text is not _ABSENT:
                return text  # type: ignore[return-value] # it is what the layer has
        return None

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def items(self) -> Iterable[tuple[str, str]]:  # type: ignore[override] # it is the view of a dict
        return self.texts.items()

    def sorted_from(self, key: str, *, back: bool = False) -> Iterator[tuple[str, str]]:
        """The texts of a key and those after it, in their order. back: of those before it, the nearest first.

        Costs what is asked for, whatever the map has.
        """
        entries = _together(self.layers, key, back=back)
        return ((each, text) for each, text in entries if text is not None)

    def differing(self, older: "LayeredMap") -> Iterator[tuple[str, str | None, str | None]]:
        """The keys whose texts differ from those of an older map, in their order, with the text there and here.

        Costs what is asked for.
        """
        same = self.shared(older)
        shared = LayeredMap(self.layers[:same])
        # Tagged with whose it is, for one map may be silent about a key.
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

    __hash__ = None  # type: ignore[assignment] # as other maps have none

    @property
    def texts(self) -> Mapping[str, str]:
        """All texts as one dict. Loads what is not loaded."""
        return _without_removed(joined(self.layers), self._length)

    def updated(self, changes: Texts) -> "LayeredMap":
        """This map with some texts set or removed."""
        news: dict[str, str | None] = {}
        length, size = self._length, self.size
        for key, text in changes.items():
            before = self.text(key)
            if text == before:
                continue
            news[key] = text
            if text is not None:
                length, size = length + 1, size + len(key) + len(text)
            if before is not None:
                length, size = length - 1, size - len(key) - len(before)
        if not news:
            return self
        most, layers = absorbed(list(map(len, self.layers)), len(news), length), list(self.layers)
        if most == len(layers) or length < _FEW:
            flat = _without_removed(joined([*layers, MemoryLayer(news)]), length)
            return LayeredMap([MemoryLayer(flat)], length, size)
        below = len(layers) - most
        return LayeredMap([*layers[:below], MemoryLayer(joined([*layers[below:], MemoryLayer(news)]))], length, size)

    def shared(self, other: "LayeredMap") -> int:
        """How many of the oldest layers are those of another map."""
        return sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(self.layers, other.layers, strict=False)))

    def load(self) -> None:
        """Have all layers in memory. Raises what the layers do."""
        for layer in self.layers:
            _ = layer.texts

    def since(self, older: "LayeredMap") -> Texts:
        """What is to be set and removed in `older` to make this map of it; some of it may be there already.

        Costs what differs, or was joined since.
        """
        if not older.layers:
            return self.texts
        same = self.shared(older)
        if same == len(older.layers):
            return joined(self.layers[same:])
        keys = dict.fromkeys(key for layer in (*older.layers[same:], *self.layers[same:]) for key in layer.texts)
        return {key: text for key in keys if (text := self.get(key)) != older.get(key)}


def _together(layers: Sequence[Layer], key: str, *, back: bool = False) -> Iterator[tuple[str, str | None]]:
    """What layers say together from a key on, or before it, in the order of `Layer.sorted_from`; the later counts."""
    entries = (layer.sorted_from(key, back=back) for layer in reversed(layers))
    return (next(each) for _, each in groupby(merge(*entries, key=itemgetter(0), reverse=back), itemgetter(0)))


def joined(layers: Sequence[Layer]) -> Texts:
    """What layers set and remove together; the later of two counts."""
    if len(layers) == 1:
        return layers[0].texts
    texts: dict[str, str | None] = {}
    for layer in layers:
        texts.update(layer.texts)
    return texts


def _without_removed(texts: Texts, length: int) -> Mapping[str, str]:
    """Texts without the keys that are removed. length: how many are left; a copy of a million entries is 100 MB."""
    if len(texts) == length:
        return texts  # type: ignore[return-value] # no value is None
    return {key: text for key, text in texts.items() if text is not None}


def absorbed(weights: Sequence[int], weight: int, live: int) -> int:
    """How many of the newest layers a new one is to be joined with; all of them: it becomes the whole map.

    weights: of the layers there are, the oldest first. weight: of the new one. live: of what counts in the end.
    """
    if sum(weights) + weight > 2 * live:
        return len(weights)
    most = 0
    while (run := _run(weights[: len(weights) - most], weight)) >= _SIMILAR - 1:
        weight += sum(weights[len(weights) - most - run : len(weights) - most])
        most += run
    return most


def _run(weights: Sequence[int], weight: int) -> int:
    """How many of the newest layers are not of a greater magnitude than `weight`."""
    magnitude: Callable[[int], int] = lambda weight: weight.bit_length() // (_SIMILAR.bit_length() - 1)  # noqa: E731
    run = 0
    while run < len(weights) and magnitude(weights[-1 - run]) <= magnitude(weight):
        run += 1
    return run
