"""What `spec` and `check` answer: the config a source takes, and whether one works."""

from enum import StrEnum

from pydantic import Field

from cdk.base.values import JsonObject
from cdk.protocol.catalog import DestinationSyncMode
from cdk.protocol.model import WireModel


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
