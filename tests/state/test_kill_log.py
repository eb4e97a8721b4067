"""Writers that race and are killed leave a log without holes: a short round of the campaign."""

from pathlib import Path

from tests.state.kill_log import campaign


def test_killed_writers_leave_every_step_exactly_once(tmp_path: Path) -> None:
    outcome = campaign(str(tmp_path / "state"), kills=6, steps=40, writers=3, seed=7, folder=tmp_path)

    assert outcome.kills == 6
    assert outcome.records >= outcome.acknowledged >= 40
