"""Positions: where a partition, or one slice of it, stands. Three named cases instead of sentinel maps."""

from collections.abc import Mapping
from hashlib import blake2b
from itertools import accumulate
from typing import ClassVar, TypeAlias

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from cdk.base.values import FieldValue, JsonValue, Record, canonical
from cdk.state.window import Window


class Edge(Struct, frozen=True):
    """The greatest cursor value seen, in the record's own spelling, and digests of the records that will be read again.

    keys: maps a record's digest to its cursor value, or to None where the record has no readable one. Most APIs include
        the cursor value they are asked to start at, so the next run reads the records at that value again; records
        without a value arrive with every window. `sync` uses the keys to drop both. `read` stores no keys.
    counts: the number of equal records per digest, where it is greater than one.
    held: digests, with counts, of records that this window held back because an older window may emit them.
    beyond: the greatest value beyond its own window, of records that the request of that window returned all the same.
        It counts once the windows up to it are closed, too. States do not store it.

    At most `MAX_BYTES` of keys are stored, so that a bulk import under one value does not blow up the state. Those with
    a cursor value take precedence, because they make room again when the cursor advances. The next run reads records
    beyond the limit again. A window holds back at most `MAX_HELD` records, because many windows are open at once;
    every window emits the records beyond that.
    """

    MAX_BYTES: ClassVar[int] = 2**19
    KEY_BYTES: ClassVar[int] = 24
    """Bytes that a digest counts for, in addition to its cursor value."""
    MAX_HELD: ClassVar[int] = 1_000

    value: FieldValue
    keys: Mapping[str, FieldValue] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    held: Mapping[str, int] = field(default_factory=dict)
    beyond: FieldValue = None

    def __post_init__(self) -> None:
        # Most records at the edge have the same few values.
        sizes = {
            value: self.KEY_BYTES + (value is not None and len(str(value).encode())) for value in self.keys.values()
        }
        if self.keys and len(self.keys) * max(sizes.values()) > self.MAX_BYTES:
            dated_first = sorted(self.keys.items(), key=lambda item: item[1] is None)
            ends = accumulate(sizes[value] for _, value in dated_first)
            keys = dict(item for item, end in zip(dated_first, ends, strict=True) if end <= self.MAX_BYTES)
            force_setattr(self, "keys", keys)
            force_setattr(self, "counts", {key: count for key, count in self.counts.items() if key in keys})

    def count(self, digest: str) -> int:
        """Return the number of remembered records with this digest."""
        return self.counts.get(digest, 1) if digest in self.keys else 0

    @property
    def undated(self) -> dict[str, int]:
        """Number of records per digest, of those without a readable cursor value."""
        return {digest: self.count(digest) for digest, value in self.keys.items() if value is None}


class OpenSlice(Struct, frozen=True):
    """A started window: its position (`Start`, a page token or `Done`) and the edge of the records it emitted."""

    window: Window
    position: "Position"
    edge: Edge | None = None


class Resume(Struct, frozen=True):
    """What an unfinished attempt read beyond the cursor value.

    Every window before `through` is closed. `open` holds the windows after it, oldest first and without a gap; a `Done`
    window among them closed before an older one did. A restart reads the others from their positions, then plans
    further windows from the end of the last one up to `upto`, the end of the original plan (only set for a cursor that
    looks back).
    """

    through: FieldValue
    open: tuple[OpenSlice, ...] = ()
    upto: FieldValue = None


