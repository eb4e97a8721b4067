"""Commits that delta-rs makes move rows and state together, wherever a sync is cut."""

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from cdk.lake.delta import stream_table, write_modes
from cdk.lake.delta.table_guard import Use
from tests.lake.delta.test_table_guard import OPTIONS, Users, featured, fill, of, rows, sync

POINTS = ["before_state_blob", "after_state_blob", "merged", "after_commit"]
USES = [Use.APPEND, Use.OVERWRITE, Use.APPEND_DEDUP, Use.FLAG, Use.DELETE]


class Cut(BaseException):
    """As a kill: nothing catches it."""


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("use", USES)
def test_a_sync_that_is_cut_beside_a_commit_of_delta_rs_is_made_good_by_the_next(
    tmp_path: Path, use: Use, point: str, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, use)
    featured(tmp_path, use, "CHECK constraints")
    met: list[str] = []

    def crash(name: str) -> None:
        met.append(name)
        if met.count(point) == nth and name == point:
            raise Cut

    def users() -> Users:
        return Users([of(4), of(5, 2)])

    with monkeypatch.context() as patched:
        for module in (stream_table, write_modes):
            patched.setattr(module, "crash_point", crash)
        try:
            sync(tmp_path, users(), OPTIONS[use])
        except Cut:
            assert met.count(point) == nth
    report = sync(tmp_path, users(), OPTIONS[use])

    before = [(1, 1, 1), (2, 2, 1), (3, 3, 1)]
    new = [(2, 5, 1), (4, 4, 1)]
    expected: dict[Use, list[Any]] = {Use.APPEND: [*before, *new], Use.APPEND_DEDUP: [before[0], before[2], *new]}
    assert report.failure is None
    assert rows(tmp_path) == sorted(expected.get(use, new))
    assert sync(tmp_path, users(), OPTIONS[use]).failure is None
    assert rows(tmp_path) == sorted(expected.get(use, new))


def test_the_rows_of_a_feature_are_written_in_the_commit_that_moves_the_marker(tmp_path: Path) -> None:
    fill(tmp_path, Use.APPEND_DEDUP)
    featured(tmp_path, Use.APPEND_DEDUP, "a change feed")
    version = DeltaTable(str(tmp_path / "users")).version()

    sync(tmp_path, Users([of(4), of(5, 2)]), OPTIONS[Use.APPEND_DEDUP])

    (commit, *_) = DeltaTable(str(tmp_path / "users")).history(1)
    assert commit["version"] == version + 1
    assert commit["operation"] == "MERGE"
    assert "spark-cdk.state" in commit
    assert "spark-cdk.receipt" in commit
