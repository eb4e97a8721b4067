"""Worlds of an API that refuses pages behind a number of records, read in syncs that are interrupted anywhere."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk import FatalError
from cdk.base.task_map import run_inline
from cdk.rest import Headers, Request, Response
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from cdk.testing import MockApi
from tests.declarative.manifests import CURSOR, paginator, source
from tests.worlds.table import rows

DOWN = "the server is down"


@dataclass
class Api:
    """A list that is ordered by day, in pages of `size` records; none begins at `bound` or behind it.

    days: of each record. refuses: how many pages it refuses, None for all of them. failing: it is down at the request
    with this number, of one sync.
    """

    days: Sequence[int]
    size: int
    bound: int
    refuses: int | None = None
    failing: int | None = None
    requests: int = 0
    refused: list[int] = field(default_factory=list)

    def answer(self, request: Request) -> Response:
        self.requests += 1
        if self.requests == self.failing:
            raise FatalError(DOWN)
        asked: Mapping[str, Any] = request.params
        offset = int(asked.get("page", 0))
        if offset >= self.bound and (self.refuses is None or len(self.refused) < self.refuses):
            self.refused.append(offset)
            return Response(400, Headers({}), b'{"error": "too deep"}', request.url, request)
        listed = [n for n, day in enumerate(self.days) if date(day) >= asked["since"]]
        data = [{"id": n, "on": date(self.days[n])} for n in listed[offset : offset + self.size]]
        return Response(200, Headers({}), json.dumps({"data": data}).encode(), request.url, request)


def date(day: int) -> str:
    return f"2024-01-{day:02}"


@dataclass
class Expected:
    """What a read of all brings. ends: not with an error."""

    ids: Counter[int]
    ends: bool


def depth(api: Api) -> int:
    """How many records the API gives in pages."""
    return -(-api.bound // api.size) * api.size


def from_greatest_on(api: Api, by: str) -> Expected:
    """Legs of as many pages as the API gives, each from the greatest day of the one before."""
    ids, since = Counter[int](), 1
    while True:
        leg = [n for n, day in enumerate(api.days) if day >= since][: depth(api)]
        ids.update(leg)
        # A last page that is not full says that nothing follows, but not where it reaches the limit.
        if len(leg) < (api.bound if by == "limit" else depth(api)):
            return Expected(ids, ends=True)
        if api.days[leg[-1]] == since:
            # A page that is not full has no position of its own: only the end of its slice would land it.
            return Expected(ids - Counter(leg[len(leg) - len(leg) % api.size :]), ends=False)
        since = api.days[leg[-1]]


def before_refusal(api: Api) -> Counter[int]:
    """The records of the pages before the first one that is refused; none where that is not requested."""
    # Behind a last page that is full another one is requested.
    return Counter(range(depth(api))) if len(api.days) >= depth(api) else Counter()


def stream(by: str, bound: int, size: int) -> dict[str, Any]:
    """The parts of a manifest. by: what the kit knows of the bound."""
    told = [{"type": "HttpResponseFilter", "http_codes": [400], "action": "RESET_PAGINATION"}]
    answered = {"requester": {"error_handler": {"type": "DefaultErrorHandler", "response_filters": told}}}
    action = "RESET" if by == "reset" else "SPLIT_USING_CURSOR"
    limits = {"limits": {"number_of_records": bound}} if by == "limit" else {}
    return {
        "stream": {"incremental_sync": CURSOR},
        "paginator": paginator({"type": "OffsetIncrement", "page_size": size}),
        "pagination_reset": {"type": "PaginationReset", "action": action, **limits},
        **({} if by == "limit" else answered),
    }


def sync(api: Api, parts: Mapping[str, Any], folder: Path, interval: int) -> StreamReport:
    mock = MockApi()
    mock.get("/items").answers(api.answer)
    pipeline = Pipeline(
        name="world",
        source=SourceOptions(connector="given"),
        target=TargetOptions(path=str(folder)),
        streams={"items": StreamOptions.model_validate({"write_mode": "append"})},
        checkpoint_interval=timedelta(seconds=interval),
    )
    (report,) = SyncRunner(pipeline, source(mock, **parts), workers=Workers(run_inline, 1)).run().streams
    return report


def read(api: Api, by: str, folder: Path, failing: Sequence[int], interval: int) -> StreamReport:
    """Sync until the server is up to the end. failing: the requests at which it is down, one of each sync."""
    parts, requests = stream(by, api.bound, api.size), [*failing, None]
    while True:
        api.requests, api.failing = 0, requests.pop(0)
        report = sync(api, parts, folder, interval)
        assert (report.status is Status.DONE) == (report.failure is None)
        if report.failure is None or report.failure.message != DOWN:
            return report


def apis(refuses: Sequence[int | None]) -> st.SearchStrategy[Api]:
    days = st.lists(st.integers(1, 9), max_size=18).map(sorted)
    return st.builds(Api, days, st.integers(1, 4), st.integers(2, 9), st.sampled_from(refuses))


DAYS = [1, 2, 3, 4, 5, 6]
FAILING = st.lists(st.integers(1, 7), max_size=3)
INTERVALS = st.sampled_from([0, 30])


@given(apis([None]), st.sampled_from(["limit", "answer"]), FAILING, INTERVALS)
@example(Api(DAYS, 1, 3), "answer", [], 0)
@example(Api(DAYS, 1, 3), "limit", [3], 30)
@example(Api([1, 1], 3, 2), "limit", [], 0)
@settings(max_examples=25, deadline=None)
def test_refused_pages_are_read_from_the_greatest_value_on_however_a_read_is_interrupted(
    tmp_path_factory: pytest.TempPathFactory, api: Api, by: str, failing: list[int], interval: int
) -> None:
    folder, expected = tmp_path_factory.mktemp("lake"), from_greatest_on(api, by)

    report = read(api, by, folder, failing, interval)

    assert Counter(row["id"] for row in rows(folder / "items")) == expected.ids
    if expected.ends:
        assert report.failure is None
    else:
        assert report.failure is not None
        assert "no record is newer" in report.failure.message


@given(apis([1, None]), FAILING, INTERVALS)
@example(Api(DAYS, 1, 3), [], 0)
@settings(max_examples=15, deadline=None)
def test_pages_begin_anew_once_however_a_read_is_interrupted(
    tmp_path_factory: pytest.TempPathFactory, api: Api, failing: list[int], interval: int
) -> None:
    folder, before, everything = tmp_path_factory.mktemp("lake"), before_refusal(api), Counter(range(len(api.days)))

    report = read(api, "reset", folder, failing, interval)

    if not before or api.refuses == 1:
        assert report.failure is None
        read_ids = Counter(row["id"] for row in rows(folder / "items"))
        # A sync that is interrupted where it begins anew is resumed at the page that was refused, which is there then.
        assert everything <= read_ids <= before + everything
        assert failing or read_ids == before + everything
        return
    assert report.failure is not None
    assert "already read again from the start" in report.failure.message
    # Once nothing is refused any more, the next sync has the rest.
    api.refuses = 0
    assert read(api, "reset", folder, [], interval).failure is None
    assert {row["id"] for row in rows(folder / "items")} == set(everything)
