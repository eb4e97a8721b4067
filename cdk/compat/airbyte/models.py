"""Protocol types and exceptions that custom components use, in addition to the messages of `cdk.protocol`."""

import os
from collections.abc import Iterator
from enum import Enum, StrEnum
from functools import cache

from cdk.base.errors import CdkError
from cdk.protocol.messages import CheckStatus

Status = CheckStatus


class SyncMode(Enum):
    """How a stream is read."""

    full_refresh = "full_refresh"
    incremental = "incremental"


class FailureType(StrEnum):
    """The cause of an error: the system, the config, or a condition that passes."""

    system_error = "system_error"
    config_error = "config_error"
    transient_error = "transient_error"


class AirbyteTracedException(CdkError):
    """An error that ends the stream, with a user-facing message and a failure type."""

    def __init__(
        self,
        internal_message: str | None = None,
        message: str | None = None,
        failure_type: FailureType = FailureType.system_error,
        exception: BaseException | None = None,
        stream_descriptor: object = None,
    ) -> None:
        super().__init__(message or internal_message or "a custom component failed", detail=internal_message or "")
        self.internal_message, self._exception, self._descriptor = internal_message, exception, stream_descriptor
        self.failure_type = failure_type  # type: ignore[misc, assignment] # an attribute of this error, equal to one of them

    @classmethod
    def from_exception(
        cls,
        exc: Exception,
        message: str | None = None,
        failure_type: FailureType = FailureType.system_error,
        *,
        stream_descriptor: object = None,
        **_: object,
    ) -> "AirbyteTracedException":
        """Wrap an exception, which becomes the cause; an AirbyteTracedException is returned as it is."""
        if isinstance(exc, AirbyteTracedException):
            return exc
        return cls(str(exc), message, failure_type, exc, stream_descriptor)


def traced(error: CdkError) -> CdkError:
    """Return an error of the kit in a form that custom code can also catch as an AirbyteTracedException."""
    if isinstance(error, AirbyteTracedException):
        return error
    kind = _traced_kind(type(error))  # type: ignore[arg-type] # classes are hashable
    other = kind.__new__(kind, *error.args)
    vars(other).update(vars(error))
    vars(other).update(internal_message=error.detail or error.message, failure_type=FailureType(error.failure_type))
    return other


@cache
def _traced_kind(kind: type[CdkError]) -> type[CdkError]:
    """A subclass of both AirbyteTracedException and `kind`."""
    return type(kind.__name__, (AirbyteTracedException, kind), {"__module__": kind.__module__})


def is_cloud_environment() -> bool:
    """Whether the environment variable DEPLOYMENT_MODE says that this is Airbyte's cloud."""
    return os.environ.get("DEPLOYMENT_MODE", "").lower() == "cloud"


class DefaultBackoffException(CdkError):
    """Raised by custom code to retry a request after the usual backoff."""

    failure_type = "transient_error"

    def __init__(self, request: object = None, response: object = None, error_message: str = "", *_: object) -> None:
        super().__init__(error_message or "a custom component requests a retry")
        self.request, self.response = request, response


class UserDefinedBackoffException(DefaultBackoffException):
    """Raised by custom code to retry a request after `backoff` seconds."""

    def __init__(
        self, backoff: float, request: object = None, response: object = None, error_message: str = ""
    ) -> None:
        super().__init__(request, response, error_message)
        self.backoff = backoff


class RequestBodyException(Exception):
    """A request has both a form body and a JSON body."""


class MessageRepository:
    """Receives the messages of custom code, and discards them."""

    def emit_message(self, message: object) -> None: ...

    def log_message(self, level: object, message_provider: object) -> None:
        """Accept a log message."""

    def consume_queue(self) -> Iterator[object]:
        return iter(())


class InMemoryMessageRepository(MessageRepository):
    """A message repository whose constructor accepts any arguments."""

    def __init__(self, *_: object, **__: object) -> None: ...


class NoopMessageRepository(MessageRepository):
    """A message repository without effect, as all of them are here."""
