"""Records that a source returns more than once: how edges remember them, and which window emits them."""

from collections.abc import Container, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from cdk.state.position import Edge, Position
from cdk.state.window import Window
from cdk.streams.cursor import Cursor


class OpenedWindow(Struct):
    """A window that was handed out, with its progress."""

    window: Window
    position: Position
    edge: Edge | None = None

    @property
    def held(self) -> Mapping[str, int]:
        """The digests of records that the window has held back, with their counts."""
        return {} if self.edge is None else self.edge.held


class Undated:
    """Records without a cursor value, which every window returns, and the one window that emits them.

    Windows that are read concurrently cannot see whether another one emits such a record. So the first window that is
    handed out emits them, and the others hold back those that are not yet known to be emitted. Once the first one has
    ended, a window that still holds records which no window emitted is read again, for these alone.

    remembered: the edge that earlier runs saved.
    """

    def __init__(self, remembered: Edge | None) -> None:
        self._remembered, self._counts = remembered, {} if remembered is None else remembered.undated
        self._claimed: dict[str, int] = {}
        self._giver: OpenedWindow | None = None

    def holds(self, window: OpenedWindow) -> bool:
        """Whether a window that is now handed out must hold such records back, because another one emits them."""
        if self._giver is None and not self._claimed:
            self._giver = window
        return window is not self._giver

    @property
    def pending(self) -> bool:
        """Whether the window that emits them is still being read."""
        return self._giver is not None and not self._giver.position.done

    def learn(self, edge: Edge | None) -> None:
        """Record those that a window has emitted."""
        for digest, count in ({} if edge is None else edge.undated).items():
            if digest in self._counts or len(self._counts) * Edge.KEY_BYTES < Edge.MAX_BYTES:
                self._counts[digest] = max(count, self._counts.get(digest, 0))

    def known(self) -> Edge | None:
        """The records that a window which is handed out does not need to emit."""
        if not self._counts:
            return self._remembered
        remembered = self._remembered or Edge(None)
        keys = {**remembered.keys, **dict.fromkeys(self._counts)}
        counts = {digest: count for digest, count in self._counts.items() if count > 1}
        return Edge(remembered.value, keys, {**remembered.counts, **counts})

    def claim(self, held: Mapping[str, int]) -> dict[str, int]:
        """The records that a window holds back and no window has emitted, with their counts; it must emit them now."""
        delivered = {digest: max(self._counts.get(digest, 0), self._claimed.get(digest, 0)) for digest in held}
        owed = {digest: count - delivered[digest] for digest, count in held.items() if count > delivered[digest]}
        self._claimed.update({digest: held[digest] for digest in owed})
        return owed


def merged(cursor: Cursor, edges: Iterable[Edge | None], staying: Container[str] = ()) -> Edge | None:
    """Merge edges into one at their greatest value. staying: digests that are retained whatever their values.

    If several edges have counted the same record, the greatest count holds, not the sum.
    """
    known = [edge for edge in edges if edge is not None]
    if len(known) <= 1:
        return known[0] if known else None
    values = [edge.value for edge in known if edge.value is not None]
    greatest = cursor.greatest(values) if values else None
    keys = {
        digest: value
        for edge in known
        for digest, value in edge.keys.items()
        if digest in staying or _stays(cursor, value, greatest)
    }
    counted = {digest for edge in known for digest in edge.counts if digest in keys}
    held: dict[str, int] = {}
    for edge in known:
        held |= {digest: max(count, held.get(digest, 0)) for digest, count in edge.held.items()}
    counts = {digest: max(edge.count(digest) for edge in known) for digest in counted}
    return Edge(greatest, keys, counts, held, cursor.greatest([edge.beyond for edge in known]))


def moved(cursor: Cursor, edge: Edge, value: object) -> Edge:
    """The edge once the cursor has advanced to `value`: records that cannot be read again are dropped."""
    keys = {digest: at for digest, at in edge.keys.items() if _stays(cursor, at, value)}
    return replace(edge, value=value, keys=keys, counts={d: n for d, n in edge.counts.items() if d in keys})


def _stays(cursor: Cursor, value: object, reached: object) -> bool:
    """Whether the edge must still remember a record. Those without a cursor value are returned by every window.

    reached: None before any value was saved; all records so far then lie beyond their window, and will be read again.
    """
    return value is None or reached is None or cursor.repeats(value, reached)
