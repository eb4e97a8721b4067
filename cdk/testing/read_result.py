"""ReadResult: the outcome of a read, for assertions in tests."""

from collections.abc import Mapping

from msgspec import Struct, convert, field

from cdk.base.errors import CdkError
from cdk.base.values import FieldValue, JsonSchema, dotted
from cdk.protocol.messages import AirbyteStateMessage
from cdk.sources.schema_check import mismatches


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
