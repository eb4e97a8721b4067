"""Opens the stream that options describe, with its access tokens; masks the secrets in errors and logs."""

import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct, field
from pyspark.cloudpickle import register_pickle_by_value

from cdk.base.errors import CdkError, ConfigError, FatalError
from cdk.base.process.concurrency import DEFAULT_CEILING
from cdk.base.secret_masking import Secrets, secret_values
from cdk.lake.storage.object_store import folder_at
from cdk.lake.storage.token_files import TokenFiles
from cdk.rest.auth.tokens import Tokens
from cdk.sources.config import prepared_config
from cdk.sources.config_file import ConfigEvents, save_problem
from cdk.sources.discovery import find_source
from cdk.sources.manifests import manifest_source
from cdk.spark.cluster.task_logs import masked_lines
from cdk.spark.datasource.options import DataSourceOptions
from cdk.state.stream_state import StreamState
from cdk.state.wire import state_of
from cdk.streams.source import Source, named_stream
from cdk.streams.stream import Stream


class OpenStream(Struct, frozen=True):
    """A stream, the secrets of its config, and the state that a read starts from."""

    stream: Stream
    secrets: Secrets
    state: StreamState
    config_secrets: Sequence[str] = ()
    """The secrets of the config, which no offset may contain."""
    tokens: Tokens = field(default_factory=Tokens)
    """The access tokens of its reads."""
    concurrency: int = DEFAULT_CEILING
    """Maximum number of slices read at once, as its source says."""

    @classmethod
    def of(cls, options: DataSourceOptions) -> "OpenStream":
        """Find the source, check its config, and open one of its streams.

        Raises ConfigError: when there is no such connector or stream (with the nearest spelling), or the config does
        not match the source's schema. StateError: when the state is not a state of this stream.
        """
        secrets = Secrets()
        with masking(secrets):
            tokens = tokens_of(options, secrets)
        with masking(secrets), tokens.run().working():
            source = _source(options)
            source.events = ConfigEvents(secrets, options.config_file)
            # The file may have got new tokens since Spark made the options.
            raw, where = options.read_config()
            config = prepared_config(raw, source, where, secrets)
            stream = named_stream(source.open(config), options.stream, "option stream")
            config_secrets = [*secret_values(source.config_schema, raw)]
            state, concurrency = state_of(stream, options.state, "option state"), source.concurrency(config)
            return cls(stream, secrets, state, config_secrets, tokens, concurrency)


@contextmanager
def masking(secrets: Secrets) -> Iterator[None]:
    """Mask secrets in errors that leave the block: Spark prints them, with their causes, wherever the query runs.

    Errors of the kit keep their class. Any other becomes a FatalError with its text and its traceback. What the block
    logs and prints goes to standard error, with secrets masked.
    """
    try:
        with masked_lines(secrets):
            yield
    except CdkError as error:
        error.message, error.detail = secrets.mask(error.message), secrets.mask(error.detail)
        error.path = secrets.mask(error.path)
        error.args = (error.message,)
        raise error from None
    except Exception as error:  # noqa: BLE001 - raised again as an error of the kit
        text = secrets.mask("".join(traceback.format_exception(error)))
        raise FatalError(f"{secrets.mask(f'{type(error).__name__}: {error}')}\n{text}") from None


def _source(options: DataSourceOptions) -> Source:
    if options.manifest is not None:
        return manifest_source(options.manifest, trusted=options.allow_custom_code)
    assert options.connector is not None
    source = find_source(options.connector)
    if options.connector.endswith(".py"):
        # No other process can import a file that was named by its path, so it is pickled into the job.
        register_pickle_by_value(sys.modules[_module(source)])  # type: ignore[no-untyped-call]
    return source


def _module(source: Source) -> str:
    """Return the module of a source that was read from a file; a plain `Source` was made from the file's streams."""
    return source.stream_classes[0].__module__ if type(source) is Source else source.module


def tokens_of(options: DataSourceOptions, secrets: Secrets) -> Tokens:
    """Return the tokens of a read, which are added to `secrets`.

    New refresh tokens are stored in the folder of the option `target`, like `sync` does. Without it, they must be saved
    to the config file, which the source of a manifest does. Raises ConfigError: when `target` is not a valid address.
    """
    tokens = Tokens()
    tokens.learn = secrets.add
    if options.target is not None:
        tokens.store = TokenFiles(folder_at(options.target, {}))
    elif options.config_file is None:
        tokens.store = NoTokenStore("no option config_file or target was given")
    elif why := save_problem(options.config_file):
        tokens.store = NoTokenStore(f"no option target was given, and {why}")
    return tokens


class NoTokenStore:
    """A TokenStore that stores no tokens, so that single-use refresh tokens are not used. why: what is missing.

    If a server has replaced a token nevertheless, the only copy is in memory, and is used from then on.
    """

    def __init__(self, why: str) -> None:
        self._why = why
        self._lost: set[str] = set()

    def load(self, name: str) -> str | None:  # noqa: ARG002 - it stores nothing
        return None

    def check(self, name: str) -> None:
        if name in self._lost:
            return
        raise ConfigError(
            f"the refresh token can be used only once, and there is nowhere to store the next one: {self._why}; set "
            "the option target to a folder or an address for it, that of the pipelines with this login if there are "
            "any. The existing token has not been used"
        )

    def save(self, name: str, text: str) -> None:  # noqa: ARG002
        self._lost.add(name)
        raise ConfigError(f"{self._why}; set the option target to a folder or an address where it is stored")
