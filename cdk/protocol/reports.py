"""Protocol lines that report the progress of a run: stream statuses, errors, log messages."""

import traceback
from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias

from cdk.base.errors import CdkError
from cdk.base.process.connector_line import error_with_line
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
"""Masks the secrets in a text; `str` masks nothing."""


def milliseconds(at: datetime) -> int:
    """Return milliseconds since 1970, the unit of `emitted_at`."""
    return int(at.timestamp() * 1000)


def failure_type(error: BaseException) -> FailureType:
    """Return the failure type of an error: its own for a CdkError, transient for a broken connection, else system."""
    match error:
        case CdkError():
            return FailureType(error.failure_type)
        case ConnectionError() | TimeoutError():
            return FailureType.TRANSIENT_ERROR
        case _:
            return FailureType.SYSTEM_ERROR


def error_text(error: BaseException) -> str:
    """Return the message for users: a CdkError's own, any other error's with its class and the connector's line."""
    match error:
        case CdkError():
            return str(error)
        case _:
            return error_with_line(error)


def status_line(
    stream: StreamDescriptor, status: AirbyteStreamStatus, at: datetime, *, limited_until: datetime | None = None
) -> bytes:
    """Return the line with the status of a stream. at: now. limited_until: until when a rate limit makes it wait."""
    limited = None
    if limited_until is not None:
        reset = AirbyteStreamStatusRateLimitedReason(quota_reset=milliseconds(limited_until))
        limited = [AirbyteStreamStatusReason(type=AirbyteStreamStatusReasonType.RATE_LIMITED, rate_limited=reset)]
    trace = AirbyteTraceMessage(
        type=TraceType.STREAM_STATUS,
        emitted_at=float(milliseconds(at)),
        stream_status=AirbyteStreamStatusTraceMessage(stream_descriptor=stream, status=status, reasons=limited),
    )
    return message_line(AirbyteMessage(type=Type.TRACE, trace=trace))


def error_line(
    error: BaseException, at: datetime, *, mask: Mask = str, stream: StreamDescriptor | None = None
) -> bytes:
    """Return the line of an error with its stack trace. at: now. stream: the failed one. mask: applied to all texts."""
    detail = error.detail if isinstance(error, CdkError) and error.detail else repr(error)
    trace = AirbyteTraceMessage(
        type=TraceType.ERROR,
        emitted_at=float(milliseconds(at)),
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
    """Return the line of a log message. mask: applied to the text and the stack trace."""
    log = AirbyteLogMessage(level=level, message=mask(text), stack_trace=mask(stack_trace) if stack_trace else None)
    return message_line(AirbyteMessage(type=Type.LOG, log=log))
