"""`spark-cdk new NAME`: a connector to begin with."""

import sys
from pathlib import Path

import click

from cdk.authoring.drafts.curl import draft_of_curl
from cdk.authoring.drafts.draft import Draft
from cdk.authoring.drafts.openapi.from_description import draft_of
from cdk.authoring.drafts.openapi.reading import read_description
from cdk.authoring.drafts.report import report
from cdk.authoring.new_connector import Language, new_connector
from cdk.base.secret_masking import Secrets
from cdk.cli.command_errors import plain_errors
from cdk.cli.options import FOLDER

_LISTED = 3
"""Names and paths of a list that are shown; README.md has all."""


@click.command()
@click.argument("name")
@click.option("--python", "language", flag_value="python", default=True, help="A connector in Python; the default.")
@click.option("--yaml", "language", flag_value="yaml", help="A low-code connector: a YAML manifest.")
@click.option(
    "--from-openapi",
    metavar="FILE|URL",
    help="Draft the manifest from an OpenAPI description: a stream for each collection in it.",
)
@click.option(
    "--from-curl",
    metavar="COMMAND",
    help="Draft a stream from a curl command line, or add it to an earlier draft; `-` reads standard input.",
)
@click.option("--folder", type=FOLDER, help="Where it is written. Default: NAME.")
def new(name: str, *, language: Language, from_openapi: str | None, from_curl: str | None, folder: Path | None) -> int:
    """Write a connector called NAME into a folder, with tests that pass, and what editors and CI need."""
    if from_openapi is not None and from_curl is not None:
        raise click.UsageError("--from-openapi and --from-curl exclude each other; begin with one of them")
    target = Path(name) if folder is None else folder
    with plain_errors(Secrets()):
        draft = None
        if from_openapi is not None:
            draft = draft_of(read_description(from_openapi))
        elif from_curl is not None:
            draft = draft_of_curl(sys.stdin.read() if from_curl == "-" else from_curl)
        return write_new(name, language if draft is None else "yaml", target, draft)


def write_new(name: str, language: Language, target: Path, draft: Draft | None) -> int:
    """Write a connector as `new_connector` does, and show what was written and guessed. Raises ConfigError."""
    written = new_connector(name, language, target, draft)
    for path in written.files:
        click.echo(f"{target / path}")
    if draft is not None:
        _show(draft)
    for note in written.notes:
        click.echo(note)
    click.echo(f"next: cd {target} && pytest; README.md says what then")
    return 0


def _show(draft: Draft) -> None:
    click.echo(f"\n{len(draft.streams)} streams\n")
    for line in report(draft, _LISTED):
        click.echo(line)
    click.echo()
