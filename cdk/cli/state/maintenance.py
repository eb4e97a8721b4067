"""The verbs of `spark-cdk state` that check and clean up files: verify, gc."""

from datetime import timedelta
from operator import attrgetter

import click

from cdk.base.times.clock import system_clock
from cdk.base.wording import counted
from cdk.cli.options import json_option
from cdk.cli.output import print_json
from cdk.cli.state.options import (
    BrokenTables,
    PipelineFile,
    dry_option,
    editing,
    for_streams,
    pipeline_argument,
    translate_errors,
)
from cdk.lake.admin.verify import orphan_files, verify_tables

_DAYS = 7


def _age(_context: click.Context, _option: click.Parameter, days: float) -> timedelta:
    try:
        return timedelta(days=days)
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{days} is not a number of days.") from None


@click.command()
@pipeline_argument
@for_streams
@json_option
@translate_errors
def verify(pipeline: PipelineFile, names: tuple[str, ...], *, as_json: bool) -> int:
    """Check that every state can be read, every file exists and every receipt adds up; 1 if something is broken.

    Reads logs, names of files and their footers, no rows.
    """
    tables = [table for table in pipeline.tables(names) if table.exists]
    sums, issues = verify_tables(tables, pipeline.name)
    broken = any(issue.broken for issue in issues)
    if as_json:
        listed = [{"stream": issue.stream, "text": issue.text, "broken": issue.broken} for issue in issues]
        added = [{"stream": name, **audit.to_json()} for name, audit in sums.items()]
        print_json(
            format="spark-cdk-state-verify/1", pipeline=pipeline.name, ok=not broken, findings=listed, receipts=added
        )
    else:
        for name, audit in sums.items():
            click.echo(f"{name}: {audit.summary()}")
        for issue in issues:
            click.echo(f"{issue.stream}: {'broken' if issue.broken else 'note'}: {issue.text}")
        for sentence in () if names else pipeline.tables_of_others(alone=not tables):
            click.echo(sentence)
        result = "something is broken" if broken else "nothing is broken"
        click.echo(f"{pipeline.name}: {counted(len(tables), 'table')}, {result}")
    return 1 if broken else 0


@click.command()
@pipeline_argument
@for_streams
@click.option(
    "--days",
    "age",
    type=click.FloatRange(min=0),
    callback=_age,
    default=_DAYS,
    help="Only files that are at least this many days old. Default: 7.",
)
@dry_option
@editing
def gc(pipeline: PipelineFile, names: tuple[str, ...], *, age: timedelta, dry: bool) -> int:
    """Remove old states, drafts, and data files that no version of a table names.

    Files of syncs that run on other machines are recent: keep --days above the longest of them. The exit code is 1
    where a log or a state cannot be read; files of that table stay.
    """
    now, broken = system_clock(), BrokenTables()
    files = size = 0
    for table in filter(attrgetter("exists"), pipeline.tables(names)):
        with broken.noting(table):
            # A state that cannot be read may name files that look like orphans.
            for orphan in list(orphan_files(table, pipeline.name, now=now, age=age)):
                click.echo(f"{table.name}: {orphan.root.join(orphan.name)}, {orphan.bytes:,} bytes, {orphan.why}")
                files, size = files + 1, size + orphan.bytes
                if not dry:
                    orphan.root.delete(orphan.name)
    click.echo(f"{counted(files, 'file')}, {counted(size, 'byte')}{' would be removed' if dry else ' removed'}")
    return broken.show()
