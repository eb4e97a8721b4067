"""Templates: texts of a manifest with `{{ expressions }}`, compiled once and evaluated many times."""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from functools import lru_cache
from typing import NoReturn

from msgspec import Struct

from cdk.base.first_use import lazy_pattern
from cdk.base.values import JsonObject, JsonValue
from cdk.declarative.interpolation.errors import EvaluationError, ExpressionError
from cdk.declarative.interpolation.evaluation import Column, Evaluation, Run, Scope, one_by_one
from cdk.declarative.interpolation.explain import why
from cdk.declarative.interpolation.literals import STARTS, all_typed, literal, typed
from cdk.declarative.interpolation.lookups import lookups

_EXPRESSION = lazy_pattern(r"\{[{%#]")


class _Unset(Enum):
    """Marks a missing default, since a default may itself be None."""

    UNSET = auto()


_UNSET = _Unset.UNSET
_NOTHING: frozenset[str] = frozenset()
_FALSE = frozenset(("", "False", "false", "{}", "[]", "()", "set()", "0", "0.0"))


class Template(Struct):
    """A compiled text. Create it with `compile_template`.

    names, paths: what it reads from the scope, see Evaluation. varies: it calls a macro whose result changes, such as
    `now_utc`.
    """

    text: str
    where: str
    names: frozenset[str]
    varies: bool
    _run: Run
    _column: Column
    _quotes: bool = False
    paths: Sequence[tuple[str, ...]] = ()

    def __reduce__(self) -> tuple[Callable[[str, str], "Template"], tuple[str, str]]:
        # Compiled functions cannot be pickled, so the text is pickled instead.
        return compile_template, (self.text, self.where)

    @property
    def fixed(self) -> bool:
        """Whether it reads no names and calls nothing that varies."""
        return not self.names and not self.varies

    def value(self, scope: Scope, types: tuple[type, ...] = (), default: JsonValue | _Unset = _UNSET) -> JsonValue:
        """Return the rendered text parsed as a literal: `10` a number, `[1]` a list, `hello` a string.

        types: literals of other types stay strings.
        default: returned instead if the text is empty or the expression reads from a missing value.
        Raises ExpressionError: when it cannot be evaluated.
        """
        try:
            return self._meaning(self._run(scope), types, default)
        except ExpressionError:
            raise
        except Exception as error:  # noqa: BLE001 - any failure of an expression is the manifest's error
            # Jinja is imported lazily, so its error is recognised by name.
            if default is not _UNSET and type(error).__name__ == "UndefinedError":
                return default
            raise self._failed(error, scope) from None

    def values(self, scope: Scope, records: Sequence[object], types: tuple[type, ...] = ()) -> list[JsonValue]:
        """Return the results of `value` for scopes in which `record` is each of the records.

        Raises ExpressionError: when it cannot be evaluated for one of them.
        """
        try:
            values = self._column(scope, records)
            if types:
                return [self._meaning(value, types) for value in values]
            return all_typed(values)
        except Exception:  # noqa: BLE001 - evaluated again to find the record that fails
            return one_by_one(lambda names: self.value(names, types))(scope, records)

    def _meaning(self, result: object, types: tuple[type, ...] = (), default: JsonValue | _Unset = _UNSET) -> JsonValue:
        """Return the result of an evaluation, parsed as a literal."""
        if type(result) is str:
            if not result:
                return "" if default is _UNSET else default
            if result[0] not in STARTS:
                return result
        value = typed(result)
        if default is not _UNSET and value == "" and not str(result):
            return default
        return value if not types or isinstance(value, types) else str(result)

    def render(self, scope: Scope) -> str:
        """Return the rendered text. Raises ExpressionError: when it cannot be evaluated."""
        try:
            text = str(self._run(scope))
        except ExpressionError:
            raise
        except Exception as error:  # noqa: BLE001 - any failure of an expression is the manifest's error
            raise self._failed(error, scope) from None
        return str(literal(text)) if self._quotes and text[:3] == '"""' else text

    def true(self, scope: Scope) -> bool:
        """Whether the value holds as a condition: empty, `False`, `false`, `0`, `{}`, `[]`, `()` and `None` do not.

        A comparison of values that cannot be compared (`None > '2024'`) holds: filters then keep the record, and
        existing manifests rely on this.
        """
        try:
            return self._holds(self._run(scope))
        except Exception:  # noqa: BLE001 - evaluated again to explain the failure
            return self._holds_or_fails(scope)

    def matching(self, scope: Scope, records: Sequence[JsonObject]) -> list[JsonObject]:
        """Return the records for which `true` holds, each as `record` in the scope."""
        try:
            values = self._column(scope, records)
            return [
                record for record, value in zip(records, values, strict=True) if value is True or self._holds(value)
            ]
        except Exception:  # noqa: BLE001 - evaluated again, record by record
            hold = one_by_one(self.true)(scope, records)
            return [record for record, holds in zip(records, hold, strict=True) if holds]

    def _holds(self, result: object) -> bool:
        if result is True or result is False:
            return result
        value = self._meaning(result, default=False)
        if type(value) is bool:
            return value
        return value not in _FALSE if type(value) is str else bool(value)

    def _holds_or_fails(self, scope: Scope) -> bool:
        try:
            return self._holds(self.value(scope, default=False))
        except ExpressionError as error:
            if error.incomparable:
                return True
            raise

    def _failed(self, error: Exception, scope: Scope) -> ExpressionError:
        reason = why(error, self.text, self.names, scope, self.paths)
        return EvaluationError(self.where, self.text, reason, incomparable=isinstance(error, TypeError))


