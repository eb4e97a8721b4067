"""The short version of `make crash`: one kill of each kind."""

import random
from pathlib import Path

import pytest

from tests.spark.kill import VICTIMS, round_of_kills


@pytest.mark.spark
def test_killed_driver_jvm_and_worker_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        kills = round_of_kills(folder, VICTIMS, random.Random())
        if [kill.victim for kill in kills] == list(VICTIMS):
            return
        # On a busy machine a sync may end before the signal reaches it; its round is checked, and ends there.
        assert kills[-1].survived

    pytest.fail("in three rounds a sync ended before it could be killed")
