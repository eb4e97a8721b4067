"""Ids of rows: where in a read a row came, and what makes it unique.

Eight digits for the slice, a text of the writer's own, ten digits that count the writer's rows. A slice has one writer
in an epoch, so of two rows of an epoch the one that was read later has the greater id, as texts: slices in the order
they were planned in, the rows of each in the order the source gave them. No clock is asked.
"""

from collections.abc import Sequence
from typing import TypeAlias
from uuid import uuid4

import pyarrow as pa

Runs: TypeAlias = Sequence[tuple[int, int]]
"""How rows that follow each other are spread over slices: the number of a slice, and how many rows are its."""

_SLICE_DIGITS, _DIGITS = 8, 10
_MARK = b"\0"
_THOUSAND = b"".join(b"%s%03d" % (_MARK, number) for number in range(1000))
_FEW = 100
"""Rows whose ids are made one by one: a thousand at once would take longer."""


class RowIds:
    """Gives rows their ids, in order. Not thread-safe."""

    def __init__(self, unique: str | None = None) -> None:
        """Give ids with `unique` in them, by default a new random text."""
        self._unique = (unique or uuid4().hex).encode()
        self._next = 0

    def take(self, runs: Runs) -> pa.Array:
        """The next ids, for rows of these slices."""
        texts, size = [], 0
        for number, count in runs:
            prefix = b"%0*d%s" % (_SLICE_DIGITS, number, self._unique)
            texts.append(_texts(prefix, self._next, count))
            self._next += count
            size += count
        width = _SLICE_DIGITS + len(self._unique) + _DIGITS
        data = pa.py_buffer(b"".join(texts))
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), size, [None, data]).cast(pa.string())


def _texts(prefix: bytes, first: int, count: int) -> bytes:
    last = first + count
    if count <= _FEW:
        return b"".join([b"%s%010d" % (prefix, number) for number in range(first, last)])
    # Of a thousand only the beginning differs, so they are made at once.
    thousands = range(first // 1000, -(-last // 1000))
    texts = b"".join(_THOUSAND.replace(_MARK, b"%s%07d" % (prefix, number)) for number in thousands)
    width = len(prefix) + _DIGITS
    return texts[first % 1000 * width : (first % 1000 + count) * width]
