"""SourceFile: a file as a listing shows it, before anybody opens it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from cdk.base.errors import NotFound


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a source.

    path: relative to the root of the source, with `/`. size: bytes. modified: nanoseconds since 1970. etag: the
    version that an object store gives, verbatim. Of the last two one is enough; where both are known the ETag counts.
    """

    path: str
    size: int
    modified: int | None = None
    etag: str | None = None

    def same(self, other: "SourceFile") -> bool:
        """Whether these are one file with one content, as far as a listing can tell."""
        if self.path != other.path or self.size != other.size:
            return False
        if self.etag is not None and other.etag is not None:
            return self.etag == other.etag
        return self.modified == other.modified


def local_files(root: Path | str, pattern: str = "*") -> Iterator[SourceFile]:
    """The files below a folder whose relative path fits `pattern`, in any order.

    pattern: as in a shell, and a `*` also stands for `/`: `*.csv` finds `2024/01.csv`. Case counts.
    Raises NotFound: there is no such folder; an empty one is no error.
    """
    root = Path(root)
    if not root.is_dir():
        raise NotFound("there is no such folder; check the path, or whether it is mounted", path=str(root))
    for folder, _, names in os.walk(root):
        for name in names:
            file = Path(folder, name)
            path = file.relative_to(root).as_posix()
            if fnmatchcase(path, pattern):
                info = file.stat()
                yield SourceFile(path, info.st_size, info.st_mtime_ns)
