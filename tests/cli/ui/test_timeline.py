from datetime import UTC, datetime, timedelta
from itertools import pairwise

from cdk.base.values import Json
from cdk.cli.state.command import Entry
from cdk.cli.ui.timeline import WIDTH, Timeline, timeline
from cdk.lake.admin.commit_log import Commit
from cdk.lake.delta.state_blobs import successor

_BEGIN = datetime(2024, 3, 1, tzinfo=UTC)
_STATES = [0]
for _ in range(9):
    _STATES.append(successor(_STATES[-1]))


def _entry(version: int, sync: str, seconds: float, *, complete: bool, rows: int | None = 10) -> Entry:
    at = _BEGIN + timedelta(seconds=seconds)
    commit = Commit(version, at, "WRITE", state=_STATES[version], rows=rows, sync=sync, complete=complete)
    return Entry(commit, None, iter(()))


def _drawn(*entries: Entry, reports: dict[str, Json] | None = None) -> Timeline:
    drawn = timeline(entries[::-1], reports or {}, "orders")
    assert drawn is not None
    return drawn


def test_a_run_that_was_killed_ends_where_the_next_one_resumes() -> None:
    drawn = _drawn(
        _entry(1, "a", 0, complete=False),
        _entry(2, "a", 8, complete=False),
        _entry(3, "b", 3600, complete=False, rows=None),
        _entry(4, "b", 3604, complete=True),
        _entry(5, "c", 7200, complete=False),
    )

    killed, resumed, last = drawn.lanes
    assert [lane.kind for lane in drawn.lanes] == ["interrupted", "complete", "interrupted"]
    assert killed.words == "2 commits, 20 rows, interrupted at state 2"
    assert resumed.words == "resumed from state 2, 2 commits, 10 rows, complete at state 4"
    assert (resumed.came_from, last.came_from) == (killed.end, None)
    assert last.words == "1 commit, 10 rows, at state 5: interrupted, or still running"
    assert [dot.title for dot in resumed.dots] == [
        "2024-03-01 01:00:00: version 3, state 3, rows unknown",
        "2024-03-01 01:00:04: version 4, state 4, 10 rows",
    ]
    assert drawn.written == 40


def test_time_is_to_scale_within_runs_and_shortened_between_them() -> None:
    drawn = _drawn(
        *(
            _entry(1 + number, sync, at, complete=True)
            for number, (sync, at) in enumerate([("a", 0), ("a", 6), ("a", 8), ("b", 10**7), ("b", 10**7 + 4)])
        )
    )

    first, second = drawn.lanes
    steps = [b.x - a.x for a, b in pairwise(first.dots)]
    assert abs(steps[0] - 3 * steps[1]) <= 3
    assert abs((first.end - first.start) - 2 * (second.end - second.start)) <= 3
    assert 0 < second.start - first.end < WIDTH // 3
    assert second.end < WIDTH


def test_commits_say_how_runs_ended_and_reports_say_why() -> None:
    error = {"name": "orders", "status": "failed", "error": {"message": "no disk"}}
    drawn = _drawn(
        _entry(1, "a", 0, complete=False),
        _entry(2, "b", 1, complete=False),
        _entry(3, "c", 2, complete=True),
        _entry(4, "", 3, complete=False),
        reports={"b": {"streams": [error]}, "c": {"streams": [{"name": "orders", "status": "done"}]}},
    )

    assert [(lane.kind, lane.outcome) for lane in drawn.lanes] == [
        ("interrupted", "interrupted at state 1"),
        ("interrupted", "failed at state 2: no disk"),
        ("complete", "complete at state 3"),
        ("edit", "WRITE"),
    ]


def test_commits_without_a_time_cannot_be_drawn() -> None:
    assert timeline([Entry(Commit(1, None, "WRITE"), None, iter(()))], {}, "orders") is None


def test_fifty_runs_of_one_commit_fit_into_the_picture() -> None:
    runs = [Entry(Commit(n, _BEGIN + timedelta(days=n), "WRITE", sync=f"s{n}"), None, iter(())) for n in range(50)]

    xs = [lane.end for lane in _drawn(*runs).lanes]

    assert xs == sorted(set(xs))
    assert xs[-1] < WIDTH
