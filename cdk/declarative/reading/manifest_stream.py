"""ManifestStream: a stream that a manifest describes."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Self, TypeVar

from cdk.base.errors import ManifestError
from cdk.base.times.clock import Clock
from cdk.base.values import JsonSchema, JsonValue, as_object
from cdk.declarative.interpolation.errors import ExpressionError
from cdk.declarative.model.declared_stream import DeclaredStream
from cdk.declarative.model.plug_points import Incremental, SliceReader
from cdk.rest.auth.tokens import IssuedToken
from cdk.state.position import Checkpoint, Edge, Position
from cdk.state.slice import WHOLE, Partition, Slice
from cdk.state.stored_positions import StoredPositions
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint.parent_state import ParentState, without_states
from cdk.streams.checkpoint.reader import CheckpointReader, PassingReader
from cdk.streams.checkpoint.repeated_records import merged, moved
from cdk.streams.datetime_cursor import DatetimeCursor
from cdk.streams.page import Item
from cdk.streams.stream import Stream

T = TypeVar("T")


class ManifestStream(DeclaredStream):
    """Partitions of a router, windows of a cursor, pages of a retriever. Built by `DeclarativeStream`.

    reader: reads its slices. issue: gives the access tokens of its requests, for so many seconds.
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
        self.issue: Callable[[float], Mapping[str, IssuedToken]] = _no_tokens
        self._located: Callable[[ManifestError], ManifestError] = _as_it_is
        if incremental is not None:
            self.cursor, self.cursor_field = incremental.cursor, incremental.cursor.field
            self.supports_checkpointing = True
        self.partitioned = reader.router is not None
        self.has_parents = reader.router is not None and bool(reader.router.parents)

    @property
    def empty_state(self) -> JsonValue:
        """What states say of a stream that has read nothing: where its cursor starts."""
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
        """The schema that the manifest gives."""
        return self._schema()

    def now(self) -> datetime:
        return self._clock()

    def partitions_since(self, parents: Mapping[str, StreamState]) -> Iterable[Partition | ParentState]:
        return [WHOLE] if self.reader.router is None else self._each(self.reader.router.partitions(parents))

    def _each(self, items: Iterable[T]) -> Iterator[T]:
        """The items; errors of expressions, which fail on what they meet, name their lines in the manifest."""
        try:
            yield from items
        except ExpressionError as error:
            raise self._located(error) from error

    def _partitions_from(self, state: StreamState) -> Iterable[Partition | ParentState]:
        router = self.reader.router
        if router is None or not router.shares_cursor or state.shares_cursor:
            return super()._partitions_from(state)
        return router.resuming(filter(None, state.positions)).partitions(state.parents)

    def partitions(self) -> Iterable[Partition]:
        return without_states(self.partitions_since({}))

    def read_records(self, slice: Slice) -> Iterator[Item]:
        return self._each(self.reader.read(slice))

    def checkpoint_reader(self, state: StreamState) -> CheckpointReader:
        if self._incremental is None:
            return super().checkpoint_reader(state)
        if self._incremental.shared and WHOLE not in state.positions and (saved := state.extra.get("state")):
            state = state.with_(WHOLE, Checkpoint(dict(saved)))
        reader = super().checkpoint_reader(self._looking_back(state))
        return _AirbyteStateReader(reader, self._incremental, state, self)

    @property
    def grouped(self) -> bool:
        """Whether its partitions are groups, which are others where one member comes or goes."""
        router = self.reader.router
        return router is not None and router.shares_cursor

    def _looking_back(self, state: StreamState) -> StreamState:
        """The state from which partitions start that share a cursor.

        It was reached by the last one that was read: what came to the others meanwhile lies before it, by no more than
        the read took. Where the state has an edge it is of this kit, and no later than the begin of that read.
        """
        shared, seconds = state.positions.get(WHOLE), state.extra.get("lookback_window")
        if not self.partitioned or self.cursor is None or shared is None or shared.cursor is None:
            return state
        if shared.edge is not None:
            return state
        if not isinstance(seconds, int) or self.cursor.field not in shared.cursor:
            return state
        value = self.cursor.back(shared.cursor[self.cursor.field], timedelta(seconds=seconds))
        return state.with_(WHOLE, Checkpoint({**shared.cursor, self.cursor.field: value}))

    def migrate_state(self, blob: JsonValue) -> JsonValue:
        """An old form of the state in today's form, as the manifest's migrations know it."""
        for migrate in self._migrate:
            blob = migrate(blob)
        return blob

    def resuming_pages(self) -> "ManifestStream":
        """A copy that says where its pages resume; Airbyte's messages have no state for that without a cursor."""
        other = self.beside()
        other.supports_checkpointing = True
        return other

    @property
    def resumes_pages(self) -> bool:
        """Whether it is such a copy, of a stream without a cursor."""
        return self._incremental is None and self.supports_checkpointing

    def __reduce__(self) -> tuple[Callable[[], Stream], tuple[()]]:
        if self.reload is None:
            raise TypeError(f"{self.name}: only a stream of a source can travel to another process")
        return partial(_resuming_pages, self.reload) if self.resumes_pages else self.reload, ()


