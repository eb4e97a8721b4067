"""Whatever a key was before, of another type, JSON, or of added rows: each key has one row, or it is refused."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk import Json
from cdk.sync.reports.stream_report import Status, StreamReport
from tests.worlds.table import rows
from tests.worlds.test_records import TYPES, Put, Run, World

JSON: Json = {}
INTEGER, STRING, DATE = TYPES[0], TYPES[2], TYPES[4]
IDS = st.sampled_from(["x", "2024-01-01", 1, [1, "ü"], {"b": 1, "a": [2.0]}])
"""None is null, since a row without a key is another thing."""


def _steps(first: Json, *kinds: Json) -> st.SearchStrategy[list[tuple[str, Json]]]:
    step = st.tuples(st.sampled_from(["append", "append_dedup"]), st.sampled_from([first, *kinds]))
    return st.lists(step, min_size=2, max_size=3)


def _refused(before: Sequence[tuple[str, Json]], mode: str, kind: Json, ids: Sequence[Json]) -> bool:
    """Whether rows of the syncs before would stay beside those of their keys.

    Dates are strings without quotes; JSON text of rows that were only added is what the source wrote. Integers are JSON
    as they are, and what was none is noted without quotes.
    """
    if mode == "append":
        return False
    if kind == JSON:
        integers = all(isinstance(id, int) for id in ids)
        return any(step != ("append_dedup", JSON) and not (integers and step[1] == INTEGER) for step in before)
    return any(step[1] == JSON for step in before)


@example([("append", JSON), ("append_dedup", JSON)], [[1, "ü"]], True)
@example([("append", STRING), ("append_dedup", JSON)], ["x"], False)
@example([("append_dedup", INTEGER), ("append_dedup", JSON)], ["x", 1], False)
@example([("append_dedup", INTEGER), ("append_dedup", JSON)], [1], False)
@example([("append_dedup", DATE), ("append_dedup", JSON)], ["2024-01-01"], False)
@settings(max_examples=15)
@given(_steps(STRING, JSON, DATE, INTEGER), st.lists(IDS, min_size=1, max_size=4), st.booleans())
def test_each_key_has_one_row_or_its_change_is_refused(
    steps: Sequence[tuple[str, Json]],
    ids: Sequence[Json],
    text: bool,  # noqa: FBT001 - the property's
) -> None:
    with TemporaryDirectory() as folder:
        run = Run(World("Whole", {}, [], text=text), Path(folder))
        before: list[tuple[str, Json]] = []
        for mode, kind in steps:
            run.put([Put(id) for id in ids])
            report = _sync(run, mode, kind)
            if _refused(before, mode, kind, ids):
                assert report.failure is not None
                assert report.failure.failure_type == "config_error"
                assert "a column of its primary key" in report.failure.message
                continue
            assert report.status is Status.DONE, report.failure
            before.append((mode, kind))
            if mode == "append_dedup":
                newest = {repr(record["id"]): record["n"] for record in run.server.records}
                assert sorted(row["n"] for row in rows(run.folder / "things")) == sorted(newest.values())


def _sync(run: Run, mode: str, kind: Json) -> StreamReport:
    run.world = replace(run.world, options={"write_mode": mode}, own={"id": kind})
    return run.sync({})
