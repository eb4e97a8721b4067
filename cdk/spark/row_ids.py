"""Ids of rows: a text that is unique, and ten digits that count the rows of one writer."""

from uuid import uuid4

import pyarrow as pa

_DIGITS = 10
_MARK = b"\0"
_THOUSAND = b"".join(b"%s%03d" % (_MARK, number) for number in range(1000))


class RowIds:
    """Gives rows their ids, in order: as texts, a later one is greater. Not thread-safe."""

    def __init__(self, unique: str | None = None) -> None:
        """Give ids that begin with `unique`, by default a new random text."""
        self._unique = (unique or uuid4().hex).encode()
        self._next = 0

    def take(self, size: int) -> pa.Array:
        """The next ids. Of a thousand only the beginning differs, so they are made at once."""
        first, self._next = self._next, self._next + size
        thousands = range(first // 1000, -(-self._next // 1000))
        texts = b"".join(_THOUSAND.replace(_MARK, b"%s%07d" % (self._unique, number)) for number in thousands)
        width = len(self._unique) + _DIGITS
        data = pa.py_buffer(texts).slice(first % 1000 * width, size * width)
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), size, [None, data]).cast(pa.string())
