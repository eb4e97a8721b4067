"""Where a partition, or one slice of it, stands. Three named cases; no sentinel maps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar, TypeAlias

from cdk.base.values import Json
from cdk.state.window import Window


@dataclass(frozen=True, slots=True)
class Start:
    """Never read."""


@dataclass(frozen=True, slots=True)
class Edge:
    """The greatest cursor value seen, in the record's own spelling, and the records that carry it.

    `keys` maps a record's digest to its cursor value. Most APIs include the cursor value they are asked to
    start at, so the next run meets these records again; `sync` uses the keys to drop them. `read` keeps none.
    At most `MAX_KEYS` are kept, so that a bulk import under one value does not blow up the state; the records beyond
    are then read again by the next run.
    """

    MAX_KEYS: ClassVar[int] = 10_000

    value: Json
    keys: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.keys) > self.MAX_KEYS:
            object.__setattr__(self, "keys", dict(islice(self.keys.items(), self.MAX_KEYS)))


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
    plans on from the end of the last.
    """

    through: Json
    open: tuple[OpenSlice, ...] = ()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything before `cursor` has been emitted; a later read resumes here.

    `cursor` is a small JSON object: a page token (`{"page": 3}`) or a cursor value (`{"updated_at": "..."}`).
    `edge` and `resume` belong to the kit's cursors; authors leave them alone.
    """

    cursor: Mapping[str, Json]
    edge: Edge | None = None
    resume: Resume | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """Read to the end in this sync."""


Position: TypeAlias = Start | Checkpoint | Done
