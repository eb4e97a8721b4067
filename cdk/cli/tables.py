"""`spark-cdk tables PIPELINE.yaml`: the tables of a pipeline, as their logs describe them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import click
from deltalake.exceptions import DeltaError
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cdk.base.errors import ConfigError
from cdk.base.values import JsonValue
from cdk.cli.options import json_option
from cdk.cli.state.options import PipelineFile, pipeline_argument, print_json, translate_errors
from cdk.lake.admin.table_facts import TableFacts, TableRequest, tables_of
from cdk.lake.storage.folder import LocalFolder
from cdk.sync.settings.pipeline_file import StreamOptions

_FILE_WIDTH = 200
_UNITS = ("B", "kB", "MB", "GB", "TB")


@click.command()
@pipeline_argument
@json_option
@translate_errors
def tables(pipeline: PipelineFile, *, as_json: bool) -> int:
    """Show the tables of a PIPELINE file: rows, files, versions, and what the next sync does.

    Reads the logs of the tables only; starts no Spark and asks no API.
    """
    settings = pipeline.settings
    target, facts_list = table_facts_of(pipeline)
    if as_json:
        listed = [facts_json(facts) for facts in facts_list]
        print_json("spark-cdk-tables/1", settings.name, target=str(target), tables=listed)
    else:
        _print_table(settings.name, target, facts_list)
    return 0


def table_facts_of(pipeline: PipelineFile) -> tuple[Path, Sequence[TableFacts]]:
    """The folder of a pipeline's tables, and what can be told of each. Raises ConfigError."""
    settings = pipeline.settings
    if "://" in settings.target.path:
        raise ConfigError(
            f"target.path: `tables` looks at folders, and {settings.target.path} is the address of a store; "
            "ask DeltaTable(address).history() instead",
            path=str(pipeline.path),
        )
    target = Path(settings.target.path).absolute()
    if not target.is_dir():
        raise ConfigError("the folder is missing: run a sync, which creates it", path=str(target))
    try:
        return target, tables_of(LocalFolder(target), settings.name, _configured(settings.streams or {}))
    except (DeltaError, OSError) as error:
        raise ConfigError(f"a table cannot be read: {error}", path=str(target)) from error


def _configured(streams: Mapping[str, StreamOptions]) -> Mapping[str, TableRequest]:
    return {
        name: TableRequest(options.write_mode, options.remove_stale.removal if options.remove_stale else None)
        for name, options in streams.items()
    }


def facts_json(facts: TableFacts) -> Mapping[str, JsonValue]:
    """What `--json` prints of a table."""
    return {
        "stream": facts.stream,
        "path": facts.path,
        "state": str(facts.status),
        "rows": facts.rows,
        "waiting_rows": facts.waiting,
        "files": facts.files,
        "bytes": facts.bytes,
        "average_file_bytes": facts.file_bytes,
        "version": facts.version,
        "committed_at": None if facts.committed is None else facts.committed.isoformat(),
        "generation": facts.generation,
        "partition_columns": list(facts.partition_columns),
        "sync_mode": facts.sync_mode,
        "write_mode": facts.write_mode,
        "next": facts.next,
        "hint": facts.hint,
    }


def _print_table(pipeline: str, target: Path, tables: Sequence[TableFacts]) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, _FILE_WIDTH)
    partitioned = any(facts.partition_columns for facts in tables)
    shown = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    shown.add_column("stream", overflow="fold")
    for name in ("rows", "files", "size", "a file", "version"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("last commit (UTC)", no_wrap=True)
    shown.add_column("gen.", justify="right", no_wrap=True)
    if partitioned:
        shown.add_column("partitioned by", overflow="fold")
    shown.add_column("state", no_wrap=True)
    shown.add_column("the next sync")
    for facts in tables:
        cells = [
            facts.stream,
            "?" if facts.rows is None else f"{facts.rows:,}",
            f"{facts.files:,}",
            _size(facts.bytes),
            _size(facts.file_bytes),
            "" if facts.version is None else str(facts.version),
            "" if facts.committed is None else _moment(facts.committed),
            "" if facts.generation is None else str(facts.generation),
            *([", ".join(facts.partition_columns)] if partitioned else []),
            str(facts.status),
            facts.next,
        ]
        shown.add_row(*map(Text, cells))
    if tables:
        console.print(shown)
    for facts in tables:
        if facts.hint is not None:
            console.print(Text(f"{facts.stream}: {facts.hint}", "yellow"), soft_wrap=True)
    count = (
        f"{len(tables)} {'table' if len(tables) == 1 else 'tables'}" if tables else "no sync has committed anything yet"
    )
    console.print(Text(f"{pipeline} → {target}: {count}", "dim"), soft_wrap=True)


def _moment(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def _size(number: float) -> str:
    for unit in _UNITS[:-1]:
        if number < 1000:  # noqa: PLR2004 - a thousand of one unit is one of the next
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} {_UNITS[-1]}"
