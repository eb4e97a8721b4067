"""The verbs of `spark-cdk state` that change states: reset, set, rewind, rollback."""

from pathlib import Path

import click
import orjson

from cdk.base.documents import read_document
from cdk.base.values import from_json
from cdk.cli.options import FILE
from cdk.cli.state.options import (
    PipelineFile,
    dry_option,
    edit_tables,
    editing,
    for_streams,
    pipeline_argument,
    trust_option,
)
from cdk.lake.admin.edits import rewound, set_state
from cdk.state.slice import Partition

partition_option = click.option(
    "--partition", metavar="JSON", help='Only this partition, such as \'{"shop": "a"}\', as `show` writes it.'
)


@click.command()
@pipeline_argument
@for_streams
@partition_option
@dry_option
@editing
def reset(pipeline: PipelineFile, names: tuple[str, ...], partition: str | None, *, dry: bool) -> int:
    """Have the next sync read streams from their start; their rows are retained.

    This also repairs a stream whose state is lost.
    """
    prefix = partition_of(partition)
    tables = [pipeline.table(names)] if prefix is not None else pipeline.tables_with_state(names)
    return edit_tables(pipeline, tables, lambda admin, table: admin.reset(table, prefix), dry=dry)


@click.command(name="set")
@trust_option
@pipeline_argument
@click.argument("stream")
@click.argument("file", metavar="STATE.json", type=FILE)
@dry_option
@editing
def set_(pipeline: PipelineFile, stream: str, file: Path, *, dry: bool) -> int:
    """Give a STREAM the state in a file: what `show --json` prints as `state`, or any older form of it."""
    blob = read_document(file)
    table = pipeline.table((stream,))
    known = pipeline.stream(table)
    return edit_tables(
        pipeline,
        [table],
        lambda admin, table: admin.change(table, lambda saved: set_state(saved, known, blob)),
        dry=dry,
    )


@click.command()
@trust_option
@pipeline_argument
@click.option("--to", required=True, metavar="WHEN", help="A timestamp such as 2024-03-01, or a number for a counter.")
@click.option("--until", metavar="WHEN", help="Where what is read again ends; without it, all that is newer is.")
@for_streams
@partition_option
@dry_option
@editing
def rewind(
    pipeline: PipelineFile, to: str, until: str | None, names: tuple[str, ...], partition: str | None, *, dry: bool
) -> int:
    """Move cursors back to a timestamp, never forward: what is newer is read again.

    Streams without a cursor are left as they are, unless they are named.
    """
    prefix = partition_of(partition)
    tables = [pipeline.table(names)] if prefix is not None else pipeline.tables_with_state(names)
    if not names:
        for table in tables:
            if pipeline.stream(table).cursor is None:
                click.echo(f"{table.name}: has no cursor, left as it is")
        tables = [table for table in tables if pipeline.stream(table).cursor is not None]
    streams = {table: pipeline.stream(table) for table in tables}
    return edit_tables(
        pipeline,
        tables,
        lambda admin, table: admin.change(table, lambda saved: rewound(saved, streams[table], to, prefix, until)),
        dry=dry,
    )


@click.command()
@pipeline_argument
@click.argument("number", metavar="N", type=int)
@for_streams
@click.option("--tables", is_flag=True, help="Restore the rows of that state as well, in the same commit.")
@dry_option
@editing
def rollback(pipeline: PipelineFile, number: int, names: tuple[str, ...], *, tables: bool, dry: bool) -> int:
    """Restore state N of a stream, by the number that `log` shows."""
    table = pipeline.table(names)
    return edit_tables(pipeline, [table], lambda admin, table: admin.rollback(table, number, tables=tables), dry=dry)


def partition_of(text: str | None) -> Partition | None:
    """Parse the value of `--partition`. Raises UsageError: it is not a JSON object."""
    if text is None:
        return None
    try:
        value = from_json(text)
    except orjson.JSONDecodeError as error:
        raise click.UsageError(f"'--partition': not JSON: {error}") from None
    if not isinstance(value, dict):
        raise click.UsageError(f'\'--partition\': found {text}, expected an object such as {{"shop": "a"}}')
    return Partition(value)
