"""Whatever types the values of undeclared fields have, and wherever they change: columns hold all of them, whole."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from deltalake import DeltaTable
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk import Json
from tests.worlds.server import INCREMENTAL, WHOLE
from tests.worlds.test_records import World, steps

FIELDS = ("x", "y", "z")
STREAMS = {stream.__name__: stream for stream in (*WHOLE, *INCREMENTAL)}
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
    modes = ["append", "append_dedup", *(["overwrite"] if STREAMS[stream] in WHOLE else [])]
    options: dict[str, Json] = {"write_mode": draw(st.sampled_from(modes))}
    if draw(st.booleans()):
        options["partition_by"] = "part"
    if options["write_mode"] == "append_dedup" and draw(st.booleans()):
        options["history"] = True
    syncs = draw(st.integers(1, 3))
    ids = st.sampled_from([0, 1, 2, 3, None])
    batches = []
    for _ in range(syncs):
        values = {name: st.sampled_from(draw(st.sampled_from(SETS))) for name in FIELDS}
        fields = st.fixed_dictionaries({"x": values["x"]}, optional={"y": values["y"], "z": values["z"]})
        batches.append(draw(st.lists(st.tuples(ids, st.sampled_from([0, 1, 24]), st.just(0), fields), max_size=8)))
    return World(
        stream,
        0,
        draw(st.booleans()),
        options,
        {},
        draw(st.lists(st.integers(1, 4), min_size=syncs, max_size=syncs)),
        batches,
        draw(st.lists(st.none() | st.integers(0, 4), min_size=syncs, max_size=syncs)),
        draw(st.sampled_from([0, 30])),
        draw(st.integers(1, 3)),
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


def _of(stream: str, page_size: int, values: Sequence[Mapping[str, Json]], **more: Json) -> World:
    batch = [(n, 1, 0, fields) for n, fields in enumerate(values)]
    return World(stream, 0, False, {"write_mode": "append", **more}, {}, [page_size], [batch], [None], 30, 3)


@example(_of("Divided", 1, [{"x": 2**53 + 1}, {"x": 0.5}, {"x": 1}]))
@example(_of("Whole", 1, [{"x": None}, {"x": True}, {"x": 1}, {"x": None}], partition_by="part"))
@settings(max_examples=60)
@given(drifting())
def test_the_column_of_an_undeclared_field_is_as_wide_as_its_values_and_no_wider(world: World) -> None:
    with TemporaryDirectory() as folder:
        for run in steps(world, Path(folder)):
            run.check()
            assert not [row for row in run.rows() if row["_airbyte_meta"]["changes"] and row["id"] is not None]
            names = ["things", *(["things_history"] if world.options.get("history") and run.server.records else [])]
            for name in names:
                schema = pa.schema(DeltaTable(str(Path(folder) / name)).schema().to_arrow())
                found = {field: schema.field(field).type for field in FIELDS if field in schema.names}
                expected = {
                    field: kind
                    for field in FIELDS
                    if (kind := narrowest(record.get(field) for record in run.server.records)) is not None
                }
                assert found == expected
