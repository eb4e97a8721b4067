"""Texts that only look values up, `{{ config['url'] }}/users`: most of a manifest's, evaluated without importing Jinja.

Jinja takes 14 ms of a start. Such a text is a name of the scope and keys below it, all present in plain maps. What else
may happen, such as a missing key, is left to Jinja.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeAlias

from msgspec import Struct

from cdk.base.first_use import lazy_pattern
from cdk.base.values import SCALARS
from cdk.declarative.interpolation.evaluation import NAMES, Evaluation, Scope

_STRING = r"""'[^'\\]*'|"[^"\\]*\""""
_GET = rf"\.get\(\s*({_STRING})\s*(?:,\s*({_STRING}|0|[1-9]\d*|[Tt]rue|[Ff]alse|[Nn]one)\s*)?\)"
_STEP = lazy_pattern(rf"{_GET}|\.([A-Za-z]\w*)|\[\s*({_STRING})\s*\]")
_LOOKUP = lazy_pattern(rf"\{{\{{\s*([a-z_]+)((?:{_GET}|\.[A-Za-z]\w*|\[\s*(?:{_STRING})\s*\])*)\s*\}}\}}")
_CODE = lazy_pattern(r"\{[{%#]|\r")
"""Where Jinja's syntax starts, and line ends that it replaces."""

_METHODS = frozenset(dir(dict))
"""Attributes of a map that are not its keys."""

_WORDS = {"true": True, "false": False, "none": None}
_SHORT = 10_000
"""The characters of a string whose size needs no check."""

_Step: TypeAlias = tuple[str, bool, object]
"""A key, whether `get` looks it up, and what that returns if the key is missing."""


def lookups(text: str, parameters: frozenset[str] | None, build: Callable[[], Evaluation]) -> Evaluation | None:
    """Return the evaluation of a text with nothing but lookups; None for any other. build: that of Jinja.

    parameters: the names of the known parameters; lookups of others are Jinja's, which warns of them.
    """
    pieces: list[str | _Lookup] = []
    end = 0
    while (code := _CODE.search(text, end)) is not None:
        expression = _LOOKUP.match(text, code.start())
        lookup = None if expression is None else _lookup(expression[1], expression[2], parameters)
        if expression is None or lookup is None:
            return None
        pieces += [text[end : code.start()], lookup]
        end = expression.end()
    # Jinja drops one newline at the end of a template.
    pieces.append(text[end:].removesuffix("\n"))
    parts = [piece for piece in pieces if piece]
    by_jinja = cache(build)

    def run(scope: Scope) -> object:
        try:
            values = [part if isinstance(part, str) else part.value(scope) for part in parts]
        except LookupError:
            return by_jinja().run(scope)
        return values[0] if len(values) == 1 else "".join(map(str, values))

    def column(scope: Scope, records: Sequence[object]) -> list[object]:
        return by_jinja().column(scope, records)

    paths = [part.path for part in parts if isinstance(part, _Lookup)]
    return Evaluation(run, column, frozenset(name for name, *_ in paths), paths=paths)


class _Lookup(Struct, frozen=True):
    name: str
    steps: Sequence[_Step]

    @property
    def path(self) -> tuple[str, ...]:
        return (self.name, *(key for key, *_ in self.steps))

    def value(self, scope: Scope) -> object:
        """Return the value. Raises LookupError: where Jinja has to look."""
        value = scope[self.name]
        for key, gets, default in self.steps:
            if type(value) is not dict:
                raise LookupError
            if not gets:
                value = value[key]
            else:
                value = value.get(key, default)
                if type(value) not in SCALARS or (type(value) is str and len(value) > _SHORT):
                    raise LookupError  # the result of a call has a maximum size
        return value


def _lookup(name: str, steps: str, parameters: frozenset[str] | None) -> _Lookup | None:
    """Return the lookup of a name and the text of its steps; None if Jinja would warn of it, or call a method."""
    parts: list[_Step] = []
    for gets, default, attribute, item in _STEP.findall(steps):
        if attribute in _METHODS:
            return None
        parts.append((attribute or (gets or item)[1:-1], bool(gets), _constant(default)))
    read = [key for key, gets, _ in parts[:1] if not gets]
    unknown = name == "parameters" and parameters is not None and not parameters.issuperset(read)
    return None if unknown or name not in NAMES or name == "stream_state" else _Lookup(name, parts)


def _constant(text: str) -> object:
    if not text or text.lower() in _WORDS:
        return _WORDS.get(text.lower())
    return text[1:-1] if text[0] in "'\"" else int(text)
