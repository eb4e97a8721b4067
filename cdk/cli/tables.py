"""`spark-cdk tables PIPELINE.yaml`: the tables of a pipeline, as their logs describe them."""

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cdk.base.errors import ConfigError
from cdk.base.values import Json, to_json

if TYPE_CHECKING:  # importing it at run time would import Delta for every command
    from cdk.lake.admin.table_facts import TableFacts, TableRequest
    from cdk.sync.settings.pipeline_file import StreamOptions

_FILE_WIDTH = 200
_UNITS = ("B", "kB", "MB", "GB", "TB")


@click.command()
@click.argument("pipeline", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def tables(pipeline: Path, *, as_json: bool) -> None:
    """Show the tables of a PIPELINE file: rows, files, versions, and what the next sync does.

    Reads the logs of the tables only; starts no Spark and asks no API.
    """
    from deltalake.exceptions import DeltaError  # noqa: PLC0415

    from cdk.lake.admin.table_facts import tables_of  # noqa: PLC0415
    from cdk.lake.storage.folder import LocalFolder  # noqa: PLC0415
    from cdk.sync.settings.pipeline_file import Pipeline  # noqa: PLC0415

    settings = Pipeline.load(pipeline, _NoSecretsNeeded(os.environ))
    if "${" in settings.target.path:
        Pipeline.load(pipeline)  # says which variable is not set, and where
    if "://" in settings.target.path:
        raise ConfigError(
            f"target.path: `tables` looks at folders, and {settings.target.path} is the address of a store; "
            "ask DeltaTable(address).history() instead",
            path=str(pipeline),
        )
    target = Path(settings.target.path).absolute()
    if not target.is_dir():
        raise ConfigError("there is no such folder; the first sync makes it", path=str(target))
    try:
        facts_list = tables_of(LocalFolder(target), settings.name, _configured(settings.streams or {}))
    except (DeltaError, OSError) as error:
        raise ConfigError(f"a table cannot be read: {error}", path=str(target)) from error
    if as_json:
        _print_json(settings.name, target, facts_list)
    else:
        _print_table(settings.name, target, facts_list)


def _configured(streams: Mapping[str, "StreamOptions"]) -> Mapping[str, "TableRequest"]:
    from cdk.lake.admin.table_facts import TableRequest  # noqa: PLC0415

    return {
        name: TableRequest(options.write_mode, options.remove_stale.removal if options.remove_stale else None)
        for name, options in streams.items()
    }


class _NoSecretsNeeded(Mapping[str, str]):
    """The environment; what is not set stays as it is written, for only the target's place is used."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def __contains__(self, name: object) -> bool:
        return True

    def __getitem__(self, name: str) -> str:
        return self._environ.get(name, f"${{{name}}}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._environ)

    def __len__(self) -> int:
        return len(self._environ)


def _print_json(pipeline: str, target: Path, tables: Sequence["TableFacts"]) -> None:

    answer = {
        "format": "spark-cdk-tables/1",
        "pipeline": pipeline,
        "target": str(target),
        "tables": [_as_json(facts) for facts in tables],
    }
    click.echo(to_json(answer, indent=True).decode())


def _as_json(facts: "TableFacts") -> Mapping[str, Json]:
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


def _print_table(pipeline: str, target: Path, tables: Sequence["TableFacts"]) -> None:
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - takes 50 ms, for people only
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

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
