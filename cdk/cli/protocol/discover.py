"""`discover`: the streams that a connector offers."""

from pathlib import Path

import click

from cdk.base.logs import logger
from cdk.base.run import one_run
from cdk.base.values import JsonSchema
from cdk.cli.config_file import load_config
from cdk.cli.options import FindSource, config_option, debug_option, with_egress, with_source
from cdk.cli.output import Output
from cdk.cli.protocol.catalog_file import offered
from cdk.cli.protocol.protocol_command import run_protocol_command
from cdk.cli.protocol.source_events import ProtocolEvents
from cdk.engine.first_pages import shown_schema
from cdk.protocol import AirbyteMessage, Type, error_text
from cdk.streams.stream import Stream


@click.command()
@with_source
@config_option
@click.option(
    "--infer",
    is_flag=True,
    help="Read the first pages of each stream, and add the fields that its schema does not declare.",
)
@with_egress
@debug_option
def discover(find: FindSource, *, config: Path | None, infer: bool, debug: bool) -> int:
    """Print the catalog: the streams there are, with their schemas."""

    def say(output: Output) -> None:
        source = find()
        source.events = ProtocolEvents(output, config)
        settings = load_config(config, source, output.secrets)
        streams = source.open(settings) if infer else source.streams(settings)
        with one_run():
            catalog = offered(streams, _shown) if infer else offered(streams)
        output.say(AirbyteMessage(type=Type.CATALOG, catalog=catalog))

    return run_protocol_command(say, debug=debug)


def _shown(stream: Stream) -> JsonSchema:
    """The schema with what its first records add; the one that is declared where they cannot be read."""
    try:
        return shown_schema(stream)
    except Exception as error:  # noqa: BLE001 - one stream failing, for whatever reason, does not stop the others
        logger.error("%s: its records cannot be read, so its schema is as declared: %s", stream.name, error_text(error))
        return stream.json_schema()
