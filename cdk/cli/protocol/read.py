"""`read`: prints the records and states of a catalog's streams."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import click

from cdk.base.logs import logger
from cdk.base.process.interruption import Interruption
from cdk.base.process.request_lease import RequestLease, leasing
from cdk.base.process.tuning import tuned_for_records
from cdk.base.run import RunScope
from cdk.base.secret_masking import secret_values
from cdk.base.values import JsonSchema
from cdk.cli.command_errors import retries_on_stderr
from cdk.cli.config_file import opened
from cdk.cli.crash_reports import CrashReports, crash_report_option
from cdk.cli.options import (
    FindSource,
    catalog_option,
    config_option,
    debug_option,
    max_duration_option,
    max_requests_option,
    number_option,
    state_option,
    with_egress,
    with_source,
)
from cdk.cli.output import Output
from cdk.cli.protocol.catalog_file import load_catalog, whole_catalog
from cdk.cli.protocol.protocol_command import run_protocol_command
from cdk.cli.protocol.source_events import ProtocolEvents
from cdk.cli.protocol.state_file import load_state
from cdk.cli.simulation import with_cassette, with_simulation
from cdk.engine.executors import Executor, Threads
from cdk.engine.protocol_read import ReadObserver, StreamsFailed, run_read
from cdk.protocol.catalog import ConfiguredAirbyteCatalog
from cdk.state.log.value_check import SecretCheck
from cdk.state.manager import ConnectorStateManager
from cdk.streams.page import ReadPage

W = TypeVar("W")


@click.command()
@with_source
@config_option
@catalog_option
@state_option
@number_option("--concurrency", text="Slices to read concurrently, at most. Default: what the source sets, else 10.")
@number_option("--limit", text="Read at most N records of each stream.")
@max_duration_option
@max_requests_option
@with_cassette
@with_simulation
@with_egress
@crash_report_option
@debug_option
def read(
    find: FindSource,
    *,
    config: Path | None,
    catalog: Path | None,
    state: Path | None,
    concurrency: int | None,
    limit: int | None,
    max_duration: timedelta | None,
    max_requests: int | None,
    crash_folder: Path | None,
    debug: bool,
) -> int:
    """Read the streams of a catalog, resuming from a state, and print their records and states."""

    def answer(output: Output) -> None:
        crashes = CrashReports(crash_folder, output.secrets)
        with crashes.writing():
            run(output, crashes)

    def run(output: Output, crashes: CrashReports) -> None:
        source, settings = opened(find, config, output.secrets, ProtocolEvents(output, config))
        crashes.name, crashes.config = source.name or type(source).__name__, dict(settings)
        configured = None if catalog is None else load_catalog(catalog)
        if configured is not None:
            source.select(_selected(configured))
        streams = source.open(settings)
        names = source.stream_names or {stream.name for stream in streams}
        configured = configured or whole_catalog(streams)
        manager = ConnectorStateManager(load_state(state, names))
        with _observing(output) as observer, tuned_for_records(), _reporting(crashes):
            run_read(
                streams,
                configured,
                manager,
                output.write,
                execute=_noting(Threads(concurrency or source.concurrency(settings))),
                mask=output.secrets.mask,
                leaks=SecretCheck(secret_values(source.config_schema, settings)),
                observer=observer,
                limit=limit,
            )

    limited = RunScope(shared={Interruption: Interruption(max_duration)}).working()
    with limited, leasing(RequestLease(max_requests)):
        return run_protocol_command(answer, debug=debug)


@contextmanager
def _reporting(crashes: CrashReports) -> Iterator[None]:
    """Write the crash reports of the streams that fail in the block."""
    try:
        yield
    except StreamsFailed as failed:
        for descriptor, error in failed.failures.items():
            crashes.write(str(descriptor), error)
        raise


def _noting(execute: Threads) -> Executor:
    """Wrap the executor to log after each stream how many slices it now reads at once, and how often that was reduced.

    Logs nothing if slices are read one at a time and the number was never reduced.
    """

    def noting(
        work: Iterator[W], read: Callable[[W], Iterator[ReadPage]], /, most: int | None = None
    ) -> Iterator[tuple[W, ReadPage]]:
        yield from execute(work, read, most)
        learned = execute.learned
        if learned.level > 1 or learned.complaints:
            text = "slices read concurrently: %d of at most %d; reduced by responses of the source: %d times"
            logger.info(text, learned.level, execute.ceiling, learned.complaints)

    return noting


def _selected(catalog: ConfiguredAirbyteCatalog) -> dict[str, frozenset[str] | None]:
    """The properties that a catalog selects, by stream; None for a stream whose schema has no properties."""
    return {item.stream.name: _properties(item.stream.json_schema) for item in catalog.streams}


def _properties(schema: JsonSchema) -> frozenset[str] | None:
    properties = schema.get("properties")
    return frozenset(properties) if isinstance(properties, dict) and properties else None


@contextmanager
def _observing(output: Output) -> Iterator[ReadObserver]:
    """Show the progress of the read if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield ReadObserver()
        return
    from cdk.cli.progress import Progress  # noqa: PLC0415 - rich is only worth its import on a terminal

    with Progress(output.secrets.mask) as progress, retries_on_stderr(output.secrets, progress.show_line):
        yield progress
