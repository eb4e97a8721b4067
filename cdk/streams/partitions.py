"""Partitions from lists, from products of lists, and from the records of a parent stream."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from cdk.base.errors import FatalError
from cdk.base.logs import FirstWarning
from cdk.base.values import FieldValue, JsonValue, Record
from cdk.base.wording import did_you_mean
from cdk.state.position import Checkpoint, Resume
from cdk.state.slice import Partition
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint.parent_state import ParentState, without_states
from cdk.streams.checkpoint.reader import CheckpointReader
from cdk.streams.cursor import Cursor
from cdk.streams.read_slice import PageWarnings, read_slice
from cdk.streams.stream import Stream

Child = TypeVar("Child")


def list_partitions(field: str, values: Iterable[JsonValue]) -> Iterator[Partition]:
    """One partition per value: `list_partitions("region", ["eu", "us"])`."""
    return (Partition({field: value}) for value in values)


def product(*families: Iterable[Partition], shared_fields: bool = False) -> Iterator[Partition]:
    """Every combination of one partition of each family, the last varying fastest.

    All families but the first are held in memory. shared_fields: several families may have a field, and the first
    counts.

    Raises FatalError: two families use the same field, and may not.
    """
    first, *rest = families
    held = [list(family) for family in rest]
    for head in first:
        for combination in itertools.product([head], *held):
            if not shared_fields:
                _check_fields(combination)
            fields: dict[str, JsonValue] = {}
            for name, value in itertools.chain.from_iterable(part.items() for part in combination):
                fields.setdefault(name, value)
            parts = reversed(combination) if shared_fields else combination
            yield Partition(fields, extra={name: value for part in parts for name, value in part.extra.items()})


def _check_fields(combination: Sequence[Partition]) -> None:
    counts = Counter(name for part in combination for name in part)
    if shared := [name for name, count in counts.items() if count > 1]:
        raise FatalError(
            f"partitions of a product share a field: found {', '.join(map(repr, shared))} in two families, "
            "expected fields of its own in each; rename it in one"
        )


def child_partitions(
    parent: Stream, child: Callable[[Record, Partition], Child | None], state: StreamState | None = None
) -> Iterator[Child | ParentState]:
    """What `child` makes of each record of `parent`, and of the record's partition; None leaves a record out.

    The parent is read here and now, from `state` on. What its records gave is followed by where the parent then stands.
    """
    greatest: list[FieldValue] = []
    reader, again = parent.checkpoint_reader(state or StreamState()), FirstWarning()
    warnings = PageWarnings(resumed=state is not None and bool(state.positions))
    for slice in iter(reader.next, None):
        again(reader.mismatch and f"{parent.name}: {reader.mismatch}; it is read from its start")
        for page in read_slice(parent, slice):
            warnings.add(page)
            for record in page.records:
                if (item := child(record, slice.partition)) is not None:
                    yield item
            if page.position is not None:
                reader.observe(slice, page.position, page.edge)
                if page.edge is not None and parent.cursor is not None:
                    greatest = [parent.cursor.greatest([*greatest, page.edge.value])]
                yield from _reached(parent, reader, greatest)
    warnings.end()
    yield from _reached(parent, reader, greatest)


def _reached(parent: Stream, reader: CheckpointReader, greatest: Sequence[FieldValue]) -> Iterator[ParentState]:
    """Where a parent stands, if that is news. greatest: the greatest value of its cursor that was read, or none."""
    if (state := reader.get_checkpoint()) is not None:
        until = partial(_until, parent.cursor, greatest, state, dict(reader.parents))
        yield ParentState(parent.name, state, until)


def _until(
    cursor: Cursor | None,
    greatest: Sequence[FieldValue],
    state: StreamState,
    parents: Mapping[str, ParentState],
    end: datetime,
) -> StreamState | None:
    """The state as one that a read had reached which ended there; None in the middle of a read."""
    if state.in_full:
        return None
    if cursor is not None and any(cursor.no_later(value, end) != value for value in greatest):
        positions = dict(state.positions)
        for partition, position in positions.items():
            match position:
                case Checkpoint(resume=None, cursor=fields) if cursor.field in fields:
                    if (value := cursor.no_later(fields[cursor.field], end)) != fields[cursor.field]:
                        positions[partition] = Checkpoint({**fields, cursor.field: value})
                case Checkpoint(resume=Resume()):
                    return None
                case _:
                    pass
        state = replace(state, positions=positions)
    reached = [parent.no_later(end) for parent in parents.values()]
    if None in reached:
        return None
    return replace(state, parents={parent.name: parent.state for parent in reached if parent is not None})


def records_of(parent: Stream) -> Iterator[Record]:
    """Every record of a stream, read here and now; what a substream's `partitions` is made of."""
    return without_states(child_partitions(parent, lambda record, _: record))


def parent_partitions(parent: Stream, /, **fields: str) -> Iterator[Partition]:
    """One partition per record of `parent`: `parent_partitions(repos, repo="full_name")`.

    Each keyword names a field of the partition and the field of the parent's record it comes from. A partition of the
    parent itself is part of its children's. The parent's record travels along as `extra`.

    Raises FatalError: a record of the parent lacks such a field.
    """
    return without_states(following_partitions(parent, {}, **fields))


def following_partitions(
    parent: Stream, parents: Mapping[str, StreamState], /, **fields: str
) -> Iterator[Partition | ParentState]:
    """As `parent_partitions`, for an incremental parent: only the records new since its state in `parents`.

    Says after each page where the parent stands, so that a parent's progress is kept once its children are read.
    For `Stream.partitions_since`, which gets `parents`.
    """

    def child(record: Record, partition: Partition) -> Partition:
        try:
            own = {name: record[source] for name, source in fields.items()}
        except KeyError as error:
            raise FatalError(
                f"found no field {error.args[0]!r} in a record of {parent.name!r}, expected one in each, for a "
                f"partition is made of it{did_you_mean(str(error.args[0]), record)}",
                stream=parent.name,
            ) from error
        return Partition({**partition, **own}, extra=record)

    return child_partitions(parent, child, parents.get(parent.name))
