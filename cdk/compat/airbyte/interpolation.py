"""Texts with expressions, as custom components evaluate them themselves."""

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field

from cdk.base.values import Json
from cdk.declarative.interpolation.errors import EvaluationError
from cdk.declarative.interpolation.template import compile_nested, compile_template

_WHERE = "a custom component"


@dataclass
class InterpolatedString:
    """A text that may hold `{{ ... }}`."""

    string: Json
    parameters: InitVar[Mapping[str, Json]]
    default: Json = None

    def __post_init__(self, parameters: Mapping[str, Json]) -> None:
        self._parameters = parameters or {}

    @classmethod
    def create(cls, string_or_interpolated: Json, *, parameters: Mapping[str, Json]) -> "InterpolatedString":
        """One made of a text; one that is one already is given back."""
        if isinstance(string_or_interpolated, InterpolatedString):
            return string_or_interpolated
        return cls(string_or_interpolated, parameters=parameters)

    def eval(self, config: Mapping[str, Json], **kwargs: Json) -> Json:
        """The text rendered, as the literal it then is; `default`, where there is one, in place of an empty text."""
        if not isinstance(self.string, str):
            return self.string
        types = kwargs.pop("valid_types", None) or ()
        scope = _scope(config, self._parameters, kwargs)
        if self.default is None:
            return compile_template(self.string, _WHERE).value(scope, types=types)
        return _value(self.string, scope, self.default, types)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InterpolatedString) and self.string == other.string

    __hash__ = None  # type: ignore[assignment] # as a dataclass with equality


@dataclass
class InterpolatedBoolean:
    """A condition."""

    condition: Json
    parameters: InitVar[Mapping[str, Json]]

    def __post_init__(self, parameters: Mapping[str, Json]) -> None:
        self._parameters = parameters or {}

    def eval(self, config: Mapping[str, Json], **kwargs: Json) -> bool:
        if not isinstance(self.condition, str):
            return bool(self.condition)
        return compile_template(self.condition, _WHERE).true(_scope(config, self._parameters, kwargs))


@dataclass
class InterpolatedMapping:
    """A map of expressions."""

    mapping: Mapping[str, Json]
    parameters: InitVar[Mapping[str, Json]]

    def __post_init__(self, parameters: Mapping[str, Json]) -> None:
        self._parameters = parameters or {}

    def eval(self, config: Mapping[str, Json], **kwargs: Json) -> dict[str, Json]:
        """The map with its expressions evaluated: what is empty is None."""
        types = kwargs.pop("valid_types", None) or ()
        scope = _scope(config, self._parameters, kwargs)
        return {
            _value(name, scope, None, types): _value(value, scope, None, types) for name, value in self.mapping.items()
        }


@dataclass
class InterpolatedNestedMapping:
    """A value with expressions at any depth."""

    mapping: Json
    parameters: InitVar[Mapping[str, Json]]

    def __post_init__(self, parameters: Mapping[str, Json]) -> None:
        self._parameters = parameters or {}

    def eval(self, config: Mapping[str, Json], **kwargs: Json) -> Json:
        """The value with its expressions evaluated."""
        return compile_nested(self.mapping, _WHERE).value(_scope(config, self._parameters, kwargs))


class JinjaInterpolation:
    """Evaluates texts."""

    def eval(self, input_str: Json, config: Mapping[str, Json], default: Json = None, **kwargs: Json) -> Json:
        """The text rendered; `default` when it is empty, or reads from something that is missing."""
        types = kwargs.pop("valid_types", None) or ()
        return _value(input_str, _scope(config, {}, kwargs), default, types)


@dataclass
class InterpolatedRequestInputProvider:
    """A map, or a text, of expressions that makes one part of a request."""

    parameters: InitVar[Mapping[str, Json]]
    request_inputs: Json = None
    config: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self, parameters: Mapping[str, Json]) -> None:
        self._parameters = parameters or {}

    def eval_request_inputs(self, *args: Json, **kwargs: Json) -> Json:
        """The map, without what is empty. The last two arguments are the slice and the page token."""
        names = {"stream_slice": None, "next_page_token": None, **dict(zip(("next_page_token", "stream_slice"),
                 reversed(args), strict=False)), **kwargs}  # fmt: skip
        names = {name: names[name] or {} for name in ("stream_slice", "next_page_token")}
        return part(self.request_inputs, self.config, self._parameters, names)


def part(inputs: Json, config: Mapping[str, Json], parameters: Mapping[str, Json], names: Mapping[str, Json]) -> Json:
    """One part of a request, as a map or a text of expressions gives it; entries that are null are left out."""
    scope = _scope(config, parameters, names)
    if isinstance(inputs, str):
        return compile_template(inputs, _WHERE).value(scope, types=(str, dict))
    value = compile_nested(inputs or {}, _WHERE).value(scope)
    return {name: item for name, item in value.items() if item is not None} if isinstance(value, dict) else value


def _value(text: Json, scope: Mapping[str, Json], default: Json, types: tuple[type, ...]) -> Json:
    """A text rendered, as the literal it then is; `default`, rendered, in place of nothing."""
    if not isinstance(text, str):
        return text
    try:
        value = compile_template(text, _WHERE).value(dict(scope), types=types)
    except EvaluationError as error:
        if type(error.__context__).__name__ != "UndefinedError":
            raise
        value = ""
    if value != "":
        return value
    return None if default is None else _value(default, scope, None, types)


def _scope(config: Mapping[str, Json], parameters: Mapping[str, Json], names: Mapping[str, Json]) -> dict[str, Json]:
    scope = {"config": config, "parameters": parameters, **names}
    if (slice := names.get("stream_slice")) is not None:
        scope = {"stream_partition": slice, "stream_interval": slice, **getattr(slice, "extra_fields", {}), **scope}
    return scope
