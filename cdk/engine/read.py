"""The read loop: the only one, for all kinds of streams and executors.

Its guarantee: a state is emitted after every record that it covers, and it covers every record before it that a restart
would not read again. The destination preserves that order: a state becomes durable no earlier than its records.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TypeAlias

from cdk.base.errors import FatalError
from cdk.base.logs import FirstWarning, SliceErrors
from cdk.base.process.interruption import Interrupted
from cdk.base.values import Record
from cdk.engine.executors import Executor, serial
from cdk.state.slice import Slice
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint.reader import CheckpointReader
from cdk.streams.page import PageWarnings, ReadPage
from cdk.streams.read_slice import read_slice
from cdk.streams.stream import Stream, StreamCopies

Due: TypeAlias = Callable[[], bool]
"""Whether a state may be emitted now; see `cdk.engine.checkpoint_throttle`."""


def always() -> bool:
    """The `Due` that emits a state after every page that changed it."""
    return True


def read(
    stream: Stream, state: StreamState, execute: Executor = serial, due: Due = always, *, full_refresh: bool = False
) -> Generator[Sequence[Record] | StreamState]:
    """Yield the records and states of `stream`, resuming from `state`. Only the caller's thread touches state.

    The last item of a read that changed the state is the final state. When reading fails or is interrupted, yields the
    state of the records so far, then raises the error. A slice that fails for good (a FatalError) fails the stream too,
    but only after the remaining slices have been read: the state keeps the failed slice open. full_refresh: whether
    this is one; `state` may then be that of an interrupted one.
    """
    reader = _reader(stream, state, full_refresh=full_refresh)
    failures: list[FatalError] = []
    warnings, restart_warning = PageWarnings(resumed=bool(state.positions)), FirstWarning()
    errors = SliceErrors()
    pages = partial(_pages, StreamCopies(stream), failures, errors)
    try:
        # A reader without a next slice may plan further ones once the slices being read have ended.
        while (first := reader.next()) is not None:
            for slice, page in execute(chain([first], iter(reader.next, None)), pages, most=stream.max_concurrency):
                restart_warning(reader.mismatch and f"{stream.name}: {reader.mismatch}; it is read from its start")
                warnings.add(page)
                if page.records:
                    yield page.records
                if page.position is not None:
                    reader.observe(slice, page.position, page.edge)
                    if due() and (checkpoint := reader.get_checkpoint()) is not None:
                        yield checkpoint
    except (Exception, Interrupted):
        errors.end(stream.name)
        if (checkpoint := reader.get_checkpoint()) is not None:
            yield checkpoint
        raise
    if (checkpoint := reader.get_checkpoint()) is not None:
        yield checkpoint
    errors.end(stream.name)
    if failures:
        raise failures[0]
    warnings.end()


def _reader(stream: Stream, state: StreamState, *, full_refresh: bool) -> CheckpointReader:
    reader = stream.checkpoint_reader(state)
    if full_refresh:
        reader.skip_finished()
    return reader


def _pages(copies: StreamCopies, failures: list[FatalError], errors: SliceErrors, slice: Slice) -> Iterator[ReadPage]:
    with copies.lent() as stream:
        try:
            yield from read_slice(stream, slice)
        except FatalError as error:
            # If the slice is the whole stream, the error that `read` raises says the same.
            if slice.partition or slice.window is not None:
                errors.add(stream.name, slice, error.message)
            failures.append(error)
