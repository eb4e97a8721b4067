"""The metrics of a run for Prometheus: `spark-cdk sync --metrics FILE`. Described in docs/how-to/watch-pipelines.md.

The file is in the text format that node-exporter's textfile collector reads, and OpenTelemetry's collector scrapes.
The run has ended when its figures are read, so each metric is a gauge with the value of the pipeline's last run.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from prometheus_client import CollectorRegistry, write_to_textfile
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from cdk.lake.admin.freshness import TableTimes
from cdk.sync.reports.run_report import Report

Labels = TypeVar("Labels", bound=tuple[str, ...])

_RUN_STATUSES = ("done", "failed", "interrupted")
_STREAM_STATUSES = (*_RUN_STATUSES, "redundant")

_STREAM_FIGURES: Mapping[str, tuple[tuple[str, str], str]] = {
    "records_read": (("records", "read"), "Records that the source returned and a commit covers."),
    "rows_written": (("records", "written"), "Rows that were added to the table."),
    "rows_rejected": (("records", "rejected"), "Rows with values that did not fit their column."),
    "records_skipped": (("records", "skipped"), "Records that the table already had."),
    "table_rows": (("records", "total"), "Rows of this generation, over all its syncs."),
    "written_files": (("files", "count"), "Files of the rows that were added."),
    "written_bytes": (("files", "bytes"), "Size of these files."),
    "slices_planned": (("slices", "planned"), "Slices that were assigned to a task."),
    "slices_completed": (("slices", "done"), "Slices that were read completely."),
    "slices_restarted": (("slices", "restarted"), "Slices read again because their page token was stale."),
    "commits": (("commits", "count"), "Commits to the table."),
    "commit_seconds": (("commits", "seconds"), "Time that the commits took."),
    "http_requests": (("http", "requests"), "Requests that were sent."),
    "http_retries": (("http", "retries"), "Retries of requests."),
    "http_unanswered": (("http", "unanswered"), "Requests without a complete response."),
    "http_cached": (("http", "cached"), "Responses that needed no request."),
    "http_received_bytes": (("http", "received_bytes"), "Bytes of response bodies, after content decoding."),
    "http_wait_seconds": (
        ("http", "waited_seconds"),
        "Waits before attempts and for budgets, summed over all threads.",
    ),
    "http_rate_limit_wait_seconds": (
        ("http", "rate_limited_seconds"),
        "The part of these waits that the API's rate limits caused.",
    ),
}


def write_metrics(path: Path, report: Report, times: Mapping[str, TableTimes]) -> None:
    """Write the metrics of a run atomically. Raises OSError.

    report: the result of `run_report`, without secrets. times: of the tables of its streams, by stream.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Run(report, times))
    write_to_textfile(str(path), registry)


class _Run(Collector):
    """Collects the metrics of one run."""

    def __init__(self, report: Report, times: Mapping[str, TableTimes]) -> None:
        self._report, self._times = report, times
        self._pipeline, self._streams = str(report["pipeline"] or ""), report["streams"]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        statuses = {(name,): self._report["status"] == name for name in _RUN_STATUSES}
        yield self._gauge("run_status", "1 for the status with which the last run ended.", statuses, "status")
        for name in ("started", "ended"):
            at = datetime.fromisoformat(self._report[f"{name}_at"]).timestamp()
            yield self._gauge(f"run_{name}_timestamp_seconds", f"When the last run {name}.", {(): at})
        yield from self._stream_outcomes()
        for name, ((group, key), text) in _STREAM_FIGURES.items():
            figures = {(stream["name"],): stream[group][key] for stream in self._streams}
            yield self._gauge(f"stream_{name}", text, figures, "stream")
        for name, text in (
            ("completed", "The table has all records that the source had at this time."),
            ("cursor", "The greatest value of the cursor."),
        ):
            timestamps = {(stream,): getattr(times, name) for stream, times in self._times.items()}
            seconds = {
                labels: timestamp.timestamp() for labels, timestamp in timestamps.items() if timestamp is not None
            }
            yield self._gauge(f"stream_{name}_timestamp_seconds", text, seconds, "stream")

    def _stream_outcomes(self) -> Iterator[GaugeMetricFamily]:
        streams = self._streams
        statuses = {(each["name"], name): each["status"] == name for each in streams for name in _STREAM_STATUSES}
        words = "1 for the status with which the stream ended."
        yield self._gauge("stream_status", words, statuses, "stream", "status")
        failed = {(each["name"], each["error"]["failure_type"]): 1 for each in streams if each["error"] is not None}
        yield self._gauge("stream_failed", "1 for a stream that failed.", failed, "stream", "failure_type")
        responses = {(each["name"], name): n for each in streams for name, n in each["http"]["statuses"].items()}
        text = "Responses by status class."
        yield self._gauge("stream_http_responses", text, responses, "stream", "status_class")

    def _gauge(self, name: str, text: str, values: Mapping[Labels, float], *labels: str) -> GaugeMetricFamily:
        family = GaugeMetricFamily(f"spark_cdk_{name}", text, labels=["pipeline", *labels])
        for values_of_labels, value in values.items():
            family.add_metric([self._pipeline, *values_of_labels], value)
        return family
