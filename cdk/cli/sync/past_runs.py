"""Lists the runs of a pipeline and how each ended, from the commits of its tables and the reports beside them."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from cdk.base.values import to_json
from cdk.lake.admin.commit_log import CommitSums, OlderRuns, Run, runs_of
from cdk.lake.admin.locate import StreamLocation
from cdk.lake.delta.receipt import Receipt
from cdk.lake.storage.folder import Folder
from cdk.lake.storage.run_lock import unfinished_sync
from cdk.sync.reports.run_history import RunHistory
from cdk.sync.reports.run_report import Report


class PastRun(Struct, frozen=True):
    """A run, or a stream in it.

    name: the id of the sync, or the name of the stream. status: `done`, `failed`, `interrupted`, `running`, or as in
    its report. error: one line; empty without an error. started, ended: from its
    report; without one, of its first and its last commit. reported: whether these times are from a report; reports have
    none for a stream.
    """

    name: str
    status: str
    error: str
    started: datetime | None
    ended: datetime | None
    reported: bool
    sums: CommitSums
    streams: Sequence["PastRun"] = ()

    @property
    def length(self) -> timedelta | None:
        """The duration from its report. Without one, the time from its first to its last commit, a lower bound."""
        return None if self.started is None or self.ended is None else self.ended - self.started


def past_runs(
    tables: Sequence[StreamLocation], target: Folder, pipeline: str, most: int, older: OlderRuns | None = None
) -> tuple[list[PastRun], OlderRuns | None]:
    """Return a page of a pipeline's runs, newest first, and the start of the next page; None if there is none.

    most: how many reports, and how many runs with commits, are read. older: the start of the page; None: the last run.
    A run without commits is listed only if it has a report, or no later run has ended. Raises as opening a table does.
    """
    existing = [table for table in tables if table.exists]
    newest = [table.open(pipeline, allow_lost_state=True).version for table in existing]
    if older is not None and len(older.versions) != len(newest):
        older = None  # a table was added or removed since the last page
    if older is not None:
        newest = [*map(min, newest, older.versions)]
    history, unfinished = RunHistory(target, pipeline), unfinished_sync(target, pipeline)
    reports = [*islice(history.reports(None if older is None else older.before), most)]
    since = _timestamp(reports[-1], "started_at") if len(reports) == most else None
    runs, rest = runs_of(existing, newest, pipeline, most, since)
    # The last report of a sync counts: the run after one that ended with an error of its own resumes it under its id.
    last, vain = dict[str, Report](), list[Report]()
    for report in reports:
        if last.setdefault(report["sync_id"] or report["started_at"], report) is not report and not _commits(report):
            vain.append(report)  # runs with commits are already part of the commits of the sync
    last |= history.by_sync({run.sync for run in runs} - last.keys())
    listed = [past_run(run, last.pop(run.sync, None), unfinished) for run in runs]
    others = [*vain, *last.values()]
    listed += [
        past_run(Run(sync=report["sync_id"] or ""), report, None)
        for report in others
        if rest is None or _timestamp(report, "started_at") >= rest.before
    ]
    listed.sort(key=lambda run: run.started.timestamp() if run.started else 0.0, reverse=True)
    if older is None and unfinished is not None and unfinished[0] not in {run.name for run in listed}:
        listed.insert(0, past_run(Run(sync=unfinished[0]), None, unfinished))
    return listed, rest


def _commits(report: Report) -> int:
    return sum(stream["commits"]["count"] for stream in report["streams"])


def _timestamp(report: Report, name: str) -> datetime:
    return datetime.fromisoformat(report[name])


def past_run(run: Run, report: Report | None, unfinished: tuple[str, bool] | None) -> PastRun:
    """Combine the commits of a run with its report, if it has one.

    unfinished: the id of the sync that has not ended, and whether it is running.
    """
    if report and run.ended is not None and _timestamp(report, "ended_at") < run.ended:
        report = None  # that run ended with an error of its own, and a later one resumed the sync
    reported = {each["name"]: each for each in report["streams"]} if report else {}
    names = sorted({*run.streams, *reported})
    streams = [_stream(name, run.streams.get(name) or _reported(reported[name]), reported.get(name)) for name in names]
    together = _together([each.sums for each in streams])
    # Only the report counts records without a commit, such as those that the table already has.
    sums = replace(run, receipt=replace(run.receipt, read=together.receipt.read)) if run.commits else together
    times = [at for at in (run.started, run.ended) if at is not None]
    if report:
        times += [_timestamp(report, name) for name in ("started_at", "ended_at")]
        errors = (
            [_line(report)] if report["error"] else [f"{each.name}: {each.error}" for each in streams if each.error]
        )
        # A killed run may have read other streams than the run that resumed it and wrote the report.
        cut = report["status"] == "done" and any(each.status == "interrupted" for each in streams)
        status, error = "interrupted" if cut else report["status"], errors[0] if errors else ""
    elif unfinished is not None and unfinished[0] == run.sync:
        status, error = "running" if unfinished[1] else "interrupted", ""
    else:
        status, error = _by_commits(run), ""
    began, ended = min(times, default=None), max(times, default=None)
    return PastRun(run.sync, status, error, began, ended, bool(report), sums, streams)


def _stream(name: str, sums: CommitSums, reported: Report | None) -> PastRun:
    status = reported["status"] if reported else _by_commits(sums)
    return PastRun(name, status, _line(reported), sums.started, sums.ended, reported=False, sums=_read(sums, reported))


def _read(sums: CommitSums, reported: Report | None) -> CommitSums:
    """Add the records that no commit covers to the number of records that a stream read."""
    read = max(sums.receipt.read, reported["records"]["read"] if reported else 0)
    return replace(sums, receipt=replace(sums.receipt, read=read))


def _reported(reported: Report) -> CommitSums:
    """The commits of a stream according to its report, for a stream without commits in a log, or with expired ones."""
    receipt = Receipt.from_text(to_json(reported["commits"]["receipt"]).decode(), reported["name"])
    return CommitSums(commits=reported["commits"]["count"], receipt=receipt)


def _together(streams: Sequence[CommitSums]) -> CommitSums:
    return CommitSums(
        commits=sum(each.commits for each in streams), receipt=sum((each.receipt for each in streams), Receipt())
    )


def _by_commits(sums: CommitSums) -> str:
    return "done" if sums.complete else "interrupted"


def _line(report: Report | None) -> str:
    """The first line of the error in a report, or in a stream's part of it; empty without an error."""
    lines = str(report["error"]["message"]).splitlines() if report and report["error"] else []
    return lines[0] if lines else ""


def run_json(run: PastRun) -> Mapping[str, object]:
    """The object that `runs --json` prints for a run, or for a stream in it."""
    receipt = run.sums.receipt
    return {
        "status": run.status,
        "error": run.error or None,
        "started_at": None if run.started is None else run.started.isoformat(),
        "ended_at": None if run.ended is None else run.ended.isoformat(),
        "seconds": None if run.length is None else round(run.length.total_seconds(), 3),
        "reported": run.reported,
        "read": receipt.read,
        "rows": receipt.landed,
        "added": receipt.added,
        "removed": receipt.removed,
        "commits": run.sums.commits,
        "receipts": run.sums.receipts,
    }
