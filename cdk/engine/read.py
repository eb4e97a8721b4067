"""The read loop. There is one, whatever is read and however.

The promise: a state comes after every record it covers, and covers every record it comes after that a restart would
not read again. The destination keeps that order: state is durable no earlier than the records it covers.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TypeAlias

from cdk.base.errors import FatalError
from cdk.base.logs import FirstWarning, logger
from cdk.base.process.interruption import Interrupted
from cdk.base.values import Record
from cdk.engine.executors import Executor, serial
from cdk.state.slice import Slice
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint.reader import CheckpointReader
from cdk.streams.read_slice import PageWarnings, ReadPage, read_slice
from cdk.streams.stream import Stream, StreamCopies

Due: TypeAlias = Callable[[], bool]
"""Whether a state may be said now; see `cdk.engine.checkpoint_throttle`."""


def always() -> bool:
    """A state after every page that changed it."""
    return True


def read(
    stream: Stream, state: StreamState, execute: Executor = serial, due: Due = always, *, refreshes: bool = False
) -> Generator[Sequence[Record] | StreamState]:
    """Records and states of `stream`, going on from `state`. Only the caller's thread touches state.

    The last item of a read that changed anything is its final state. When reading fails, or is interrupted, the state
    of what came before is given first, then the error is raised. A slice that the source will never give (a FatalError)
    fails the stream too, but the slices after it are read first: the state keeps it open. refreshes: it is a full
    refresh, in which the state is that of an interrupted one.
    """
    reader = _reader(stream, state, refreshes=refreshes)
    failures: list[FatalError] = []
    warnings, again = PageWarnings(resumed=bool(state.positions)), FirstWarning()
    pages = partial(_pages, StreamCopies(stream), failures)
    try:
        # A reader that has nothing to plan for now may plan on once the slices that are out have ended.
        while (first := reader.next()) is not None:
            for slice, page in execute(chain([first], iter(reader.next, None)), pages, most=stream.max_concurrency):
                again(reader.mismatch and f"{stream.name}: {reader.mismatch}; it is read from its start")
                warnings.add(page)
                if page.records:
                    yield page.records
                if page.position is not None:
                    reader.observe(slice, page.position, page.edge)
                    if due() and (checkpoint := reader.get_checkpoint()) is not None:
                        yield checkpoint
    except (Exception, Interrupted):
        if (checkpoint := reader.get_checkpoint()) is not None:
            yield checkpoint
        raise
    if (checkpoint := reader.get_checkpoint()) is not None:
        yield checkpoint
    if failures:
        raise failures[0]
    warnings.end()


def _reader(stream: Stream, state: StreamState, *, refreshes: bool) -> CheckpointReader:
    reader = stream.checkpoint_reader(state)
    if refreshes:
        reader.skip_finished()
    return reader


def _pages(copies: StreamCopies, failures: list[FatalError], slice: Slice) -> Iterator[ReadPage]:
    with copies.lent() as stream:
        try:
            yield from read_slice(stream, slice)
        except FatalError as error:
            # Of a whole stream, what is raised says as much.
            if slice.partition or slice.window is not None:
                logger.error("%s %s: %s", stream.name, slice, error.message)
            failures.append(error)
