"""The reports of a pipeline's runs that lie beside its tables."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cdk.lake.storage.folder import LocalFolder
from cdk.sync.reports import run_history
from cdk.sync.reports.run_history import RunHistory
from cdk.sync.reports.run_report import RunFacts, run_report

BEGAN = datetime(2026, 3, 1, 8, tzinfo=UTC)


def report(minute: int, sync: str = "", **more: Any) -> dict[str, Any]:
    began = BEGAN + timedelta(minutes=minute)
    return {**run_report(RunFacts("shop", sync=sync, started=began, ended=began), ()), **more}


@pytest.fixture
def history(tmp_path: Path) -> RunHistory:
    return RunHistory(LocalFolder(tmp_path), "shop")


def began(history: RunHistory) -> list[int]:
    return [(datetime.fromisoformat(each["started_at"]) - BEGAN).seconds // 60 for each in history.reports()]


def test_reports_come_newest_first_whatever_their_ids(history: RunHistory) -> None:
    for minute, sync in [(2, "a"), (1, "c"), (3, ""), (0, "b")]:
        history.add(report(minute, sync))

    assert began(history) == [3, 2, 1, 0]


def test_pipelines_of_one_target_have_a_history_each(tmp_path: Path, history: RunHistory) -> None:
    history.add(report(1))

    assert began(RunHistory(LocalFolder(tmp_path), "market")) == []


def test_the_last_report_of_a_sync_counts_that_was_gone_on_with(history: RunHistory) -> None:
    for minute, status in [(1, "failed"), (2, "done")]:
        history.add(report(minute, "a", status=status))
    history.add(report(3, "b"))

    assert {sync: each["status"] for sync, each in history.by_sync({"a", "z"}).items()} == {"a": "done"}


def streams(**requests: int) -> list[dict[str, Any]]:
    """Parts of a report: streams that were asked so often; who was not asked is done."""
    return [
        {
            "name": name,
            "status": "interrupted" if asked else "done",
            "http": {"requests": asked},
            "slices": {"started": False},
        }
        for name, asked in requests.items()
    ]


def test_a_stream_waits_since_the_last_run_that_asked_for_it_back_to_one_that_nothing_interrupted(
    history: RunHistory,
) -> None:
    history.add(report(1, "a", streams=streams(never=3, once=3)))
    for minute, asked in [(2, {"early": 1}), (3, {"once": 1, "never": 0}), (4, {"late": 1})]:
        history.add(report(minute, "b", interrupted="max_requests", streams=streams(**asked)))

    assert history.waits(["never", "early", "once", "late"]) == {"never": 3, "early": 2, "once": 1, "late": 0}

    # What sends no requests of the kit's is known by its slices.
    started = [{**stream, "slices": {"started": True}} for stream in streams(never=0)]
    history.add(report(5, "b", interrupted="max_duration", streams=started))
    assert history.waits(["never", "late"]) == {"never": 0, "late": 1}

    history.add(report(6, "c"))
    assert set(history.waits(["early", "late"]).values()) == {0}


def test_a_sync_has_completed_what_its_last_run_says_unless_another_ran_since(history: RunHistory) -> None:
    assert history.completed("a") == frozenset()

    history.add(report(1, "a", interrupted="max_requests", streams=streams(users=0, orders=2)))

    assert history.completed("a") == {"users"}
    history.add(report(2, "b"))
    assert history.completed("a") == frozenset()


def test_the_oldest_reports_leave_where_they_are_many(history: RunHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_history, "_MOST", 30)
    for minute in range(33):
        history.add(report(minute))

    assert began(history) == list(range(32, 2, -1))


def test_the_oldest_reports_leave_where_they_are_large(history: RunHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_history, "_BYTES", 1000)
    for minute in range(23):
        history.add(report(minute))

    assert began(history) == list(range(22, 2, -1))


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b'{"format": "another"}'])
def test_what_is_no_report_is_passed_over(tmp_path: Path, history: RunHistory, content: bytes) -> None:
    history.add(report(1))
    (tmp_path / "_cdk" / "shop.runs" / "20260301T090000-x.json").write_bytes(content)

    assert began(history) == [1]


def test_a_report_that_cannot_be_written_is_no_error_of_the_run(
    tmp_path: Path, history: RunHistory, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "_cdk").mkdir()
    (tmp_path / "_cdk" / "shop.runs").write_text("a file where the folder should be")

    history.add(report(1))

    assert "could not be added" in caplog.text


def test_a_target_that_no_run_has_used_stays_as_it_is(tmp_path: Path, history: RunHistory) -> None:
    history.add(report(1), first=False)
    assert not [*tmp_path.iterdir()]

    history.add(report(2))
    history.add(report(3), first=False)
    assert began(history) == [3, 2]
