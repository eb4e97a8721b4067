"""`spark-cdk completion SHELL`: prints the script with which a shell completes commands, options and files."""

import os

import click
from click.shell_completion import get_completion_class, shell_complete

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