def broken(error: ExpressionError) -> Template:
    """Return a template for a text that cannot be compiled: it raises the error when it is evaluated.

    A stream that uses removed parts of the language must not prevent the others from being read.
    """

    def fail(_: Scope) -> NoReturn:
        raise error

    return Template(error.expression, error.path, _NOTHING, varies=True, _run=fail, _column=one_by_one(fail))


def has_expression(text: str) -> bool:
    """Whether a text contains anything to evaluate, or a comment."""
    return _EXPRESSION.search(text) is not None


@lru_cache(maxsize=8192)
def compile_template(text: str, where: str = "", parameters: frozenset[str] | None = None) -> Template:
    """Compile a text. where: its place in the manifest, for errors. parameters: the names of the known parameters.

    Raises ExpressionError: when its syntax is wrong, or it names an unknown filter or the removed `stream_state`.
    """
    if not has_expression(text):
        # Jinja drops one newline at the end of a template, so a text without expressions must lose it too.
        plain = text.removesuffix("\n")
        evaluation = _constant(lambda _: plain)
    else:

        def built() -> Evaluation:
            from cdk.declarative.interpolation.build import build  # noqa: PLC0415 - imports Jinja

            return build(text, where, parameters)

        evaluation = lookups(text, parameters, built) or built()
        if not evaluation.names and not evaluation.varies:
            evaluation = _constant(evaluation.run, quotes=evaluation.quotes)
    return Template(
        text,
        where,
        evaluation.names,
        evaluation.varies,
        evaluation.run,
        evaluation.column,
        evaluation.quotes,
        evaluation.paths,
    )


def _constant(run: Run, *, quotes: bool = False) -> Evaluation:
    """Return an evaluation that runs once and caches its result."""
    known: object = _UNSET

    def remembered(scope: Scope) -> object:
        nonlocal known
        if known is _UNSET:
            known = run(scope)
        return known

    return Evaluation(remembered, one_by_one(remembered), _NOTHING, quotes=quotes)


class _Plain(Struct, frozen=True):
    """A value without expressions, used in place of a template."""

    constant: JsonValue

    def value(self, scope: Scope, types: tuple[type, ...] = (), default: JsonValue = None) -> JsonValue:  # noqa: ARG002
        return self.constant

    def render(self, scope: Scope) -> str:  # noqa: ARG002 - the signature of Template
        return str(self.constant)


class MappingTemplate(Struct, frozen=True):
    """A map whose keys and strings are templates, or one template for the map. Created by `compile_mapping`."""

    _entries: tuple[tuple[Template | _Plain, Template | _Plain], ...]
    _single: Template | None = None

    def value(self, scope: Scope, types: tuple[type, ...] = ()) -> JsonValue:
        """Return the map, without null or empty entries. If a single template renders to another type, return that."""
        if self._single is not None:
            return self._single.value(scope, default={})
        result: JsonObject = {}
        for key, entry in self._entries:
            value = entry.value(scope, types, None)
            if value is not None:
                result[key.render(scope)] = value
        return result


def compile_mapping(
    source: Mapping[str, JsonValue] | str, where: str = "", parameters: frozenset[str] | None = None
) -> MappingTemplate:
    """Compile a map of texts, or a text that renders to a map. Values that are not strings are passed through.

    Raises ExpressionError as `compile_template` does.
    """
    if isinstance(source, str):
        return MappingTemplate((), compile_template(source, where, parameters))
    return MappingTemplate(
        tuple(
            (_key(key, where), compile_template(value, where, parameters) if isinstance(value, str) else _Plain(value))
            for key, value in source.items()
        )
    )


class NestedTemplate(Struct, frozen=True):
    """A value with templates at any depth. Created by `compile_nested`."""

    _source: JsonValue
    _where: str
    _run: Callable[[Scope], JsonValue]

    def __reduce__(self) -> tuple[Callable[[JsonValue, str], "NestedTemplate"], tuple[JsonValue, str]]:
        return compile_nested, (self._source, self._where)

    def value(self, scope: Scope) -> JsonValue:
        """Return the value with every template evaluated; map entries that are null or empty strings are omitted."""
        return self._run(scope)


def compile_nested(source: JsonValue, where: str = "", parameters: frozenset[str] | None = None) -> NestedTemplate:
    """Compile nested maps, lists and texts. Raises ExpressionError as `compile_template` does."""
    return NestedTemplate(source, where, _nested(source, where, parameters))


def _nested(source: JsonValue, where: str, parameters: frozenset[str] | None) -> Callable[[Scope], JsonValue]:
    if isinstance(source, str):
        template = compile_template(source, where, parameters)
        return lambda scope: template.value(scope, default=None)
    if isinstance(source, Mapping):
        entries = [(_key(key, where), _nested(value, where, parameters)) for key, value in source.items()]

        def build(scope: Scope) -> JsonObject:
            pairs = [(key.render(scope), run(scope)) for key, run in entries]
            return {key: value for key, value in pairs if value is not None}

        return build
    if isinstance(source, list):
        runs = [_nested(item, where, parameters) for item in source]
        return lambda scope: [run(scope) for run in runs]
    return lambda _: source


def _key(key: str, where: str) -> Template | _Plain:
    return compile_template(key, where) if has_expression(key) else _Plain(key)
