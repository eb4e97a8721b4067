"""ManifestSource: a connector defined by a manifest, with the spec beside it if the manifest has none of its own."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache, lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from cdk.base.documents import read_document
from cdk.base.errors import ConfigError, ManifestError
from cdk.base.logs import FirstWarning
from cdk.base.run import current_run
from cdk.base.secret_masking import Secrets, secret_values
from cdk.base.values import JsonObject, JsonSchema, JsonValue, as_object, canonical, from_json, to_json
from cdk.declarative.components.records.config_normalization import ConfigRules
from cdk.declarative.components.streams.dynamic_streams import streams_of_copy
from cdk.declarative.components.streams.partition_routers import ParentStreamConfig
from cdk.declarative.components.streams.source import DeclarativeSource, Spec
from cdk.declarative.components.streams.streams import DeclarativeStream
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext, CustomCode, Runtime
from cdk.declarative.model.declared_stream import DeclaredStream
from cdk.declarative.named_hosts import credential_scope
from cdk.declarative.syntax.json_edit import set_at
from cdk.streams.source import NO_CONFIG, Source, connector_name
from cdk.streams.stream import Stream

_NAMES = ("spec.yaml", "spec.json")


def spec_beside(folder: Path) -> Spec | None:
    """Return the spec from a file in this folder; None if there is no such file.

    Raises ManifestError: when both files exist, or a file is not a spec as the protocol defines it.
    Airbyte: the same. Manifests without a spec rely on it: fields that it marks as secret are masked.
    """
    files = [file for name in _NAMES if (file := folder / name).is_file()]
    if len(files) > 1:
        raise ManifestError(f"found {' and '.join(_NAMES)}, expected one of them; remove the other", path=str(folder))
    return _spec(files[0]) if files else None


def _spec(file: Path) -> Spec:
    try:
        fields = as_object(read_document(file))
    except ConfigError as error:
        raise ManifestError.of(error) from error
    schema, auth = fields.get("connectionSpecification"), fields.get("advanced_auth")
    url = fields.get("documentationUrl")
    if not isinstance(schema, dict):
        why = "expected an object with `connectionSpecification`, the schema of the config"
        raise ManifestError(why, path=str(file))
    # Not validated: a platform gets the credentials of a spec file as they are written, without defaults of manifests.
    return Spec(
        connection_specification=schema,
        documentation_url=None if url is None else str(url),
        advanced_auth=auth if isinstance(auth, dict) else None,
    )


_RESERVED = "__airbyte"


class ManifestSource(Source):
    """The source that a manifest describes. Raises ManifestError that lists every invalid place of the manifest."""

    def __init__(self, manifest: Manifest, runtime: Runtime | None = None) -> None:
        self._manifest = manifest
        self._runtime = runtime or Runtime()
        self._root = cast("DeclarativeSource", manifest.root())
        self._spec = self._root.spec
        # The config as stored in its file, without values that exist only for this run or only for `check`.
        self._updated_config: Mapping[str, JsonValue] | None = None
        self._saving = Lock()
        self._parents = frozenset(parent_names(self._root))
        self._warn = FirstWarning()
        self.name = "manifest"

    @classmethod
    def load(cls, path: Path, *, custom: CustomCode | None = None) -> "ManifestSource":
        """Load the source of a manifest file. custom: builds components that are Python classes; None forbids them."""
        folder = path.resolve().parent
        source = cls(Manifest.load(path), Runtime(folder=folder, custom=custom))
        source.name = connector_name(str(path))
        if source._spec is None:
            source._spec = spec_beside(folder)
        return source

    @property
    def definition(self) -> str:
        return canonical(self.resolved)

    @property
    def resolved(self) -> JsonObject:
        """The manifest with references resolved, implied types filled in and parameters applied."""
        return self._manifest.resolved()

    def revised(self, manifest: JsonObject) -> "ManifestSource":
        """Return this source with another manifest. Raises ManifestError that lists every invalid place."""
        source = ManifestSource(Manifest(manifest), self._runtime)
        source._spec, source.events, source.name = self._spec, self.events, self.name
        return source

    @property
    def config_schema(self) -> JsonSchema:  # type: ignore[override] # read-only here
        """The schema in `spec`, or in the spec file next to the manifest."""
        return NO_CONFIG if self._spec is None else self._spec.connection_specification

    @property
    def documentation_url(self) -> str | None:  # type: ignore[override] # read-only here
        return None if self._spec is None else self._spec.documentation_url

    @property
    def advanced_auth(self) -> Mapping[str, JsonValue] | None:
        """How a platform obtains OAuth credentials."""
        return None if self._spec is None else self._spec.advanced_auth

    def prepare(self, config: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return the config after the manifest's migrations, and save it if they changed it."""
        self._updated_config = migrated = self._rules(config).migrate(config)
        if migrated is not config:
            self.events.config_changed(migrated)
        return migrated

    def transform(self, config: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return the config after the manifest's transformations; the result is not saved."""
        return self._rules(config).transform(config)

    def select(self, streams: Mapping[str, frozenset[str] | None]) -> None:
        self._runtime.selected = streams

    @property
    def stream_names(self) -> frozenset[str] | None:
        """The names of the streams; None if some are only known for a config: those of templates and conditions."""
        return self._root.static_names

    def concurrency(self, config: Mapping[str, JsonValue]) -> int:
        level = self._root.concurrency_level
        return super().concurrency(config) if level is None else level.build(self._context(config))

    def streams(self, config: Mapping[str, JsonValue]) -> Sequence[Stream]:
        """Return the streams for a config. Raises ManifestError: when two share a name or a part cannot be built."""
        ctx = self._context(config)
        self._rules(config).validate(config)
        if self._root.stream_groups:
            self._warn(
                "these groups have no effect: their streams may be read at the same time; if the API does not allow "
                "that, read them in separate runs",
                self._manifest.where(("stream_groups",)),
            )
        # The expressions of streams that are not read need no compiler, and their mistakes stop no other stream.
        names = tuple(self._runtime.selected) if self._root.static_names else ()
        declared = self._root.build_streams(ctx, names, self._manifest.reads_config)
        return list(self._located(ctx, config, declared).values())

    def rebuilt(self, config: Mapping[str, JsonValue], copy: bytes = b"") -> Mapping[str, Stream]:
        """Return the streams written in the manifest, or those of one copy of a template, without calling the API."""
        import pickle  # noqa: PLC0415 - see `Recipe.stream`

        ctx = self._context(config)
        if copy:
            declared = streams_of_copy(pickle.loads(copy), ctx, "")  # noqa: S301 - pickled by the driver
        else:
            declared = self._root.build_static_streams(ctx, self._manifest.reads_config)
        streams = self._located(ctx, config, declared)
        self.guarded(list(streams.values()), config)
        return streams

    def _located(
        self, ctx: BuildContext, config: Mapping[str, JsonValue], declared: Iterable[DeclaredStream]
    ) -> Mapping[str, DeclaredStream]:
        """Return the declared streams by name, ready for pickling; errors carry their place in the manifest."""
        try:
            self._root.limit_jobs(ctx)
            return self._named(config, declared)
        except ManifestError as error:
            raise self._manifest.located(error) from error

    def _named(
        self, config: Mapping[str, JsonValue], declared: Iterable[DeclaredStream]
    ) -> Mapping[str, DeclaredStream]:
        runtime = self._runtime
        try:
            written = to_json(self._manifest.value), canonical(config)
        except TypeError as error:
            raise ManifestError(
                f"{self._manifest.name}: the manifest or the config contains what JSON cannot represent: dates without "
                f"quotes, or too many levels ({error})"
            ) from None
        # The other process may have a different working directory.
        path = None if self._manifest.path is None else self._manifest.path.absolute()
        recipe = Recipe(*written, runtime.folder, runtime.custom, current_run().id, path)
        streams: dict[str, DeclaredStream] = {}
        for stream in declared:
            if stream.name in streams:
                raise ManifestError(f"{self._manifest.name}: two streams have the name {stream.name!r}")
            stream.locate(self._manifest.located)
            stream.reload = partial(recipe.stream, stream.name, stream.copy)
            streams[stream.name] = stream
        return streams

    def check(self, config: Mapping[str, JsonValue]) -> None:
        check = self._root.check
        overrides = check.config_overrides or {}
        if reserved := [name for name in overrides if name.startswith(_RESERVED)]:
            why = f"check.config_overrides: {', '.join(reserved)}: only platforms set such keys; remove them"
            raise ManifestError(why)
        # An override that only the check uses was not entered by a person, so the config rules do not apply to it.
        self._rules(config).validate(config)
        overridden = {**config, **overrides}
        ctx = self._context(overridden)
        ctx.runtime.save_config = partial(self._save, config)
        for secret in secret_values(self.config_schema, overrides):
            ctx.runtime.learn(secret)
        declared = self._root.build_streams(ctx, check.names(overridden), self._manifest.reads_config)
        check.build(ctx)(list(self._located(ctx, overridden, declared).values()))

    def _context(self, config: Mapping[str, JsonValue]) -> BuildContext:
        # A response that both a stream and its child streams (which read it as their parent) request is fetched once.
        runtime = self._runtime
        runtime.parents, runtime.located = self._parents, self._manifest.located
        runtime.learn, runtime.on_rate_limited = self.events.learned, self.events.waiting
        runtime.save_config = partial(self._save, config)
        secrets = Secrets(secret_values(self.config_schema, config))
        # Computed only when a request is made: `spec` and `discover` do not need it.
        ctx = BuildContext(config, runtime, scope=cache(partial(credential_scope, self._root, config, secrets)))
        if self._root.api_budget is not None and runtime.budget is None:
            runtime.budget = self._root.api_budget.build(ctx)
        return ctx

    def _rules(self, config: Mapping[str, JsonValue]) -> ConfigRules:
        rules = None if self._spec is None else self._spec.config_normalization_rules
        return ConfigRules() if rules is None else rules.build(self._context(config))

    def _save(self, config: Mapping[str, JsonValue], updates: Mapping[tuple[str, ...], JsonValue]) -> None:
        """Save the config with `updates` applied to its last saved version."""
        with self._saving:
            updated = deepcopy(dict(config if self._updated_config is None else self._updated_config))
            for path, value in updates.items():
                set_at(updated, path, value)
            self._updated_config = updated
            self.events.config_changed(updated)


def parent_names(component: Component) -> Iterator[str]:
    """Yield the names of the streams that components below `component` read as their parents."""
    match component:
        case ParentStreamConfig(stream=DeclarativeStream(name=name)):
            yield name
        case _:
            pass
    for part in component.below():
        yield from parent_names(part)


class Recipe(Struct, frozen=True):
    """What is pickled to another process instead of a stream: the manifest and the config, to rebuild the stream there.

    run, attempt: the run and attempt to build for; another run or attempt never reuses the cached source. path: of the
    manifest.
    """

    manifest: bytes
    config: str
    folder: Path
    custom: CustomCode | None = None
    run: str = ""
    path: Path | None = None
    attempt: int = 0

    def stream(self, name: str, copy: Mapping[str, JsonValue] | None = None, attempt: int = 0) -> Stream:
        """Return the stream of this name, built once per process. copy: the filled-in template it was made from."""
        import pickle  # noqa: PLC0415 - takes 1 ms, and is only needed in other processes

        recipe = replace(self, attempt=attempt)
        return _rebuilt(recipe)[name] if copy is None else _rebuilt_copy(recipe, pickle.dumps(copy))[name]


@lru_cache(maxsize=8)
def _source(recipe: Recipe) -> tuple[ManifestSource, Mapping[str, JsonValue]]:
    manifest = Manifest(from_json(recipe.manifest), path=recipe.path)
    source = ManifestSource(manifest, Runtime(folder=recipe.folder, custom=recipe.custom))
    config = from_json(recipe.config)
    assert isinstance(config, Mapping)
    return source, config


@lru_cache(maxsize=8)
def _rebuilt(recipe: Recipe) -> Mapping[str, Stream]:
    source, config = _source(recipe)
    return source.rebuilt(config)


@lru_cache(maxsize=1024)
def _rebuilt_copy(recipe: Recipe, copy: bytes) -> Mapping[str, Stream]:
    source, config = _source(recipe)
    return source.rebuilt(config, copy)
