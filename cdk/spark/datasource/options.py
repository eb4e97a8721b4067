"""What the options of `spark.read.format("cdk")` say: which stream, which config, from where."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter, ValidationError

from cdk.base.documents import parse_json, read_document
from cdk.base.errors import BadState, ConfigError
from cdk.base.times.durations import Duration
from cdk.base.values import FieldValue, json_kind
from cdk.base.wording import did_you_mean
from cdk.spark.cluster.spark_versions import Ability, require

_BOOLEANS = {"true": True, "false": False}
_LAG = timedelta(minutes=1)


@dataclass(frozen=True)
class DataSourceOptions:
    """The options of one read, checked by themselves; nothing is imported or opened yet."""

    folder: Path
    stream: str
    connector: str | None = None
    """The connector; a path is relative to `folder`."""
    manifest: Path | None = None
    """The manifest, where there is no connector."""
    allow_custom_code: bool = False
    config: Mapping[str, FieldValue] = field(default_factory=dict, repr=False)
    """A config that was given as text or file."""
    config_file: Path | None = None
    """Where the config comes from, if it is a file."""
    target: str | None = None
    """Where refresh tokens that work once are kept, a folder or an address."""
    config_from: str = "no option config, secret_config or config_file was given"
    shown: bool = False
    """Whether Spark shows the config in the plan of a streaming query."""
    state: FieldValue = field(default=None, repr=False)
    """The stream's wire state to start from."""
    concurrency: int | None = None
    """Slices read at once, at most; None: what the source says."""
    push_down: bool = False
    """Whether the filters of the one query save requests."""
    partition_columns: tuple[str, ...] = ()
    """Columns of which every record holds the value that its partition has, for push_down."""
    lag: timedelta = _LAG
    """How far a streaming read stays behind the present."""
    slices_per_batch: int | None = None
    """The most that a batch of a streaming read takes; None for all there are."""

    @classmethod
    def of(cls, raw: Mapping[str, str], folder: Path) -> Self:
        """Read options as Spark hands them over: all texts, names in any case.

        Raises ConfigError: an option is unknown (with the nearest spelling), missing, holds something else, or needs
        a newer Spark.
        """
        options = {name.lower(): value for name, value in raw.items()}
        for name in options:
            if name not in OPTIONS:
                raise ConfigError(f"option {name}: is unknown{did_you_mean(name, OPTIONS)}")
        if ("connector" in options) == ("manifest" in options):
            raise ConfigError("found both or neither of the options connector and manifest, expected one of them")
        if "stream" not in options:
            raise ConfigError('option stream: is missing; say .option("stream", NAME)')
        if len(configs := [name for name in _CONFIGS if name in options]) > 1:
            raise ConfigError(f"found the options {' and '.join(configs)}, expected at most one of them")
        if push_down := _boolean("push_down", options):
            require(Ability.PUSH_DOWN)
        if "partition_columns" in options and not push_down:
            raise ConfigError("option partition_columns: is of use with push_down only; set push_down to true as well")
        config, config_from = _config(options, folder)
        connector = options.get("connector")
        if connector is not None and connector.endswith(".py"):
            connector = str(folder / Path(connector).expanduser())
        most, concurrency = options.get("slices_per_batch"), options.get("concurrency")
        return cls(
            folder=folder,
            stream=options["stream"],
            connector=connector,
            manifest=folder / Path(options["manifest"]).expanduser() if "manifest" in options else None,
            allow_custom_code=_boolean("allow_custom_code", options),
            config=config,
            config_from=config_from,
            config_file=folder / Path(options["config_file"]).expanduser() if "config_file" in options else None,
            target=_target(options.get("target"), folder),
            shown="config" in options,
            state=_state(options.get("state")),
            concurrency=None if concurrency is None else _positive_integer("concurrency", concurrency),
            push_down=push_down,
            partition_columns=tuple(re.findall(r"[^,\s]+", options.get("partition_columns", ""))),
            lag=_duration(options["lag"]) if "lag" in options else _LAG,
            slices_per_batch=None if most is None else _positive_integer("slices_per_batch", most),
        )


# Spark hides an option whose name has `secret` in it, without being told to.
_CONFIGS = ("config", "secret_config", "config_file")

# fmt: off
OPTIONS = (
    "connector", "manifest", "allow_custom_code", "stream",
    *_CONFIGS,
    "target", "state", "concurrency", "push_down", "partition_columns", "lag", "slices_per_batch",
)
# fmt: on
"""Every option there is."""


def _config(options: Mapping[str, str], folder: Path) -> tuple[Mapping[str, FieldValue], str]:
    """The config and what to call it in errors. What it holds may be secret, so errors show only where they are."""
    if name := next((name for name in ("config", "secret_config") if name in options), None):
        where, value = f"option {name}", parse_json(options[name].encode(), f"option {name}")
    elif "config_file" in options:
        path = folder / Path(options["config_file"]).expanduser()
        where, value = str(path), read_document(path)
    else:
        return {}, DataSourceOptions.config_from
    if not isinstance(value, dict):
        raise ConfigError(f"found {json_kind(value)}, expected an object", path=where)
    return value, where


def _target(text: str | None, folder: Path) -> str | None:
    return text if text is None or "://" in text else str(folder / Path(text).expanduser())


def _state(text: str | None) -> FieldValue:
    if text is None:
        return None
    state = parse_json(text.encode(), "option state")
    if isinstance(state, Mapping) and ({"stream_state", "stream_descriptor"} & _names(state)):
        raise BadState("option state", state, "what a state message holds in `stream_state`")
    return state


def _names(message: Mapping[str, FieldValue]) -> set[str]:
    """The keys of a message and of what it wraps."""
    inner = [_names(message[key]) for key in ("state", "stream") if isinstance(message.get(key), Mapping)]
    return set(message).union(*inner)


def _boolean(name: str, options: Mapping[str, str]) -> bool:
    text = options.get(name, "false")
    if (truth := _BOOLEANS.get(text.lower())) is None:
        raise ConfigError(f"option {name}: found {text!r}, expected true or false")
    return truth


def _positive_integer(name: str, text: str) -> int:
    if not text.isdecimal() or not (number := int(text)):
        raise ConfigError(f"option {name}: found {text!r}, expected a whole number of at least 1")
    return number


def _duration(text: str) -> timedelta:
    try:
        duration: timedelta = TypeAdapter(Duration).validate_python(text)
    except ValidationError:
        raise ConfigError(
            f"option lag: found {text!r}, expected a duration such as 500ms, 30s, 90m, 6h or 2d"
        ) from None
    return duration
