"""Checks of stream classes for mistakes of authors that would go unnoticed until rows are missing."""

import inspect
from collections.abc import Callable

from cdk.base.errors import ConfigError
from cdk.base.process.connector_line import defined_at
from cdk.base.wording import nearest

_KIT = f"{__name__.partition('.')[0]}."


def check_methods(cls: type) -> None:
    """Raise ConfigError if the class has a value in place of a method, or a method with an incompatible signature."""
    for name, value in vars(cls).items():
        if inspect.isfunction(value):
            _check_parameters(cls, name, value)
        if callable(value) or hasattr(type(value), "__get__"):
            continue
        if inspect.isfunction(getattr(super(cls, cls), name, None)):
            advice = "call it `schema`" if name == "json_schema" else f"write `def {name}(self, ...)` that returns it"
            raise ConfigError(
                f"{cls.__module__}.{cls.__qualname__}.{name} is a {type(value).__name__}, expected a method; {advice}"
            )


def _check_parameters(cls: type, name: str, method: Callable[..., object]) -> None:
    """Raise ConfigError if the method overrides one of the kit's and cannot be called like it."""
    inherited = (
        vars(base)[name] for base in cls.__mro__[1:] if name in vars(base) and base.__module__.startswith(_KIT)
    )
    overridden = next(inherited, None)
    if name.startswith("_") or not inspect.isfunction(overridden):
        return
    expected = inspect.signature(overridden)
    needed = [each for each in expected.parameters.values() if each.default is inspect.Parameter.empty]
    positional = [each for each in needed if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    try:
        inspect.signature(method, follow_wrapped=False).bind(*positional)
    except TypeError as error:
        written = ", ".join(each.name for each in positional)
        raise ConfigError(
            f"{cls.__module__}.{cls.__qualname__}.{name} cannot be called as the kit calls it ({error}); write "
            f"`def {name}({written})`{defined_at(method)}"
        ) from None


_NEAR = 0.85
"""The similarity, from 0 to 1, from which two names count as one: `primry_key` and `primary_key` have 0.95."""


_ELSEWHERE = {
    "parse_response": "parse",
    "request_params": "params",
    "request_headers": "headers",
    "request_body_json": "body_json",
    "next_page_token": "paginator",
    "stream_slices": "partitions",
    "get_updated_state": "cursor",
    "get_json_schema": "json_schema",
}
"""Names of airbyte-cdk, and what they are called here."""
_READING = {"read_records", "read_page", "request", "parse"}


def check_names(cls: type) -> None:
    """Raise ConfigError if a public name of the class looks like a typo of an inherited one that it does not override.

    This is an error because a misspelt attribute is never used: the stream would read without its key or parameters. It
    is easy to avoid: names that begin with `_` are the author's own. If one name begins with the other, both are words
    (`schemas`, `header`, `parsed`), and only methods with equal parameters count as typos. Names of other kits' methods
    count, too, unless the class overrides the reading itself and may call anything.
    """
    inherited = {name: name for base in cls.__mro__[1:] for name in vars(base) if not name.startswith("_")}
    known = {**inherited, **{other: name for other, name in _ELSEWHERE.items() if name in inherited}}
    missing = {other: name for other, name in known.items() if name not in vars(cls)}
    for name, value in vars(cls).items():
        if name.startswith("_") or name in inherited or (near := nearest(name, missing, _NEAR)) is None:
            continue
        if near not in inherited and not _READING.isdisjoint(vars(cls)):
            continue
        if (name.startswith(near) or near.startswith(name)) and not _alike(value, getattr(cls, near, None)):
            continue
        raise ConfigError(
            f"{cls.__module__}.{cls.__qualname__}.{name} is not a name that the kit uses; did you mean "
            f"{missing[near]!r}? Rename it to that, or to `_{name}` if it is your own"
        )


def _alike(first: object, second: object) -> bool:
    """Whether two class attributes are methods with the same parameters."""
    if not (inspect.isfunction(first) and inspect.isfunction(second)):
        return False
    return list(inspect.signature(first).parameters) == list(inspect.signature(second).parameters)
