"""The folder of a server: which files it may open, which code it may run, and which secrets it masks in answers."""

import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from cdk import sources
from cdk.authoring.drafts.draft import Draft
from cdk.authoring.manifest_secrets import plain_secrets
from cdk.base.documents import read_document
from cdk.base.errors import CdkError, ConfigError, ConnectorExit
from cdk.base.secret_masking import HIDDEN, SHORTEST, Secrets
from cdk.base.secret_names import looks_secret, surely_secret
from cdk.base.values import Json, JsonValue, Keys, map_leaves, map_strings, walk
from cdk.base.yaml_file import YamlFile
from cdk.cli.authoring.file_checks import kind_of
from cdk.cli.authoring.new import drafted
from cdk.cli.pipeline_from_file import file_pipeline
from cdk.cli.state.options import PipelineFile
from cdk.lake.arrow.json_text import valid
from cdk.sources.discovery import find_source
from cdk.sources.environment import env_file_secrets, environment
from cdk.sources.variables import has_lookups, named_values, with_variables
from cdk.streams.source import Source
from cdk.sync.settings.pipeline_file import PLAIN_KEYS

_MANIFESTS = {".yaml", ".yml"}


class Workspace:
    """What a server may access. root: the working directory, which no path may leave, not even by a symbolic link.

    trusted: whether connectors in Python, and code that manifests name, may run.
    """

    def __init__(self, root: Path, *, trusted: bool) -> None:
        self._root, self.trusted = root.resolve(), trusted

    def path(self, text: str) -> Path:
        """Return a path relative to the folder. Raises ConfigError: it is outside of the folder."""
        resolved = (self._root / Path(text).expanduser()).resolve()
        if not resolved.is_relative_to(self._root):
            raise ConfigError("is outside of the folder of this server; name a file in it", path=text)
        return resolved.relative_to(self._root)

    def file(self, text: str, secrets: Secrets) -> Path:
        """Return a file in the folder, and add to `secrets` those in it, in the files that it names and in each `.env`.

        Raises ConfigError: one of the files is outside of the folder, or requires trust that the server lacks.
        """
        return self._file(text, secrets, frozenset())

    def _file(self, text: str, secrets: Secrets, named: Collection[str]) -> Path:
        """named: the values of the variables that the files which refer to this one use."""
        path = self.path(text)
        value = _value(path)
        if has_lookups(value) and not self.trusted:
            how = "start the server with --allow-custom-code, or take them from variables of the environment"
            why = f"refers to values in files or of commands, which this server does not read: {how}"
            raise ConfigError(why, path=text)
        kind = kind_of(value)
        with suppress(ConfigError):
            variables = environment(path.parent)
            named = {*named, *named_values(value, variables)}
            secrets.add(*env_file_secrets(path.parent, named=named))
            plain = PLAIN_KEYS if kind == "pipeline" else ()
            value = with_variables(value, variables, lambda _: "", secrets, plain=plain)
        match kind:
            case "manifest":
                secrets.add(*(text for _, text in plain_secrets(value)))
            case "pipeline":
                secrets.add(*_secrets_in(value, surely_secret))
            case _:
                secrets.add(*_secrets_in(value, looks_secret))
        match value:
            case {"source": Mapping() as source} if kind == "pipeline":
                self._source(source, path.parent, secrets, named)
            case _:
                pass
        return path

    def optional(self, text: str, secrets: Secrets) -> Path | None:
        """As `file`; None for an empty text."""
        return self.file(text, secrets) if text else None

    def pipeline(self, text: str, secrets: Secrets) -> PipelineFile:
        """Open a pipeline file in the folder; also adds what the connector's schema marks as secret to `secrets`."""
        path = self.file(text, secrets)
        # Tables and states can be shown without the connector.
        with suppress(ConfigError):
            file_pipeline(path, secrets, trusted=self.trusted)
        return PipelineFile(path, trusted=self.trusted)

    def connector(self, text: str, secrets: Secrets) -> Callable[[], Source]:
        """Return a function that loads the connector at a path or of a name.

        Raises ConfigError: the path is outside of the folder, or the connector is code that may not run.
        """
        if Path(text).suffix in _MANIFESTS:
            return partial(sources.manifest_source, self.file(text, secrets), trusted=self.trusted)
        if not self.trusted:
            how = "start the server with --allow-custom-code, or name a manifest (.yaml)"
            raise ConfigError(f"{text}: a connector in Python is code, which this server does not run: {how}")
        return partial(find_source, str(self.path(text)) if text.endswith(".py") else text)

    def draft(self, folder: Path, *, openapi: str, curl: str, send: bool, secrets: Secrets) -> Draft | None:
        """Draft a connector for a folder as `drafted` does, from a description or a command; None if both are empty.

        Raises ConfigError: both are passed, or the path of the description is outside of the folder of this server.
        """
        if openapi and curl:
            raise ConfigError("found a description and a curl command, expected one of them")
        if openapi and not openapi.startswith(("http://", "https://")):
            openapi = str(self.path(openapi))
        return drafted(folder, secrets, openapi=openapi, commands=[curl] if curl else [], send=send)

    def _source(self, source: Mapping[str, JsonValue], folder: Path, secrets: Secrets, named: Collection[str]) -> None:
        """Check the files that a pipeline's source names, as `file` does. named: values of variables that it uses."""
        match source.get("config"):
            case str() as file:
                self._file(str(folder / Path(file).expanduser()), secrets, named)
            case config:
                secrets.add(*_secrets_in(config, looks_secret))
        match source:
            case {"manifest": str() as manifest}:
                self._file(str(folder / manifest), secrets, named)
            case {"connector": str() as connector}:
                self.connector(str(folder / connector) if connector.endswith(".py") else connector, secrets)
            case _:
                pass


def masked(answer: Mapping[str, object], secrets: Secrets) -> Json:
    """Mask an answer: known secrets, and values whose names say that they are secret.

    Half a character, which neither a page nor a model of pydantic can hold, becomes an escape.
    """
    return map_strings(map_leaves(secrets.mask_json(answer), _hidden), valid, names=True)


def shown_error(error: Exception | SystemExit) -> str:
    """The text of an error, as servers show it: a CdkError with its stream, any other one with its line of code."""
    if isinstance(error, SystemExit):
        error = ConnectorExit(error)
    if isinstance(error, CdkError):
        return f"{error.stream}: {error}" if error.stream else str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} (line {last.lineno} of {last.filename})"


def _hidden(keys: Keys, value: JsonValue) -> JsonValue:
    """Replace a string or a number whose name says that it is secret."""
    named = bool(keys) and isinstance(name := keys[-1], str) and surely_secret(name)
    return HIDDEN if named and isinstance(value, str | int | float) else value


def _value(path: Path) -> JsonValue:
    """Parse a file as JSON or YAML, whatever its name; None if it cannot be read, which its later use reports."""
    for read in (read_document, lambda path: YamlFile.load(path).value):
        with suppress(ConfigError):
            return read(path)
    return None


def _secrets_in(value: JsonValue, looks: Callable[[str], bool]) -> Iterator[str]:
    """Yield the strings whose names look like those of secrets, at any depth; not templates."""
    for keys, text in walk(value):
        named = bool(keys) and isinstance(name := keys[-1], str) and looks(name)
        if named and isinstance(text, str) and len(text) >= SHORTEST and "{{" not in text:
            yield text
