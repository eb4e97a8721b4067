"""Copies: small files that are replaced as a whole, for people and programs that know no state log.

Nothing is ever read back from a copy: the log is what counts.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from cdk.base.errors import ConfigError, TransientError
from cdk.base.values import Json


class Copies(Protocol):
    """A folder of copies."""

    def put(self, name: str, data: bytes) -> None:
        """Put a file of this name in place of the one that is there; a reader sees the old or the new one, whole.

        Raises ConfigError: the place is none, or permission is missing. TransientError: it cannot be reached, is full.
        """


def open_copies(where: str, options: Mapping[str, Json] | None = None) -> Copies:
    """The copies in a folder of this machine (a path, `file:///var/lib`) or of an object store (`s3://bucket/folder`).

    options: for an object store, see `cdk.state.stores.cloud.CloudStore`.
    Raises ConfigError: an object store or an option that is not known, or a package that is missing.
    """
    scheme, colon, rest = where.partition("://")
    if not colon or scheme == "file":
        return LocalCopies(rest if colon else where)
    try:
        from cdk.state.cloud_bookmark_copies import CloudCopies  # noqa: PLC0415 - obstore is an extra
    except ImportError as error:
        raise ConfigError(f"found no obstore ({error}); pip install 'spark-cdk[object]'", path=where) from error
    return CloudCopies(where, options)


class LocalCopies:
    """Files in a folder, readable by their owner only. Names that begin with `.tmp` are what cut writers left."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder).expanduser()

    def put(self, name: str, data: bytes) -> None:
        """See Copies."""
        target, draft = self._folder / name, self._folder / f".tmp-{uuid4().hex}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                draft.touch(mode=0o600)
                with draft.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                draft.replace(target)
            finally:
                draft.unlink(missing_ok=True)
        except (PermissionError, FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise ConfigError(f"the copy cannot be written: {error.strerror}", path=str(target)) from error
        except OSError as error:
            raise TransientError(f"the copy was not written: {error.strerror}", path=str(target)) from error