class Trail(Struct, frozen=True):
    """What is stored beside a page token about earlier tokens, to detect cycles of tokens (Brent's algorithm).

    held: digest of an earlier token. steps: number of tokens since then. limit: number of steps after which `held` is
    replaced by the current token and the limit doubles; every cycle is therefore detected within two rounds. noticed: a
    cycle was already detected, and this trail starts after it.
    """

    held: str
    steps: int = 0
    limit: int = 1
    noticed: bool = False

    @classmethod
    def begin(cls, token: JsonValue, *, noticed: bool = False) -> "Trail":
        """Return a trail whose first token is `token`, which is None for the first page."""
        return cls(digest_of(token), noticed=noticed)

    def after(self, token: JsonValue) -> "Trail":
        """Return the trail after the source has named `token` as the next one."""
        if self.steps + 1 == self.limit and not self.closed_by(token):
            return Trail(digest_of(token), 0, 2 * self.limit, self.noticed)
        return replace(self, steps=self.steps + 1)

    def closed_by(self, token: JsonValue) -> bool:
        """Whether `token` is the held one, so that its page has already been read."""
        return self.held == digest_of(token)

    def closed_at(self, token: JsonValue) -> bool:
        """Whether this trail, the result of `after(token)`, has returned to the held token."""
        return self.steps > 0 and self.closed_by(token)


def digest_of(value: JsonValue) -> str:
    """Return a short hex digest of a value's canonical JSON; different values have different digests."""
    return blake2b(canonical(value).encode(), digest_size=10).hexdigest()


class Listing(Struct, frozen=True):
    """The list whose pages a token counts. Stored beside the token in a table's state, but not in messages."""

    fingerprint: str = ""
    """Fingerprint of the request, see `Stream.fingerprint`; empty where unknown."""
    total: int = 0
    """Total number of records that the source reported on the first page; 0 where unknown or not needed."""
    end: str = ""
    """Digest of the previous page, where that page says it is the last: some sources repeat it past their end."""


UNKNOWN_LISTING = Listing()


class Paging(Struct, frozen=True):
    """The page to resume at in a list that was requested with a state set by the stream's author."""

    token: Record
    state: Record
    """The state that the author has set since the first page; it takes effect after the last page. Empty if none."""


class _NoCheckpoint(Struct, frozen=True):
    """What `Start` and `Done` have in place of a checkpoint's fields."""

    cursor: ClassVar[None] = None
    edge: ClassVar[None] = None
    resume: ClassVar[None] = None
    trail: ClassVar[None] = None
    paging: ClassVar[None] = None
    token: ClassVar[None] = None


class Start(_NoCheckpoint, frozen=True):
    """Nothing of the partition has been read yet."""

    done: ClassVar[bool] = False


class Checkpoint(Struct, frozen=True):
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
    """Set while reading the pages of a `PagedStream` whose author advances `cursor`, which then holds no token."""
    last: bool = False
    """Nothing of the slice follows this checkpoint. Not part of a state."""
    by_author: bool = False
    """The stream's author advanced the cursor, possibly before all older records were emitted. Not part of a state."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checkpoint) and self._in_state == other._in_state

    __hash__ = None  # type: ignore[assignment] # cursors are objects

    @property
    def _in_state(self) -> tuple[object, ...]:
        return self.cursor, self.edge, self.resume, self.trail, self.listing, self.paging

    @property
    def token(self) -> Record:
        """The token of the page to resume at, where the stream is read in pages."""
        return self.cursor if self.paging is None else self.paging.token


class Done(_NoCheckpoint, frozen=True):
    """The partition has been read to its end in this sync."""

    done: ClassVar[bool] = True


Position: TypeAlias = Start | Checkpoint | Done
"""All three have `done` and the fields of a checkpoint, which are None in `Start` and `Done`."""


def without_tokens(position: Position) -> Position:
    """Return a cursor's position without its page tokens, which are only valid for the requests they came from.

    Started windows restart from their beginning. A list that was requested with its author's state restarts from the
    state before it.
    """
    if not isinstance(position, Checkpoint):
        return position
    if position.paging is not None:
        return Checkpoint(position.cursor) if position.cursor else Start()
    if (resume := position.resume) is None:
        return position
    opened = (each if each.position.done else replace(each, position=Start(), edge=None) for each in resume.open)
    return replace(position, resume=replace(resume, open=tuple(opened)))
