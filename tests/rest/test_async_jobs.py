from collections.abc import Iterator, Mapping
from datetime import timedelta

import pytest

from cdk.base.errors import ServerError, StaleToken
from cdk.base.values import Json
from cdk.rest import Response
from cdk.rest.async_jobs import Job, JobBudget, JobReader, Status
from cdk.state.position import Checkpoint
from cdk.state.slice import Slice
from cdk.streams.page import Item, Page
from tests.rest.api import Time, response


class Exports:
    """An API whose jobs end as told; each has two targets of one record."""

    deletes = False

    def __init__(self, *statuses: Status) -> None:
        self.statuses = list(statuses)
        self.said: list[str] = []
        self.broken, self.warning = False, ""

    def create(self, slice: Slice) -> Response:  # noqa: ARG002
        self.said.append("create")
        return response({"id": 7})

    def status(self, job: Job) -> Status:
        self.said.append(f"status {job.created['id']}")
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]

    def targets(self, job: Job) -> tuple[list[str], str]:  # noqa: ARG002
        return ["a", "b"], self.warning

    def download(self, job: Job, target: str, page: Mapping[str, Json] | None) -> Iterator[Item]:  # noqa: ARG002
        self.said.append(f"download {target}{page or ''}")
        yield Page([{"target": target}], None)

    def abort(self, job: Job) -> None:  # noqa: ARG002
        self.said.append("abort")

    def delete(self, job: Job) -> None:  # noqa: ARG002
        self.said.append("delete")
        if self.broken:
            raise ServerError("no space to delete")


JOB = {"body": {"id": 7}, "headers": {}}


def test_each_page_says_where_a_cut_read_goes_on() -> None:
    pages = list(JobReader(Exports("completed")).read(Slice()))

    assert pages == [
        Page((), {"job": JOB}, runs_job=True),
        Page([{"target": "a"}], {"job": JOB, "done_targets": 1, "targets": 2}),
        Page([{"target": "b"}], None),
    ]


def test_a_job_that_is_deleted_is_no_place_to_go_on_once_records_have_come() -> None:
    """It is gone before the last of them are committed."""
    api = Exports("completed")
    api.deletes = True

    pages = list(JobReader(api).read(Slice()))

    assert pages == [
        Page((), {"job": JOB}, runs_job=True),
        Page([{"target": "a"}], None),
        Page([{"target": "b"}], None),
    ]
    assert api.said[-1] == "delete"


def test_a_warning_of_the_targets_comes_before_their_records_and_costs_no_progress() -> None:
    exports = Exports("completed")
    exports.warning = "b is named twice"

    pages = list(JobReader(exports).read(Slice()))

    assert pages[1] == Page((), {"job": JOB, "done_targets": 0, "targets": 2}, warning="b is named twice")
    assert [record for page in pages[2:] if isinstance(page, Page) for record in page.records] == [
        {"target": "a"},
        {"target": "b"},
    ]


def test_a_read_goes_on_at_a_page_of_a_target() -> None:
    api = Exports("completed")
    start = Checkpoint({"job": JOB, "done_targets": 1, "targets": 2, "page": {"n": 2}})

    assert list(JobReader(api).read(Slice(start=start))) == [Page([{"target": "b"}], None)]
    assert api.said == ["status 7", "download b{'n': 2}", "delete"]


@pytest.mark.parametrize(
    "token", [{"page": 3}, {"job": "7"}, {"job": JOB, "done_targets": 1, "targets": 3}], ids=["page", "job", "targets"]
)
def test_a_token_that_fits_no_job_starts_the_slice_again(token: dict[str, Json]) -> None:
    with pytest.raises(StaleToken):
        list(JobReader(Exports("completed")).read(Slice(start=Checkpoint(token))))


def test_a_resumed_job_that_has_ended_is_not_mixed_with_another() -> None:
    start = Checkpoint({"job": JOB, "done_targets": 1, "targets": 2})

    with pytest.raises(StaleToken, match="before all of it was downloaded"):
        list(JobReader(Exports("failed", "completed")).read(Slice(start=start)))


def test_a_read_that_is_closed_leaves_a_job_that_a_state_keeps() -> None:
    kept = Exports("running")
    going = JobReader(kept).read(Slice())
    assert next(going) == Page((), {"job": JOB}, runs_job=True)
    going.close()  # type: ignore[attr-defined] # a generator

    assert kept.said == ["create"]


def test_a_job_that_cannot_be_deleted_is_left() -> None:
    api = Exports("completed")
    api.broken = True

    assert len(list(JobReader(api).read(Slice()))) == 3


def test_jobs_that_wait_for_each_other_do_not_wait_for_ever() -> None:
    time, budget = Time(), JobBudget(1)
    assert budget.try_start()
    reader = JobReader(Exports("completed"), budget=budget, sleep=time.sleep, timeout=timedelta(seconds=10))

    assert len(list(reader.read(Slice()))) == 3
    assert sum(time.slept) == pytest.approx(10.0, abs=0.2)
    assert not budget.try_start()


def test_a_job_makes_room_for_others_before_it_is_downloaded() -> None:
    budget = JobBudget(1)
    reading = JobReader(Exports("completed"), budget=budget).read(Slice())

    next(reading)
    assert not budget.try_start()
    next(reading)
    assert budget.try_start()
