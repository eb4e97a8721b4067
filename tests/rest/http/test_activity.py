"""What is being done right now, as whoever looks on sees it, from this process and from others."""

from pathlib import Path

from cdk.base.run import RunScope
from cdk.rest import HttpClient, HttpErrorHandler, Request, RetryPolicy
from cdk.rest.http.activity import (
    Activities,
    Activity,
    StreamActivity,
    activities,
    note_wait,
    task_activity,
    working_for,
)
from cdk.testing.mock_api import MockApi
from tests.rest.api import NOON, Time

USERS = Request("GET", "https://api.test/users")


class Seconds:
    """A clock in seconds since 1970."""

    def __init__(self) -> None:
        self.now = NOON.timestamp()

    def __call__(self) -> float:
        return self.now


def test_pages_are_counted_and_end_a_wait() -> None:
    clock = Seconds()
    activity = Activity(clock=clock)

    activity.page("users")
    activity.wait("users", 8, "connection refused")
    activity.wait("orders", 2, "busy")

    assert activity.current() == {
        "users": StreamActivity(1, clock.now + 8, "connection refused"),
        "orders": StreamActivity(0, clock.now + 2, "busy"),
    }
    activity.page("users")
    assert activity.current()["users"] == StreamActivity(2)
    activity.end()
    assert activity.current() == {}


def test_the_pause_before_another_attempt_is_noted_for_its_stream() -> None:
    api, time, seen = MockApi(), Time(), list[StreamActivity]()
    api.get("/users").returns(status=503).returns(json=[])
    activity = Activity()

    def sleep(seconds: float) -> None:
        seen.append(activity.current()["users"])
        time.sleep(seconds)

    client = HttpClient(
        api, error_handler=HttpErrorHandler(retry_policy=RetryPolicy(retries=1, clock=time.clock)), sleep=sleep
    )
    with working_for("users", activity):
        client.send(USERS)
    client.send(USERS)

    assert [one.why for one in seen] == ["GET https://api.test/users answered 503"]
    assert seen[0].until > 0


def test_what_several_tasks_do_for_a_stream_is_one() -> None:
    everything = Activities()
    with everything.task(None):
        task_activity().page("users")
        with everything.task(None):
            task_activity().page("users")
            task_activity().wait("users", 60, "busy")
            everything.planning.wait("users", 5, "slow")

            seen = everything.current()["users"]

    assert (seen.pages, seen.why) == (2, "busy")
    assert everything.current()["users"].pages == 0


def test_a_task_of_another_process_is_seen_by_what_it_notes(tmp_path: Path) -> None:
    with RunScope().working():
        onlooker = activities()
        onlooker.folder = tmp_path
    with RunScope().working(), activities().task(tmp_path):
        task_activity().wait("users", 60, "connection refused")

        (seen,) = onlooker.current().items()
        assert (seen[0], seen[1].why) == ("users", "connection refused")
        assert [file.stat().st_mode & 0o777 for file in tmp_path.iterdir()] == [0o600]

    assert onlooker.current() == {}
    assert list(tmp_path.iterdir()) == []


def test_notes_are_few_however_many_pages_come(tmp_path: Path) -> None:
    clock, file = Seconds(), tmp_path / "task.json"
    activity = Activity(file, clock)
    texts = set()
    for _ in range(1000):
        activity.page("users")
        texts.add(file.read_text())
        clock.now += 0.01

    assert 10 <= len(texts) <= 21


def test_a_folder_that_is_gone_or_spoiled_stops_nobody(tmp_path: Path) -> None:
    activity = Activity(tmp_path / "gone" / "task.json")
    activity.wait("users", 60, "busy")
    activity.end()
    onlooker = Activities()
    onlooker.folder = tmp_path
    (tmp_path / "half.json").write_text('{"users": [1')
    (tmp_path / "other.json").write_text('{"users": [1, 2, 3, 4, 5]}')

    assert onlooker.current() == {}


def test_a_wait_that_is_for_no_stream_is_not_noted() -> None:
    note_wait(60, "busy")

    assert task_activity().current() == {}
