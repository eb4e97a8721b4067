"""The report of a run: what a real sync puts into it, how it ends, and what never gets into it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
from deltalake import DeltaTable
from msgspec.structs import replace
from pyspark.sql import SparkSession

from cdk import Json, JsonSchema, Page, PagedStream, Partition, Slice, Source, Stream, TransientError
from cdk.base.task_map import Item as Work
from cdk.base.task_map import Result
from cdk.base.times.clock import Clock, system_clock
from cdk.lake.delta.receipt import Receipt
from cdk.rest.http.metrics import HttpMetrics, current_metrics
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.counts import CommitCounts, Readers, SliceCounts, StaleCount
from cdk.sync.reports.run_report import RunFacts, run_report, write_report
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, TargetOptions
from cdk.sync.tasks.messages import Failure, SliceResult
from cdk.sync.tasks.task_concurrency import ConcurrencyCount
from cdk.sync.tasks.workers import Workers
from tests.docs.page import DOCS
from tests.samples import Broken, Orders

BEGUN = datetime(2024, 1, 1, tzinfo=UTC)
READING = StreamReport("users", Status.READING, "full_refresh", "overwrite")
DOWN = Failure("the source is down", "transient_error", "traceback")


class Days:
    """A clock that goes on by a day each time somebody looks."""

    def __init__(self) -> None:
        self._now = BEGUN - timedelta(days=1)

    def __call__(self) -> datetime:
        self._now += timedelta(days=1)
        return self._now


class Parts(PagedStream):
    """Two parents, which planning asks for, of three pages each; every third row does not fit its column."""

    name = "parts"
    schema: JsonSchema | None = {  # noqa: RUF012 - as an author writes it
        "type": "object",
        "properties": {"id": {"type": "integer"}},
    }

    def partitions(self) -> Iterator[Partition]:
        current_metrics().count_response(200, 7)
        for name in ("a", "b"):
            yield Partition.of(part=name)

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:  # noqa: ARG002
        n = token["page"] if token else 0
        current_metrics().count_response(429, 1)
        current_metrics().count_retry(2.0)
        current_metrics().count_response(200, 10)
        return Page([{"id": 1}, {"id": 2}, {"id": "three"}], {"page": n + 1} if n < 2 else None)


class Kept(Source):
    """A source with a secret."""

    config_schema: JsonSchema = {  # noqa: RUF012 - as an author writes it
        "type": "object",
        "properties": {"key": {"type": "string", "airbyte_secret": True}},
    }

    def streams(self, config: Mapping[str, Json]) -> Sequence[Stream]:  # noqa: ARG002
        return [Parts(), Orders(), Broken()]


def runner(folder: Path, clock: Clock = system_clock, workers: Workers | None = None) -> SyncRunner:
    pipeline = Pipeline(
        name="test",
        source=SourceOptions(connector="kept", config={"key": "hunter2"}),
        target=TargetOptions(path=str(folder)),
    )
    return SyncRunner(pipeline, Kept(), clock=clock, workers=workers)


@pytest.mark.spark
def test_the_report_of_a_sync_has_its_figures_and_no_secrets(tmp_path: Path, session: SparkSession) -> None:
    result = runner(tmp_path, Days()).run()
    report = result.to_json()

    assert "hunter2" not in orjson.dumps(report).decode()
    assert report["format"] == "spark-cdk-report/1"
    assert (report["pipeline"], report["target"]) == ("test", str(tmp_path))
    assert (report["started_at"], report["ended_at"]) == ("2024-01-01T00:00:00+00:00", "2024-01-02T00:00:00+00:00")
    assert report["duration_seconds"] == 86_400
    assert report["spark"] == {"version": session.version, "master": "local[2,4]"}
    assert report["read_by"]["process"] == {"tasks": 0, "slices": 0, "records": 0}
    assert (report["read_by"]["spark"]["slices"], report["read_by"]["spark"]["records"]) == (7, 45)
    assert len(report["sync_id"]) == 32
    assert (report["status"], report["error"]) == ("failed", None)
    assert report["records"] == {"read": 45, "written": 39, "rejected": 6, "skipped": 6}
    assert report["http"]["statuses"] == {"2xx": 7, "4xx": 6}

    parts, orders, broken = report["streams"]
    assert (parts["status"], parts["sync_mode"], parts["write_mode"]) == ("done", "full_refresh", "overwrite")
    assert parts["records"] == {"read": 18, "written": 18, "rejected": 6, "skipped": 0, "apart": 0, "total": 18}
    assert parts["http"] == {
        "requests": 13,
        "retries": 6,
        "waited_seconds": 12.0,
        "rate_limited_seconds": 0,
        "received_bytes": 73,
        "cached": 0,
        "unanswered": 0,
        "statuses": {"2xx": 7, "4xx": 6},
    }
    assert (parts["slices"]["planned"], parts["slices"]["all_planned"], parts["slices"]["done"]) == (2, True, 2)
    assert [item["slice"] for item in parts["slices"]["listed"]] == ['{"part":"a"}', '{"part":"b"}']
    assert all((item["read"], item["rejected"], item["done"]) == (9, 3, 1) for item in parts["slices"]["listed"])
    assert sum(item["written"] for item in orders["slices"]["listed"]) == orders["records"]["written"] == 21
    assert broken["status"] == "failed"
    assert broken["error"] == {
        "message": "the source refused the key ****",
        "failure_type": "transient_error",
        "hint": "run the sync again later; it resumes from its last commit",
    }
    for stream in (parts, orders):
        table = DeltaTable(str(tmp_path / stream["name"]))
        newest = stream["commits"]["listed"][-1]
        assert newest["table_version"] == table.version()
        assert len(stream["commits"]["listed"]) == stream["commits"]["count"]
        sizes = [(tmp_path / stream["name"] / file).stat().st_size for file in table.file_uris()]
        assert stream["files"] == {"count": len(sizes), "bytes": sum(sizes)}
        assert sum(one["bytes"] for one in stream["commits"]["listed"]) == sum(sizes)


@pytest.mark.spark
def test_the_jobs_of_a_sync_are_named_and_those_after_it_are_not(tmp_path: Path, session: SparkSession) -> None:
    runner(tmp_path).run()

    jobs = session.sparkContext._jsc.sc().statusStore().jobsList(None)
    names = [
        str(jobs.apply(n).description().get()) for n in range(jobs.size()) if jobs.apply(n).description().isDefined()
    ]
    # The slices that stop at pages, and the one that is read to its end.
    assert any(name.startswith("test: parts, orders ") for name in names), names
    assert any(name == "test: broken" for name in names), names
    assert not session.sparkContext.getLocalProperty("spark.job.description")


def test_a_sync_that_is_cut_has_a_report_of_what_it_did(tmp_path: Path) -> None:
    def lost(_work: Callable[[Work], Result], _items: Sequence[Work]) -> list[Result]:
        raise TransientError("Spark is gone, and so is hunter2")

    cut = runner(tmp_path, workers=Workers(lost, 2))
    with pytest.raises(TransientError):
        cut.run()

    report = cut.result.to_json()
    assert [stream["status"] for stream in report["streams"]] == ["interrupted"] * 3
    assert report["streams"][0]["slices"]["planned"] == 2


def test_before_it_runs_a_sync_has_a_report_without_streams(tmp_path: Path) -> None:
    report = runner(tmp_path).result.to_json()

    assert (report["streams"], report["sync_id"], report["spark"]) == ([], None, None)


@pytest.mark.parametrize(
    ("run", "streams", "status"),
    [
        (RunFacts(), [], "done"),
        (RunFacts(failure=DOWN), [], "failed"),
        (RunFacts(), [READING], "failed"),
        (RunFacts(interrupted="Ctrl-C"), [READING], "interrupted"),
        (RunFacts(interrupted="max_duration"), [READING, replace(READING, status=Status.FAILED)], "failed"),
    ],
)
def test_the_status_says_how_the_run_ended(run: RunFacts, streams: Sequence[StreamReport], status: str) -> None:
    assert run_report(run, streams)["status"] == status


def test_what_ended_a_run_is_told_masked_and_with_advice() -> None:
    run = RunFacts(failure=DOWN, http=HttpMetrics({"2xx": 1}), mask=lambda text: text.replace("source", "****"))
    report = run_report(run, [])

    assert report["error"] == {
        "message": "the **** is down",
        "failure_type": "transient_error",
        "hint": "run the sync again later; it resumes from its last commit",
    }
    assert report["http"]["requests"] == 1


def test_a_secret_in_the_name_of_a_slice_is_masked() -> None:
    counts = READING.by_slice.plus(Slice(Partition.of(part="hunter2")), SliceResult(0))
    run = RunFacts(mask=lambda text: text.replace("hunter2", "****"))
    report = run_report(run, [replace(READING, by_slice=counts)])

    assert [one["slice"] for one in report["streams"][0]["slices"]["listed"]] == ['{"part":"****"}']


def test_a_secret_at_the_cut_of_a_long_name_is_masked() -> None:
    counts = READING.by_slice.plus(Slice(Partition.of(part="x" * 185 + "hunter2")), SliceResult(0))
    report = run_report(
        RunFacts(mask=lambda text: text.replace("hunter2", "****")),
        [StreamReport("users", Status.DONE, "full_refresh", "overwrite", by_slice=counts)],
    )

    (listed,) = report["streams"][0]["slices"]["listed"]
    assert len(listed["slice"]) == 200
    assert "hunter"[:3] not in listed["slice"]


def test_the_page_about_reports_shows_all_their_keys() -> None:
    page = (DOCS / "reference" / "run-report.md").read_text()
    shown = orjson.loads(page.partition("```json\n")[2].partition("```")[0])
    run = RunFacts("shop", "/lake", sync="1", readers=Readers(ConcurrencyCount(10, 6, 1), version="4", master="local"))
    stream = replace(
        READING,
        by_slice=SliceCounts().plus(Slice(), SliceResult(0)),
        by_commit=CommitCounts().plus(1, [], Receipt()),
        http=HttpMetrics({"2xx": 1, "4xx": 1}),
        stale=StaleCount("soft", 1, 1, 0),
    )

    assert _keys(shown) == _keys(run_report(run, [stream]))
    assert [key for key in shown if f"`{key}`" not in page] == []


def _keys(value: Json) -> Json:
    if isinstance(value, Mapping):
        return {key: _keys(item) for key, item in value.items()}
    return [_keys(item) for item in value] if isinstance(value, list) else None


def test_a_report_replaces_the_one_before_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("the one before")

    write_report(path, run_report(RunFacts("shop"), [READING]))

    assert orjson.loads(path.read_bytes())["pipeline"] == "shop"
    assert list(tmp_path.iterdir()) == [path]


def test_a_report_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.mkdir()

    with pytest.raises(OSError, match="directory"):
        write_report(path, {})

    assert list(tmp_path.iterdir()) == [path]
