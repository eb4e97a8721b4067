"""Parquet files of a table, written where the records are read."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

_GROUP_ROWS = 64_000
_GROUP_BYTES = 32 * 2**20
_FILE_BYTES = 256 * 2**20


@dataclass(frozen=True)
class DataFile:
    """A finished file. path: relative to the table. modified: milliseconds since 1970."""

    path: str
    size: int
    rows: int
    modified: int


class TableWriter:
    """Writes batches into new files of a table; nobody sees them before a commit names them.

    Small pages are gathered into row groups; a file is closed when it is large enough. Not thread-safe.
    """

    def __init__(self, root: Path, schema: pa.Schema) -> None:
        self._root, self._schema = root, schema
        self._gathered: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._writer: pq.ParquetWriter | None = None
        self._path: Path | None = None
        self._written = 0
        self._files: list[DataFile] = []

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Add rows."""
        for batch in batches:
            if batch.num_rows:
                self._gathered.append(batch)
                self._rows += batch.num_rows
                self._bytes += batch.nbytes
                if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
                    self._flush()

    def close(self) -> list[DataFile]:
        """Finish and return the files; their content is on the disk when this returns."""
        self._flush()
        self._finish()
        return self._files

    def discard(self) -> None:
        """Remove what was written."""
        if self._writer is not None:
            with suppress(OSError, pa.ArrowException):  # a full disk refuses the end of the file as well
                self._writer.close()
        paths = [self._root / file.path for file in self._files]
        for path in [*paths, *([self._path] if self._path else [])]:
            path.unlink(missing_ok=True)

    def _flush(self) -> None:
        if not self._gathered:
            return
        if self._writer is None:
            self._path = self._root / f"part-{uuid4().hex}.parquet"
            self._writer = pq.ParquetWriter(self._path, self._schema, compression="zstd")
        self._writer.write_table(pa.Table.from_batches(self._gathered, self._schema), row_group_size=self._rows)
        self._written += self._rows
        self._gathered, self._rows, self._bytes = [], 0, 0
        assert self._path is not None
        if self._path.stat().st_size >= _FILE_BYTES:
            self._finish()

    def _finish(self) -> None:
        if self._writer is None or self._path is None:
            return
        self._writer.close()
        sync_to_disk(self._path)
        stat = self._path.stat()
        self._files.append(DataFile(self._path.name, stat.st_size, self._written, int(stat.st_mtime * 1000)))
        self._writer = self._path = None
        self._written = 0


def sync_to_disk(path: Path) -> None:
    """Make a file's content, and its name in the folder, survive a power failure."""
    for place in (path, path.parent):
        handle = os.open(place, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
