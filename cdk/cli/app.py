"""The command line: where its commands are registered, and how it starts."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from cdk.base.errors import CdkError, ConnectorExit
from cdk.cli.protocol.check import check
from cdk.cli.protocol.discover import discover
from cdk.cli.protocol.read import read
from cdk.cli.protocol.spec import spec
from cdk.streams.source import Source


class LazyCommand(click.Command):
    """A command whose module is imported when it runs, so that the others start without Spark, Delta and rich.

    name: its name in `cdk.cli.pipeline_commands`. help: its first sentence, for the list of commands.
    """

    def __init__(self, name: str, help: str) -> None:
        super().__init__(name, help=help)
        self.key = name

    def load(self) -> click.Command:
        """The command itself."""
        from cdk.cli.pipeline_commands import COMMANDS  # noqa: PLC0415 - what this class is for

        return COMMANDS[self.key]

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401 - as click has it
    ) -> click.Context:
        """The context of the command itself: click runs the command of the context."""
        return self.load().make_context(info_name, args, parent, **extra)


PROTOCOL_COMMANDS = (spec, check, discover, read)
PIPELINE_COMMANDS = (
    LazyCommand("sync", "Sync the streams of a PIPELINE file into Delta tables, rows and state in one commit."),
    LazyCommand("tables", "Show the tables of a PIPELINE file: rows, files, versions, and what the next sync does."),
    LazyCommand("state", "Look at the states of a PIPELINE file's streams, and change them between two syncs."),
)


def run(argv: Sequence[str], source: Source | None = None) -> int:
    """Run a command line and return its exit code; 2 for one that is not understood.

    source: the connector, where the program is one; the commands are then those of the protocol.
    """
    name = "spark-cdk" if source is None else source.name or type(source).__name__
    app = click.Group(
        name,
        commands=(*PROTOCOL_COMMANDS, *PIPELINE_COMMANDS) if source is None else PROTOCOL_COMMANDS,
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


def launch(source: Source | type[Source] | None = None, argv: Sequence[str] | None = None) -> None:
    """Be the program of one connector: `python -m connectors.NAME read --config ...`. Ends the process.

    source: None: be `spark-cdk`. argv: what follows the program's name; default: the process's own.
    """
    instance = source() if isinstance(source, type) else source
    sys.exit(run(sys.argv[1:] if argv is None else argv, instance))
