"""`spark-cdk new NAME`: a connector to begin with."""

from pathlib import Path

import click

from cdk.authoring.new_connector import Language, new_connector
from cdk.base.secret_masking import Secrets
from cdk.cli.command_errors import plain_errors


@click.command()
@click.argument("name")
@click.option("--python", "language", flag_value="python", default=True, help="A connector in Python; the default.")
@click.option("--yaml", "language", flag_value="yaml", help="A low-code connector: a YAML manifest.")
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), help="Where it is written. Default: NAME.")
def new(name: str, *, language: Language, folder: Path | None) -> int:
    """Write a connector called NAME into a folder, with tests that pass, and what editors and CI need."""
    target = Path(name) if folder is None else folder
    with plain_errors(Secrets()):
        for path in new_connector(name, language, target):
            click.echo(f"{target / path}")
    click.echo(f"next: cd {target} && pytest; README.md says what then")
    return 0
