"""Crash reports: what an unexpected error, a bug of a connector or of the kit, leaves behind for debugging.

A report has the traceback, the locals of its frames, versions and the config. Secrets are masked in each value as it is
read, before it is truncated: masking would not find half a secret. Any value whose name looks like that of a secret is
hidden, and so are values that come from a login and are in no config.
"""

import os
import platform
import re
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import is_dataclass
from itertools import islice
from pathlib import Path

from cdk.base.errors import CdkError
from cdk.base.first_use import lazy_pattern
from cdk.base.secret_masking import HIDDEN, Secrets
from cdk.base.secret_names import looks_secret

CRASH_SECRETS: ContextVar[Secrets | None] = ContextVar("crash_secrets", default=None)
"""The secrets that a crash report of this run must not show. None if crash reports are off: no data is collected."""

_KIT = Path(__file__).parents[1]
_PACKAGES = ("spark-cdk", "pyspark", "deltalake", "pyarrow", "requests", "pydantic")
_SIZE, _FRAMES, _LOCALS = 2**18, 30, 50
"""Limits: characters of a report, innermost frames of an error, and locals of a frame."""
_DEEPEST, _ITEMS, _LONGEST, _LONGEST_LOCAL = 4, 20, 500, 3_000
"""Limits of a value: nesting levels, items of a container, characters of a string in it, and characters in total."""
_LONGEST_READ = 20_000
"""Characters beyond which only the length of a string is shown."""
_NO_NAME, _LONGEST_NAME = lazy_pattern(r"[^\w.-]"), 150
_CREDENTIALS = lazy_pattern(r"\b(Bearer|Basic)\s+[^\s'\",]+", re.IGNORECASE)


def crash_text(error: BaseException, secrets: Secrets) -> str:
    """Return the traceback of an unexpected error and the locals of its frames, with secrets masked.

    Empty for an expected error of the kit, whose message already says what to do.
    """
    if not isinstance(error, Exception) or (isinstance(error, CdkError) and not error.unexpected):
        return ""
    return _Renderer(secrets).crash(error)[:_SIZE]


def write_crash_report(
    folder: Path, name: str, crash: str, *, facts: Mapping[str, object], config: object, secrets: Secrets
) -> Path:
    """Write the result of `crash_text` to a file in the folder, replacing an earlier report of the same name.

    name: of the pipeline or connector, and of the stream. facts: further details, such as the id of the sync.
    Returns the path of the file, which only this user can read. Raises OSError: when it cannot be written.
    """
    shown = _Renderer(secrets)
    known = {**facts, "Python": platform.python_version(), "system": platform.platform(), **dict(_versions())}
    lines = [f"{label}: {shown.text(str(fact))}" for label, fact in known.items()]
    text = "\n".join(["spark-cdk crash report", *lines, f"config: {shown.value('config', config)}", "", crash, ""])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"crash-{_NO_NAME.sub('_', secrets.mask(name))[:_LONGEST_NAME]}.txt"
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", errors="backslashreplace") as file:
        file.write(secrets.mask(text))
    return path


def _versions() -> Iterator[tuple[str, str]]:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow to import, and only needed here

    for package in _PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, "not installed"


class _Renderer:
    """Renders values for a report: truncated, and with secrets masked."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    def crash(self, error: Exception) -> str:
        """Return the traceback of an error, and the locals of its frames and of those of the errors that caused it."""
        parts = [self.text("".join(traceback.format_exception(error)))]
        for each in _chain(error):
            parts.append(f"\nlocals where {type(each).__name__} was raised, the innermost frame first:")
            for frame, line in list(traceback.walk_tb(each.__traceback__))[: -_FRAMES - 1 : -1]:
                parts.append(f"  {frame.f_code.co_filename}:{line}, in {frame.f_code.co_qualname}")
                # In the kit's own frames, the contents of objects say more about the kit than about the error.
                depth = _DEEPEST - 1 if Path(frame.f_code.co_filename).is_relative_to(_KIT) else 0
                shown = ((n, self.value(n, value, depth)) for n, value in islice(frame.f_locals.items(), _LOCALS))
                parts.extend(f"    {name} = {text[:_LONGEST_LOCAL]}" for name, text in shown)
        return self._secrets.mask("\n".join(parts))

    def text(self, text: str) -> str:
        """Mask the secrets of a text, including credentials in authorization headers."""
        return _CREDENTIALS.sub(rf"\1 {HIDDEN}", self._secrets.mask(text))

    def value(self, name: object, value: object, depth: int = 0) -> str:
        """Render a value, or hide it if its name looks like that of a secret."""
        # A page token is a mapping: the names of its own fields say which of them are secret.
        is_page_token = name == "token" and (value is None or isinstance(value, Mapping))
        if isinstance(name, str) and looks_secret(name) and not is_page_token:
            return HIDDEN
        match value:
            case str():
                return (
                    self._truncated(repr(self.text(value)))
                    if len(value) <= _LONGEST_READ
                    else f"<{len(value):,} characters>"
                )
            case bytes() | bytearray():
                text = value.decode(errors="ignore")
                return f"b{self.value(name, text)}" if text.encode() == value else f"<{len(value):,} bytes>"
            case Mapping() | list() | tuple() | set() | frozenset():
                kind = type(value).__name__
                return f"{kind}({self._items(value, depth)})" if depth < _DEEPEST else f"<{kind} of {len(value):,}>"
            case _:
                return self._object(value, depth)

    def _items(self, value: Collection[object], depth: int) -> str:
        """Render the first items. In a pair of name and value, such as a header, the name decides what is hidden."""
        match value:
            case Mapping():
                pairs = islice(value.items(), _ITEMS)
                items = [
                    f"{self.value(None, key, depth + 1)}: {self.value(key, item, depth + 1)}" for key, item in pairs
                ]
            case (str() as key, inner):
                items = [self.value(None, key), self.value(key, inner, depth + 1)]
            case _:
                items = [self.value(None, item, depth + 1) for item in islice(value, _ITEMS)]
        return ", ".join([*items, f"{len(value) - _ITEMS:,} more"] if len(value) > _ITEMS else items)

    def _object(self, value: object, depth: int) -> str:
        kind = type(value)
        if (kind.__repr__ is object.__repr__ or is_dataclass(kind)) and hasattr(value, "__dict__"):
            return (
                f"<{kind.__name__} {{{self._items(vars(value), depth)}}}>" if depth < _DEEPEST else f"<{kind.__name__}>"
            )
        try:
            shown = repr(value)
        except Exception as error:  # noqa: BLE001 - a connector's repr may raise anything, and must not hide the error
            return f"<{kind.__name__}, whose repr raises {type(error).__name__}>"
        return (
            self._truncated(self.text(shown).replace("\n", "\\n"))
            if len(shown) <= _LONGEST_READ
            else f"<{kind.__name__}>"
        )

    def _truncated(self, text: str) -> str:
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _chain(error: BaseException) -> list[BaseException]:
    """Return the error and the errors that caused it, the oldest first."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return chain[::-1]
