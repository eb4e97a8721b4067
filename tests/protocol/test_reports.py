import json
from datetime import UTC, datetime

import pytest

from cdk.base.errors import CdkError, CredentialsError, RateLimited
from cdk.base.secret_masking import Secrets
from cdk.protocol.catalog import StreamDescriptor
from cdk.protocol.messages import Level
from cdk.protocol.reports import error_line, error_text, failure_type, log_line
from cdk.protocol.traces import FailureType

AT = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (CredentialsError("no"), FailureType.CONFIG_ERROR),
        (RateLimited("slow"), FailureType.TRANSIENT_ERROR),
        (CdkError("x"), FailureType.SYSTEM_ERROR),
        (ConnectionResetError("gone"), FailureType.TRANSIENT_ERROR),
        (TimeoutError(), FailureType.TRANSIENT_ERROR),
        (KeyError("id"), FailureType.SYSTEM_ERROR),
    ],
)
def test_the_failure_type_says_who_can_help(error: Exception, kind: FailureType) -> None:
    assert failure_type(error) is kind


def test_an_error_of_the_kit_speaks_for_itself_and_another_says_what_it_is() -> None:
    assert error_text(CdkError("bad", path="a.b")) == "a.b: bad"
    assert error_text(KeyError("id")) == "KeyError: 'id'"
    assert error_text(TimeoutError()) == "TimeoutError"


def test_secrets_are_hidden_in_every_part_of_an_error() -> None:
    mask = Secrets(["hunter2"]).mask
    try:
        raise CdkError("password hunter2 refused", detail="sent hunter2")  # noqa: TRY301
    except CdkError as error:
        line = error_line(error, AT, mask=mask, stream=StreamDescriptor(name="users"))

    said = json.loads(line)["trace"]["error"]
    assert b"hunter2" not in line
    assert said["message"] == "password **** refused"
    assert said["internal_message"] == "sent ****"
    assert "Traceback" in said["stack_trace"]
    assert said["stream_descriptor"] == {"name": "users"}


def test_secrets_are_hidden_in_the_log() -> None:
    line = log_line(Level.INFO, "token hunter2", stack_trace="at hunter2", mask=Secrets(["hunter2"]).mask)

    assert json.loads(line)["log"] == {"level": "INFO", "message": "token ****", "stack_trace": "at ****"}
