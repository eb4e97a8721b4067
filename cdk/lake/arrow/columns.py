"""JSON Schema -> the columns of a table.

| declared | column |
|---|---|
| `integer`; `number` with `airbyte_type: integer` | 64-bit integer |
| `number`; `integer` or `number` | double |
| `airbyte_type: big_integer`; an integer whose bounds need more than 64 bits | decimal of 38 digits, else text |
| `airbyte_type: big_number` | text: a decimal has a fixed scale, and would round |
| `boolean` | boolean |
| `string`, `time`; several simple types, `string` among them | text |
| `date`; `date-time` | date; timestamp in UTC, in microseconds |
| `date-time` with `airbyte_type: timestamp_without_timezone` | timestamp without a zone |
| object with declared properties; array with one kind of items | struct; list |
| `oneOf`, `anyOf` of one type beside null; integer or number | that type; double |
| anything else, or nothing | JSON text |

An undeclared field gets the type of its values, see `inferred`: boolean, 64-bit integer, double, else text.
"""

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, TypeAlias

import pyarrow as pa

from cdk.base.records.inferred import inferred_type
from cdk.base.values import SIMPLE_TYPES, JsonSchema, JsonValue, properties_of
from cdk.lake.arrow.json_schema import Plain, both, plain, type_names

TIMESTAMP_UTC = pa.timestamp("us", tz="UTC")
# Delta's `timestamp_ntz`: needs a table feature, which delta-rs enables when it creates the table or adds the column.
TIMESTAMP_NTZ = pa.timestamp("us")
BIG_INTEGER = pa.decimal128(38, 0)

# The kit's own columns, named as Airbyte's destinations name them.
RAW_ID, EXTRACTED_AT, META, GENERATION = (
    "_airbyte_raw_id",
    "_airbyte_extracted_at",
    "_airbyte_meta",
    "_airbyte_generation_id",
)
ADDITIONAL = "_airbyte_additional"
DELETED_AT = "_ab_cdc_deleted_at"
"""Set in a row whose key the source has deleted: by the source itself, or by removing stale rows."""
ROW_SOURCE = "_cdk_source"
"""Where a row comes from, in tables whose rows are traced: the sync, the slice, its page in a task, and the request."""
ROW_SOURCE_TYPE = pa.struct(
    [("sync_id", pa.string()), ("slice", pa.string()), ("page", pa.int64()), ("request", pa.string())]
)
CHANGE = pa.struct([(name, pa.string()) for name in ("field", "change", "reason", "original")])
OWN_COLUMNS: Mapping[str, pa.DataType] = {
    ADDITIONAL: pa.string(),
    RAW_ID: pa.string(),
    EXTRACTED_AT: TIMESTAMP_UTC,
    META: pa.struct([("changes", pa.list_(CHANGE))]),
    GENERATION: pa.int64(),
}
RESERVED = frozenset({*OWN_COLUMNS, ROW_SOURCE})
"""Column names that no field can have; with ROW_SOURCE, because tracing may be turned on later."""

FIELD = "spark-cdk.field"
"""Key in the metadata of a table's column: the field whose values it has, for all syncs and pipelines."""

# Delta's log holds a schema of 40 levels and fails at 60 (delta-rs 1.6).
_DEEPEST = 30
# Maximum number of fields in one column. Branching references can reach any number within 30 levels.
_MOST = 2_000

# Delta refuses commas, semicolons, braces, parentheses, = and white space in column names of tables without column
# mapping, which delta-rs 1.6 does not write; a column whose name starts with NUL is read as null.
_REFUSED = re.compile(r"[ ,;{}()=\x00-\x1f\x7f]")
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")

_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


class JsonText(Enum):
    """The type of a column that stores values as JSON text, because the schema is not specific enough."""

    COLUMN = "json"


JSON_TEXT: Final = JsonText.COLUMN
ColumnType: TypeAlias = pa.DataType | JsonText


def columns(schema: JsonSchema) -> dict[str, ColumnType]:
    """Return the column type of each declared property of a record, in the schema's order, by the property's name.

    Types are never narrower than the schema. Tables do not distinguish `id` from `ID`, and `a b` and `a_b` have the
    same column name: of properties that would share a column, the first one with the column's exact name gets it, else
    the first one. A property whose column would be the kit's own, or whose name no column can have, gets none either.
    """
    properties = properties_of(plain(schema, schema) or schema)
    owners: dict[str, str] = {}
    for name in properties:
        column = column_name(name)
        if column is None or column.lower() in RESERVED:
            continue
        owner = owners.setdefault(column.lower(), name)
        if column == name and column_name(owner) != owner:
            owners[column.lower()] = name
    owning = set(owners.values())
    return {name: _Column(schema).type(kind) for name, kind in properties.items() if name in owning}


def column_owner(field: str, declared: Iterable[str]) -> str | None:
    """Return the owner of the column that a field would get: another field, or the kit's own column; None: no owner."""
    column = column_name(field)
    if column is None:
        return None
    owners = {(column_name(name) or name).lower(): name for name in declared}
    return column.lower() if column.lower() in RESERVED else owners.get(column.lower())


def without_column(schema: JsonSchema, declared: Iterable[str]) -> dict[str, str | None]:
    """Return the declared properties without a column, each with the column's owner; None: no column can be named so.

    declared: the properties with a column, as `columns` returns them.
    """
    own = set(declared)
    names = properties_of(plain(schema, schema) or schema)
    return {name: column_owner(name, own) for name in names if name not in own}


_INFERRED: Mapping[str, pa.DataType] = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64()}
INFERRED: Mapping[pa.DataType, JsonValue] = {pa.bool_(): True, pa.int64(): 0, pa.float64(): 0.5}
"""Types of inferred columns that may be widened, each with a sample value that only this type is inferred from."""


