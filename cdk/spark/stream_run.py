"""One stream's part in a sync: plans its slices, takes their progress, commits rows and state."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from cdk.base.logs import logger
from cdk.base.values import Json
from cdk.spark.epoch import Failure, Progress, Target
from cdk.spark.files import DataFile
from cdk.spark.schema import columns, table_schema
from cdk.spark.tables import Saved, StreamTable
from cdk.state.position import Done
from cdk.state.slice import Slice
from cdk.state.wire import decode, encode
from cdk.streams.checkpoint import CheckpointReader
from cdk.streams.stream import Stream


class Status(StrEnum):
    """Where a stream's sync stands."""

    READING = "reading"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class StreamReport:
    """What became of a stream in a sync.

    read: records the source gave and that are covered by a commit. written: rows added to the table (for an overwrite:
    to the new generation). skipped: records left out because an earlier run had them. restarted: slices whose saved
    token the source refused, read again from their start. resumed: the sync continued an interrupted one.
    total: rows of this generation, over all its syncs.
    """

    name: str
    status: Status
    sync_mode: str
    write_mode: str
    read: int = 0
    written: int = 0
    skipped: int = 0
    restarted: int = 0
    slices: int = 0
    commits: int = 0
    total: int = 0
    resumed: bool = False
    failure: Failure | None = None

    @property
    def hidden(self) -> bool:
        """Whether this generation is still out of sight: an overwrite shows it once it is complete."""
        return self.write_mode == "overwrite" and self.status is not Status.DONE


