"""`spark-cdk schema KIND`: the JSON Schema of manifests and of pipeline files."""

import click

from cdk.authoring.manifest_schema import manifest_schema
from cdk.authoring.pipeline_schema import pipeline_schema
from cdk.base.values import to_json

_SCHEMAS = {"manifest": manifest_schema, "pipeline": pipeline_schema}


@click.command()
@click.argument("kind", type=click.Choice(tuple(_SCHEMAS)))
def schema(kind: str) -> int:
    """Print the JSON Schema of a KIND of files, for editors: `manifest` or `pipeline`."""
    click.echo(to_json(_SCHEMAS[kind](), indent=True).decode())
    return 0
