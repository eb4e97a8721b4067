"""StreamCopies: slices that are read at once each have a stream object of their own.

A stream may keep in its attributes what it knows of the slice being read: the one that is read alone is the stream
itself, and for each that is read beside it there is a copy, which then reads slices one after the other, as the stream
does. What an attribute holds is shared: a client, a lock, a list.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from cdk.streams.stream import Stream


class StreamCopies:
    """A stream and its copies, as many as slices were read at once. Safe to use from several threads."""

    def __init__(self, stream: Stream) -> None:
        self._stream, self._free = stream, [stream]

    @contextmanager
    def lent(self) -> Iterator[Stream]:
        """One that no other slice has while the block runs."""
        try:
            mine = self._free.pop()
        except IndexError:
            mine = self._stream.beside()
        try:
            yield mine
        finally:
            self._free.append(mine)
