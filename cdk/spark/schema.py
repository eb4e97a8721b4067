"""JSON Schema -> the columns of a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from cdk.base.values import Json, JsonSchema

MOMENT = pa.timestamp("us", tz="UTC")

# The kit's own columns, named as Airbyte's destinations name them.
RAW_ID, EXTRACTED_AT, META, GENERATION = (
    "_airbyte_raw_id",
    "_airbyte_extracted_at",
    "_airbyte_meta",
    "_airbyte_generation_id",
)
ADDITIONAL = "_airbyte_additional"
CHANGE = pa.struct([(name, pa.string()) for name in ("field", "change", "reason", "original")])
OWN_COLUMNS: Mapping[str, pa.DataType] = {
    ADDITIONAL: pa.string(),
    RAW_ID: pa.string(),
    EXTRACTED_AT: MOMENT,
    META: pa.struct([("changes", pa.list_(CHANGE))]),
    GENERATION: pa.int64(),
}

# Delta's log holds a schema of 40 levels and fails at 60 (delta-rs 1.6).
_DEEPEST = 30

_SCALARS: Mapping[str, pa.DataType] = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}


@dataclass(frozen=True)
class JsonText:
    """A column whose values are kept as JSON text, because the schema does not say enough for a column type."""


ColumnType: TypeAlias = pa.DataType | JsonText


def columns(schema: JsonSchema) -> dict[str, ColumnType]:
    """The type of each declared property of a record, in the schema's order.

    An object with declared properties becomes a struct and an array with declared items a list; what is declared
    less precisely is kept as JSON text. Types are never narrower than the schema. Tables do not tell `id` from `ID`:
    a property that differs from an earlier one, or from one of the kit's own columns, in case alone gets no column.
    """
    taken = set(OWN_COLUMNS)
    declared = {}
    for name, kind in _properties(schema).items():
        if name.lower() not in taken:
            taken.add(name.lower())
            declared[name] = _type(kind)
    return declared


def table_schema(declared: Mapping[str, ColumnType]) -> pa.Schema:
    """The Arrow schema of a table: the declared columns, then the kit's own. Everything is nullable."""
    fields = [(name, pa.string() if isinstance(kind, JsonText) else kind) for name, kind in declared.items()]
    return pa.schema([*fields, *OWN_COLUMNS.items()])


def _type(declared: Json, depth: int = 1) -> ColumnType:
    if not isinstance(declared, Mapping) or depth > _DEEPEST:
        return JsonText()
    match _names(declared.get("type")):
        case ["integer", "number"]:
            kind: ColumnType = pa.float64()
        case ["string"]:
            kind = MOMENT if declared.get("format") == "date-time" else pa.string()
        case ["object"]:
            kind = _struct(_properties(declared), depth + 1)
        case ["array"]:
            inner = _type(declared.get("items"), depth + 1)
            kind = inner if isinstance(inner, JsonText) else pa.list_(inner)
        case [name]:
            kind = _SCALARS.get(name, JsonText())
        case _:
            kind = JsonText()
    return kind


def _struct(properties: Mapping[str, Json], depth: int) -> ColumnType:
    fields = {name: _type(declared, depth) for name, declared in properties.items()}
    precise = [(name, kind) for name, kind in fields.items() if not isinstance(kind, JsonText)]
    # A struct that could not hold all that is declared would drop the rest.
    whole = fields and len(precise) == len(fields) == len({name.lower() for name in fields})
    return pa.struct(precise) if whole else JsonText()


def _properties(schema: Json) -> Mapping[str, Json]:
    """The declared properties; a schema of another shape, such as `true`, declares none."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return properties if isinstance(properties, Mapping) else {}


def _names(kind: Json) -> list[str]:
    """The types a value may have beside null, sorted; none when the schema names something else than types."""
    kinds = kind if isinstance(kind, list) else [kind]
    if not all(isinstance(name, str) for name in kinds):
        return []
    return sorted({name for name in kinds if name != "null"})
