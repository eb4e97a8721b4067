"""`spark-cdk tables PIPELINE.yaml`: shows the tables of a pipeline, as their logs describe them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import click
from deltalake.exceptions import DeltaError
from rich import filesize
from rich.text import Text

from cdk.base.errors import ConfigError
from cdk.base.times.clock import system_clock
from cdk.base.values import JsonValue
from cdk.base.wording import counted
from cdk.cli.command_errors import STALE
from cdk.cli.options import duration_option, json_option
from cdk.cli.output import print_json
from cdk.cli.printed_table import add_figures, plain_table, wide_console
from cdk.cli.state.options import PipelineFile, pipeline_argument, translate_errors
from cdk.cli.sync.stream_table import duration_text
from cdk.lake.admin.freshness import NO_LIMITS, Freshness, FreshnessLimits
from cdk.lake.admin.table_facts import TableFacts, TableRequest, tables_of
from cdk.lake.storage.folder import LocalFolder
from cdk.sync.settings.pipeline_file import Pipeline, StreamOptions


@click.command()
@pipeline_argument
@duration_option("--max-age", "Exit with 3 if a stream's last complete read is longer ago, such as 2h.")
@duration_option("--max-lag", "Exit with 3 if a stream's cursor is further behind the clock, such as 1d.")
@json_option
@translate_errors
def tables(pipeline: PipelineFile, *, max_age: timedelta | None, max_lag: timedelta | None, as_json: bool) -> int:
    """Show the tables of a PIPELINE file: rows, files, versions, and what the next sync does.

    Reads only the logs of the tables; starts no Spark and sends no request to the source. The exit code is 3 if a table
    exceeds `max_age` or `max_lag`, set here or in the file, and 1 if a table cannot be read.
    """
    name, limits = pipeline.settings.name, FreshnessLimits(max_age, max_lag)
    target, facts_list = table_facts_of(pipeline, limits)
    now = system_clock()
    aged = [(facts, facts.freshness(now)) for facts in facts_list]
    if as_json:
        listed = [{**facts_json(facts), **_freshness_json(facts, freshness)} for facts, freshness in aged]
        print_json(format="spark-cdk-tables/1", pipeline=name, target=str(target), tables=listed)
    else:
        _print_table(name, target, aged)
    if any(facts.problem for facts in facts_list):
        return 1
    # Without `streams` in the file, the streams of a pipeline that never ran are unknown.
    never = not facts_list and (limits | _limits(pipeline.settings)).max_age is not None
    if never and not as_json:
        click.echo(f"{name}: stale: exceeds max_age: no sync has read a stream to its end")
    return STALE if never or any(freshness.stale for _, freshness in aged) else 0


def table_facts_of(pipeline: PipelineFile, limits: FreshnessLimits = NO_LIMITS) -> tuple[Path, Sequence[TableFacts]]:
    """Return the folder of a pipeline's tables, and the facts about each table.

    limits: how old tables may be; they override those of the pipeline file. Raises ConfigError: the folder cannot be
    read, or is missing. With a `max_age` it may be missing: tables that were never written exceed it.
    """
    settings = pipeline.settings
    by_default = _limits(settings)
    named = {
        name: _request(options, limits | _limits(options) | by_default)
        for name, options in (settings.streams or {}).items()
    }
    applied = [request.limits for request in named.values()] or [limits | by_default]
    target = tables_folder(pipeline, missing=any(each.max_age is not None for each in applied))
    try:
        return target, tables_of(LocalFolder(target), settings.name, named, limits | by_default)
    except (DeltaError, OSError) as error:
        raise ConfigError(f"the tables cannot be listed: {error}", path=str(target)) from error


def tables_folder(pipeline: PipelineFile, *, missing: bool = False) -> Path:
    """The folder of a pipeline's tables. missing: whether it may be missing.

    Raises ConfigError: the folder is missing, or the tables are in an object store.
    """
    target = pipeline.target.on_disk
    if target is None:
        raise ConfigError(
            f"target.path: this command reads folders, and {pipeline.settings.target.path} is the address of a store; "
            "use deltalake's DeltaTable(address) instead",
            path=str(pipeline.path),
        )
    if not (missing or target.is_dir()):
        raise ConfigError("the folder is missing: run a sync, which creates it", path=str(target))
    return target


def _request(options: StreamOptions, limits: FreshnessLimits) -> TableRequest:
    removal = options.remove_stale.removal if options.remove_stale else None
    return TableRequest(options.write_mode, removal, limits)


def _limits(options: Pipeline | StreamOptions) -> FreshnessLimits:
    return FreshnessLimits(options.max_age, options.max_lag)


def facts_json(facts: TableFacts) -> Mapping[str, JsonValue]:
    """The object that `--json` prints for a table, without its freshness, which requires a look at each partition."""
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
        "completed_at": None if facts.completed is None else facts.completed.isoformat(),
        "generation": facts.generation,
        "partition_columns": list(facts.partition_columns),
        "sync_mode": facts.sync_mode,
        "write_mode": facts.write_mode,
        "problem": facts.problem or None,
        "next": facts.next,
        "hint": facts.hint,
    }


def _freshness_json(facts: TableFacts, freshness: Freshness) -> Mapping[str, JsonValue]:
    cursor = None if facts.cursor is None else facts.cursor.isoformat()
    age, lag = (None if each is None else each.total_seconds() for each in (freshness.age, freshness.lag))
    return {"cursor": cursor, "age_seconds": age, "lag_seconds": lag, "stale": freshness.stale or None}


def _print_table(pipeline: str, target: Path, tables: Sequence[tuple[TableFacts, Freshness]]) -> None:
    console, shown = wide_console(), plain_table()
    partitioned = any(facts.partition_columns for facts, _ in tables)
    shown.add_column("stream", overflow="fold")
    add_figures(shown, "rows", "files", "size", "a file", "version")
    shown.add_column("last commit (UTC)", no_wrap=True)
    add_figures(shown, "age", "lag", "gen.")
    if partitioned:
        shown.add_column("partitioned by", overflow="fold")
    shown.add_column("state", no_wrap=True)
    shown.add_column("the next sync")
    for facts, freshness in tables:
        cells = [
            facts.stream,
            "?" if facts.rows is None else f"{facts.rows:,}",
            f"{facts.files:,}",
            filesize.decimal(facts.bytes),
            filesize.decimal(facts.file_bytes),
            "" if facts.version is None else str(facts.version),
            "" if facts.committed is None else facts.committed.strftime("%Y-%m-%d %H:%M:%S"),
            _ago(freshness.age),
            _ago(freshness.lag),
            "" if facts.generation is None else str(facts.generation),
            *([", ".join(facts.partition_columns)] if partitioned else []),
            str(facts.status),
            facts.next,
        ]
        shown.add_row(*map(Text, cells))
    if tables:
        console.print(shown)
    for facts, freshness in tables:
        for text in _remarks(facts, freshness):
            console.print(text, soft_wrap=True)
    count = counted(len(tables), "table") if tables else "no sync has committed anything yet"
    console.print(Text(f"{pipeline} → {target}: {count}", "dim"), soft_wrap=True)


def _remarks(facts: TableFacts, freshness: Freshness) -> Iterator[Text]:
    """Yield the problems of a table, and hints what to do about them."""
    if facts.problem:
        yield Text(f"{facts.stream}: {facts.problem}", "red")
    if facts.hint is not None:
        yield Text(f"{facts.stream}: {facts.hint}", "yellow")
    if freshness.stale:
        yield Text(f"{facts.stream}: stale: exceeds {freshness.stale}", "red")


def _ago(length: timedelta | None) -> str:
    return "" if length is None else duration_text(length.total_seconds())
