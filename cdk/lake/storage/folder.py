"""A place: a folder on a disk or in a store, where tables, their state and the lock lie.

A disk keeps what is written through a power failure: content and name are forced out before a write returns. A store
does so by itself, and an object is there as a whole or not at all. The stores are in `cdk.lake.storage.object_store`.
"""

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa
from deltalake.exceptions import DeltaError
from pyarrow import fs

from cdk.base.errors import ConfigError, TransientError
from cdk.base.process.durable_files import replace_file, sync_to_disk

_DISK = fs.LocalFileSystem()


@dataclass(frozen=True)
class FileInfo:
    """A file as it lies there. size: bytes. modified: milliseconds since 1970."""

    size: int
    modified: int


class Folder(ABC):
    """A folder on a disk or in a store. A value: frozen, and it travels to tasks.

    `str` of it is the path or the address as people write it. Names are those of files right in the folder.
    """

    @abstractmethod
    def join(self, *names: str) -> Self:
        """The folder below, which need not exist."""

    @property
    @abstractmethod
    def uri(self) -> str:
        """The place as delta-rs takes it."""

    @property
    @abstractmethod
    def storage_options(self) -> dict[str, str] | None:
        """What delta-rs needs to know to get there. Holds secrets."""

    @property
    def table_settings(self) -> dict[str, str]:
        """Properties of the tables that are created here."""
        return {}

    @property
    def on_disk(self) -> Path | None:
        """The folder on a disk that all machines see, which can be listed and searched; None: it is in a store."""
        return None

    @property
    @abstractmethod
    def local_path(self) -> Path:
        """The folder on this machine for what can only lie on a disk: locks and logs. It need not exist."""

    @abstractmethod
    def make(self) -> None:
        """Make the folder and those around it, where folders have to be made."""

    @abstractmethod
    def open(self, name: str) -> pa.NativeFile:
        """A new file, for writing. `settle` it once it is closed."""

    @abstractmethod
    def make_durable(self, name: str) -> FileInfo:
        """Make a closed file survive a power failure, and tell what lies there."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """A file's content. Raises FileNotFoundError."""

    @abstractmethod
    def reader(self, name: str) -> pa.NativeFile:
        """A file, for reading any part of it. Raises FileNotFoundError."""

    @abstractmethod
    def write(self, name: str, content: bytes, *, private: bool = False) -> None:
        """Put a file there in one step: it has the old content or the new, and the new is durable on return.

        private: only the user who writes it can read it, where the place knows users.
        """

    @abstractmethod
    def sizes(self, names: Collection[str]) -> Mapping[str, int]:
        """The bytes of those of these files that are there."""

    def has(self, names: Collection[str]) -> bool:
        """Whether all these files are there."""
        return self.sizes(names).keys() >= set(names)

    @abstractmethod
    def names(self) -> list[str]:
        """The names of the files, in any order; none where there is no such folder."""

    @abstractmethod
    def folders(self) -> list[str]:
        """The names of the folders right in this one, in any order; none where there is no such folder."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a file. One that is not there is no error, and what a store refuses to remove stays."""

    @abstractmethod
    def explain(self, error: Exception, stream: str = "") -> Exception:
        """The error as a person should see it: one of a store becomes a ConfigError or a TransientError."""

    @contextmanager
    def explaining(self, stream: str = "") -> Iterator[None]:
        """Explain what pyarrow and delta-rs raise inside."""
        try:
            yield
        except (OSError, DeltaError, pa.ArrowException) as error:
            explained = self.explain(error, stream)
            if explained is error:
                raise
            # What a store says may repeat a key: it stays out of tracebacks.
            raise explained from None

    def inside(self, other: "Folder") -> bool:
        """Whether this folder lies in the other one, at any depth."""
        return str(self).startswith(f"{other}/")


@dataclass(frozen=True)
class LocalFolder(Folder):
    """A folder on a disk, which all machines of a sync see at the same path. Its errors stay as they are."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def join(self, *names: str) -> "LocalFolder":
        return LocalFolder(self.path.joinpath(*names))

    @property
    def on_disk(self) -> Path:
        return self.path

    @property
    def uri(self) -> str:
        return str(self.path)

    @property
    def storage_options(self) -> None:
        return None

    @property
    def local_path(self) -> Path:
        return self.path / "_cdk"

    def make(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)

    def open(self, name: str) -> pa.NativeFile:
        try:
            return _DISK.open_output_stream(str(self.path / name))
        except FileNotFoundError as error:
            # The caller learns from its name that a file that was to be written is missed, and no other.
            raise FileNotFoundError(error.errno, "the folder is gone", str(self.path / name)) from None

    def make_durable(self, name: str) -> FileInfo:
        path = self.path / name
        sync_to_disk(path)
        sync_to_disk(path.parent)
        stat = path.stat()
        return FileInfo(stat.st_size, int(stat.st_mtime * 1000))

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def reader(self, name: str) -> pa.NativeFile:
        return _DISK.open_input_file(str(self.path / name))

    def write(self, name: str, content: bytes, *, private: bool = False) -> None:
        self.make()
        path = self.path / name
        replace_file(path, content, draft=path.with_suffix(".tmp"), mode=0o600 if private else 0o666)

    def sizes(self, names: Collection[str]) -> Mapping[str, int]:
        sizes: dict[str, int] = {}
        for name in names:
            with suppress(FileNotFoundError, NotADirectoryError):
                sizes[name] = (self.path / name).stat().st_size
        return sizes

    def names(self) -> list[str]:
        try:
            return [path.name for path in self.path.iterdir() if path.is_file()]
        except FileNotFoundError:
            return []

    def folders(self) -> list[str]:
        try:
            return [path.name for path in self.path.iterdir() if path.is_dir()]
        except FileNotFoundError:
            return []

    def delete(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def explain(self, error: Exception, stream: str = "") -> Exception:  # noqa: ARG002 - a store's has both
        return error


def unwritable(error: OSError, path: str) -> ConfigError | TransientError:
    """The error of a file that a disk does not take."""
    why = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return TransientError(f"the target cannot be written: {why}. Make room, and run the sync again", path=path)
    return ConfigError(f"the target cannot be written: {why}", path=path)


def as_folder(where: Folder | Path) -> Folder:
    """A path is a folder on a disk."""
    match where:
        case Path():
            return LocalFolder(where)
        case Folder():
            return where


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The user's folder for what belongs to this machine: below `XDG_CACHE_HOME`, or `~/.cache`."""
    base = environ.get("XDG_CACHE_HOME")
    home = environ.get("HOME")
    return (Path(base) if base else (Path(home) if home else Path.home()) / ".cache") / "spark-cdk"
