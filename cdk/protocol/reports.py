"""Lines of the protocol that report what happens: statuses, errors, log lines."""

import traceback
from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias

from cdk.base.errors import CdkError
from cdk.base.process.connector_line import connector_line
from cdk.protocol.catalog import StreamDescriptor
from cdk.protocol.lines import message_line
from cdk.protocol.messages import AirbyteLogMessage, AirbyteMessage, Level, Type
from cdk.protocol.traces import (
    AirbyteErrorTraceMessage,
    AirbyteStreamStatus,
    AirbyteStreamStatusRateLimitedReason,
    AirbyteStreamStatusReason,
    AirbyteStreamStatusReasonType,
    AirbyteStreamStatusTraceMessage,
    AirbyteTraceMessage,
    FailureType,
    TraceType,
)

Mask: TypeAlias = Callable[[str], str]
"""Hides secrets in a text; `str` hides none."""


def milliseconds(at: datetime) -> int:
    """Milliseconds since 1970, as `emitted_at` counts them."""
    return int(at.timestamp() * 1000)


def failure_type(error: BaseException) -> FailureType:
    """Who can help: as the error says; nobody where a connection broke, it may heal; whoever wrote the code else."""
    match error:
        case CdkError():
            return FailureType(error.failure_type)
        case ConnectionError() | TimeoutError():
            return FailureType.TRANSIENT_ERROR
        case _:
            return FailureType.SYSTEM_ERROR


def error_text(error: BaseException) -> str:
    """What people read of an error: its own words if it is one of the kit's, else its kind and its words."""
    match error:
        case CdkError():
            return str(error)
        case _:
            return f"{type(error).__name__}: {error}".removesuffix(": ") + connector_line(error)


def status_line(
    stream: StreamDescriptor, status: AirbyteStreamStatus, at: datetime, *, limited_until: datetime | None = None
) -> bytes:
    """The line with the status of a stream. at: now. limited_until: it waits until then, because the API limits it."""
    limited = None
    if limited_until is not None:
        reset = AirbyteStreamStatusRateLimitedReason(quota_reset=milliseconds(limited_until))
        limited = [AirbyteStreamStatusReason(type=AirbyteStreamStatusReasonType.RATE_LIMITED, rate_limited=reset)]
    trace = AirbyteTraceMessage(
        type=TraceType.STREAM_STATUS,
        emitted_at=milliseconds(at),
        stream_status=AirbyteStreamStatusTraceMessage(stream_descriptor=stream, status=status, reasons=limited),
    )
    return message_line(AirbyteMessage(type=Type.TRACE, trace=trace))


def error_line(
    error: BaseException, at: datetime, *, mask: Mask = str, stream: StreamDescriptor | None = None
) -> bytes:
    """The line of an error, with its stack. at: now. stream: the one that failed. Secrets are masked in all of it."""
    detail = error.detail if isinstance(error, CdkError) and error.detail else repr(error)
    trace = AirbyteTraceMessage(
        type=TraceType.ERROR,
        emitted_at=milliseconds(at),
        error=AirbyteErrorTraceMessage(
            message=mask(error_text(error)),
            internal_message=mask(detail),
            stack_trace=mask("".join(traceback.format_exception(error))),
            failure_type=failure_type(error),
            stream_descriptor=stream,
        ),
    )
    return message_line(AirbyteMessage(type=Type.TRACE, trace=trace))


def log_line(level: Level, text: str, *, stack_trace: str | None = None, mask: Mask = str) -> bytes:
    """A line of the log. Secrets are masked."""
    log = AirbyteLogMessage(level=level, message=mask(text), stack_trace=mask(stack_trace) if stack_trace else None)
    return message_line(AirbyteMessage(type=Type.LOG, log=log))
