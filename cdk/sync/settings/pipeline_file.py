"""The pipeline file: what `sync` reads, how, and where the tables are."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from cdk.base.documents import location_in, read_document
from cdk.base.errors import ConfigError
from cdk.base.secret_masking import Secrets
from cdk.base.times.duration_field import DurationField
from cdk.base.validation_messages import refusals
from cdk.base.values import JsonObject, JsonValue, Keys, json_kind
from cdk.base.yaml_file import YamlFile
from cdk.lake.delta.write_modes import WriteModeName
from cdk.lake.storage.credentials import SCHEMES
from cdk.lake.storage.object_store import known_schemes
from cdk.sources.config import prepared_config
from cdk.sources.environment import environment
from cdk.sources.variables import with_variables
from cdk.streams.source import Source
from cdk.sync.settings.stream_options import RemoveStaleOptions, SkipOptions

SyncMode: TypeAlias = Literal["full_refresh", "incremental"]
EnvironmentOf: TypeAlias = Callable[..., Mapping[str, str]]
"""Returns the values of variables for files in a folder; further folders are fallbacks, as in `environment`."""

_PLACES = f"a folder that the driver and all executors can access, or an address: {known_schemes()}"
_ONE_SLASH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?!//)")
"""Matches the start of an unsupported address, such as dbfs:/lake. A single letter is a Windows drive."""
PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_TABLE_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){2}")


def _name(name: str) -> str:
    if not PIPELINE_NAME.fullmatch(name):
        raise ValueError("expected letters, digits, `.`, `_` and `-`, a letter or digit first, at most 200")
    return name


def _target(path: str) -> str:
    if not path or ("://" in path and path.partition("://")[0] not in {"file", *SCHEMES}):
        raise ValueError(f"expected {_PLACES}")
    if match := _ONE_SLASH.match(path):
        also = f", where Databricks shows it as the folder /dbfs{path[len('dbfs:') :]}" if match[1] == "dbfs" else ""
        raise ValueError(f"expected {_PLACES}; {path!r} is neither{also}")
    if _TABLE_NAME.fullmatch(path):
        raise ValueError(
            f"expected {_PLACES}; {path!r} is the name of a table in a catalog: give the folder or address of its "
            f"tables, or ./{path} for a folder of that name"
        )
    return path


def _by_name(value: object) -> object:
    if isinstance(value, dict):
        return {name: {} if options is None else options for name, options in value.items()}
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return {name: {} for name in value}
    if isinstance(value, Mapping):
        return value
    raise ValueError("expected a list of names, or an object of names and options")


def _switched(value: object) -> object:
    """Accept a boolean in place of options: true for the defaults, false for None."""
    match value:
        case bool():
            return {} if value else None
        case None | Mapping() | BaseModel():
            return value
        case _:
            raise ValueError("expected true, false or an object")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class SourceOptions(_Part):
    """The connector or manifest to read.

    config: the connector's config, inline or as the path of a JSON or YAML file, relative to the pipeline file.
    """

    connector: str | None = None
    manifest: str | None = None
    config: Mapping[str, JsonValue] | str = Field(default_factory=dict)

    @model_validator(mode="after")
    def _exactly_one(self) -> "SourceOptions":
        if (self.connector is None) == (self.manifest is None):
            raise ValueError("expected either `connector` or `manifest`, not both")
        return self


class FollowSourceOptions(_Part):
    """How to ask a stream's source whether it has changed. The names are those of `cdk.state.HttpProbe`.

    max_validator_age: how long "not modified" responses of a server are trusted. uncacheable: whether a response
    without validators is requested by every sync, or only when the last one is too old.
    """

    max_validator_age: DurationField = timedelta(hours=24)
    uncacheable: Literal["read", "skip"] = "read"


class StreamOptions(_Part):
    """How one stream is read and written.

    sync_mode: default incremental if the stream has a cursor, else full_refresh.
    write_mode: default `incremental_write_mode` for incremental, overwrite for full_refresh. primary_key: the fields
    of the key; append_dedup keeps one row per key. deletes: whether a row that says it is deleted stays in an
    append_dedup table (soft), or removes its key from it (hard). history: also keep every row of an append_dedup table
    as it was read, in a table beside it.
    partition_by: the fields that partition the table. schema: what happens if the table does not fit the stream's
    schema; it is adapted (evolve), the stream fails (freeze), or the table stays as it is (discard).
    remove_stale: what to do with rows that a complete read did not see; by default they stay. `remove_stale_metadata`
    is the same. follow_source: read the stream only if its source says that it has changed.
    forget_partitions_after: how long a partition may be missing from the source's lists before the state forgets its
    position; a partition that returns later is read from its start. Default: 30d if that changes no row, as in an
    append_dedup table without history and with soft deletes, else never.
    generation_id, minimum_generation_id: for a platform that counts generations itself, as in its catalogs; the number
    of the current read, and the lowest one whose rows stay. max_age, max_lag: as for the pipeline, but for this stream.
    trace_rows: record in each row, in a column of its own, the request that brought it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)

    sync_mode: SyncMode | None = None
    write_mode: WriteModeName | None = None
    cursor_field: str | None = None
    primary_key: str | tuple[str, ...] | None = None
    deletes: Literal["soft", "hard"] = "soft"
    history: bool = False
    partition_by: str | tuple[str, ...] | None = None
    schema_policy: Literal["evolve", "freeze", "discard"] = Field("evolve", alias="schema")
    remove_stale: Annotated[
        RemoveStaleOptions | None, BeforeValidator(_switched, json_schema_input_type=RemoveStaleOptions | bool | None)
    ] = Field(None, validation_alias=AliasChoices("remove_stale", "remove_stale_metadata"))
    follow_source: Annotated[
        FollowSourceOptions | None, BeforeValidator(_switched, json_schema_input_type=FollowSourceOptions | bool | None)
    ] = None
    forget_partitions_after: DurationField | Literal["never"] | None = None
    generation_id: Annotated[int, Field(ge=0)] | None = None
    minimum_generation_id: Annotated[int, Field(ge=0)] = 0
    max_age: DurationField | None = None
    max_lag: DurationField | None = None
    trace_rows: bool = False

    @model_validator(mode="after")
    def _all_or_its_own(self) -> "StreamOptions":
        if self.minimum_generation_id not in (0, self.generation_id):
            raise ValueError("expected a minimum_generation_id of 0 or of the generation_id")
        return self


