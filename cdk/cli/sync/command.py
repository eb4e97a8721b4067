"""`spark-cdk sync`: syncs the streams of a pipeline file, or of options, into Delta tables on Spark."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import click
from msgspec.structs import replace

from cdk.base.documents import locating
from cdk.base.process.printed_lines import prints_on_stderr
from cdk.base.secret_masking import Secrets
from cdk.cli.command_errors import warnings_on_stderr
from cdk.cli.crash_reports import CrashReports, crash_report_option
from cdk.cli.options import (
    FILE,
    catalog_option,
    config_option,
    connector_option,
    custom_code_option,
    manifest_option,
    max_duration_option,
    max_requests_option,
    number_option,
    pipeline_path,
    with_egress,
)
from cdk.cli.pipeline_from_file import config_file, file_pipeline, known_source
from cdk.cli.simulation import replaced_parts, with_cassette, with_simulation
from cdk.cli.sync.display import Display
from cdk.cli.sync.json_log import JsonLog, RunNames, logging_json
from cdk.cli.sync.pipeline_from_options import GivenOptions, check_given, given_pipeline
from cdk.cli.sync.plan import show_previews
from cdk.cli.sync.report import SyncReport
from cdk.cli.sync.signals import exit_code, listening
from cdk.rest.http.egress import VARIABLE
from cdk.sources.config_file import ConfigEvents
from cdk.spark.sync_runner import SyncRunner
from cdk.streams.source import Source
from cdk.sync.reports.run_report import SyncResult
from cdk.sync.settings.pipeline_file import Pipeline, SparkOptions, StreamOptions


@click.command()
@pipeline_path(required=False)
@connector_option
@manifest_option
@config_option
@catalog_option
@click.option(
    "--target",
    metavar="PATH",
    help="Without a PIPELINE, or with --simulate or --cassette: a folder for the tables, or an address.",
)
@click.option(
    "--name", metavar="NAME", help="Name that the state is stored under, without a PIPELINE. Default: the connector's."
)
@click.option("--allow-empty", is_flag=True, help="Without a PIPELINE: an overwrite may leave a table without rows.")
@click.option("--stream", "names", multiple=True, metavar="NAME", help="Sync only this stream; may be repeated.")
@custom_code_option
@click.option(
    "--report", type=FILE, metavar="FILE", help="Write a report of the run to FILE, as JSON, however it ends."
)
@click.option(
    "--metrics", type=FILE, metavar="FILE", help="Write metrics of the run to FILE, for Prometheus, however it ends."
)
@crash_report_option
@click.option("--dry-run", "dry", is_flag=True, help="Show what would be read; read and write nothing.")
@number_option("--preview", text="Show what would be read, with the first N records of each stream; write nothing.")
@click.option("--force-rerun", "force", is_flag=True, help="Read also what skip_redundant_runs would skip.")
@max_duration_option
@max_requests_option
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Format of the log: text, or JSON lines without a summary.",
)
@click.option("--no-progress", is_flag=True, help="Show nothing while it runs; the summary is still printed.")
@click.option("-q", "--quiet", is_flag=True, help="Print only warnings and errors.")
@with_cassette
@partial(with_simulation, of_pipeline=known_source)
@with_egress
def sync(
    pipeline: Path | None,
    names: tuple[str, ...],
    *,
    connector: str | None,
    manifest_path: Path | None,
    config: Path | None,
    catalog: Path | None,
    target: str | None,
    name: str | None,
    allow_empty: bool,
    allow_custom_code: bool,
    report: Path | None,
    metrics: Path | None,
    crash_folder: Path | None,
    dry: bool,
    preview: int | None,
    force: bool,
    max_duration: timedelta | None,
    max_requests: int | None,
    log_format: str,
    no_progress: bool,
    quiet: bool,
) -> int:
    """Sync the streams of a PIPELINE file into Delta tables, rows and state in one commit.

    A run that was interrupted, even by a crash, is resumed by running the same command again. Without a file, options
    set what is read, as those of `read` do, and `--target` where the tables are.
    """
    options, secrets = GivenOptions(connector, manifest_path, config, catalog, target, name, allow_empty), Secrets()
    check_given(pipeline, options)
    log = JsonLog(secrets, level=logging.WARNING if quiet else logging.INFO) if log_format == "json" else None
    into = warnings_on_stderr(secrets) if log is None else logging_json(log)
    crashes, sync_report = CrashReports(crash_folder, secrets), SyncReport(report, secrets, metrics=metrics)
    with into, listening(secrets) as signals, sync_report, crashes.writing(), locating(pipeline):
        events = ConfigEvents(secrets, config if pipeline is None or replaced_parts() else config_file(pipeline))
        # A config that migrations bring up to date is saved, but not in runs that must not write anything.
        prepares = None if dry or preview is not None else events
        with prints_on_stderr(secrets) if log is None else log.prints():
            settings, source = _opened(pipeline, options, secrets, trusted=allow_custom_code, events=prepares)
        source.events = events
        crashes.name, crashes.config = settings.name, dict(settings.config)
        settings = _played_here(_with_egress(_chosen(settings, names)))
        settings = _forced(settings) if force else settings
        limits = {"max_duration": max_duration, "max_requests": max_requests}
        settings = settings.model_copy(update={name: limit for name, limit in limits.items() if limit is not None})
        if dry or preview is not None or settings.state.ignore_new_state:
            sync_report.runner = SyncRunner(settings, source, learn=secrets.add)
            return show_previews(sync_report.runner.preview(preview or 0), secrets.mask, sync_report.runner.notes())
        with Display(settings.name, shown=not (quiet or no_progress), log=log) as display, _without_py4j():
            sync_report.runner = runner = _runner(settings, source, secrets, display=display, crashes=crashes, log=log)
            signals.interrupt, signals.display = runner.interrupt, display
            with prints_on_stderr(secrets) if log is None else log.prints():
                result = runner.run()
    if not quiet:
        display.summary(_masked(result, secrets), settings.target.path)
    return exit_code(result, signals.caught)


def _opened(
    pipeline: Path | None, options: GivenOptions, secrets: Secrets, *, trusted: bool, events: ConfigEvents | None
) -> tuple[Pipeline, Source]:
    """Load the pipeline and its source from the file or from options. Raises ConfigError."""
    if pipeline is not None:
        return file_pipeline(pipeline, secrets, trusted=trusted, events=events, replaced=replaced_parts())
    return given_pipeline(options, secrets, trusted=trusted, events=events)


def _runner(
    settings: Pipeline,
    source: Source,
    secrets: Secrets,
    *,
    display: Display,
    crashes: CrashReports,
    log: JsonLog | None,
) -> SyncRunner:
    """Make the runner of the sync, and connect it to the display, the crash reports and the log."""
    runner = SyncRunner(
        settings, source, watch=display.show, mask=secrets.mask, learn=secrets.add, crash_secrets=crashes.secrets
    )
    display.doing = runner.doing
    crashes.facts, crashes.crashes = lambda: {"sync": runner.sync}, lambda: _crashes(runner.result)
    if log is not None:
        log.pipeline, log.names = settings.name, lambda: RunNames(runner.sync, runner.stream_names)
    return runner


def _played_here(settings: Pipeline) -> Pipeline:
    """Disable Spark if a cassette or a simulation answers the requests, which they can only do in this process."""
    params = click.get_current_context().params
    if params["cassette"] is None and params["simulate"] is None:
        return settings
    return settings.model_copy(update={"spark": SparkOptions(start="never")})


def _chosen(settings: Pipeline, names: tuple[str, ...]) -> Pipeline:
    """Restrict the pipeline to the streams in `names`, if there are any names."""
    streams = settings.streams or {}
    chosen = {name: streams.get(name, StreamOptions()) for name in names}
    return settings.model_copy(update={"streams": chosen}) if names else settings


def _with_egress(settings: Pipeline) -> Pipeline:
    """Pass the value of `--egress` to the machines of a cluster, which do not inherit the environment."""
    if (egress := os.environ.get(VARIABLE)) is None:
        return settings
    conf = {**settings.spark.conf, f"spark.executorEnv.{VARIABLE}": egress}
    return settings.model_copy(update={"spark": settings.spark.model_copy(update={"conf": conf})})


def _forced(settings: Pipeline) -> Pipeline:
    """Return `settings` in which windows that were read before are read again."""
    skip = settings.skip_redundant_runs
    if skip is None:
        return settings
    return settings.model_copy(update={"skip_redundant_runs": skip.model_copy(update={"force_rerun": True})})


def _crashes(result: SyncResult) -> Mapping[str, str]:
    return {report.name: report.failure.crash for report in result.streams if report.failure is not None}


def _masked(result: SyncResult, secrets: Secrets) -> SyncResult:
    """Mask the secrets in the errors of the result, for display."""
    reports = []
    for report in result.streams:
        failure = report.failure
        if failure is not None:
            failure = replace(failure, message=secrets.mask(failure.message), detail=secrets.mask(failure.detail))
        reports.append(replace(report, failure=failure))
    return replace(result, streams=reports)


@contextmanager
def _without_py4j() -> Iterator[None]:
    # py4j logs a hundred lines about a JVM that has ended; the sync reports it in one.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    # It also logs Ctrl-C, and that through the root logger.
    root = logging.getLogger()
    root.addFilter(_not_py4j)
    try:
        yield
    finally:
        root.removeFilter(_not_py4j)


def _not_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts
