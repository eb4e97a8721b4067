"""`${NAME}` in files that people write: values of the environment, which are secrets where they are not surely none.

`${NAME:-text}` is the text where the variable is not set or empty, and `$${` is `${` itself. A file `.env` in the
folder of such a file says what the environment lacks. `${file:PATH}` is what a file holds, and
`${command:pass show api}` what a command prints: environments look these up as if they were variables.
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
    r"(?::-(?P<default>(?:(?!\$\{)[^}])*))?|(?P<slip>\s*[A-Za-z_][^}]*))\}"
)
_NAME_IN_CAPITALS = re.compile(r"[A-Z][A-Z0-9_]*")
_PLAIN = re.compile(r"(?:abfss?://[a-z0-9-]+@|[a-z][a-z0-9]*://)?[\w ./~-]*")
"""A name, a number, a path, or an address without a user, a password and parameters."""
_PORT = re.compile(r"(?:\w+_)?PORT")
_SHORTEST_UNUSED, _SHORTEST_NAMED = 6, 4
"""Shorter values of `.env` that a file does not name would be found in every other text; called a secret, in a few."""
_SEGMENT = r"(?:[a-z_-]+\d{0,2}|\d{1,5})"
_ORDINARY = re.compile(rf"[a-z_]+|(?:[a-z][a-z0-9]*:/|[.]{{0,2}}|~|[a-z_-]+)(?:/{_SEGMENT}(?:[.:]{_SEGMENT})*)+/?")
"""A word of small letters, and a path or an address of such and small numbers: they would hide half of a page."""
_LONGEST_COMMAND = 60
"""Seconds until a command that prints a secret is given up, such as one that waits for an input."""


def environment(folder: Path, *further: Path, refused: str = "") -> Mapping[str, str]:
    """The environment, what a file `.env` in a folder says besides, and what files and commands hold.

    further: folders with a `.env` that says what all of these lack, such as a pipeline's, of the config that it names.
    refused: why no file is read and no command run: who looks one up gets a ConfigError, as where one fails.
    Raises ConfigError: `.env` cannot be read.
    """
    return ChainMap(_Lookups(folder, refused), *_variables(folder, *further))  # type: ignore[arg-type] # nothing is written


def secrets_beside(folder: Path, *, named: Collection[str] = ()) -> Iterator[str]:
    """What of a folder's `.env` may be secret, whether a file names it or not. Raises ConfigError: it cannot be read.

    named: values that files of this folder name: where they stand says whether they are secret.
    """
    for name, value in _file_variables(folder).items():
        called = looks_secret(name)
        ordinary = value in named or (not called and _ORDINARY.fullmatch(value))
        if len(value) >= (_SHORTEST_NAMED if called else _SHORTEST_UNUSED) and not ordinary:
            yield value


def named_values(value: JsonValue, environ: Mapping[str, str]) -> set[str]:
    """The values of the variables that are named anywhere in a value, as far as they are set."""
    names = set[str]()

    def note(variable: re.Match[str], _: Keys) -> str:
        names.add(variable["name"] or "")
        return ""

    _filled(value, (), note)
    return {environ[name] for name in names if name in environ}


def _variables(*folders: Path) -> Iterator[Mapping[str, str]]:
    yield os.environ
    yield from map(_file_variables, folders)


def _file_variables(folder: Path) -> Mapping[str, str]:
    """What the `.env` of a folder says. Raises ConfigError: it cannot be read."""
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
    """What `file:PATH` and `command:...` stand for, each looked up once. Paths are relative to a folder."""

    def __init__(self, folder: Path, refused: str) -> None:
        super().__init__()
        self._folder, self._refused = folder, refused

    def __missing__(self, name: str) -> str:
        kind, _, text = name.partition(":")
        if not text:
            raise KeyError(name)
        if self._refused:
            raise ConfigError(f"the {kind} `{_shown(text)}` {self._refused}")
        # Files end with a line feed, and so do outputs; a secret seldom does.
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
            raise ConfigError(f"the file `{text}` is no text in UTF-8") from None
        except OSError as error:
            raise ConfigError(f"the file `{text}` cannot be read: {error.strerror}") from None

    def _output(self, text: str) -> str:
        """What a command prints, without a shell. Errors show nothing of it but its program; stderr is the caller's."""
        try:
            done = subprocess.run(  # noqa: S603 - what the file says, as if it named a connector in Python
                shlex.split(text),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                timeout=_LONGEST_COMMAND,
                check=False,
            )
            if done.returncode == 0:
                return done.stdout.decode()
            why = f"ended with exit code {done.returncode}"
        except subprocess.TimeoutExpired:
            why = f"has not ended after {_LONGEST_COMMAND} s"
        except (OSError, ValueError) as error:
            # Of an output that is no text, the error would show a part.
            why = f"cannot be run: {error.strerror}" if isinstance(error, OSError) else "is, or prints, no text"
        raise ConfigError(f"the command `{_shown(text)}` {why}; try it in a shell, in the folder of the file")


