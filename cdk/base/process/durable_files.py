"""Files that are written in one step: who reads sees the old content or the new, also after a power failure."""

import os
from pathlib import Path
from uuid import uuid4


def replace_file(
    path: Path, content: bytes, *, draft: Path | None = None, mode: int = 0o666, durable: bool = True
) -> None:
    """Put a file there in one step. Raises OSError, and what was there stays.

    draft: what has the content until then, beside the file; one that a killed write has left makes room. mode: who may
    do what, less what the umask takes. durable: the content survives a power failure once this returns.
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
    """Write a file that is not there yet; its name becomes durable with the folder. Raises OSError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def sync_to_disk(path: Path) -> None:
    """Make the content of a file, or the names in a folder, survive a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
