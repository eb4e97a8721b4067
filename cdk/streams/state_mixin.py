"""StateMixin: a `state` attribute to read and assign, as an alternative to `yield Checkpoint(...)`."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context

from msgspec.structs import replace

from cdk.base.errors import BadState
from cdk.base.values import Stored, copied
from cdk.state.position import Checkpoint, Done, Start
from cdk.state.slice import WHOLE, Slice
from cdk.state.stream_state import StreamState
from cdk.state.wire import decode, encode
from cdk.streams.checkpoint.reader import CheckpointReader, PassingReader
from cdk.streams.page import Item
from cdk.streams.stream import Stream
from cdk.streams.written_class import attribute


class SliceContext:
    """The slice being read in this context: the state that the author sees, and the checkpoint not yielded yet."""

    def __init__(self, slice: Slice) -> None:
        paging = slice.start.paging
        since = paging.state if paging is not None else {}
        self.initial: dict[str, Stored] = dict(slice.start.cursor or {})
        self.cursor = dict(since or self.initial)
        self.pending = Checkpoint(since) if since else None
        self.of_all: Checkpoint | None = None
        """The state after all records, when the author set it before the first record was handed out."""

    def returned(self, before: Checkpoint | None) -> None:
        """Called when `read_records` has returned. before: the checkpoint that was pending when it was called.

        Unless it is a generator, it has set the state of all its records before the first of them is handed out.
        """
        if self.pending is not before:
            self.pending, self.of_all = before, self.pending

    def pop_pending(self) -> Iterator[Checkpoint]:
        if self.pending is not None:
            checkpoint, self.pending = self.pending, None
            yield checkpoint


_slice_context: ContextVar[SliceContext | None] = ContextVar("cdk_slice_state", default=None)


@contextmanager
def initial_state() -> Iterator[None]:
    """Have `state` show the value that the slice started with, from which the requests of all its pages are built."""
    context = _slice_context.get()
    if context is None:
        yield
        return
    context.cursor, shown = context.initial, context.cursor
    try:
        yield
    finally:
        context.cursor = shown


class _ObservedReader(PassingReader):
    """A reader that copies each checkpoint to the `state` of its stream."""

    def __init__(self, stream: "StateMixin", inner: CheckpointReader) -> None:
        super().__init__(inner)
        self._stream = stream

    def get_checkpoint(self) -> StreamState | None:
        if (state := super().get_checkpoint()) is not None:
            self._stream.show(state)
        return state


class StateMixin(Stream):
    """Adds the attribute `state`, a JSON object, to a stream.

    Inside `read_records` it is the state of the slice: `self.state = {"page": 3}` means that everything before page 3
    has been yielded. Setting it to `{}` or None has no effect: the slice ends with the generator. Outside of
    `read_records`, setting it restores a state for the next read only, and reading it shows how far that read got. A
    state that is set while the source builds the stream, as in `__init__`, is the start of reads without a state.
    """

    supports_checkpointing = True
    _shown: StreamState | None = None
    _initial = StreamState()
    _restored: StreamState | None = None

    def opened(self) -> None:
        super().opened()
        if self._restored is not None:
            self._initial, self._restored = self._restored, None

    @property
    def state(self) -> Stored:
        """The state of the slice being read, or of the stream when none is."""
        if (context := _slice_context.get()) is not None:
            return context.cursor
        return encode(self._restored or self._shown or self._initial, incremental=self.incremental)

    @state.setter
    def state(self, value: Stored) -> None:
        if (context := _slice_context.get()) is None:
            self._restored = self._decoded(value, self.cursor_field)
            return
        match self._decoded(value).of(WHOLE):
            case Checkpoint() as checkpoint:
                # Copied: the author may refill the same object before the checkpoint is yielded.
                context.cursor, context.pending = dict(value), replace(checkpoint, cursor=copied(checkpoint.cursor))
                context.of_all = None
            case Start() | Done():
                pass

    def _decoded(self, value: Stored, cursor_field: str | None = None) -> StreamState:
        """The state that the author has set. Raises BadState, which names the class: it is none."""
        try:
            return decode(value, cursor_field=cursor_field)
        except BadState as error:
            error.path = attribute(type(self), error.path)
            raise

    def checkpoint_reader(self, state: StreamState) -> CheckpointReader:
        known = self._initial if state == StreamState() else state
        state, self._restored = self._restored or known, None
        return _ObservedReader(self, super().checkpoint_reader(state))

    def show(self, state: StreamState) -> None:
        """Have `state` show the progress of a read."""
        self._shown = state

    def items(self, slice: Slice) -> Iterator[Item]:
        # Each slice runs in its own context, so nested and threaded reads of streams do not mix.
        slice_context, context = SliceContext(slice), copy_context()
        context.run(_slice_context.set, slice_context)
        pending = slice_context.pending
        # Unless the method is a generator, it reads everything and sets its state during the call.
        items = context.run(super().items, slice)
        slice_context.returned(pending)
        end = object()
        while (item := context.run(next, items, end)) is not end:
            yield from self._with_state(item, slice_context)  # type: ignore[arg-type] # an Item, it is not `end`
        slice_context.pending = slice_context.of_all or slice_context.pending
        yield from (replace(checkpoint, last=True) for checkpoint in slice_context.pop_pending())

    def _with_state(self, item: Item, context: SliceContext) -> Iterator[Item]:
        """The checkpoint that the author set after the `yield` of the previous item, then the item."""
        yield from context.pop_pending()
        yield item


class IncrementalMixin(StateMixin):
    """The old name of `StateMixin`."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        warnings.warn(f"{cls.__name__}: IncrementalMixin is now called StateMixin", DeprecationWarning, stacklevel=2)
