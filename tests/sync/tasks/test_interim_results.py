"""Interim results are found as they were left, or not at all."""

from pathlib import Path

from cdk.sync.tasks.interim_results import InterimResults


def test_what_a_task_leaves_is_found_in_its_order(tmp_path: Path) -> None:
    task, driver = (InterimResults(tmp_path, 7, 1.0, b"key") for _ in range(2))
    assert driver.load(0) is None
    for index, result in enumerate(["first", "second"]):
        task.store(index, result)

    assert [driver.load(index) for index in range(3)] == ["first", "second", None]
    assert InterimResults(tmp_path, 8, 1.0, b"key").load(0) is None


def test_what_somebody_else_leaves_is_not_looked_at(tmp_path: Path) -> None:
    InterimResults(tmp_path, 7, 1.0, b"another").store(0, "planted")
    mine = InterimResults(tmp_path, 7, 1.0, b"key")
    assert mine.load(0) is None
    mine.store(1, "of another place")
    (tmp_path / "7-1.interim").replace(tmp_path / "7-0.interim")

    assert mine.load(0) is None
    assert "key" not in repr(mine).replace("key=", "")


def test_a_task_whose_folder_is_elsewhere_leaves_nothing(tmp_path: Path) -> None:
    task = InterimResults(tmp_path / "elsewhere", 7, 1.0, b"key")
    task.store(0, "result")

    assert task.load(0) is None
