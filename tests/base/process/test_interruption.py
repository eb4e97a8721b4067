"""What a run is told of its early end: by whom, once, and only while there is something to end."""

from datetime import timedelta
from pathlib import Path

from cdk.base.process.interruption import Interruption
from tests.sync.loop.simulated_tasks import Clock


def test_only_reading_is_interrupted_and_only_once() -> None:
    interruption = Interruption()

    assert not interruption.request("Ctrl-C")
    with interruption.reading():
        assert (interruption.why, interruption.request("Ctrl-C"), interruption.why) == ("", True, "Ctrl-C")
        assert not interruption.request("SIGTERM")
    assert interruption.why == "Ctrl-C"


def test_time_that_is_up_interrupts_by_itself() -> None:
    clock = Clock()
    interruption = Interruption(timedelta(seconds=10), clock)

    assert (interruption.why, interruption.limited(4), interruption.limited(40)) == ("", 4, 10)
    clock.now = 10
    assert (interruption.why, interruption.limited(4)) == ("max_duration", 0)
    with interruption.reading():
        assert not interruption.request("Ctrl-C")


def test_other_processes_are_told_where_they_see_the_same_disk(tmp_path: Path) -> None:
    driver, worker, elsewhere = Interruption(), Interruption(), Interruption()
    driver.announce(tmp_path)
    driver.follow(tmp_path)
    worker.follow(tmp_path)
    elsewhere.follow(None)

    assert worker.why == ""
    with driver.reading():
        assert driver.request("Ctrl-C")
    assert (driver.why, bool(worker.why), elsewhere.why) == ("Ctrl-C", True, "")


def test_a_disk_that_is_full_does_not_keep_a_run_from_ending(tmp_path: Path) -> None:
    driver = Interruption()
    driver.announce(tmp_path / "missing")

    with driver.reading():
        assert driver.request("SIGTERM")
    assert driver.why == "SIGTERM"


def test_without_a_limit_there_is_all_the_time() -> None:
    assert Interruption().limited(1e9) == 1e9
