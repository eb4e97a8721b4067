"""The variables of files that users write: environment variables, those of `.env` files, file and command lookups.

A file `.env` in the folder of the user's file supplies variables that the environment lacks. The variable `file:PATH`
is the content of a file, and `command:pass show api` the output of a command.
"""

import os
import shlex
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from cdk.base.errors import ConfigError
from cdk.base.first_use import lazy_pattern
from cdk.base.secret_names import looks_secret
from cdk.base.wording import reason_of

_MIN_UNUSED_LENGTH, _MIN_NAMED_LENGTH = 6, 4
"""Minimum lengths of values of `.env` to mask: those that no file uses, and those with a secret-looking name.

Shorter values would be found, and masked by mistake, in every other text; those with a secret-looking name in a few.
"""
_SEGMENT = r"(?:[a-z_-]+\d{0,2}|\d{1,5})"
_ORDINARY = lazy_pattern(rf"[a-z_]+|(?:[a-z][a-z0-9]*:/|[.]{{0,2}}|~|[a-z_-]+)(?:/{_SEGMENT}(?:[.:]{_SEGMENT})*)+/?")
"""A lower-case word, or a path or URL of such words and small numbers: masking these would hide half of a page."""
_COMMAND_TIMEOUT_SECONDS = 60
"""Timeout in seconds of a command that prints a secret, as it may wait for input."""


def environment(folder: Path, *further: Path, refused: str = "") -> Mapping[str, str]:
    """Return the variables of the environment, those that `.env` in `folder` adds, and lookups of files and commands.

    further: folders whose `.env` supplies what all of these lack, such as the pipeline's folder for a config that the
    pipeline names. refused: if set, lookups of files and commands raise ConfigError with this reason, as they do when
    they fail. Raises ConfigError: when a `.env` cannot be read.
    """
    files = map(_file_variables, (folder, *further))
    return ChainMap(_Lookups(folder, refused), os.environ, *files)  # type: ignore[arg-type] # read only


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


def _file_variables(folder: Path) -> Mapping[str, str]:
    """Return the variables in a folder's `.env`; empty if there is none. Raises ConfigError: when it cannot be read."""
    file = folder / ".env"
    if not file.is_file():
        return {}
    from dotenv import dotenv_values  # noqa: PLC0415 - most folders have no such file

    try:
        values = dotenv_values(file, interpolate=False)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {reason_of(error)}", path=str(file)) from error
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
        import subprocess  # noqa: PLC0415 - takes 1 ms, and is only needed here

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
