"""The envelope, AirbyteMessage, of which every line on the wire is one, and its contents except catalogs and traces."""

from enum import StrEnum
from typing import Literal

from msgspec import field

from cdk.base.values import JsonObject, JsonValue
from cdk.protocol.catalog import AirbyteCatalog, DestinationSyncMode, StreamDescriptor
from cdk.protocol.model import WireModel
from cdk.protocol.traces import AirbyteTraceMessage


class AirbyteStateType(StrEnum):
    """What a state message covers: one stream, all streams at once, or the legacy map of streams."""

    STREAM = "STREAM"
    GLOBAL = "GLOBAL"
    LEGACY = "LEGACY"


class AirbyteStreamState(WireModel, frozen=True):
    """The state of one stream: any JSON object; its nulls are preserved."""

    stream_descriptor: StreamDescriptor
    stream_state: JsonValue = None


class AirbyteGlobalState(WireModel, frozen=True):
    """The states of all streams at once, and a state that they share."""

    stream_states: list[AirbyteStreamState]
    shared_state: JsonValue = None


class AirbyteStateStats(WireModel, frozen=True):
    """The number of records that this state covers and the previous state did not."""

    record_count: float | None = field(default=None, name="recordCount")


class AirbyteStateMessage(WireModel, frozen=True):
    """A state: exactly one of `stream`, `global_` or the legacy `data`, a map from stream name to state.

    `type` may be missing in a state that the kit reads; a state that the kit writes always has it.
    """

    type: AirbyteStateType | None = None
    stream: AirbyteStreamState | None = None
    global_: AirbyteGlobalState | None = field(default=None, name="global")
    data: JsonObject | None = None
    source_stats: AirbyteStateStats | None = field(default=None, name="sourceStats")
    destination_stats: AirbyteStateStats | None = field(default=None, name="destinationStats")


class AuthFlowType(StrEnum):
    """The OAuth version with which the platform obtains a user's credentials."""

    OAUTH2_0 = "oauth2.0"
    OAUTH1_0 = "oauth1.0"


class OAuthSpecification(WireModel, frozen=True):
    """The JSON Schemas and URLs of an OAuth flow, as the platform defines them."""

    oauth_user_input_from_connector_config_specification: JsonObject | None = None
    oauth_connector_input_specification: JsonObject | None = None
    complete_oauth_output_specification: JsonObject | None = None
    complete_oauth_server_input_specification: JsonObject | None = None
    complete_oauth_server_output_specification: JsonObject | None = None


class AdvancedAuth(WireModel, frozen=True):
    """How the platform fills credentials into a config.

    predicate_key, predicate_value: the path in the config, and the value there, that select this flow.
    """

    auth_flow_type: AuthFlowType | None = None
    predicate_key: list[str] | None = None
    predicate_value: str | None = None
    oauth_config_specification: OAuthSpecification | None = None


class ConnectorSpecification(WireModel, frozen=True):
    """The config that a source accepts, as a JSON Schema in which `airbyte_secret: true` marks secrets."""

    connection_specification: JsonObject = field(name="connectionSpecification")
    documentation_url: str | None = field(default=None, name="documentationUrl")
    changelog_url: str | None = field(default=None, name="changelogUrl")
    supports_incremental: bool | None = field(default=None, name="supportsIncremental")
    supports_normalization: bool = field(default_factory=lambda: False, name="supportsNormalization")
    supports_dbt: bool = field(default_factory=lambda: False, name="supportsDBT")
    supported_destination_sync_modes: list[DestinationSyncMode] | None = None
    advanced_auth: AdvancedAuth | None = None
    protocol_version: str | None = None


class CheckStatus(StrEnum):
    """Whether a source can be read with a given config."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class AirbyteConnectionStatus(WireModel, frozen=True):
    """The result of `check`. `message` says how to fix a failure."""

    status: CheckStatus
    message: str | None = None


class OrchestratorType(StrEnum):
    """What a control message asks the platform to do."""

    CONNECTOR_CONFIG = "CONNECTOR_CONFIG"


class AirbyteControlConnectorConfigMessage(WireModel, frozen=True):
    """A config that changed during the run, for the platform to save: for example, with a rotated refresh token."""

    config: JsonObject


class AirbyteControlMessage(WireModel, frozen=True):
    """A request to the platform. `emitted_at` is in milliseconds since 1970."""

    type: OrchestratorType
    emitted_at: float
    connector_config: AirbyteControlConnectorConfigMessage | None = field(default=None, name="connectorConfig")


class Type(StrEnum):
    """The kinds of messages. The field of the same name in AirbyteMessage holds the content."""

    RECORD = "RECORD"
    STATE = "STATE"
    LOG = "LOG"
    SPEC = "SPEC"
    CONNECTION_STATUS = "CONNECTION_STATUS"
    CATALOG = "CATALOG"
    TRACE = "TRACE"
    CONTROL = "CONTROL"


class Level(StrEnum):
    """The severity of a log message."""

    FATAL = "FATAL"
    ERROR = "ERROR"
    WARN = "WARN"
    INFO = "INFO"
    DEBUG = "DEBUG"
    TRACE = "TRACE"


class AirbyteLogMessage(WireModel, frozen=True):
    """A log message. `stack_trace` belongs to the error that it reports, if any."""

    level: Level
    message: str
    stack_trace: str | None = None


class AirbyteRecordMessageMetaChange(WireModel, frozen=True):
    """How a field whose value did not fit was changed, and why (for example `SOURCE_SERIALIZATION_ERROR`)."""

    field: str
    change: Literal["NULLED", "TRUNCATED"]
    reason: str


class AirbyteRecordMessageMeta(WireModel, frozen=True):
    """The changes that were made to a record before it was emitted."""

    changes: list[AirbyteRecordMessageMetaChange] | None = None


class AirbyteRecordMessage(WireModel, frozen=True):
    """One record. `emitted_at` is in milliseconds since 1970. `record_lines` writes a whole page of these at once."""

    stream: str
    data: JsonObject
    emitted_at: int
    namespace: str | None = None
    meta: AirbyteRecordMessageMeta | None = None


class AirbyteMessage(WireModel, frozen=True):
    """A line on the wire. `type` says which of the other fields is set."""

    type: Type
    log: AirbyteLogMessage | None = None
    spec: ConnectorSpecification | None = None
    connection_status: AirbyteConnectionStatus | None = field(default=None, name="connectionStatus")
    catalog: AirbyteCatalog | None = None
    record: AirbyteRecordMessage | None = None
    state: AirbyteStateMessage | None = None
    trace: AirbyteTraceMessage | None = None
    control: AirbyteControlMessage | None = None
