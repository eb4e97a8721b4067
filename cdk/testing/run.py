"""read: reads streams with the real engine; ReadResult: the outcome, for assertions in tests."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, convert, field

from cdk import sources
from cdk.base.errors import CatalogError, CdkError
from cdk.base.logs import log_records, warnings_in
from cdk.base.process.concurrency import Learned
from cdk.base.run import one_run
from cdk.base.secret_masking import Secrets, secret_values
from cdk.base.values import FieldValue, JsonSchema, dotted, from_json
from cdk.base.wording import did_you_mean
from cdk.engine.checkpoint_throttle import MAX_STATE_INTERVAL
from cdk.engine.executors import Threads, serial
from cdk.engine.protocol_read import StreamsFailed, run_read
from cdk.protocol.catalog import (
    AirbyteStream,
    ConfiguredAirbyteCatalog,
    ConfiguredAirbyteStream,
    StreamDescriptor,
    SyncMode,
)
from cdk.protocol.messages import AirbyteStateMessage
from cdk.rest import Transport
from cdk.sources.config import prepared_config
from cdk.sources.discovery import find_source, source_of
from cdk.sources.schema_check import mismatches
from cdk.state.log.value_check import SecretCheck
from cdk.state.manager import ConnectorStateManager
from cdk.streams.source import Events, Source
from cdk.streams.stream import Stream
from cdk.testing.simulation import MockClock, simulated


class ReadResult(Struct):
    """The output of a read, in order.

    messages: every protocol message, as JSON. logs: lines of the kit's log, secrets masked. warnings: what users should
    know about the data, such as records that may be missing. schemas: the schema of each stream, by name. config: the
    config as the read changed it, for example with a new refresh token; None if unchanged. error: why the read failed.
    """

    messages: list[FieldValue] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    schemas: dict[str, JsonSchema] = field(default_factory=dict)
    config: Mapping[str, FieldValue] | None = None
    error: CdkError | None = None

    @property
    def records(self) -> list[FieldValue]:
        """The data of all records."""
        return [m["record"]["data"] for m in self.messages if m["type"] == "RECORD"]

    def records_of(self, stream: str) -> list[FieldValue]:
        """The data of the records of one stream."""
        return [m["record"]["data"] for m in self.messages if m["type"] == "RECORD" and m["record"]["stream"] == stream]

    @property
    def states(self) -> list[FieldValue]:
        """The stream state in each state message."""
        return [m["state"]["stream"]["stream_state"] for m in self.messages if m["type"] == "STATE"]

    @property
    def statuses(self) -> list[str]:
        """The stream statuses, in order: STARTED, RUNNING, COMPLETE or INCOMPLETE."""
        traces = [m["trace"] for m in self.messages if m["type"] == "TRACE"]
        return [trace["stream_status"]["status"] for trace in traces if trace["type"] == "STREAM_STATUS"]

    @property
    def state_messages(self) -> list[AirbyteStateMessage]:
        """The last state message of each stream; pass them to the next read as its `state`."""
        messages = [convert(m["state"], AirbyteStateMessage) for m in self.messages if m["type"] == "STATE"]
        return list({state.stream.stream_descriptor: state for state in messages if state.stream is not None}.values())

    @property
    def schema_errors(self) -> list[str]:
        """Where records violate the schema of their stream: one line for each place."""
        return [
            f"{name}, record {number}, {dotted(keys)}: {text}"
            for name, schema in self.schemas.items()
            for number, record in enumerate(self.records_of(name), 1)
            for keys, text in mismatches(record, schema)
        ]


Connector: TypeAlias = Source | type[Source] | Path | str


def read(
    source: Connector | Stream,
    stream: str | None = None,
    *,
    config: Mapping[str, FieldValue] | None = None,
    state: Iterable[AirbyteStateMessage] = (),
    mode: SyncMode | None = None,
    transport: Transport | None = None,
    clock: MockClock | None = None,
    concurrency: int = 1,
    every_state: bool = False,
) -> ReadResult:
    """Read streams as `spark-cdk read` would. A failed read does not raise: its error is in the result's `error`.

    source: a stream, or a source together with the name of one of its streams; without a name, all streams are read. A
    source is a Source, the path of a manifest (its custom code may run), or a name that `--connector` accepts. state:
    see `cdk.testing.state`, or the `state_messages` of an earlier read. mode: by default incremental if the stream has
    a cursor. transport, clock: see `cdk.testing.simulated`. concurrency: how many slices are read at once, from the
    start. every_state: emit a state message wherever the read could resume; by default, states are throttled so that
    they weigh no more than the records.

    Raises CatalogError: when the source has no such stream. AssertionError: when the mock API has no route for a
    request, or a state belongs to no stream of the source. TypeError: when `state` does not hold state messages.
    """
    result, secrets = ReadResult(), Secrets()
    with simulated(transport, clock), one_run():
        try:
            streams, leaks = _opened(source, config or {}, result, secrets)
        except CdkError as error:
            result.error = error
            return result
        chosen = [each for each in streams if stream is None or each.name == stream]
        if stream is not None and not chosen:
            raise CatalogError(f"the source has no stream {stream!r}{did_you_mean(stream, [s.name for s in streams])}")
        result.schemas = {each.name: each.json_schema() for each in chosen}
        lines = log_records(lambda record: result.logs.append(secrets.mask(record.getMessage())), lowest=logging.DEBUG)
        with lines, warnings_in(result.warnings), _errors_of(result):
            manager = ConnectorStateManager(_messages(state))
            _check_states(manager, streams, alone=isinstance(source, Stream))
            run_read(
                streams,
                _catalog(chosen, mode),
                manager,
                lambda lines: result.messages.extend(from_json(line) for line in lines.splitlines()),
                execute=serial if concurrency == 1 else Threads(concurrency, Learned(concurrency)),
                mask=secrets.mask,
                leaks=leaks,
                max_state_interval=timedelta(0) if every_state else MAX_STATE_INTERVAL,
            )
    result.warnings = [secrets.mask(text) for text in result.warnings]
    return result


def _catalog(streams: Sequence[Stream], mode: SyncMode | None) -> ConfiguredAirbyteCatalog:
    return ConfiguredAirbyteCatalog(
        streams=[
            ConfiguredAirbyteStream(
                stream=AirbyteStream(
                    name=stream.name, namespace=stream.namespace, json_schema=dict(stream.json_schema())
                ),
                sync_mode=mode or (SyncMode.INCREMENTAL if stream.incremental else SyncMode.FULL_REFRESH),
            )
            for stream in streams
        ]
    )


def _messages(state: Iterable[AirbyteStateMessage]) -> Sequence[AirbyteStateMessage]:
    """Return the state messages after checking them at run time, since tests may be untyped. Raises TypeError."""
    messages = list(state)
    kinds: Sequence[object] = messages
    odd = next((message for message in kinds if not isinstance(message, AirbyteStateMessage)), None)
    if odd is not None or isinstance(state, Mapping):
        raise TypeError(
            f"state: found {'an object' if isinstance(state, Mapping) else f'a list of {type(odd).__name__}'}, "
            "expected state messages: those of an earlier read (`state_messages`), or `state(STREAM={...})` of "
            "cdk.testing"
        )
    return messages


def connector(source: Connector) -> Source:
    """Return the source that a test names. Raises ConfigError: when missing. ManifestError: when invalid."""
    match source:
        case Path() | str() if str(source).endswith((".yaml", ".yml")):
            return sources.manifest_source(Path(source), trusted=True)
        case Path() | str():
            return find_source(str(source))
        case _:
            return source_of(source, getattr(source, "__name__", type(source).__name__))


def _opened(
    source: Connector | Stream, config: Mapping[str, FieldValue], result: ReadResult, secrets: Secrets
) -> tuple[Sequence[Stream], SecretCheck]:
    """Return the streams of a source for a config, and the check that their states contain no secrets."""
    if isinstance(source, Stream):
        return [source], SecretCheck()
    opened = connector(source)
    opened.events = _ResultEvents(result, secrets)
    settings = prepared_config(config, opened, "config", secrets)
    return opened.open(settings), SecretCheck(secret_values(opened.config_schema, settings))


def _check_states(states: ConnectorStateManager, streams: Sequence[Stream], *, alone: bool) -> None:
    """Raise AssertionError: when a state belongs to no stream or, if `alone`, when no state belongs to the only stream.

    A command only warns about this and continues, because streams come and go. In a test it is a mistake.
    """
    known = {StreamDescriptor(name=stream.name, namespace=stream.namespace) for stream in streams}
    unknown = [] if alone and known & {*states.streams} else [each for each in states.streams if each not in known]
    if unknown:
        names = " nor ".join(_missing(each, known) for each in unknown)
        raise AssertionError(f"state: there is no stream {names}; correct the name, because such a state has no effect")


def _missing(state: StreamDescriptor, known: Collection[StreamDescriptor]) -> str:
    """Describe an unknown stream of a state, with a suggestion of what the test may have meant."""
    if others := [str(each) for each in known if each.name == state.name]:
        return f"{str(state)!r}; there is {others[0]!r}, whose state is an AirbyteStateMessage with that namespace"
    return f"{str(state)!r}{did_you_mean(str(state), map(str, known))}"


class _ResultEvents(Events):
    def __init__(self, result: ReadResult, secrets: Secrets) -> None:
        self._result, self._secrets = result, secrets

    def learned(self, secret: str) -> None:
        self._secrets.add(secret)

    def config_changed(self, config: Mapping[str, FieldValue]) -> None:
        self._result.config = config


@contextmanager
def _errors_of(result: ReadResult) -> Iterator[None]:
    """Store the error that a read raises in its result."""
    try:
        yield
    except StreamsFailed as error:
        failures = list(error.failures.values())
        for failure in failures:
            if isinstance(failure, AssertionError):
                # The mock API or the connector is wrong: there was no response, so this is not an error of the read.
                raise failure from None
        result.error = failures[0] if len(failures) == 1 and isinstance(failures[0], CdkError) else error
    except CdkError as error:
        result.error = error
