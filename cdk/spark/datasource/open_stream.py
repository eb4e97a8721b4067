"""From options to a stream that can be read, with its access tokens, and errors that show no secret of its config."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.cloudpickle import register_pickle_by_value

from cdk.base.errors import CdkError, ConfigError, FatalError
from cdk.base.process.concurrency import DEFAULT_CEILING
from cdk.base.secret_masking import Secrets, secret_values
from cdk.lake.storage.object_store import folder_at
from cdk.lake.storage.token_files import TokenFiles
from cdk.rest.auth.tokens import Tokens
from cdk.sources.config import prepared_config
from cdk.sources.config_file import ConfigEvents, cannot_save
from cdk.sources.discovery import find_source
from cdk.sources.manifests import manifest_source
from cdk.spark.datasource.options import DataSourceOptions
from cdk.state.stream_state import StreamState
from cdk.state.wire import decoded
from cdk.streams.source import Source, named_stream
from cdk.streams.stream import Stream


@dataclass(frozen=True)
class OpenStream:
    """A stream, what must not be shown of its config, and the state a read of it starts from."""

    stream: Stream
    secrets: Secrets
    state: StreamState
    config_secrets: bool
    """Whether the config that was given has any."""
    tokens: Tokens = field(default_factory=Tokens)
    """The access tokens of its reads."""
    concurrency: int = DEFAULT_CEILING
    """Slices read at once, at most, as its source says."""

    @classmethod
    def of(cls, options: DataSourceOptions) -> "OpenStream":
        """Find the source, check its config, take one of its streams.

        Raises ConfigError: no such connector or stream (with the nearest spelling), or the config does not fit the
        source's schema. StateError: the state is none of this stream.
        """
        secrets = Secrets()
        with masking(secrets):
            tokens = tokens_of(options, secrets)
        with masking(secrets), tokens.run().working():
            source = _source(options)
            source.events = ConfigEvents(secrets, options.config_file)
            # Its file may have got new tokens since Spark made the options.
            raw, where = options.read_config()
            config = prepared_config(raw, source, where, secrets)
            stream = named_stream(source.open(config), options.stream, "option stream")
            config_secrets = any(secret_values(source.config_schema, raw))
            state, concurrency = decoded(stream, options.state, "option state"), source.concurrency(config)
            return cls(stream, secrets, state, config_secrets, tokens, concurrency)


@contextmanager
def masking(secrets: Secrets) -> Iterator[None]:
    """Let no error out that shows a secret: Spark prints it, with its causes, wherever the query runs.

    Errors of the kit keep their class. Any other becomes a FatalError that holds its text and its traceback.
    """
    try:
        yield
    except CdkError as error:
        error.message, error.detail = secrets.mask(error.message), secrets.mask(error.detail)
        error.path = secrets.mask(error.path)
        error.args = (error.message,)
        raise error from None
    except Exception as error:  # noqa: BLE001 - it goes on as an error of the kit
        text = secrets.mask("".join(traceback.format_exception(error)))
        raise FatalError(f"{secrets.mask(f'{type(error).__name__}: {error}')}\n{text}") from None


def _source(options: DataSourceOptions) -> Source:
    if options.manifest is not None:
        return manifest_source(options.manifest, trusted=options.allow_custom_code)
    assert options.connector is not None
    source = find_source(options.connector)
    if options.connector.endswith(".py"):
        # No other process can import a file that was named by its path: it travels inside the job.
        register_pickle_by_value(sys.modules[_module(source)])  # type: ignore[no-untyped-call]
    return source


def _module(source: Source) -> str:
    """The module of a source that was read from a file; a plain one was made of the streams in it."""
    return source.stream_classes[0].__module__ if type(source) is Source else source.module


def tokens_of(options: DataSourceOptions, secrets: Secrets) -> Tokens:
    """The tokens of a read, which are secret.

    New refresh tokens are kept in the option `target`, as `sync` keeps them. Without it the file of the config has to
    take them, which a manifest's source sees to. Raises ConfigError: `target` is no place.
    """
    tokens = Tokens()
    tokens.learn = secrets.add
    if options.target is not None:
        tokens.store = TokenFiles(folder_at(options.target, {}))
    elif options.config_file is None:
        tokens.store = Nowhere("no option config_file or target was given")
    elif why := cannot_save(options.config_file):
        tokens.store = Nowhere(f"no option target was given, and {why}")
    return tokens


class Nowhere:
    """A TokenStore that takes no token: one that works once is then not used. why: what is missing.

    Where a server has replaced a token unasked, the one in memory is all there is, and is used on.
    """

    def __init__(self, why: str) -> None:
        self._why = why
        self._lost: set[str] = set()

    def load(self, name: str) -> str | None:  # noqa: ARG002 - it holds nothing
        return None

    def check(self, name: str) -> None:
        if name in self._lost:
            return
        raise ConfigError(
            f"the refresh token works once, and there is no place for the next one: {self._why}; give the option "
            "target, a folder or an address where it is kept, that of the pipelines with this login if there are any. "
            "The token that is there has not been used"
        )

    def save(self, name: str, text: str) -> None:  # noqa: ARG002
        self._lost.add(name)
        raise ConfigError(f"{self._why}; give the option target, a folder or an address, to have it kept")
