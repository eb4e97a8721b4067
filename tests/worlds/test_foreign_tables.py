"""Whatever table another engine has made: records are in it whole and its own rows stay, or it is refused."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk import Json, Record
from cdk.sync.reports.stream_report import StreamReport
from tests.worlds.foreign_table import KINDS, WORKS, Foreign, lost
from tests.worlds.table import key_of, rows
from tests.worlds.test_records import TYPES, Put, Run, Turn, World, worlds

NAMES = ("a", "b", "c", "d", "e", "at", "v", "x", "y")
ID_KINDS = ("int8", "int16", "int32", "int64", "string", "decimal(38,0)", "decimal(10,2)", "float", "double", "date")
PROPERTIES: st.SearchStrategy[Mapping[str, str]] = st.sampled_from(
    [*[{}] * 8, {"delta.enableChangeDataFeed": "true"}, {"delta.appendOnly": "true"}]
)
OF_IDS = {"byte": "int8", "short": "int16", "integer": "int32", "long": "integer", "decimal(38,0)": "big_integer"}
"""Delta's types, and what `key_of` calls them, where that differs."""


@st.composite
def foreign_worlds(draw: st.DrawFn) -> tuple[World, Foreign]:
    options: dict[str, Json] = {"schema": draw(st.sampled_from(["evolve", "discard"]))}
    world = draw(worlds())
    mode = world.options["write_mode"]
    if mode == "overwrite":
        options["remove_stale"] = {"allow_empty": True, "fail_safe_threshold": 100}
    world = replace(world, options={**world.options, **options})
    columns = draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(sorted(KINDS)), max_size=4))
    merges = mode == "append_dedup"
    if draw(st.booleans()) or not columns or (merges and options["schema"] == "discard"):
        columns["id"] = draw(st.sampled_from(ID_KINDS))
    by = world.options.get("partition_by")
    if isinstance(by, str) and by != "n":
        columns[by] = draw(st.sampled_from(["int64", "date"]))
    cells = st.fixed_dictionaries(
        {}, optional={name: st.sampled_from(KINDS[kind][1]) for name, kind in columns.items()}
    )
    constraint = draw(st.sampled_from([*[""] * 8, "n > -100"]))
    works = draw(st.lists(st.sampled_from(sorted(WORKS)), max_size=3))
    return world, Foreign(columns, draw(st.lists(cells, max_size=3)), by, draw(PROPERTIES), constraint, works)


class Refused(Exception):
    """A stream is not synced into a table."""


class ForeignRun(Run):
    """A world as it goes on in a table of another engine."""

    def __init__(self, world: World, table: Foreign, folder: Path) -> None:
        super().__init__(world, folder)
        self.table, self.path, self.synced = table, folder / "things", False
        table.create(self.path)

    def follow(self) -> None:
        """Sync each turn, unless the table is refused, as it then stays as it is. Raises Refused."""
        version = DeltaTable(self.path).version()
        try:
            for turn, work in zip_longest(self.world.turns, self.table.works[: len(self.world.turns) - 1]):
                self.turn(turn)
                if work is not None:
                    WORKS[work](DeltaTable(self.path))
        except Refused:
            assert (self.server.requests, DeltaTable(self.path).version()) == (0, version)
            raise

    def sync(self, schema: Mapping[str, Json]) -> StreamReport:
        report = super().sync(schema)
        if not self.synced and report.failure is not None and report.failure.failure_type == "config_error":
            raise Refused(report.failure.message)
        self.synced = True
        return report

    def rows(self) -> list[Record]:
        return [row for row in rows(self.path) if row["n"] >= 0]

    def key_of(self, record: Record) -> Json:
        (kind,) = [field.type for field in DeltaTable(self.path).schema().fields if field.name == "id"]
        name = str(getattr(kind, "type", kind))
        is_json = name == "string" and not self.world.own["id"]
        return key_of(record, None if is_json else OF_IDS.get(name, name))

    def check(self) -> None:
        super().check()
        there = {row["n"]: row for row in rows(self.path) if row["n"] < 0}
        mode, keys = self.world.options["write_mode"], set[Json]()
        if mode == "append_dedup":
            keys = {f"{self.key_of(record)}" for record in self.server.records if record.get("id") is not None}
        rest = [] if mode == "overwrite" else self.table.values()
        expected = {row["n"]: row for row in rest if row.get("id") is None or f"{self._key_of_cell(row)}" not in keys}
        assert there.keys() == expected.keys()
        for n, row in there.items():
            assert not (problems := list(lost(row, expected[n]))), problems

    def _key_of_cell(self, row: Record) -> Json:
        id = row["id"]
        if isinstance(id, date):
            return id
        return self.key_of({"id": int(id) if isinstance(id, Decimal) else id})


def follow(world: World, table: Foreign) -> str:
    """What refuses a world's table; empty if nothing does."""
    with TemporaryDirectory() as folder:
        try:
            ForeignRun(world, table, Path(folder)).follow()
        except Refused as error:
            return str(error)
    return ""


@settings(max_examples=25)
@given(foreign_worlds())
def test_records_and_rows_of_another_engine_are_whole_in_its_table(case: tuple[World, Foreign]) -> None:
    follow(*case)


@pytest.mark.parametrize("kind", ["float", "binary", "decimal(10,2)", "struct<a:int,b:float>", "map<string,int>"])
def test_a_key_whose_column_the_kit_does_not_write_is_refused(kind: str) -> None:
    world = World("Whole", {"write_mode": "append_dedup", "schema": "discard"}, [Turn([Put(1)])])

    assert "expected a string, an integer, a double or a timestamp" in follow(world, Foreign({"id": kind}))


def test_rows_of_another_engine_are_merged_by_their_keys() -> None:
    world = World("Whole", {"write_mode": "append_dedup"}, [Turn([Put(1), Put(2)])], {"id": TYPES[0]})

    assert not follow(world, Foreign({"id": "int16", "a": "date"}, [{"id": 1}, {"id": 7}, {}]))
