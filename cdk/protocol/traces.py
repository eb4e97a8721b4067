"""Trace messages: what happens to streams, apart from their records."""

from enum import StrEnum

from cdk.protocol.catalog import StreamDescriptor
from cdk.protocol.model import WireModel


class TraceType(StrEnum):
    """What a trace speaks about."""

    ERROR = "ERROR"
    ESTIMATE = "ESTIMATE"
    STREAM_STATUS = "STREAM_STATUS"
    ANALYTICS = "ANALYTICS"


class FailureType(StrEnum):
    """Who can help: a person, time, or the makers."""

    SYSTEM_ERROR = "system_error"
    CONFIG_ERROR = "config_error"
    TRANSIENT_ERROR = "transient_error"


class AirbyteErrorTraceMessage(WireModel):
    """What went wrong: `message` for people, the rest for logs."""

    message: str
    internal_message: str | None = None
    stack_trace: str | None = None
    failure_type: FailureType | None = None
    stream_descriptor: StreamDescriptor | None = None


class AirbyteStreamStatus(StrEnum):
    """Where a stream is in this sync. RUNNING comes with its first record."""

    STARTED = "STARTED"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    INCOMPLETE = "INCOMPLETE"


class AirbyteStreamStatusReasonType(StrEnum):
    """Why a stream stands still."""

    RATE_LIMITED = "RATE_LIMITED"


class AirbyteStreamStatusRateLimitedReason(WireModel):
    """quota_reset: when the source answers again, in milliseconds since 1970."""

    quota_reset: int | None = None


class AirbyteStreamStatusReason(WireModel):
    """A reason beside a status."""

    type: AirbyteStreamStatusReasonType
    rate_limited: AirbyteStreamStatusRateLimitedReason | None = None


class AirbyteStreamStatusTraceMessage(WireModel):
    """The status of one stream."""

    stream_descriptor: StreamDescriptor
    status: AirbyteStreamStatus
    reasons: list[AirbyteStreamStatusReason] | None = None


class EstimateType(StrEnum):
    """What an estimate is of."""

    STREAM = "STREAM"
    SYNC = "SYNC"


class AirbyteEstimateTraceMessage(WireModel):
    """How much there is to read, in rows and bytes, as far as it is known."""

    name: str
    type: EstimateType
    namespace: str | None = None
    row_estimate: int | None = None
    byte_estimate: int | None = None


class AirbyteAnalyticsTraceMessage(WireModel):
    """A figure for the platform's statistics."""

    type: str
    value: str | None = None


class AirbyteTraceMessage(WireModel):
    """Exactly one of the four kinds. `emitted_at` is in milliseconds since 1970."""

    type: TraceType
    emitted_at: float
    error: AirbyteErrorTraceMessage | None = None
    estimate: AirbyteEstimateTraceMessage | None = None
    stream_status: AirbyteStreamStatusTraceMessage | None = None
    analytics: AirbyteAnalyticsTraceMessage | None = None
