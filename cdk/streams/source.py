"""Source: a connector's streams, its config's schema, and a check of the connection."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

from cdk.base.errors import ConfigError
from cdk.base.process.concurrency import DEFAULT_CEILING
from cdk.base.secret_masking import SecretMarks, secret_places
from cdk.base.values import JsonSchema, JsonValue
from cdk.base.wording import did_you_mean
from cdk.state.stream_state import StreamState
from cdk.streams.read_slice import read_slice
from cdk.streams.source_events import Events
from cdk.streams.stream import Stream

S = TypeVar("S", bound=Stream)

NO_CONFIG: JsonSchema = {"type": "object", "properties": {}, "additionalProperties": True}


def connector_name(text: str) -> str:
    """What a connector is called: as the file that is named, a `manifest.yaml` as its folder, or as it is named."""
    path = Path(text)
    name = path.stem if path.suffix in {".py", ".yaml", ".yml"} else text
    return path.resolve().parent.name if name == "manifest" else name


def named_stream(streams: Sequence[Stream], name: str, where: str = "") -> Stream:
    """The stream of this name. Raises ConfigError: there is none, with the nearest. where: what names it."""
    for stream in streams:
        if stream.name == name:
            return stream
    nearest = did_you_mean(name, [each.name for each in streams])
    raise ConfigError(f"{where and f'{where}: '}the source has no stream {name!r}{nearest}")


class Source:
    """A connector. Subclass it and list its streams.

    name: how reports, lineage and errors call it; by default what a person writes for it, see `connector_name`.
    config_schema: the JSON Schema of the config; mark secrets with `"airbyte_secret": true`.
    stream_classes: the streams, each built with the config. Override `streams` where that is not enough.
    documentation_url: where a person reads how to fill in the config.
    events: called with what happens while it is read, such as a token that changed; the runner sets its own.

    A config goes through `prepare`, the defaults of `config_schema`, `transform` and the check against that schema,
    in this order, before `open` or `check` sees it.
    """

    name: str = ""
    config_schema: JsonSchema = NO_CONFIG
    stream_classes: Sequence[type[Stream]] = ()
    documentation_url: ClassVar[str | None] = None
    events: Events = Events()

    @property
    def module(self) -> str:
        """The name of the module that it is written in."""
        return type(self).__module__

    @property
    def definition(self) -> str:
        """What makes records of answers, as a text that is another one once that changes; empty: it is unknown."""
        return ""

    def prepare(self, config: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """A config that was written for an older version, in today's form."""
        return config

    def transform(self, config: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """What the streams are to see of a config."""
        return config

    def streams(self, config: Mapping[str, JsonValue]) -> Sequence[Stream]:
        """The streams for a config. No I/O: `spec` and `discover` of a static source work without the network."""
        return [stream(config) for stream in self.stream_classes]

    def open(self, config: Mapping[str, JsonValue]) -> Sequence[Stream]:
        """The streams for a config, for reading: each knows the secrets that must not be in its state."""
        streams = self.streams(config)
        for stream in streams:
            stream.opened()
        return self.guarded(streams, config)

    def guarded(self, streams: Sequence[S], config: Mapping[str, JsonValue]) -> Sequence[S]:
        """The streams, which now know the secrets of the config."""
        marks = SecretMarks(secret_places(self.config_schema, config))
        for stream in streams:
            stream.secrets = marks
        return streams

    @property
    def advanced_auth(self) -> Mapping[str, JsonValue] | None:
        """How a platform obtains OAuth credentials for the config, as the protocol's spec says it."""
        return None

    def select(self, properties: Mapping[str, frozenset[str]]) -> None:
        """Restrict streams to some properties, where the API can be asked for these only. Called before reading.

        properties: of a catalog, by the name of the stream; a stream that is missing here is read with all.
        """

    def concurrency(self, config: Mapping[str, JsonValue]) -> int:  # noqa: ARG002 - for overriding
        """How many slices to read at once, at most, where the pipeline does not say; 1 for one after the other.

        A read begins with one, and reads as many as bring more.
        """
        return DEFAULT_CEILING

    def check(self, config: Mapping[str, JsonValue]) -> None:
        """Try the connection; return if it works. Raises any CdkError that says why not.

        Default: read the first page of the first stream.
        """
        for stream in self.streams(config)[:1]:
            reader = stream.checkpoint_reader(StreamState())
            slice = reader.next()
            if slice is not None:
                next(iter(read_slice(stream, slice)), None)