def _shown(text: str) -> str:
    return f"{text.partition(' ')[0]} …" if " " in text else text


def looks_up(value: JsonValue) -> bool:
    """Whether there is a `${file:...}` or a `${command:...}` anywhere in a value."""
    match value:
        case Mapping():
            return any(map(looks_up, value.values()))
        case list():
            return any(map(looks_up, value))
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
    """`value` with the environment's values in place of `${NAME}`s.

    Raises ConfigError naming all that are missing, and all that look like one and are none.

    secrets: get those that are not surely none. plain: where no secret belongs, such as the path of a folder.
    foreign: where what looks like a variable and is none stays, for another program has some of its own.
    """
    missing = _slips(value, where, foreign)

    def value_of(variable: re.Match[str], keys: Keys) -> str:
        name, default = variable["lookup"] or variable["name"], variable["default"]
        if name is None:
            return "${" if variable["slip"] is None else variable[0]
        try:
            text = environ[name]
        except KeyError:
            text = None
        except ConfigError as error:
            missing.append(f"{where(keys)}: {error.message}")
            return ""
        # What is not set may stand for itself, see `PartialEnvironment`.
        if default is not None and text in (None, "", f"${{{name}}}"):
            return default
        if text is None:
            missing.append(f"{where(keys)}: the environment variable {name} is not set; set it, or put the value there")
        elif secrets is not None and not _is_plain(name, text, belongs=keys in plain):
            secrets.add(text)
        return text or ""

    value = _filled(value, (), value_of)
    if missing:
        raise ConfigError("\n".join(missing))
    return value


def _slips(value: JsonValue, where: Callable[[Keys], str], foreign: Keys | None) -> list[str]:
    """What is wrong with all that looks like a variable and is none."""
    slips: list[str] = []

    def look_at(variable: re.Match[str], keys: Keys) -> str:
        if variable["slip"] is not None and (foreign is None or keys[: len(foreign)] != foreign):
            slips.append(f"{where(keys)}: {_meant(variable['slip'])}")
        return ""

    _filled(value, (), look_at)
    return slips


def _meant(slip: str) -> str:
    """What is wrong with what looks like a variable and is none. Not all of it is shown: it may be part of a secret."""
    kind, colon, rest = re.fullmatch(r"\s*(\w*)\s*(:?)(.*)", slip, re.DOTALL).groups()  # type: ignore[union-attr] # any
    form = {"file": "${file:PATH}", "command": "${command:...}"}.get(kind.lower(), "") if colon else ""
    start = f"${{{kind}{colon if form else ''}…}}"
    ways = form or "${NAME}, ${NAME:-text}, ${file:PATH} or ${command:...}"
    name = rest if kind.lower() == "env" and colon else re.sub(r"[-.]", "_", slip.strip())
    if _NAME_IN_CAPITALS.fullmatch(name):
        start, ways = f"${{{slip}}}", f"${{{name}}}"
    return f"found {start}, which is no variable; expected {ways}, or `$${{` for the characters themselves"


def _filled(value: JsonValue, keys: Keys, value_of: Callable[[re.Match[str], Keys], str]) -> JsonValue:
    match value:
        case dict():
            return {name: _filled(item, (*keys, name), value_of) for name, item in value.items()}
        case list():
            return [_filled(item, (*keys, i), value_of) for i, item in enumerate(value)]
        case str():
            return _VARIABLE.sub(lambda variable: value_of(variable, keys), value)
        case _:
            return value


def _is_plain(name: str, text: str, *, belongs: bool) -> bool:
    """Whether what a variable stands for is surely no secret. belongs: it is put where none belongs."""
    if ":" in name or looks_secret(name):
        return False
    port = len(text) <= len("65535") and text.isdecimal() and _PORT.fullmatch(name)
    return bool(port or (belongs and _PLAIN.fullmatch(text)))


class PartialEnvironment(Mapping[str, str]):
    """The environment; what it lacks stays as it is written, for commands that need no secrets."""

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
