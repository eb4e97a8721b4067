"""Slices as Spark's input partitions, and what a task makes of one: Arrow batches with the columns of a table."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from cdk.base.errors import TransientError
from cdk.base.run import RunScope
from cdk.base.secret_masking import Secrets
from cdk.base.times.clock import system_clock
from cdk.engine.boundary_dedup import read_without_boundary_duplicates
from cdk.engine.executors import Threads
from cdk.lake.arrow.columns import ColumnType, columns, table_schema
from cdk.lake.arrow.record_batches import RecordBatchBuilder
from cdk.rest.auth.tokens import IssuedToken, access_tokens, holding, run_tokens
from cdk.rest.http.own_connections import limiting
from cdk.rest.limits.task_budgets import sharing
from cdk.rest.limits.task_share import UNSHARED, TaskShare
from cdk.spark.cluster.task_logs import masked_lines
from cdk.spark.datasource.open_stream import OpenStream, masking
from cdk.state.slice import Slice
from cdk.streams.read_slice import ReadPage, read_slice
from cdk.streams.stream import Stream, StreamCopies

GENERATION = 0
"""What `_airbyte_generation_id` holds: generations are those of a table, and count from 1."""

Keep = Callable[[Slice, ReadPage], ReadPage]
"""What of a page counts."""


@dataclass(frozen=True, slots=True)
class Hand:
    """What one task reads, as it travels there.

    threads: how many of its slices, or of their pages, it reads at once, at most. tokens: the access tokens of the
    requests, by key. share: its part of what the API allows.
    """

    slices: Sequence[Slice] = ()
    threads: int = 1
    tokens: Mapping[str, IssuedToken] = field(default_factory=dict)
    share: TaskShare = UNSHARED


@dataclass(frozen=True)
class TaskReader:
    """A stream and the columns of its rows, as they travel to a task.

    concurrency: slices read at once, at most, in all tasks together. tasks: how many tasks run at once.
    """

    stream: Stream
    declared: Mapping[str, ColumnType]
    secrets: Secrets
    concurrency: int
    tasks: int

    @classmethod
    def of(cls, opened: OpenStream, tasks: int, concurrency: int | None = None) -> "TaskReader":
        """The reading of a stream that was opened. concurrency: None: what its source says."""
        with masking(opened.secrets):
            declared = columns(opened.stream.json_schema())
            return cls(opened.stream, declared, opened.secrets, concurrency or opened.concurrency, tasks)

    @property
    def schema(self) -> StructType:
        """The columns as `sync` writes them, in Spark's words; all are nullable."""
        return from_arrow_schema(table_schema(self.declared))

    def distribute(self, slices: Sequence[Slice]) -> list[InputPartition]:
        """The slices as a partition for each task, one to each in turn; it reads its part of those at once.

        Each has the access tokens of the stream, which are obtained here: no task asks for what another has asked for.
        What the API allows is divided among them, as if all ran at once.
        Raises CdkErrors.
        """
        if not slices:
            # Spark would make a partition of its own of none, and a reader gets another one in each version.
            return [InputPartition(Hand())]
        # It is unknown how long the read takes: the tokens have at least half of their lives before them.
        tokens = access_tokens(self.stream, inf)
        most = min(self.concurrency, max(1, self.stream.max_concurrency or self.concurrency))
        hands = 1 if self.stream.in_one_task else min(most, self.tasks, len(slices))
        threads = [len(range(n, most, hands)) for n in range(hands)]
        now = system_clock().timestamp()
        shares = [TaskShare((n,), hands, now) for n in range(hands)]
        return [InputPartition(Hand(tuple(slices[n::hands]), threads[n], tokens, shares[n])) for n in range(hands)]

    def batches(self, partition: InputPartition, keep: Keep = lambda _, page: page) -> Iterator[pa.RecordBatch]:
        """The rows of a partition's slices, a batch a page; pages of several slices mix.

        Runs in a task, for each of its attempts from the start.

        Raises TransientError: the source refused a saved page token after it had given pages behind it.
        CredentialsError: an access token ended, and its refresh token works once.
        """
        rows, copies = RecordBatchBuilder(self.declared, generation=GENERATION), StreamCopies(self.stream)
        hand: Hand = partition.value
        delivered = set[int]()

        def read(numbered: tuple[int, Slice]) -> Iterator[ReadPage]:
            # Only a state of exact form remembers records; looking for them costs a digest of each.
            edge = numbered[1].edge
            pages = read_without_boundary_duplicates if edge is not None and edge.keys else read_slice
            with copies.lent() as stream:
                yield from pages(stream, numbered[1])

        # Spark's workers live on: what a task keeps of the API is for this task.
        own_run = RunScope().working()
        masked = (masking(self.secrets), masked_lines(self.secrets))
        with limiting(), masked[0], masked[1], own_run, holding(hand.tokens, last=True), sharing(hand.share):
            run_tokens().learn = self.secrets.add
            for (n, slice), page in Threads(hand.threads)(iter(enumerate(hand.slices)), read):
                if page.restarted and n in delivered:
                    # Spark has the rows already, and they would come again.
                    raise TransientError(
                        "the source refused its own page token in the middle of a slice; run the query again",
                        stream=self.stream.name,
                    )
                if records := keep(slice, page).records:
                    delivered.add(n)
                    yield rows.batch(records)
