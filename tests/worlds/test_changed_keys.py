"""Whatever a key was before, of another type, JSON, or of added rows: each key has one row, or it is refused."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk import Json
from cdk.base.records.exact_json import WrittenNumber
from cdk.sync.reports.stream_report import Status, StreamReport
from tests.worlds.server import whole
from tests.worlds.table import key_of, rows
from tests.worlds.test_records import TYPES, Put, Run, World

JSON: Json = {}
INTEGER, NUMBER, STRING, BOOLEAN, DATE, BIG = TYPES[0], TYPES[1], TYPES[2], TYPES[3], TYPES[4], TYPES[7]
ALIKE = [1, 1.0, "1", -0.0, 0, 1e23, 10**23, 1e38, 2**53 + 1, WrittenNumber(f"{2**53 + 1}.0"), 1.5, "1.5", True]
IDS = st.sampled_from(["x", "2024-01-01", [1, "ü"], {"b": 1, "a": [2.0]}, *ALIKE])
"""None is null, since a row without a key is another thing."""


def _steps(*kinds: Json) -> st.SearchStrategy[list[tuple[str, Json]]]:
    step = st.tuples(st.sampled_from(["append", "append_dedup", "append_dedup"]), st.sampled_from(kinds))
    return st.lists(step, min_size=2, max_size=3)


def _widened(old: Json, new: Json, ids: Sequence[Json]) -> Json:
    """The type that holds the values of both."""
    if old == new or JSON in (old, new):
        return new
    if (old, new) == (INTEGER, NUMBER):
        integers = [whole(id) for id in ids if type(whole(id)) is int]
        return STRING if any(2**53 < abs(id) < 2**63 for id in integers) else NUMBER
    if INTEGER in (old, new) and BIG in (old, new):
        return BIG
    return NUMBER if (old, new) == (NUMBER, INTEGER) else STRING


def _refused(before: Sequence[tuple[str, Json]], held: Json, mode: str, kind: Json, wide: Json) -> bool:
    """Whether rows of the syncs before would stay beside those of their keys.

    Dates are strings without quotes; JSON text of rows that were only added is what the source wrote.
    """
    if mode == "append" or not before:
        return False
    if kind == JSON:
        return any(step != ("append_dedup", JSON) for step in before)
    if any(step[1] == JSON for step in before):
        return True
    return wide == STRING and held in (NUMBER, BIG)


@example([("append", JSON), ("append_dedup", JSON)], [[1, "ü"]], True)
@example([("append", STRING), ("append_dedup", JSON)], ["x"], False)
@example([("append_dedup", INTEGER), ("append_dedup", JSON)], ["x", 1], False)
@example([("append_dedup", DATE), ("append_dedup", JSON)], ["2024-01-01"], False)
@example([("append_dedup", INTEGER), ("append_dedup", STRING)], [1.0], False)
@example([("append_dedup", BOOLEAN), ("append_dedup", STRING)], [1.0], True)
@example([("append", INTEGER), ("append", BIG)], [1e38], False)
@settings(max_examples=30)
@given(_steps(STRING, JSON, DATE, INTEGER, NUMBER, BOOLEAN, BIG), st.lists(IDS, min_size=1, max_size=4), st.booleans())
def test_each_key_has_one_row_or_its_change_is_refused(
    steps: Sequence[tuple[str, Json]],
    ids: Sequence[Json],
    text: bool,  # noqa: FBT001 - the property's
) -> None:
    with TemporaryDirectory() as folder:
        run = Run(World("Whole", {}, [], text=text), Path(folder))
        before: list[tuple[str, Json]] = []
        held = steps[0][1]
        for mode, kind in steps:
            run.put([Put(id) for id in ids])
            report = _sync(run, mode, kind)
            wide = _widened(held, kind, ids)
            if _refused(before, held, mode, kind, wide):
                assert report.failure is not None
                assert report.failure.failure_type == "config_error"
                assert "a column of its primary key" in report.failure.message
                continue
            assert report.status is Status.DONE, report.failure
            before.append((mode, kind))
            held = wide
            if mode == "append_dedup":
                newest = {key_of(record, _name(held)): record["n"] for record in run.server.records}
                assert sorted(row["n"] for row in rows(run.folder / "things")) == sorted(newest.values())


def _name(kind: Json) -> Json:
    return kind.get("airbyte_type") or kind.get("format") or kind.get("type")


def _sync(run: Run, mode: str, kind: Json) -> StreamReport:
    run.world = replace(run.world, options={"write_mode": mode}, own={"id": kind})
    return run.sync({})
