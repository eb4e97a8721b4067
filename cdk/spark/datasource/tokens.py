"""Access tokens of Spark's own reads: obtained where a frame is planned, and where refresh tokens are kept."""

from collections.abc import Mapping

from cdk.base.errors import ConfigError
from cdk.base.logs import logger
from cdk.base.secret_masking import Secrets
from cdk.base.values import FieldValue
from cdk.lake.storage.object_store import folder_at
from cdk.lake.storage.token_files import TokenFiles
from cdk.rest.auth.tokens import Tokens
from cdk.sources.config_file import cannot_save, save_config
from cdk.spark.datasource.options import DataSourceOptions
from cdk.streams.source_events import Events


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


class ReadEvents(Events):
    """What a source says while a frame is planned: secrets go to the mask, a changed config to its file."""

    def __init__(self, options: DataSourceOptions, secrets: Secrets) -> None:
        self._options, self._secrets = options, secrets

    def learned(self, secret: str) -> None:
        self._secrets.add(secret)

    def config_changed(self, config: Mapping[str, FieldValue]) -> None:
        file = self._options.config_file
        why = "there is no file to write it to" if file is None else save_config(file, config)
        if why is not None:
            logger.info("the config has changed; %s", why)
