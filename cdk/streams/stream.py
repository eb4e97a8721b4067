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
from typing import Self, TypeVar, cast

import orjson

from cdk.base.errors import ConfigError, FatalError
from cdk.base.logs import logger
from cdk.base.process.connector_line import defined_at
from cdk.base.secret_masking import SecretMarks
from cdk.base.times.clock import system_clock
from cdk.base.values import FieldValue, JsonSchema, JsonValue
from cdk.state.position import Position, digest_of
from cdk.state.slice import WHOLE, Partition, Slice
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint.parent_state import ParentState, followed_until, without_states
from cdk.streams.checkpoint.partitioned import PartitionCheckpointReader
from cdk.streams.checkpoint.reader import CheckpointReader, PageCheckpointReader, PartitionReader
from cdk.streams.checkpoint.windows import SliceCheckpointReader
from cdk.streams.cursor import Cursor
from cdk.streams.page import Item
from cdk.streams.written_class import check_methods, check_names

T = TypeVar("T")

ANY_OBJECT: JsonSchema = {"type": "object", "additionalProperties": True, "properties": {}}


class _FieldOfCursor:
    """The field of a stream's cursor, be it one of the class or one that `__init__` has set."""

    def __get__(self, stream: "Stream | None", kind: type["Stream"]) -> str | None:
        cursor = (kind if stream is None else stream).cursor
        return None if cursor is None else cursor.field


