"""The options and arguments that commands share."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from functools import partial, wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar

import click

from cdk import sources
from cdk.base.errors import ConfigError
from cdk.base.times.durations import duration
from cdk.base.values import JsonValue, canonical
from cdk.rest.http.egress import Egress, limited
from cdk.rest.http.own_connections import limiting
from cdk.sources.discovery import find_source
from cdk.streams.source import Source

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., object])

FindSource: TypeAlias = Callable[[], Source]
"""Returns the source of a command, or raises ConfigError. Commands call it once they turn errors into messages."""


FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


class _ConnectorOption(click.Option):
    """An option that is hidden in the program of a single connector."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        return super().get_help_record(ctx) if ctx.obj is None else None


def file_option(
    name: str, text: str, *, required: bool = False, cls: type[click.Option] = click.Option
) -> Callable[[F], F]:
    """An option that takes the path of a file."""
    return click.option(name, type=click.Path(path_type=Path), required=required, metavar="FILE", cls=cls, help=text)


def missing_connector() -> str:
    """The error of a command without a connector; hints at a `manifest.yaml` in the working directory."""
    hint = " There is manifest.yaml here: --manifest-path manifest.yaml" if Path("manifest.yaml").exists() else ""
    return f"Missing option '--connector' or '--manifest-path': which connector?{hint}"


def number_option(*names: str, text: str, default: int | None = None, least: int = 1) -> Callable[[F], F]:
    """An option that takes a number of `least` or more."""
    kind, shown = click.IntRange(min=least), default is not None
    return click.option(*names, type=kind, default=default, show_default=shown, metavar="N", help=text)


connector_option = click.option(
    "--connector",
    metavar="NAME",
    cls=_ConnectorOption,
    help="Name of a connector, dotted name of a module, or path of a .py file.",
)
manifest_option = file_option("--manifest-path", "A low-code connector: a YAML manifest.", cls=_ConnectorOption)
custom_code_option = click.option(
    "--allow-custom-code",
    is_flag=True,
    cls=_ConnectorOption,
    help="Allow Python code that the manifest names, such as a components.py beside it, to run.",
)


any_code_option = click.option(
    "--allow-custom-code", is_flag=True, help="Allow connectors in Python, and Python code that manifests name, to run."
)


def with_source(command: Callable[Concatenate[FindSource, P], int]) -> Callable[P, int]:
    """Decorate `command` to get its source as first argument: that of `launch`, or the one that the options name."""

    @connector_option
    @manifest_option
    @custom_code_option
    @file_option(
        "--components-path", "The components.py of a manifest, if it is in another place.", cls=_ConnectorOption
    )
    @click.pass_context
    @wraps(command)
    def run(ctx: click.Context, /, *args: P.args, **kwargs: P.kwargs) -> int:
        connector, manifest = _taken(kwargs, "connector", str), _taken(kwargs, "manifest_path", Path)
        trusted, code = _taken(kwargs, "allow_custom_code", bool), _taken(kwargs, "components_path", Path)
        if (fixed := ctx.obj) is not None:
            return command(lambda: fixed, *args, **kwargs)
        find = given_source(connector, manifest, trusted=bool(trusted), components=code)
        if find is None:
            raise click.UsageError(missing_connector(), ctx)
        return command(find, *args, **kwargs)

    return run


def _taken(options: dict[str, object], name: str, kind: type[R]) -> R | None:
    """Remove an option from those that the command gets, and return its value; None if it was not passed."""
    value = options.pop(name, None)
    return value if isinstance(value, kind) else None


def check_one_connector(connector: str | None, manifest: Path | None) -> None:
    """Raise UsageError if both options are passed."""
    if connector is not None and manifest is not None:
        raise click.UsageError("'--connector' and '--manifest-path' exclude each other: pass one of them")


def given_source(
    connector: str | None, manifest: Path | None, *, trusted: bool, components: Path | None = None
) -> FindSource | None:
    """Return a picklable function that finds the connector that the options name; None if they name no connector.

    Raises UsageError: they name two.
    """
    check_one_connector(connector, manifest)
    if manifest is not None:
        return partial(sources.manifest_source, manifest, trusted=trusted, components=components)
    return None if connector is None else partial(find_source, connector)


def with_egress(command: Callable[P, R]) -> Callable[P, R]:
    """Restrict `command` to the destinations of `--egress`: its requests, and connections that its connector opens."""

    @click.option(
        "--egress", metavar="LIST", help="Where requests may go: `public`, hosts, or both. Default: anywhere."
    )
    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        text = _taken(kwargs, "egress", str)
        try:
            egress = None if text is None else Egress.parse(text)
        except ConfigError as error:
            raise click.UsageError(str(error)) from error
        with nullcontext() if egress is None else limited(egress), limiting():
            return command(*args, **kwargs)

    return run


@contextmanager
def temporary_config(config: Mapping[str, JsonValue]) -> Iterator[Path]:
    """Write a config to a temporary file, which exists inside the block."""
    from tempfile import NamedTemporaryFile  # noqa: PLC0415 - slow to import, and only needed here

    with NamedTemporaryFile("w", suffix=".json") as file:
        file.write(canonical(dict(config)))
        file.flush()
        yield Path(file.name)


def pipeline_path(*, required: bool = True) -> Callable[[F], F]:
    """The argument with the path of a pipeline file."""
    return click.argument("pipeline", type=FILE, required=required)


def parse_duration(ctx: click.Context, param: click.Parameter, value: str | None) -> timedelta | None:  # noqa: ARG001
    """Parse the value of an option as a duration, as in files. Raises BadParameter: it is not a duration."""
    try:
        return None if value is None else duration(value)
    except ValueError as error:
        raise click.BadParameter(f"found {value!r}, {error}") from error


def duration_option(name: str, text: str) -> Callable[[F], F]:
    """An option that takes a duration, such as 10m."""
    return click.option(name, metavar="DURATION", callback=parse_duration, help=text)


max_duration_option = duration_option(
    "--max-duration", "Read for at most this long, such as 10m; the next run resumes there."
)
max_requests_option = number_option("--max-requests", text="Send at most N requests; the next run resumes there.")
config_option = file_option("--config", "The connector's config, JSON or YAML. Default: an empty one.")
catalog_option = file_option("--catalog", "The streams to read, as JSON. Default: all.")
state_option = file_option("--state", "The state of an earlier read, or that read's whole output.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
debug_option = click.option("--debug", is_flag=True, help="Log more details.")
