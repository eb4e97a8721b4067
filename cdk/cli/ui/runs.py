"""What a folder has to show: its pipelines, their runs as the logs of their tables have them, and reports of runs."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path

from cdk.base.errors import BadState, ConfigError
from cdk.base.values import Json
from cdk.base.yaml_file import YamlFile
from cdk.cli.authoring.file_checks import kind_of
from cdk.cli.input_files import read_document
from cdk.cli.state.options import PipelineFile
from cdk.lake.delta.commit_log import Commit, commits
from cdk.lake.delta.receipt import Receipt
from cdk.sync.reports.run_report import FORMAT

_LARGEST, _DEEPEST = 2**20, 4
"""Bytes of a file that is looked into, and levels of folders."""
_TABLE = {"_delta_log", "_cdk_state"}


@dataclass(frozen=True)
class FolderFiles:
    """The files of a folder that are something to the kit, as paths in it."""

    pipelines: Sequence[Path]
    manifests: Sequence[Path]
    reports: Sequence[Path]


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
    kinds: dict[str, list[Path]] = {"pipeline": [], "manifest": [], "report": []}
    for path in _files(root):
        if (kind := _kind(path)) in kinds:
            kinds[kind].append(path.relative_to(root))
    return FolderFiles(kinds["pipeline"], kinds["manifest"], kinds["report"])


def _files(root: Path) -> Iterator[Path]:
    for home, folders, names in os.walk(root):
        if _TABLE & set(folders) or len(Path(home).relative_to(root).parts) >= _DEEPEST:
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        for path in (Path(home) / name for name in sorted(names)):
            if path.suffix in {".yaml", ".yml", ".json"} and not path.name.startswith("."):
                yield path


def _kind(path: Path) -> str:
    try:
        # A link may lead nowhere, and the read of a pipe never ends.
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return ""
        text = path.read_text(errors="replace")
        if path.suffix == ".json":
            return "report" if FORMAT in text[:200] else ""
        # Most files are neither, and YAML takes its time.
        return kind_of(YamlFile.load(path).value) if "source" in text or "check" in text else ""
    except (ConfigError, OSError):  # it may be gone meanwhile
        return ""


def reports_of(root: Path, files: FolderFiles, pipeline: str) -> list[Json]:
    """The reports of runs of a pipeline, newest first, each with its `file`; last those that cannot be read."""
    reports = [{"file": str(path), **_report(root / path)} for path in files.reports]
    own = [report for report in reports if report.get("pipeline") == pipeline or "problem" in report]
    return sorted(own, key=lambda report: str(report.get("started_at", "")), reverse=True)


def _report(path: Path) -> Json:
    try:
        value = read_document(path)
    except ConfigError as error:
        # Its run was killed, or is writing it right now; whose it is nobody can say.
        return {"problem": error.message}
    return value if isinstance(value, dict) else {}


def runs_of(pipeline: PipelineFile, most: int) -> list[Run]:
    """The runs of which the last `most` commits of each table tell, newest first."""
    runs: dict[str, Run] = {}
    for location in pipeline.tables():
        table, _ = location.opened(pipeline.name)
        for commit in islice(commits(location.root, location.app(pipeline.name), table.version), most):
            if commit.sync:
                _add(runs.setdefault(commit.sync, Run(commit.sync)), commit, location.name)
    return sorted(runs.values(), key=lambda run: str(run.ended), reverse=True)


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
