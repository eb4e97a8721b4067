"""Which line of a connector an error comes from."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from cdk.base.process.connector_line import calling_line, connector_line, defined_at
from cdk.engine import read as read_module
from cdk.rest.http.messages import Headers


def test_an_error_names_the_last_line_of_the_connector_before_the_kit() -> None:
    def connector() -> None:
        Headers(7)  # type: ignore[arg-type]

    with pytest.raises(Exception, match="int") as raised:
        connector()

    line = connector.__code__.co_firstlineno + 1
    assert connector_line(raised.value) == f" ({__file__}:{line}, in connector)"


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
    line = connector_line(error.with_traceback(error.__traceback__.tb_next))

    assert line == f" ({__file__}:{connector.__code__.co_firstlineno + 1}, in connector)"


def test_what_no_connector_has_raised_names_no_line() -> None:
    assert connector_line(ValueError("made, and raised by nobody")) == ""
    assert connector_line(KeyboardInterrupt()) == ""


def test_the_first_method_that_a_connector_has_is_where_it_is_defined() -> None:
    def own() -> None:
        pass

    def further() -> None:
        pass

    line = own.__code__.co_firstlineno
    assert defined_at(None, Headers.get, own, further) == f" ({__file__}:{line})"
    assert defined_at(Headers.get, str.upper, None) == ""


def of(file: str, text: str, **names: object) -> Callable[[], str]:
    """A function `run` whose code is that of a file."""
    code: dict[str, Any] = dict(names)
    exec(compile(text, file, "exec"), code)  # noqa: S102 - made here
    return code["run"]  # type: ignore[no-any-return] # what the text defines


def current_line() -> str:
    return calling_line(sys._getframe(1))


LIBRARY = "/opt/lib/python3/site-packages/client/api.py"


def test_a_line_that_runs_is_the_last_one_that_is_of_no_package() -> None:
    library = of(LIBRARY, "def run():\n    return line()", line=current_line)
    connector = of("/srv/shop.py", "def run():\n\n    return library()", library=library)
    kit = of(read_module.__file__, "def run():\n    return connector()", connector=connector)

    assert kit() == " (/srv/shop.py:3, in run)"


def test_of_a_connector_that_is_a_package_it_is_the_one_that_the_kit_leads_to() -> None:
    library = of(LIBRARY, "def run():\n    return line()", line=current_line)
    connector = of("/opt/lib/python3/site-packages/shop.py", "def run():\n    return library()", library=library)
    kit = of(read_module.__file__, "def run():\n    return connector()", connector=connector)

    assert kit() == " (/opt/lib/python3/site-packages/shop.py:2, in run)"
