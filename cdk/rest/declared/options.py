"""The options of a resource and of a RestSource: what their values have to be, and that unknown ones are refused."""

from collections.abc import Iterator, Mapping
from functools import wraps
from inspect import signature
from typing import TypeVar

from msgspec.structs import replace

from cdk.base.errors import ConfigError
from cdk.base.wording import did_you_mean
from cdk.rest.expected_values import AUTHENTICATOR, RESOURCE_ATTRIBUTES, URL_BASE, is_url, url_shown
from cdk.streams.cursor import Cursor
from cdk.streams.written_class import CURSOR, STREAM_ATTRIBUTES, Expected, kind_shown, object_of

T = TypeVar("T", bound=type)

_STRING = Expected(lambda value: isinstance(value, str), "a string")
_MAPPING = Expected(lambda value: isinstance(value, Mapping), "names with values: `{'state': 'open'}`", kind_shown)
_CURSOR = Expected(
    lambda value: object_of(Cursor)(value) or (callable(value) and not isinstance(value, type)),
    f"{CURSOR}, or a function of the config that returns one",
)
_OPTIONS: Mapping[str, Expected] = {
    **STREAM_ATTRIBUTES,
    **RESOURCE_ATTRIBUTES,
    "name": _STRING,
    "path": _STRING,
    "params": _MAPPING,
    "headers": _MAPPING,
    "cursor": _CURSOR,
    "record_filter": _MAPPING,
    "add_fields": _MAPPING,
    "follows_parent": Expected(lambda value: isinstance(value, bool), "True or False"),
    # It may begin with a value of the config.
    "url": replace(URL_BASE, fits=lambda value: value == "" or is_url(value) or str(value).startswith("{")),
    "auth": AUTHENTICATOR,
    "config": Expected(lambda value: isinstance(value, Mapping), "names with schemas: `{'size': {'type': 'integer'}}`"),
}


def option_problems(options: Mapping[str, object]) -> Iterator[str]:
    """Yield, for each option whose value does not fit, what it is and has to be. options: those that are set."""
    for name, value in options.items():
        if name in _OPTIONS and (problem := _OPTIONS[name].problem(value)):
            yield f"{name}: {problem}"


def check_cursor(name: str, cursor: object) -> None:
    """Raise ConfigError if the function that a resource has for its cursor returned something else."""
    if problem := Expected(object_of(Cursor), CURSOR).problem(cursor):
        raise ConfigError(f"{name}: cursor: the function returned something else: {problem}")


def with_known_options(kind: T) -> T:
    """Decorate a class so that unknown arguments of its constructor raise a ConfigError, which suggests the nearest."""
    create = kind.__init__  # type: ignore[misc] # its own, as it was written
    _, *parameters = signature(create).parameters.values()
    known = [each.name for each in parameters if each.kind is not each.VAR_POSITIONAL]

    @wraps(create)
    def checked(self: object, *args: object, **options: object) -> None:
        for name in options:
            if name not in known:
                first = f"{url_shown(args[0])}, " if args else ""
                why = f"{kind.__name__}({first}{name}=...): there is no such option{did_you_mean(name, known)}"
                raise ConfigError(why)
        create(self, *args, **options)

    kind.__init__ = checked  # type: ignore[misc] # it has the same signature
    return kind
