"""SliceBuffer: takes the rows of a slice from its pages to the files of its task.

Rows count once a later position covers them, so that a restart would resume after them; until then they wait here.
Pages that are still text are kept as text, and many small pages become columns together. For 2,000 slices of 5 records,
this reduced a task's CPU time from 2.3 to 0.55 ms per request.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from cdk.base.process.read_ahead import ReadAhead
from cdk.base.records.raw_json_lines import JsonLines, json_lines
from cdk.base.records.typed_json_lines import RecordType, joined
from cdk.base.values import Record
from cdk.lake.arrow.columns import ADDITIONAL, META, RESERVED
from cdk.lake.arrow.record_batches import RecordBatchBuilder, Runs
from cdk.lake.parquet.partitioning import without_empty
from cdk.lake.parquet.writer import DEFAULT_LIMITS, DataFile, Limits, TableWriter
from cdk.state.position import Done, Position
from cdk.streams.page import ReadPage
from cdk.sync.tasks.messages import Failure, SliceResult, SliceTask, WriteTarget


class TaskWriter:
    """The rows of one write target in a task, and the files that its slices share."""

    def __init__(self, target: WriteTarget, limits: Limits = DEFAULT_LIMITS) -> None:
        self._target, self.limits = target, limits
        self._rows = RecordBatchBuilder(
            target.columns,
            generation=target.generation,
            room=target.room,
            follows=target.follows,
            infers=target.infers,
            compared=target.compared,
        )
        self._texts: list[tuple[SliceResult, _Text]] = []
        self._gathered = 0
        self._shared = self.new()

    @property
    def grown(self) -> Mapping[str, tuple[pa.DataType, ...]]:
        """The columns that were added or widened; see RecordBatchBuilder."""
        return self._rows.grown

    @property
    def record_type(self) -> RecordType | None:
        """The type of records that can become columns without being decoded."""
        return self._rows.record_type

    @property
    def warning(self) -> str:
        """A warning about the rows; empty if there is none."""
        if self._rows.without_column is None:
            return ""
        field, owner = self._rows.without_column
        who = "the kit" if owner in RESERVED else repr(owner)
        return (
            f"{self._target.stream.name}: the field {field!r} gets no column, because {who} already has the column "
            f"of that name (case is ignored, blanks and the like become _): its values are stored in {ADDITIONAL}. "
            "To have them in a column, rename one of the two in the connector"
        )

    def new(self) -> TableWriter:
        """Return a writer of new files with the target's current columns."""
        target = self._target
        return TableWriter(target.root, self._rows.schema, target.bounded, target.partition_by, self.limits, new=True)

    def batch(self, records: Sequence[Record], runs: Runs, sources: Sequence[Record | None]) -> pa.RecordBatch:
        """Convert records of a slice to rows that are newer than its earlier ones.

        Raises what RecordBatchBuilder.batch raises.
        runs: per page, the number of the slice and its number of records. sources: per page, what brought its records.
        """
        self._flush()
        return without_empty(self._rows.batch(records, runs, sources), self._target.partition_by)

    def write(self, progress: SliceResult, batches: Sequence[pa.RecordBatch], texts: Sequence["_Text"]) -> None:
        """Write rows to the shared files. Rejected values in texts are counted when they are converted to rows."""
        self._shared.write(batches)
        for text in texts:
            self._texts.append((progress, text))
            self._gathered += len(text.lines)
            if self._gathered >= self.limits.gathered:
                self._flush()

    def close(self) -> list[DataFile]:
        """Finish the shared files, and return those with rows."""
        self._flush()
        return self._shared.close()

    def hand_over(self) -> None:
        """Start new shared files, because the finished ones were handed to the driver."""
        self._shared = self.new()

    def discard(self) -> None:
        """Delete the shared files, because the task failed."""
        self._shared.discard()

    def _flush(self) -> None:
        if not self._texts:
            return
        texts = self._texts
        runs = [(progress.number, len(text.lines)) for progress, text in texts]
        # The texts belong to several slices that count as read. If converting them fails, they stay in the list, so
        # that the task cannot close without them.
        batch = self._rows.batch(joined([text.lines for _, text in texts]), runs, [text.source for _, text in texts])
        self._texts, self._gathered = [], 0
        for (progress, _), count in zip(texts, rejected(batch, [size for _, size in runs]), strict=True):
            progress.rejected += count
            progress.warning = progress.warning or self.warning
        self._shared.write([without_empty(batch, self._target.partition_by)])


class _Text(Struct, frozen=True):
    """A page that is still text, and what brought its records."""

    lines: JsonLines
    source: Record | None


