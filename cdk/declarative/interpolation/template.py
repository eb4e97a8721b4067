"""Templates: texts of a manifest with `{{ expressions }}`, compiled once and evaluated often."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from cdk.base.values import Json
from cdk.declarative.interpolation.errors import EvaluationError, ExpressionError
from cdk.declarative.interpolation.literals import STARTS, literal, typed

_EXPRESSION = re.compile(r"\{[{%#]")
_UNSET = object()
_NOTHING: frozenset[str] = frozenset()
_FALSE = frozenset(("", "False", "false", "{}", "[]", "()", "set()", "0", "0.0"))


@dataclass(slots=True)
class Template:
    """A compiled text. Make one with `compile_template`.

    names: what it reads of the scope. varies: a macro in it answers differently each time, as `now_utc` does.
    fixed: its value never changes.
    """

    text: str
    where: str
    names: frozenset[str]
    varies: bool
    _run: Callable[[Mapping[str, Json]], Json]
    _quotes: bool = False

    def __reduce__(self) -> tuple[Callable[[str, str], "Template"], tuple[str, str]]:
        # Closures do not travel to another process; the text does.
        return compile_template, (self.text, self.where)

    @property
    def fixed(self) -> bool:
        """Whether it reads no names and nothing that varies."""
        return not self.names and not self.varies

    def value(self, scope: Mapping[str, Json], types: tuple[type, ...] = (), default: Json = _UNSET) -> Json:
        """The rendered text as the literal it is: `10` a number, `[1]` a list, `hello` a text.

        types: literals of other types stay texts.
        default: given instead when the text is empty or something on the way is missing.
        Raises ExpressionError: it cannot be evaluated.
        """
        try:
            found = self._run(scope)
            if type(found) is str:
                if not found:
                    return "" if default is _UNSET else default
                if found[0] not in STARTS:
                    return found
            value = typed(found)
        except Exception as error:  # noqa: BLE001 - whatever an expression does wrong is the manifest's error
            # Jinja is imported lazily, so its error is known by name.
            if default is not _UNSET and type(error).__name__ == "UndefinedError":
                return default
            raise error if isinstance(error, ExpressionError) else self._failed(error, scope) from None
        if default is not _UNSET and value == "" and not str(found):
            return default
        return value if not types or isinstance(value, types) else str(found)

    def render(self, scope: Mapping[str, Json]) -> str:
        """The rendered text. Raises ExpressionError: it cannot be evaluated."""
        try:
            text = str(self._run(scope))
        except Exception as error:  # noqa: BLE001 - whatever an expression does wrong is the manifest's error
            raise error if isinstance(error, ExpressionError) else self._failed(error, scope) from None
        return str(literal(text)) if self._quotes and text[:3] == '"""' else text

    def true(self, scope: Mapping[str, Json]) -> bool:
        """The value as a condition: empty, `False`, `false`, `0`, `{}`, `[]`, `()` and `None` are false.

        A comparison of what cannot be compared (`None > '2024'`) holds: filters then keep the record, as existing
        manifests count on.
        """
        try:
            # Nearly all conditions come to this; what else they come to, or fail with, is looked at below.
            if (found := self._run(scope)) is True or found is False:
                return found
        except Exception:  # noqa: BLE001, S110 - evaluated once more, for what is missing and how it is told
            pass
        try:
            value = self.value(scope, default=False)
        except ExpressionError as error:
            if error.incomparable:
                return True
            raise
        if type(value) is bool:
            return value
        return value not in _FALSE if type(value) is str else bool(value)

    def _failed(self, error: Exception, scope: Mapping[str, Json]) -> ExpressionError:
        from cdk.declarative.interpolation.explain import why  # noqa: PLC0415 - only errors need it

        found = why(error, self.text, self.names, scope)
        return EvaluationError(self.where, self.text, found, incomparable=isinstance(error, TypeError))


def broken(error: ExpressionError) -> Template:
    """A template that cannot be compiled: it says so when it is evaluated.

    One stream that uses what the language no longer has must not keep the others from being read.
    """

    def fail(_: Mapping[str, Json]) -> Json:
        raise error

    return Template(error.expression, error.path, _NOTHING, varies=True, _run=fail)


