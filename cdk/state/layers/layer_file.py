r"""File format of a layer: an index line, and separately compressed blocks of sorted lines.

    {"format":"spark-cdk-layer/1","blocks":[[first key, bytes, digest], ...]}\n<block><block>...

A line of a block is a key and its text, separated by a tab; neither contains a line feed. The text is empty where the
key is removed. Looking up one key takes the index and one block. The digest of the index line vouches for the whole
file, and is stored with every reference to a layer.
"""

import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from typing import TypeAlias, TypeVar

from msgspec import Struct

from cdk.base.errors import BadState
from cdk.base.values import Stored, from_json, to_json
from cdk.state.layers.layered_map import Texts

T = TypeVar("T")

Reader: TypeAlias = Callable[[int, int | None], bytes]
"""Returns a layer's bytes from an offset: the given number, fewer at the end, all with None. Raises StateError."""

FORMAT = "spark-cdk-layer/1"
_BLOCK = 2**16
"""Characters of a block before compression; a block with a longer text exceeds this."""
_LEVEL = 1
_FIRST = 2**16
"""Bytes to read first: the index of most layers ends within them."""
_LARGEST = 2**30
"""Bytes that a block may decompress to; a larger one is a decompression bomb, not state."""


class PackedLayer(Struct, frozen=True):
    """A layer that is already stored as bytes and can be copied as they are. read: raises StateError."""

    entries: int
    digest: str
    read: Callable[[], bytes]


class _Block(Struct, frozen=True):
    first: str
    offset: int
    size: int
    digest: str


def to_bytes(texts: Texts) -> tuple[bytes, str]:
    """Return a layer as bytes, and the digest that vouches for them. Keys and texts must have no tabs or line feeds."""
    blocks = [(lines[0].partition("\t")[0], _packed(lines)) for lines in _cut(sorted(texts.items()))]
    index = to_json({"format": FORMAT, "blocks": [[first, len(data), _digest(data)] for first, data in blocks]})
    return b"".join([index, b"\n", *(data for _, data in blocks)]), _digest(index)


def _cut(items: Iterable[tuple[str, str | None]]) -> Iterator[list[str]]:
    lines: list[str] = []
    size = 0
    for key, text in items:
        lines.append(f"{key}\t{text or ''}")
        size += len(lines[-1])
        if size >= _BLOCK:
            yield lines
            lines, size = [], 0
    if lines:
        yield lines


def _packed(lines: list[str]) -> bytes:
    return zlib.compress("\n".join(lines).encode(), _LEVEL)


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


class StoredLayer:
    """A stored layer whose bytes are read on access and checked against their digests.

    entries: number of keys that it sets or removes. path: where it is stored, for errors. Belongs to one thread.
    Access raises BadState when the layer was changed or truncated, and whatever `read` raises.
    """

    def __init__(self, read: Reader, entries: int, digest: str, path: str) -> None:
        self._read, self._entries, self._digest, self._path = read, entries, digest, path
        self._blocks: dict[int, Texts] = {}

    def __len__(self) -> int:
        return self._entries

    @cached_property
    def texts(self) -> Texts:
        data = self._read(0, None)
        _, blocks = self._index(data)
        texts: dict[str, str | None] = {}
        for block in blocks:
            texts.update(self._unpacked(block, data[block.offset : block.offset + block.size]))
        if len(texts) != self._entries:
            raise BadState(self._path, len(texts), f"{self._entries} entries")
        self._blocks.clear()
        return texts

    def get(self, key: str, default: T) -> str | T | None:
        if "texts" in self.__dict__:
            return self.texts.get(key, default)
        firsts, blocks = self._loaded_index
        number = bisect_right(firsts, key) - 1
        if number < 0:
            return default
        if number not in self._blocks:
            self._blocks[number] = self._block(blocks[number])
        return self._blocks[number].get(key, default)

    def sorted_from(self, key: str, *, back: bool = False) -> Iterator[tuple[str, str | None]]:
        firsts, blocks = self._loaded_index
        number = max(0, bisect_right(firsts, key) - 1)
        for block in reversed(blocks[: number + 1]) if back else blocks[number:]:
            items = [(each, text) for each, text in self._block(block).items() if (each < key) is back]
            yield from reversed(items) if back else items

    def _block(self, block: _Block) -> Texts:
        return self._unpacked(block, self._read(block.offset, block.size))

    @cached_property
    def _loaded_index(self) -> tuple[list[str], list[_Block]]:
        size, data = _FIRST, self._read(0, _FIRST)
        while b"\n" not in data and len(data) == size:
            size *= 4
            data = self._read(0, size)
        return self._index(data)

    def _index(self, data: bytes) -> tuple[list[str], list[_Block]]:
        line, feed, _ = data.partition(b"\n")
        if (actual := _digest(line)) != self._digest:
            text = f"{self._digest}: it was changed or truncated"
            raise BadState(self._path, f"an index of the digest {actual}", text)
        index: Stored = from_json(line)
        if index.get("format") != FORMAT:
            raise BadState(self._path, index.get("format"), f"a layer of the format {FORMAT!r}")
        named = index["blocks"]
        offsets = accumulate((size for _, size, _ in named), initial=len(line) + len(feed))
        blocks = [_Block(first, at, size, digest) for (first, size, digest), at in zip(named, offsets, strict=False)]
        return [block.first for block in blocks], blocks

    def _unpacked(self, block: _Block, data: bytes) -> Texts:
        if (actual := _digest(data)) != block.digest:
            expected = f"{block.digest}: it was changed or truncated"
            raise BadState(f"{self._path} at {block.offset}", f"a block of the digest {actual}", expected)
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(data, _LARGEST)
        if not unpacking.eof:
            raise BadState(f"{self._path} at {block.offset}", "a longer block", f"at most {_LARGEST} bytes unpacked")
        pairs = (line.partition("\t") for line in text.decode().split("\n"))
        return {key: text or None for key, _, text in pairs}
