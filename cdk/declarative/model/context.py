"""BuildContext: what a component may use while it builds: config, parameters, expressions and clocks."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Protocol, TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from cdk.base.errors import ManifestError
from cdk.base.logs import logger
from cdk.base.times.clock import Clock, Sleep, sleep, system_clock
from cdk.base.times.iso_durations import Duration, later, parse_duration
from cdk.base.values import JsonObject, JsonValue, json_kind
from cdk.declarative.interpolation.errors import ExpressionError
from cdk.declarative.interpolation.missing import missing
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
from cdk.rest import Authenticator, HttpTransport, OAuth2, Transport
from cdk.rest.async_jobs import JobBudget
from cdk.rest.auth.session_token import SessionToken
from cdk.rest.errors.wait_strategies import as_seconds
from cdk.rest.http.origin import CredentialScope
from cdk.rest.limits.budget import Budget

Names: TypeAlias = Mapping[str, object]
"""Names available to an expression in addition to `config` and `parameters`."""

NO_NAMES: Names = {}

T = TypeVar("T")
V = TypeVar("V")


def _ignore(*_: object) -> None: ...


def as_it_is(error: ManifestError) -> ManifestError:
    """Return an error unchanged, for a stream that belongs to no manifest."""
    return error


class CustomCode(Protocol):
    """Builds the components of a manifest that are Python classes. Must be hashable and picklable."""

    @property
    def components(self) -> Path | None:
        """The file that defines the classes; None for `components.py` next to the manifest."""

    def build(self, component: Component, ctx: "BuildContext", *parts: object) -> object:
        """Build the object that the component's family expects. parts: the further arguments of the family's `build`.

        Raises ManifestError: when the class is missing or cannot be built.
        """


class Runtime(Struct):
    """Services and settings shared by the streams of a source."""

    transport: Transport = field(default_factory=HttpTransport)
    clock: Clock = system_clock
    sleep: Sleep = sleep
    learn: Callable[[str], None] = _ignore
    """Called with each secret obtained during the run, so that it is masked."""
    save_config: Callable[[Mapping[tuple[str, ...], JsonValue]], None] = _ignore
    """Called with the config values that the run changed, by their path, to save them."""
    on_rate_limited: Callable[[str, float], None] = _ignore
    """Called with a stream's name and the seconds it has to wait because of an API limit."""
    located: Callable[[ManifestError], ManifestError] = as_it_is
    """Returns an error of an expression with its line in the manifest added."""
    folder: Path = Path()
    """The folder of the manifest; schema files are looked up there."""
    custom: CustomCode | None = None
    """Builds components that are Python classes of the manifest; None if they may not run."""
    budget: Budget | None = None
    budgeted: Transport | None = None
    """The transport that enforces `budget`; sits below the response caches of all requesters."""
    jobs: JobBudget | None = None
    """Limits how many jobs of asynchronous APIs run at once."""
    parents: frozenset[str] = frozenset()
    """The names of the streams that other streams read as their parents."""
    selected: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    """The properties that the catalog selects, by stream; None, or a stream that is not listed: all of them."""
    authenticators: dict[str, Authenticator] = field(default_factory=dict)
    """Authenticators that streams share, by the key that identifies them."""
    logins: dict[str, OAuth2 | SessionToken] = field(default_factory=dict)
    """Shared authenticators that renew tokens, by the key that identifies them."""
    staging: Path | None = None
    """The folder for files of records; None for the folder shared with the destination."""
    modules: dict[str, ModuleType] = field(default_factory=dict)
    """The imported modules of custom code, by name."""