def _resuming_pages(reload: Callable[[], Stream]) -> Stream:
    return reload().resuming_pages()


def _as_it_is(error: ManifestError) -> ManifestError:
    """An error of a stream that no manifest has."""
    return error


def _no_tokens(_: float) -> Mapping[str, IssuedToken]:
    """The tokens of requests without."""
    return {}


class _AirbyteStateReader(PassingReader):
    """A reader that also keeps what existing connectors find in the state of an incremental substream.

    `state` is the greatest cursor value of all partitions and `lookback_window` the seconds that the read took; both
    are written when it is complete, and has met a record with such a value.
    """

    def __init__(
        self, inner: CheckpointReader, incremental: Incremental, state: StreamState, stream: ManifestStream
    ) -> None:
        super().__init__(inner)
        self._incremental, self._stream, self._cursor = incremental, stream, incremental.cursor
        self._started = stream.now()
        self._last, self._said, self._met = state, False, False
        self._extra = {"lookback_window": 0, **state.extra} if stream.partitioned else dict(state.extra)
        self._shared = state.positions.get(WHOLE)
        saved = None if self._shared is None else self._shared.cursor
        known = self._extra.get("state") or {} if saved is None else saved
        self._greatest: object = known.get(self._cursor.field)

    def observe(self, slice: Slice, position: Position, edge: Edge | None = None) -> None:
        super().observe(slice, position, edge)
        if edge is None or edge.value is None or not self._stream.partitioned:
            return
        self._met = True
        if edge.value != self._greatest:
            known = [value for value in (self._greatest, edge.value) if value is not None]
            self._greatest = self._cursor.greatest(known)

    def forget_missing(self, now: datetime, after: timedelta) -> int:
        # One that comes back would start from the cursor of the others, and not from its start.
        return 0 if self._incremental.shared else super().forget_missing(now, after)

    def get_checkpoint(self) -> StreamState | None:
        state = super().get_checkpoint()
        if not self._stream.partitioned:
            return state
        if state is not None:
            self._last = state
        if not self.finished:
            return None if state is None else self._unfinished(state)
        if self._said and state is None:
            return None
        self._said = True
        return self._complete(self._last)

    def _unfinished(self, state: StreamState) -> StreamState:
        """The state while partitions are read."""
        return replace(self._unmoved(state), extra=self._extra)

    def _unmoved(self, state: StreamState) -> StreamState:
        """The state with the shared cursor where it began: how far this read looks back from it is no part of it."""
        if self._shared is None or WHOLE not in state.positions:
            return state
        return state.with_(WHOLE, self._shared)

    def _complete(self, state: StreamState) -> StreamState:
        state, extra = self._unmoved(state), dict(self._extra)
        shares = self._incremental.shared or state.shares_cursor
        if state.positions.keys() == {WHOLE} and not (state.parents or shares):
            return state  # an old form, of one cursor for all, stays what it is while there are no partitions
        if not (state.positions or state.parents):
            extra = {**as_object(self._stream.empty_state), **extra}
        if self._met:
            seconds = math.ceil((self._stream.now() - self._started).total_seconds())
            extra["lookback_window"] = max(1, seconds)
        if not state.parents and self._stream.has_parents:
            extra["parent_state"] = {}
        if self._incremental.shared and (positions := self._sharing(StoredPositions.of(state.positions))) is not None:
            return replace(state, positions=positions, extra=extra, shares_cursor=True)
        if self._greatest is not None:
            # Records from before the start of all reads do not move a cursor there.
            values = [self._greatest, self._cursor.start] if self._met else [self._greatest]
            extra["state"] = {self._cursor.field: self._cursor.greatest(values)}
        return replace(state, extra=extra)

    def _sharing(self, positions: StoredPositions) -> StoredPositions | None:
        """The positions of partitions that share a cursor, with that cursor; None where they have reached no value.

        A message has this cursor alone. A table has each partition's beside it, to know what comes again; but the next
        read has other groups, so what all of them know goes with the cursor.
        """
        field, value = self._cursor.field, self._greatest
        if not self._stream.grouped:
            return None if value is None else positions.updated({WHOLE: Checkpoint({field: value})})
        reached = [at for at in positions.values() if isinstance(at, Checkpoint) and field in at.cursor]
        # What was read before an interruption counts, too.
        values = [*([] if value is None else [value]), *(at.cursor[field] for at in reached)]
        if not values:
            return None
        value = self._cursor.greatest(values)
        if isinstance(self._cursor, DatetimeCursor) and (moment := self._cursor.moment(value)) is not None:
            # What came to a group while others were read may be older than a value from after the begin of the read.
            value = value if moment <= self._started else self._cursor.write(self._started)
        edges = (moved(self._cursor, at.edge, value) for at in reached if at.edge is not None)
        return StoredPositions.of({WHOLE: Checkpoint({field: value}, merged(self._cursor, edges))})
