"""`spark-cdk import`: a connector to begin with, from what another tool reads an API with."""

from pathlib import Path

import click

from cdk.authoring.drafts.draft import Draft
from cdk.authoring.drafts.imports.dlt_file import read_dlt_config
from cdk.authoring.drafts.imports.dlt_rest_api import draft_of_dlt
from cdk.authoring.drafts.imports.singer_catalog import draft_of_singer
from cdk.base.documents import read_document
from cdk.base.secret_masking import Secrets
from cdk.cli.authoring.new import write_new
from cdk.cli.command_errors import plain_errors
from cdk.cli.options import FILE, FOLDER

name_option = click.option("--name", help="What the connector is called. Default: as the file.")
folder_option = click.option("--folder", type=FOLDER, help="Where it is written. Default: its name.")


@click.command("dlt-rest-api")
@click.argument("file", type=FILE)
@name_option
@folder_option
def dlt_rest_api(file: Path, *, name: str | None, folder: Path | None) -> int:
    """Write a manifest for the RESTAPIConfig of dlt in FILE: Python, which is read and not run, JSON or YAML."""
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
    help="Write a connector from what another tool reads an API with, and say what could not be done faithfully.",
)
