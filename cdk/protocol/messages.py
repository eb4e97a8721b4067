"""The envelope: every line on the wire is one AirbyteMessage; and what goes into it but catalogs and traces."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from cdk.base.values import JsonObject, JsonValue
from cdk.protocol.catalog import AirbyteCatalog, DestinationSyncMode, StreamDescriptor
from cdk.protocol.model import WireModel
from cdk.protocol.traces import AirbyteTraceMessage


class AirbyteStateType(StrEnum):
    """What a state message speaks about."""

    STREAM = "STREAM"
    GLOBAL = "GLOBAL"
    LEGACY = "LEGACY"


class AirbyteStreamState(WireModel):
    """The state of one stream: any JSON object, in which nulls are kept."""

    stream_descriptor: StreamDescriptor
    stream_state: JsonValue = None


class AirbyteGlobalState(WireModel):
    """The states of all streams at once, beside one they share."""

    stream_states: list[AirbyteStreamState]
    shared_state: JsonValue = None


class AirbyteStateStats(WireModel):
    """How many records this state covers that the state before it did not."""

    record_count: float | None = Field(default=None, alias="recordCount")


class AirbyteStateMessage(WireModel):
    """One of `stream`, `global_` or the legacy `data`, a map from stream name to state.

    `type` may be missing in a state that is read; one that is written has it.
    """

    type: AirbyteStateType | None = None
    stream: AirbyteStreamState | None = None
    global_: AirbyteGlobalState | None = Field(default=None, alias="global")
    data: JsonObject | None = None
    source_stats: AirbyteStateStats | None = Field(default=None, alias="sourceStats")
    destination_stats: AirbyteStateStats | None = Field(default=None, alias="destinationStats")


class AuthFlowType(StrEnum):
    """How the platform obtains credentials for a person."""

    OAUTH2_0 = "oauth2.0"
    OAUTH1_0 = "oauth1.0"


class AdvancedAuth(WireModel):
    """How the platform fills credentials into a config.

    predicate_key, predicate_value: where and with what value the config asks for this flow.
    oauth_config_specification: the JSON Schemas and addresses of the flow, as the platform defines them.
    """

    auth_flow_type: AuthFlowType | None = None
    predicate_key: list[str] | None = None
    predicate_value: str | None = None
    oauth_config_specification: JsonObject | None = None


class ConnectorSpecification(WireModel):
    """The config a source takes, as a JSON Schema in which `airbyte_secret: true` marks secrets."""

    connection_specification: JsonObject = Field(alias="connectionSpecification")
    documentation_url: str | None = Field(default=None, alias="documentationUrl")
    changelog_url: str | None = Field(default=None, alias="changelogUrl")
    supports_incremental: bool | None = Field(default=None, alias="supportsIncremental")
    supports_normalization: bool = Field(default=False, alias="supportsNormalization")
    supports_dbt: bool = Field(default=False, alias="supportsDBT")
    supported_destination_sync_modes: list[DestinationSyncMode] | None = None
    advanced_auth: AdvancedAuth | None = None
    protocol_version: str | None = None


class CheckStatus(StrEnum):
    """Whether a source can be read with a config."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class AirbyteConnectionStatus(WireModel):
    """The result of `check`; `message` says what to do about a failure."""

    status: CheckStatus
    message: str | None = None


class OrchestratorType(StrEnum):
    """What a control message asks of the platform."""

    CONNECTOR_CONFIG = "CONNECTOR_CONFIG"


class AirbyteControlConnectorConfigMessage(WireModel):
    """A config that changed during the run, to be kept: a rotated refresh token, for one."""

    config: JsonObject


class AirbyteControlMessage(WireModel):
    """A request to the platform. `emitted_at` is in milliseconds since 1970."""

    type: OrchestratorType
    emitted_at: float
    connector_config: AirbyteControlConnectorConfigMessage | None = Field(default=None, alias="connectorConfig")


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
