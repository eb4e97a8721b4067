"""A table follows its stream's schema, or keeps still, as the policy says; what was there is never lost."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from cdk.base.errors import ConfigError
from cdk.base.values import Json, Record
from cdk.lake.arrow.cast import cast_batch, rounded_columns
from cdk.lake.arrow.columns import (
    ADDITIONAL,
    BIG_INTEGER,
    JSON_TEXT,
    META,
    OWN_COLUMNS,
    TIMESTAMP_NTZ,
    TIMESTAMP_UTC,
    ColumnType,
    column_name,
    columns,
    noted_field,
    table_schema,
)
from cdk.lake.arrow.record_batches import RecordBatchBuilder
from cdk.lake.arrow.schema_evolution import MOST_COLUMNS, Policy, SchemaChange, Widening, plan_schema, with_columns

INT, DOUBLE, TEXT, BOOL, DATE = pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32()
EVOLVE, FREEZE, DISCARD = Policy.EVOLVE, Policy.FREEZE, Policy.DISCARD
A, AB = pa.struct([("a", INT)]), pa.struct([("a", INT), ("b", TEXT)])
ROOM = MOST_COLUMNS - len(OWN_COLUMNS)


def table(**declared: ColumnType) -> pa.Schema:
    return table_schema(declared)


def written(plan: SchemaChange, record: Record) -> Mapping[str, Json]:
    """The one row that a record becomes, without the columns that every row has."""
    rows = RecordBatchBuilder(plan.columns, generation=1, room=plan.room, follows=plan.follows)
    (row,) = rows.batch([record]).to_pylist()
    return {
        name: value
        for name, value in row.items()
        if name not in OWN_COLUMNS or (name == ADDITIONAL and value is not None)
    } | ({"changed": [note["original"] for note in row[META]["changes"]]} if row[META]["changes"] else {})


@pytest.mark.parametrize(("policy", "room"), [(EVOLVE, ROOM - 2), (FREEZE, 0), (DISCARD, 0)])
def test_a_new_table_has_the_declared_columns(policy: Policy, room: int) -> None:
    declared = {"id": INT, "First Name": TEXT}

    made = plan_schema(None, declared, policy)

    assert made.columns == declared
    assert made.schema.names == ["id", "First_Name", *OWN_COLUMNS]
    assert (made.add, made.widen, made.room) == (tuple(made.schema), (), room)


@pytest.mark.parametrize(("policy", "room"), [(EVOLVE, ROOM - 3), (FREEZE, 0), (DISCARD, 0)])
def test_a_table_that_fits_stays_as_it_is(policy: Policy, room: int) -> None:
    declared: Mapping[str, ColumnType] = {"a b": INT, "any": JSON_TEXT, "o": AB}

    assert plan_schema(table(**declared), declared, policy) == SchemaChange(declared, table(**declared), room=room)


def test_new_columns_and_new_fields_of_objects_are_added() -> None:
    old = table(id=INT, o=A, l=pa.list_(A))

    made = plan_schema(old, {"new": BOOL, "l": pa.list_(AB), "id": INT, "o": AB}, EVOLVE)

    assert made.add == (pa.field("new", BOOL), pa.field("l", pa.list_(AB)), pa.field("o", AB))
    assert made.widen == ()
    assert made.schema.names == [*old.names, "new"]
    assert made.schema.field("o").type == AB


def test_a_changed_type_becomes_the_one_that_holds_both() -> None:
    old = table(n=INT, d=DATE, o=A, same=BOOL)

    made = plan_schema(old, {"n": DOUBLE, "d": TIMESTAMP_UTC, "o": pa.struct([("a", TEXT)]), "same": BOOL}, EVOLVE)

    assert made.widen == (
        Widening("n", INT, DOUBLE),
        Widening("d", DATE, TIMESTAMP_UTC),
        Widening("o", A, pa.struct([("a", TEXT)])),
    )
    assert [made.schema.field(w.column).type for w in made.widen] == [w.new for w in made.widen]
    assert made.add == ()


def test_numbers_that_a_double_would_round_become_text() -> None:
    made = plan_schema(table(n=INT, m=INT), {"n": DOUBLE, "m": DOUBLE}, EVOLVE, exact={"n"})

    assert made.widen == (Widening("n", INT, TEXT), Widening("m", INT, DOUBLE))


@pytest.mark.parametrize(
    ("held", "declared", "value", "row"),
    [
        (TEXT, INT, 5, "5"),
        (TEXT, A, {"a": 1}, '{"a":1}'),
        (TEXT, TIMESTAMP_UTC, "2024-01-02T03:04:05Z", "2024-01-02T03:04:05Z"),
        (TEXT, JSON_TEXT, "x", '"x"'),
        (DOUBLE, INT, 5, 5.0),
        (AB, A, {"a": 1}, {"a": 1, "b": None}),
        (BIG_INTEGER, INT, 5, 5),
    ],
)
def test_values_are_written_in_the_type_of_a_wider_table(
    held: pa.DataType, declared: ColumnType, value: Json, row: Json
) -> None:
    made = plan_schema(table(a=held), {"a": declared}, EVOLVE)

    assert (made.add, made.widen, made.schema) == ((), (), table(a=held))
    assert written(made, {"a": value}) == {"a": row}


def test_a_column_that_is_declared_no_more_is_still_written_as_it_is() -> None:
    made = plan_schema(table(old=INT, id=INT), {"id": INT}, EVOLVE)

    assert written(made, {"id": 1, "old": 2}) == {"id": 1, "old": 2}
    assert made.follows == {"old"}
    assert written(made, {"id": 1, "old": "x"}) == {"id": 1, "old": "x"}
    for policy in (FREEZE, DISCARD):
        still = plan_schema(table(old=INT, id=INT), {"id": INT}, policy)
        assert (still.schema, still.room, still.follows) == (table(old=INT, id=INT), 0, frozenset())
        assert written(still, {"id": 1, "old": 2}) == {"id": 1, "old": 2}
        assert written(still, {"id": 1, "old": "x", "new": 3}) == {
            "id": 1,
            "old": None,
            ADDITIONAL: '{"new":3}',
            "changed": ["x"],
        }


def test_undeclared_fields_get_columns_and_keep_them() -> None:
    first = plan_schema(None, {"id": INT}, EVOLVE)
    rows = RecordBatchBuilder(first.columns, generation=1, room=first.room)
    file = rows.batch([{"id": 1, "x": 5, "y": "z"}])

    grown = with_columns(first.schema, rows.grown)
    second = plan_schema(grown, {"id": INT}, EVOLVE)

    assert grown == file.schema
    assert (second.schema, second.add, second.room) == (grown, (), first.room - 2)
    assert written(second, {"id": 1, "x": {"a": 1}, "y": None}) == {"id": 1, "x": '{"a":1}', "y": None}


def test_two_tasks_add_to_one_another() -> None:
    schema = with_columns(with_columns(table(id=INT), {"x": [INT], "y": [INT]}), {"y": [BOOL], "z": [TEXT]})

    assert schema is not None
    assert schema.names == [*table(id=INT).names, "x", "y", "z"]


@pytest.mark.parametrize("name", ["ID", "Xy", "id", META])
def test_a_task_whose_columns_do_not_fit_those_of_another_is_to_be_read_again(name: str) -> None:
    schema = with_columns(table(id=DATE), {"xy": [INT]})
    assert schema is not None

    assert with_columns(schema, {"other": [INT], name: [INT]}) is None


def test_a_column_is_that_of_the_field_that_it_was_made_for() -> None:
    schema = with_columns(table(id=INT), {"x y": [INT]})
    assert schema is not None
    again = plan_schema(schema, {"id": INT}, EVOLVE, undeclared={"x_y": TEXT})

    assert with_columns(schema, {"x_y": [INT]}) is None
    assert (again.schema, again.add) == (schema, ())
    assert again.follows == {"x y"}
    assert written(again, {"x y": 1, "x_y": 2}) == {"id": None, "x_y": 1, ADDITIONAL: '{"x_y":2}'}
    for policy in (EVOLVE, FREEZE):
        with pytest.raises(ConfigError, match="column 'x_y' has the field 'x y' in the table, and 'x_y' in the schema"):
            plan_schema(schema, {"id": INT, "x_y": INT}, policy)
    still = plan_schema(schema, {"id": INT, "x_y": INT}, DISCARD)
    assert written(still, {"x y": 1, "x_y": 2}) == {"id": None, "x_y": 1, ADDITIONAL: '{"x_y":2}'}


@pytest.mark.parametrize("noted", [None, {}, {"comment": "x"}, {"spark-cdk.field": "z"}])
def test_a_column_that_something_else_made_is_that_of_the_declared_field_or_of_its_name(
    noted: Mapping[str, str] | None,
) -> None:
    old = pa.schema([pa.field("x_y", INT, metadata=noted)])

    assert written(plan_schema(old, {"x y": INT}, EVOLVE), {"x y": 1}) == {"x_y": 1}
    assert written(plan_schema(old, {"x y": INT}, FREEZE), {"x y": 1}) == {"x_y": 1}
    assert written(plan_schema(old, {}, EVOLVE), {"x y": 1, "x_y": 2}) == {"x_y": 2, ADDITIONAL: '{"x y":1}'}


def test_no_more_columns_than_a_table_bears() -> None:
    wide = table(**{f"c{i}": TEXT for i in range(MOST_COLUMNS)})

    assert plan_schema(wide, {}, EVOLVE).room == 0


def test_a_column_that_the_kit_cannot_write_is_left_alone() -> None:
    foreign = table(id=INT).append(pa.field("raw", pa.binary()))

    made = plan_schema(foreign, {"id": INT}, EVOLVE)

    assert made.schema == foreign
    assert written(made, {"id": 1, "raw": "x", "new": 1}) == {"id": 1, ADDITIONAL: '{"raw":"x","new":1}'}


def test_freeze_names_every_difference_and_what_to_do() -> None:
    old = table(id=INT, at=DATE, Name=TEXT, wide=DOUBLE)

    with pytest.raises(ConfigError) as refused:
        plan_schema(
            old,
            {"id": TEXT, "at": TIMESTAMP_UTC, "name": TEXT, "new": A, "wide": INT},
            FREEZE,
            stream="users",
            path="/t/users",
        )

    assert (refused.value.stream, refused.value.path) == ("users", "/t/users")
    assert refused.value.message == (
        "the table and the stream's schema differ: "
        "column 'id' is int64 in the table, and string in the schema; "
        "column 'at' is date32[day] in the table, and timestamp[us, tz=UTC] in the schema; "
        "column 'name' is spelled 'Name' in the table, which cannot hold both; "
        "column 'new' is missing in the table, and struct<a: int64> in the schema. "
        "Sync into another path, change the schema back, or choose another schema policy (discard leaves it unchanged)"
    )


@pytest.mark.parametrize(
    ("column", "policy", "helps"),
    [
        (
            ("id", DOUBLE),
            FREEZE,
            "or choose another schema policy (evolve changes the table, discard leaves it unchanged)",
        ),
        (("ID", INT), FREEZE, "or choose another schema policy (discard leaves it unchanged)"),
        (("ID", INT), Policy.EVOLVE, "or choose another schema policy (discard leaves it unchanged)"),
        (("id", pa.binary()), Policy.EVOLVE, "or choose another schema policy (discard leaves it unchanged)"),
        ((META, TEXT), Policy.EVOLVE, "Sync into another path, or change the schema back"),
        ((META, TEXT), Policy.DISCARD, "Sync into another path, or change the schema back"),
    ],
)
def test_no_policy_is_advised_that_would_refuse_the_table_as_well(
    column: tuple[str, pa.DataType], policy: Policy, helps: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        plan_schema(pa.schema([column]), {"id": TEXT}, policy)

    assert refused.value.message.endswith(helps)


def test_freeze_takes_a_table_that_holds_all_that_is_declared() -> None:
    old = table(id=DOUBLE, o=AB, gone=INT)

    made = plan_schema(old, {"id": INT, "o": A}, FREEZE)

    assert (made.schema, made.add, made.widen) == (old, (), ())
    assert written(made, {"id": 1, "x": 2, "gone": 3}) == {"id": 1.0, "o": None, "gone": 3, ADDITIONAL: '{"x":2}'}


def test_discard_keeps_the_table_and_every_value() -> None:
    old = table(id=INT, Name=TEXT, any=INT)

    made = plan_schema(old, {"id": TEXT, "name": TEXT, "new": INT, "any": JSON_TEXT}, DISCARD)

    assert (made.schema, made.add, made.widen, made.room) == (old, (), (), 0)
    assert written(made, {"id": "x", "name": "y", "new": 1, "z": 2, "any": 5}) == {
        "id": None,
        "Name": None,
        "any": 5,
        ADDITIONAL: '{"name":"y","new":1,"z":2}',
        "changed": ["x"],
    }


@pytest.mark.parametrize(
    ("policy", "old", "declared", "clause"),
    [
        (EVOLVE, table(Id=INT), {"id": INT}, "column 'id' is spelled 'Id' in the table, which cannot hold both"),
        (
            EVOLVE,
            table(raw=pa.binary()),
            {"raw": TEXT},
            "column 'raw' is binary in the table, and string in the schema",
        ),
        (
            DISCARD,
            pa.schema([(META, TEXT)]),
            {},
            "column '_airbyte_meta', one of the kit's own, is string, expected '_airbyte_meta' of struct<",
        ),
        (
            EVOLVE,
            pa.schema([("_Airbyte_Raw_Id", TEXT)]),
            {},
            "column '_Airbyte_Raw_Id', one of the kit's own, is string, expected '_airbyte_raw_id' of string",
        ),
    ],
)
def test_a_table_that_cannot_be_written_is_refused(
    policy: Policy, old: pa.Schema, declared: Mapping[str, ColumnType], clause: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        plan_schema(old, declared, policy)

    assert clause in refused.value.message


@pytest.mark.parametrize("policy", Policy)
def test_the_kit_s_own_columns_are_added_to_a_table_that_lacks_them(policy: Policy) -> None:
    made = plan_schema(pa.schema([("id", INT)]), {"id": INT}, policy)

    assert [field.name for field in made.add] == list(OWN_COLUMNS)
    assert made.schema.names == ["id", *OWN_COLUMNS]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "x", "2024-01-02", "\ud800"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "A"]), inner, max_size=2),
    max_leaves=5,
)
RECORDS = st.lists(st.dictionaries(st.sampled_from(["a", "b", "c", "x y", "x_y"]), VALUES), max_size=3)
DECLARED = st.recursive(
    st.sampled_from([{"type": "integer"}, {"type": "number"}, {"type": "string"}, {"type": "boolean"}, {}])
    | st.sampled_from(["date", "date-time"]).map(lambda name: {"type": "string", "format": name}),
    lambda inner: (
        inner.map(lambda item: {"type": "array", "items": item})
        | st.dictionaries(st.sampled_from(["a", "b"]), inner).map(lambda ps: {"type": "object", "properties": ps})
    ),
    max_leaves=4,
)
SCHEMAS = st.dictionaries(st.sampled_from(["a", "b", "x y"]), DECLARED).map(lambda ps: {"properties": ps})


@given(st.lists(st.tuples(SCHEMAS, RECORDS), min_size=2, max_size=4))
@settings(max_examples=150, deadline=None)
def test_a_table_takes_any_schema_after_any_other_and_loses_no_value(
    runs: Sequence[tuple[Json, Sequence[Record]]],
) -> None:
    kept = pa.RecordBatch.from_pylist([], plan_schema(None, columns(runs[0][0]), EVOLVE).schema)
    for schema, records in runs:
        declared = columns(schema)
        fields = {column.name: noted_field(column) for column in kept.schema}
        if any(fields.get(column_name(name)) not in {None, name} for name in declared):
            with pytest.raises(ConfigError, match="has the field"):
                plan_schema(kept.schema, declared, EVOLVE)
            continue
        made = plan_schema(kept.schema, declared, EVOLVE)
        made = plan_schema(kept.schema, declared, EVOLVE, exact=rounded_columns(kept, made.schema))
        rows = RecordBatchBuilder(made.columns, generation=1, room=made.room)
        batch = rows.batch(records)
        grown = with_columns(made.schema, rows.grown)
        assert grown is not None
        moved = cast_batch(kept, grown)
        for name in kept.schema.names:
            assert moved.column(name).null_count == kept.column(name).null_count
        kept = pa.concat_batches([moved, cast_batch(batch, grown)])
        assert plan_schema(grown, declared, EVOLVE).widen == ()


TYPES = {
    "day": DATE,
    "at": TIMESTAMP_UTC,
    "wall": TIMESTAMP_NTZ,
    "big": BIG_INTEGER,
    "inner": pa.struct([("walls", pa.list_(TIMESTAMP_NTZ)), ("day", DATE)]),
    "First Name": TEXT,
    "a.b": INT,
    "any": JSON_TEXT,
}
RECORD = {
    "day": "1500-01-01",
    "at": "2024-01-02T03:04:05.000006Z",
    "wall": "2024-01-02T03:04:05.000006",
    "big": 10**37,
    "inner": {"walls": ["2024-01-02T00:00:00"], "day": "2024-01-02"},
    "First Name": "Ada",
    "a.b": 5,
    "any": {"x": None},
}


@pytest.mark.spark
def test_delta_and_spark_read_every_type(session: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "table"
    DeltaTable.create(str(root), table(id=INT))
    handle = DeltaTable(str(root))
    made = plan_schema(pa.schema(handle.schema().to_arrow()), TYPES, EVOLVE)
    handle.alter.add_columns(Schema.from_arrow(pa.schema(made.add)).fields)
    handle = DeltaTable(str(root))
    batch = cast_batch(RecordBatchBuilder(made.columns, generation=1).batch([RECORD]), made.schema)
    file = root / "one.parquet"
    pq.write_table(pa.Table.from_batches([batch]), file)
    add = AddAction(file.name, file.stat().st_size, {}, 0, True, '{"numRecords":1}')
    handle.create_write_transaction([add], "append", handle.schema())

    by_delta = DeltaTable(str(root))
    frame = session.read.parquet(*by_delta.file_uris())

    (expected,) = batch.to_pylist()
    assert pa.schema(by_delta.schema().to_arrow()) == made.schema
    assert by_delta.to_pyarrow_table().to_pylist() == [expected]
    assert {f.name: f.dataType.simpleString() for f in frame.schema if f.name not in OWN_COLUMNS} == {
        "id": "bigint",
        "day": "date",
        "at": "timestamp",
        "wall": "timestamp_ntz",
        "big": "decimal(38,0)",
        "inner": "struct<walls:array<timestamp_ntz>,day:date>",
        "First_Name": "string",
        "a.b": "bigint",
        "any": "string",
    }
    assert frame.where("big = 10000000000000000000000000000000000000").selectExpr(
        "cast(day as string)", "cast(wall as string)", "inner.walls[0]", "First_Name", "`a.b`"
    ).collect() == [("1500-01-01", "2024-01-02 03:04:05.000006", expected["inner"]["walls"][0], "Ada", 5)]
    assert orjson.loads(expected["any"]) == {"x": None}
