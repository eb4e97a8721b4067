"""`${NAME}` in files that people write: values of the environment, which are secrets, as most of it is."""

import re
from collections.abc import Callable, Iterator, Mapping

from cdk.base.errors import ConfigError
from cdk.base.secret_masking import Secrets
from cdk.base.values import JsonValue, Keys

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


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
                unset.extend(
                    f"{where(keys)}: the environment variable {name} is not set; set it, or put the value there"
                    for name in _VARIABLE.findall(value)
                    if name not in environ
                )
                return _VARIABLE.sub(lambda found: environ.get(found[1], ""), value)
            case _:
                return value

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
