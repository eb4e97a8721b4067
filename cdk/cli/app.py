"""The entry point of the command line: registers the commands and runs them, and has shells complete them."""

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from keyword import iskeyword
from pathlib import Path
from typing import Any, cast

import click
from click.shell_completion import get_completion_class, shell_complete

from cdk.base.errors import CdkError, ConnectorExit
from cdk.cli import later_commands
from cdk.cli.options import pipeline_path
from cdk.cli.protocol.read import read
from cdk.cli.protocol.source_commands import check, discover, spec
from cdk.streams.source import Source

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> int:
    """Print the script that completes commands and options in a SHELL.

    In ~/.bashrc: eval "$(spark-cdk completion bash)".
    """
    root = ctx.find_root()
    name = root.info_name or ""
    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(root.command, {}, name, _variable(name)).source())
    return 0


def completed(app: click.Group, name: str) -> int | None:
    """Run the completion that a shell requests by an environment variable; return its exit code, None without one."""
    instruction = os.environ.get(_variable(name))
    return None if instruction is None else shell_complete(app, {}, name, _variable(name), instruction)


def _variable(name: str) -> str:
    return f"_{name.replace('-', '_')}_COMPLETE".upper()


class LazyCommand(click.Command):
    """A command whose module is imported when it runs, so that other commands start without Spark, Delta and rich.

    help: the first sentence of its help, for the list of commands.
    """

    def load(self) -> click.Command:
        """Import and return the actual command."""
        # A command may be named like a keyword, a function may not.
        name = f"{self.name}_" if iskeyword(str(self.name)) else str(self.name)
        return cast("click.Command", getattr(later_commands, name))

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401 - the signature of click
    ) -> click.Context:
        """Return the context of the actual command, because click runs the command of the context."""
        return self.load().make_context(info_name, args, parent, **extra)


@click.command(name="check", params=[*check.params])
@pipeline_path(required=False)
@click.pass_context
def check_connector_or_pipeline(ctx: click.Context, /, pipeline: Path | None, **options: object) -> int:
    """Check whether the connection works with a config, or everything that a PIPELINE file names.

    For a pipeline, these are its source, its streams, its target and its state store, one line each; the exit code is 1
    if one of them cannot be used.
    """
    if pipeline is None:
        return cast("int", ctx.invoke(check, **options))
    if any(options[name] is not None for name in ("connector", "manifest_path", "config")):
        raise click.UsageError("a PIPELINE names its connector and its config: pass one or the other", ctx)
    shared = {name: options[name] for name in ("allow_custom_code", "egress")}
    return cast("int", ctx.invoke(LazyCommand("check_pipeline").load(), pipeline=pipeline, **shared))


PROTOCOL_COMMANDS = (spec, check, discover, read)
_HELP = {
    "sync": "Sync the streams of a PIPELINE file into Delta tables, rows and state in one commit.",
    "plan": "Show what a sync of a PIPELINE file would read and write, in figures; reads and writes nothing.",
    "tables": "Show the tables of a PIPELINE file: rows, files, versions, and what the next sync does.",
    "query": "Query the tables of a PIPELINE file in SQL; each table has the name of its stream.",
    "runs": "List the last runs of a PIPELINE file, newest first: when, how long, rows, commits, and how each ended.",
    "state": "Show the states of a PIPELINE file's streams, and change them between syncs.",
    "new": "Write a connector named NAME into a folder, with tests that pass, and what editors and CI need.",
    "import": "Convert a source of another tool into a connector, and report what could not be converted faithfully.",
    "preview": "Show the first records of a STREAM, each request and response, and why there is a next page.",
    "detect": "Find in live responses where the records of a manifest's STREAM are, and how it is paginated.",
    "record": "Read a connector once, and record its requests and responses in a cassette, without secrets.",
    "simulate": "Show what the simulated API of a connector has, or serve it; no credentials, no network.",
    "prove": "Kill syncs of a connector, resume each, and compare with an undisturbed one.",
    "validate": "Check each FILE for mistakes: a manifest, a pipeline, a config, a catalog or a state.",
    "schema": "Print the JSON Schema of a KIND of files, for editors: `manifest` or `pipeline`.",
    "doctor": "Check what a sync needs: versions, Java, disk space, and a PIPELINE's source, credentials, target and "
    "state.",
    "ui": "Serve a page with the pipelines of this folder, their runs and states; draft, edit and try manifests on it.",
    "mcp": "Run an MCP server: an assistant builds a connector with new, validate, preview, infer, plan, prove "
    "and state.",
}
LAZY_COMMANDS = tuple(LazyCommand(name, help=text) for name, text in _HELP.items())
PREVIEW = next(command for command in LAZY_COMMANDS if command.name == "preview")


def run(argv: Sequence[str], source: Source | None = None) -> int:
    """Run a command line and return its exit code; 2 for a usage error.

    source: the connector, if this is the program of one; the commands are then those of the protocol and `preview`.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        # As Python does for standard error: a record may hold half a character, and a terminal may not have them all.
        sys.stdout.reconfigure(errors="backslashreplace")
    name = "spark-cdk" if source is None else source.name or type(source).__name__
    app = click.Group(
        name,
        commands=(*PROTOCOL_COMMANDS, PREVIEW)
        if source is not None
        else (spec, check_connector_or_pipeline, discover, read, *LAZY_COMMANDS, completion),
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    if source is None:
        click.version_option(package_name=name)(app)
    if (code := completed(app, name)) is not None:
        return code
    try:
        ended = app.main(list(argv), prog_name=name, standalone_mode=False, obj=source)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return 130
    except SystemExit as error:
        # rich exits like this when the reader of a table has closed the pipe.
        has_enough = isinstance(error.__context__, BrokenPipeError)
        if not has_enough:
            click.echo(f"Error: {ConnectorExit(error)}", err=True)
        return 0 if has_enough else 1
    except CdkError as error:
        click.echo(f"Error: {error}", err=True)
        return 1
    return ended if isinstance(ended, int) else 0


def launch(source: Source | type[Source] | None = None, argv: Sequence[str] | None = None) -> None:
    """Run the program of one connector, `python -m connectors.NAME read --config ...`, and exit the process.

    source: None: run `spark-cdk`. argv: the arguments after the program's name; None: those of the process.
    """
    instance = source() if isinstance(source, type) else source
    sys.exit(run(sys.argv[1:] if argv is None else argv, instance))
