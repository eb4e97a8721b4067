"""Stream: what a connector author subclasses."""

import inspect
import re
from abc import ABCMeta, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import GeneratorType
from typing import ClassVar, Self, TypeVar, cast

from msgspec.structs import replace

from cdk.base.errors import ConfigError, FatalError
from cdk.base.logs import logger
from cdk.base.process.connector_line import defined_at
from cdk.base.secret_masking import MARKED, SecretMarks
from cdk.base.times.clock import system_clock
from cdk.base.values import FieldValue, JsonSchema, JsonValue
from cdk.state.position import Position, digest_of
from cdk.state.slice import WHOLE, Partition, Slice
from cdk.state.stored_positions import StoredPositions
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint.parent_state import ParentState, followed_until, listed_with, without_states
from cdk.streams.checkpoint.partitioned import PartitionCheckpointReader
from cdk.streams.checkpoint.reader import CheckpointReader, PageCheckpointReader, PartitionReader
from cdk.streams.checkpoint.windows import SliceCheckpointReader
from cdk.streams.cursor import Cursor
from cdk.streams.page import Item, Token
from cdk.streams.written_class import STREAM_ATTRIBUTES, Expected, check_methods, check_names, check_values, schema_in

T = TypeVar("T")
S = TypeVar("S", bound="Stream")

ANY_OBJECT: JsonSchema = {"type": "object", "additionalProperties": True, "properties": {}}


class _FieldOfCursor:
    """The field of a stream's cursor, whether the class declares the cursor or `__init__` assigns it."""

    def __get__(self, stream: "Stream | None", kind: type["Stream"]) -> str | None:
        cursor = (kind if stream is None else stream).cursor
        return None if cursor is None else cursor.field


