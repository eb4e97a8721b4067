from dataclasses import replace
from typing import Any

import pytest

from cdk.base.errors import ConfigError
from cdk.lake.delta.table_state import TableState
from cdk.lake.storage.object_store import folder_at
from cdk.sync.loop.resume import resume_point
from cdk.sync.settings.stream_plan import StreamPlan
from connectors.shop import Shop

FULL, INC = "full_refresh", "incremental"
DONE = TableState(FULL, "append", "s1", 4, complete=True, state={"page": 1}, records=9)
CUT = replace(DONE, complete=False)
INC_DONE, INC_CUT = replace(DONE, sync_mode=INC), replace(CUT, sync_mode=INC)
FRESH = TableState(FULL, "append", "s2", 5)


def planned(sync_mode: Any, write_mode: Any, generation: int | None = None, *, replaces: bool = False) -> StreamPlan:
    stream, *_ = Shop().streams({})
    return StreamPlan(stream, folder_at("t", {}), sync_mode, write_mode, generation=generation, replaces=replaces)


@pytest.mark.parametrize(
    ("saved", "modes", "sync", "start", "resumed"),
    [
        # Nothing yet.
        (None, (FULL, "append"), "s2", TableState(FULL, "append", "s2"), False),
        (None, (INC, "append"), "s2", TableState(INC, "append", "s2"), False),
        # A full refresh that is complete is a new generation; one that was cut goes on.
        (DONE, (FULL, "append"), "s2", FRESH, False),
        (CUT, (FULL, "append"), "s2", replace(CUT, sync="s2"), True),
        # What this very sync has completed before it was cut is done.
        (DONE, (FULL, "append"), "s1", DONE, True),
        # Another way of writing is another generation.
        (CUT, (FULL, "overwrite"), "s2", replace(FRESH, write_mode="overwrite"), False),
        (DONE, (FULL, "overwrite"), "s1", TableState(FULL, "overwrite", "s1", 5), False),
        # An incremental sync goes on from its cursor, cut or not.
        (INC_DONE, (INC, "append"), "s2", replace(INC_CUT, sync="s2"), False),
        (INC_CUT, (INC, "append"), "s2", replace(INC_CUT, sync="s2"), True),
        # Another way of reading is another generation.
        (DONE, (INC, "append"), "s2", TableState(INC, "append", "s2", 5), False),
        (CUT, (INC, "append"), "s2", TableState(INC, "append", "s2", 5), False),
        (INC_DONE, (FULL, "append"), "s2", FRESH, False),
        (INC_CUT, (FULL, "append"), "s2", FRESH, False),
    ],
)
def test_where_a_sync_goes_on(
    saved: TableState | None, modes: tuple[str, str], sync: str, start: TableState, *, resumed: bool
) -> None:
    assert resume_point(planned(*modes), saved, sync) == (start, resumed)


@pytest.mark.parametrize(
    ("saved", "modes", "generation", "start", "resumed"),
    [
        (None, (FULL, "append"), 0, TableState(FULL, "append", "s2", 0), False),
        (DONE, (FULL, "append"), 7, TableState(FULL, "append", "s2", 7), False),
        (CUT, (FULL, "append"), 7, TableState(FULL, "append", "s2", 7), False),
        # The same generation again: the rest of it, and nothing once it is complete.
        (CUT, (FULL, "append"), 4, replace(CUT, sync="s2"), True),
        (DONE, (FULL, "append"), 4, replace(DONE, sync="s2"), True),
        # An incremental stream is read from its start when the platform says that it begins anew.
        (INC_DONE, (INC, "append"), 4, replace(INC_CUT, sync="s2"), False),
        (INC_DONE, (INC, "append"), 5, TableState(INC, "append", "s2", 5), False),
    ],
)
def test_a_platform_that_numbers_generations_says_when_one_begins(
    saved: TableState | None, modes: tuple[str, str], generation: int, start: TableState, *, resumed: bool
) -> None:
    assert resume_point(planned(*modes, generation), saved, "s2") == (start, resumed)


def test_an_older_catalog_does_not_write_to_a_table() -> None:
    with pytest.raises(ConfigError, match="found generation_id 3, and the table is at generation 4"):
        resume_point(planned(FULL, "append", 3), DONE, "s2")


KEYED = replace(INC_DONE, write_mode="append_dedup")
HIDDEN = replace(INC_CUT, write_mode="overwrite", generation=5)


@pytest.mark.parametrize(
    ("saved", "write_mode", "start", "resumed"),
    [
        # A generation that replaces the rows is hidden until it is whole, however often it is cut.
        (INC_DONE, "append", TableState(INC, "overwrite", "s2", 5), False),
        (HIDDEN, "append", replace(HIDDEN, sync="s2"), True),
        (replace(HIDDEN, complete=True), "append", replace(HIDDEN, write_mode="append", sync="s2"), False),
        # With one row for each key, the older ones leave at its end.
        (
            replace(INC_DONE, write_mode="append_dedup"),
            "append_dedup",
            TableState(INC, "append_dedup", "s2", 5, records=9),
            False,
        ),
    ],
)
def test_an_incremental_stream_is_refreshed(
    saved: TableState, write_mode: str, start: TableState, *, resumed: bool
) -> None:
    assert resume_point(planned(INC, write_mode, 5, replaces=True), saved, "s2") == (start, resumed)
