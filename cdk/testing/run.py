"""read: one stream through the real engine, and what came out of it."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from cdk.base.errors import CatalogError, CdkError
from cdk.base.logs import logger
from cdk.base.run import one_run
from cdk.base.suggestions import did_you_mean
from cdk.base.values import FieldValue, from_json
from cdk.engine.executors import Executor, serial
from cdk.engine.protocol_read import StreamsFailed, run_read
from cdk.protocol import (
    AirbyteStateMessage,
    AirbyteStream,
    ConfiguredAirbyteCatalog,
    ConfiguredAirbyteStream,
    SyncMode,
)
from cdk.state.manager import ConnectorStateManager
from cdk.streams.source import Source
from cdk.streams.stream import Stream


@dataclass
class ReadResult:
    """What a read said, in order.

    messages: every protocol message, as JSON. logs: lines of the kit's log. error: why the read failed, if it did.
    """

    messages: list[FieldValue] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    error: CdkError | None = None

    @property
    def records(self) -> list[FieldValue]:
        """The data of every record."""
        return [m["record"]["data"] for m in self.messages if m["type"] == "RECORD"]

    @property
    def states(self) -> list[FieldValue]:
        """The stream state of every state message."""
        return [m["state"]["stream"]["stream_state"] for m in self.messages if m["type"] == "STATE"]

    @property
    def statuses(self) -> list[str]:
        """STARTED, RUNNING, COMPLETE or INCOMPLETE."""
        traces = [m["trace"] for m in self.messages if m["type"] == "TRACE"]
        return [trace["stream_status"]["status"] for trace in traces if trace["type"] == "STREAM_STATUS"]

    @property
    def state_messages(self) -> list[AirbyteStateMessage]:
        """The last state of each stream, as the next read takes it."""
        messages = [AirbyteStateMessage.model_validate(m["state"]) for m in self.messages if m["type"] == "STATE"]
        return list({state.stream.stream_descriptor: state for state in messages if state.stream is not None}.values())


def read(
    source: Source | Stream,
    stream: str | None = None,
    *,
    config: Mapping[str, FieldValue] | None = None,
    state: Iterable[AirbyteStateMessage] = (),
    mode: SyncMode | None = None,
    execute: Executor = serial,
) -> ReadResult:
    """Read a stream as `spark-cdk read` would; a failed read is in the result's `error` and raises nothing.

    source: a stream, or a source and the name of one of its streams; all of them without a name. state: see
    `cdk.testing.state`, or an earlier run's `state_messages`. mode: default incremental where the stream has a cursor.
    Raises CatalogError: the source has no such stream.
    """
    with one_run():
        return _read(source, stream, config or {}, ConnectorStateManager(state), mode=mode, execute=execute)


def _read(
    source: Source | Stream,
    stream: str | None,
    config: Mapping[str, FieldValue],
    manager: ConnectorStateManager,
    *,
    mode: SyncMode | None,
    execute: Executor,
) -> ReadResult:
    run = ReadResult()
    try:
        match source:
            case Stream():
                streams: Sequence[Stream] = [source]
            case _:
                streams = source.open(config)
    except CdkError as error:
        run.error = error
        return run
    chosen = [s for s in streams if stream is None or s.name == stream]
    if stream is not None and not chosen:
        raise CatalogError(f"the source has no stream {stream!r}{did_you_mean(stream, [s.name for s in streams])}")
    with _lines_of_the_log(run.logs):
        try:
            run_read(
                streams,
                _catalog(chosen, mode),
                manager,
                lambda lines: run.messages.extend(from_json(line) for line in lines.splitlines()),
                execute=execute,
            )
        except StreamsFailed as error:
            failure = next(iter(error.failures.values()))
            run.error = failure if len(error.failures) == 1 and isinstance(failure, CdkError) else error
        except CdkError as error:
            run.error = error
    return run


def _catalog(streams: Sequence[Stream], mode: SyncMode | None) -> ConfiguredAirbyteCatalog:
    return ConfiguredAirbyteCatalog(
        streams=[
            ConfiguredAirbyteStream(
                stream=AirbyteStream(
                    name=stream.name,
                    namespace=stream.namespace,
                    json_schema=dict(stream.json_schema()),
                ),
                sync_mode=mode or (SyncMode.INCREMENTAL if stream.incremental else SyncMode.FULL_REFRESH),
            )
            for stream in streams
        ]
    )


@contextmanager
def _lines_of_the_log(lines: list[str]) -> Iterator[None]:
    """Gather what the kit logs, at every level."""
    handler, level = _Lines(lines), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


class _Lines(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())
