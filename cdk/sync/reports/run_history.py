"""The reports of a pipeline's last runs, which lie beside its tables: `_cdk/<pipeline>.runs` of the target.

Each run that ends by itself leaves one, with an error or without. One that is killed leaves none: the next run is the
rest of it, under its id (`cdk.lake.storage.run_lock`).
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
"""Reports that are retained."""
_BYTES = 50_000_000
"""What they may weigh together, each counted like the newest."""
_FEWEST = 20
"""Reports that are retained however large they are."""


class RunHistory:
    """The reports of a pipeline's runs, each a file, `<when it began>-<its id>.json`: names sort by time."""

    def __init__(self, target: Folder, pipeline: str) -> None:
        self._notes = target.join("_cdk")
        self._folder = self._notes.join(f"{pipeline}.runs")

    def add(self, report: Report, *, first: bool = True) -> None:
        """Add the report of a run that has ended, and remove the oldest where they are many.

        first: it may be the first thing that is written there; else a target that no run has used stays as it is. What
        keeps it from being written is logged: a run ended as it did, whether that can be noted or not.
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
            logger.warning("the report of this run cannot be added to those of the pipeline: %s", error)

    def reports(self, before: datetime | None = None) -> Iterator[Report]:
        """The reports, newest first, of runs that began `before`. Whatever else lies there is passed over."""
        names = self._names()
        return self._read(names if before is None else [name for name in names if name < _began(before)])

    def by_sync(self, syncs: Collection[str]) -> Mapping[str, Report]:
        """The last report of each of some syncs, by their ids; no others are read."""
        # A sync that ended with an error of its own is gone on with by the next run, under its id.
        names = {_sync(name): name for name in reversed(self._names()) if _sync(name) in syncs}
        return {report["sync_id"]: report for report in self._read(names.values())}

    def completed(self, sync: str) -> frozenset[str]:
        """The streams that a sync had read to their ends when its last run ended; none where another ran since."""
        last: Report = next(self.reports(), {"sync_id": None})
        done = last["streams"] if last["sync_id"] == sync else ()
        return frozenset(stream["name"] for stream in done if stream["status"] == Status.DONE)

    def waits(self, names: Collection[str]) -> Mapping[str, int]:
        """How many runs have passed over each of some streams since one asked for it.

        They are counted back to the last run that nothing interrupted: who was not asked since waits longest.
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
        """The names of the reports, that of the newest run first."""
        return sorted((name for name in self._folder.names() if name.endswith(".json")), reverse=True)

    def _read(self, names: Collection[str]) -> Iterator[Report]:
        for name in names:
            try:
                report: Stored = from_json(self._folder.read(name))
            except (OSError, ValueError):  # one that another run removes, or that a program has written over
                continue
            if isinstance(report, dict) and report.get("format") == FORMAT:
                yield report


def _was_read(stream: Report) -> bool:
    """Whether a run has asked for anything of a stream, by its report."""
    return any((stream["slices"].get("started"), stream["http"]["requests"]))


def _began(moment: datetime) -> str:
    """A moment as names have it, to the microsecond."""
    return moment.astimezone(UTC).strftime("%Y%m%dT%H%M%S%f")


def _sync(name: str) -> str:
    """The id of a sync in the name of its report."""
    return name.removesuffix(".json").partition("-")[2]
