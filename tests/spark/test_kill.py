"""The short version of `make crash`: one kill of each kind."""

import random
from pathlib import Path

import pytest

from tests.spark.kill import VICTIMS, round_of_kills


@pytest.mark.spark
def test_killed_driver_jvm_and_worker_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    kills = round_of_kills(tmp_path, VICTIMS, random.Random())

    assert [kill.victim for kill in kills] == list(VICTIMS)
