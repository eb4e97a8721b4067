"""`spark-cdk ui`: serves the page on this machine only."""

import secrets
import socket
from pathlib import Path

import click

from cdk.cli.command_errors import taking_port
from cdk.cli.options import any_code_option, with_egress


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Port on 127.0.0.1. Default: a free one."
)
@any_code_option
@with_egress
def ui(*, port: int, allow_custom_code: bool) -> int:
    """Serve a page with the pipelines of this folder, their runs and states; draft, edit and try manifests on it.

    The page is served on 127.0.0.1, to whoever has the address that is printed. Ctrl-C ends it.
    """
    try:
        import uvicorn  # noqa: PLC0415 - an extra

        from cdk.cli.ui.server import application  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"starlette", "uvicorn"}:
            raise
        raise click.ClickException("its packages are missing: pip install 'spark-cdk[ui]'") from None
    token = secrets.token_urlsafe(32)
    with taking_port(port):
        listening = socket.create_server(("127.0.0.1", port))
    with listening:
        click.echo(f"http://127.0.0.1:{listening.getsockname()[1]}/?token={token}")
        app = application(Path.cwd(), token, trusted=allow_custom_code)
        # The access log would contain the token, which is in the URL of the first request.
        uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listening])
    return 0
