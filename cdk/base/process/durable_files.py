"""Atomic file writes: readers see either the old or the new content, even after a power failure."""

import os
from pathlib import Path
from uuid import uuid4


def replace_file(
    path: Path, content: bytes, *, draft: Path | None = None, mode: int = 0o666, durable: bool = True
) -> None:
    """Replace a file atomically. Raises OSError; the old file then stays.

    draft: the temporary file, in the same folder; one left over by a killed write is removed. mode: the permissions,
    before the umask. durable: whether the content survives a power failure once this returns.
    """
    draft = draft or path.with_name(f".{path.name}.{uuid4().hex}")
    draft.unlink(missing_ok=True)
    try:
        write_new(draft, content, mode=mode, durable=durable)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    if durable:
        sync_to_disk(path.parent)


def write_new(path: Path, content: bytes, *, mode: int, durable: bool = True) -> None:
    """Create a file that must not exist yet. Its name is durable once its folder is synced. Raises OSError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def sync_to_disk(path: Path) -> None:
    """Sync a file's content, or a folder's names, to disk, so that they survive a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
