"""The short version of `make crash`: twenty kills, five in each write mode."""

import random
from pathlib import Path

import pytest

from tests.spark.kill import MODES, round_of_kills

VICTIMS = ("driver", "jvm", "driver", "jvm", "worker")


@pytest.mark.spark
@pytest.mark.timeout(900)  # six syncs with a JVM each, on a machine that may be busy
@pytest.mark.parametrize("mode", MODES)
def test_killed_drivers_jvms_and_workers_lose_nothing_and_double_nothing(tmp_path: Path, mode: str) -> None:
    kills = round_of_kills(tmp_path, VICTIMS, random.Random(), mode)

    # On a busy machine a sync may end before the signal reaches it; its round is checked, and ends there.
    assert [kill.victim for kill in kills] == list(VICTIMS[: len(kills)])
    assert len(kills) == len(VICTIMS) or kills[-1].survived
