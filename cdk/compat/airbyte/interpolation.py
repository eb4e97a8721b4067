"""Templates that custom components evaluate themselves."""

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from typing import TypeAlias

from cdk.base.values import JsonObject, JsonValue
from cdk.compat.airbyte.plain_types import Config, Parameters, WithParameters
from cdk.declarative.interpolation.errors import EvaluationError
from cdk.declarative.interpolation.template import compile_nested, compile_template

_WHERE = "a custom component"
_Types: TypeAlias = tuple[type, ...] | None


@dataclass
class InterpolatedString(WithParameters):
    """A string that may contain `{{ ... }}`; a value of another type evaluates to itself."""

    string: JsonValue
    parameters: InitVar[Parameters]
    default: JsonValue = None

    @classmethod
    def create(
        cls, string_or_interpolated: "JsonValue | InterpolatedString", *, parameters: Parameters
    ) -> "InterpolatedString":
        """Wrap a string; an InterpolatedString is returned as it is."""
        if isinstance(string_or_interpolated, InterpolatedString):
            return string_or_interpolated
        return cls(string_or_interpolated, parameters=parameters)

    def eval(self, config: Config, *, valid_types: _Types = None, **names: object) -> JsonValue:
        """Render the string and parse the result as a literal; return `default`, if set, for an empty result."""
        if not isinstance(self.string, str):
            return self.string
        scope = _scope(config, self._parameters, names)
        if self.default is None:
            return compile_template(self.string, _WHERE).value(scope, types=valid_types or ())
        return _value(self.string, scope, self.default, valid_types)

    def text(self, config: Config) -> str:
        """The result of `eval` as a string."""
        return str(self.eval(config))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InterpolatedString) and self.string == other.string

    __hash__ = None  # type: ignore[assignment] # like other dataclasses with equality


Text: TypeAlias = JsonValue | InterpolatedString
"""The value of a component's field that is evaluated: as the manifest has it, or wrapped by custom code."""


def text_of(value: Text, config: Config) -> str:
    """Evaluate a field, and return the result as a string."""
    return InterpolatedString.create(value, parameters={}).text(config)


@dataclass
class InterpolatedBoolean(WithParameters):
    """A condition that evaluates to true or false, for a config and names."""

    condition: JsonValue
    parameters: InitVar[Parameters]

    def eval(self, config: Config, **names: object) -> bool:
        if not isinstance(self.condition, str):
            return bool(self.condition)
        return compile_template(self.condition, _WHERE).true(_scope(config, self._parameters, names))


@dataclass
class InterpolatedMapping(WithParameters):
    """A map whose keys and values are templates."""

    mapping: Mapping[str, JsonValue]
    parameters: InitVar[Parameters]

    def eval(self, config: Config, *, valid_types: _Types = None, **names: object) -> JsonObject:
        """Evaluate keys and values; empty results become None."""
        scope = _scope(config, self._parameters, names)
        return {
            _value(name, scope, None, valid_types): _value(value, scope, None, valid_types)  # type: ignore[misc] # keys
            for name, value in self.mapping.items()
        }


@dataclass
class InterpolatedNestedMapping(WithParameters):
    """A JSON value with templates at any depth."""

    mapping: JsonValue
    parameters: InitVar[Parameters]

    def eval(self, config: Config, **names: object) -> JsonValue:
        return compile_nested(self.mapping, _WHERE).value(_scope(config, self._parameters, names))


class JinjaInterpolation:
    """Evaluates templates that the caller passes to `eval`."""

    def eval(
        self,
        input_str: JsonValue,
        config: Config,
        default: JsonValue = None,
        *,
        valid_types: _Types = None,
        **names: object,
    ) -> JsonValue:
        """Render a string; return `default` if the result is empty or the template reads from an undefined value."""
        return _value(input_str, _scope(config, {}, names), default, valid_types)


@dataclass
class InterpolatedRequestInputProvider(WithParameters):
    """One part of a request, as a map of templates or as a single template."""

    parameters: InitVar[Parameters]
    request_inputs: JsonValue = None
    config: Config = field(default_factory=dict)

    def eval_request_inputs(self, *args: object, **kwargs: object) -> JsonValue:
        """Evaluate the part, without null entries. The last two arguments by position: the slice and the page token."""
        names = dict(zip(("next_page_token", "stream_slice"), reversed(args), strict=False)) | kwargs
        names = {name: names.get(name) or {} for name in ("stream_slice", "next_page_token")}
        return part(self.request_inputs, self.config, self._parameters, names)


def part(inputs: JsonValue, config: Config, parameters: Parameters, names: Mapping[str, object]) -> JsonValue:
    """Evaluate one part of a request from a map of templates or a single template, without null entries."""
    scope = _scope(config, parameters, names)
    if isinstance(inputs, str):
        return compile_template(inputs, _WHERE).value(scope, types=(str, dict))
    value = compile_nested(inputs or {}, _WHERE).value(scope)
    return {name: item for name, item in value.items() if item is not None} if isinstance(value, dict) else value


def _value(text: JsonValue, scope: Mapping[str, object], default: JsonValue, types: _Types) -> JsonValue:
    """Render a string and parse the result as a literal; for an empty result, do the same with `default`."""
    if not isinstance(text, str):
        return text
    try:
        value = compile_template(text, _WHERE).value(scope, types=types or ())
    except EvaluationError as error:
        if type(error.__context__).__name__ != "UndefinedError":
            raise
        value = ""
    if value != "":
        return value
    return None if default is None else _value(default, scope, None, types)


def _scope(config: Config, parameters: Parameters, names: Mapping[str, object]) -> dict[str, object]:
    scope: dict[str, object] = {"config": config, "parameters": parameters, **names}
    if (slice := names.get("stream_slice")) is not None:
        scope = {"stream_partition": slice, "stream_interval": slice, **getattr(slice, "extra_fields", {}), **scope}
    return scope
