"""LocalStore: files in a folder of this machine, or of a mounted file system."""

import errno
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from cdk.base.errors import ConfigError, StateConflict, TransientError
from cdk.base.process.durable_files import sync_to_disk, write_new
from cdk.state.stores.objects import ObjectStore
from cdk.state.stores.protocol import StateKey

_FILE, _FOLDER = 0o600, 0o700
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
"""Errors of link(2) on file systems without hard links: EPERM on FAT, one of the others on FUSE and SMB."""
_HINDRANCES = (PermissionError, NotADirectoryError, IsADirectoryError, FileExistsError)


class LocalStore(ObjectStore):
    """Stores each object in a file that only its owner can read.

    A file is written under a temporary name, synced, and then hard-linked to its final name. The link fails if that
    name is taken, and a file under its final name is always complete. Names that start with `.tmp` are left over from
    interrupted writers, and ignored.
    link: creates the hard link. On file systems without hard links, the writer locks the folder while it renames the
    file to a free name. If the file system's locks only work within one machine, this excludes, like the lease, only
    writers of the same machine.
    """

    def __init__(self, path: Path | str, *, link: Callable[[Path, Path], None] = os.link) -> None:
        self._root = Path(path).expanduser()
        self._link = link
        self.location = str(self._root)

    def put(self, path: str, data: bytes) -> None:
        with self._draft(path, data) as (draft, target):
            draft.replace(target)
            sync_to_disk(target.parent)

    def _create(self, path: str, data: bytes) -> bool:
        with self._draft(path, data) as (draft, target):
            created = self._name(draft, target)
            if created:
                sync_to_disk(target.parent)
        return created

    @contextmanager
    def _draft(self, path: str, data: bytes) -> Iterator[tuple[Path, Path]]:
        """Write the data to a synced draft beside its target, and yield (draft, target). Removes a leftover draft."""
        target = self._root / path
        draft = target.with_name(f".tmp-{uuid4().hex}")
        with self._translating(target):
            _make_folder(target.parent)
            try:
                write_new(draft, data, mode=_FILE)
                yield draft, target
            finally:
                draft.unlink(missing_ok=True)

    def _name(self, draft: Path, target: Path) -> bool:
        try:
            self._link(draft, target)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return _rename_to_free(draft, target)
        return True

    def _read(self, path: str) -> bytes | None:
        target = self._root / path
        with self._translating(target):
            try:
                return target.read_bytes()
            except FileNotFoundError:
                return None

    def _list(self, folder: str) -> Iterable[str]:
        paths: list[str] = []
        with self._translating(self._root / folder):
            for directory, _, files in os.walk(self._root / folder, onerror=_unless_missing):
                within = Path(directory).relative_to(self._root)
                paths.extend((within / name).as_posix() for name in files if not name.startswith(".tmp"))
        return paths

    def _delete(self, path: str) -> None:
        target = self._root / path
        with self._translating(target):
            target.unlink(missing_ok=True)

    @contextmanager
    def lease(self, key: StateKey) -> Iterator[None]:
        path = self._root / str(key) / "lease"
        with self._translating(path):
            _make_folder(path.parent)
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(file, 100, 0).decode(errors="replace").strip() or "another process"
                why = f"{holder} runs the pipeline {str(key)!r}; wait for it to end, or stop it"
                raise StateConflict(why, path=str(path)) from None
            os.ftruncate(file, 0)
            os.pwrite(file, f"process {os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(file)

    @contextmanager
    def _translating(self, path: Path) -> Iterator[None]:
        """Translate errors of the operating system into errors of the kit."""
        try:
            yield
        except _HINDRANCES as error:
            raise ConfigError(f"the state store cannot use this file: {error.strerror}", path=str(path)) from error
        except OSError as error:
            raise TransientError(f"the state store failed: {error.strerror}", path=str(path)) from error


def _rename_to_free(draft: Path, target: Path) -> bool:
    """Rename a draft to its target unless that exists. Return whether the name was free.

    `rename` would replace an existing file, so writers take turns by a lock. Readers see no file or a complete one.
    """
    turn = os.open(target.with_name(".tmp-turn"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE)
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if target.exists():
            return False
        draft.replace(target)
        return True
    finally:
        os.close(turn)


def _make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, each durable and accessible to its owner only."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(mode=_FOLDER, exist_ok=True)
    sync_to_disk(folder.parent)


def _unless_missing(error: OSError) -> None:
    """Ignore a missing folder, which has no files. Other errors are raised: an unreadable folder is not empty."""
    if not isinstance(error, FileNotFoundError):
        raise error
