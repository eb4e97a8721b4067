"""AddFields: the transformation that custom components extend."""

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field

from cdk.base.values import Json
from cdk.compat.airbyte.interpolation import InterpolatedBoolean, InterpolatedString
from cdk.compat.airbyte.records import RecordTransformation
from cdk.declarative.syntax.json_edit import set_at


@dataclass
class AddedFieldDefinition:
    """A field to set: its path, and an expression for its value."""

    path: list[str]
    value: Json
    value_type: type | None
    parameters: InitVar[Mapping[str, Json]]


@dataclass
class ParsedAddFieldDefinition:
    """The same, with the expression compiled."""

    path: list[str]
    value: InterpolatedString
    value_type: type | None
    parameters: InitVar[Mapping[str, Json]]


@dataclass
class AddFields(RecordTransformation):
    """Sets fields of records."""

    fields: list[Json]
    parameters: InitVar[Mapping[str, Json]]
    condition: str = ""
    _parsed_fields: list[ParsedAddFieldDefinition] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self, parameters: Mapping[str, Json]) -> None:
        self._filter_interpolator = InterpolatedBoolean(condition=self.condition, parameters=parameters)
        for written in self.fields:
            # Fields of a manifest come as its components, or, without a type, as they are written.
            item = AddedFieldDefinition(**{**_UNTYPED, **written}) if isinstance(written, dict) else written
            value = InterpolatedString.create(item.value, parameters=parameters)
            value_type = item.value_type
            kind = _TYPES.get(value_type) if isinstance(value_type, str) else value_type
            self._parsed_fields.append(ParsedAddFieldDefinition(list(item.path), value, kind, parameters))

    def transform(
        self,
        record: dict[str, Json],
        config: Mapping[str, Json] | None = None,
        stream_state: Mapping[str, Json] | None = None,  # noqa: ARG002
        stream_slice: Mapping[str, Json] | None = None,
    ) -> None:
        names = {"record": record, "stream_slice": stream_slice}
        for item in self._parsed_fields:
            types = None if item.value_type is None else (item.value_type,)
            value = item.value.eval(config or {}, valid_types=types, **names)
            if not self.condition or self._filter_interpolator.eval(config or {}, value=value, path=item.path, **names):
                set_at(record, item.path, value)


_UNTYPED: dict[str, Json] = {"value_type": None, "parameters": {}}
_TYPES: Mapping[str, type] = {"string": str, "number": float, "integer": int, "boolean": bool}
