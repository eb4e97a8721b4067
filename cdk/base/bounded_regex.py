"""Regular expressions that manifests, specs and configs bring: searched for a limited time.

Some expressions take time without end on some texts, `(a|a?)+$` among them, and Python's own module cannot be stopped:
the process would hang. The `regex` module reads the same language and can.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from cdk.base.errors import FatalError

if TYPE_CHECKING:  # its import takes 20 ms, which most runs can save
    import regex

_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression. Picklable; compiled when it is first used.

    Its methods raise FatalError: it is no regular expression, or it takes more than two seconds on a text.
    """

    text: str

    def search(self, value: str) -> "regex.Match[str] | None":
        """The first place in `value` that fits."""
        try:
            return _compiled(self.text).search(value, timeout=_SECONDS)
        except TimeoutError:
            raise self._endless(value) from None

    def match(self, value: str) -> "regex.Match[str] | None":
        """What fits at the beginning of `value`."""
        try:
            return _compiled(self.text).match(value, timeout=_SECONDS)
        except TimeoutError:
            raise self._endless(value) from None

    def sub(self, replacement: "str | Callable[[regex.Match[str]], str]", value: str) -> str:
        """`value` with every place that fits replaced; the replacement may name groups, or be made of the match."""
        try:
            return _compiled(self.text).sub(replacement, value, timeout=_SECONDS)
        except TimeoutError:
            raise self._endless(value) from None

    def _endless(self, value: str) -> FatalError:
        return FatalError(
            f"the regular expression {self.text!r} was stopped after {_SECONDS:g} seconds on a text of {len(value)} "
            "characters; write it without repetitions inside of repetitions"
        )


@lru_cache(maxsize=256)
def _compiled(text: str) -> "regex.Pattern[str]":
    import regex  # noqa: PLC0415 - see above

    try:
        return regex.compile(text)
    except regex.error as error:
        raise FatalError(f"{text!r} is no regular expression: {error}") from None
