"""`${NAME}` in files that people write: values of the environment, which are secrets, as most of it is.

`${NAME:-text}` is the text where the variable is not set or empty, and `$${` is `${` itself. A file `.env` in the
folder of such a file says what the environment lacks.
"""

import os
import re
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from cdk.base.errors import ConfigError
from cdk.base.secret_masking import Secrets
from cdk.base.values import JsonValue, Keys

_VARIABLE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def environment(folder: Path) -> Mapping[str, str]:
    """The environment, and what a file `.env` in a folder says besides. Raises ConfigError: it cannot be read."""
    file = folder / ".env"
    if not file.is_file():
        return os.environ
    from dotenv import dotenv_values  # noqa: PLC0415 - most folders have no such file

    try:
        values = dotenv_values(file, interpolate=False)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", path=str(file)) from error
    return ChainMap(os.environ, {name: value for name, value in values.items() if value is not None})


def with_variables(value: JsonValue, environ: Mapping[str, str], where: Callable[[Keys], str]) -> JsonValue:
    """`value` with the environment's values in place of `${NAME}`s. Raises ConfigError naming all that are unset."""
    unset: list[str] = []

    def put_in(value: JsonValue, keys: Keys) -> JsonValue:
        match value:
            case dict():
                return {name: put_in(item, (*keys, name)) for name, item in value.items()}
            case list():
                return [put_in(item, (*keys, i)) for i, item in enumerate(value)]
            case str():
                return _VARIABLE.sub(lambda variable: value_of(variable, keys), value)
            case _:
                return value

    def value_of(variable: re.Match[str], keys: Keys) -> str:
        name, default = variable.groups()
        if name is None:
            return "${"
        text = environ.get(name)
        if default is not None:
            # What is not set may stand for itself, see `PartialEnvironment`.
            return default if text in (None, "", f"${{{name}}}") else text
        if text is None:
            unset.append(f"{where(keys)}: the environment variable {name} is not set; set it, or put the value there")
        return text or ""

    value = put_in(value, ())
    if unset:
        raise ConfigError("\n".join(unset))
    return value


class SecretEnvironment(Mapping[str, str]):
    """The environment; what a file takes from it is a secret, as most of it is."""

    def __init__(self, environ: Mapping[str, str], secrets: Secrets) -> None:
        self._environ, self._secrets = environ, secrets

    def __getitem__(self, name: str) -> str:
        value = self._environ[name]
        self._secrets.add(value)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._environ)

    def __len__(self) -> int:
        return len(self._environ)


class PartialEnvironment(Mapping[str, str]):
    """The environment; what is not set stays as it is written, for commands that need no secrets."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def __contains__(self, name: object) -> bool:
        return True

    def __getitem__(self, name: str) -> str:
        return self._environ.get(name, f"${{{name}}}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._environ)

    def __len__(self) -> int:
        return len(self._environ)
