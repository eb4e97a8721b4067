"""`spark-cdk mcp`: serves the tools on standard input and output."""

import logging
from pathlib import Path

import click

from cdk.cli.options import any_code_option, with_egress


@click.command()
@any_code_option
@with_egress
def mcp(*, allow_custom_code: bool) -> int:
    """Run an MCP server: an assistant builds a connector with new, validate, preview, infer, plan, prove and state.

    It communicates on standard input and output, accepts no path outside of this folder, and shows no secret.
    """
    try:
        from cdk.cli.mcp.server import server  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"mcp", "mcp_types"}:
            raise
        raise click.ClickException("the package `mcp` is missing: pip install 'spark-cdk[mcp]'") from None
    # Without a handler, the package would print errors and the kit's log unmasked.
    logging.getLogger().addHandler(logging.NullHandler())
    server(Path.cwd(), trusted=allow_custom_code).run("stdio")
    return 0
