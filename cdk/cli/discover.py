"""`discover`: the streams that a connector offers."""

from pathlib import Path

import click

from cdk.cli.catalog_file import offered
from cdk.cli.config_file import load_config
from cdk.cli.options import FindSource, config_option, debug_option, with_egress, with_source
from cdk.cli.output import Output
from cdk.cli.talk import talk
from cdk.cli.told import Told
from cdk.protocol import AirbyteMessage, Type


@click.command()
@with_source
@config_option
@with_egress
@debug_option
def discover(find: FindSource, *, config: Path | None, debug: bool) -> int:
    """Print the catalog: the streams there are, with their schemas."""

    def say(output: Output) -> None:
        source = find()
        source.events = Told(output, config)
        streams = source.streams(load_config(config, source, output.secrets))
        output.say(AirbyteMessage(type=Type.CATALOG, catalog=offered(streams)))

    return talk(say, debug=debug)
