"""The reports of a pipeline's last runs, stored beside its tables in `_cdk/<pipeline>.runs` of the target.

Each run that ends by itself, with or without an error, leaves a report. A killed run leaves none: the next run
continues its sync under the same id (`cdk.lake.storage.run_lock`).
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime

from cdk.base.errors import CdkError
from cdk.base.logs import logger
from cdk.base.values import Stored, from_json, to_json
from cdk.lake.storage.folder import Folder
from cdk.sync.reports.run_report import FORMAT, Report
from cdk.sync.reports.stream_report import Status

_MOST = 1000
"""Maximum number of reports that are retained."""
_BYTES = 50_000_000
"""Maximum size of all reports together, assuming that each has the size of the newest."""
_FEWEST = 20
"""Number of reports that are retained regardless of their size."""


class RunHistory:
    """The reports of a pipeline's runs, each in a file `<start time>-<sync id>.json`, so that names sort by time."""

    def __init__(self, target: Folder, pipeline: str) -> None:
        self._notes = target.join("_cdk")
        self._folder = self._notes.join(f"{pipeline}.runs")

    def add(self, report: Report, *, first: bool = True) -> None:
        """Add the report of a run that has ended, and remove the oldest reports if there are too many.

        first: the report may be the first thing that is written to the target; if false, an unused target stays
        untouched. Errors are only logged, because they do not change how the run ended.
        """
        name = f"{_began(datetime.fromisoformat(report['started_at']))}-{report['sync_id'] or ''}.json"
        content = to_json(report)
        most = max(_FEWEST, min(_MOST, _BYTES // len(content)))
        try:
            if first or self._notes.names() or self._notes.folders():
                self._folder.write(name, content)
                for old in self._names()[most:]:
                    self._folder.delete(old)
        except (CdkError, OSError) as error:
            logger.warning("the report of this run could not be added to the pipeline's reports: %s", error)

    def reports(self, before: datetime | None = None) -> Iterator[Report]:
        """Yield the reports of runs that started before `before`, newest first. Other files are ignored."""
        names = self._names()
        return self._read(names if before is None else [name for name in names if name < _began(before)])

    def by_sync(self, syncs: Collection[str]) -> Mapping[str, Report]:
        """Return the last report of each given sync, by id; other reports are not read."""
        # A sync that ended with an error is continued by the next run under the same id, so it can have several.
        names = {_sync(name): name for name in reversed(self._names()) if _sync(name) in syncs}
        return {report["sync_id"]: report for report in self._read(names.values())}

    def completed(self, sync: str) -> frozenset[str]:
        """Return the streams that a sync had completed when its last run ended; empty if another sync ran since."""
        last: Report = next(self.reports(), {"sync_id": None})
        done = last["streams"] if last["sync_id"] == sync else ()
        return frozenset(stream["name"] for stream in done if stream["status"] == Status.DONE)

    def waits(self, names: Collection[str]) -> Mapping[str, int]:
        """Return, for each stream, the number of runs since the last one that read any of it.

        Runs are counted back to the last uninterrupted one; a stream that was not read since then waits longest.
        """
        waits: dict[str, int] = {}
        runs = 0
        for report in self.reports():
            if report["interrupted"] is None or waits.keys() >= set(names):
                break
            for stream in filter(_was_read, report["streams"]):
                waits.setdefault(stream["name"], runs)
            runs += 1
        return dict.fromkeys(names, runs) | waits

    def _names(self) -> list[str]:
        """Return the names of the reports, newest run first."""
        return sorted((name for name in self._folder.names() if name.endswith(".json")), reverse=True)

    def _read(self, names: Collection[str]) -> Iterator[Report]:
        for name in names:
            try:
                report: Stored = from_json(self._folder.read(name))
            except (OSError, ValueError):  # removed by another run, or overwritten by another program
                continue
            if isinstance(report, dict) and report.get("format") == FORMAT:
                yield report


def _was_read(stream: Report) -> bool:
    """Whether a run has requested anything of a stream, according to its report."""
    return any((stream["slices"].get("started"), stream["http"]["requests"]))


def _began(timestamp: datetime) -> str:
    """Format a timestamp for file names, to the microsecond."""
    return timestamp.astimezone(UTC).strftime("%Y%m%dT%H%M%S%f")


def _sync(name: str) -> str:
    """Return the sync id from the name of a report."""
    return name.removesuffix(".json").partition("-")[2]
