"""`spark-cdk sync PIPELINE.yaml`: read on Spark into Delta tables."""

import sys
from pathlib import Path

import click

from cdk.base.errors import ConfigError


@click.command()
@click.argument("pipeline", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--stream", "names", multiple=True, metavar="NAME", help="Sync only this stream; may be repeated.")
def sync(pipeline: Path, names: tuple[str, ...]) -> None:
    """Sync the streams of a PIPELINE file into Delta tables, rows and state in one commit.

    A run that was cut, however hard, is resumed by running the same command again.
    """
    # pyspark alone takes longer to import than `spec` may run.
    from cdk.cli.connectors import find_source  # noqa: PLC0415
    from cdk.cli.show_sync import Display  # noqa: PLC0415
    from cdk.spark.pipeline import Pipeline, StreamOptions  # noqa: PLC0415
    from cdk.spark.sync import SyncRunner  # noqa: PLC0415

    settings = Pipeline.load(pipeline)
    if names:
        streams = settings.streams or {}
        settings = settings.model_copy(update={"streams": {n: streams.get(n, StreamOptions()) for n in names}})
    if settings.source.connector is None:
        raise ConfigError("source.manifest: manifests are not read yet; use source.connector", path=str(pipeline))
    connector = settings.source.connector
    # As every path in the file, a connector's is relative to it.
    source = find_source(str(pipeline.parent / connector) if connector.endswith(".py") else connector)
    with Display(settings.name) as display:
        result = SyncRunner(settings, source, watch=display.show).run()
    display.summary(result, Path(settings.target.path))
    if not result.ok:
        sys.exit(1)