class TargetOptions(_Part):
    """Where the tables are: `<path>/<stream>`, or `<path>/<namespace>/<stream>`.

    path: a folder, or the address of one in an object store. storage: options of the store, by their delta-rs names;
    missing ones are taken from the environment. A local folder needs none, but may have some. join_small_files: whether
    to rewrite many small files of a table as few large ones at the end of a sync; other jobs may do that instead.
    """

    path: Annotated[str, AfterValidator(_target)]
    storage: Mapping[str, str | bool | int] = Field(default_factory=dict, repr=False)
    format: Literal["delta"] = "delta"
    join_small_files: bool = True


class SparkOptions(_Part):
    """The Spark session. master: default `local[N,4]` with N cores, so that a task may fail three times.

    start: whether a sync without an existing session starts Spark. It reads in its own process first, and starts Spark
    in parallel if enough work is left (needed); or it only reads on Spark (always), or only in its own process (never).
    Default: needed on a local master, else always. An existing session is always used, except with never.
    """

    start: Literal["needed", "always", "never"] | None = None
    master: str | None = None
    conf: Mapping[str, str | int | float | bool] = Field(default_factory=dict)


class ProviderOptions(_Part):
    """A store of state logs, as `cdk.state.open_store` takes it."""

    type: str
    config: Mapping[str, JsonValue] = Field(default_factory=dict, repr=False)


class StateOptions(_Part):
    """What to do with states, besides storing them in the tables, which always happens.

    state_provider: the store of a log that mirrors the tables' states; `enabled` turns it off. ignore_old_state: every
    sync reads every stream from its start. ignore_new_state: a sync may write nothing, so it can only be previewed.
    max_checkpoint_state_size: maximum bytes of one stream's state in the log.
    """

    enabled: bool = True
    state_provider: ProviderOptions | None = None
    ignore_old_state: bool = False
    ignore_new_state: bool = False
    max_checkpoint_state_size: Annotated[int, Field(ge=1)] = 2**24


