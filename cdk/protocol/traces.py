"""Trace messages: errors, estimates, stream statuses and analytics."""

from enum import StrEnum

from cdk.protocol.catalog import StreamDescriptor
from cdk.protocol.model import WireModel


class TraceType(StrEnum):
    """The kind of a trace message."""

    ERROR = "ERROR"
    ESTIMATE = "ESTIMATE"
    STREAM_STATUS = "STREAM_STATUS"
    ANALYTICS = "ANALYTICS"


class FailureType(StrEnum):
    """Who or what can resolve a failure: the developers (system), the user (config), or time (transient)."""

    SYSTEM_ERROR = "system_error"
    CONFIG_ERROR = "config_error"
    TRANSIENT_ERROR = "transient_error"


class AirbyteErrorTraceMessage(WireModel, frozen=True):
    """An error: `message` is for users, the other fields are for logs."""

    message: str
    internal_message: str | None = None
    stack_trace: str | None = None
    failure_type: FailureType | None = None
    stream_descriptor: StreamDescriptor | None = None


class AirbyteStreamStatus(StrEnum):
    """The progress of a stream in this sync. RUNNING is emitted before its first record."""

    STARTED = "STARTED"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    INCOMPLETE = "INCOMPLETE"


class AirbyteStreamStatusReasonType(StrEnum):
    """Why a stream makes no progress."""

    RATE_LIMITED = "RATE_LIMITED"


class AirbyteStreamStatusRateLimitedReason(WireModel, frozen=True):
    """The end of a rate limit. quota_reset: when the source accepts requests again, in milliseconds since 1970."""

    quota_reset: int | None = None


class AirbyteStreamStatusReason(WireModel, frozen=True):
    """The reason for a stream's status, with its details."""

    type: AirbyteStreamStatusReasonType
    rate_limited: AirbyteStreamStatusRateLimitedReason | None = None


class AirbyteStreamStatusTraceMessage(WireModel, frozen=True):
    """The status of one stream, with reasons if it makes no progress."""

    stream_descriptor: StreamDescriptor
    status: AirbyteStreamStatus
    reasons: list[AirbyteStreamStatusReason] | None = None


class EstimateType(StrEnum):
    """Whether an estimate covers one stream or the whole sync."""

    STREAM = "STREAM"
    SYNC = "SYNC"


class AirbyteEstimateTraceMessage(WireModel, frozen=True):
    """An estimate of how much there is to read, in rows and bytes; None for what is unknown."""

    name: str
    type: EstimateType
    namespace: str | None = None
    row_estimate: int | None = None
    byte_estimate: int | None = None


class AirbyteAnalyticsTraceMessage(WireModel, frozen=True):
    """A value for the platform's usage statistics."""

    type: str
    value: str | None = None


class AirbyteTraceMessage(WireModel, frozen=True):
    """A trace: exactly one of the four kinds is set, as `type` says. `emitted_at` is in milliseconds since 1970."""

    type: TraceType
    emitted_at: float
    error: AirbyteErrorTraceMessage | None = None
    estimate: AirbyteEstimateTraceMessage | None = None
    stream_status: AirbyteStreamStatusTraceMessage | None = None
    analytics: AirbyteAnalyticsTraceMessage | None = None
