"""ManifestStream: a stream defined by a manifest."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Self, TypeVar

from msgspec.structs import replace

from cdk.base.errors import BadState, ManifestError
from cdk.base.times.clock import Clock
from cdk.base.values import JsonObject, JsonSchema, JsonValue, as_object
from cdk.declarative.interpolation.errors import ExpressionError
from cdk.declarative.model.context import as_it_is
from cdk.declarative.model.declared_stream import DeclaredStream
from cdk.declarative.model.stream_plug_points import Incremental, SliceReader
from cdk.rest.auth.tokens import IssuedToken
from cdk.state.position import Checkpoint, Edge, Position
from cdk.state.slice import WHOLE, Partition, Slice
from cdk.state.stored_positions import StoredPositions
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint.parent_state import ParentState, without_states
from cdk.streams.checkpoint.reader import CheckpointReader, PassingReader
from cdk.streams.checkpoint.repeated_records import merged, moved
from cdk.streams.datetime_cursor import DatetimeCursor
from cdk.streams.page import Item, Token
from cdk.streams.stream import Stream

T = TypeVar("T")


class ManifestStream(DeclaredStream):
    """A stream with a router's partitions, a cursor's windows and a retriever's pages. Built by `DeclarativeStream`.

    reader: reads its slices. issue: returns the access tokens of its requests, for that many seconds.
    """

    def __init__(
        self,
        name: str,
        reader: SliceReader,
        *,
        config: Mapping[str, JsonValue],
        clock: Clock,
        schema: Callable[[], JsonSchema],
        primary_key: Sequence[str | Sequence[str]] = (),
        incremental: Incremental | None = None,
        migrate: Sequence[Callable[[JsonValue], JsonValue]] = (),
        requested: Callable[[], JsonValue] = lambda: None,
    ) -> None:
        super().__init__(config)
        self.name, self.primary_key = name, primary_key
        self.reader, self._clock, self._schema, self._migrate = reader, clock, schema, migrate
        self._incremental, self._requested = incremental, requested
        self.issue: Callable[[float], Mapping[str, IssuedToken]] = lambda _: {}
        self._located: Callable[[ManifestError], ManifestError] = as_it_is
        if incremental is not None:
            self.cursor, self.cursor_field = incremental.cursor, incremental.cursor.field
            self.supports_checkpointing = True
        self.partitioned = reader.router is not None
        self.grouped = reader.router is not None and reader.router.shares_cursor
        self.has_parents = reader.router is not None and bool(reader.router.parents)

    @property
    def empty_state(self) -> JsonValue:
        """The state of a stream that has read nothing: the start of its cursor."""
        if self._incremental is None:
            return {}
        if self.partitioned:
            shared = self._incremental.shared
            return {"use_global_cursor": shared, **({} if shared else {"states": []}), "lookback_window": 0}
        return {self._incremental.cursor.field: self._incremental.cursor.start}

    @property
    def requested(self) -> JsonValue:
        return self._requested()

    def locate(self, located: Callable[[ManifestError], ManifestError]) -> None:
        self._located = located

    def access_tokens(self, seconds: float) -> Mapping[str, IssuedToken]:
        return self.issue(seconds)

    def conditional(self) -> Self:
        return self

    def json_schema(self) -> JsonSchema:
        """Return the schema that the manifest declares."""
        return self._schema()

    def now(self) -> datetime:
        return self._clock()

    def check_token(self, token: Token) -> None:
        key = self.reader.token_key
        if key is not None and key not in token:
            raise BadState(f"state of {self.name}", dict(token), f"a page token under {key!r}", stream=self.name)

    def partitions_since(self, parents: Mapping[str, StreamState]) -> Iterable[Partition | ParentState]:
        return [WHOLE] if self.reader.router is None else self._locating_errors(self.reader.router.partitions(parents))

    def _locating_errors(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items; add the line in the manifest to the error of an expression that fails on a value."""
        try:
            yield from items
        except ExpressionError as error:
            raise self._located(error) from error

    def _partitions_from(self, state: StreamState) -> Iterable[Partition | ParentState]:
        router = self.reader.router
        if router is None or not router.shares_cursor or state.shares_cursor:
            return super()._partitions_from(state)
        return router.resuming(map(self.restored, filter(None, state.positions))).partitions(state.parents)

    def partitions(self) -> Iterable[Partition]:
        return without_states(self.partitions_since({}))

    def read_records(self, slice: Slice) -> Iterator[Item]:
        return self._locating_errors(self.reader.read(slice))

    def checkpoint_reader(self, state: StreamState) -> CheckpointReader:
        if self._incremental is None:
            return super().checkpoint_reader(state)
        state = self._with_shared_cursor(self._incremental, state)
        return _AirbyteStateReader(super().checkpoint_reader(state), self._incremental, state, self)

    def starting_from(self, state: StreamState) -> StreamState:
        if self._incremental is not None:
            state = self._with_lookback(self._with_shared_cursor(self._incremental, state))
        return super().starting_from(state)

    @staticmethod
    def _with_shared_cursor(incremental: Incremental, state: StreamState) -> StreamState:
        """Return the state with the greatest value of all partitions as the cursor of all, if they share one."""
        if not incremental.shared or WHOLE in state.positions or not (saved := state.extra.get("state")):
            return state
        return state.with_(WHOLE, Checkpoint(dict(saved)))

    def _with_lookback(self, state: StreamState) -> StreamState:
        """Return the state with the shared cursor moved back by its lookback window.

        The partition that was read last reached the cursor's value: records that the others received meanwhile lie
        before it, by at most the duration of that read. A state with an edge was written by this kit, and its value is
        no later than the start of that read, so it stays.
        """
        shared, seconds = state.positions.get(WHOLE), state.extra.get("lookback_window")
        if not self.partitioned or self.cursor is None or shared is None or shared.cursor is None:
            return state
        if shared.edge is not None or not isinstance(seconds, int) or self.cursor.field not in shared.cursor:
            return state
        value = self.cursor.back(shared.cursor[self.cursor.field], timedelta(seconds=seconds))
        return state.with_(WHOLE, Checkpoint({**shared.cursor, self.cursor.field: value}))

    def migrate_state(self, blob: JsonValue) -> JsonValue:
        """Return an old form of the state in today's form, converted by the manifest's migrations."""
        for migrate in self._migrate:
            blob = migrate(blob)
        return blob

    def resuming_pages(self) -> "ManifestStream":
        """Return a copy that reports where pages resume; Airbyte's messages have no state for that without a cursor."""
        other = self.beside()
        other.supports_checkpointing = True
        return other

    @property
    def resumes_pages(self) -> bool:
        """Whether it is such a copy, of a stream without a cursor."""
        return self._incremental is None and self.supports_checkpointing

    def __reduce__(self) -> tuple[Callable[[], Stream], tuple[()]]:
        if self.reload is None:
            raise not_picklable(self.name)
        return partial(_resuming_pages, self.reload) if self.resumes_pages else self.reload, ()