class _StreamType(ABCMeta):
    """The type of streams: leaves `Stream` out of the bases where another of them is one already."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, object], **kwargs: object
    ) -> "_StreamType":
        """Build the class; `class Users(Stream, StateMixin)` has no order of methods otherwise."""
        own = tuple(base for base in bases if not any(base is not other and issubclass(other, base) for other in bases))
        return super().__new__(cls, name, own, namespace, **kwargs)


class Stream(metaclass=_StreamType):
    """A set of records in a source. Subclass it, say what is true of the source, and write `read_records`.

    name: how catalogs, states and tables call it; by default the class name in snake case.
    namespace: for sources with several; None otherwise.
    primary_key: the field or fields that identify a record; a path inside a record is a tuple.
    cursor: how the stream advances; None for a stream that is read whole. Set it in `__init__` where it depends on the
        config.
    cursor_field: the cursor's field by itself; set it without a `cursor` when the author advances `self.state` by hand.
    supports_checkpointing: a cut read can resume, because `read_records` says where (a `Page`, a `Checkpoint`).
    schema: the JSON Schema of a record, or a pydantic model of it; by default the file `schemas/<name>.json` beside the
        class, else any object.
    secrets: what must not get into the stream's state; its source sets it.
    max_concurrency: how many of its slices may be read at once; None for as many as the run reads. Slices that are read
        at once have copies of the stream (`beside`): what is assigned to `self` is not seen by the others, what is
        changed inside of an object that it holds is. Where that is not enough, 1 has them read one after the other.
        Each task of a sync begins with the stream as it was made.
    in_one_task: its slices, and those of all streams that say so, are read in one task at a time: what they share, such
        as the jobs that an API runs at once, is known in one process alone.
    partition_field: the name of the one partition field, where old states keep a map `{value: cursor}`.
    """

    name: str
    namespace: str | None = None
    primary_key: str | Sequence[str | Sequence[str]] = ()
    cursor: Cursor | None = None
    cursor_field: str | None = cast("str | None", _FieldOfCursor())
    supports_checkpointing: bool = False
    chosen_by_state: bool = False
    """Whether its state decides which of several streams it is."""
    max_concurrency: int | None = None
    in_one_task: bool = False
    schema: Mapping[str, object] | type | None = None
    partition_field: str | None = None
    secrets: SecretMarks = SecretMarks()

    def __init__(self, config: Mapping[str, FieldValue] | None = None) -> None:
        """Keep the config; a source builds its streams with it."""
        self.config: Mapping[str, FieldValue] = config or {}

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        check_methods(cls)
        check_names(cls)
        if "name" not in cls.__dict__:
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__).lower()
        if "cursor" in cls.__dict__ and "cursor_field" not in cls.__dict__:
            cls.cursor_field = cast("str | None", _FieldOfCursor())

    @abstractmethod
    def read_records(self, slice: Slice) -> Iterable[Item]:
        """Yield the records of `slice`, as records or as pages of them.

        Where a cut read may go on, yield `Checkpoint({...})` or a `Page` with a `next`; `slice.start` then brings it
        back. The end of the generator is the end of the slice. Runs on any thread or machine; the stream object is
        pickled for it.

        Records that are yielded one by one, also in the place of the list of a `Page`, are copied there and then: the
        same dict may be filled again for the next one. What a list holds belongs to the kit once it is yielded.
        """

    def partitions(self) -> Iterable[Partition]:
        """The parts the stream is read in, in order; may be a generator. Default: one, the whole."""
        return [WHOLE]

    def json_schema(self) -> JsonSchema:
        """The JSON Schema of a record."""
        schema: object = self.schema
        if schema is None:
            file = self.code_file()
            return ANY_OBJECT if file is None else _schema_file(Path(file).parent / "schemas" / f"{self.name}.json")
        # A pydantic model; the kit's streams need not import it.
        if callable(model_schema := getattr(schema, "model_json_schema", None)):
            schema = model_schema()
        if not isinstance(schema, Mapping):
            raise ConfigError(
                f"schema is a {type(schema).__name__}, expected a JSON Schema or a pydantic model", stream=self.name
            )
        return schema

    def code_file(self) -> str | None:
        """The file with the stream's code, beside which its schemas lie; None where it is in no file."""
        try:
            return inspect.getfile(type(self))
        except (TypeError, OSError):
            return None

    def slices(self, partition: Partition, position: Position, now: datetime) -> PartitionReader:
        """The reader of one partition that stands at `position`: the cursor's windows, or pages."""
        if self.cursor is not None:
            self._warn_of(self.cursor, partition, position, now)
            return SliceCheckpointReader(self.cursor, partition, position, now)
        return PageCheckpointReader(partition, position, keeps_cursor=self.advanced_by_hand)

    def _warn_of(self, cursor: Cursor, partition: Partition, position: Position, now: datetime) -> None:
        """Say where a state is not what it looks like: with a value of the cursor that is to come."""
        if position.cursor is None or position.resume is not None or cursor.field not in position.cursor:
            return
        where = f"{self.name} {partition.key}" if partition else self.name
        value = position.cursor[cursor.field]
        if next(iter(cursor.windows(value, now)), None) is None:
            text = "%s: %s of its state is %s, which lies after all that can be read now (%s): nothing is read"
            logger.warning(text, where, cursor.field, value, now)

    def partitions_since(
        self,
        parents: Mapping[str, StreamState],  # noqa: ARG002 - for overriding
    ) -> Iterable[Partition | ParentState]:
        """The partitions when the parents stand at `parents`; override it to follow a parent's progress."""
        return self.partitions()

    def _partitions_from(self, state: StreamState) -> Iterable[Partition | ParentState]:
        """The partitions when the stream stands at `state`."""
        return self.partitions_since(state.parents)

    def checkpoint_reader(self, state: StreamState) -> CheckpointReader:
        """The reader that plans this stream from `state`. Override it to plug in another.

        Raises FatalError: the stream gives no partitions.
        """
        now = self.now()
        partitions = self._checked(self._iterable(self._partitions_from(state), "partitions"))
        return PartitionCheckpointReader(
            self._following(partitions, now), lambda partition, position: self.slices(partition, position, now), state
        )

    def _checked(self, partitions: Iterable[Partition | ParentState]) -> Iterator[Partition | ParentState]:
        """The partitions. Raises FatalError: one is something else; authors write them without types."""
        for item in partitions:
            kind: type = type(item)
            if kind is not Partition and not issubclass(kind, Partition | ParentState):
                raise FatalError(
                    f"partitions has a {kind.__name__}, expected a Partition such as `Partition.of(region='eu')`"
                    f"{defined_at(self.partitions)}",
                    stream=self.name,
                )
            yield item

    def _following(
        self, partitions: Iterable[Partition | ParentState], now: datetime
    ) -> Iterable[Partition | ParentState]:
        """The partitions with parents that are followed as far as their children are read, planned at `now`."""
        if self.cursor is None or (end := self.cursor.until(now)) is None:
            return partitions
        if next(self.cursor.windows(None, now), None) is None:
            return without_states(partitions)  # its cursor starts later: no child is read
        return followed_until(end, partitions)

    def now(self) -> datetime:
        """The present moment: the upper bound of a read, asked for once when it is planned."""
        return system_clock()

    def items(self, slice: Slice) -> Iterator[Item]:
        """What `read_records` yields, plus what a mixin adds to it. Called by the engine.

        Raises FatalError: `read_records` returns something else.
        """
        return iter(self._iterable(self.read_records(slice), "records", "read_records"))

    def _iterable(self, returned: Iterable[T], what: str, method: str = "") -> Iterable[T]:
        """What a method has returned, which an author may have written without types."""
        value: object = returned
        # Most are generators: to ask abstract classes of each slice's takes longer.
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
        """What its page tokens count the pages of: a table's state has them begin anew where that is another.

        It may not change from one run to the next by itself. None where it is unknown, as what code asks for is.
        """
        return None

    @cached_property
    def fingerprint(self) -> str:
        """A short name of what is `requested`, without secrets; empty where that is unknown."""
        requested = self.requested
        return "" if requested is None else digest_of(self.secrets.cut({"requested": requested}))

    def beside(self) -> Self:
        """A copy that reads a slice while this one reads another. What attributes hold is shared."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def resuming_pages(self) -> "Stream":
        """The stream as a sync reads it whose table shows nothing of a read that was cut, or nothing twice.

        Such a read may resume at any page, also where messages, which other programs get, have no word for that.
        """
        return self

    def opened(self) -> None:
        """Take note that a source has made it, and that nothing was read of it yet."""

    def begins_anew(self, attempt: int) -> None:
        """Take note that a sync reads it once more: what an earlier attempt has left in its parts is of no use."""

    def check_ready(self) -> None:
        """Raise ConfigError: it cannot be read with the config there is. Its table and state then stay as they are."""

    def conditional(self) -> "Stream":
        """The stream as one that travels, and whose requests can be made conditional.

        Raises ConfigError: they cannot.
        """
        raise ConfigError(
            f"found a {type(self).__name__}, expected an HttpStream or a stream of a manifest, "
            "whose requests go through the kit; leave it out"
        )

    @property
    def empty_state(self) -> JsonValue:
        """What a state message says of the stream before anything was read."""
        return {}

    def migrate_state(self, blob: JsonValue) -> JsonValue:
        """An old form of this stream's state in today's form. Override it where the form has changed."""
        return blob

    @property
    def advanced_by_hand(self) -> bool:
        """Whether the author advances the stream's cursor, by `self.state` or a `Checkpoint`."""
        return self.cursor_field is not None and self.cursor is None

    @property
    def stops_at_pages(self) -> bool:
        """Whether the reading of a slice may stop wherever it says where to go on, and go on in another task."""
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
    """A stream and its copies, as many as slices were read at once. Safe to use from several threads.

    A stream may keep in its attributes what it knows of the slice being read. The stream itself reads what is read
    alone; for each slice beside it there is a copy, which then reads others, one after the other, as the stream does.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream, self._free = stream, [stream]

    @contextmanager
    def lent(self) -> Iterator[Stream]:
        """One that no other slice has while the block runs."""
        try:
            mine = self._free.pop()
        except IndexError:
            mine = self._stream.beside()
        try:
            yield mine
        finally:
            self._free.append(mine)


def _schema_file(path: Path) -> JsonSchema:
    if not path.exists():
        return ANY_OBJECT
    schema: JsonSchema = orjson.loads(path.read_bytes())
    return schema


def full_name(stream: Stream) -> str:
    """The stream's name, which no other stream of its source has: with its namespace, if it has one."""
    return f"{stream.namespace}.{stream.name}" if stream.namespace else stream.name
