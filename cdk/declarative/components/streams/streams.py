"""The streams of a manifest, including those that depend on the config, or on whether there is a state."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated

from msgspec import field
from msgspec.structs import replace

from cdk.base.errors import ManifestError
from cdk.base.values import JsonSchema
from cdk.declarative.components.records.file_uploader import FileUploader
from cdk.declarative.components.records.schema_loaders import JsonFileSchemaLoader, merged
from cdk.declarative.model.component import ONE_OR_MANY
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.declared_stream import DeclaredStream, MisconfiguredStream
from cdk.declarative.model.request_plug_points import AnyTransformation
from cdk.declarative.model.stream_plug_points import (
    AnyIncrementalSync,
    AnyPartitionRouter,
    AnyRetriever,
    AnySchemaLoader,
    AnyStateMigration,
    AnyStream,
    AnyStreams,
    StreamParts,
)
from cdk.declarative.reading.manifest_stream import ManifestStream
from cdk.declarative.reading.state_delegating_stream import DelegatingStream
from cdk.rest import HttpClient
from cdk.rest.auth.token_owner import collecting_bearers, issue_all


class DeclarativeStream(AnyStream, kw_only=True):
    """A stream: how its records are read, how it advances, and what its records look like.

    Example:
        type: DeclarativeStream
        name: users
        primary_key: id
        retriever:
          type: SimpleRetriever
          requester: {type: HttpRequester, url: "https://api.example.com/users"}
          record_selector:
            type: RecordSelector
            extractor: {type: DpathExtractor, field_path: []}
        schema_loader:
          type: InlineSchemaLoader
          schema: {type: object, properties: {id: {type: integer}}}
    """

    name: str = ""
    """Name of the stream in catalogs, states and tables."""
    retriever: AnyRetriever
    """Reads the records."""
    incremental_sync: AnyIncrementalSync | None = None
    """The cursor of the stream; without it, every read is a full read."""
    primary_key: str | list[str] | list[list[str]] | None = None
    """The field or fields that identify a record."""
    schema_loader: Annotated[list[AnySchemaLoader] | None, ONE_OR_MANY] = None
    """Loads the schema; of several loaders, earlier ones take precedence."""
    transformations: list[AnyTransformation] = []
    """Transformations of the records, in order."""
    state_migrations: list[AnyStateMigration] = []
    """Migrations of states in an old form."""
    file_uploader: FileUploader | None = None
    """Downloads a file for each record."""

    @property
    def routers(self) -> Sequence[AnyPartitionRouter]:
        return self.retriever.routers

    def build(self, ctx: BuildContext, *, as_parent: bool = False) -> ManifestStream:
        with collecting_bearers() as bearers:
            stream = self._built(ctx, as_parent=as_parent)
        client = HttpClient(ctx.runtime.transport, sleep=ctx.runtime.sleep)
        stream.issue, stream.made_of = partial(issue_all, bearers, client), self
        stream.in_one_task = self.retriever.in_one_task
        return stream

    def misconfigured(self, ctx: BuildContext, error: ManifestError) -> MisconfiguredStream:
        """Return a stand-in for a stream that cannot be built with this config."""
        try:
            schema = self._schema(ctx.within(self.name))
        except ManifestError:
            schema = dict
        field = getattr(self.incremental_sync, "cursor_field", "") if self.incremental_sync is not None else None
        return MisconfiguredStream(
            self.name, error, config=ctx.config, schema=schema, primary_key=self._key(), cursor_field=field
        )

    def _built(self, ctx: BuildContext, *, as_parent: bool) -> ManifestStream:
        name = self.name
        ctx = ctx.within(name)
        incremental = None if self.incremental_sync is None else self.incremental_sync.build(ctx)
        if incremental is not None:
            ctx = ctx.within(name, incremental.fields)
        schema = self._schema(ctx)
        parts = StreamParts(
            name=name,
            incremental=incremental,
            transforms=[item.build(ctx) for item in self.transformations],
            schema=schema,
            cached=as_parent or name in ctx.runtime.parents,
            primary_key=self._key(),
        )
        reader = self.retriever.build(ctx, parts)
        if incremental is not None and reader.router is not None and reader.router.shares_cursor:
            incremental = replace(incremental, shared=True)
        if self.file_uploader is not None and not as_parent:
            reader = self.file_uploader.uploading_reader(ctx, reader)
        return ManifestStream(
            name,
            reader,
            config=ctx.config,
            clock=ctx.runtime.clock,
            schema=schema,
            primary_key=self._key(),
            incremental=incremental,
            migrate=[item.build(ctx, self) for item in self.state_migrations],
            requested=partial(self.retriever.requested, ctx.config),
        )

    def _schema(self, ctx: BuildContext) -> Callable[[], JsonSchema]:
        if self.schema_loader is None:
            return JsonFileSchemaLoader(parameters={"name": self.name}).optional(ctx)
        loaders = [loader.build(ctx) for loader in self.schema_loader]
        return loaders[0] if len(loaders) == 1 else merged(loaders)

    def _key(self) -> Sequence[str | Sequence[str]]:
        # An explicit empty string is a key with one empty name, as in the catalogs of existing connectors.
        if not self.primary_key and self.primary_key != "":
            return ()
        return [self.primary_key] if isinstance(self.primary_key, str) else list(self.primary_key)


class ConditionalStreams(AnyStreams):
    """Streams that exist only if a condition on the config holds.

    Example:
        type: ConditionalStreams
        condition: "{{ config.with_audit }}"
        streams:
          - type: DeclarativeStream
            name: audit
            retriever:
              type: SimpleRetriever
              requester: {type: HttpRequester, url: "https://api.example.com/audit"}
              record_selector:
                type: RecordSelector
                extractor: {type: DpathExtractor, field_path: []}
    """

    streams_: list[AnyStream] = field(name="streams")
    """The streams."""
    condition: str
    """Whether the source has these streams; reads `config`."""

    def streams(self, ctx: BuildContext) -> Iterator[DeclaredStream]:
        """Yield the streams if the condition holds."""
        if ctx.expression(self, "condition").true():
            for stream in self.streams_:
                yield stream.build(ctx)


class StateDelegatingStream(AnyStream):
    """A stream that is read in two ways: in full while it has no state, and incrementally once it has one.

    The full read leaves a state by its cursor. Without a cursor the stream is read in full each time, as in Airbyte.

    Example:
        type: StateDelegatingStream
        name: orders
        full_refresh_stream:
          type: DeclarativeStream
          name: orders
          retriever:
            type: SimpleRetriever
            requester: {type: HttpRequester, url: "https://api.example.com/orders/export"}
            record_selector: &selector
              type: RecordSelector
              extractor: {type: DpathExtractor, field_path: []}
          incremental_sync: &cursor
            type: DatetimeBasedCursor
            cursor_field: updated_at
            datetime_format: "%Y-%m-%d"
            start_datetime: "2024-01-01"
        incremental_stream:
          type: DeclarativeStream
          name: orders
          retriever:
            type: SimpleRetriever
            requester:
              type: HttpRequester
              url: "https://api.example.com/orders"
              request_parameters: {since: "{{ stream_interval.start_time }}"}
            record_selector: *selector
          incremental_sync: *cursor
    """

    name: str
    """Name of the stream in catalogs, states and tables."""
    full_refresh_stream: DeclarativeStream
    """The stream to read while there is no state."""
    incremental_stream: DeclarativeStream
    """The stream to read once there is a state."""
    api_retention_period: str | None = None
    """How long the API retains data, ISO 8601. With an older state, the stream is read in full, and a table in append
    mode gets all rows again.
    """

    def __post_init__(self) -> None:
        names = {self.name, self.full_refresh_stream.name, self.incremental_stream.name}
        if len(names) > 1:
            why = f"found the names {', '.join(sorted(map(repr, names)))}, expected one for all three streams"
            raise ValueError(why)

    def build(self, ctx: BuildContext, *, as_parent: bool = False) -> DelegatingStream:
        """Build the stream, which chooses between the two ways when a read starts."""
        stream = DelegatingStream(
            self.full_refresh_stream.build(ctx, as_parent=as_parent),
            self.incremental_stream.build(ctx, as_parent=as_parent),
            retention=ctx.duration(self, "api_retention_period", None),
            is_parent=as_parent,
        )
        stream.made_of = self
        return stream
