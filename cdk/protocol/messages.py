"""The envelope: every line on the wire is one AirbyteMessage."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from cdk.base.values import JsonObject
from cdk.protocol.catalog import AirbyteCatalog
from cdk.protocol.control import AirbyteControlMessage
from cdk.protocol.model import WireModel
from cdk.protocol.spec import AirbyteConnectionStatus, ConnectorSpecification
from cdk.protocol.state import AirbyteStateMessage
from cdk.protocol.traces import AirbyteTraceMessage


class Type(StrEnum):
    """The kinds of messages; the field of the same name holds the content."""

    RECORD = "RECORD"
    STATE = "STATE"
    LOG = "LOG"
    SPEC = "SPEC"
    CONNECTION_STATUS = "CONNECTION_STATUS"
    CATALOG = "CATALOG"
    TRACE = "TRACE"
    CONTROL = "CONTROL"


class Level(StrEnum):
    """How serious a log line is."""

    FATAL = "FATAL"
    ERROR = "ERROR"
    WARN = "WARN"
    INFO = "INFO"
    DEBUG = "DEBUG"
    TRACE = "TRACE"


class AirbyteLogMessage(WireModel):
    """A line of the log."""

    level: Level
    message: str
    stack_trace: str | None = None


class AirbyteRecordMessageMetaChange(WireModel):
    """What was done to a field that did not fit, and why (`SOURCE_SERIALIZATION_ERROR` and the like)."""

    field: str
    change: Literal["NULLED", "TRUNCATED"]
    reason: str


class AirbyteRecordMessageMeta(WireModel):
    """What happened to a record on its way."""

    changes: list[AirbyteRecordMessageMetaChange] | None = None


class AirbyteRecordMessage(WireModel):
    """One record. `emitted_at` is in milliseconds since 1970. A read writes pages of these with `record_lines`."""

    stream: str
    data: JsonObject
    emitted_at: int
    namespace: str | None = None
    meta: AirbyteRecordMessageMeta | None = None


class AirbyteMessage(WireModel):
    """A line on the wire: its `type` says which of the other fields is set."""

    type: Type
    log: AirbyteLogMessage | None = None
    spec: ConnectorSpecification | None = None
    connection_status: AirbyteConnectionStatus | None = Field(default=None, alias="connectionStatus")
    catalog: AirbyteCatalog | None = None
    record: AirbyteRecordMessage | None = None
    state: AirbyteStateMessage | None = None
    trace: AirbyteTraceMessage | None = None
    control: AirbyteControlMessage | None = None
