"""The pipeline file: what `sync` reads, and where it lands."""

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from cdk.base.errors import ConfigError
from cdk.base.values import Json
from cdk.base.yaml_file import YamlFile

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def _duration(value: Json) -> Json:
    if isinstance(value, str) and (found := re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)", value.strip())):
        return timedelta(seconds=float(found[1]) * _UNITS[found[2]])
    if isinstance(value, timedelta):
        return value
    raise ValueError("expected a duration such as 30s, 500ms or 5m")


Duration = Annotated[timedelta, BeforeValidator(_duration)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SourceOptions(_Part):
    """Which connector, and its config: inline, or the path of a JSON or YAML file beside the pipeline's."""

    connector: str | None = None
    manifest: str | None = None
    config: Mapping[str, Json] | str = Field(default_factory=dict)

    @model_validator(mode="after")
    def _exactly_one(self) -> "SourceOptions":
        if (self.connector is None) == (self.manifest is None):
            raise ValueError("expected one of `connector` and `manifest`")
        return self


class StreamOptions(_Part):
    """How one stream is read and written.

    sync_mode: default incremental where the stream has a cursor, else full_refresh.
    write_mode: default append for incremental, overwrite for full_refresh.
    """

    sync_mode: Literal["full_refresh", "incremental"] | None = None
    write_mode: Literal["append", "overwrite"] | None = None
    cursor_field: str | None = None
    primary_key: str | tuple[str, ...] | None = None


class TargetOptions(_Part):
    """Where the tables lie: `<path>/<stream>`, or `<path>/<namespace>/<stream>`."""

    path: str
    format: Literal["delta"] = "delta"


class SparkOptions(_Part):
    """The Spark session. master: default `local[N,4]` with N cores: a task may fail three times."""

    master: str | None = None
    conf: Mapping[str, str | int | float | bool] = Field(default_factory=dict)


class Pipeline(_Part):
    """A pipeline file.

    name: the state hangs on it.
    streams: those to sync, all when absent: a list of names, or a map from name to options.
    checkpoint_interval: the longest work that a crash can cost; 0s commits after every page.
    concurrency: slices read at once, over all machines.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")]
    source: SourceOptions
    target: TargetOptions
    streams: Mapping[str, StreamOptions] | None = None
    checkpoint_interval: Duration = timedelta(seconds=30)
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 4
    spark: SparkOptions = SparkOptions()

    @model_validator(mode="before")
    @classmethod
    def _streams_by_name(cls, value: Json) -> Json:
        if isinstance(value, dict) and isinstance(value.get("streams"), dict):
            return {**value, "streams": {name: options or {} for name, options in value["streams"].items()}}
        if isinstance(value, dict) and isinstance(value.get("streams"), list):
            return {**value, "streams": {str(name): {} for name in value["streams"]}}
        return value

    @classmethod
    def load(cls, path: Path, environ: Mapping[str, str] = os.environ) -> "Pipeline":
        """Read a pipeline file and put in the values of `${VARIABLE}`s.

        Relative paths in it are relative to the file. Raises ConfigError naming every place that is wrong.
        """
        file = YamlFile.load(path)
        if not isinstance(file.value, dict):
            raise ConfigError(f"found {type(file.value).__name__}, expected the settings of a pipeline", path=str(path))
        value = _with_variables(file, file.value, (), environ)
        try:
            pipeline = cls.model_validate(value)
        except ValidationError as error:
            lines = [f"{file.where(problem['loc'])}: {_said(problem)}" for problem in error.errors()]
            raise ConfigError("\n".join(lines)) from None
        return pipeline.model_copy(
            update={
                "target": pipeline.target.model_copy(update={"path": str(path.parent / pipeline.target.path)}),
                "source": pipeline.source.model_copy(update={"config": _config(pipeline, path.parent, environ)}),
            }
        )

    @property
    def config(self) -> Mapping[str, Json]:
        """The connector's config."""
        assert not isinstance(self.source.config, str)
        return self.source.config


def _said(problem: Mapping[str, Json]) -> str:
    """One problem in a line; the value is shown unless it may be a secret of the config."""
    found = "" if "config" in problem["loc"] or problem["type"] == "missing" else f" (found {problem['input']!r})"
    return f"{problem['msg'].removeprefix('Value error, ')}{found}"


def _config(pipeline: Pipeline, folder: Path, environ: Mapping[str, str]) -> Mapping[str, Json]:
    config = pipeline.source.config
    if not isinstance(config, str):
        return config
    path = folder / config
    if path.suffix == ".json":
        try:
            value = orjson.loads(path.read_bytes())
        except (OSError, orjson.JSONDecodeError) as error:
            raise ConfigError(f"cannot be read as JSON: {error}", path=str(path)) from error
    else:
        file = YamlFile.load(path)
        value = _with_variables(file, file.value, (), environ)
    if not isinstance(value, dict):
        raise ConfigError(f"found {type(value).__name__}, expected the connector's config, an object", path=str(path))
    return value


def _with_variables(file: YamlFile, value: Json, keys: tuple[str | int, ...], environ: Mapping[str, str]) -> Json:
    match value:
        case dict():
            return {k: _with_variables(file, v, (*keys, str(k)), environ) for k, v in value.items()}
        case list():
            return [_with_variables(file, v, (*keys, i), environ) for i, v in enumerate(value)]
        case str():
            missing = [name for name in _VARIABLE.findall(value) if name not in environ]
            if missing:
                raise ConfigError(
                    f"the environment variable {missing[0]} is not set; set it, or put the value there",
                    path=file.where(keys),
                )
            return _VARIABLE.sub(lambda found: environ[found[1]], value)
        case _:
            return value
