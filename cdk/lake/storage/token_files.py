"""TokenFiles: stores single-use refresh tokens of a sync beside its tables.

The tokens are in `_cdk/tokens` of the target, each in a file named after a digest of the credentials in the config, so
pipelines of a target that share credentials share tokens. The content of a file is sealed (`cdk.rest.auth.tokens`):
only a user who has the config can open it; read access to the tables is not enough.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from cdk.base.errors import ConfigError
from cdk.lake.storage.folder import Folder


class TokenFiles:
    """A TokenStore in the target of a pipeline."""

    def __init__(self, target: Folder) -> None:
        self._folder = target.join("_cdk", "tokens")

    def load(self, name: str) -> str | None:
        with self._usable():
            try:
                return self._folder.read(name).decode()
            except FileNotFoundError:
                return None

    def check(self, name: str) -> None:
        with self._usable():
            self.save(f"{name}.check", "")
            self._folder.delete(f"{name}.check")

    def save(self, name: str, text: str) -> None:
        self._folder.write(name, text.encode(), private=True)

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Raise ConfigError when the disk refuses access; a store's errors are already explained."""
        try:
            yield
        except OSError as error:
            raise ConfigError(
                f"refresh tokens cannot be stored here ({error.strerror}); make this folder readable and writable, and "
                "try again: the existing token has not been used",
                path=str(self._folder),
            ) from error
