"""Writer of a table's Parquet files; runs where the records are read."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from uuid import uuid4

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct, field

from cdk.lake.arrow.cast import cast_batch
from cdk.lake.arrow.columns import RAW_ID
from cdk.lake.parquet.partitioning import PartitionValues, split
from cdk.lake.storage.folder import Folder, as_folder

_LONGEST = 64
"""Longer strings get no bounds in the log: they would make up most of it."""

COUNTED = 100
"""Up to this many columns of a file, the nulls of every column are counted; more would bloat the log as well."""


class Limits(Struct, frozen=True):
    """Limits at which the writer flushes buffered rows and closes files."""

    group_rows: int = 64_000
    """Rows that fill a row group."""
    group_bytes: int = 32 * 2**20
    """Bytes that fill a row group."""
    file_bytes: int = 256 * 2**20
    """A file ends with the row group that reaches this size."""
    partitions_bytes: int = 64 * 2**20
    """Bytes that all partitions together may buffer after a batch; the fullest ones are flushed first."""
    partitions: int = 1000
    """Maximum number of partitions that buffer rows."""
    open_files: int = 64
    """Maximum number of partitions with an open file."""
    gathered: int = 1_000
    """Records of undecoded pages that are converted to columns at once."""
    held_bytes: int = 64 * 2**20
    """Bytes that a slice may hold in memory before its source reports a position."""


DEFAULT_LIMITS = Limits()


class DataFile(Struct, frozen=True):
    """A finished file that no version of the table names yet."""

    path: str
    """Path relative to the table."""
    size: int
    rows: int
    """Row count from its footer."""
    modified: int
    """When it was written, in milliseconds since 1970."""
    stats: str = ""
    """Statistics for Delta's log, JSON."""
    partition: PartitionValues = field(default_factory=dict)
    """The value that all its rows have in each partition column, spelled as in Delta's log."""
    last_id: str = ""
    """The greatest id of its rows if all of them were just read; empty if they may have been in the table before."""

    def nulls_of(self, key: str) -> int:
        """Return the number of rows without a value in a column of the key: all rows if the file lacks the column."""
        if key in self.partition:
            return self.rows if self.partition[key] is None else 0
        return self.nulls.get(key, self.rows)

    @property
    def nulls(self) -> Mapping[str, int]:
        """The number of rows without a value, for each column whose nulls are counted; see `stats_of`."""
        counts: Mapping[str, int] = orjson.loads(self.stats)["nullCount"]
        return counts


