"""`spark-cdk sync PIPELINE.yaml`: read on Spark into Delta tables."""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cdk.base.errors import CdkError
from cdk.base.logs import logger
from cdk.base.masking import Secrets, secret_values
from cdk.cli.config_file import check_config
from cdk.cli.connectors import find_source, manifest_source
from cdk.cli.options import with_egress
from cdk.streams.source import Source

if TYPE_CHECKING:  # importing it at run time would import pyspark for every command
    from cdk.spark.pipeline import SourceOptions
    from cdk.spark.sync import SyncResult


@click.command()
@click.argument("pipeline", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--stream", "names", multiple=True, metavar="NAME", help="Sync only this stream; may be repeated.")
@click.option(
    "--allow-custom-code",
    is_flag=True,
    help="Let Python code that a manifest names run, such as a components.py beside it.",
)
@with_egress
def sync(pipeline: Path, names: tuple[str, ...], *, allow_custom_code: bool) -> None:
    """Sync the streams of a PIPELINE file into Delta tables, rows and state in one commit.

    A run that was cut, however hard, is resumed by running the same command again.
    """
    # pyspark alone takes longer to import than `spec` may run.
    from cdk.cli.show_sync import Display  # noqa: PLC0415
    from cdk.rest.egress import VARIABLE  # noqa: PLC0415
    from cdk.spark.pipeline import Pipeline, StreamOptions  # noqa: PLC0415
    from cdk.spark.sync import SyncRunner  # noqa: PLC0415

    secrets = Secrets()
    settings = Pipeline.load(pipeline, _Given(os.environ, secrets))
    if names:
        streams = settings.streams or {}
        settings = settings.model_copy(update={"streams": {n: streams.get(n, StreamOptions()) for n in names}})
    source = _source(settings.source, pipeline.parent, trusted=allow_custom_code)
    secrets.add(*secret_values(source.config_schema, settings.config))
    config = source.prepare(settings.config)
    settings = settings.model_copy(update={"source": settings.source.model_copy(update={"config": config})})
    if (egress := os.environ.get(VARIABLE)) is not None:
        # The machines of a cluster read, too, and do not inherit this environment.
        conf = {**settings.spark.conf, f"spark.executorEnv.{VARIABLE}": egress}
        settings = settings.model_copy(update={"spark": settings.spark.model_copy(update={"conf": conf})})
    check_config(settings.config, source.config_schema, f"{pipeline} source.config", secrets)
    with Display(settings.name) as display, _logging(secrets):
        try:
            result = SyncRunner(settings, source, watch=display.show).run()
        except CdkError as error:
            # Raised anew, so that no traceback carries the text that was masked here.
            raise click.ClickException(secrets.mask(str(error))) from None
        except KeyboardInterrupt:
            raise click.ClickException("interrupted; what was committed is safe: run the sync again to go on") from None
    display.summary(_masked(result, secrets), Path(settings.target.path))
    if not result.ok:
        sys.exit(1)


def _source(options: "SourceOptions", folder: Path, *, trusted: bool) -> Source:
    """The source that a pipeline names; paths are relative to its folder, as everywhere in the file."""
    if options.manifest is not None:
        return manifest_source(folder / options.manifest, trusted=trusted)
    assert options.connector is not None
    return find_source(str(folder / options.connector) if options.connector.endswith(".py") else options.connector)


def _masked(result: "SyncResult", secrets: Secrets) -> "SyncResult":
    """The result as people may see it: no secret of the config in what went wrong."""
    reports = []
    for report in result.streams:
        failure = report.failure
        if failure is not None:
            failure = replace(failure, message=secrets.mask(failure.message), detail=secrets.mask(failure.detail))
        reports.append(replace(report, failure=failure))
    return replace(result, streams=reports)


class _Given(Mapping[str, str]):
    """The environment; what a pipeline takes from it is a secret, as most of it is."""

    def __init__(self, environ: Mapping[str, str], secrets: Secrets) -> None:
        self._environ, self._secrets = environ, secrets

    def __getitem__(self, name: str) -> str:
        value = self._environ[name]
        self._secrets.add(value)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._environ)

    def __len__(self) -> int:
        return len(self._environ)


class _Said(logging.Handler):
    """Says a line of the log on stderr, without secrets."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__(logging.WARNING)
        self._secrets = secrets

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(self._secrets.mask(record.getMessage()), err=True)


@contextmanager
def _logging(secrets: Secrets) -> Iterator[None]:
    handler = _Said(secrets)
    logger.addHandler(handler)
    # py4j tells of a JVM that is gone in a hundred lines; the sync says it in one.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.removeHandler(handler)
