"""Source: the streams of a connector, the schema of its config, a connection check, and the events of reads."""

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
from cdk.streams.stream import Stream
from cdk.streams.written_class import Expected, check_values

S = TypeVar("S", bound=Stream)

_STREAM_CLASSES = Expected(
    lambda value: (
        isinstance(value, Sequence) and all(isinstance(kind, type) and issubclass(kind, Stream) for kind in value)
    ),
    "a list of classes of streams, such as `[Users, Posts]`",
)
NO_CONFIG: JsonSchema = {"type": "object", "properties": {}, "additionalProperties": True}


def connector_name(text: str) -> str:
    """The name of a connector: the stem of its file, the folder of a `manifest.yaml`, or the text itself."""
    path = Path(text)
    name = path.stem if path.suffix in {".py", ".yaml", ".yml"} else text
    return path.resolve().parent.name if name == "manifest" else name


def named_stream(streams: Sequence[Stream], name: str, where: str = "") -> Stream:
    """The stream with this name. where: the place that names it, for the error.

    Raises ConfigError, which suggests the nearest name: the source has no such stream.
    """
    for stream in streams:
        if stream.name == name:
            return stream
    nearest = did_you_mean(name, [each.name for each in streams])
    raise ConfigError(f"{where and f'{where}: '}the source has no stream {name!r}{nearest}")


class Events:
    """Receives what a source reports besides records and states, from any thread.

    This one ignores it; a runner sets its own.
    """

    def learned(self, secret: str) -> None:
        """The source received a secret that is not in the config, such as an access token: mask it from now on."""

    def config_changed(self, config: Mapping[str, JsonValue]) -> None:
        """The source changed its config, by a migration or a rotated token: save the whole of it.

        Returns once the config is stored safely; only then does the source use it.
        """

    def waiting(self, stream: str, seconds: float) -> None:
        """A stream pauses for so many seconds because the API asked for it."""


class Source:
    """A connector. Subclass it and list its streams.

    name: the connector's name in reports, lineage and errors; by default the one users refer to it by, see
        `connector_name`.
    config_schema: the JSON Schema of the config; mark secrets with `"airbyte_secret": true`.
    stream_classes: the streams, each built with the config. Override `streams` when that is not enough.
    documentation_url: a page that explains how to fill in the config.
    events: receives events during reads, such as a renewed token; the runner sets its own.

    Before `open` or `check` see a config, it passes `prepare`, receives the defaults of `config_schema`, passes
    `transform` and is validated against that schema, in this order.
    """

    name: str = ""
    config_schema: JsonSchema = NO_CONFIG
    stream_classes: Sequence[type[Stream]] = ()
    documentation_url: ClassVar[str | None] = None
    events: Events = Events()

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        check_values(cls, vars(cls), {"stream_classes": _STREAM_CLASSES})

    @property
    def module(self) -> str:
        """The name of the module that defines the connector."""
        return type(self).__module__

    @property
    def definition(self) -> str:
        """A text that changes whenever the code that turns responses into records changes; empty when unknown."""
        return ""

    def prepare(self, config: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Migrate a config that was written for an older version to today's form."""
        return config

    def transform(self, config: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """The config as the streams see it."""
        return config

    def streams(self, config: Mapping[str, JsonValue]) -> Sequence[Stream]:
        """The streams for a config. No I/O: `spec` and `discover` of a static source work without the network."""
        return [stream(config) for stream in self.stream_classes]

    def open(self, config: Mapping[str, JsonValue]) -> Sequence[Stream]:
        """The streams for a config, ready for reading: each knows which secrets must not end up in its state."""
        streams = self.streams(config)
        for stream in streams:
            stream.opened()
        return self.guarded(streams, config)

    def guarded(self, streams: Sequence[S], config: Mapping[str, JsonValue]) -> Sequence[S]:
        """The same streams, with the secrets of the config assigned to each."""
        marks = SecretMarks(secret_places(self.config_schema, config))
        for stream in streams:
            stream.guard(marks)
        return streams

    @property
    def advanced_auth(self) -> Mapping[str, JsonValue] | None:
        """How a platform obtains OAuth credentials for the config, in the form of the protocol's spec."""
        return None

    def select(self, streams: Mapping[str, frozenset[str] | None]) -> None:
        """Restrict the source to the streams that a catalog selects. Called before they are opened.

        streams: the selected properties by stream name, to request only these where the API can return a part; None for
        all of them. A source may leave out the other streams.
        """

    @property
    def stream_names(self) -> frozenset[str] | None:
        """The names of all its streams, selected or not; None if they are known only from the streams."""
        return None

    def concurrency(self, config: Mapping[str, JsonValue]) -> int:  # noqa: ARG002 - for overriding
        """The most slices to read concurrently when the pipeline does not set a limit; 1 reads them one by one.

        A read starts with one slice and adds more while that increases the throughput.
        """
        return DEFAULT_CEILING

    def check(self, config: Mapping[str, JsonValue]) -> None:
        """Try the connection, and return if it works. Default: read the first page of the first stream.

        Raises CdkError: why the connection does not work.
        """
        for stream in self.streams(config)[:1]:
            slice = stream.checkpoint_reader(StreamState()).next()
            if slice is not None:
                next(iter(read_slice(stream, slice)), None)
