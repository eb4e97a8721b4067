"""The verbs of `spark-cdk state` that export and import states: export, import, fork."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from cdk.base.errors import ConfigError, StateError
from cdk.base.values import JsonValue, to_json
from cdk.base.wording import counted
from cdk.cli.input_files import read_documents
from cdk.cli.options import FILE
from cdk.cli.protocol.state_file import load_state
from cdk.cli.state.options import (
    BrokenTables,
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
from cdk.protocol.catalog import StreamDescriptor
from cdk.state.manager import ConnectorStateManager
from cdk.streams.stream import Stream
from cdk.sync.settings.pipeline_file import PIPELINE_NAME
from cdk.sync.settings.stream_plan import StreamPlan
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
    """Write the states of streams to FILE, or to standard output for `-`, as a list of state messages.

    The exit code is 1 where a state cannot be read; the others are written.
    """
    admin, broken = pipeline.admin(), BrokenTables()
    standing = {table: admin.status(table) for table in pipeline.tables(names)}
    messages = [message(table, each.saved, exact=form == "exact") for table, each in standing.items() if each.saved]
    broken.errors |= {table.name: each.lost for table, each in standing.items() if each.lost}
    text = to_json(messages, indent=True) + b"\n"
    if str(file) == "-":
        click.echo(text.decode(), nl=False)
    elif messages or not broken.errors:  # else an earlier export stays
        try:
            file.write_bytes(text)
        except OSError as error:
            raise ConfigError(f"cannot be written: {error.strerror}", path=str(file)) from error
        click.echo(f"{counted(len(messages), 'state')} in {file}")
    return broken.show(err=True)


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
    plans = {plan.location.name: plan for plan in pipeline.plans}
    tables = choose_locations([plan.location for plan in plans.values()], names)
    blobs = _states(file, list(plans.values()))
    chosen = [table for table in tables if table.name in blobs]
    if not chosen:
        raise ConfigError("has no state of a stream of this pipeline", path=str(file))
    return edit_tables(
        pipeline,
        chosen,
        lambda admin, table: import_into_table(admin, plans[table.name], blobs[table.name], replaces=replace),
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
    # A state that cannot be read is refused, not left out: the other pipeline would read that stream from its start.
    tables = pipeline.tables_with_state(names)
    return edit_tables(pipeline, tables, lambda admin, table: admin.fork(table, name), dry=dry)


def _states(file: Path, plans: Sequence[StreamPlan]) -> dict[str, JsonValue]:
    """Load the states in a file, in any supported format, by the names of their tables.

    Raises StateError: when it is unclear which stream has a state, or a state is not one. ConfigError.
    """
    streams = {plan.stream.name: plan.stream for plan in plans}
    blobs: dict[str, JsonValue] = {}
    for descriptor, blob in _states_by_stream(file, streams):
        if (name := _table_of(descriptor, plans, str(file))) in blobs:
            raise StateError(f"has several states of the stream {name!r}; leave one of them out", path=str(file))
        if name is not None:
            blobs[name] = blob
    return blobs


def _states_by_stream(file: Path, streams: Mapping[str, Stream]) -> Iterator[tuple[StreamDescriptor, JsonValue]]:
    documents = [value for _, value in read_documents(file)]
    for is_of, states_of in ((is_singer, from_singer), (is_dlt, from_dlt)):
        if known := [value for value in documents if is_of(value)]:
            yield from ((StreamDescriptor(name=name), blob) for name, blob in states_of(known[-1], streams))
            return
    manager = ConnectorStateManager(load_state(file, streams))
    for descriptor in sorted(manager.streams, key=str):
        yield descriptor, manager.get_stream_state(descriptor.name, descriptor.namespace)


def _table_of(descriptor: StreamDescriptor, plans: Sequence[StreamPlan], file: str) -> str | None:
    """Return the name of the table of a state's stream; None: the pipeline has no such stream.

    Its namespace only matters if several streams have its name. Raises StateError: when it is then none of theirs.
    """
    named = {plan.stream.namespace: plan.location.name for plan in plans if plan.stream.name == descriptor.name}
    if len(named) > 1 and descriptor.namespace not in named:
        streams = ", ".join(map(repr, named.values()))
        raise StateError(
            f"found a state of {descriptor.name!r} in the namespace {descriptor.namespace!r}, expected one of the "
            f"streams {streams}; add the namespace to its stream_descriptor",
            path=file,
        )
    return named.get(descriptor.namespace, next(iter(named.values()), None))
