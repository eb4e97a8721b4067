"""Replaces `${NAME}` in files that users write by environment variables; treats values as secrets if in doubt.

`${NAME:-text}` yields the text if the variable is unset or empty, and `$${` a literal `${`. A file `.env` in the folder
of the user's file supplies variables that the environment lacks. `${file:PATH}` yields the content of a file, and
`${command:pass show api}` the output of a command: environments look these up as if they were variables.
"""

import os
import re
import shlex
import subprocess
from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from cdk.base.errors import ConfigError
from cdk.base.secret_masking import Secrets
from cdk.base.secret_names import looks_secret
from cdk.base.values import JsonValue, Keys

_VARIABLE = re.compile(
    r"\$\$\{|\$\{(?:(?P<lookup>(?:file|command):[^}]+)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"(?::-(?P<default>(?:(?!\$\{)[^}])*))?|(?P<malformed>\s*[A-Za-z_][^}]*))\}"
)
_NAME_IN_CAPITALS = re.compile(r"[A-Z][A-Z0-9_]*")
_PLAIN = re.compile(r"(?:abfss?://[a-z0-9-]+@|[a-z][a-z0-9]*://)?[\w ./~-]*")
"""A name, a number, a path, or a URL without user, password and parameters."""
_PORT = re.compile(r"(?:\w+_)?PORT")
_MIN_UNUSED_LENGTH, _MIN_NAMED_LENGTH = 6, 4
"""Minimum lengths of values of `.env` to mask: those that no file uses, and those with a secret-looking name.

Shorter values would be found, and masked by mistake, in every other text; those with a secret-looking name in a few.
"""
_SEGMENT = r"(?:[a-z_-]+\d{0,2}|\d{1,5})"
_ORDINARY = re.compile(rf"[a-z_]+|(?:[a-z][a-z0-9]*:/|[.]{{0,2}}|~|[a-z_-]+)(?:/{_SEGMENT}(?:[.:]{_SEGMENT})*)+/?")
"""A lower-case word, or a path or URL of such words and small numbers: masking these would hide half of a page."""
_COMMAND_TIMEOUT_SECONDS = 60
"""Timeout in seconds of a command that prints a secret, as it may wait for input."""


def environment(folder: Path, *further: Path, refused: str = "") -> Mapping[str, str]:
    """Return the variables of the environment, those that `.env` in `folder` adds, and lookups of files and commands.

    further: folders whose `.env` supplies what all of these lack, such as the pipeline's folder for a config that the
    pipeline names. refused: if set, lookups of files and commands raise ConfigError with this reason, as they do when
    they fail. Raises ConfigError: when a `.env` cannot be read.
    """
    return ChainMap(_Lookups(folder, refused), *_variables(folder, *further))  # type: ignore[arg-type] # read only


def env_file_secrets(folder: Path, *, named: Collection[str] = ()) -> Iterator[str]:
    """Yield the values of a folder's `.env` that may be secret, whether a file uses them or not.

    named: values that files of this folder use; where they are used decides whether they are secret.
    Raises ConfigError: when `.env` cannot be read.
    """
    for name, value in _file_variables(folder).items():
        named_secret = looks_secret(name)
        ordinary = value in named or (not named_secret and _ORDINARY.fullmatch(value))
        if len(value) >= (_MIN_NAMED_LENGTH if named_secret else _MIN_UNUSED_LENGTH) and not ordinary:
            yield value


def named_values(value: JsonValue, environ: Mapping[str, str]) -> set[str]:
    """Return the values of all variables that are used anywhere in `value`, as far as they are set."""
    names = set[str]()

    def collect(variable: re.Match[str], _: Keys) -> str:
        names.add(variable["name"] or "")
        return ""

    _with_replaced(value, (), collect)
    return {environ[name] for name in names if name in environ}


def _variables(*folders: Path) -> Iterator[Mapping[str, str]]:
    yield os.environ
    yield from map(_file_variables, folders)


def _file_variables(folder: Path) -> Mapping[str, str]:
    """Return the variables in a folder's `.env`; empty if there is none. Raises ConfigError: when it cannot be read."""
    file = folder / ".env"
    if not file.is_file():
        return {}
    from dotenv import dotenv_values  # noqa: PLC0415 - most folders have no such file

    try:
        values = dotenv_values(file, interpolate=False)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", path=str(file)) from error
    return {name: value for name, value in values.items() if value is not None}


