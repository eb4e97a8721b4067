"""The state of one stream: partition -> position. A plain stream has a single, empty partition."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cdk.base.values import FieldValue
from cdk.state.position import Position, Start
from cdk.state.slice import WHOLE, Partition
from cdk.state.stored_positions import StoredPositions


@dataclass(frozen=True, slots=True)
class StreamState:
    """What has been read of a stream, and, for substreams, of its parents.

    positions: where each partition stands. A position under `WHOLE` beside real partitions, or instead of them,
        is a cursor for all of them, as the peer leaves it when it gives up per-partition state.
    parents: the state of each parent stream, by name, where partitions follow the parent's own progress.
    extra: keys of the wire form that mean nothing here; they are written back as they came.
    shares_cursor: all partitions have got to the position under `WHOLE`; what is beside it says only which records come
        again. False while partitions are read, one after the other, from there.
    ranges_from: set when the wire form was the peer's list of date ranges; the start of the first one. The state
        is then written in that form again.
    after: in the middle of a read, the partition behind which it resumes: this one and those listed before it were read
        to their end, and come last. None once a read is finished, and where they have nothing more to read.
    in_full: in the middle of the read in full of a stream that is read in another way once it has a state.
    """

    positions: Mapping[Partition, Position] = field(default_factory=dict)
    parents: Mapping[str, "StreamState"] = field(default_factory=dict)
    extra: Mapping[str, FieldValue] = field(default_factory=dict)
    shares_cursor: bool = False
    ranges_from: FieldValue = None
    after: Partition | None = None
    in_full: bool = False

    def of(self, partition: Partition) -> Position:
        """Where `partition` stands: its own position, else the one kept for all partitions, else `Start`."""
        return self.positions.get(partition) or self.positions.get(WHOLE) or Start()

    def with_(self, partition: Partition, position: Position) -> "StreamState":
        """Return a copy in which `partition` stands at `position`."""
        return replace(self, positions=StoredPositions.of(self.positions).updated({partition: position}))
