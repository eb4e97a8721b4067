"""`spark-cdk simulate`: shows the contents of a connector's simulated API, or serves it on a local port."""

from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

import click

from cdk import testing
from cdk.base.errors import CdkError
from cdk.base.secret_masking import Secrets
from cdk.base.values import to_json
from cdk.cli.command_errors import plain_errors, taking_port
from cdk.cli.config_file import read_config
from cdk.cli.options import FindSource, config_option, number_option, with_source
from cdk.rest import Headers, Request, Response


@click.command()
@with_source
@click.argument("world", default="", metavar="[WORLD]")
@config_option
@number_option("--port", least=0, text="Serve on 127.0.0.1:N until interrupted; 0 picks a free port.")
def simulate(find: FindSource, world: str, *, config: Path | None, port: int | None) -> int:
    """Show what the simulated API of a connector has, or serve it; no credentials, no network.

    WORLD sets how much it has, such as `records=100,seed=1,round=1,faults`. The exit code is 1 if a stream is not
    simulated.
    """
    secrets = Secrets()
    with plain_errors(secrets):
        simulator = testing.Simulator(find(), read_config(config, secrets), testing.World.parse(world))
        click.echo(secrets.mask("\n".join(_lines(simulator))))
        if port is not None:
            serve(simulator, port)
    return 1 if simulator.missing else 0


def serve(simulator: "testing.Simulator", port: int) -> None:
    """Serve the simulated API until interrupted."""
    with taking_port(port):
        httpd = server(simulator, port)
    with httpd:
        click.echo(f"http://127.0.0.1:{httpd.server_port} answers for {', '.join(simulator.origins)}")
        try:
            httpd.serve_forever()
        except KeyboardInterrupt:
            return


def server(simulator: "testing.Simulator", port: int) -> ThreadingHTTPServer:
    """Make a local server that answers for all hosts of the API; URLs of the API in its responses point to itself."""
    answering = Lock()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            own = f"http://{self.headers.get('Host')}"
            with answering:
                response = _response(simulator, self.command, self.path, dict(self.headers), body)
            content = response.body
            for origin in simulator.origins:
                content = content.replace(origin.encode(), own.encode())
            self.send_response(response.status)
            for name, value in response.headers.items():
                self.send_header(name, value.replace(next(iter(simulator.origins)), own))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - as the library calls them

        def log_message(self, *_: object) -> None:
            """Log nothing, because parameters may be secrets."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def _response(simulator: "testing.Simulator", method: str, path: str, headers: dict[str, str], body: bytes) -> Response:
    why = "the connector sends no such request"
    for origin in simulator.origins:
        try:
            return simulator.send(Request(method, f"{origin}{path}", {}, headers, body or None))
        except CdkError as error:
            why = str(error)
    request = Request(method, path, {}, headers, body)
    return Response(404, Headers({"Content-Type": "application/json"}), to_json({"message": why}), path, request)


def _lines(simulator: "testing.Simulator") -> Sequence[str]:
    rows = [("stream", "requests", "records", "pages of", "notes")]
    for name, api in simulator.streams.items():
        size = "all" if api.shape.size is None else str(api.shape.size)
        notes = "" if api.filters else "its windows are not filtered"
        rows.append((name, f"{api.first.method} {api.pattern}", f"{len(simulator.records(name)):,}", size, notes))
    widths = [max(len(row[at]) for row in rows) for at in range(4)]
    lines = [
        "  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[4]]).rstrip()
        for row in rows
    ]
    return [*lines, *(f"{name} is not simulated: {why}" for name, why in simulator.missing.items())]
