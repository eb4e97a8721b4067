"""A connector that fails of a refusal in a thread of its own says so."""

import pytest

from cdk import ConfigError
from cdk.base.process.unseen_refusals import ExplainedRefusals, note_unseen


def fail(error: Exception) -> None:
    with ExplainedRefusals():
        note_unseen(ConfigError("no request may go to a.com"))
        raise error


def test_an_error_after_an_unseen_refusal_says_both() -> None:
    line = fail.__code__.co_firstlineno + 3
    with pytest.raises(ConfigError) as raised:
        fail(IndexError("list index out of range"))

    assert str(raised.value) == (
        "no request may go to a.com; this was tried in a thread of the connector, which then failed: IndexError: list "
        f"index out of range ({__file__}:{line}, in fail)"
    )
    assert isinstance(raised.value.__cause__, IndexError)


def test_the_refusal_itself_and_errors_without_one_stay_as_they_are() -> None:
    refusal, other = ConfigError("no request may go to a.com"), IndexError("x")
    with pytest.raises(ConfigError) as raised:
        fail(refusal)
    assert raised.value is refusal

    with pytest.raises(IndexError) as kept_error, ExplainedRefusals():
        raise other
    assert kept_error.value is other
