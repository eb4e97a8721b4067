"""The command line: where its commands are registered, and how it starts."""

import sys
from collections.abc import Sequence

import click

from cdk.base.errors import CdkError, ConnectorExit
from cdk.cli.protocol.check import check
from cdk.cli.protocol.discover import discover
from cdk.cli.protocol.read import read
from cdk.cli.protocol.spec import spec
from cdk.cli.state.command import state
from cdk.cli.sync.command import sync
from cdk.cli.tables import tables
from cdk.streams.source import Source

_PROTOCOL = (spec, check, discover, read)
_ALL = (*_PROTOCOL, sync, tables, state)


def run(argv: Sequence[str], source: Source | None = None) -> int:
    """Run a command line and return its exit code; 2 for one that is not understood.

    source: the connector, where the program is one; the commands are then those of the protocol.
    """
    name = "spark-cdk" if source is None else source.name or type(source).__name__
    app = click.Group(
        name,
        commands=_ALL if source is None else _PROTOCOL,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    try:
        code = app.main(list(argv), prog_name=name, standalone_mode=False, obj=source)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return 130
    except SystemExit as error:
        click.echo(f"Error: {ConnectorExit(error)}", err=True)
        return 1
    except CdkError as error:
        click.echo(f"Error: {error}", err=True)
        return 1
    return code if isinstance(code, int) else 0


def launch(source: Source | type[Source], argv: Sequence[str] | None = None) -> None:
    """Be the program of one connector: `python -m connectors.NAME read --config ...`. Ends the process.

    argv: what follows the program's name; default: the process's own.
    """
    instance = source if isinstance(source, Source) else source()
    sys.exit(run(sys.argv[1:] if argv is None else argv, instance))
