"""`--cassette` and `--simulate`: options of commands that answer a connector's requests in this process."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar, cast

import click

from cdk import testing
from cdk.base.errors import CdkError, ConfigError
from cdk.base.secret_masking import Secrets
from cdk.base.values import JsonValue
from cdk.cli.config_file import read_config
from cdk.cli.options import file_option, given_source, missing_connector, temporary_config
from cdk.streams.source import Source

P = ParamSpec("P")
R = TypeVar("R")

_GENERATED = "generated records"
_HELP = "Answer requests with generated records; send none. WORLD: such as `records=100,seed=1,round=1,faults`."
_REPLACED = "cdk.cli.simulation"
"""The key in the command's context of the values that replace parts of its pipeline file."""
_SIMULATED = "cdk.cli.simulation.simulated"
"""The key in the command's context that says that records are generated."""


class FindPipelineSource(Protocol):
    """Loads the source of a pipeline file, and the known part of its config."""

    def __call__(self, path: Path, secrets: Secrets, *, trusted: bool) -> tuple[Source, Mapping[str, JsonValue]]:
        """Return the source, and its config without values that are not set. Raises CdkErrors: one is invalid."""


def with_cassette(command: Callable[P, R]) -> Callable[P, R]:
    """Decorate `command` to answer its requests from `--cassette`, with the clock at the time of the recording."""

    @file_option("--cassette", "Answer requests from a recording of `spark-cdk record`; send none.")
    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        path = kwargs.pop("cassette", None)
        if not isinstance(path, Path):
            return command(*args, **kwargs)
        if kwargs.get("simulate") is not None:
            raise click.UsageError("'--cassette' and '--simulate' exclude each other: pass one of them")
        try:
            cassette = testing.Cassette(path)
        except ConfigError as error:
            raise click.UsageError(str(error)) from error
        with cassette.playing(), temporary_config(cassette.config) as config:
            if kwargs.get("pipeline") is not None:
                kwargs.update(_elsewhere(kwargs, None, "the records of the cassette"))
            elif kwargs.get("config", config) is None:
                # The recording's config, which is complete except for the secrets.
                kwargs["config"] = config
            return command(*args, **kwargs)

    return run


def with_simulation(command: Callable[P, R], of_pipeline: FindPipelineSource | None = None) -> Callable[P, R]:
    """Decorate `command` to answer its requests from a simulator of its connector, which also completes the config.

    of_pipeline: for a command that takes a pipeline file.
    """

    @click.option("--simulate", is_flag=False, flag_value="", metavar="WORLD", help=_HELP)
    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        text = kwargs.pop("simulate", None)
        if not isinstance(text, str):
            return command(*args, **kwargs)
        secrets = Secrets()
        try:
            simulator = _simulator(text, args, kwargs, secrets, of_pipeline)
        except CdkError as error:
            raise click.ClickException(secrets.mask(str(error))) from error
        for name, why in simulator.missing.items():
            click.echo(f"{name} is not simulated: {why}", err=True)
        click.get_current_context().meta[_SIMULATED] = True
        with simulator.playing(), temporary_config(simulator.config) as config:
            if kwargs.get("pipeline") is None:
                kwargs["config"] = config
            else:
                kwargs.update(_elsewhere(kwargs, simulator.config, _GENERATED))
            return command(*args, **kwargs)

    return run


def replaced_parts() -> tuple[Mapping[str, JsonValue] | None, str] | None:
    """The config and the target that replace those of the pipeline file if requests are answered in this process.

    Returns None if nothing is replaced. A config of None is that of the file.
    """
    return click.get_current_context().meta.get(_REPLACED)


def is_simulated() -> bool:
    """Whether the records that this command reads are generated."""
    return _SIMULATED in click.get_current_context().meta


def _elsewhere(
    options: Mapping[str, object], config: Mapping[str, JsonValue] | None, records: str
) -> Mapping[str, object]:
    """Return changes to a command's options so that tables and states of its pipeline file go to `--target`.

    config: see `replaced_parts`. records: names the records in the error. Raises UsageError: `--target` is missing.
    """
    click.get_current_context().meta[_REPLACED] = config, _target(options, records)
    return {"target": None}


def _target(options: Mapping[str, object], records: str) -> str:
    if options.get("target") is None:
        why = f"Missing option '--target': where do the tables go? Those of {options['pipeline']} would get {records}"
        raise click.UsageError(why)
    return str(options["target"])


def _simulator(
    text: str,
    args: Sequence[object],
    options: Mapping[str, object],
    secrets: Secrets,
    of_pipeline: FindPipelineSource | None,
) -> "testing.Simulator":
    """Make the simulator of the command's connector. Raises CdkErrors, and UsageError: no connector is named."""
    world, trusted = testing.World.parse(text), bool(options.get("allow_custom_code"))
    pipeline, find = cast("Path | None", options.get("pipeline")), args[0] if args else None
    if pipeline is not None and of_pipeline is not None:
        _target(options, _GENERATED)
        source, config = of_pipeline(pipeline, secrets, trusted=trusted)
        return testing.Simulator(source, config, world)
    if not callable(find):
        connector, manifest = options.get("connector"), options.get("manifest_path")
        find = given_source(cast("str | None", connector), cast("Path | None", manifest), trusted=trusted)
    if find is None:
        raise click.UsageError(missing_connector())
    return testing.Simulator(find(), read_config(cast("Path | None", options.get("config")), secrets), world)