class TableWriter:
    """Writes batches to new files of a table; the files are invisible until a commit names them.

    The writer gathers small pages into row groups. It closes a file when it is large enough, or when a batch has
    columns that the file lacks. A partitioned table gets separate files for each partition; when too many are open, the
    writer closes the least recently written one. All files are written directly to the table's folder, because a
    partition value may contain characters that a folder name cannot. Not thread-safe.
    """

    def __init__(
        self,
        root: Folder | Path,
        schema: pa.Schema,
        bounded: Collection[str] = (),
        partition_by: Sequence[str] = (),
        limits: Limits = DEFAULT_LIMITS,
        *,
        new: bool = False,
    ) -> None:
        """Write to `root`. bounded: columns whose bounds go into the log. partition_by: the partition columns.

        new: whether all rows were just read.
        """
        self._root, self._schema, self._by = as_folder(root), schema, tuple(partition_by)
        self._limits, self._new = limits, new
        # Delta has no bounds for partition columns: the partition is their value.
        self._bounded = [name for name in bounded if name not in self._by]
        self._buffered: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        # Ordered by last write, least recently written first.
        self._parts: dict[tuple[str | None, ...], _PartWriter] = {}
        self._files: list[DataFile] = []

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Add rows. A batch has the writer's schema, possibly with more columns at the end or without the last ones.

        Rows whose columns have another type are written to separate files.

        Raises ConfigError and TransientError from a store, OSError from a disk; so does `close`.
        """
        for batch in batches:
            if not batch.num_rows:
                continue
            if not self._by:
                self._part(()).write(batch)
                continue
            if not _same_types(batch.schema, self._schema):
                self._split()
                self._schema = batch.schema
            elif len(batch.schema) > len(self._schema):
                self._schema = batch.schema
            self._buffered.append(batch)
            self._rows += batch.num_rows
            self._bytes += batch.nbytes
            if self._rows >= self._limits.group_rows or self._bytes >= self._limits.group_bytes:
                self._split()

    def close(self) -> list[DataFile]:
        """Finish and return the files; once this returns, their content survives a power failure."""
        self._split()
        for texts in list(self._parts):
            self._finish(texts)
        return self._files

    def discard(self) -> None:
        """Remove all files that this writer has written, including unfinished ones."""
        for part in self._parts.values():
            part.discard()
        _delete(self._root, [file.path for file in self._files])

    def _split(self) -> None:
        """Split the buffered rows by partition: many pages at once, as a page has few rows of each partition."""
        if not self._buffered:
            return
        fitted = [cast_batch(batch, self._schema) for batch in self._buffered]
        self._buffered, self._rows, self._bytes = [], 0, 0
        for batch in pa.Table.from_batches(fitted, self._schema).combine_chunks().to_batches():
            for texts, rows in split(batch, self._by):
                self._part(texts).write(rows)
                self._limit_open_files()
        buffered_bytes = sum(part.buffered_bytes for part in self._parts.values())
        # The fullest first: larger row groups compress better.
        for part in sorted(self._parts.values(), key=lambda part: part.buffered_bytes, reverse=True):
            if buffered_bytes <= self._limits.partitions_bytes:
                break
            buffered_bytes -= part.buffered_bytes
            part.flush()
            self._limit_open_files()

    def _limit_open_files(self) -> None:
        open_parts = [texts for texts, part in self._parts.items() if part.is_open]
        if len(open_parts) > self._limits.open_files:
            self._finish(open_parts[0])

    def _part(self, texts: tuple[str | None, ...]) -> "_PartWriter":
        part = self._parts.pop(texts, None)
        if part is None:
            if len(self._parts) >= self._limits.partitions:
                self._finish(next(iter(self._parts)))
            partition = dict(zip(self._by, texts, strict=True))
            part = _PartWriter(self._root, self._schema, self._bounded, partition, self._limits, new=self._new)
        self._parts[texts] = part
        return part

    def _finish(self, texts: tuple[str | None, ...]) -> None:
        self._files += self._parts[texts].close()
        del self._parts[texts]


class _PartWriter:
    """Writes the rows of one partition, or of an unpartitioned table, file after file."""

    def __init__(
        self,
        root: Folder,
        schema: pa.Schema,
        bounded: Collection[str],
        partition: PartitionValues,
        limits: Limits,
        *,
        new: bool,
    ) -> None:
        self._root, self._schema, self._bounded, self._partition = root, schema, bounded, partition
        self._limits, self._new = limits, new
        self._footers: list[pq.FileMetaData] = []
        self._buffered: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._writer: pq.ParquetWriter | None = None
        self._sink: pa.NativeFile | None = None
        self._name = ""
        self._files: list[DataFile] = []

    @property
    def buffered_bytes(self) -> int:
        """Bytes of the buffered rows."""
        return self._bytes

    @property
    def is_open(self) -> bool:
        """Whether a file is open."""
        return self._writer is not None

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_columns > len(self._schema) or not _same_types(batch.schema, self._schema):
            # The buffered rows have the columns of the file that ends here.
            self.flush()
            self._finish()
            self._schema = batch.schema
        if batch.num_columns < len(self._schema):
            batch = cast_batch(batch, self._schema)
        self._buffered.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= self._limits.group_rows or self._bytes >= self._limits.group_bytes:
            self.flush()

    def close(self) -> list[DataFile]:
        self.flush()
        self._finish()
        return self._files

    def discard(self) -> None:
        for open_file in (self._writer, self._sink):
            if open_file is not None:
                # A full disk refuses the end of the file, too; a second close misses the footer: RuntimeError.
                with suppress(OSError, pa.ArrowException, RuntimeError):
                    open_file.close()
        _delete(self._root, [*(file.path for file in self._files), *([self._name] if self._name else [])])

    def flush(self) -> None:
        """Write the buffered rows as a row group."""
        if not self._buffered:
            return
        with self._root.explaining():
            if self._writer is None or self._sink is None:
                self._name = f"part-{uuid4().hex}.parquet"
                self._sink = self._root.open(self._name)
                self._writer = pq.ParquetWriter(
                    self._sink, self._schema, compression="zstd", metadata_collector=self._footers
                )
            self._writer.write_table(pa.Table.from_batches(self._buffered, self._schema), row_group_size=self._rows)
        self._buffered, self._rows, self._bytes = [], 0, 0
        if self._sink.tell() >= self._limits.file_bytes:
            self._finish()

    def _finish(self) -> None:
        if self._writer is None or self._sink is None:
            return
        with self._root.explaining():
            self._writer.close()
            self._sink.close()
        info = self._root.make_durable(self._name)
        footer = self._footers.pop()
        stats, last_id = stats_of(footer, self._bounded), _last_id(footer) if self._new else ""
        self._files.append(
            DataFile(self._name, info.size, footer.num_rows, info.modified, stats, self._partition, last_id)
        )
        self._writer = self._sink = None
        self._name = ""


def _delete(root: Folder, names: Iterable[str]) -> None:
    for name in names:
        # If the folder is no longer writable, the original error is the one to report.
        with suppress(OSError):
            root.delete(name)


def _same_types(first: pa.Schema, second: pa.Schema) -> bool:
    """Whether the columns that both schemas have are of the same types. By name, one is a prefix of the other."""
    return bool(first.equals(second)) or all(a.type == b.type for a, b in zip(first, second, strict=False))


def stats_of(metadata: pq.FileMetaData, names: Collection[str]) -> str:
    """Return the statistics of a Parquet file as JSON: its row count, and the bounds of the columns in `names`.

    Integers, strings and dates have bounds. Nulls are counted for all columns without nested fields, or only for the
    columns in `names` if the file has more than COUNTED columns. Delta protocol: Per-file Statistics.
    """
    counted = metadata.num_columns <= COUNTED
    low: dict[str, object] = {}
    high: dict[str, object] = {}
    nulls: dict[str, int] = {}
    for column in range(metadata.num_columns):
        leaf = metadata.schema.column(column)
        path = leaf.path
        # A field `b` in a column `a` has the same path as a column `a.b`. All columns are nullable, nested ones too.
        nested = leaf.max_definition_level > 1 or leaf.max_repetition_level > 0
        if nested or not (counted or path in names) or not metadata.num_row_groups:
            continue
        groups = [metadata.row_group(n).column(column).statistics for n in range(metadata.num_row_groups)]
        if any(group is None or not group.has_null_count for group in groups):
            continue
        nulls[path] = sum(group.null_count for group in groups)
        if path not in names:
            continue
        ranges = [(group.min, group.max) for group in groups if group.has_min_max]
        bounded = all(group.has_min_max or group.num_values == 0 for group in groups)
        if ranges and bounded and all(_is_comparable(value) for pair in ranges for value in pair):
            low[path], high[path] = min(pair[0] for pair in ranges), max(pair[1] for pair in ranges)
    return orjson.dumps(
        {"numRecords": metadata.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}
    ).decode()


def _last_id(metadata: pq.FileMetaData) -> str:
    """Return the greatest row id in a Parquet file; empty if it has none."""
    groups = [metadata.row_group(n) for n in range(metadata.num_row_groups)]
    columns = [group.column(n) for group in groups for n in range(metadata.num_columns)]
    bounds = [column.statistics for column in columns if column.path_in_schema == RAW_ID]
    return max((bound.max for bound in bounds if bound is not None and bound.has_min_max), default="")


def _is_comparable(value: object) -> bool:
    """Whether all readers interpret a bound the same way. Compares exact types: a datetime is a date, but differs."""
    return type(value) in (int, date) or (type(value) is str and len(value) <= _LONGEST)
