"""What a folder has to show: its pipelines, their runs as the logs of their tables have them, and reports of runs."""

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from heapq import merge
from itertools import repeat
from pathlib import Path

from cdk.base.documents import read_document
from cdk.base.errors import BadState, ConfigError
from cdk.base.values import Json
from cdk.base.yaml_file import YamlFile
from cdk.cli.authoring.file_checks import kind_of
from cdk.lake.admin.commit_log import Commit, commits
from cdk.lake.admin.locate import StreamLocation
from cdk.lake.delta.receipt import Receipt
from cdk.sync.reports.run_report import FORMAT

_LARGEST, _DEEPEST = 2**20, 4
"""Bytes of a file that is looked into, and levels of folders."""
_HEAD = 2000
"""Bytes of a report in which its format and its sync stand."""
_COMMITS = 2000
"""Commits that are looked at for a page of runs, however many one run has."""
_TABLE = {"_delta_log", "_cdk_state"}
_SYNC = re.compile(r'"sync_id":\s*"(\w+)"')
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class ReportFile:
    """A report as a file. sync: its run; empty where it ended before it was one. modified: seconds since 1970."""

    path: Path
    sync: str
    modified: float


@dataclass(frozen=True)
class FolderFiles:
    """The files of a folder that are something to the kit, as paths in it; reports newest first."""

    pipelines: Sequence[Path]
    manifests: Sequence[Path]
    reports: Sequence[ReportFile]


@dataclass
class Run:
    """A sync, as the commits of its tables tell. rows: of its files. wrong: why receipts cannot be read."""

    sync: str
    streams: list[str] = field(default_factory=list)
    commits: int = 0
    rows: int = 0
    started: datetime | None = None
    ended: datetime | None = None
    receipt: Receipt = field(default_factory=Receipt)
    receipts: int = 0
    wrong: list[str] = field(default_factory=list)


def folder_files(root: Path) -> FolderFiles:
    """What lies in a folder and those in it; not in tables, and nothing whose name begins with a dot."""
    kinds: dict[str, list[Path]] = {"pipeline": [], "manifest": []}
    reports: list[ReportFile] = []
    for path in _files(root):
        inside = path.relative_to(root)
        # A link may lead nowhere, the read of a pipe never ends, and a file may be gone meanwhile.
        with suppress(ConfigError, OSError):
            if not path.is_file() or path.stat().st_size > _LARGEST:
                continue
            if path.suffix == ".json":
                stat = path.stat()
                if (sync := _sync(path, stat.st_mtime_ns, stat.st_size)) is not None:
                    reports.append(ReportFile(inside, sync, stat.st_mtime))
            elif (kind := _kind(path)) in kinds:
                kinds[kind].append(inside)
    reports.sort(key=lambda report: report.modified, reverse=True)
    return FolderFiles(kinds["pipeline"], kinds["manifest"], reports)


@lru_cache(2**16)
def _sync(path: Path, modified: int, size: int) -> str | None:  # noqa: ARG001 - another file of the name has others
    """The run of a report, empty where it was none; None: the file is no report. Most stay as they are for ever."""
    with path.open("rb") as file:
        head = file.read(_HEAD).decode(errors="replace")
    if FORMAT not in head:
        return None
    sync = _SYNC.search(head)
    return sync[1] if sync else ""


def _files(root: Path) -> Iterator[Path]:
    for home, folders, names in os.walk(root):
        if _TABLE & set(folders) or len(Path(home).relative_to(root).parts) >= _DEEPEST:
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        for path in (Path(home) / name for name in sorted(names)):
            if path.suffix in {".yaml", ".yml", ".json"} and not path.name.startswith("."):
                yield path


def _kind(path: Path) -> str:
    text = path.read_text(errors="replace")
    # Most files are neither, and YAML takes its time.
    return kind_of(YamlFile.load(path).value) if "source" in text or "check" in text else ""


def reports_of(root: Path, reports: Sequence[ReportFile], pipeline: str) -> Iterator[tuple[int, Json]]:
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


def reports_by_sync(root: Path, files: FolderFiles, syncs: Collection[str], pipeline: str) -> Mapping[str, Json]:
    """The reports of some runs of a pipeline, by sync; no others are read."""
    chosen = [file for file in files.reports if file.sync in syncs]
    return {str(report["sync_id"]): report for _, report in reports_of(root, chosen, pipeline) if "sync_id" in report}


def runs_of(
    tables: Sequence[StreamLocation], newest: Sequence[int], pipeline: str, most: int
) -> tuple[list[Run], Sequence[int]]:
    """A page of runs, newest first, and the versions at which the next page begins; none where there is no other.

    newest: the version of each table to begin with. A run of very many commits goes on in the next page.
    """
    logs = [
        zip(repeat(number), commits(table.root, table.app(pipeline), version))
        for number, (table, version) in enumerate(zip(tables, newest, strict=True))
    ]
    runs: dict[str, Run] = {}
    rest = [*newest]
    # One run of a pipeline at a time: what lies between two commits of a run is of that run.
    for count, (number, commit) in enumerate(merge(*logs, key=lambda each: each[1].at or _LONG_AGO, reverse=True)):
        if count == _COMMITS or (commit.sync and commit.sync not in runs and len(runs) == most):
            return [*runs.values()], rest
        rest[number] = commit.version - 1
        if commit.sync:
            _add(runs.setdefault(commit.sync, Run(commit.sync)), commit, tables[number].name)
    return [*runs.values()], []


def _add(run: Run, commit: Commit, stream: str) -> None:
    run.commits, run.rows = run.commits + 1, run.rows + (commit.rows or 0)
    run.streams += [] if stream in run.streams else [stream]
    times = [at for at in (run.started, run.ended, commit.at) if at is not None]
    run.started, run.ended = min(times, default=None), max(times, default=None)
    if commit.receipt:
        try:
            run.receipt, run.receipts = run.receipt + Receipt.from_text(commit.receipt, stream), run.receipts + 1
        except BadState as error:
            run.wrong.append(f"{stream}, version {commit.version}: {error}")
