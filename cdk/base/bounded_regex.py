"""Regular expressions from manifests, specs and configs, with a time limit.

Some expressions, such as `(a|a?)+$`, practically never finish on some texts, and Python's own module cannot be stopped,
so the process would hang. The `regex` module supports the same syntax and a timeout.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from cdk.base.errors import FatalError

if TYPE_CHECKING:  # the import takes 20 ms, and most runs do not need it
    import regex

_SECONDS = 2.0


class Pattern(Struct, frozen=True):
    """A regular expression. Picklable; compiled on first use.

    Its methods raise FatalError: it is not a valid expression, or takes more than two seconds on a text.
    """

    text: str

    def search(self, value: str) -> "regex.Match[str] | None":
        """The first match in `value`; None without one."""
        try:
            return _compiled(self.text).search(value, timeout=_SECONDS)
        except TimeoutError:
            raise self._endless(value) from None

    def match(self, value: str) -> "regex.Match[str] | None":
        """The match at the start of `value`; None without one."""
        try:
            return _compiled(self.text).match(value, timeout=_SECONDS)
        except TimeoutError:
            raise self._endless(value) from None

    def sub(self, replacement: "str | Callable[[regex.Match[str]], str]", value: str) -> str:
        """Replace every match in `value`. The replacement may refer to groups, or be a function of the match."""
        try:
            return _compiled(self.text).sub(replacement, value, timeout=_SECONDS)
        except TimeoutError:
            raise self._endless(value) from None

    def _endless(self, value: str) -> FatalError:
        return FatalError(
            f"the regular expression {self.text!r} was stopped after {_SECONDS:g} seconds on a string of "
            f"{len(value)} characters; rewrite it without nested repetitions"
        )


@lru_cache(maxsize=256)
def _compiled(text: str) -> "regex.Pattern[str]":
    import regex  # noqa: PLC0415 - see above

    try:
        return regex.compile(text)
    except regex.error as error:
        raise FatalError(f"{text!r} is not a valid regular expression: {error}") from None
