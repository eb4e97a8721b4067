"""DeclarativeSource: the root of a manifest; with its spec, its check and its concurrency."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated

from msgspec import Meta

from cdk.base.errors import CdkError, ConfigError, ManifestError
from cdk.base.logs import warn
from cdk.base.values import JsonObject, JsonValue, as_object
from cdk.base.wording import did_you_mean
from cdk.declarative.components.records.config_normalization import ConfigNormalizationRules
from cdk.declarative.components.requests.api_budget import HTTPAPIBudget
from cdk.declarative.components.streams.dynamic_streams import DynamicDeclarativeStream
from cdk.declarative.model.component import Adapted, Component
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.declared_stream import DeclaredStream
from cdk.declarative.model.stream_plug_points import AnyCheck, AnyStreams
from cdk.rest.async_jobs import JobBudget
from cdk.state.stream_state import StreamState
from cdk.streams.read_slice import read_slice
from cdk.streams.stream import Stream

_CHOSEN = "__airbyte_check_stream_names"
_OAUTH_INPUT = "oauth_connector_input_specification"


def _join_scopes(auth: JsonObject | None) -> JsonObject | None:
    """Add the default of airbyte-cdk 7.39.1 for how a platform joins scopes."""
    specification = as_object(as_object(auth).get("oauth_config_specification"))
    declared = as_object(specification.get(_OAUTH_INPUT))
    if auth is None or not declared:
        return auth
    joined = {"scopes_join_strategy": "space", **declared}
    return {**auth, "oauth_config_specification": {**specification, _OAUTH_INPUT: joined}}


class Spec(Component):
    """The config that a connector accepts.

    Example:
        type: Spec
        connection_specification:
          type: object
          required: [api_key]
          properties:
            api_key: {type: string, airbyte_secret: true}
    """

    connection_specification: JsonObject
    """The JSON Schema of the config."""
    documentation_url: str | None = None
    """URL of the documentation for users who fill in the config."""
    advanced_auth: Annotated[JsonObject | None, Adapted(after=_join_scopes)] = None
    """How a platform obtains OAuth credentials."""
    config_normalization_rules: ConfigNormalizationRules | None = None
    """How configs in an old form are migrated, and how configs are validated."""


class ConcurrencyLevel(Component):
    """The number of slices that are read at once.

    Example:
        type: ConcurrencyLevel
        default_concurrency: "{{ config.get('workers', 10) }}"
        max_concurrency: 20
    """

    default_concurrency: int | str
    """The number of slices; a number or an expression."""
    max_concurrency: int | None = None
    """The upper limit of `default_concurrency`."""

    def build(self, ctx: BuildContext) -> int:
        """Return the number. Raises ManifestError: when it is not an integer."""
        value = ctx.integer(self, "default_concurrency", 1)
        return max(1, value if self.max_concurrency is None else min(value, self.max_concurrency))


class DynamicStreamCheckConfig(Component):
    """How many of the streams made from a template are checked.

    Example:
        type: DynamicStreamCheckConfig
        dynamic_stream_name: tables
        stream_count: 1
    """

    dynamic_stream_name: str
    """Name of the template."""
    stream_count: Annotated[int | None, Meta(ge=1)] = None
    """The number of streams to check; all by default."""


class CheckStream(AnyCheck):
    """Checks a connection by requesting a first record of each of these streams.

    Example:
        type: CheckStream
        stream_names: [users]
    """

    stream_names: list[str] = []
    """Names of the streams to check."""
    dynamic_streams_check_configs: list[DynamicStreamCheckConfig] = []
    """Which streams made from templates to check."""

    def names(self, config: Mapping[str, JsonValue]) -> Sequence[str]:
        """Return the streams that the check needs. Raises ConfigError: when the config's list of names is invalid."""
        return () if self.dynamic_streams_check_configs else self._names(config)

    def _names(self, config: Mapping[str, JsonValue]) -> Sequence[str]:
        """Return the names of the streams: those that a platform chose in the config, or else those listed here."""
        chosen = config.get(_CHOSEN)
        if chosen is None or chosen == []:
            return self.stream_names
        if not isinstance(chosen, list) or not all(isinstance(name, str) for name in chosen):
            raise ConfigError(f"{_CHOSEN}: found {chosen!r}, expected a list of stream names")
        return chosen

    def build(self, ctx: BuildContext) -> Callable[[Sequence[DeclaredStream]], None]:
        """Build the check. It raises ManifestError for a stream that does not exist, and the errors of reading."""
        names = self._names(ctx.config)

        def check(streams: Sequence[DeclaredStream]) -> None:
            by_name = {stream.name: stream for stream in streams}
            for name in names:
                if name not in by_name:
                    hint = did_you_mean(name, by_name)
                    raise ManifestError(f"check: there is no stream {name!r}{hint}")
                check_available(by_name[name])
            for config in self.dynamic_streams_check_configs:
                generated = [s for s in streams if s.template == config.dynamic_stream_name]
                if not generated:
                    known = {s.template for s in streams if s.template}
                    hint = did_you_mean(config.dynamic_stream_name, known)
                    raise ManifestError(f"check: the template {config.dynamic_stream_name!r} makes no streams{hint}")
                for stream in generated[: config.stream_count]:
                    check_available(stream)
            if not streams:
                raise ManifestError("check: the source has no streams for this config")

        return check


