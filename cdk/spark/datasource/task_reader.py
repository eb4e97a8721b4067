"""Distributes slices to Spark's input partitions, and reads a partition in a task as Arrow batches of table columns."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf

import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from cdk.base.errors import TransientError
from cdk.base.logs import FirstWarning
from cdk.base.run import RunScope
from cdk.base.secret_masking import Secrets
from cdk.base.times.clock import system_clock
from cdk.engine.boundary_dedup import read_without_boundary_duplicates
from cdk.engine.executors import Threads
from cdk.lake.arrow.columns import ColumnType, columns, table_schema
from cdk.lake.arrow.record_batches import RecordBatchBuilder
from cdk.rest.auth.tokens import IssuedToken, access_tokens, run_tokens, using_tokens
from cdk.rest.http.own_connections import limiting
from cdk.rest.limits.task_budgets import sharing
from cdk.rest.limits.task_share import UNSHARED, TaskShare
from cdk.spark.datasource.open_stream import OpenStream, masking
from cdk.state.slice import Slice
from cdk.streams.page import ReadPage
from cdk.streams.read_slice import read_slice
from cdk.streams.stream import Stream, StreamCopies

GENERATION = 0
"""The value of `_airbyte_generation_id`: generations belong to tables, where they count from 1."""

Keep = Callable[[Slice, ReadPage], ReadPage]
"""Returns the page without the records to leave out."""


class TaskSlices(Struct, frozen=True):
    """What one task reads; sent to the task.

    threads: maximum number of its slices, or of their pages, that it reads at once. tokens: the access tokens of the
    requests, by key. share: its part of the API's rate limits.
    """

    slices: Sequence[Slice] = ()
    threads: int = 1
    tokens: Mapping[str, IssuedToken] = field(default_factory=dict)
    share: TaskShare = UNSHARED


class TaskReader(Struct, frozen=True):
    """Reads a stream's slices in tasks; sent to each task with the stream and its columns.

    concurrency: maximum number of slices read at once, in all tasks together. tasks: how many tasks run at once.
    """

    stream: Stream
    declared: Mapping[str, ColumnType]
    secrets: Secrets
    concurrency: int
    tasks: int

    @classmethod
    def of(cls, opened: OpenStream, tasks: int, concurrency: int | None = None) -> "TaskReader":
        """Return the reader of an opened stream. concurrency: None: as its source says."""
        with masking(opened.secrets):
            declared = columns(opened.stream.json_schema())
            return cls(opened.stream, declared, opened.secrets, concurrency or opened.concurrency, tasks)

    @property
    def schema(self) -> StructType:
        """The columns that `sync` writes, as Spark types; all are nullable."""
        return from_arrow_schema(table_schema(self.declared))

    def distribute(self, slices: Sequence[Slice]) -> list[InputPartition]:
        """Distribute the slices round-robin to partitions, one for each task; each reads its share of them at once.

        Each partition has the access tokens of the stream, which are obtained here, so that tasks do not request the
        same tokens. The API's rate limits are divided among them, as if all ran at once.
        Raises CdkErrors.
        """
        if not slices:
            # Without any partition, Spark would make one of its own, which differs between its versions.
            return [InputPartition(TaskSlices())]
        # The duration of the read is unknown, so the tokens must have at least half of their lifetime left.
        tokens = access_tokens(self.stream, inf)
        most = min(self.concurrency, max(1, self.stream.max_concurrency or self.concurrency))
        task_count = 1 if self.stream.in_one_task else min(most, self.tasks, len(slices))
        threads = [len(range(n, most, task_count)) for n in range(task_count)]
        now = system_clock().timestamp()
        shares = [TaskShare((n,), task_count, now) for n in range(task_count)]
        return [
            InputPartition(TaskSlices(tuple(slices[n::task_count]), threads[n], tokens, shares[n]))
            for n in range(task_count)
        ]

    def batches(self, partition: InputPartition, keep: Keep = lambda _, page: page) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition's slices, one batch per page; pages of several slices are interleaved.

        Runs in a task; each attempt of the task starts from the beginning.

        Raises TransientError: when the source refuses its own page token after pages of the slice were returned.
        CredentialsError: when an access token has expired, and its refresh token is single-use.
        """
        rows, copies = RecordBatchBuilder(self.declared, generation=GENERATION), StreamCopies(self.stream)
        task: TaskSlices = partition.value
        delivered, warning = set[int](), FirstWarning()

        def read(numbered: tuple[int, Slice]) -> Iterator[ReadPage]:
            # No slice is read again for records that it holds back, so each returns all of its own.
            slice = replace(numbered[1], holds=False)
            # Only a state in exact form has digests of records; comparing with them costs a digest of each record.
            pages = read_without_boundary_duplicates if slice.edge is not None and slice.edge.keys else read_slice
            with copies.lent() as stream:
                yield from pages(stream, slice)

        # Spark reuses its workers: what a task learns of the API must not outlive the task.
        own_run = RunScope().working()
        with limiting(), masking(self.secrets), own_run, using_tokens(task.tokens, last=True), sharing(task.share):
            run_tokens().learn = self.secrets.add
            for (n, slice), page in Threads(task.threads)(iter(enumerate(task.slices)), read):
                if page.restarted and n in delivered:
                    # Spark already has the rows, so they would be duplicated.
                    why = "the source rejected its own page token in the middle of a slice; run the query again"
                    raise TransientError(why, stream=self.stream.name)
                warning(page.warning)
                if records := keep(slice, page).records:
                    delivered.add(n)
                    yield rows.batch(records)
