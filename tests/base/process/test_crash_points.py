"""A sync that dies at any of its points, in any write mode, and is run again: nothing is lost, nothing doubled."""

import os
import random
import re
from pathlib import Path

import pytest

from cdk import ConfigError, Source
from cdk.base.process.crash_points import POINTS, crash_point
from cdk.sync import Pipeline, SyncRunner
from tests.spark.crash import MODES, Death, check, run, told

# Points that only some modes get to.
ONLY = {
    "merge_compared": {"merged", "logged", "parted"},
    "merged": {"merged", "logged", "parted"},
    "before_history": {"logged"},
}
HIDDEN = {"overwrite"}


REACHED = [(mode, point) for mode in MODES for point in POINTS if mode in ONLY.get(point, MODES)]
# Of the points that each mode gets to, a third in each, and other ones in the next; `make crash` tries them all.
THIRD = [
    (mode, point)
    for n, mode in enumerate(MODES)
    for m, point in enumerate(POINTS)
    if mode in ONLY.get(point, MODES) and (point in ONLY or (n + m) % 3 == 0)
]


@pytest.mark.parametrize(("mode", "point"), REACHED if os.environ.get("CRASH_POINTS") == "all" else THIRD)
def test_a_sync_that_died_at_a_point_is_completed_by_the_next(tmp_path: Path, mode: str, point: str) -> None:
    assert run(tmp_path, mode, Death(point))
    if run(tmp_path, mode, Death(point, 2)):
        assert not run(tmp_path, mode)

    check(tmp_path, mode)


@pytest.mark.parametrize("seed", range(5))
def test_a_sync_that_dies_again_and_again_comes_to_its_end(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    mode = chance.choice(list(MODES))
    points = [point for a_mode, point in REACHED if a_mode == mode]

    for _ in range(6):
        if not run(tmp_path, mode, Death(chance.choice(points), chance.randrange(1, 8))):
            break
        if mode in HIDDEN:
            assert told(tmp_path / mode) in ([], [(n * 10 + i,) for n in range(5) for i in range(3)])
    else:
        assert not run(tmp_path, mode)

    check(tmp_path, mode)


def test_without_the_variable_a_point_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CDK_CRASH_AT", raising=False)
    for point in POINTS:
        crash_point(point)


@pytest.mark.parametrize(
    ("named", "text"),
    [
        (
            "after_comit",
            "found 'after_comit', did you mean 'after_commit'? expected a crash point: task_begins, page_read, ",
        ),
        ("nonsense", "found 'nonsense', expected a crash point: task_begins, page_read, "),
        (
            "done:never",
            "found 'done:never', expected done alone, or with the number of the time it is reached, as done:3",
        ),
        ("done:0", "found 'done:0', expected done alone"),
        ("done:", "found 'done:', expected done alone"),
    ],
)
def test_a_point_that_is_none_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, text: str
) -> None:
    monkeypatch.setenv("CDK_CRASH_AT", named)
    pipeline = Pipeline.model_validate(
        {"name": "p", "source": {"connector": "p"}, "target": {"path": str(tmp_path / "tables")}}
    )

    with pytest.raises(ConfigError, match=re.escape(f"CDK_CRASH_AT: {text}")):
        SyncRunner(pipeline, Source()).run()
    assert not (tmp_path / "tables").exists()
