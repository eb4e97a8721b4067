"""Folders on a disk or in an object store, which hold tables, their states and the lock.

A file written to a disk survives a power failure: content and name are synced before a write returns. An object store
ensures that itself, and an object exists as a whole or not at all. The stores are in `cdk.lake.storage.object_store`.
"""

import errno
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa
from deltalake.exceptions import DeltaError
from msgspec import Struct
from pyarrow import fs

from cdk.base.errors import CdkError, ConfigError, TransientError
from cdk.base.process.durable_files import replace_file, sync_to_disk

_DISK = fs.LocalFileSystem()

_ANSI = re.compile(r"\x1b\[[0-9;]*m↳?|↳")
_UNWRITTEN = re.compile(
    r"LocalFileSystem error.*Unable to (?:create|copy|rename|sync|open file [^\n]*#\d+$)", re.DOTALL | re.MULTILINE
)
"""Matches what delta-rs could not write. It adds a number to the path of a file that it writes."""
_OS_ERROR = re.compile(r"\(os error (\d+)\)")


class FileInfo(Struct, frozen=True):
    """Size and time of a stored file. size: bytes. modified: milliseconds since 1970."""

    size: int
    modified: int


class Folder(ABC):
    """A folder on a disk or in an object store. Immutable; it is sent to tasks.

    `str` returns the path or address as users write it. The names that its methods take are those of direct members.
    """

    @abstractmethod
    def join(self, *names: str) -> Self:
        """Return the folder at these names below this one; it need not exist."""

    @property
    @abstractmethod
    def parent(self) -> Self:
        """The folder that this one is a direct member of."""

    @property
    @abstractmethod
    def uri(self) -> str:
        """The folder's address in the form that delta-rs takes."""

    @property
    @abstractmethod
    def storage_options(self) -> dict[str, str] | None:
        """The options that delta-rs needs to access the folder. Contains secrets."""

    @property
    def table_settings(self) -> dict[str, str]:
        """Properties for tables that are created in this folder."""
        return {}

    @property
    def on_disk(self) -> Path | None:
        """The path on a disk that all machines see, which can be listed and searched; None: it is in a store."""
        return None

    @property
    @abstractmethod
    def local_path(self) -> Path:
        """The folder on this machine for files that need a disk: locks and logs. It need not exist."""

    @abstractmethod
    def make(self) -> None:
        """Create the folder and its parents, where folders have to be created."""

    @abstractmethod
    def open(self, name: str) -> pa.NativeFile:
        """Open a new file for writing. Call `make_durable` once it is closed."""

    @abstractmethod
    def make_durable(self, name: str) -> FileInfo:
        """Make a closed file survive a power failure, and return its size and time."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return a file's content. Raises FileNotFoundError."""

    @abstractmethod
    def reader(self, name: str) -> pa.NativeFile:
        """Open a file for random access. Raises FileNotFoundError."""

    @abstractmethod
    def write(self, name: str, content: bytes, *, private: bool = False) -> None:
        """Write a file atomically: it has either the old or the new content, and the new one is durable on return.

        private: only the user who writes the file can read it, where the folder's storage has users.
        """

    @abstractmethod
    def sizes(self, names: Collection[str]) -> Mapping[str, int]:
        """Return the size in bytes of those of these files that exist."""

    def has(self, names: Collection[str]) -> bool:
        """Whether all these files exist."""
        return self.sizes(names).keys() >= set(names)

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of the files, in any order; empty if the folder does not exist."""

    @abstractmethod
    def folders(self) -> list[str]:
        """Return the names of the direct subfolders, in any order; empty if the folder does not exist."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a file. A missing file is no error; a file that a store refuses to remove stays."""

    @abstractmethod
    def explain(self, error: Exception, stream: str = "") -> Exception:
        """Return the error to show to a user: an error of a store becomes a ConfigError or a TransientError."""

    @contextmanager
    def explaining(self, stream: str = "") -> Iterator[None]:
        """Pass errors that pyarrow and delta-rs raise inside the block through `explain`."""
        try:
            yield
        except (OSError, DeltaError, pa.ArrowException) as error:
            explained = self.explain(error, stream)
            if explained is error:
                raise
            # The message of a store may contain a key, so it must not appear in tracebacks.
            raise explained from None

    def inside(self, other: "Folder") -> bool:
        """Whether this folder is inside the other one, at any depth."""
        return str(self).startswith(f"{other}/")


@dataclass(frozen=True)
class LocalFolder(Folder):
    """A folder on a disk that all machines of a sync see at the same path."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def parent(self) -> "LocalFolder":
        return LocalFolder(self.path.parent)

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
            # The file name tells the caller that this is about the file being written, not another missing file.
            raise FileNotFoundError(error.errno, "the folder no longer exists", str(self.path / name)) from None

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

    def explain(self, error: Exception, stream: str = "") -> Exception:
        """As in Folder. Only what delta-rs could not write is explained; other errors are returned unchanged."""
        text = str(error)
        number = _OS_ERROR.search(text) if _UNWRITTEN.search(text) else None
        if number is None or isinstance(error, CdkError):
            return error
        return unwritable(OSError(int(number[1]), in_one_line(text)), str(self), stream)


def unwritable(error: OSError, path: str, stream: str = "") -> ConfigError | TransientError:
    """Return the error to raise when the disk refuses to write a file."""
    why = os.strerror(error.errno) if error.errno else str(error)
    where = {"path": path, "stream": stream, "detail": f"{type(error).__name__}: {error}"}
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return TransientError(f"the target cannot be written: {why}. Free some space, then run the sync again", **where)
    return ConfigError(f"the target cannot be written: {why}", **where)


def in_one_line(text: str) -> str:
    """Return the message of a store, which delta-rs formats for a terminal, in one line without colours."""
    return " ".join(_ANSI.sub("", text).split())


def as_folder(where: Folder | Path) -> Folder:
    """Return a path as a folder on a disk, and a folder as it is."""
    match where:
        case Path():
            return LocalFolder(where)
        case Folder():
            return where


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the user's cache folder on this machine: below `XDG_CACHE_HOME`, or `~/.cache`."""
    base = environ.get("XDG_CACHE_HOME")
    home = environ.get("HOME")
    return (Path(base) if base else (Path(home) if home else Path.home()) / ".cache") / "spark-cdk"
