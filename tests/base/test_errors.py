"""Errors are sorted by what to do next, and say where."""

import inspect

import pytest

from cdk.base import errors
from cdk.base.errors import BadState, CdkError, ConfigError, Forbidden, RateLimited, StateError, TransientError

CLASSES = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, CdkError)]


def test_the_docstring_draws_every_error_under_its_parent() -> None:
    above: dict[int, str] = {}
    drawn: dict[str, str] = {}
    for line in (errors.__doc__ or "").splitlines():
        name = line.lstrip(" |+-").split(" ")[0]
        if line.startswith("    ") and name.isidentifier():
            drawn[name] = above.get(line.index(name) - 4, above.get(line.index(name) - 3, "Exception"))
            above[line.index(name)] = name

    assert drawn == {cls.__name__: cls.__bases__[0].__name__ for cls in CLASSES}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: str(cls.__name__))
def test_the_failure_type_follows_from_the_branch(cls: type[CdkError]) -> None:
    if issubclass(cls, ConfigError | StateError | Forbidden):
        expected = "config_error"
    else:
        expected = "transient_error" if issubclass(cls, TransientError) else "system_error"

    assert cls.failure_type == expected


def test_a_message_begins_with_its_place_where_there_is_one() -> None:
    assert str(ConfigError("no such field", path="config.yaml:3")) == "config.yaml:3: no such field"
    assert str(ConfigError("no such field")) == "no such field"


def test_a_bad_state_says_what_was_found_but_not_all_of_a_large_one() -> None:
    error = BadState("state.states", "x" * 5000, "a list")

    assert str(error).startswith("state.states: found 'xxx")
    assert str(error).endswith("…, expected a list")
    assert len(str(error)) < 200


def test_how_long_a_source_asked_to_wait_travels_with_the_error() -> None:
    assert RateLimited("slow down", wait=3.5, stream="users").wait == 3.5
