"""What the options of `spark.read.format("cdk")` say: which stream, which config, from where."""

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from cdk.base.documents import parse_json, read_document
from cdk.base.errors import BadState, ConfigError
from cdk.base.times.durations import Duration
from cdk.base.validation_messages import refusals
from cdk.base.values import FieldValue, json_kind
from cdk.spark.cluster.spark_versions import Ability, require


def _in_folder(path: Path, info: ValidationInfo) -> Path:
    assert isinstance(info.context, Path)
    return info.context / path.expanduser()


def _connector(text: str, info: ValidationInfo) -> str:
    return str(_in_folder(Path(text), info)) if text.endswith(".py") else text


def _target(text: str, info: ValidationInfo) -> str:
    return text if "://" in text else str(_in_folder(Path(text), info))


def _state(text: str) -> FieldValue:
    state = parse_json(text.encode(), "option state")
    if isinstance(state, Mapping) and ({"stream_state", "stream_descriptor"} & _names(state)):
        raise BadState("option state", state, "what a state message holds in `stream_state`")
    return state


def _names(message: Mapping[str, FieldValue]) -> set[str]:
    """The keys of a message and of what it wraps."""
    inner = [_names(message[key]) for key in ("state", "stream") if isinstance(message.get(key), Mapping)]
    return set(message).union(*inner)


def _columns(text: str) -> list[str]:
    return re.findall(r"[^,\s]+", text)


_Path = Annotated[Path, AfterValidator(_in_folder)]
_Count = Annotated[int, Field(ge=1)]


class DataSourceOptions(BaseModel):
    """The options of one read, checked by themselves; nothing is imported or opened yet."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    connector: Annotated[str, AfterValidator(_connector)] | None = None
    manifest: _Path | None = None
    """The manifest, where there is no connector."""
    allow_custom_code: bool = False
    stream: str
    config: str | None = Field(None, repr=False)
    """The config as JSON; Spark shows it in the plan of a streaming query."""
    secret_config: str | None = Field(None, repr=False)
    """The same; Spark hides an option whose name has `secret` in it, without being told to."""
    config_file: _Path | None = None
    target: Annotated[str, AfterValidator(_target)] | None = None
    """Where refresh tokens that work once are kept, a folder or an address."""
    state: Annotated[FieldValue, BeforeValidator(_state)] = Field(None, repr=False)
    """The stream's wire state to start from."""
    concurrency: _Count | None = None
    """Slices read at once, at most; None: what the source says."""
    push_down: bool = False
    """Whether the filters of the one query save requests."""
    partition_columns: Annotated[tuple[str, ...], BeforeValidator(_columns)] = ()
    """Columns of which every record holds the value that its partition has, for push_down."""
    lag: Duration = timedelta(minutes=1)
    """How far a streaming read stays behind the present."""
    slices_per_batch: _Count | None = None
    """The most that a batch of a streaming read takes; None for all there are."""

    @classmethod
    def of(cls, raw: Mapping[str, str], folder: Path) -> Self:
        """Read options as Spark hands them over: all texts, names in any case. folder: what paths are relative to.

        Raises ConfigError: options are unknown (with the nearest spelling), missing, hold something else, do not fit
        together, or need a newer Spark. StateError: the state is a message.
        """
        options = {name.lower(): value for name, value in raw.items()}
        try:
            return cls.model_validate(options, context=folder)
        except ValidationError as error:
            problems = refusals(error, options, known=lambda _: cls.model_fields)
            raise ConfigError("\n".join(f"option {keys[0]}: {text}" for keys, text in problems)) from None

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if (self.connector is None) == (self.manifest is None):
            raise ConfigError("found both or neither of the options connector and manifest, expected one of them")
        if len(configs := sorted({"config", "secret_config", "config_file"} & self.model_fields_set)) > 1:
            raise ConfigError(f"found the options {' and '.join(configs)}, expected at most one of them")
        if self.push_down:
            require(Ability.PUSH_DOWN)
        elif self.partition_columns:
            raise ConfigError("option partition_columns: is of use with push_down only; set push_down to true as well")
        return self

    def read_config(self) -> tuple[Mapping[str, FieldValue], str]:
        """The config, a file as it is now, and what to call it in errors, which show only where they are.

        Raises ConfigError: it cannot be read, or is no object.
        """
        if self.config_file is not None:
            where, value = str(self.config_file), read_document(self.config_file)
        elif (text := self.secret_config if self.config is None else self.config) is not None:
            where = "option secret_config" if self.config is None else "option config"
            value = parse_json(text.encode(), where)
        else:
            return {}, "no option config, secret_config or config_file was given"
        if not isinstance(value, dict):
            raise ConfigError(f"found {json_kind(value)}, expected an object", path=where)
        return value, where
