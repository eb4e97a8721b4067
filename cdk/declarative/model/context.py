"""BuildContext: what a component may use while it builds its runtime: config, parameters, expressions, clocks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Protocol, TypeAlias, TypeVar

from cdk.base.errors import ManifestError
from cdk.base.logs import logger
from cdk.base.times.clock import Clock, Sleep, sleep, system_clock
from cdk.base.times.iso_durations import Duration, later, parse_duration
from cdk.base.values import JsonObject, JsonValue, json_kind
from cdk.declarative.interpolation.errors import ExpressionError
from cdk.declarative.interpolation.template import (
    MappingTemplate,
    NestedTemplate,
    Template,
    broken,
    compile_mapping,
    compile_nested,
    compile_template,
)
from cdk.declarative.model.component import Component
from cdk.rest import Authenticator, OAuth2, RequestsTransport, Transport
from cdk.rest.async_jobs import JobBudget
from cdk.rest.auth.session_token import SessionToken
from cdk.rest.errors.wait_strategies import as_seconds
from cdk.rest.http.origin import CredentialScope
from cdk.rest.limits.budget import Budget

Names: TypeAlias = Mapping[str, object]
"""Names that an expression may use, besides `config` and `parameters`."""

NO_NAMES: Names = {}

T = TypeVar("T")
V = TypeVar("V")


def _ignore(*_: object) -> None: ...


def _as_it_is(error: ManifestError) -> ManifestError:
    return error


class CustomCode(Protocol):
    """Builds the components of a manifest that are Python classes. Hashable, and can be pickled."""

    @property
    def components(self) -> Path | None:
        """The file of the classes; None: `components.py` beside the manifest."""

    def build(self, component: Component, ctx: "BuildContext", *parts: object) -> object:
        """The object behind the interface of the component's family. parts: what the family's `build` gets besides.

        Raises ManifestError: the class is missing, or cannot be built.
        """


@dataclass(slots=True)
class Runtime:
    """What the streams of a source share."""

    transport: Transport = field(default_factory=RequestsTransport)
    clock: Clock = system_clock
    sleep: Sleep = sleep
    learn: Callable[[str], None] = _ignore
    """Called with each secret that a run learns, to hide it."""
    keep: Callable[[Mapping[tuple[str, ...], JsonValue]], None] = _ignore
    """Called with the config values that a run changed, by their path, to save them."""
    limited: Callable[[str, float], None] = _ignore
    """Called with the stream that the API lets wait, and the seconds."""
    located: Callable[[ManifestError], ManifestError] = _as_it_is
    """Gives an error of an expression with its line in the manifest."""
    folder: Path = Path()
    """Where the manifest lies; schema files are looked for there."""
    custom: CustomCode | None = None
    """Builds components that are Python classes of the manifest; None where they may not run."""
    budget: Budget | None = None
    budgeted: Transport | None = None
    """Sends within `budget`, below the caches of all requesters."""
    jobs: JobBudget | None = None
    """How many jobs of asynchronous APIs run at once."""
    parents: frozenset[str] = frozenset()
    """The names of the streams that others read as their parents."""
    selected: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The properties that the catalog selects, by stream; none for a stream that is not listed."""
    authenticators: dict[str, Authenticator] = field(default_factory=dict)
    """Those that streams share, by what tells them apart."""
    logins: dict[str, OAuth2 | SessionToken] = field(default_factory=dict)
    """Likewise, of those that renew tokens."""
    staging: Path | None = None
    """The folder for files of records; None for the one shared with the destination."""
    modules: dict[str, ModuleType] = field(default_factory=dict)
    """The imported modules of custom code, by name."""


