"""State messages: where a source has got to, as the platform keeps it between syncs."""

from enum import StrEnum

from pydantic import Field

from cdk.base.values import JsonObject, JsonValue
from cdk.protocol.catalog import StreamDescriptor
from cdk.protocol.model import WireModel


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