class Pipeline(_Part):
    """A pipeline file.

    name: identifies the pipeline's state; `pipeline_name` is the same. Letters, digits, `.`, `_` and `-`.
    streams: the streams to sync, by default all; a list of names, or a map from name to options.
    checkpoint_interval: how much reading a crash can cost at most; 0s commits after every page.
    concurrency: maximum number of slices read at once, over all machines; by default what the source says, else 10.
    max_duration: how long a sync may read; then it ends at its next checkpoints, and the next sync resumes there.
    max_requests: how many requests a sync may send, with the same effect.
    skip_redundant_runs: skip streams for which the window of the sync was read before.
    incremental_write_mode: the default write mode of incremental streams; those without a key append.
    max_age: how long ago a stream may have been read to its end. max_lag: how far its cursor may be behind the clock.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)

    name: Annotated[str, AfterValidator(_name), Field(validation_alias=AliasChoices("name", "pipeline_name"))]
    source: SourceOptions
    target: TargetOptions
    streams: (
        Annotated[
            Mapping[str, StreamOptions],
            BeforeValidator(_by_name, json_schema_input_type=list[str] | Mapping[str, StreamOptions | None]),
            Field(min_length=1),
        ]
        | None
    ) = None
    checkpoint_interval: DurationField = timedelta(seconds=30)
    concurrency: Annotated[int, Field(ge=1, le=10_000)] | None = None
    max_duration: DurationField | None = None
    max_requests: Annotated[int, Field(ge=1)] | None = None
    spark: SparkOptions = SparkOptions()
    state: StateOptions = StateOptions()
    skip_redundant_runs: SkipOptions | None = None
    incremental_write_mode: Literal["append", "append_dedup"] = "append"
    max_age: DurationField | None = None
    max_lag: DurationField | None = None
    _prepared: bool = PrivateAttr(default=False)

    @classmethod
    def load(
        cls,
        path: Path | str,
        environ_of: EnvironmentOf = environment,
        secrets: Secrets | None = None,
        *,
        config: Mapping[str, JsonValue] | None = None,
    ) -> "Pipeline":
        """Read a pipeline file and substitute the values of `${VARIABLE}`s.

        Relative paths in the file are relative to its folder.
        secrets: receives the values of variables, except where they cannot be secret, such as in the target's path.
        config: replaces the config that the file contains or names.
        Raises ConfigError naming every invalid place.
        """
        path = Path(path)
        file = YamlFile.load(path)
        if not isinstance(file.value, dict):
            raise ConfigError(f"found {json_kind(file.value)}, expected the settings of a pipeline", path=str(path))
        written = file.value if config is None else _with_config(file.value, config)
        value = with_variables(written, environ_of(path.parent), file.where, secrets, plain=PLAIN_KEYS, foreign=_SPARKS)
        try:
            pipeline = cls.model_validate(value)
        except ValidationError as error:
            problems = refusals(error, file.value, known=_known_keys, secret=lambda keys: keys[:2] in _SECRET)
            raise ConfigError.together([ConfigError(text, path=file.where(keys)) for keys, text in problems]) from None
        where = pipeline.target.path
        target = where if "://" in where else path.parent / Path(where).expanduser()
        config = _config(pipeline, path.parent, environ_of, secrets)
        return pipeline.model_copy(
            update={
                "target": pipeline.target.model_copy(update={"path": str(target)}),
                "source": pipeline.source.model_copy(update={"config": config}),
                "state": _beside(pipeline.state, path.parent),
            }
        )

    def prepared(self, source: Source, where: str, secrets: Secrets) -> "Pipeline":
        """Return the pipeline with the config as the streams of `source` receive it; itself if already prepared.

        where: name of the config in errors. Its secrets are added to `secrets`. Raises ConfigError: when it is invalid.
        """
        if self._prepared:
            return self
        config = prepared_config(self.config, source, where, secrets)
        concurrency = self.concurrency or source.concurrency(config)
        pipeline = self.model_copy(
            update={"source": self.source.model_copy(update={"config": config}), "concurrency": concurrency}
        )
        pipeline._prepared = True  # noqa: SLF001 - its own
        return pipeline

    @property
    def config(self) -> Mapping[str, JsonValue]:
        """The connector's config. Only valid after `load`, which replaces a path by the content of its file."""
        assert not isinstance(self.source.config, str)
        return self.source.config


