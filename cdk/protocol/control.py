"""Control messages: what a source asks of the platform."""

from enum import StrEnum

from pydantic import Field

from cdk.base.values import JsonObject
from cdk.protocol.model import WireModel


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
