"""The report of a run, for programs: `spark-cdk sync --report FILE`. Described in docs/reference/run-report.md."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import orjson
from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from cdk.base.errors import FailureType
from cdk.base.process.durable_files import replace_file
from cdk.base.process.interruption import CTRL_C
from cdk.base.values import JsonValue, map_strings
from cdk.rest.http.metrics import HttpMetrics
from cdk.sync.reports.counts import Readers, StaleCount
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.tasks.messages import Failure

Report: TypeAlias = Mapping[str, Any]
"""A report as JSON, or a part of it. `Any`, because its readers know its fields."""

FORMAT = "spark-cdk-report/1"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_NAME = 200

_HINTS: Mapping[FailureType, str] = {
    "config_error": "fix the pipeline, the config, the credentials or the state, and run the sync again",
    "transient_error": "run the sync again later; it resumes from its last commit",
    "system_error": "check the message and the log; the same request will fail again",
}


class RunFacts(Struct, frozen=True):
    """Facts about a run besides its streams."""

    pipeline: str = ""
    target: str = ""
    """The folder of the tables."""
    sync: str = ""
    """The id of the sync; empty before it holds the lock."""
    started: datetime = _EPOCH
    ended: datetime = _EPOCH
    readers: Readers = field(default_factory=Readers)
    """What this process and Spark have read."""
    http: HttpMetrics = field(default_factory=HttpMetrics)
    """Requests outside the streams, such as those for planning them."""
    failure: Failure | None = None
    """The error that ended the run."""
    interrupted: str = ""
    """What interrupted the run: `Ctrl-C`, `SIGTERM`, or the limit that was reached."""
    mask: Callable[[str], str] = str
    """Masks secrets in texts."""

    def ended_by(self, error: BaseException) -> "RunFacts":
        """Return the facts of a run that ended with an error, or was interrupted immediately."""
        if isinstance(error, KeyboardInterrupt):
            return replace(self, interrupted=str(error) or CTRL_C)
        return replace(self, failure=Failure.of(error))


class SyncResult(Struct, frozen=True):
    """The result of a sync. streams: one report per stream, in the order of the source. run: facts about all of them.

    traces: the file with full error messages and tracebacks, without secrets; None if nothing went wrong.
    """

    streams: Sequence[StreamReport]
    run: RunFacts = field(default_factory=RunFacts)
    traces: Path | None = None

    @property
    def ok(self) -> bool:
        """Whether every stream has been read to its end, by this run or an earlier one."""
        done = all(report.status in {Status.DONE, Status.REDUNDANT} for report in self.streams)
        return done and not self.run.interrupted

    def to_json(self) -> Report:
        """Return the report of the run (docs/reference/run-report.md), with the config's secrets masked."""
        return run_report(self.run, self.streams)


def run_report(run: RunFacts, streams: Sequence[StreamReport]) -> Report:
    """Return the report as JSON, with secrets masked in every text."""
    readers = run.readers
    report = {
        "format": FORMAT,
        "pipeline": run.pipeline or None,
        "target": run.target or None,
        "sync_id": run.sync or None,
        "status": _status(run, streams),
        "interrupted": run.interrupted or None,
        "started_at": run.started.isoformat(),
        "ended_at": run.ended.isoformat(),
        "duration_seconds": round((run.ended - run.started).total_seconds(), 3),
        "spark": {"version": readers.version, "master": readers.master} if readers.version else None,
        "read_by": {"process": to_builtins(readers.process), "spark": to_builtins(readers.spark)},
        "concurrency": to_builtins(readers.concurrency) if readers.concurrency.settled else None,
        "records": _sums(streams),
        "http": sum((stream.http for stream in streams), run.http).to_json(),
        "error": _error(run.failure),
        "streams": [_stream(stream, run.mask) for stream in streams],
    }
    return {name: map_strings(value, run.mask) for name, value in report.items()}


def write_report(path: Path, report: JsonValue) -> None:
    """Write a report atomically. Raises OSError."""
    replace_file(path, orjson.dumps(report, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def _status(run: RunFacts, streams: Sequence[StreamReport]) -> str:
    statuses = {stream.status for stream in streams}
    if run.failure is not None or Status.FAILED in statuses:
        return "failed"
    return "interrupted" if run.interrupted else "done" if statuses <= {Status.DONE, Status.REDUNDANT} else "failed"


def _sums(streams: Sequence[StreamReport]) -> Mapping[str, JsonValue]:
    names = ("read", "written", "rejected", "skipped")
    return {name: sum(getattr(stream, name) for stream in streams) for name in names}


def _stream(stream: StreamReport, mask: Callable[[str], str]) -> Mapping[str, JsonValue]:
    detailed, others = stream.by_slice.listed, stream.by_slice.others
    return {
        "name": stream.name,
        "sync_mode": stream.sync_mode,
        "write_mode": stream.write_mode,
        "status": str(Status.INTERRUPTED if stream.status is Status.READING else stream.status),
        "resumed": stream.resumed,
        "generation": stream.generation,
        "records": {**_sums([stream]), "apart": stream.apart, "total": stream.total},
        "files": {"count": stream.files, "bytes": stream.bytes},
        "slices": {
            "planned": stream.planned,
            "all_planned": stream.all_planned,
            "started": stream.started,
            "done": stream.completed_slices,
            "restarted": stream.restarted,
            # Masked before it is truncated, because half a secret would not be recognised.
            "listed": [
                {"slice": mask(name)[:_LONGEST_NAME], **to_builtins(counts)} for name, counts in detailed.items()
            ],
            "others": to_builtins(others),
        },
        "commits": {
            "count": stream.commits,
            "seconds": round(stream.by_commit.seconds, 3),
            "receipt": to_builtins(stream.by_commit.receipt),
            "listed": [
                {**to_builtins(commit), "seconds": round(commit.seconds, 3)} for commit in stream.by_commit.listed
            ],
        },
        "stale": None if stream.stale is None else _stale(stream.stale),
        "window": stream.window or None,
        "unchanged": stream.unchanged,
        "warnings": list(stream.warnings),
        "http": stream.http.to_json(),
        "error": _error(stream.failure),
    }


def _stale(stale: StaleCount) -> Mapping[str, JsonValue]:
    figures = {name: value for name, value in to_builtins(stale).items() if name != "refused"}
    return {**figures, "retained_because": stale.retained_because or None}


def _error(failure: Failure | None) -> JsonValue:
    if failure is None:
        return None
    kind = failure.failure_type
    return {"message": failure.message, "failure_type": kind, "hint": _HINTS[kind]}