class _Lookups(dict[str, str]):
    """The values of `file:PATH` and `command:...`, each looked up once. Paths are relative to `folder`."""

    def __init__(self, folder: Path, refused: str) -> None:
        super().__init__()
        self._folder, self._refused = folder, refused

    def __missing__(self, name: str) -> str:
        kind, _, text = name.partition(":")
        if not text:
            raise KeyError(name)
        if self._refused:
            raise ConfigError(f"the {kind} `{_shown(text)}` {self._refused}")
        # Files and command outputs usually end with a line feed; secrets rarely do.
        value = (self._file(text) if kind == "file" else self._output(text)).strip("\r\n")
        if not value:
            what = "is empty" if kind == "file" else "printed nothing"
            raise ConfigError(f"the {kind} `{_shown(text)}` {what}, expected a value")
        self[name] = value
        return value

    def _file(self, text: str) -> str:
        try:
            return (self._folder / Path(text).expanduser()).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ConfigError(f"the file `{text}` is not UTF-8 text") from None
        except OSError as error:
            raise ConfigError(f"the file `{text}` cannot be read: {error.strerror}") from None

    def _output(self, text: str) -> str:
        """Run a command without a shell and return its output. Errors show only its program; stderr is the caller's."""
        try:
            done = subprocess.run(  # noqa: S603 - the user's file names the command, as it may name Python code
                shlex.split(text),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                timeout=_COMMAND_TIMEOUT_SECONDS,
                check=False,
            )
            if done.returncode == 0:
                return done.stdout.decode()
            why = f"failed with exit code {done.returncode}"
        except subprocess.TimeoutExpired:
            why = f"did not finish within {_COMMAND_TIMEOUT_SECONDS} s"
        except (OSError, ValueError) as error:
            # The error of an output that is not text would show a part of it.
            why = (
                f"cannot be run: {error.strerror}"
                if isinstance(error, OSError)
                else "is not a valid command line, or its output is not UTF-8 text"
            )
        raise ConfigError(f"the command `{_shown(text)}` {why}; try it in a shell, in the folder of the file")


def _shown(text: str) -> str:
    return f"{text.partition(' ')[0]} …" if " " in text else text


def has_lookups(value: JsonValue) -> bool:
    """Whether `value` has a `${file:...}` or a `${command:...}` anywhere."""
    match value:
        case Mapping():
            return any(map(has_lookups, value.values()))
        case list():
            return any(map(has_lookups, value))
        case str():
            return any(variable["lookup"] for variable in _VARIABLE.finditer(value))
        case _:
            return False


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
    missing = _malformed_variables(value, where, foreign)

    def value_of(variable: re.Match[str], keys: Keys) -> str:
        name, default = variable["lookup"] or variable["name"], variable["default"]
        if name is None:
            return "${" if variable["malformed"] is None else variable[0]
        try:
            text = environ[name]
        except KeyError:
            text = None
        except ConfigError as error:
            missing.append(f"{where(keys)}: {error.message}")
            return ""
        # In a `PartialEnvironment`, an unset variable yields its own `${NAME}`.
        if default is not None and text in (None, "", f"${{{name}}}"):
            return default
        if text is None:
            missing.append(
                f"{where(keys)}: the environment variable {name} is not set; set it, or write the value there instead"
            )
        elif secrets is not None and not _is_plain(name, text, in_plain_place=keys in plain):
            secrets.add(text)
        return text or ""

    value = _with_replaced(value, (), value_of)
    if missing:
        raise ConfigError("\n".join(missing))
    return value


def _malformed_variables(value: JsonValue, where: Callable[[Keys], str], foreign: Keys | None) -> list[str]:
    """Return an error text for each malformed variable."""
    errors: list[str] = []

    def check(variable: re.Match[str], keys: Keys) -> str:
        if variable["malformed"] is not None and (foreign is None or keys[: len(foreign)] != foreign):
            errors.append(f"{where(keys)}: {_malformed_text(variable['malformed'])}")
        return ""

    _with_replaced(value, (), check)
    return errors


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


def _with_replaced(value: JsonValue, keys: Keys, value_of: Callable[[re.Match[str], Keys], str]) -> JsonValue:
    match value:
        case dict():
            return {name: _with_replaced(item, (*keys, name), value_of) for name, item in value.items()}
        case list():
            return [_with_replaced(item, (*keys, i), value_of) for i, item in enumerate(value)]
        case str():
            return _VARIABLE.sub(lambda variable: value_of(variable, keys), value)
        case _:
            return value


def _is_plain(name: str, text: str, *, in_plain_place: bool) -> bool:
    """Whether the value of a variable is certainly no secret. in_plain_place: whether it is used where none belongs."""
    if ":" in name or looks_secret(name):
        return False
    port = len(text) <= len("65535") and text.isdecimal() and _PORT.fullmatch(name)
    return bool(port or (in_plain_place and _PLAIN.fullmatch(text)))


class PartialEnvironment(Mapping[str, str]):
    """An environment in which an unset variable yields its own `${NAME}`, for commands that need no secrets."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def __contains__(self, name: object) -> bool:
        return True

    def __getitem__(self, name: str) -> str:
        try:
            return self._environ[name]
        except (KeyError, ConfigError):
            return f"${{{name}}}"

    def __iter__(self) -> Iterator[str]:
        return iter(self._environ)

    def __len__(self) -> int:
        return len(self._environ)
