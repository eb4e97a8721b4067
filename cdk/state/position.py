"""Where a partition, or one slice of it, stands. Three named cases; no sentinel maps."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import accumulate
from typing import ClassVar, TypeAlias

from cdk.base.values import FieldValue, JsonValue, Record, canonical
from cdk.state.window import Window


@dataclass(frozen=True, slots=True)
class Edge:
    """The greatest cursor value seen, in the record's own spelling, and the records that will come again.

    keys: maps a record's digest to its cursor value, None where a record has none that can be read. Most APIs include
        the cursor value they are asked to start at, so the next run meets the records at it again; those without a
        value come with every window. `sync` uses the keys to drop them. `read` keeps none.
    counts: how many equal records there were of a digest, where there was more than one.
    held: the digests, and how many of each, that a window left out because an older one may be giving them.

    At most `MAX_BYTES` of them are kept, so that a bulk import under one value does not blow up the state: those with a
    cursor value first, for they make room again when the cursor moves on. The records beyond are read again by the next
    run. A window holds back `MAX_HELD`, for many windows are open at once; the records beyond come with each.
    """

    MAX_BYTES: ClassVar[int] = 2**19
    KEY_BYTES: ClassVar[int] = 24
    """What a digest takes of them, beside the cursor value."""
    MAX_HELD: ClassVar[int] = 1_000

    value: FieldValue
    keys: Mapping[str, FieldValue] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    held: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Most records at the edge have the same few values.
        sizes = {
            value: self.KEY_BYTES + (value is not None and len(str(value).encode())) for value in self.keys.values()
        }
        if self.keys and len(self.keys) * max(sizes.values()) > self.MAX_BYTES:
            dated_first = sorted(self.keys.items(), key=lambda item: item[1] is None)
            ends = accumulate(sizes[value] for _, value in dated_first)
            keys = dict(item for item, end in zip(dated_first, ends, strict=True) if end <= self.MAX_BYTES)
            object.__setattr__(self, "keys", keys)
            object.__setattr__(self, "counts", {key: count for key, count in self.counts.items() if key in keys})

    def count(self, digest: str) -> int:
        """How many records with this digest are remembered."""
        return self.counts.get(digest, 1) if digest in self.keys else 0

    @property
    def undated(self) -> dict[str, int]:
        """How many records of each digest have no cursor value that can be read."""
        return {digest: self.count(digest) for digest, value in self.keys.items() if value is None}


@dataclass(frozen=True, slots=True)
class OpenSlice:
    """A window that was begun: how far it got (`Start`, a page token, `Done`) and the edge of what it gave."""

    window: Window
    position: "Position"
    edge: Edge | None = None


@dataclass(frozen=True, slots=True)
class Resume:
    """What an unfinished attempt read beyond the cursor value.

    Every window before `through` is closed. `open` holds the windows after it, oldest first and without a gap;
    those that are `Done` closed before an older one did. A restart reads the others from their position, then
    plans on from the end of the last, no further than `upto`: where the plan ended, of a cursor that looks back.
    """

    through: FieldValue
    open: tuple[OpenSlice, ...] = ()
    upto: FieldValue = None


@dataclass(frozen=True, slots=True)
class Trail:
    """What a page token remembers of those before it, to notice tokens that go in a circle (Brent's algorithm).

    held: the digest of an earlier token. steps: tokens since then. limit: after so many steps the present token is
    held instead, and the limit doubles, so every circle is noticed once it was gone through twice at most. noticed: one
    was, and this trail begins after it.
    """

    held: str
    steps: int = 0
    limit: int = 1
    noticed: bool = False

    @classmethod
    def begin(cls, token: JsonValue, *, noticed: bool = False) -> "Trail":
        """A trail whose first token is `token`; None for the first page."""
        return cls(digest_of(token), noticed=noticed)

    def after(self, token: JsonValue) -> "Trail":
        """The trail once `token` was named as the next."""
        if self.steps + 1 == self.limit and not self.closed_by(token):
            return Trail(digest_of(token), 0, 2 * self.limit, self.noticed)
        return replace(self, steps=self.steps + 1)

    def closed_by(self, token: JsonValue) -> bool:
        """Whether `token` is the one that is held: what it asks for has been read."""
        return self.held == digest_of(token)

    def closed_at(self, token: JsonValue) -> bool:
        """Whether this trail, the one after `token`, has come back to it."""
        return self.steps > 0 and self.closed_by(token)


def digest_of(value: JsonValue) -> str:
    """A short name of a value: two that differ have different ones."""
    return blake2b(canonical(value).encode(), digest_size=10).hexdigest()


@dataclass(frozen=True, slots=True)
class Listing:
    """The list whose pages a token counts. A table's state has it beside the token; messages do not."""

    fingerprint: str = ""
    """Of the request, see `Stream.fingerprint`; empty where that is unknown."""
    total: int = 0
    """The records that the source counted in all when its pages were begun; 0 where that is unknown, or of no use."""
    end: str = ""
    """A digest of the page before, where it says that nothing follows: some sources give it again behind their end."""


UNKNOWN_LISTING = Listing()


@dataclass(frozen=True, slots=True)
class Paging:
    """The page at which a list goes on that was asked for with the state of its stream's author."""

    token: Record
    state: Record
    """What the author has set since the list was begun, which holds once its last page is read; empty for nothing."""


@dataclass(frozen=True, slots=True)
class Start:
    """Nothing of the partition was read yet."""

    done: ClassVar[bool] = False
    cursor: ClassVar[None] = None
    edge: ClassVar[None] = None
    resume: ClassVar[None] = None
    trail: ClassVar[None] = None
    paging: ClassVar[None] = None
    token: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything before `cursor` has been emitted; a later read resumes here.

    `cursor` is a small JSON object: a page token (`{"page": 3}`) or a cursor value (`{"updated_at": "..."}`).
    `edge` and `resume` belong to the kit's cursors, `trail` and `listing` to its pages, `paging`, `last` and
    `by_author` to `self.state`; authors leave them alone.
    """

    done: ClassVar[bool] = False
    cursor: Record
    edge: Edge | None = None
    resume: Resume | None = None
    trail: Trail | None = None
    listing: Listing = UNKNOWN_LISTING
    paging: Paging | None = None
    """Set while the pages of a `PagedStream` are read whose author advances `cursor`, which has no token then."""
    last: bool = field(default=False, compare=False)
    """Nothing of the slice comes behind it; no part of a state."""
    by_author: bool = field(default=False, compare=False)
    """Its author has advanced the cursor, perhaps before all older records have come; no part of a state."""

    @property
    def token(self) -> Record:
        """What asks for the page at which a read goes on, where the stream is read in pages."""
        return self.cursor if self.paging is None else self.paging.token


@dataclass(frozen=True, slots=True)
class Done:
    """Read to the end in this sync."""

    done: ClassVar[bool] = True
    cursor: ClassVar[None] = None
    edge: ClassVar[None] = None
    resume: ClassVar[None] = None
    trail: ClassVar[None] = None
    paging: ClassVar[None] = None
    token: ClassVar[None] = None


Position: TypeAlias = Start | Checkpoint | Done
"""Each says whether it is the end (`done`), and has the fields of a checkpoint, which are None in the other two."""


def without_tokens(position: Position) -> Position:
    """A position of a cursor as other requests can begin at it: page tokens count the pages of those that it knew.

    A window that was begun begins anew, and a list asked for with its author's state, where that stood before it.
    """
    if not isinstance(position, Checkpoint):
        return position
    if position.paging is not None:
        return Checkpoint(position.cursor) if position.cursor else Start()
    if (resume := position.resume) is None:
        return position
    opened = (each if each.position.done else replace(each, position=Start(), edge=None) for each in resume.open)
    return replace(position, resume=replace(resume, open=tuple(opened)))
