"""The records that a source gives more than once: what edges remember of them, and which window they belong to."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace

from cdk.state.position import Edge, Position
from cdk.state.window import Window
from cdk.streams.cursor import Cursor


@dataclass(slots=True)
class OpenedWindow:
    """A window that was handed out, and what is known of it."""

    window: Window
    position: Position
    edge: Edge | None = None

    @property
    def held(self) -> Mapping[str, int]:
        """The records that it has held back."""
        return {} if self.edge is None else self.edge.held


class Undated:
    """The records without a cursor value, which come with every window, and the window that gives them.

    Windows that are read at once cannot tell whether another is giving such a record. So the first that is handed out
    gives them, and the others hold back those that are not known to be given. Once it has ended, a window that holds
    some that nobody gave is read once more, for those alone.

    remembered: what earlier runs have left.
    """

    def __init__(self, remembered: Edge | None) -> None:
        self._remembered = remembered
        self._counts = {} if remembered is None else remembered.undated
        self._claimed: dict[str, int] = {}
        self._giver: OpenedWindow | None = None

    def holds(self, window: OpenedWindow) -> bool:
        """Whether a window that is now handed out holds such records back, for another gives them."""
        if self._giver is None and not self._claimed:
            self._giver = window
        return window is not self._giver

    @property
    def pending(self) -> bool:
        """Whether the window that gives them is still being read."""
        return self._giver is not None and not self._giver.position.done

    def learn(self, edge: Edge | None) -> None:
        """Take note of those that a window has given."""
        for digest, count in ({} if edge is None else edge.undated).items():
            if digest in self._counts or len(self._counts) * Edge.KEY_BYTES < Edge.MAX_BYTES:
                self._counts[digest] = max(count, self._counts.get(digest, 0))

    def known(self) -> Edge | None:
        """What a window that is handed out need not give."""
        if not self._counts:
            return self._remembered
        remembered = self._remembered or Edge(None)
        keys = {**remembered.keys, **dict.fromkeys(self._counts)}
        counts = {digest: count for digest, count in self._counts.items() if count > 1}
        return Edge(remembered.value, keys, {**remembered.counts, **counts})

    def claim(self, held: Mapping[str, int]) -> dict[str, int]:
        """How many of the records that a window holds nobody has given; it is to give them now."""
        delivered = {digest: max(self._counts.get(digest, 0), self._claimed.get(digest, 0)) for digest in held}
        owed = {digest: count - delivered[digest] for digest, count in held.items() if count > delivered[digest]}
        self._claimed.update({digest: held[digest] for digest in owed})
        return owed


def merged(cursor: Cursor, edges: Iterable[Edge | None], staying: Container[str] = ()) -> Edge | None:
    """What is remembered of some edges, at the greatest value. staying: digests that stay wherever their records lie.

    Where several have met a record each has counted it: the greatest number holds, not their sum.
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
    return Edge(greatest, keys, {digest: max(edge.count(digest) for edge in known) for digest in counted}, held)


def moved(cursor: Cursor, edge: Edge, value: object) -> Edge:
    """What is still remembered of an edge when the cursor stands at `value`."""
    keys = {digest: at for digest, at in edge.keys.items() if _stays(cursor, at, value)}
    return replace(edge, value=value, keys=keys, counts={d: n for d, n in edge.counts.items() if d in keys})


def _stays(cursor: Cursor, value: object, reached: object) -> bool:
    """Whether a record is still to be remembered: those without a cursor value come with every window.

    Where nothing is reached yet, all that were met lie beyond their window, and come again.
    """
    return value is None or reached is None or cursor.repeats(value, reached)
