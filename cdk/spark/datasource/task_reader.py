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
from cdk.engine.boundary_dedup import read_without_boundary_duplicates
from cdk.lake.arrow.columns import ColumnType, columns, table_schema
from cdk.lake.arrow.record_batches import RecordBatchBuilder
from cdk.rest.auth.tokens import IssuedToken, access_tokens, holding, run_tokens
from cdk.spark.datasource.open_stream import OpenStream, masking
from cdk.state.slice import Slice
from cdk.streams.read_slice import ReadPage, read_slice
from cdk.streams.stream import Stream

GENERATION = 0
"""What `_airbyte_generation_id` holds: generations are those of a table, and count from 1."""

Keep = Callable[[Slice, ReadPage], ReadPage]
"""What of a page counts."""


@dataclass(frozen=True, slots=True)
class Hand:
    """What one task reads, as it travels there. tokens: the access tokens of the requests, by key."""

    slices: Sequence[Slice] = ()
    tokens: Mapping[str, IssuedToken] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskReader:
    """A stream and the columns of its rows, as they travel to a task."""

    stream: Stream
    declared: Mapping[str, ColumnType]
    secrets: Secrets

    @classmethod
    def of(cls, opened: OpenStream) -> "TaskReader":
        """The reading of a stream that was opened."""
        with masking(opened.secrets):
            return cls(opened.stream, columns(opened.stream.json_schema()), opened.secrets)

    @property
    def schema(self) -> StructType:
        """The columns as `sync` writes them, in Spark's words; all are nullable."""
        return from_arrow_schema(table_schema(self.declared))

    def distribute(self, slices: Sequence[Slice], hands: int) -> list[InputPartition]:
        """The slices as at most `hands` partitions, one to each in turn, so that no more are read at once.

        Each has the access tokens of the stream, which are obtained here: no task asks for what another has asked for.
        Raises CdkErrors.
        """
        if not slices:
            # Spark would make a partition of its own of none, and a reader gets another one in each version.
            return [InputPartition(Hand())]
        # Nobody knows how long the read takes: the tokens have at least half of their lives before them.
        tokens = access_tokens(self.stream, inf)
        return [InputPartition(Hand(tuple(slices[n::hands]), tokens)) for n in range(min(hands, len(slices)))]

    def batches(self, partition: InputPartition, keep: Keep = lambda _, page: page) -> Iterator[pa.RecordBatch]:
        """The rows of a partition's slices, a batch a page. Runs in a task, for each of its attempts from the start.

        Raises TransientError: the source refused a saved page token after it had given pages behind it.
        CredentialsError: an access token ended, and its refresh token works once.
        """
        rows = RecordBatchBuilder(self.declared, generation=GENERATION)
        hand: Hand = partition.value
        # Spark's workers live on: what a task keeps of the API is for this task.
        with masking(self.secrets), RunScope().working(), holding(hand.tokens, last=True):
            run_tokens().learn = self.secrets.add
            for slice in hand.slices:
                delivered = False
                # Only a state of exact form remembers records; looking for them costs a digest of each.
                read = read_without_boundary_duplicates if slice.edge is not None and slice.edge.keys else read_slice
                for page in read(self.stream, slice):
                    if page.restarted and delivered:
                        # Spark has the rows already, and they would come again.
                        raise TransientError(
                            "the source refused its own page token in the middle of a slice; run the query again",
                            stream=self.stream.name,
                        )
                    if records := keep(slice, page).records:
                        delivered = True
                        yield rows.batch(records)