def not_picklable(stream: str) -> TypeError:
    """Return the error for sending a stream to another process that its source cannot build again there."""
    return TypeError(f"{stream}: only a stream of a source can be sent to another process")


def _resuming_pages(reload: Callable[[], Stream]) -> Stream:
    return reload().resuming_pages()


class _AirbyteStateReader(PassingReader):
    """A reader that also maintains the fields that existing connectors expect in the state of an incremental substream.

    `state` is the greatest cursor value of all partitions and `lookback_window` the duration of the read in seconds;
    both are written when the read is complete and has met a record with a cursor value. `parent_state` is there once a
    partition has a position.
    """

    def __init__(
        self, inner: CheckpointReader, incremental: Incremental, state: StreamState, stream: ManifestStream
    ) -> None:
        super().__init__(inner)
        self._incremental, self._stream, self._cursor = incremental, stream, incremental.cursor
        self._started = stream.now()
        self._last, self._complete_state_returned, self._any_cursor_value = state, False, False
        self._extra = {"lookback_window": 0, **state.extra} if stream.partitioned else dict(state.extra)
        self._shared = state.positions.get(WHOLE)
        saved = None if self._shared is None else self._shared.cursor
        known = self._extra.get("state") or {} if saved is None else saved
        self._greatest: object = known.get(self._cursor.field)
        self._before = {} if self._greatest is not None else state.positions
        """The positions of a state without a common value; those of the partitions that are read count for it."""
        self._resumed: object = None
        """The greatest value from which partitions of such a state were resumed."""

    def observe(self, slice: Slice, position: Position, edge: Edge | None = None) -> None:
        super().observe(slice, position, edge)
        if not self._stream.partitioned:
            return
        self._note_resumed(slice.partition)
        if edge is None or edge.value is None:
            return
        self._any_cursor_value = True
        if edge.value != self._greatest:
            known = [value for value in (self._greatest, edge.value) if value is not None]
            self._greatest = self._cursor.greatest(known)

    def _note_resumed(self, partition: Partition) -> None:
        position = self._before.get(partition)
        if position is not None and position.cursor is not None:
            values = [self._resumed, position.cursor.get(self._cursor.field)]
            self._resumed = self._cursor.greatest([value for value in values if value is not None])

    def forget_missing(self, now: datetime, after: timedelta) -> int:
        # A partition that comes back would start from the shared cursor instead of its own start.
        return 0 if self._incremental.shared else super().forget_missing(now, after)

    def get_checkpoint(self) -> StreamState | None:
        state = super().get_checkpoint()
        if not self._stream.partitioned:
            return state
        if state is not None:
            self._last = state
        if not self.finished:
            return None if state is None else self._unfinished(state)
        if self._complete_state_returned and state is None:
            return None
        self._complete_state_returned = True
        return self._complete(self._last)

    def _unfinished(self, state: StreamState) -> StreamState:
        """Return the state while partitions are being read."""
        return replace(self._with_initial_cursor(state), extra={**self._extra, **self._no_parents(state)})

    def _no_parents(self, state: StreamState) -> JsonObject:
        """Return the entry for parents that are not followed: empty, as in Airbyte; no entry if there are none."""
        return {"parent_state": {}} if self._stream.has_parents and state.positions and not state.parents else {}

    def _with_initial_cursor(self, state: StreamState) -> StreamState:
        """Return the state with the shared cursor as it was at the start, without the lookback of this read."""
        return state if self._shared is None or WHOLE not in state.positions else state.with_(WHOLE, self._shared)

    def _complete(self, state: StreamState) -> StreamState:
        state, extra = self._with_initial_cursor(state), dict(self._extra)
        shares = self._incremental.shared or state.shares_cursor
        if state.positions.keys() == {WHOLE} and not (state.parents or shares):
            return state  # keep an old form, with one cursor for all, while there are no partitions
        if not (state.positions or state.parents):
            extra = {**as_object(self._stream.empty_state), **extra}
        if self._any_cursor_value:
            seconds = math.ceil((self._stream.now() - self._started).total_seconds())
            extra["lookback_window"] = max(1, seconds)
        if not state.parents and self._stream.has_parents:
            extra["parent_state"] = {}
        if (
            self._incremental.shared
            and (positions := self._with_shared_cursor(StoredPositions.of(state.positions))) is not None
        ):
            return replace(state, positions=positions, extra=extra, shares_cursor=True)
        if self._greatest is not None:
            # Records older than the cursor's start must not move the cursor before it.
            values = [self._greatest, self._cursor.start, self._resumed] if self._any_cursor_value else [self._greatest]
            known = [value for value in values if value is not None]
            extra["state"] = {self._cursor.field: self._cursor.greatest(known)}
        return replace(state, extra=extra)

    def _with_shared_cursor(self, positions: StoredPositions) -> StoredPositions | None:
        """Return the positions of partitions that share a cursor, with that cursor; None if they have reached no value.

        A state message holds only this cursor. A table also keeps each partition's position, to recognise duplicates;
        but the next read has other groups, so the edges of all groups are merged into the cursor's.
        """
        field, value = self._cursor.field, self._greatest
        if not self._stream.grouped:
            return None if value is None else positions.updated({WHOLE: Checkpoint({field: value})})
        reached = [at for at in positions.values() if isinstance(at, Checkpoint) and field in at.cursor]
        # Values that were reached before an interruption count as well.
        values = [*([] if value is None else [value]), *(at.cursor[field] for at in reached)]
        if not values:
            return None
        value = self._cursor.greatest(values)
        if isinstance(self._cursor, DatetimeCursor) and (timestamp := self._cursor.timestamp(value)) is not None:
            # Records that reach one group while others are read may be older than a value from after the read's start,
            # so the cursor must not lie after that start.
            value = value if timestamp <= self._started else self._cursor.write(self._started)
        edges = (moved(self._cursor, at.edge, value) for at in reached if at.edge is not None)
        return StoredPositions.of({WHOLE: Checkpoint({field: value}, merged(self._cursor, edges))})
