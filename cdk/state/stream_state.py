"""The state of one stream: a map from partition to position. A plain stream has a single, empty partition."""

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from cdk.base.values import FieldValue
from cdk.state.position import Position, Start
from cdk.state.slice import WHOLE, Partition
from cdk.state.stored_positions import StoredPositions


class StreamState(Struct, frozen=True):
    """What has been read of a stream and, for substreams, of its parents.

    positions: the position of each partition. A position under `WHOLE`, beside real partitions or instead of them, is a
        cursor for all of them; airbyte-cdk writes that when it gives up per-partition state.
    parents: the state of each parent stream, by name, where partitions follow the parent's own progress.
    extra: keys of the wire form that mean nothing here; they are written back unchanged.
    shares_cursor: all partitions have reached the position under `WHOLE`; the other positions only tell which records
        the source will repeat. False while partitions are being read, one after the other, from that position.
    after: during a read, the partition after which an interrupted read resumes: this one and those listed before it
        were read to their end and are read last. None once a read is completed, and where they have nothing more to
        read.
    in_full: a stream that is read differently once it has a state is in the middle of its initial full read.
    """

    positions: Mapping[Partition, Position] = field(default_factory=dict)
    parents: Mapping[str, "StreamState"] = field(default_factory=dict)
    extra: Mapping[str, FieldValue] = field(default_factory=dict)
    shares_cursor: bool = False
    after: Partition | None = None
    in_full: bool = False

    def of(self, partition: Partition) -> Position:
        """Return the position of `partition`: its own, else the one stored for all partitions, else `Start`."""
        return self.positions.get(partition) or self.positions.get(WHOLE) or Start()

    def with_(self, partition: Partition, position: Position) -> "StreamState":
        """Return a copy in which `partition` stands at `position`."""
        return replace(self, positions=StoredPositions.of(self.positions).updated({partition: position}))
