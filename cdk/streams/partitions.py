"""Partitions from lists, from products of lists, and from the records of a parent stream."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from cdk.base.errors import FatalError
from cdk.base.logs import FirstWarning
from cdk.base.suggestions import did_you_mean
from cdk.base.values import Json, Record
from cdk.state.slice import Partition
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint import ParentState
from cdk.streams.read_slice import read_slice
from cdk.streams.stream import Stream


def list_partitions(field: str, values: Iterable[Json]) -> Iterator[Partition]:
    """One partition per value: `list_partitions("region", ["eu", "us"])`."""
    return (Partition({field: value}) for value in values)


def product(*families: Iterable[Partition]) -> Iterator[Partition]:
    """Every combination of one partition of each family, the last varying fastest.

    All families but the first are held in memory.

    Raises FatalError: two families use the same field.
    """
    first, *rest = families
    held = [list(family) for family in rest]
    for head in first:
        for combination in itertools.product([head], *held):
            counts = Counter(name for part in combination for name in part)
            if shared := [name for name, count in counts.items() if count > 1]:
                raise FatalError(
                    f"partitions of a product share a field: found {', '.join(map(repr, shared))} in two families, "
                    "expected fields of its own in each; rename it in one"
                )
            extra = {name: value for part in combination for name, value in part.extra.items()}
            yield Partition({n: v for part in combination for n, v in part.items()}, extra=extra)


def read_parent(
    parent: Stream, state: StreamState | None = None
) -> Iterator[tuple[Sequence[Record], Partition] | StreamState]:
    """A stream read here and now: pages of records, each with its partition, and between them the state reached."""
    reader, again = parent.checkpoint_reader(state or StreamState()), FirstWarning()
    for slice in iter(reader.next, None):
        again(reader.mismatch and f"{parent.name}: {reader.mismatch}; it is read from its start")
        for page in read_slice(parent, slice):
            if page.records:
                yield page.records, slice.partition
            if page.position is not None:
                reader.observe(slice, page.position, page.edge)
                if (reached := reader.get_checkpoint()) is not None:
                    yield reached
    if (reached := reader.get_checkpoint()) is not None:
        yield reached


def records_of(parent: Stream) -> Iterator[Record]:
    """Every record of a stream, read here and now; what a substream's `partitions` is made of."""
    for item in read_parent(parent):
        if not isinstance(item, StreamState):
            yield from item[0]


def parent_partitions(parent: Stream, /, **fields: str) -> Iterator[Partition]:
    """One partition per record of `parent`: `parent_partitions(repos, repo="full_name")`.

    Each keyword names a field of the partition and the field of the parent's record it comes from. A partition of the
    parent itself is part of its children's. The parent's record travels along as `extra`.

    Raises FatalError: a record of the parent lacks such a field.
    """
    for item in read_parent(parent):
        if not isinstance(item, StreamState):
            yield from _children(parent, *item, fields)


def following_partitions(parent: Stream, state: StreamState, /, **fields: str) -> Iterator[Partition | ParentState]:
    """As `parent_partitions`, for an incremental parent: only the records new since `state`.

    Says after each page where the parent stands, so that a parent's progress is kept once its children are read.
    For `Stream.partitions_since`.
    """
    for item in read_parent(parent, state):
        if isinstance(item, StreamState):
            yield ParentState(parent.name, item)
        else:
            yield from _children(parent, *item, fields)


def _children(
    parent: Stream, records: Sequence[Record], partition: Partition, fields: Mapping[str, str]
) -> Iterator[Partition]:
    for record in records:
        try:
            own = {name: record[source] for name, source in fields.items()}
        except KeyError as error:
            raise FatalError(
                f"found no field {error.args[0]!r} in a record of {parent.name!r}, expected one in each, for a "
                f"partition is made of it{did_you_mean(str(error.args[0]), record)}",
                stream=parent.name,
            ) from error
        yield Partition({**partition, **own}, extra=record)
