"""`spec`: the config that a connector takes."""

import click

from cdk.cli.options import FindSource, debug_option, with_source
from cdk.cli.output import Output
from cdk.cli.protocol.protocol_command import run_protocol_command
from cdk.protocol import AirbyteMessage, ConnectorSpecification, Type


@click.command()
@with_source
@debug_option
def spec(find: FindSource, *, debug: bool) -> int:
    """Print the schema of the connector's config."""

    def say(output: Output) -> None:
        source = find()
        specification = ConnectorSpecification(
            connection_specification=dict(source.config_schema),
            documentation_url=source.documentation_url,
            advanced_auth=source.advanced_auth,
        )
        output.say(AirbyteMessage(type=Type.SPEC, spec=specification))

    return run_protocol_command(say, debug=debug)