class _StreamType(ABCMeta):
    """The metaclass of streams: drops `Stream` from the bases of a class when another base already derives from it."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, object], **kwargs: object
    ) -> "_StreamType":
        """Create the class; `class Users(Stream, StateMixin)` would have no method resolution order with both bases."""
        own = tuple(base for base in bases if not any(base is not other and issubclass(other, base) for other in bases))
        return super().__new__(cls, name, own, namespace, **kwargs)

    def __call__(cls: type[S], *args: object, **kwargs: object) -> S:  # type: ignore[misc] # each class of it is a Stream
        """Build a stream, and check what its `__init__` has assigned; not called for copies and unpickled streams."""
        stream: S = type.__call__(cls, *args, **kwargs)
        check_values(cls, vars(stream), cls._expected_values)
        return stream


class Stream(metaclass=_StreamType):
    """A set of records in a source. Subclass it, declare what holds for the source, and write `read_records`.

    name: the stream's name in catalogs, states and tables; by default the class name in snake case.
    namespace: set it for sources with several namespaces; None otherwise.
    primary_key: the field or fields that identify a record; a path inside a record is a tuple.
    cursor: how the stream advances; None for a full refresh. Assign it in `__init__` when it depends on the config.
    cursor_field: the field of the cursor; set it without a `cursor` when the author advances `self.state` by hand.
    supports_checkpointing: whether an interrupted read can resume, because `read_records` yields positions (a `Page`,
        a `Checkpoint`).
    schema: the JSON Schema of a record, or a pydantic model of it. Default: the file `schemas/<name>.json` beside the
        class or, without that file, any object.
    secrets: values that must not end up in the stream's state; the source sets them.
    max_concurrency: the most slices of this stream to read at once; None for as many as the run allows. Each slice that
        is read concurrently gets a copy of the stream (`beside`): the copies do not see each other's assignments to
        `self`, but they share the objects that attributes refer to. Where sharing is a problem, set 1 to read slices
        one after the other. Each task of a sync starts with the stream as it was built.
    in_one_task: whether the slices of all streams with this flag are read in one task at a time, because what they
        share, such as the number of running jobs that an API allows, is tracked within a single process.
    partition_field: the name of the only partition field, when old states hold a map `{value: cursor}`.
    partitioned: whether it has partitions; None if only listing them shows that.
    """

    name: str
    namespace: str | None = None
    primary_key: str | Sequence[str | Sequence[str]] = ()
    cursor: Cursor | None = None
    cursor_field: str | None = cast("str | None", _FieldOfCursor())
    supports_checkpointing: bool = False
    chosen_by_state: bool = False
    """Whether the state selects which of several streams this one delegates to."""
    grouped: bool = False
    """Whether its partitions are groups: adding or removing a member changes the groups."""
    max_concurrency: int | None = None
    in_one_task: bool = False
    schema: Mapping[str, object] | type | None = None
    partition_field: str | None = None
    partitioned: bool | None = None
    secrets: SecretMarks = SecretMarks()

    _expected_values: ClassVar[Mapping[str, Expected]] = STREAM_ATTRIBUTES
    """What the attributes that authors set have to be."""

    def __init__(self, config: Mapping[str, FieldValue] | None = None) -> None:
        """Store the config; a source builds its streams with it."""
        self.config: Mapping[str, FieldValue] = config or {}

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        check_methods(cls)
        check_names(cls)
        check_values(cls, vars(cls), cls._expected_values)
        if "name" not in cls.__dict__:
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__).lower()
        if "cursor" in cls.__dict__ and "cursor_field" not in cls.__dict__:
            cls.cursor_field = cast("str | None", _FieldOfCursor())

    @abstractmethod
    def read_records(self, slice: Slice) -> Iterable[Item]:
        """Yield the records of `slice`, one by one or in pages.

        Yield a `Checkpoint({...})`, or a `Page` with a `next`, wherever an interrupted read may resume; the resumed
        read finds it in `slice.start`. The end of the generator is the end of the slice. Runs on any thread or machine;
        the stream is pickled to get there.

        Records that are yielded one by one, including those of a generator inside a `Page`, are copied at once, so the
        author may refill the same dict for the next record. A list belongs to the kit once it is yielded.
        """

    def partitions(self) -> Iterable[Partition]:
        """The partitions of the stream, in reading order; may be a generator. Default: one that covers everything."""
        return [WHOLE]

    def json_schema(self) -> JsonSchema:
        """The JSON Schema of a record. Raises ConfigError: when `schema` or the file in `schemas` is none."""
        schema: object = self.schema
        if schema is None:
            file = self.code_file()
            path = None if file is None else Path(file).parent / "schemas" / f"{self.name}.json"
            return schema_in(path) if path is not None and path.exists() else ANY_OBJECT
        check_values(type(self), {"schema": schema}, self._expected_values)
        if callable(model_schema := getattr(schema, "model_json_schema", None)):
            schema = model_schema()
        return cast("JsonSchema", schema)

    def code_file(self) -> str | None:
        """The file with the stream's code, which has the schemas beside it; None for code outside of files."""
        try:
            return inspect.getfile(type(self))
        except (TypeError, OSError):
            return None

    def slices(self, partition: Partition, position: Position, now: datetime) -> PartitionReader:
        """The reader of one partition from `position` on: windows of the cursor or, without a cursor, pages."""
        if self.cursor is not None:
            self._warn_of(self.cursor, partition, position, now)
            return SliceCheckpointReader(self.cursor, partition, position, now)
        return PageCheckpointReader(partition, position, keeps_cursor=self.advanced_by_hand)

    def _warn_of(self, cursor: Cursor, partition: Partition, position: Position, now: datetime) -> None:
        """Warn of a state whose cursor value lies in the future, so that this read has no windows."""
        if position.cursor is None or position.resume is not None or cursor.field not in position.cursor:
            return
        where = f"{self.name} {partition.key}" if partition else self.name
        value = position.cursor[cursor.field]
        if next(iter(cursor.windows(value, now)), None) is not None:
            return
        end, reached = cursor.until(now) or now, cursor.timestamp(value)
        if reached is None or reached > end:  # else it has been read to its end
            text = "%s: %s of its state is %s, which lies after the end of what can be read now (%s): nothing is read"
            logger.warning(text, where, cursor.field, value, end)

    def partitions_since(
        self,
        parents: Mapping[str, StreamState],  # noqa: ARG002 - for overriding
    ) -> Iterable[Partition | ParentState]:
        """The partitions, given the states of the parents; override it to follow a parent's progress."""
        return self.partitions()

    def _partitions_from(self, state: StreamState) -> Iterable[Partition | ParentState]:
        """The partitions to read from `state` on."""
        return self.partitions_since(state.parents)

    def checkpoint_reader(self, state: StreamState) -> CheckpointReader:
        """The reader that plans this stream from `state`. Override it to plug in another one.

        Raises FatalError: `partitions` returned something else than partitions.
        """
        now = self.now()
        state = self.starting_from(state)
        return PartitionCheckpointReader(
            self._following(self.listed(state), now),
            lambda partition, position: self.slices(partition, position, now),
            state,
        )

    def listed(self, state: StreamState) -> Iterator[Partition | ParentState]:
        """The partitions to read from `state` on, as states name them: without secrets, see `restored`.

        Raises FatalError: an item is not a partition.
        """
        items = listed_with(self.secrets, lambda: self._iterable(self._partitions_from(state), "partitions"))
        return map(self._checked, items)

    def _checked(self, item: Partition | ParentState) -> Partition | ParentState:
        """The partition as states name it, checked, since authors may write them without types."""
        kind: type = type(item)
        if kind is not Partition and not issubclass(kind, Partition | ParentState):
            raise FatalError(
                f"partitions has a {kind.__name__}, expected a Partition such as `Partition.of(region='eu')`"
                f"{defined_at(self.partitions)}",
                stream=self.name,
            )
        return self._named(item) if isinstance(item, Partition) else item

    def restored(self, partition: Partition) -> Partition:
        """The partition with the secrets that `listed` has replaced."""
        if MARKED not in partition.key:
            return partition
        return Partition(self.secrets.restore(partition.fields), extra=partition.extra)

    def starting_from(self, state: StreamState) -> StreamState:
        """The state from which a read starts, with partitions as `listed` names them.

        Other programs write the secrets into it.
        """
        if not self.secrets:
            return state
        if state.parents:
            parents = {name: Stream.starting_from(self, parent) for name, parent in state.parents.items()}
            state = replace(state, parents=parents)
        if not any(map(self.secrets.are_in, StoredPositions.of(state.positions).texts)):
            return state
        return replace(state, positions={self._named(each): at for each, at in state.positions.items()})

    def _named(self, partition: Partition) -> Partition:
        """The partition as states name it: connectors mark ids as secret, such as that of an account."""
        if not self.secrets.are_in(partition.key):
            return partition
        return Partition(self.secrets.cut(partition.fields), extra=partition.extra)

    def _following(
        self, partitions: Iterable[Partition | ParentState], now: datetime
    ) -> Iterable[Partition | ParentState]:
        """The partitions, with the state of each parent limited to the time up to which this plan reads children."""
        if self.cursor is None or (end := self.cursor.until(now)) is None:
            return partitions
        if next(self.cursor.windows(None, now), None) is None:
            return without_states(partitions)  # the cursor starts in the future: no child is read
        return followed_until(end, partitions)

    def now(self) -> datetime:
        """The current time, the upper bound of a read. Called once, when the read is planned."""
        return system_clock()

    def items(self, slice: Slice) -> Iterator[Item]:
        """The items that `read_records` yields, plus those that a mixin adds. Called by the engine.

        Raises FatalError: `read_records` returned something else than an iterable of items.
        """
        return iter(self._iterable(self.read_records(slice), "records", "read_records"))

    def _iterable(self, returned: Iterable[T], what: str, method: str = "") -> Iterable[T]:
        """The return value of a method that an author may have written without types.

        Raises FatalError: it cannot be iterated, or is a mapping or a string.
        """
        value: object = returned
        # Most are generators; the checks of abstract classes are slow for something that happens once per slice.
        if type(value) is not GeneratorType and (not isinstance(value, Iterable) or isinstance(value, Mapping | str)):
            kind, method = type(self), method or what
            raise FatalError(
                f"{kind.__qualname__}.{method}{defined_at(getattr(kind, method))} returned a {type(value).__name__}, "
                f"expected {what}: `yield` each, or return a list of them",
                stream=self.name,
            )
        return returned

    @property
    def requested(self) -> JsonValue:
        """The request, as JSON, whose pages the page tokens count. When it changes, a saved token is discarded.

        It must not change between runs on its own. None when it is unknown, as for requests that code makes.
        """
        return None

    @cached_property
    def fingerprint(self) -> str:
        """A digest of `requested`, without secrets; empty when that is unknown."""
        requested = self.requested
        return "" if requested is None else digest_of(self.secrets.cut({"requested": requested}))

    def beside(self) -> Self:
        """A shallow copy that reads a slice while this stream reads another; both share the values of attributes."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def resuming_pages(self) -> "Stream":
        """The stream for a sync whose table hides interrupted reads, or deduplicates their rows.

        Such a read may resume at any page, even where state messages, which go to other programs, cannot express that.
        """
        return self

    def guard(self, secrets: SecretMarks) -> None:
        """Called by the source with what must not end up in the state."""
        self.secrets = secrets

    def opened(self) -> None:
        """Called by the source once it has built the stream, before anything is read."""

    def begins_anew(self, attempt: int) -> None:
        """Called when a sync reads the stream once more: drop what an earlier attempt left in its components."""

    def check_ready(self) -> None:
        """Raise ConfigError if the config does not suffice to read the stream; table and state then stay unchanged."""

    def conditional(self) -> "Stream":
        """A picklable version of the stream that can send conditional requests.

        Raises ConfigError: its requests cannot be made conditional.
        """
        raise ConfigError(
            f"found a {type(self).__name__}, expected an HttpStream or a stream of a manifest, "
            "whose requests go through the kit; leave it out"
        )

    @property
    def empty_state(self) -> JsonValue:
        """The content of a state message before anything was read."""
        return {}

    def migrate_state(self, blob: JsonValue) -> JsonValue:
        """Convert a state of an older form to today's. Override it when the form has changed."""
        return blob

    def check_token(self, token: Token) -> None:
        """Raise BadState if a page cannot be requested with `token`, as far as that is known without a request."""

    @property
    def advanced_by_hand(self) -> bool:
        """Whether the author advances the stream's cursor, by `self.state` or a `Checkpoint`."""
        return self.cursor_field is not None and self.cursor is None

    @property
    def stops_at_pages(self) -> bool:
        """Whether a slice may be paused at any of its positions, and resumed in another task."""
        return self.supports_checkpointing and not self.advanced_by_hand

    @property
    def incremental(self) -> bool:
        """Whether the stream has a cursor."""
        return self.cursor_field is not None

    @property
    def key_paths(self) -> list[list[str]]:
        """The primary key as the protocol writes it: a list of paths."""
        key = [self.primary_key] if isinstance(self.primary_key, str) else self.primary_key
        return [[part] if isinstance(part, str) else list(part) for part in key]


class StreamCopies:
    """A pool of a stream and its copies, one for each slice that is read concurrently. Thread-safe.

    A stream may store facts about the slice it reads in its attributes, so no two slices share an object at the same
    time. The stream itself comes first; copies are made on demand and reused for later slices.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream, self._free = stream, [stream]

    @contextmanager
    def lent(self) -> Iterator[Stream]:
        """Lend an object that no other slice uses while the block runs."""
        try:
            mine = self._free.pop()
        except IndexError:
            mine = self._stream.beside()
        try:
            yield mine
        finally:
            self._free.append(mine)


def full_name(stream: Stream) -> str:
    """The name, prefixed with the namespace if there is one; unique among the streams of a source."""
    return f"{stream.namespace}.{stream.name}" if stream.namespace else stream.name