@lru_cache(maxsize=8192)
def compile_template(text: str, where: str = "") -> Template:
    """Compile a text. `where` names its place in the manifest, for errors.

    Raises ExpressionError: its syntax is wrong, it names a filter that does not exist, or the removed `stream_state`.
    """
    if _EXPRESSION.search(text) is None:
        # Jinja drops one line end at the end of a template, also where there is nothing to fill in.
        plain = text.removesuffix("\n")
        return Template(text, where, _NOTHING, varies=False, _run=lambda _: plain)
    from cdk.declarative.interpolation.build import build_run  # noqa: PLC0415 - imports Jinja

    run, found = build_run(text, where)
    names = frozenset(found.names)
    if not names and not found.varies:
        run = _once(run)
    return Template(text, where, names, found.varies, run, found.quotes)


def _once(run: Callable[[Mapping[str, Json]], Json]) -> Callable[[Mapping[str, Json]], Json]:
    known: Json = _UNSET

    def remembered(scope: Mapping[str, Json]) -> Json:
        nonlocal known
        if known is _UNSET:
            known = run(scope)
        return known

    return remembered


@dataclass(frozen=True, slots=True)
class MappingTemplate:
    """A map whose keys and texts are templates, or one template that gives the map. Made by `compile_mapping`."""

    _entries: tuple[tuple[Template | str, Template | Json], ...]
    _whole: Template | None = None

    def value(self, scope: Mapping[str, Json], types: tuple[type, ...] = ()) -> Json:
        """The map, without entries that are null or empty. A whole template that gives no map is given as it is."""
        if self._whole is not None:
            return self._whole.value(scope, default={})
        result: dict[str, Json] = {}
        for key, entry in self._entries:
            value = entry.value(scope, types, None) if isinstance(entry, Template) else entry
            if value is not None:
                result[key.render(scope) if isinstance(key, Template) else key] = value
        return result


def compile_mapping(source: Mapping[str, Json] | str, where: str = "") -> MappingTemplate:
    """Compile a map of texts, or a text that gives a map. Values that are no texts are passed through.

    Raises ExpressionError as `compile_template` does.
    """
    if isinstance(source, str):
        return MappingTemplate((), compile_template(source, where))
    return MappingTemplate(
        tuple(
            (_key(key, where), compile_template(value, where) if isinstance(value, str) else value)
            for key, value in source.items()
        )
    )


@dataclass(frozen=True, slots=True)
class NestedTemplate:
    """A value with templates at any depth. Made by `compile_nested`."""

    _source: Json
    _where: str
    _run: Callable[[Mapping[str, Json]], Json]

    def __reduce__(self) -> tuple[Callable[[Json, str], "NestedTemplate"], tuple[Json, str]]:
        return compile_nested, (self._source, self._where)

    def value(self, scope: Mapping[str, Json]) -> Json:
        """The value with every template evaluated; entries of maps that are null or empty texts are left out."""
        return self._run(scope)


def compile_nested(source: Json, where: str = "") -> NestedTemplate:
    """Compile maps, lists and texts, one in the other. Raises ExpressionError as `compile_template`."""
    return NestedTemplate(source, where, _nested(source, where))


def _nested(source: Json, where: str) -> Callable[[Mapping[str, Json]], Json]:
    if isinstance(source, str):
        template = compile_template(source, where)
        return lambda scope: template.value(scope, default=None)
    if isinstance(source, Mapping):
        entries = [(_key(key, where), _nested(value, where)) for key, value in source.items()]

        def build(scope: Mapping[str, Json]) -> dict[str, Json]:
            pairs = [(key.render(scope) if isinstance(key, Template) else key, run(scope)) for key, run in entries]
            return {key: value for key, value in pairs if value is not None}

        return build
    if isinstance(source, list):
        runs = [_nested(item, where) for item in source]
        return lambda scope: [run(scope) for run in runs]
    return lambda _: source


def _key(key: str, where: str) -> Template | str:
    return compile_template(key, where) if _EXPRESSION.search(key) else key