class _Waiting(Struct):
    """Rows that no position covers yet, and their counts."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    texts: list[_Text] = field(default_factory=list)
    """Pages that are still text, newer than `batches`."""
    gathered: int = 0
    """Number of records in `texts`."""
    bytes: int = 0
    """Size of `batches` and `texts` together."""
    rows: int = 0
    read: int = 0
    skipped: int = 0
    rejected: int = 0
    pages: int = 0


class SliceBuffer:
    """The rows of one slice, which wait here until a position covers them."""

    def __init__(self, slice_task: SliceTask, writer: TaskWriter) -> None:
        self.slice_task, self.progress = slice_task, SliceResult(slice_task.number)
        self.broken = False
        """Whether a record could not be written; later pages do not count then."""
        self.pages_read = self._pages_added = 0
        self.ahead: ReadAhead[object] | None = None
        """The requests for later pages that the slice's thread has sent ahead."""
        self._writer = writer
        self._waiting = _Waiting()
        self._own: TableWriter | None = None
        self._finished: list[TableWriter] = []

    def add(self, page: ReadPage) -> None:
        """Process the next page of the slice."""
        self._pages_added += 1
        if self.broken:
            return
        if page.restarted:
            self._drop()
            self.progress.restarted = True
        self.progress.warning = self.progress.warning or page.warning
        self.progress.doubt = self.progress.doubt or page.doubt
        self.progress.followed |= page.followed
        self.progress.may_have_missed |= page.moved
        waiting = self._waiting
        if page.records:
            try:
                self._hold(page.records, page.source)
            except Exception as error:  # noqa: BLE001 - a record that is not JSON ends only this slice
                self.broken, self.progress.failure = True, Failure.of(error)
                return
        waiting.read += len(page.records) + page.skipped
        waiting.skipped += page.skipped
        waiting.pages += bool(page.records or page.skipped)
        if page.position is not None:
            self._seal(page.position, page)
        elif waiting.bytes >= self._writer.limits.held_bytes:
            # Too much to hold in memory: written to a file of the slice's own, which counts once a position covers it.
            self._convert()
            self._own = self._own or self._writer.new()
            self._own.write(waiting.batches)
            waiting.batches, waiting.bytes = [], 0

    @property
    def unread(self) -> bool:
        """Whether pages that the slice's thread has read have not been added yet."""
        return self.pages_read != self._pages_added

    def own_files(self, *, ended: bool = True) -> list[DataFile]:
        """Finish the slice's own files, and return them. ended: drop the rows that still wait."""
        if ended:
            self._drop()
        return [file for writer in self._finished for file in writer.close()]

    def hand_over(self) -> SliceResult:
        """Return the progress since the last call, which the slice's files so far belong to, and reset the counts."""
        self._finished = []
        return self.progress.hand_over()

    def discard(self) -> None:
        """Delete the slice's own files."""
        self._drop()
        for writer in self._finished:
            writer.discard()

    def _hold(self, records: Sequence[Record], source: Record | None) -> None:
        """Add records to those that wait, as text or, if they are decoded, as rows.

        Raises what RecordBatchBuilder.batch raises.
        """
        waiting = self._waiting
        waiting.rows += len(records)
        lines = json_lines(records)
        if lines is not None and (size := lines.text_size) is not None:
            waiting.texts.append(_Text(lines, source))
            waiting.bytes += size
            waiting.gathered += len(records)
            if waiting.gathered >= self._writer.limits.gathered:
                self._convert()
            return
        # Waiting texts first: rows are numbered in the order of conversion, and of two equal ones the later one counts.
        self._convert()
        self._add_batch(self._writer.batch(records, [(self.slice_task.number, len(records))], [source]))

    def _convert(self) -> None:
        """Convert the waiting texts to rows, because a stream without positions may have any number of them."""
        waiting = self._waiting
        if waiting.texts:
            waiting.bytes -= sum(text.lines.text_size or 0 for text in waiting.texts)
            texts, waiting.texts, waiting.gathered = waiting.texts, [], 0
            runs = [(self.slice_task.number, len(text.lines)) for text in texts]
            self._add_batch(
                self._writer.batch(joined([text.lines for text in texts]), runs, [text.source for text in texts])
            )

    def _add_batch(self, batch: pa.RecordBatch) -> None:
        waiting = self._waiting
        waiting.batches.append(batch)
        # A new batch shares no buffers, so this equals `nbytes`, which visits each column and takes 3 us.
        waiting.bytes += batch.get_total_buffer_size()
        waiting.rejected += sum(rejected(batch, [batch.num_rows]))
        self.progress.warning = self.progress.warning or self._writer.warning

    def _seal(self, position: Position, page: ReadPage) -> None:
        progress, waiting = self.progress, self._waiting
        progress.rows += waiting.rows
        progress.read += waiting.read
        progress.skipped += waiting.skipped
        progress.rejected += waiting.rejected
        progress.pages += waiting.pages
        progress.positions = (*progress.positions, position) if isinstance(position, Done) else (position,)
        progress.edge = page.edge
        self._writer.write(progress, waiting.batches, waiting.texts)
        self._waiting = _Waiting()
        if self._own is not None:
            self._own.close()
            self._finished.append(self._own)
            self._own = None

    def _drop(self) -> None:
        """Drop the rows that wait."""
        self._waiting = _Waiting()
        if self._own is not None:
            self._own.discard()
            self._own = None


def rejected(batch: pa.RecordBatch, sizes: Sequence[int]) -> list[int]:
    """Return, for each part of a batch, the number of rows with values that did not fit their column.

    sizes: numbers of rows of the parts.
    """
    changes = batch.column(META).field("changes")
    if not len(changes.flatten()):
        return [0] * len(sizes)
    noted, counts, begin = pc.greater(pc.list_value_length(changes), 0), [], 0
    for size in sizes:
        counts.append(pc.sum(noted.slice(begin, size)).as_py() or 0)
        begin += size
    return counts
