"""Reads the streams of a catalog and writes protocol lines: statuses, pages of records, states and errors, in order."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from typing import TypeAlias

import msgspec
from msgspec import Struct

from cdk.base.errors import CatalogError, CdkError
from cdk.base.logs import logger
from cdk.base.process.interruption import Interrupted, Interruption
from cdk.base.run import current_run, one_run
from cdk.base.times.clock import Clock, system_clock
from cdk.base.values import JsonValue, Record
from cdk.base.wording import did_you_mean
from cdk.engine.checkpoint_throttle import MAX_STATE_INTERVAL, CheckpointThrottle
from cdk.engine.executors import Executor, serial
from cdk.engine.read import read
from cdk.protocol.catalog import ConfiguredAirbyteCatalog, ConfiguredAirbyteStream, StreamDescriptor, SyncMode
from cdk.protocol.lines import message_line, record_lines
from cdk.protocol.messages import AirbyteMessage, AirbyteStateMessage, AirbyteStateStats, Type
from cdk.protocol.reports import Mask, error_line, error_text, milliseconds, status_line
from cdk.protocol.traces import AirbyteStreamStatus
from cdk.state.log.value_check import SecretCheck
from cdk.state.manager import ConnectorStateManager, has_checkpoints
from cdk.state.stream_state import StreamState
from cdk.streams.state_check import check_values
from cdk.streams.stream import Stream

Write: TypeAlias = Callable[[bytes], None]
"""Receives complete lines in order; they are written when it returns."""


class StreamsFailed(CdkError):
    """Some streams could not be read to the end. The error of each was already written, with its own failure type.

    Its own failure type is config_error, as in Airbyte's summary, whatever those of the streams' errors.
    """

    failure_type = "config_error"

    def __init__(self, failures: Mapping[StreamDescriptor, Exception]) -> None:
        """failures: the error of each failed stream."""
        texts = "; ".join(f"{descriptor}: {error_text(error)}" for descriptor, error in failures.items())
        streams = "1 stream" if len(failures) == 1 else f"{len(failures)} streams"
        super().__init__(f"{streams} could not be read to the end: {texts}")
        self.failures = failures


class ReadObserver:
    """Observes the progress of a read. Subclasses override what they need; the methods of this class do nothing."""

    def started(self, stream: StreamDescriptor) -> None:
        """The first record or state of a stream is about to be read."""

    def records(self, stream: StreamDescriptor, count: int, size: int) -> None:
        """A page of `count` records and `size` bytes has been written."""

    def state(self, stream: StreamDescriptor, blob: JsonValue) -> None:
        """A state has been written."""

    def ended(self, stream: StreamDescriptor, error: BaseException | None) -> None:
        """The stream was read to the end (error: None), failed, or was interrupted."""


def run_read(
    streams: Iterable[Stream],
    catalog: ConfiguredAirbyteCatalog,
    manager: ConnectorStateManager,
    write: Write,
    *,
    execute: Executor = serial,
    clock: Clock = system_clock,
    mask: Mask = str,
    leaks: SecretCheck | None = None,
    observer: ReadObserver | None = None,
    max_state_interval: timedelta = MAX_STATE_INTERVAL,
    limit: int | None = None,
) -> None:
    """Read the streams of `catalog` in its order, resuming from the states in `manager`.

    For each stream, `write` receives: STARTED, RUNNING before its first record, records a page at a time, states after
    all records that they cover, and COMPLETE. COMPLETE always follows a state that counts the last records: the
    previous state again, if these records did not change it. A stream that fails ends with INCOMPLETE and its error,
    and the read continues with the next stream.

    mask: hides secrets in errors. leaks: secrets that no state may contain; a stream whose state has one fails.
    max_state_interval: how long to hold back a state that weighs more than the records; 0 to write every state.
    limit: maximum number of records per stream; a stream with more is INCOMPLETE, its state covers whole pages only,
    and the read continues with the next stream.

    Raises StateError, before anything is read: when a state cannot be used. Raises CatalogError, as early: when the
    catalog has a stream twice. Raises StreamsFailed, after the last stream: when any has failed. Raises Interrupted:
    when the run's Interruption ended the read, after the next state or in a long wait; the stream is INCOMPLETE, and
    later streams were not started.
    """
    with one_run():
        interruption = current_run().own(Interruption)
        leaks, observer = leaks or SecretCheck(), observer or ReadObserver()
        out = _Output(write, clock, leaks, observer, interruption, max_state_interval, limit)
        _read_all(streams, catalog, manager, out, execute=execute, mask=mask)


def _read_all(
    streams: Iterable[Stream],
    catalog: ConfiguredAirbyteCatalog,
    manager: ConnectorStateManager,
    out: "_Output",
    *,
    execute: Executor,
    mask: Mask,
) -> None:
    offered = {StreamDescriptor(name=stream.name, namespace=stream.namespace): stream for stream in streams}
    states = _restore(catalog, offered, manager)
    failures: dict[StreamDescriptor, Exception] = {}
    interrupted: Interrupted | None = None
    for configured in catalog.streams:
        if why := out.interruption.why:
            interrupted = interrupted or Interrupted(why)
        if interrupted is not None:
            break
        descriptor = configured.stream.descriptor
        out.observer.started(descriptor)
        try:
            stream = find_stream(configured, offered)
            full_refresh = configured.sync_mode is SyncMode.FULL_REFRESH
            _StreamRun(stream, descriptor, manager, out).run(states.pop(descriptor), execute, full_refresh=full_refresh)
        except Interrupted as end:
            interrupted = end
            out.write(status_line(descriptor, AirbyteStreamStatus.INCOMPLETE, out.clock()))
        except Exception as error:  # noqa: BLE001 - one stream failing, for whatever reason, does not stop the others
            failures[descriptor] = error
            out.write(status_line(descriptor, AirbyteStreamStatus.INCOMPLETE, out.clock()))
            out.write(error_line(error, out.clock(), mask=mask, stream=descriptor))
        out.observer.ended(descriptor, interrupted or failures.get(descriptor))
    if failures:
        raise StreamsFailed(failures)
    if interrupted is not None:
        raise interrupted


class _Output(Struct, frozen=True):
    """The output of a read, with everything that inspects or limits it."""

    write: Write
    clock: Clock
    leaks: SecretCheck
    observer: ReadObserver
    interruption: Interruption
    max_state_interval: timedelta
    limit: int | None


class _StreamRun:
    """Writes one stream, and counts the records since its last state."""

    def __init__(
        self, stream: Stream, descriptor: StreamDescriptor, manager: ConnectorStateManager, out: "_Output"
    ) -> None:
        self._stream, self._descriptor, self._manager = stream, descriptor, manager
        self._write, self._clock, self._observer, self._leaks = out.write, out.clock, out.observer, out.leaks
        self._throttle = CheckpointThrottle(out.clock, longest=out.max_state_interval)
        self._interruption = out.interruption
        self._running = False
        self._count = 0
        self._remaining = out.limit

    def run(self, state: StreamState, execute: Executor, *, full_refresh: bool) -> None:
        """Read the stream from `state` to its end. full_refresh: see `read`.

        Raises what reading raises, or Interrupted, in both cases after writing the last state that could be saved.
        """
        self._write_status(AirbyteStreamStatus.STARTED)
        end = AirbyteStreamStatus.COMPLETE
        try:
            with closing(read(self._stream, state, execute, self._due, full_refresh=full_refresh)) as items:
                for item in items:
                    match item:
                        case StreamState():
                            state = item
                            self._save(self._manager.checkpoint(self._stream, state))
                            if why := self._interruption.why:
                                raise Interrupted(why)
                        case page if self._remaining is None or len(page) <= self._remaining:
                            self._records(page)
                        case page:
                            self._records(page[: self._remaining])
                            end = AirbyteStreamStatus.INCOMPLETE
                            break
        finally:
            last = self._manager.checkpoint(self._stream, state, final=True)
            if last is None and self._count:
                last = self._manager.create_state_message(self._descriptor.name, self._descriptor.namespace)
            self._save(last)
        self._write_status(end)

    def _due(self) -> bool:
        # Building a state takes time proportional to its partitions. Doing so after each of them, only to drop the
        # state, would be wasteful.
        return bool(self._interruption.why) or (has_checkpoints(self._stream) and self._throttle.due())

    def _records(self, page: Sequence[Record]) -> None:
        if not page:
            return
        if self._remaining is not None:
            self._remaining -= len(page)
        if not self._running:
            self._running = True
            self._write_status(AirbyteStreamStatus.RUNNING)
        name, namespace = self._descriptor.name, self._descriptor.namespace
        lines = record_lines(name, namespace, page, milliseconds(self._clock()))
        self._write(lines)
        self._count += len(page)
        self._throttle.wrote_records(len(lines))
        self._observer.records(self._descriptor, len(page), len(lines))

    def _save(self, state: AirbyteStateMessage | None) -> None:
        if state is None:
            return
        stats = AirbyteStateStats(record_count=float(self._count))
        line = message_line(AirbyteMessage(type=Type.STATE, state=msgspec.structs.replace(state, source_stats=stats)))
        self._leaks.refuse(line, f"state of {self._descriptor}")
        self._write(line)
        self._count = 0
        self._throttle.wrote_state(len(line))
        if state.stream is not None:
            self._observer.state(self._descriptor, state.stream.stream_state)

    def _write_status(self, status: AirbyteStreamStatus) -> None:
        self._write(status_line(self._descriptor, status, self._clock()))


def _restore(
    catalog: ConfiguredAirbyteCatalog, offered: dict[StreamDescriptor, Stream], manager: ConnectorStateManager
) -> dict[StreamDescriptor, StreamState]:
    """Return the states of all streams, so that an invalid state is found before the first request."""
    states: dict[StreamDescriptor, StreamState] = {}
    for configured in catalog.streams:
        descriptor = configured.stream.descriptor
        if descriptor in states:
            raise CatalogError(f"the catalog lists the stream {str(descriptor)!r} twice; remove one of the two")
        if descriptor in offered:
            states[descriptor] = manager.restore(offered[descriptor])
            check_values(offered[descriptor], states[descriptor])
    return states


def find_stream(configured: ConfiguredAirbyteStream, offered: Mapping[StreamDescriptor, Stream]) -> Stream:
    """Return the stream that a catalog names. Raises CatalogError: when the source lacks it or its cursor differs."""
    descriptor = configured.stream.descriptor
    stream = offered.get(descriptor)
    if stream is None:
        hint = did_you_mean(str(descriptor), map(str, offered))
        raise CatalogError(f"the catalog lists the stream {str(descriptor)!r}, which the source does not have{hint}")
    if configured.sync_mode is SyncMode.INCREMENTAL:
        cursor_field = ".".join(configured.cursor_field or ())
        if stream.cursor_field is None:
            text = "%s has no cursor, so it is read in full, although the catalog selects incremental"
            logger.warning(text, descriptor)
        elif cursor_field and cursor_field != stream.cursor_field:
            hint = did_you_mean(cursor_field, [stream.cursor_field])
            why = f"the catalog sets the cursor field {cursor_field!r} for {descriptor}, which has another one{hint}"
            raise CatalogError(why)
    return stream