@dataclass(frozen=True, slots=True)
class BuildContext:
    """Given to every `build`. Immutable; `within` makes one for a stream.

    config: the connector's config, as its migrations left it. stream: the stream being built, for errors.
    window: the names under which a slice's window is found in expressions. url_base: gives the beginning of the URLs of
    the requester that is being built. scope: gives where credentials may go; None for the origin of each request's URL
    before a page's link is followed.
    """

    config: Mapping[str, JsonValue]
    runtime: Runtime
    stream: str = ""
    window: tuple[str, str] = ("start_time", "end_time")
    url_base: Callable[[], str] | None = None
    scope: Callable[[], CredentialScope] | None = None

    def at(self, url_base: Callable[[], str]) -> "BuildContext":
        """The same for building a part of a requester, whose URLs begin like this."""
        return replace(self, url_base=url_base)

    def within(self, stream: str, window: tuple[str, str] | None = None) -> "BuildContext":
        """The same for building a part of `stream`."""
        return replace(self, stream=stream, window=window or self.window)

    def expression(self, component: Component, field: str, text: JsonValue = None) -> "Expression":
        """The expression in a field of a component, or `text`, which stands in that field.

        Numbers, booleans and other values that are no text are expressions that give themselves.
        """
        value = getattr(component, field) if text is None else text
        base: dict[str, object] = {"config": self.config, "parameters": component.parameters}
        if not isinstance(value, str):
            return Expression(None, base, value)
        template = _compiled(value, self.where(component, field), frozenset(component.parameters))
        return Expression(
            template, base, fixed=template.fixed or (template.names <= base.keys() and not template.varies)
        )

    def strings(self, component: Component, field: str) -> tuple[str, ...]:
        """What the expressions in a list of a component render to, such as the names of a path."""
        return tuple(self.expression(component, field, item).text() for item in getattr(component, field))

    def mapping(self, component: Component, field: str) -> "MappingExpression":
        """The map of expressions in a field of a component: each key and value is one, and null values are left out."""
        value = getattr(component, field)
        base: dict[str, object] = {"config": self.config, "parameters": component.parameters}
        where = self.where(component, field)
        try:
            return MappingExpression(compile_mapping(value or {}, where, frozenset(component.parameters)), base, where)
        except ExpressionError as error:
            return MappingExpression(MappingTemplate((), broken(error)), base, where)

    def nested(self, component: Component, field: str) -> "NestedExpression":
        """The value with expressions inside, at any depth, in a field of a component."""
        base: dict[str, object] = {"config": self.config, "parameters": component.parameters}
        value, where = getattr(component, field), self.where(component, field)
        try:
            return NestedExpression(compile_nested(value, where, frozenset(component.parameters)), base)
        except ExpressionError as error:
            return NestedExpression(NestedTemplate(value, where, broken(error).value), base)

    def number(self, component: Component, field: str, default: T) -> float | T:
        """The number from 0 that a field of a component gives; `default` where the field is null.

        Raises ManifestError: it gives something else.
        """
        return self._read(component, field, default, _number, "a number of at least 0")

    def integer(
        self, component: Component, field: str, default: T, *, least: int | None = None, empty: bool = False
    ) -> int | T:
        """The integer that a field of a component gives, 5.0 is one; `default` where the field is null.

        empty: `default` also where it gives null or an empty string. Raises ManifestError: it gives something else.
        """
        expected = "an integer" if least is None else f"an integer of at least {least}"
        return self._read(component, field, default, partial(_integer, least), expected, empty=empty)

    def duration(self, component: Component, field: str, default: T) -> Duration | T:
        """The duration that a field of a component gives; `default` where the field is null, or gives an empty string.

        Raises ManifestError: it gives something else.
        """
        text = "" if getattr(component, field) is None else self.expression(component, field).text()
        try:
            return parse_duration(text) if text else default
        except ValueError:
            where = self.where(component, field)
            raise ManifestError(f"{where}: found {text!r}, expected a duration such as P1D, PT1H or P1M") from None

    def duration_from_now(self, component: Component, field: str, default: T) -> timedelta | T:
        """The same from now on: how long a month or a year is depends on when it begins."""
        length, now = self.duration(component, field, None), self.runtime.clock()
        return default if length is None else later(now, length) - now

    def _read(
        self,
        component: Component,
        field: str,
        default: T,
        convert: Callable[[JsonValue], V | None],
        expected: str,
        *,
        empty: bool = False,
    ) -> V | T:
        if getattr(component, field) is None:
            return default
        value = self.expression(component, field).value()
        if empty and value in (None, ""):
            return default
        converted = convert(value)
        if converted is None:
            raise ManifestError(f"{self.where(component, field)}: found {value!r}, expected {expected}")
        return converted

    def where(self, component: Component, field: str) -> str:
        """A field of a component, as errors name it."""
        name = component.type_name() or type(component).__name__
        return f"{self.stream}: {name}.{field}" if self.stream else f"{name}.{field}"


