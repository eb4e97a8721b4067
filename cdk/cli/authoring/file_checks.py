"""Finds the mistakes in a file that a user wrote: a manifest, a pipeline, a config, a catalog or a state."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from cdk import sources
from cdk.authoring.manifest_checks import manifest_mistakes
from cdk.authoring.problems import Problem, Problems
from cdk.base.documents import read_document
from cdk.base.errors import CdkError, ConfigError, ManifestError
from cdk.base.process.request_lease import RequestLease, RequestsSpent, leasing
from cdk.base.secret_masking import Secrets
from cdk.base.values import JsonSchema, JsonValue, Location
from cdk.base.yaml_file import YamlFile
from cdk.cli.config_file import load_config
from cdk.cli.options import FindSource
from cdk.cli.pipeline_from_file import source_named
from cdk.cli.protocol.catalog_file import catalog_items, configured_stream
from cdk.cli.protocol.state_file import load_state
from cdk.engine.protocol_read import find_stream
from cdk.lake.arrow.columns import columns
from cdk.lake.storage.credentials import secrets_of
from cdk.lake.storage.object_store import folder_at
from cdk.protocol.catalog import StreamDescriptor
from cdk.sources.environment import PartialEnvironment, environment
from cdk.sources.variables import with_variables
from cdk.state.manager import ConnectorStateManager
from cdk.streams.state_check import check_values
from cdk.streams.stream import Stream
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.settings.stream_plan import check_apart, chosen_streams, plan_stream
from cdk.sync.tables.table_fit import check_new_table

KINDS = ("manifest", "pipeline", "config", "catalog", "state")
_NOT_HERE = "is not resolved by this command"
_OF_MANIFESTS = {"version", "check", "streams", "dynamic_streams", "definitions", "spec"}


class _Recording(PartialEnvironment):
    """An environment that adds the names of variables that are looked up, but not set, to `unset`."""

    def __init__(self, environ: Mapping[str, str], unset: set[str]) -> None:
        super().__init__(environ)
        self._unset = unset

    def __getitem__(self, name: str) -> str:
        value = super().__getitem__(name)
        if value == f"${{{name}}}":
            self._unset.add(name)
        return value


def kind_of(value: JsonValue) -> str:
    """Determine the kind of a file from its value, even if a key is misspelt; a config if it matches no other."""
    match value:
        case {**keys} if keys.get("type") == "DeclarativeSource" or len(_OF_MANIFESTS & keys.keys()) > 1:
            return "manifest"
        case {"source": _, "target": _} | {"source": {"connector": _} | {"manifest": _}} | {"target": {"path": _}}:
            return "pipeline"
        case {"type": "CATALOG"} | {"streams": list()}:
            return "catalog"
        case list() | {"type": str()} | {"stream": {"stream_descriptor": _}} | {"global": {"stream_states": _}}:
            return "state"
        case _:
            return "config"


class FileChecks:
    """Checks files. source: finds the connector of configs, catalogs and states; None: only check their form."""

    def __init__(self, source: FindSource | None, config: Path | None, secrets: Secrets, *, trusted: bool) -> None:
        self._find, self._config, self.secrets, self._trusted = source, config, secrets, trusted

    def problems(self, path: Path, kind: str) -> list[Problem]:
        """Check a file of one of `KINDS`, and return its problems."""
        problems = Problems(path, self.secrets)
        if path.suffix == ".py":
            words = "`spark-cdk check --connector` tries a connector in Python, and `pytest --connector` tests it"
            problems.add(f"found Python, expected a {', '.join(KINDS[:-1])} or {KINDS[-1]}, as YAML or JSON; {words}")
            return problems.all
        check = {
            "manifest": self._manifest,
            "pipeline": self._pipeline,
            "config": self._config_file,
            "catalog": self._catalog,
            "state": self._state,
        }[kind]
        with problems.gathering():
            check(path, problems)
        return problems.all

    def _manifest(self, path: Path, problems: Problems) -> None:
        try:
            source = sources.manifest_source(path, trusted=self._trusted)
        except ManifestError:
            _add_mistakes(path, {}, problems)
            raise
        _add_mistakes(path, source.config_schema, problems)
        # Components that use the config can only be built with one; building repeats the first mistake.
        if self._config is not None and not any(problem.certain for problem in problems.all):
            with problems.gathering():
                source.streams(load_config(self._config, source, self.secrets))

    def _pipeline(self, path: Path, problems: Problems) -> None:
        file = YamlFile.load(path)
        try:
            with_variables(file.value, environment(path.parent, refused=_NOT_HERE), file.where)
        except ConfigError as error:
            problems.add_error(error, certain=False)
        unset = set[str]()
        settings = Pipeline.load(path, lambda *of: _Recording(environment(*of, refused=_NOT_HERE), unset))
        self.secrets.add(*secrets_of(settings.target.storage))
        source = source_named(settings.source, path.parent, trusted=self._trusted)
        if settings.source.manifest is not None:
            _add_mistakes(path.parent / settings.source.manifest, source.config_schema, problems)
        try:
            settings = settings.prepared(source, Location(str(path), ("source", "config")), self.secrets)
        except ConfigError:
            if not unset:
                raise
            # Values that are not set cannot be checked against the schema.
            names = ", ".join(sorted(unset))
            where = Location(keys=("source", "config"))
            problems.add(f"is not checked without a value for {names}", where, certain=False)
            return
        streams = source.streams(settings.config)
        target = folder_at(settings.target.path, settings.target.storage)
        plans = []
        for choice in [None] if settings.streams is None else [{n: o} for n, o in settings.streams.items()]:
            with problems.gathering():
                for stream, options in chosen_streams(streams, choice):
                    with problems.gathering():
                        plans.append(plan_stream(stream, options, target, settings.incremental_write_mode))
                        # A schema from the API is unknown here, since no request may be sent.
                        with suppress(RequestsSpent), leasing(RequestLease(0)):
                            check_new_table(plans[-1], columns(stream.json_schema()))
        check_apart(plans)

    def _config_file(self, path: Path, _: Problems) -> None:
        if self._find is None:
            read_document(path)
            words = "name its connector with --connector or --manifest-path, or with --kind what else it is"
            raise ConfigError(f"this may be a config: {words}")
        load_config(path, self._find(), self.secrets)

    def _streams(self, problems: Problems) -> Sequence[Stream] | None:
        """The connector's streams; None without a connector, or, with a warning, without a config that it requires."""
        source = None if self._find is None else self._find()
        if source is None:
            return None
        if self._config is None and source.config_schema.get("required"):
            words = "is not compared with the streams of the connector, which requires a config: pass it with --config"
            problems.add(words, certain=False)
            return None
        return source.streams(load_config(self._config, source, self.secrets))

    def _catalog(self, path: Path, problems: Problems) -> None:
        streams = self._streams(problems)
        offered = {StreamDescriptor(name=s.name, namespace=s.namespace): s for s in streams or ()}
        known: set[StreamDescriptor] = set()
        location, items = catalog_items(path)
        for number, item in enumerate(items):
            with problems.gathering():
                configured = configured_stream(item, location.below(number))
                descriptor, where = configured.stream.descriptor, location.below(number, "stream", "name")
                if descriptor in known:
                    raise ConfigError(f"{str(descriptor)!r} is listed twice; list it once", path=where)
                known.add(descriptor)
                try:
                    _ = streams is None or find_stream(configured, offered)
                except CdkError as error:
                    raise ConfigError(error.message, path=where) from None

    def _state(self, path: Path, problems: Problems) -> None:
        streams = self._streams(problems)
        manager = ConnectorStateManager(load_state(path, None if streams is None else {s.name for s in streams}))
        for stream in streams or ():
            with problems.gathering():
                check_values(stream, manager.restore(stream))


def _add_mistakes(path: Path, schema: JsonSchema, problems: Problems) -> None:
    for text, location, certain in manifest_mistakes(path, schema):
        problems.add(text, location, certain=certain)
