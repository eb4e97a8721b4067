"""What is said of an error: its words, and the line of the connector that led to it."""

from typing import Any

import pytest

from cdk.engine import read as read_module
from cdk.rest.http.messages import Headers
from cdk.sync.tasks.messages import Failure


def failure(raise_it: object) -> str:
    assert callable(raise_it)
    try:
        raise_it()
    except Exception as error:  # noqa: BLE001 - whatever the connector raises
        return Failure.of(error).message
    raise AssertionError


def test_an_error_names_the_last_line_of_the_connector_before_the_kit() -> None:
    def connector() -> None:
        Headers(7)  # type: ignore[arg-type]

    line = connector.__code__.co_firstlineno + 1

    assert failure(connector).endswith(f"({__file__}:{line}, in connector)")


def test_a_line_of_the_kit_is_not_taken_for_one_of_the_connector() -> None:
    # As in a task, where the first line of a traceback is one of the kit.
    kit: dict[str, Any] = {}
    exec(compile("def read(connector):\n    connector()", read_module.__file__, "exec"), kit)  # noqa: S102 - made here

    def connector() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError) as raised:
        kit["read"](connector)
    error = raised.value
    assert error.__traceback__ is not None
    message = Failure.of(error.with_traceback(error.__traceback__.tb_next)).message

    assert message.endswith(f"({__file__}:{connector.__code__.co_firstlineno + 1}, in connector)")
