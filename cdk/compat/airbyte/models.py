"""Names of the protocol that custom components use, besides the messages of `cdk.protocol`."""

import os
from collections.abc import Iterator
from enum import Enum, StrEnum
from functools import cache

from cdk.base.errors import CdkError
from cdk.protocol import CheckStatus

Status = CheckStatus


class SyncMode(Enum):
    """How a stream is read."""

    full_refresh = "full_refresh"
    incremental = "incremental"


class FailureType(StrEnum):
    """Whose fault an error is."""

    system_error = "system_error"
    config_error = "config_error"
    transient_error = "transient_error"


class AirbyteTracedException(CdkError):
    """An error with a message for people; it ends the stream with that message and that failure type."""

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
        self.failure_type = failure_type  # type: ignore[misc, assignment] # of this error; it is one of those texts

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
        """The error for an exception, which is the cause; itself where it is one of these."""
        if isinstance(exc, AirbyteTracedException):
            return exc
        return cls(str(exc), message, failure_type, exc, stream_descriptor)


def traced(error: CdkError) -> CdkError:
    """An error of the kit that custom code may catch as an AirbyteTracedException, too."""
    if isinstance(error, AirbyteTracedException):
        return error
    kind = _traced_kind(type(error))  # type: ignore[arg-type] # a class has a hash
    other = kind.__new__(kind, *error.args)
    vars(other).update(vars(error))
    vars(other).update(internal_message=error.detail or error.message, failure_type=FailureType(error.failure_type))
    return other


@cache
def _traced_kind(kind: type[CdkError]) -> type[CdkError]:
    """The class of such an error: it is of both."""
    return type(kind.__name__, (AirbyteTracedException, kind), {"__module__": kind.__module__})


def is_cloud_environment() -> bool:
    """Whether the deployment says that it is Airbyte's cloud."""
    return os.environ.get("DEPLOYMENT_MODE", "").lower() == "cloud"


class DefaultBackoffException(CdkError):
    """Custom code asks for another attempt, after the usual wait."""

    failure_type = "transient_error"

    def __init__(self, request: object = None, response: object = None, error_message: str = "", *_: object) -> None:
        super().__init__(error_message or "a custom component asks to try again")
        self.request, self.response = request, response


class UserDefinedBackoffException(DefaultBackoffException):
    """Custom code asks for another attempt, after a wait of its own."""

    def __init__(
        self, backoff: float, request: object = None, response: object = None, error_message: str = ""
    ) -> None:
        super().__init__(request, response, error_message)
        self.backoff = backoff


class RequestBodyException(Exception):
    """A body is both a form and JSON."""


class MessageRepository:
    """Where custom code leaves messages. They are not passed on."""

    def emit_message(self, message: object) -> None: ...

    def log_message(self, level: object, message_provider: object) -> None:
        """Take a message for the log."""

    def consume_queue(self) -> Iterator[object]:
        return iter(())


class InMemoryMessageRepository(MessageRepository):
    """A message repository that takes any arguments."""

    def __init__(self, *_: object, **__: object) -> None: ...


class NoopMessageRepository(MessageRepository):
    """A message repository under the name of one without effect."""
