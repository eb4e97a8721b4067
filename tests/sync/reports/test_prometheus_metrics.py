"""Metrics of a run: what a parser of their format reads in them is what the report says."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from cdk.base.errors import FailureType
from cdk.lake.admin.freshness import TableTimes
from cdk.lake.delta.receipt import Receipt
from cdk.rest.http.metrics import HttpMetrics
from cdk.sync.reports.counts import CommitCounts
from cdk.sync.reports.prometheus_metrics import write_metrics
from cdk.sync.reports.run_report import RunFacts, run_report
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.tasks.messages import Failure

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
FEW = st.integers(0, 2**40)
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2040, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))  # noqa: DTZ001 - it gets a zone
KINDS: tuple[FailureType, ...] = ("config_error", "transient_error", "system_error")
FAILURES = st.none() | st.builds(Failure, st.just("the source is down"), st.sampled_from(KINDS), st.just("traceback"))
HTTP = st.builds(
    HttpMetrics,
    st.dictionaries(st.sampled_from(["2xx", "4xx", "5xx"]), FEW),
    unanswered=FEW,
    retries=FEW,
    waited_seconds=st.floats(0, 1e6),
    rate_limited_seconds=st.floats(0, 1e6),
    received_bytes=FEW,
    cached=FEW,
)
REPORTS = st.builds(
    StreamReport,
    name=NAMES,
    status=st.sampled_from([Status.DONE, Status.FAILED, Status.INTERRUPTED, Status.REDUNDANT]),
    sync_mode=st.just("incremental"),
    write_mode=st.just("append"),
    **dict.fromkeys(("read", "written", "skipped", "restarted", "commits", "total", "rejected", "bytes", "files"), FEW),
    failure=FAILURES,
    http=HTTP,
    by_commit=st.builds(CommitCounts, st.just(()), st.just(Receipt()), st.floats(0, 1e6)),
)
TIMES = st.builds(TableTimes, st.none() | MOMENTS, st.none() | MOMENTS)


@given(NAMES, st.lists(st.tuples(REPORTS, TIMES), max_size=3, unique_by=lambda each: each[0].name), MOMENTS, MOMENTS)
def test_metrics_are_the_figures_of_the_report(
    pipeline: str, streams: Sequence[tuple[StreamReport, TableTimes]], started: datetime, ended: datetime
) -> None:
    report = run_report(RunFacts(pipeline, started=started, ended=ended), [stream for stream, _ in streams])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "shop.prom"
        path.write_text("those of the run before")
        write_metrics(path, report, {stream.name: times for stream, times in streams})
        text = path.read_bytes().decode()
        assert [*Path(folder).iterdir()] == [path]
    samples = {
        (sample.name.removeprefix("spark_cdk_"), *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }

    def taken(name: str, stream: str | None = None, **labels: str) -> float | None:
        of_stream = {} if stream is None else {"stream": stream}
        return samples.pop((name, *sorted({"pipeline": pipeline, **of_stream, **labels}.items())), None)

    assert taken("run_started_timestamp_seconds") == started.timestamp()
    assert taken("run_ended_timestamp_seconds") == ended.timestamp()
    assert [name for name in ("done", "failed", "interrupted") if taken("run_status", status=name)] == [
        report["status"]
    ]
    for (stream, times), told in zip(streams, report["streams"], strict=True):
        name = stream.name
        statuses = ("done", "failed", "interrupted", "redundant")
        assert [each for each in statuses if taken("stream_status", name, status=each)] == [stream.status]
        if stream.failure is not None:
            assert taken("stream_failed", name, failure_type=stream.failure.failure_type) == 1
        assert {each: taken("stream_http_responses", name, status_class=each) for each in stream.http.statuses} == (
            stream.http.statuses
        )
        figures = {
            "records_read": stream.read,
            "rows_written": stream.written,
            "rows_rejected": stream.rejected,
            "records_skipped": stream.skipped,
            "table_rows": stream.total,
            "written_files": stream.files,
            "written_bytes": stream.bytes,
            "slices_planned": stream.planned,
            "slices_completed": stream.completed_slices,
            "slices_restarted": stream.restarted,
            "commits": stream.commits,
            "commit_seconds": told["commits"]["seconds"],
            "http_requests": stream.http.requests,
            "http_retries": stream.http.retries,
            "http_unanswered": stream.http.unanswered,
            "http_cached": stream.http.cached,
            "http_received_bytes": stream.http.received_bytes,
            "http_wait_seconds": told["http"]["waited_seconds"],
            "http_rate_limit_wait_seconds": told["http"]["rate_limited_seconds"],
        }
        assert {each: taken(f"stream_{each}", name) for each in figures} == figures
        for each, moment in (("completed", times.completed), ("cursor", times.cursor)):
            expected = None if moment is None else moment.timestamp()
            assert taken(f"stream_{each}_timestamp_seconds", name) == expected
    assert not any(samples.values())  # those that are left are statuses that it has not