class BuildContext(Struct, frozen=True):
    """The context passed to every `build`. Immutable; `within` makes one for a stream.

    config: the connector's config after its migrations. stream: the stream being built, for errors. window: the names
    in expressions for the start and end of a slice's window. url_base: returns the base URL of the requester being
    built. scope: returns where credentials may be sent; None for the origin of each request's URL before a page's link
    is followed.
    """

    config: Mapping[str, JsonValue]
    runtime: Runtime
    stream: str = ""
    window: tuple[str, str] = ("start_time", "end_time")
    url_base: Callable[[], str] | None = None
    scope: Callable[[], CredentialScope] | None = None

    def at(self, url_base: Callable[[], str]) -> "BuildContext":
        """Return the context for building a part of a requester with this base URL."""
        return replace(self, url_base=url_base)

    def within(self, stream: str, window: tuple[str, str] | None = None) -> "BuildContext":
        """Return the context for building a part of `stream`."""
        return replace(self, stream=stream, window=window or self.window)

    def expression(self, component: Component, field: str, text: JsonValue = None) -> "Expression":
        """Return the expression in a field of a component, or the expression `text`, a part of that field's value.

        A value that is not a string, such as a number or a boolean, becomes an expression that evaluates to itself.
        """
        value, base = getattr(component, field) if text is None else text, self._base(component)
        if not isinstance(value, str):
            return Expression(None, base, value)
        template = _compiled(value, self.where(component, field), frozenset(component.parameters))
        return Expression(
            template, base, fixed=template.fixed or (template.names <= base.keys() and not template.varies)
        )

    def strings(self, component: Component, field: str) -> tuple[str, ...]:
        """Return the rendered expressions of a list field, such as the names of a path."""
        return tuple(self.expression(component, field, item).text() for item in getattr(component, field))

    def mapping(self, component: Component, field: str) -> "MappingExpression":
        """Return the map of expressions in a field: keys and values are expressions, and null values are omitted."""
        value, where, base = getattr(component, field), self.where(component, field), self._base(component)
        try:
            return MappingExpression(compile_mapping(value or {}, where, frozenset(component.parameters)), base, where)
        except ExpressionError as error:
            return MappingExpression(MappingTemplate((), broken(error)), base, where)

    def nested(self, component: Component, field: str, value: JsonValue = None) -> "NestedExpression":
        """Return the value in a field of a component, or the value in its place, with expressions at any depth."""
        value = getattr(component, field) if value is None else value
        where, base = self.where(component, field), self._base(component)
        try:
            return NestedExpression(compile_nested(value, where, frozenset(component.parameters)), base)
        except ExpressionError as error:
            return NestedExpression(NestedTemplate(value, where, broken(error).value), base)

    def _base(self, component: Component) -> dict[str, object]:
        return {"config": self.config, "parameters": component.parameters}

    def number(self, component: Component, field: str, default: T) -> float | T:
        """Return the number in a field of a component; `default` if the field is null.

        Raises ManifestError: when the field evaluates to anything but a number of at least 0.
        """
        return self._read(component, field, default, _number, "a number of at least 0")

    def integer(
        self, component: Component, field: str, default: T, *, least: int | None = None, empty: bool = False
    ) -> int | T:
        """Return the integer in a field of a component (5.0 counts as one); `default` if the field is null.

        empty: return `default` also if the field evaluates to null or an empty string.
        Raises ManifestError: when it evaluates to anything but an integer of at least `least`.
        """
        expected = "an integer" if least is None else f"an integer of at least {least}"
        return self._read(component, field, default, partial(_integer, least), expected, empty=empty)

    def duration(self, component: Component, field: str, default: T) -> Duration | T:
        """Return the duration in a field of a component; `default` if the field is null or renders to an empty string.

        Raises ManifestError: when it evaluates to anything but a duration.
        """
        text = "" if getattr(component, field) is None else self.expression(component, field).text()
        try:
            return parse_duration(text) if text else default
        except ValueError:
            where = self.where(component, field)
            raise ManifestError(f"{where}: found {text!r}, expected a duration such as P1D, PT1H or P1M") from None

    def duration_from_now(self, component: Component, field: str, default: T) -> timedelta | T:
        """Return the same duration measured from now: the length of a month or a year depends on its start."""
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
        expression = self.expression(component, field)
        value = expression.value()
        if empty and value in (None, ""):
            return default
        converted = convert(value)
        if converted is None:
            raise self.unfit(component, field, expression, expected)
        return converted

    def unfit(self, component: Component, field: str, expression: "Expression", expected: str) -> ManifestError:
        """Return the error for a field whose expression evaluates to another value than expected."""
        value = expression.value()
        absent = expression.missing() if value in (None, "") else ""
        reason = f"; it reads {absent}" if absent else ""
        return ManifestError(f"{self.where(component, field)}: found {value!r}, expected {expected}{reason}")

    def where(self, component: Component, field: str) -> str:
        """Return the name of a component's field as errors show it."""
        name = component.type_name or type(component).__name__
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
        logger.warning("%s; streams that use it will fail", error)
        return broken(error)


class Expression(Struct):
    """A string of a manifest that may hold `{{ ... }}`, bound to config and parameters.

    An expression that reads nothing else is evaluated once, on first use.
    """

    template: Template | None
    base: dict[str, object]
    constant: JsonValue = None
    fixed: bool = False
    _known: tuple[JsonValue, str] | None = None

    def value(self, names: Names = NO_NAMES, *, types: tuple[type, ...] = ()) -> JsonValue:
        """Return the rendered text parsed as a literal: `"10"` is a number, `"[1]"` a list, `""` an empty string.

        types: literals of other types stay strings.
        """
        if self.template is None:
            return self.constant
        if self.fixed and not types:
            return self._evaluated()[0]
        return self.template.value({**self.base, **names}, types=types)

    def text(self, names: Names = NO_NAMES) -> str:
        """Return the rendered text without parsing it as a literal."""
        if self.template is None:
            return "" if self.constant is None else str(self.constant)
        return self._evaluated()[1] if self.fixed else self.template.render({**self.base, **names})

    def true(self, names: Names = NO_NAMES) -> bool:
        """Whether the rendered text holds as a condition: empty, `False`, `0`, `{}`, `[]`, `()` and `None` do not."""
        return bool(self.constant) if self.template is None else self.template.true({**self.base, **names})

    def scope(self, names: Names = NO_NAMES) -> dict[str, object]:
        """Return all names the template sees. A loop may add names of its own and evaluate `template` each time."""
        return {**self.base, **names}

    def missing(self) -> str:
        """Return what it reads of the config and is missing there, for errors; empty if nothing is."""
        return "" if self.template is None else missing(self.template.paths, self.base)

    def _evaluated(self) -> tuple[JsonValue, str]:
        if self._known is None:
            assert self.template is not None
            self._known = (self.template.value(self.base), self.template.render(self.base))
        return self._known


class MappingExpression(Struct):
    """A map whose keys and values are expressions."""

    template: MappingTemplate
    base: dict[str, object]
    where: str

    def value(self, names: Names = NO_NAMES, *, types: tuple[type, ...] = ()) -> JsonObject:
        """Return the map, without entries that are null.

        types: literals of other types stay strings.
        Raises ManifestError: when the map is written as a single expression that does not render to a map.
        """
        value = self.template.value({**self.base, **names}, types)
        if not isinstance(value, dict):
            raise ManifestError(f"{self.where}: renders to {json_kind(value)}, expected a map of names to values")
        return value


class NestedExpression(Struct):
    """A value with expressions at any depth."""

    template: NestedTemplate
    base: dict[str, object]

    def value(self, names: Names = NO_NAMES) -> JsonValue:
        """Return the value with every expression evaluated."""
        return self.template.value({**self.base, **names})
