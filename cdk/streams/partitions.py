"""Partitions from lists, from their products, and from the records of a parent stream."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from cdk.base.errors import ConfigError, FatalError
from cdk.base.logs import FirstWarning
from cdk.base.values import FieldValue, JsonValue, Record
from cdk.base.wording import did_you_mean
from cdk.state.position import Checkpoint, Resume
from cdk.state.slice import Partition
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint.parent_state import ParentState, child_secrets, without_states
from cdk.streams.checkpoint.reader import CheckpointReader
from cdk.streams.cursor import Cursor
from cdk.streams.page import PageWarnings
from cdk.streams.read_slice import read_slice
from cdk.streams.stream import Stream
from cdk.streams.written_class import kind_shown

Child = TypeVar("Child")


def list_partitions(field: str, values: Iterable[JsonValue]) -> Iterator[Partition]:
    """One partition per value: `list_partitions("region", ["eu", "us"])`."""
    return (Partition({field: value}) for value in values)


def product(*families: Iterable[Partition], shared_fields: bool = False) -> Iterator[Partition]:
    """Every combination of one partition from each family; the last family varies fastest.

    All families but the first are held in memory. shared_fields: families may have a field in common, whose value comes
    from the first one.

    Raises FatalError: two families have a field in common without `shared_fields`.
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
            f"partitions of a product share a field: found {', '.join(map(repr, shared))} in two families, expected "
            "different fields in each; rename it in one"
        )


def child_partitions(
    parent: Stream, child: Callable[[Record, Partition], Child | None], state: StreamState | None = None
) -> Iterator[Child | ParentState]:
    """Yield the result of `child` for each record of `parent` and the record's partition; None skips a record.

    Reads the parent on the spot, from `state` on. After the children of a page comes the parent's state behind it.
    Raises ConfigError: `parent` is no stream.
    """
    _check_parent(parent)
    if (secrets := child_secrets.get()) and not parent.secrets:
        parent.guard(secrets)
    greatest: list[FieldValue] = []
    reader, again = parent.checkpoint_reader(state or StreamState()), FirstWarning()
    warnings = PageWarnings(resumed=state is not None and bool(state.positions))
    for slice in iter(reader.next, None):
        partition = parent.restored(slice.partition)
        again(reader.mismatch and f"{parent.name}: {reader.mismatch}; it is read from its start")
        for page in read_slice(parent, slice):
            warnings.add(page)
            for record in page.records:
                if (item := child(record, partition)) is not None:
                    yield item
            if page.position is not None:
                reader.observe(slice, page.position, page.edge)
                if page.edge is not None and parent.cursor is not None:
                    greatest = [parent.cursor.greatest([*greatest, page.edge.value])]
                yield from _reached(parent, reader, greatest)
    warnings.end()
    yield from _reached(parent, reader, greatest)


def _check_parent(parent: object) -> None:
    if not isinstance(parent, Stream):
        raise ConfigError(
            f"the parent of partitions: found {kind_shown(parent)}, expected a stream: `Users(self.config)`"
        )


def _reached(parent: Stream, reader: CheckpointReader, greatest: Sequence[FieldValue]) -> Iterator[ParentState]:
    """The state of a parent, if it has changed. greatest: the greatest cursor value read so far, or an empty list."""
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
    """The state as if the read of the parent had ended at `end`; None while that read is unfinished."""
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
    """Every record of a stream, read on the spot; for the `partitions` of a substream."""
    return without_states(child_partitions(parent, lambda record, _: record))


def parent_partitions(parent: Stream, /, **fields: str) -> Iterator[Partition]:
    """One partition per record of `parent`: `parent_partitions(repos, repo="full_name")`.

    Each keyword maps a field of the partition to the field of the parent's record that it is taken from. The fields of
    the parent's own partition are added. The parent's record travels along as `extra`.

    Raises FatalError: a record of the parent lacks one of the fields.
    """
    return without_states(following_partitions(parent, {}, **fields))


def following_partitions(
    parent: Stream, parents: Mapping[str, StreamState], /, **fields: str
) -> Iterator[Partition | ParentState]:
    """Like `parent_partitions`, for an incremental parent: only records that are new since its state in `parents`.

    Yields the parent's state after each page, so its progress is saved once the children of the page have been read.
    For `Stream.partitions_since`, which receives `parents`. Raises ConfigError: `parent` is no
    stream, or a field is named by no string.
    """
    _check_parent(parent)
    for name, source in dict[str, object](fields).items():
        if not isinstance(source, str):
            where = f"{name}={source!r}: expected the name of a field in a record of {parent.name!r}"
            raise ConfigError(f"{where}; the other fields of the record are in `slice.partition.extra`")

    def child(record: Record, partition: Partition) -> Partition:
        try:
            own = {name: record[source] for name, source in fields.items()}
        except KeyError as error:
            raise FatalError(
                f"found no field {error.args[0]!r} in a record of {parent.name!r}, expected one in each, because a "
                f"partition is made of it{did_you_mean(str(error.args[0]), record)}",
                stream=parent.name,
            ) from error
        return Partition({**partition, **own}, extra=record)

    return child_partitions(parent, child, parents.get(parent.name))
