"""Secrets in tokens: cut out before a token becomes a state, put back when it is used.

An API that is asked with `?apikey=...` may echo it in the link to the next page. What is saved says in its place which
secret of the config stood there, and how it was spelled: `<secret credentials.key url>`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import quote

from cdk.base.secret_masking import loose_pattern, spellings
from cdk.base.values import FieldValue

_MARK = re.compile(r"<secret ([^<> ]+) ([A-Za-z0-9\-]+)>")
_SHORTEST = 4
"""Shorter texts would be found in every other token; errors show them for the same reason."""


class SecretMarks:
    """Cuts the secrets of a config out of tokens, and puts them back. Travels to other processes with its stream.

    secrets: their places in the config, such as `credentials.key`, and their values.
    """

    def __init__(self, secrets: Iterable[tuple[str, str]] = ()) -> None:
        self._secrets = {quote(path, safe=".[]"): value for path, value in secrets if len(value) >= _SHORTEST}
        self._marks: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def cut(self, token: FieldValue) -> FieldValue:
        """`token` with a mark in place of every secret, at any depth, in keys too."""
        if not self._secrets:
            return token
        if self._pattern is None:
            self._pattern = self._compiled()
        return _mapped(token, self._cut)

    def restore(self, token: FieldValue) -> FieldValue:
        """`token` with the secrets that its marks name, as the config has them now."""
        return _mapped(token, self._restored) if self._secrets else token

    def _compiled(self) -> re.Pattern[str]:
        for path, value in self._secrets.items():
            for name, text in spellings(value).items():
                self._marks.setdefault(text, f"<secret {path} {name}>")
        # The longest first: a secret that contains another must not leave its rest behind.
        exact = map(re.escape, sorted(self._marks, key=len, reverse=True))
        loose = (f"(?P<s{n}>{loose_pattern(value)})" for n, value in enumerate(self._secrets.values()))
        return re.compile("|".join((*exact, *loose)))

    def _cut(self, text: str) -> str:
        assert self._pattern is not None
        return self._pattern.sub(self._mark, text)

    def _mark(self, match: re.Match[str]) -> str:
        if match.lastgroup is None:
            return self._marks[match.group()]
        # Some of its letters are escaped, as nothing but URLs do; all of them mean the same.
        return f"<secret {list(self._secrets)[int(match.lastgroup[1:])]} url>"

    def _restored(self, text: str) -> str:
        return _MARK.sub(self._value, text) if "<secret " in text else text

    def _value(self, match: re.Match[str]) -> str:
        value = self._secrets.get(match[1])
        return match.group() if value is None else spellings(value).get(match[2], match.group())


def _mapped(value: FieldValue, change: Callable[[str], str]) -> FieldValue:
    match value:
        case str():
            return change(value)
        case Mapping():
            return {change(name): _mapped(item, change) for name, item in value.items()}
        case list() | tuple():
            return [_mapped(item, change) for item in value]
        case _:
            return value
