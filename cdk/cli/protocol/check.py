"""`check`: whether a connection works."""

from pathlib import Path

import click

from cdk.base.errors import CdkError
from cdk.cli.config_file import load_config
from cdk.cli.options import FindSource, config_option, debug_option, with_egress, with_source
from cdk.cli.output import Output
from cdk.cli.protocol.protocol_command import run_protocol_command
from cdk.cli.protocol.source_events import ProtocolEvents
from cdk.protocol import AirbyteConnectionStatus, AirbyteMessage, CheckStatus, Type, error_text


@click.command()
@with_source
@config_option
@with_egress
@debug_option
def check(find: FindSource, *, config: Path | None, debug: bool) -> int:
    """Try the connection with a config, and say whether it works."""

    def say(output: Output) -> None:
        source = find()
        source.events = ProtocolEvents(output, config)
        try:
            source.check(load_config(config, source, output.secrets))
        except (CdkError, OSError) as error:
            # A wrong config or a source that does not answer is what `check` is there to find, and no failure of it.
            status = AirbyteConnectionStatus(status=CheckStatus.FAILED, message=output.secrets.mask(error_text(error)))
        else:
            status = AirbyteConnectionStatus(status=CheckStatus.SUCCEEDED)
        output.say(AirbyteMessage(type=Type.CONNECTION_STATUS, connection_status=status))

    return run_protocol_command(say, debug=debug)
