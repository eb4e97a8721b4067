"""Whatever types the values of undeclared fields have, and wherever they change: columns hold all of them, whole."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from deltalake import DeltaTable
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk import Json
from cdk.lake.parquet.writer import Limits
from tests.worlds.table import rows
from tests.worlds.test_records import INCREASING, LIMITS, SIZES, STREAMS, Put, Run, Turn, World

FIELDS = ("x", "y", "z")
IDS = st.sampled_from([0, 1, 2, 3, None])
SETS: Sequence[Sequence[Json]] = (
    [1, -7, None],
    [1, 2**53, 2**53 + 1],
    [1, 2**63],
    [0.5, 1.0, None],
    [1, 0.25],
    [True, False, None],
    ["12", "2024-01-01T00:00:00Z", "true", ""],
    [None],
    [{"a": 1}, [2]],
    [1, "1", 1.5, True, {}],
)
"""What a field of one sync may hold: most keep to a type, and the next sync to another."""


@st.composite
def drifting(draw: st.DrawFn) -> World:
    stream = draw(st.sampled_from(sorted(STREAMS)))
    modes = ["append", "append_dedup", *(["overwrite"] if stream not in INCREASING else [])]
    options: dict[str, Json] = {"write_mode": draw(st.sampled_from(modes))}
    if draw(st.booleans()):
        options["partition_by"] = "part"
    if options["write_mode"] == "append_dedup" and draw(st.booleans()):
        options["history"] = True
    turns = []
    for _ in range(draw(st.integers(1, 3))):
        x, y, z = (st.sampled_from(draw(st.sampled_from(SETS))) for _ in FIELDS)
        fields = st.fixed_dictionaries({"x": x}, optional={"y": y, "z": z})
        puts = st.lists(st.builds(Put, IDS, st.sampled_from([0, 1, 24]), fields=fields), max_size=8)
        turns.append(draw(st.builds(Turn, puts, SIZES, st.none() | st.integers(0, 4))))
    return World(
        stream,
        options,
        turns,
        text=draw(st.booleans()),
        interval=draw(st.sampled_from([0, 30])),
        tasks=draw(st.integers(1, 3)),
        limits=draw(LIMITS),
    )


def narrowest(values: Iterable[Json]) -> pa.DataType | None:
    """The column that holds all values without loss, by the promise, in whatever order they come."""
    there = [value for value in values if value is not None]
    if not there:
        return None
    if all(isinstance(value, bool) for value in there):
        return pa.bool_()
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in there):
        return pa.string()
    whole = [value for value in there if isinstance(value, int)]
    if len(whole) == len(there):
        return pa.int64() if all(-(2**63) <= value < 2**63 for value in whole) else pa.string()
    return pa.float64() if all(abs(value) <= 2**53 for value in whole) else pa.string()


def _of(stream: str, values: Sequence[Json], **more: Json) -> World:
    """A page for each value, and three tasks."""
    puts = [Put(n, fields={"x": value}) for n, value in enumerate(values)]
    return World(stream, {"write_mode": "append", **more}, [Turn(puts, (1, 1))], tasks=3)


@example(_of("Divided", [2**53 + 1, 0.5, 1]))
@example(_of("Whole", [None, True, 1, None], partition_by="part"))
@example(
    World(
        "Divided",
        {"write_mode": "append_dedup"},
        [
            Turn([Put(0, 0, fields={"x": 0.25}), Put(None, 0, fields={"x": 1})], (1, 1)),
            Turn([Put(0, 0, fields={"x": 2**53 + 1})], (1, 1)),
        ],
        text=True,
        interval=30,
        limits=Limits(group_rows=1, file_bytes=1, partitions=1, open_files=1, gathered=3),
    )
)
@example(
    World(
        "Counted",
        {"write_mode": "append_dedup", "history": True},
        [
            Turn([Put(0, fields={"x": 1}), Put(0, fields={"x": 2**53 + 1})], (1, 1)),
            Turn([Put(0, fields={}), Put(0, fields={"x": 0.5})], (1, 1)),
        ],
        interval=0,
        limits=Limits(group_rows=1, file_bytes=1, partitions=1, open_files=1, gathered=1),
    )
)
@settings(max_examples=15)
@given(drifting())
def test_the_column_of_an_undeclared_field_is_as_wide_as_its_values_and_no_wider(world: World) -> None:
    with TemporaryDirectory() as folder:
        run = Run(world, Path(folder))
        for turn in world.turns:
            run.turn(turn)
            changes = {one["field"] for row in rows(run.folder / "things") for one in row["_airbyte_meta"]["changes"]}
            assert changes.isdisjoint(FIELDS)
            records = run.server.records
            held = {row["n"] for row in rows(run.folder / "things")}
            kinds = {field: {narrowest(record.get(field) for record in records)} for field in FIELDS}
            if world.options.get("history") and records:
                assert _columns(run.folder / "things_history") in _choices(kinds)
            for field in FIELDS:
                # A number that a double would round is no reason for text once its row has been replaced.
                values = ((record["n"], record.get(field)) for record in records)
                kinds[field].add(narrowest(value for n, value in values if n in held or not _rounded(value)))
            assert _columns(run.folder / "things") in _choices(kinds)


def _columns(table: Path) -> Mapping[str, pa.DataType]:
    """The types of the columns of `FIELDS` that a table has."""
    schema = pa.schema(DeltaTable(str(table)).schema().to_arrow())
    return {field: schema.field(field).type for field in FIELDS if field in schema.names}


def _choices(kinds: Mapping[str, Iterable[pa.DataType | None]]) -> Sequence[Mapping[str, pa.DataType]]:
    """Each choice of one type a field; a field without one has no column."""
    choices = (zip(kinds, choice, strict=True) for choice in product(*kinds.values()))
    return [{field: kind for field, kind in choice if kind is not None} for choice in choices]


def _rounded(value: Json) -> bool:
    """Whether a double would round a whole number."""
    return isinstance(value, int) and abs(value) > 2**53
