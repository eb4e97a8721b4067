"""The verbs of `spark-cdk state` that export and import states: export, import, fork."""

from collections.abc import Mapping
from pathlib import Path

import click

from cdk.base.errors import ConfigError, StateError
from cdk.base.values import JsonValue, to_json
from cdk.cli.input_files import read_documents
from cdk.cli.options import FILE
from cdk.cli.protocol.state_file import load_state
from cdk.cli.state.options import (
    PipelineFile,
    dry_option,
    edit_tables,
    editing,
    for_streams,
    pipeline_argument,
    translate_errors,
    trust_option,
)
from cdk.lake.admin.formats import from_dlt, from_singer, is_dlt, is_singer, message
from cdk.lake.admin.locate import choose_locations
from cdk.state.manager import ConnectorStateManager
from cdk.streams.stream import Stream
from cdk.sync.settings.pipeline_file import PIPELINE_NAME
from cdk.sync.tables.table_writer import import_into_table


@click.command()
@pipeline_argument
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@for_streams
@click.option(
    "--format",
    "form",
    type=click.Choice(["airbyte", "exact"]),
    default="airbyte",
    help="State messages, or these with all that the tables store. Default: airbyte.",
)
@translate_errors
def export(pipeline: PipelineFile, file: Path, names: tuple[str, ...], *, form: str) -> int:
    """Write the states of streams to FILE, or to standard output for `-`, as a list of state messages."""
    admin = pipeline.admin()
    standing = [(table, admin.status(table)) for table in pipeline.tables(names)]
    for table, status in standing:
        if status.lost:
            raise StateError(f"the state cannot be read: {status.lost}", stream=table.stream)
    messages = [message(table, status.saved, exact=form == "exact") for table, status in standing if status.saved]
    text = to_json(messages, indent=True) + b"\n"
    if str(file) == "-":
        click.echo(text.decode(), nl=False)
    else:
        try:
            file.write_bytes(text)
        except OSError as error:
            raise ConfigError(f"cannot be written: {error.strerror}", path=str(file)) from error
        click.echo(f"{len(messages)} states in {file}")
    return 0


@click.command(name="import")
@trust_option
@pipeline_argument
@click.argument("file", type=FILE)
@for_streams
@click.option("--replace", is_flag=True, help="Replace existing states with the imported ones.")
@dry_option
@editing
def import_(pipeline: PipelineFile, file: Path, names: tuple[str, ...], *, replace: bool, dry: bool) -> int:
    """Have streams resume from the states in FILE, also before their first sync.

    FILE has Airbyte's state messages, in any form that `read --state` takes, Singer's bookmarks, or a dlt pipeline's
    state.json.
    """
    plans = {plan.stream.name: plan for plan in pipeline.plans}
    tables = {
        location.stream: location for location in choose_locations([plan.location for plan in plans.values()], names)
    }
    blobs = _states(file, {name: plan.stream for name, plan in plans.items()})
    chosen = {name: blob for name, blob in blobs.items() if name in tables}
    if not chosen:
        raise ConfigError("has no state of a stream of this pipeline", path=str(file))
    return edit_tables(
        pipeline,
        [tables[name] for name in chosen],
        lambda admin, table: import_into_table(admin, plans[table.stream], chosen[table.stream], replaces=replace),
        dry=dry,
    )


@click.command()
@pipeline_argument
@click.argument("name")
@for_streams
@dry_option
@editing
def fork(pipeline: PipelineFile, name: str, names: tuple[str, ...], *, dry: bool) -> int:
    """Let a second pipeline, named NAME, resume on the same tables from the states of this one."""
    if not PIPELINE_NAME.fullmatch(name) or name == pipeline.name:
        raise click.UsageError(f"found {name!r}, expected the name of another pipeline: letters, digits, `.`, `_`, `-`")
    admin = pipeline.admin(dry=dry)
    tables = [table for table in pipeline.tables(names) if names or admin.status(table).saved is not None]
    return edit_tables(pipeline, tables, lambda admin, table: admin.fork(table, name), dry=dry)


def _states(file: Path, streams: Mapping[str, Stream]) -> dict[str, JsonValue]:
    """Load the state of each stream in a file, in any supported format. Raises StateError and ConfigError."""
    documents = [value for _, value in read_documents(file)]
    singer = [value for value in documents if is_singer(value)]
    if singer:
        return dict(from_singer(singer[-1], streams))
    dlt = [value for value in documents if is_dlt(value)]
    if dlt:
        return dict(from_dlt(dlt[-1], streams))
    messages = load_state(file, streams)
    manager = ConnectorStateManager(messages)
    named = {
        (item.stream_descriptor.name, item.stream_descriptor.namespace)
        for message in messages
        for item in ([message.stream] if message.stream else message.global_.stream_states if message.global_ else [])
    } | {(name, None) for message in messages for name in message.data or ()}
    return {name: manager.get_stream_state(name, namespace) for name, namespace in sorted(named, key=str)}