def _number(value: JsonValue) -> float | None:
    seconds = as_seconds(value)
    return None if isinstance(value, bool) or seconds is None or seconds < 0 else seconds


def _integer(least: int | None, value: JsonValue) -> int | None:
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    return number if type(number) is int and (least is None or number >= least) else None


def _compiled(text: str, where: str, parameters: frozenset[str]) -> Template:
    try:
        return compile_template(text, where, parameters)
    except ExpressionError as error:
        logger.warning("%s; what uses it will fail", error)
        return broken(error)


@dataclass(slots=True)
class Expression:
    """A text of a manifest that may hold `{{ ... }}`, bound to config and parameters.

    One that reads nothing else is evaluated once, when it is first used.
    """

    template: Template | None
    base: dict[str, object]
    constant: JsonValue = None
    fixed: bool = False
    _known: tuple[JsonValue, str] | None = None

    def value(self, names: Names = NO_NAMES, *, types: tuple[type, ...] = ()) -> JsonValue:
        """The text rendered, as the literal it then is: `"10"` is a number, `"[1]"` a list; `""` is an empty text.

        types: literals of other types stay texts.
        """
        if self.template is None:
            return self.constant
        if self.fixed and not types:
            return self._evaluated()[0]
        return self.template.value({**self.base, **names}, types=types)

    def text(self, names: Names = NO_NAMES) -> str:
        """The text rendered, and nothing more."""
        if self.template is None:
            return "" if self.constant is None else str(self.constant)
        return self._evaluated()[1] if self.fixed else self.template.render({**self.base, **names})

    def true(self, names: Names = NO_NAMES) -> bool:
        """The text as a condition: empty, `False`, `0`, `{}`, `[]`, `()` and `None` are false."""
        return bool(self.constant) if self.template is None else self.template.true({**self.base, **names})

    def scope(self, names: Names = NO_NAMES) -> dict[str, object]:
        """All names the template sees; a loop may change what it adds to it, and ask `template` each time."""
        return {**self.base, **names}

    def _evaluated(self) -> tuple[JsonValue, str]:
        if self._known is None:
            assert self.template is not None
            self._known = (self.template.value(self.base), self.template.render(self.base))
        return self._known


@dataclass(slots=True)
class MappingExpression:
    """A map whose keys and values are expressions."""

    template: MappingTemplate
    base: dict[str, object]
    where: str

    def value(self, names: Names = NO_NAMES, *, types: tuple[type, ...] = ()) -> JsonObject:
        """The map, without the entries that are null.

        types: literals of other types stay texts. Raises ManifestError: it was written as one text that renders to
        something else.
        """
        value = self.template.value({**self.base, **names}, types)
        if not isinstance(value, dict):
            raise ManifestError(f"{self.where}: renders to {json_kind(value)}, expected a map of names to values")
        return value


@dataclass(slots=True)
class NestedExpression:
    """A value with expressions at any depth."""

    template: NestedTemplate
    base: dict[str, object]

    def value(self, names: Names = NO_NAMES) -> JsonValue:
        """The value with every expression in its place."""
        return self.template.value({**self.base, **names})
