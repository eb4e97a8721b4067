"""The options of `spark.read.format("cdk")`: the connector, its stream and config, and how to read."""

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
from cdk.base.times.duration_field import DurationField
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
        raise BadState("option state", sorted(state), "what a state message holds in `stream_state`")
    return state


def _names(message: Mapping[str, FieldValue]) -> set[str]:
    """Return the keys of a message and of the messages that it wraps."""
    inner = [_names(message[key]) for key in ("state", "stream") if isinstance(message.get(key), Mapping)]
    return set(message).union(*inner)


def _columns(text: str) -> list[str]:
    return re.findall(r"[^,\s]+", text)


_Path = Annotated[Path, AfterValidator(_in_folder)]
_Count = Annotated[int, Field(ge=1)]


class DataSourceOptions(BaseModel):
    """The options of one read, checked without importing or opening anything."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    connector: Annotated[str, AfterValidator(_connector)] | None = None
    manifest: _Path | None = None
    """The manifest, instead of a connector."""
    allow_custom_code: bool = False
    stream: str
    config: str | None = Field(None, repr=False)
    """The config as JSON; Spark shows it in the plan of a streaming query."""
    secret_config: str | None = Field(None, repr=False)
    """The same; Spark hides options whose name contains `secret` by itself."""
    config_file: _Path | None = None
    target: Annotated[str, AfterValidator(_target)] | None = None
    """The folder or address where single-use refresh tokens are stored."""
    state: Annotated[FieldValue, BeforeValidator(_state)] = Field(None, repr=False)
    """The stream's wire state to start from."""
    concurrency: _Count | None = None
    """Maximum number of slices read at once; None: as the source says."""
    push_down: bool = False
    """Whether the filters of the query, the only one on the DataFrame, save requests."""
    partition_columns: Annotated[tuple[str, ...], BeforeValidator(_columns)] = ()
    """Columns in which every record has the value of its partition, for push_down."""
    lag: DurationField = timedelta(minutes=1)
    """How far a streaming read stays behind the present."""
    slices_per_batch: _Count | None = None
    """Maximum number of slices in a batch of a streaming read; None: no limit."""

    @classmethod
    def of(cls, raw: Mapping[str, str], folder: Path) -> Self:
        """Parse options as Spark passes them: all strings, names in any case. folder: the base of relative paths.

        Raises ConfigError: when options are unknown (with the nearest spelling), missing, invalid, contradict each
        other, or need a newer Spark. StateError: when the state is a state message.
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
            raise ConfigError("option partition_columns: has an effect only with push_down; set push_down to true")
        return self

    def read_config(self) -> tuple[Mapping[str, FieldValue], str]:
        """Return the config, reading a file anew, and its name for errors, which show only locations, no values.

        Raises ConfigError: when it cannot be read, or is not an object.
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