class StreamRun:
    """A stream in a running sync. Belongs to the driver's thread."""

    def __init__(
        self, stream: Stream, root: Path, pipeline: str, sync_mode: str, write_mode: str, *, sync: str
    ) -> None:
        """Open the table and find out where to go on.

        sync: the id of the whole sync. A full refresh that an earlier sync completed is a new generation and reads
        from the beginning; one that was cut resumes; one that this sync completed before it was cut is done.
        Raises ConfigError and StateError of the table.
        """
        declared = columns(stream.json_schema())
        self.stream = stream
        self.table = StreamTable(root, pipeline, stream.name, table_schema(declared))
        before = self.table.saved
        self.saved, resumed = _go_on(before, sync_mode, write_mode, sync)
        if before is not None and before.records and before.sync_mode != sync_mode and write_mode == "append":
            logger.warning(
                "%s: its sync_mode was %s; as %s it is read from its start and added to the %d rows that are there",
                stream.name,
                before.sync_mode,
                sync_mode,
                before.records,
            )
        if not all((root / file.path).exists() for file in self.saved.pending):
            # VACUUM removes files that no version of the table names, these among them.
            logger.warning("%s: files of the interrupted sync are gone; reading from the start", stream.name)
            self.saved, resumed = Saved(sync_mode, write_mode, sync, self.saved.generation + 1), False
        self.target = Target(stream, root, declared, self.saved.generation)
        status = Status.DONE if self.saved.complete else Status.READING
        self.report = StreamReport(
            stream.name, status, sync_mode, write_mode, resumed=resumed, total=self.saved.records
        )
        state = decode(
            self.saved.state,
            path=f"state of {stream.name}",
            cursor_field=stream.cursor_field,
            partition_field=stream.partition_field,
        )
        self._reader: CheckpointReader = stream.checkpoint_reader(state)
        self._state = state
        self._committed = self.report
        self._again: deque[Slice] = deque()
        self._planned = False
        self._out = 0

    @property
    def active(self) -> bool:
        """Whether there is something left to read."""
        return self.report.status is Status.READING

    def next(self) -> Slice | None:
        """The next slice to hand out, None when there is none for now."""
        if not self.active:
            return None
        slice = self._again.popleft() if self._again else None
        if slice is None and not self._planned:
            try:
                slice = self._reader.next()
            except Exception as error:  # noqa: BLE001 - planning reads parents: it fails this stream and no other
                self.fail(Failure.of(error))
            self._planned = slice is None
        if slice is not None:
            self._out += 1
        return slice

    def untouched(self, slice: Slice) -> None:
        """Take back a slice that the epoch had no time for."""
        self._out -= 1
        self._again.append(slice)

    def take(self, slice: Slice, progress: Progress) -> None:
        """Take over how far a slice got."""
        self._out -= 1
        report = self.report
        for position in progress.positions:
            self._reader.observe(slice, position, progress.edge)
        last = progress.positions[-1] if progress.positions else None
        if last is not None:
            self.report = replace(
                report,
                read=report.read + progress.read,
                written=report.written + progress.rows,
                skipped=report.skipped + progress.skipped,
                restarted=report.restarted + progress.restarted,
                slices=report.slices + isinstance(last, Done),
                total=report.total + progress.rows,
            )
        if progress.failure is not None:
            self.fail(progress.failure)
        elif last is None:
            self._again.append(slice)
        elif not isinstance(last, Done):
            self._again.append(self._reader.resume(slice, last, progress.edge))

    def fail(self, failure: Failure) -> None:
        """End this stream's reading; what is covered is still committed."""
        if self.report.failure is None:
            logger.error("%s: %s", self.stream.name, failure.message)
            self.report = replace(self.report, status=Status.FAILED, failure=failure)

    def commit(self, files: Sequence[DataFile]) -> None:
        """Make the files and the state of their records one, and finish when nothing is left. Raises StateError.

        What is finished stays as it is.
        """
        if self.report.status is Status.DONE:
            return
        # Only asking the reader tells that nothing is left to plan; a slice it gives instead waits for the next epoch.
        if self.active and not self._out and not self._again:
            self._planned = False
            if (slice := self.next()) is not None:
                self.untouched(slice)
        finished = self.active and self._planned and not self._out and not self._again
        self._state = self._reader.get_checkpoint() or self._state
        saved = replace(self.saved, state=self._wire(), complete=finished, records=self.report.total)
        if self.saved.write_mode == "overwrite":
            self._commit_hidden(saved, files, finished=finished)
        else:
            self._commit_visible(saved, files)
        if finished:
            self.report = replace(self.report, status=Status.DONE)
        self._committed = self.report

    def refused(self, failure: Failure) -> None:
        """End this stream: its last commit was refused, and what it covered does not count."""
        # What went wrong before, in the source, is what a person needs to know first.
        self.report = replace(self._committed, status=self.report.status, failure=self.report.failure)
        self.fail(failure)

    def _commit_visible(self, saved: Saved, files: Sequence[DataFile]) -> None:
        if files or _changed(saved, self.table.saved):
            self._commit(saved, files)
        self.saved = saved

    def _commit_hidden(self, saved: Saved, files: Sequence[DataFile], *, finished: bool) -> None:
        """Keep a generation out of sight until it is whole; the commit that completes it replaces the old one."""
        pending = (*saved.pending, *files)
        if finished:
            self._commit(replace(saved, pending=()), pending, overwrite=True)
        elif files or _changed(saved, self.table.saved):
            self._commit(replace(saved, pending=pending))
        self.saved = replace(saved, pending=() if finished else pending)

    def _commit(self, saved: Saved, files: Sequence[DataFile] = (), *, overwrite: bool = False) -> None:
        self.table.commit(saved, files, overwrite=overwrite)
        self.report = replace(self.report, commits=self.report.commits + 1)

    def _wire(self) -> Json:
        stream = self.stream
        return encode(self._state, incremental=stream.incremental, cursor_field=stream.cursor_field, exact=True)


def _go_on(saved: Saved | None, sync_mode: str, write_mode: str, sync: str) -> tuple[Saved, bool]:
    """What this sync starts from, and whether that is the rest of an interrupted one."""
    if saved is None:
        return Saved(sync_mode, write_mode, sync), False
    if sync_mode == "incremental" == saved.sync_mode:
        return replace(saved, write_mode=write_mode, sync=sync, complete=False), not saved.complete
    same = (saved.sync_mode, saved.write_mode) == (sync_mode, write_mode)
    if same and (not saved.complete or saved.sync == sync):
        return replace(saved, sync=sync), True
    return Saved(sync_mode, write_mode, sync, generation=saved.generation + 1), False


def _changed(saved: Saved, before: Saved | None) -> bool:
    return before is None or _facts(saved) != _facts(before)


def _facts(saved: Saved) -> Mapping[str, Json]:
    return {"state": saved.state, "complete": saved.complete, "generation": saved.generation, "mode": saved.sync_mode}
