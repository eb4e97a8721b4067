"""`spark-cdk new NAME` and `spark-cdk import`: write a first version of a connector, also from another tool's file."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from cdk.authoring.answered_drafts import draft_of_answers
from cdk.authoring.drafts.curl import draft_of_curl
from cdk.authoring.drafts.draft import Draft, report
from cdk.authoring.drafts.imports.dlt_file import read_dlt_config
from cdk.authoring.drafts.imports.dlt_rest_api import draft_of_dlt
from cdk.authoring.drafts.imports.singer_catalog import draft_of_singer
from cdk.authoring.drafts.merging import drafted_streams
from cdk.authoring.drafts.openapi.description import read_description
from cdk.authoring.drafts.openapi.from_description import draft_of
from cdk.authoring.new_connector import Language, new_connector
from cdk.base.documents import read_document
from cdk.base.secret_masking import Secrets
from cdk.base.wording import counted
from cdk.cli.command_errors import messages_on_stderr, plain_errors
from cdk.cli.options import FILE, FOLDER, with_egress

_LISTED = 3
"""How many names and paths of a list are shown; README.md has all."""


@click.command()
@click.argument("name")
@click.option("--python", "in_python", is_flag=True, help="A connector in Python; the default.")
@click.option("--yaml", "in_yaml", is_flag=True, help="A low-code connector: a YAML manifest.")
@click.option(
    "--from-openapi",
    metavar="FILE|URL",
    help="Draft the manifest from an OpenAPI description: a stream for each collection in it.",
)
@click.option(
    "--from-curl",
    metavar="COMMAND",
    multiple=True,
    help="Draft a stream from a curl command line, or add it to an earlier draft; `-` reads stdin. Repeatable.",
)
@click.option(
    "--send",
    is_flag=True,
    help="With --from-curl: send its request, and find records, pagination, schema and key in the responses.",
)
@click.option("--folder", type=FOLDER, help="Folder to write it to. Default: NAME.")
@with_egress
def new(
    name: str,
    *,
    in_python: bool,
    in_yaml: bool,
    from_openapi: str | None,
    from_curl: Sequence[str],
    send: bool,
    folder: Path | None,
) -> int:
    """Write a connector named NAME into a folder, with tests that pass, and what editors and CI need."""
    if from_openapi is not None and from_curl:
        raise click.UsageError("--from-openapi and --from-curl exclude each other; pass one of them")
    if in_python and in_yaml:
        raise click.UsageError("--python and --yaml exclude each other; pass one of them")
    drafts = from_openapi is not None or bool(from_curl)
    if in_python and drafts:
        raise click.UsageError("--from-openapi and --from-curl draft a manifest; omit --python")
    if send and not from_curl:
        raise click.UsageError("--send sends the request of --from-curl; pass both")
    target = Path(name) if folder is None else folder
    secrets = Secrets()
    with messages_on_stderr(secrets):
        commands = [sys.stdin.read() if each == "-" else each for each in from_curl]
        draft = drafted(target, secrets, openapi=from_openapi, commands=commands, send=send)
        return write_new(name, "yaml" if in_yaml or drafts else "python", target, draft)


def drafted(
    target: Path, secrets: Secrets, *, openapi: str | None, commands: Sequence[str], send: bool
) -> Draft | None:
    """Draft a connector for a folder from a description, or from curl commands; None without either.

    openapi: a path or URL. send: send the requests of the commands and take the rest from the responses; adds possible
    secrets of the commands to `secrets`. Raises ConfigError: the input cannot be read; and the errors of requests.
    """
    if openapi:
        return draft_of(read_description(openapi))
    if not commands:
        return None
    beside = drafted_streams(target)
    if send:
        return draft_of_answers(*commands, beside=beside, learn=secrets.add)
    return draft_of_curl(*commands, beside=beside)


def write_new(name: str, language: Language, target: Path, draft: Draft | None) -> int:
    """Write a connector as `new_connector` does, and print the files and the guesses. Raises ConfigError."""
    written = new_connector(name, language, target, draft)
    for path in written.files:
        click.echo(f"{target / path}")
    if draft is not None:
        _show(draft)
    for note in written.notes:
        click.echo(note)
    click.echo(f"next: cd {target} && pytest; README.md describes the next steps")
    return 0


def _show(draft: Draft) -> None:
    click.echo(f"\n{counted(len(draft.streams), 'stream')}\n")
    for line in report(draft, _LISTED):
        click.echo(line)
    click.echo()


name_option = click.option("--name", help="Name of the connector. Default: that of the file.")
folder_option = click.option("--folder", type=FOLDER, help="Folder to write it to. Default: its name.")


@click.command("dlt-rest-api")
@click.argument("file", type=FILE)
@name_option
@folder_option
def dlt_rest_api(file: Path, *, name: str | None, folder: Path | None) -> int:
    """Write a manifest for dlt's RESTAPIConfig in FILE: JSON, YAML, or Python, which is read but not run."""
    with plain_errors(Secrets()):
        return _write(draft_of_dlt(read_dlt_config(file), file.name), file, name, folder)


@click.command("singer-tap")
@click.argument("catalog", type=FILE)
@click.option("--config", type=FILE, help="The tap's config: its properties become the connector's, its values do not.")
@name_option
@folder_option
def singer_tap(catalog: Path, *, config: Path | None, name: str | None, folder: Path | None) -> int:
    """Write a manifest for the streams in the CATALOG of a Singer tap: schemas, keys and cursors; no requests."""
    with plain_errors(Secrets()):
        settings = {} if config is None else read_document(config)
        return _write(draft_of_singer(read_document(catalog), settings, catalog.name), catalog, name, folder)


def _write(draft: Draft, file: Path, name: str | None, folder: Path | None) -> int:
    own = name or file.stem.lower().replace("_", "-").replace(".", "-")
    return write_new(own, "yaml", Path(own) if folder is None else folder, draft)


import_ = click.Group(
    "import",
    commands=[dlt_rest_api, singer_tap],
    help="Convert a source of another tool into a connector, and report what could not be converted faithfully.",
)
