"""Replaces `${NAME}` in files that users write by variables of an environment; treats values as secrets if in doubt.

`${NAME:-text}` yields the text if the variable is unset or empty, and `$${` a literal `${`. `${file:PATH}` yields the
content of a file, and `${command:pass show api}` the output of a command: environments look these up as if they were
variables (`cdk.sources.environment`).
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping

from cdk.base.errors import ConfigError
from cdk.base.first_use import lazy_pattern
from cdk.base.secret_masking import Secrets
from cdk.base.secret_names import looks_secret
from cdk.base.values import JsonValue, Keys, map_leaves, walk

_VARIABLE = lazy_pattern(
    r"\$\$\{|\$\{(?:(?P<lookup>(?:file|command):[^}]+)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"(?::-(?P<default>(?:(?!\$\{)[^}])*))?|(?P<malformed>\s*[A-Za-z_][^}]*))\}"
)
_NAME_IN_CAPITALS = lazy_pattern(r"[A-Z][A-Z0-9_]*")
_PLAIN = lazy_pattern(r"(?:abfss?://[a-z0-9-]+@|[a-z][a-z0-9]*://)?[\w ./~-]*")
"""A name, a number, a path, or a URL without user, password and parameters."""
_PORT = lazy_pattern(r"(?:\w+_)?PORT")


def named_values(value: JsonValue, environ: Mapping[str, str]) -> set[str]:
    """Return the values of all variables that are used anywhere in `value`, as far as they are set."""
    names = {variable["name"] or "" for _, variable in _variables_in(value)}
    return {environ[name] for name in names if name in environ}


def has_lookups(value: JsonValue) -> bool:
    """Whether `value` has a `${file:...}` or a `${command:...}` anywhere."""
    return any(variable["lookup"] for _, variable in _variables_in(value))


def _variables_in(value: JsonValue) -> Iterator[tuple[Keys, re.Match[str]]]:
    """Yield the variables in the strings of a value, well-formed or not, each with the place of its string."""
    for keys, text in walk(value):
        if isinstance(text, str):
            yield from ((keys, variable) for variable in _VARIABLE.finditer(text))


def with_variables(
    value: JsonValue,
    environ: Mapping[str, str],
    where: Callable[[Keys], str],
    secrets: Secrets | None = None,
    *,
    plain: Collection[Keys] = (),
    foreign: Keys | None = None,
) -> JsonValue:
    """Return `value` with each `${NAME}` replaced by its value in `environ`.

    secrets: receives the values that may be secret. plain: places that hold no secret, such as the path of a folder.
    foreign: the place under which malformed variables stay as they are, as another program may have its own syntax.

    Raises ConfigError: naming all variables that are missing or malformed.
    """
    missing = [
        ConfigError(_malformed_text(variable["malformed"]), path=where(keys))
        for keys, variable in _variables_in(value)
        if variable["malformed"] is not None and (foreign is None or keys[: len(foreign)] != foreign)
    ]

    def value_of(variable: re.Match[str], keys: Keys) -> str:
        name, default = variable["lookup"] or variable["name"], variable["default"]
        if name is None:
            return "${" if variable["malformed"] is None else variable[0]
        try:
            text = environ[name]
        except KeyError:
            text = None
        except ConfigError as error:
            missing.append(ConfigError(error.message, path=where(keys)))
            return ""
        # In a `PartialEnvironment`, an unset variable yields its own `${NAME}`.
        if default is not None and text in (None, "", f"${{{name}}}"):
            return default
        if text is None:
            words = f"the environment variable {name} is not set; set it, or write the value there instead"
            missing.append(ConfigError(words, path=where(keys)))
        elif secrets is not None and not _is_plain(name, text, in_plain_place=keys in plain):
            secrets.add(text)
        return text or ""

    def replaced(keys: Keys, leaf: JsonValue) -> JsonValue:
        return _VARIABLE.sub(lambda variable: value_of(variable, keys), leaf) if isinstance(leaf, str) else leaf

    value = map_leaves(value, replaced)
    if missing:
        raise ConfigError.together(missing)
    return value


def _malformed_text(malformed: str) -> str:
    """Return what is wrong with a malformed variable. Shows only its start, because it may be part of a secret."""
    kind, colon, rest = re.fullmatch(r"\s*(\w*)\s*(:?)(.*)", malformed, re.DOTALL).groups()  # type: ignore[union-attr] # any
    form = {"file": "${file:PATH}", "command": "${command:...}"}.get(kind.lower(), "") if colon else ""
    start = f"${{{kind}{colon if form else ''}…}}"
    ways = form or "${NAME}, ${NAME:-text}, ${file:PATH} or ${command:...}"
    name = rest if kind.lower() == "env" and colon else re.sub(r"[-.]", "_", malformed.strip())
    if _NAME_IN_CAPITALS.fullmatch(name):
        start, ways = f"${{{malformed}}}", f"${{{name}}}"
    return f"found {start}, which is not a variable; expected {ways}, or `$${{` for the characters themselves"


def _is_plain(name: str, text: str, *, in_plain_place: bool) -> bool:
    """Whether the value of a variable is certainly no secret. in_plain_place: whether it is used where none belongs."""
    if ":" in name or looks_secret(name):
        return False
    port = len(text) <= len("65535") and text.isdecimal() and _PORT.fullmatch(name)
    return bool(port or (in_plain_place and _PLAIN.fullmatch(text)))