def inferred(values: Iterable[JsonValue], column: pa.DataType | None = None) -> pa.DataType | None:
    """Return the column type for the values of an undeclared field; None: all values are null.

    column: the column's current type, one of INFERRED; the result holds its values, too. Raises NotJson.
    """
    samples = [] if column is None else [INFERRED[column]]
    type_name = inferred_type([*samples, *values])
    return None if type_name is None else _INFERRED.get(type_name, pa.string())


def column_name(field: str) -> str | None:
    """Return the name of a field's column, with `_` for each character that Delta refuses: `a b` -> `a_b`.

    None: no column can be named so, because the name is empty or has a lone surrogate.
    """
    return None if not field or _LONE_SURROGATE.search(field) else _REFUSED.sub("_", field)


def column_of(field: str, kind: ColumnType) -> pa.Field:
    """Return the column for a field, with the field's name in its metadata; or the kit's own column."""
    noted = None if field in OWN_COLUMNS else {FIELD: field}
    return pa.field(column_name(field) or field, arrow_type(kind), metadata=noted)


def noted_field(column: pa.Field) -> str | None:
    """Return the field that a table's column was made for; None: not noted, for example if another program made it."""
    noted = (column.metadata or {}).get(FIELD.encode(), b"").decode()
    # Spark copies the metadata when a column is selected under another name.
    return noted if column_name(noted) == column.name else None


def field_of(column: pa.Field) -> str:
    """Return the field whose values a table's column has, if no declared field has the column."""
    return noted_field(column) or column.name


def table_schema(declared: Mapping[str, ColumnType]) -> pa.Schema:
    """Return a table's Arrow schema: the columns of declared fields, then the kit's own. All columns are nullable."""
    return pa.schema([column_of(name, kind) for name, kind in [*declared.items(), *OWN_COLUMNS.items()]])


def arrow_type(kind: ColumnType) -> pa.DataType:
    """Return the Arrow type of a column."""
    return pa.string() if kind is JSON_TEXT else kind


class _Column:
    """Determines the type of one column from its schema. root: the document that references point into."""

    def __init__(self, root: JsonValue) -> None:
        self._root, self._budget = root, _MOST

    def type(self, declared: JsonValue, depth: int = 1) -> ColumnType:
        self._budget -= 1
        schema = plain(declared, self._root) if depth <= _DEEPEST and self._budget >= 0 else None
        if schema is None:
            return JSON_TEXT
        for key in ("oneOf", "anyOf"):
            if key in schema:
                return self._choice(schema, key, depth)
        match [name for name in type_names(schema.get("type")) if name != "null"]:
            case ["object"]:
                return self._struct(properties_of(schema), depth + 1)
            case ["array"]:
                inner = self.type(schema.get("items"), depth + 1) if "prefixItems" not in schema else JSON_TEXT
                return inner if inner is JSON_TEXT else pa.list_(inner)
            case names:
                return _scalar(names, schema)

    def _choice(self, schema: Plain, key: str, depth: int) -> ColumnType:
        """Return the type that all choices except null have in common, else JSON text."""
        choices = listed if isinstance(listed := schema[key], list) else []
        rest = {name: value for name, value in schema.items() if name != key}
        kinds: set[ColumnType] = set()
        for choice in choices:
            combined = both(rest, plain(choice, self._root))
            if combined is None:
                return JSON_TEXT
            if type_names(combined.get("type")) != ["null"]:
                kinds.add(self.type(combined, depth + 1))
        if kinds == {pa.int64(), pa.float64()}:
            return pa.float64()
        return kinds.pop() if len(kinds) == 1 else JSON_TEXT

    def _struct(self, properties: Mapping[str, JsonValue], depth: int) -> ColumnType:
        """Return a struct of all properties; JSON text if it could not hold each under its own name and lost some."""
        if not properties or len({name.lower() for name in properties}) < len(properties):
            return JSON_TEXT
        fields = []
        for name, declared in properties.items():
            kind = self.type(declared, depth) if column_name(name) == name else JSON_TEXT
            if kind is JSON_TEXT:
                return kind
            fields.append((name, kind))
        return pa.struct(fields)


def _scalar(names: list[str], schema: Plain) -> ColumnType:
    """Return the column type for simple JSON types. names: sorted."""
    precise = schema.get("airbyte_type")
    if names in (["string"], ["integer"], ["number"], ["integer", "number"]) and precise in (
        "big_integer",
        "big_number",
    ):
        # A decimal of big_number would have a fixed scale, and round.
        return BIG_INTEGER if precise == "big_integer" else pa.string()
    match names:
        case ["string"]:
            return _string(schema)
        case ["integer"]:
            return _integer(schema)
        case ["number"] | ["integer", "number"]:
            return pa.int64() if precise == "integer" else pa.float64()
        case ["boolean"]:
            return pa.bool_()
        case _:
            plain_text = "string" in names and set(names) <= {*SIMPLE_TYPES}
            return pa.string() if plain_text else JSON_TEXT


def _string(schema: Plain) -> pa.DataType:
    match schema.get("format"):
        case "date":
            return pa.date32()
        case "date-time":
            return TIMESTAMP_NTZ if schema.get("airbyte_type") == "timestamp_without_timezone" else TIMESTAMP_UTC
        case _:
            return pa.string()


def _integer(schema: Plain) -> pa.DataType:
    """Return a type with as many bits or digits as the bounds need."""
    bounds = [abs(bound) for key in _BOUNDS if isinstance(bound := schema.get(key), int | float)]
    if all(bound <= 2**63 for bound in bounds):
        return pa.int64()
    return BIG_INTEGER if all(bound < 10**38 for bound in bounds) else pa.string()