class CheckDynamicStream(AnyCheck):
    """Checks a connection by reading the first streams of the source, including those made from templates.

    Example:
        type: CheckDynamicStream
        stream_count: 1
    """

    stream_count: Annotated[int, Meta(ge=0)]
    """The number of streams to check: those of `streams` first, then those made from templates."""
    use_check_availability: bool = True
    """Whether records are requested; otherwise the streams are only built."""

    def build(self, ctx: BuildContext) -> Callable[[Sequence[DeclaredStream]], None]:
        def check(streams: Sequence[DeclaredStream]) -> None:
            if not streams:
                raise ManifestError("check: the source has no streams for this config")
            if self.use_check_availability:
                for stream in streams[: self.stream_count]:
                    check_available(stream)

        return check


def check_available(stream: Stream) -> None:
    """Request the first page of a stream's first slice, and the next if it is empty; log what is wrong with it.

    Raises CdkError that names the stream: when that fails.
    """
    try:
        slice = stream.checkpoint_reader(StreamState()).next()
        if slice is None:
            why = "it has no partitions to read; perhaps its parent stream or its list of values is empty"
            raise ManifestError(why)
        pages = iter(read_slice(stream, slice))
        page = next(pages, None)
        if page is not None:
            warn(page.warning)
            if not page.records:
                next(pages, None)  # an empty page proves little: the expression for the next one may fail on it
    except CdkError as error:
        error.stream = error.stream or stream.name
        error.message = f"the stream {stream.name!r} cannot be read: {error.message}"
        raise


class BlockSimultaneousSyncsAction(Component):
    """Declares that the streams of a group must not be read at the same time. The kit does not enforce this.

    Example:
        type: BlockSimultaneousSyncsAction
    """


class StreamGroup(Component):
    """A group of streams, and the action that applies to them.

    Example:
        type: StreamGroup
        streams: []
        action: {type: BlockSimultaneousSyncsAction}
    """

    streams: list[JsonValue]
    """The streams of the group."""
    action: BlockSimultaneousSyncsAction
    """The action that applies to the group."""


class DeclarativeSource(Component):
    """A connector: its streams, its spec, and how it checks a connection.

    Example:
        type: DeclarativeSource
        version: 6.0.0
        check: {type: CheckStream, stream_names: [users]}
        streams:
          - type: DeclarativeStream
            name: users
            retriever:
              type: SimpleRetriever
              requester: {type: HttpRequester, url: "https://api.example.com/users"}
              record_selector:
                type: RecordSelector
                extractor: {type: DpathExtractor, field_path: []}
    """

    version: str
    """Version of the language that the manifest was written for."""
    check: AnyCheck
    """How a connection is checked."""
    streams: list[AnyStreams] | None = None
    """The streams."""
    dynamic_streams: list[DynamicDeclarativeStream] | None = None
    """Templates from which streams are made."""
    spec: Spec | None = None
    """The config that the connector accepts."""
    concurrency_level: ConcurrencyLevel | None = None
    """The number of slices that are read at once."""
    api_budget: HTTPAPIBudget | None = None
    """How often the API may be called."""
    stream_groups: dict[str, StreamGroup] | None = None
    """Groups of streams that must not be read at the same time. Ignored, with a warning."""
    max_concurrent_async_job_count: int | str | None = None
    """The maximum number of jobs of `AsyncRetriever` that run at once."""
    schemas: JsonObject | None = None
    """Schemas that streams refer to."""
    definitions: JsonObject | None = None
    """Components that other parts of the manifest refer to."""
    metadata: JsonObject | None = None
    """Data for editors of manifests; not used here."""
    description: str | None = None
    """A description of the connector."""

    def __post_init__(self) -> None:
        if self.streams is None and self.dynamic_streams is None:
            raise ValueError("a manifest needs `streams` or `dynamic_streams`")

    @property
    def static_names(self) -> frozenset[str] | None:
        """The names of the streams; None if templates, conditions or custom code make some of them."""
        names = {getattr(item, "name", "") for item in self.streams or ()}
        return None if self.dynamic_streams or "" in names else frozenset(names)

    def build_streams(
        self, ctx: BuildContext, names: Sequence[str] = (), of_config: Callable[[ManifestError], bool] = lambda _: False
    ) -> Iterator[DeclaredStream]:
        """Yield the streams for the config, those of templates last; only those in `names`, if no template makes them.

        of_config: returns whether the config caused an error, in which case only the stream with the error fails.

        Only the needed streams are built: finding those of a template may take requests, and others may fail to build.
        """
        # The name of a conditional stream is unknown before its condition is evaluated.
        only_static = names and set(names) <= {getattr(item, "name", "") for item in self.streams or ()}
        yield from self.build_static_streams(ctx, of_config, names if only_static else ())
        if only_static:
            return
        for i, template in enumerate(self.dynamic_streams or ()):
            for stream in template.streams(ctx):
                stream.template = template.name or f"dynamic_stream_{i}"
                yield stream

    def limit_jobs(self, ctx: BuildContext) -> None:
        """Limit how many jobs all streams that are built with `ctx` run at once."""
        if (count := ctx.integer(self, "max_concurrent_async_job_count", None, least=1)) is not None:
            ctx.runtime.jobs = ctx.runtime.jobs or JobBudget(count)

    def build_static_streams(
        self, ctx: BuildContext, of_config: Callable[[ManifestError], bool], names: Sequence[str] = ()
    ) -> Iterator[DeclaredStream]:
        """Yield the streams written in the manifest, with conditional ones; if `names` is not empty, only those."""
        for item in self.streams or ():
            if not names or getattr(item, "name", "") in names:
                yield from _streams(item, ctx, of_config)


def _streams(
    item: AnyStreams, ctx: BuildContext, of_config: Callable[[ManifestError], bool]
) -> Iterator[DeclaredStream]:
    try:
        streams = list(item.streams(ctx))
    except ManifestError as error:
        substitute = item.misconfigured(ctx, error) if of_config(error) else None
        if substitute is None:
            raise
        streams = [substitute]
    yield from streams
