"""The reports of runs that lie in a folder: `sync --report FILE` leaves one."""

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cdk.base.documents import read_document
from cdk.base.errors import ConfigError
from cdk.sync.reports.run_report import FORMAT, Report

_LARGEST, _DEEPEST = 2**20, 4
"""Bytes of a file that is looked into, and levels of folders."""
_HEAD = 2000
"""Bytes of a report in which its format and its sync stand."""
_TABLE = {"_delta_log", "_cdk_state"}
_SYNC = re.compile(r'"sync_id":\s*"(\w+)"')


@dataclass(frozen=True)
class ReportFile:
    """A report as a file. sync: its run; empty where it ended before it was one. modified: seconds since 1970."""

    path: Path
    sync: str
    modified: float


def files_in(root: Path, *suffixes: str) -> Iterator[Path]:
    """The files of a folder and those in it that are no larger than what the kit writes.

    Not those in tables, and none whose name begins with a dot.
    """
    for home, folders, names in os.walk(root):
        if _TABLE & set(folders) or len(Path(home).relative_to(root).parts) >= _DEEPEST:
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        for path in (Path(home) / name for name in sorted(names)):
            # A link may lead nowhere, the read of a pipe never ends, and a file may be gone meanwhile.
            with suppress(OSError):
                chosen = path.suffix in suffixes and not path.name.startswith(".")
                if chosen and path.is_file() and path.stat().st_size <= _LARGEST:
                    yield path


def report_files(root: Path) -> Sequence[ReportFile]:
    """The reports in a folder, as paths in it, newest first."""
    reports: list[ReportFile] = []
    for path in files_in(root, ".json"):
        with suppress(OSError):
            stat = path.stat()
            if (sync := _sync(path, stat.st_mtime_ns, stat.st_size)) is not None:
                reports.append(ReportFile(path.relative_to(root), sync, stat.st_mtime))
    return sorted(reports, key=lambda report: report.modified, reverse=True)


@lru_cache(2**16)
def _sync(path: Path, modified: int, size: int) -> str | None:  # noqa: ARG001 - another file of the name has others
    """The run of a report, empty where it was none; None: the file is no report. Most stay as they are for ever."""
    with path.open("rb") as file:
        head = file.read(_HEAD).decode(errors="replace")
    if FORMAT not in head:
        return None
    sync = _SYNC.search(head)
    return sync[1] if sync else ""


def reports_of(root: Path, reports: Sequence[ReportFile], pipeline: str) -> Iterator[tuple[int, Report]]:
    """The reports of a pipeline's runs, each with its number among `reports` and its `file`.

    One that cannot be read may be of any pipeline: it has `problem` instead.
    """
    for number, file in enumerate(reports):
        try:
            report = read_document(root / file.path)
        except ConfigError as error:
            yield number, {"file": str(file.path), "problem": error.message}
            continue
        if isinstance(report, dict) and report.get("pipeline") == pipeline:
            yield number, {"file": str(file.path), **report}


def reports_by_sync(
    root: Path, reports: Sequence[ReportFile], syncs: Collection[str], pipeline: str
) -> Mapping[str, Report]:
    """The last report of some runs of a pipeline, by sync; no others are read."""
    # A sync that ended with an error of its own is gone on with by the next one, under its name.
    chosen = [file for file in reversed(reports) if file.sync in syncs]
    return {str(report["sync_id"]): report for _, report in reports_of(root, chosen, pipeline) if "sync_id" in report}