def _with_config(value: Mapping[str, JsonValue], config: Mapping[str, JsonValue]) -> JsonObject:
    source = value.get("source")
    return {**value, "source": {**source, "config": config} if isinstance(source, Mapping) else source}


def _beside(state: StateOptions, folder: Path) -> StateOptions:
    """Return the options with the path of a local log resolved relative to the folder."""
    provider = state.state_provider
    if provider is None or provider.type != "local":
        return state
    if not isinstance(where := provider.config.get("path"), str) or "://" in where:
        return state
    config = {**provider.config, "path": str(folder / Path(where).expanduser())}
    return state.model_copy(update={"state_provider": provider.model_copy(update={"config": config})})


def _config(
    pipeline: Pipeline, folder: Path, environ_of: EnvironmentOf, secrets: Secrets | None
) -> Mapping[str, JsonValue]:
    config = pipeline.source.config
    if not isinstance(config, str):
        return config
    path = folder / Path(config).expanduser()
    value = read_document(path) if path.suffix == ".json" else YamlFile.load(path).value
    value = with_variables(value, environ_of(path.parent, folder), partial(location_in, path), secrets)
    if not isinstance(value, dict):
        raise ConfigError(f"found {json_kind(value)}, expected the connector's config, an object", path=str(path))
    return value


def _known_keys(keys: Keys) -> Iterable[str]:
    """Return the known keys of a part of the file. keys: its path, including the names of streams."""
    return _MODELS[(*keys[:1], *keys[2:]) if keys[:1] == ("streams",) else keys].model_fields


_MODELS: Mapping[Keys, type[BaseModel]] = {
    (): Pipeline,
    ("source",): SourceOptions,
    ("target",): TargetOptions,
    ("streams",): StreamOptions,
    ("streams", "remove_stale"): RemoveStaleOptions,
    ("streams", "follow_source"): FollowSourceOptions,
    ("spark",): SparkOptions,
    ("state",): StateOptions,
    ("skip_redundant_runs",): SkipOptions,
    ("state", "state_provider"): ProviderOptions,
}
_SECRET = {("source", "config"), ("spark", "conf"), ("target", "storage"), ("state", "state_provider")}
"""Parts whose values errors never show, because an environment variable may have put a secret there."""
_SPARKS: Keys = ("spark", "conf")
"""The part in which Spark and Hadoop substitute variables of their own, such as `${system:user.name}`."""
PLAIN_KEYS: frozenset[Keys] = frozenset(
    {
        *((key,) for key in ("name", "pipeline_name", "concurrency", "checkpoint_interval")),
        *((key,) for key in ("max_age", "max_lag", "max_duration", "max_requests")),
        *(("source", key) for key in ("connector", "manifest", "config")),
        ("target", "path"),
        ("state", "state_provider", "config", "path"),
    }
)
"""Keys whose values are never secret: names, paths, numbers. `source.config` is one only if it is a path."""


def checked_pipeline(pipeline: object, source: object) -> Pipeline:
    """Return the pipeline of a sync. Raises ConfigError: when it is not a Pipeline, or the source not a Source."""
    if not isinstance(pipeline, Pipeline):
        remedy = f"Pipeline.load({str(pipeline)!r})" if isinstance(pipeline, str | Path) else "Pipeline.load(PATH)"
        raise ConfigError(
            f"SyncRunner: found {type(pipeline).__name__} as pipeline, expected a Pipeline; pass {remedy}"
        )
    if not isinstance(source, Source):
        what = f"the class {source.__name__}" if isinstance(source, type) else type(source).__name__
        raise ConfigError(
            f"SyncRunner: found {what} as source, expected a Source; pass an object of the connector's class, or "
            "cdk.spark.manifest_source(PATH)"
        )
    return pipeline
