from datetime import UTC, datetime
from pathlib import Path

import pytest

from cdk import Source
from cdk.testing import Cassette
from cdk.testing.cassettes.interactions import Recording
from cdk.testing.proving.proof import Proof, affordable_share, prove
from cdk.testing.proving.trials import Subject, Trials
from tests.testing.proving.connectors import (
    BROKEN_ANYWAY,
    BROKEN_BY_KILLS,
    ROWS,
    BrokenAnyway,
    BrokenByKills,
    Doubtful,
    NeverEnding,
)

EMPTY = Cassette(Recording([], recorded_at=datetime(2024, 1, 1, tzinfo=UTC)))


def proof_of(source: type[Source], folder: Path, kills: int) -> Proof:
    subject = Subject(source, {"side_file": str(folder / "side")}, EMPTY)
    return prove(subject, at_commits=kills, at_random=0)


def accused(problems: list[str]) -> set[str]:
    """The streams that some sentences are about."""
    names = {stream().name for stream in (*BROKEN_ANYWAY, *BROKEN_BY_KILLS)}
    return {name for name in names for problem in problems if f" {name}: " in f" {problem}"}


def test_what_a_kill_breaks_is_noticed(tmp_path: Path) -> None:
    proof = proof_of(BrokenByKills, tmp_path, 5)

    assert not proof.proven
    assert not proof.problems
    problems = [problem for kill in proof.kills for problem in kill.problems]
    # Each is killed once in its middle, and nothing happens to those that a kill finds before or behind that.
    assert sum(map(len, (accused(list(kill.problems)) for kill in proof.kills))) == len(BROKEN_BY_KILLS)
    assert accused(problems) == {stream().name for stream in BROKEN_BY_KILLS}
    assert {ROWS} == set(proof.rows.values())


@pytest.mark.parametrize(("seconds", "share"), [(0.0, 1.0), (1.2, 1.0), (2.4, 0.5), (600.0, 0.2)])
def test_kills_that_take_long_are_fewer(seconds: float, share: float) -> None:
    assert affordable_share(seconds) == pytest.approx(share)


def test_what_needs_no_kill_is_noticed_without_one(tmp_path: Path) -> None:
    proof = proof_of(BrokenAnyway, tmp_path, 10)

    assert not proof.proven
    assert accused(list(proof.problems)) == {stream().name for stream in BROKEN_ANYWAY}
    assert not proof.kills
    for name, where in (("chance", "price"), ("turning", "at")):
        (said,) = (problem for problem in proof.problems if f"page: {name}: " in problem)
        assert f"{name}: {ROWS} of {ROWS} rows changed, in {where}: " in said


def test_a_sync_that_does_not_end_is_ended(tmp_path: Path) -> None:
    run = Trials(Subject(NeverEnding, {}, EMPTY), limit=0.5).sync(tmp_path / "tables")

    assert "does not end" in run.failure


def test_what_may_be_missing_from_every_sync_is_in_its_report(tmp_path: Path) -> None:
    run = Trials(Subject(Doubtful, {}, EMPTY)).sync(tmp_path / "tables")

    assert run.warnings == ["only_pages: there may be more"]
