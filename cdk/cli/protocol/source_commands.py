"""`spec`, `check`, `discover`: print the schema of a connector's config, try a config, and list the streams."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
import msgspec

from cdk.authoring.candidates import cursor_candidates, key_candidates
from cdk.base.errors import CdkError, ConfigError
from cdk.base.logs import logger
from cdk.base.run import one_run
from cdk.base.values import JsonSchema, Record, from_json, to_json
from cdk.base.wording import reason_of
from cdk.cli.config_file import load_config, opened
from cdk.cli.options import FOLDER, FindSource, config_option, debug_option, with_egress, with_source
from cdk.cli.output import Output
from cdk.cli.protocol.catalog_file import offered
from cdk.cli.protocol.protocol_command import retries_shown, run_protocol_command
from cdk.cli.protocol.source_events import ProtocolEvents
from cdk.engine.first_pages import first_records, schema_with_inferred_fields
from cdk.protocol.messages import (
    AdvancedAuth,
    AirbyteConnectionStatus,
    AirbyteMessage,
    CheckStatus,
    ConnectorSpecification,
    Type,
)
from cdk.protocol.reports import error_text
from cdk.streams.stream import Stream


@click.command()
@with_source
@debug_option
def spec(find: FindSource, *, debug: bool) -> int:
    """Print the schema of the connector's config."""

    def answer(output: Output) -> None:
        source = find()
        auth = source.advanced_auth
        specification = ConnectorSpecification(
            connection_specification=dict(source.config_schema),
            documentation_url=source.documentation_url,
            advanced_auth=None if auth is None else msgspec.convert(auth, AdvancedAuth),
        )
        output.write_message(AirbyteMessage(type=Type.SPEC, spec=specification))

    return run_protocol_command(answer, debug=debug)


@click.command()
@with_source
@config_option
@with_egress
@debug_option
def check(find: FindSource, *, config: Path | None, debug: bool) -> int:
    """Check whether the connection works with a config."""

    def answer(output: Output) -> None:
        source = find()
        source.events = ProtocolEvents(output, config)
        try:
            with retries_shown(output):
                source.check(load_config(config, source, output.secrets))
        except (CdkError, OSError) as error:
            # An invalid config or an unreachable source is a result of `check`, not a failure of the command.
            status = AirbyteConnectionStatus(status=CheckStatus.FAILED, message=output.secrets.mask(error_text(error)))
        else:
            status = AirbyteConnectionStatus(status=CheckStatus.SUCCEEDED)
        output.write_message(AirbyteMessage(type=Type.CONNECTION_STATUS, connection_status=status))

    return run_protocol_command(answer, debug=debug)


_MOST = 3
"""How many candidates are logged."""


@click.command()
@with_source
@config_option
@click.option(
    "--infer",
    is_flag=True,
    help="Read the first pages of each stream, and add the fields that its schema does not declare.",
)
@click.option(
    "--schemas",
    metavar="FOLDER",
    type=FOLDER,
    help="With --infer: write each schema to <stream>.json in this folder; other schemas there are left as they are.",
)
@with_egress
@debug_option
def discover(find: FindSource, *, config: Path | None, infer: bool, schemas: Path | None, debug: bool) -> int:
    """Print the catalog: the available streams, with their schemas."""
    if schemas is not None and not infer:
        raise click.UsageError("--schemas writes what --infer finds; pass both")

    def answer(output: Output) -> None:
        source, settings = opened(find, config, output.secrets, ProtocolEvents(output, config))
        streams = source.open(settings) if infer else source.streams(settings)
        with one_run(), retries_shown(output):
            catalog = offered(streams, partial(_shown, schemas)) if infer else offered(streams)
        output.write_message(AirbyteMessage(type=Type.CATALOG, catalog=catalog))

    return run_protocol_command(answer, debug=debug)


def _shown(folder: Path | None, stream: Stream) -> JsonSchema:
    """Return the schema with the fields of the first records; the declared one if these cannot be read.

    folder: where to write the schema; None: nowhere.
    """
    try:
        records = first_records(stream)
        schema = schema_with_inferred_fields(stream, records)
    except Exception as error:  # noqa: BLE001 - the failure of a stream, whatever it is, does not stop the others
        logger.error("%s: its records cannot be read, so its schema is as declared: %s", stream.name, error_text(error))
        return stream.json_schema()
    _name_candidates(stream, records)
    if folder is not None and Path(stream.name).name == stream.name:
        _write(folder / f"{stream.name}.json", stream.json_schema(), schema)
    return schema


def _name_candidates(stream: Stream, records: Sequence[Record]) -> None:
    """Log candidates for the primary key and the cursor if the stream has none."""
    if not stream.primary_key and (names := key_candidates(records)):
        logger.info("%s: its primary key may be: %s", stream.name, ", ".join(names[:_MOST]))
    if stream.cursor_field is None and (names := cursor_candidates(records)):
        logger.info("%s: its cursor may be: %s", stream.name, ", ".join(names[:_MOST]))


def _write(path: Path, declared: JsonSchema, schema: JsonSchema) -> None:
    """Write a schema to a file; does not replace a file with another schema than the declared one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and from_json(path.read_bytes()) not in (declared, schema):
            logger.warning("%s: another schema exists and is left as it is; remove it to write this one", path)
            return
        path.write_bytes(to_json(schema, indent=True) + b"\n")
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot be written: {reason_of(error)}", path=str(path)) from error
