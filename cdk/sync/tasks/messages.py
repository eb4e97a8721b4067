"""What tasks get to know of slices, and what they return. Plain values: they travel."""

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from cdk.base.errors import CdkError, FailureType, FatalError
from cdk.lake.arrow.columns import ColumnType
from cdk.lake.storage.folder import Folder
from cdk.rest.conditional_requests import ConditionalResult
from cdk.rest.http.metrics import HttpMetrics
from cdk.state.position import Done, Edge, Position
from cdk.state.slice import Slice
from cdk.state.source_state.http_validators import HttpSnapshot
from cdk.streams.stream import Stream

_KIT = Path(__file__).parents[2]


@dataclass(frozen=True)
class WriteTarget:
    """A stream and the table its rows go to."""

    stream: Stream
    root: Folder | Path
    """Where files are written."""
    columns: Mapping[str, ColumnType]
    generation: int
    room: int = 0
    """How many further columns undeclared fields may get."""
    follows: frozenset[str] = frozenset()
    """Columns of undeclared fields, which become wider where values need it."""
    infers: bool = True
    """Whether undeclared fields get columns of their own."""
    bounded: tuple[str, ...] = ()
    """Columns whose bounds go into its log."""
    partition_by: tuple[str, ...] = ()
    """The table's partition columns."""
    to_end: bool = False
    """Whether each slice is read to its end, whatever the time of a task."""
    source: HttpSnapshot | None = None
    """What is known of the source's answers, where only what has changed is read; the stream is then picklable."""


@dataclass(frozen=True)
class SliceTask:
    """A slice in a task."""

    number: int
    """Its place in the read: larger than that of any slice before it."""
    stream: int
    """The place of its stream in the sync."""
    slice: Slice


@dataclass(frozen=True)
class Failure:
    """What went wrong in a slice, as it travels back from a task. final: it would again, in this slice alone."""

    message: str
    failure_type: FailureType
    detail: str
    final: bool = False

    @classmethod
    def of(cls, error: BaseException) -> "Failure":
        """The failure that an error is: its message, type and traceback."""
        detail = "".join(traceback.format_exception(error))
        if isinstance(error, CdkError):
            final = isinstance(error, FatalError)
            return cls(str(error), error.failure_type, f"{error.detail}\n{detail}".strip(), final)
        return cls(f"{type(error).__name__}: {error}{_where(error)}", "system_error", detail)


def _where(error: BaseException) -> str:
    """The last line of the connector that led to an error; nothing where the kit alone did."""
    if not isinstance(error, Exception):
        return ""  # Ctrl-C comes wherever the connector happens to be
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    others = [frame for frame in frames if not Path(frame.filename).is_relative_to(_KIT)]
    if not others:
        return ""
    # What the connector calls in its turn, a library as a rule, says less of what to change.
    last = next(frame for frame in reversed(others) if frame.filename == others[0].filename)
    return f" ({last.filename}:{last.lineno}, in {last.name})"


@dataclass
class SliceResult:
    """How far a slice got.

    The checkpoint counts even when the end was met: it holds the cursor that an author advances by hand.
    """

    number: int
    positions: tuple[Position, ...] = ()
    """The last checkpoint and the end, as far as it met them."""
    edge: Edge | None = None
    read: int = 0
    rows: int = 0
    """Records that are rows of the files."""
    skipped: int = 0
    rejected: int = 0
    """Rows with values that did not fit."""
    pages: int = field(default=0, compare=False)
    """Pages that brought records."""
    restarted: bool = False
    failure: Failure | None = None
    http: HttpMetrics = field(default_factory=HttpMetrics, compare=False)
    """Requests, also those of pages that no position covers."""
    conditional: ConditionalResult | None = None
    """What a followed source answered, once the end was met."""
    warning: str = field(default="", compare=False)
    """A warning for people, as `doubt`: see ReadPage."""
    doubt: str = field(default="", compare=False)
    followed: bool = field(default=False, compare=False)
    """A page named a next one."""

    def hand_over(self) -> "SliceResult":
        """A copy without its requests, which count at its end; from now on it counts anew what else it counts."""
        so_far = replace(self, http=HttpMetrics())
        self.positions, self.restarted, self.warning = (), False, ""
        self.read = self.rows = self.skipped = self.rejected = self.pages = 0
        return so_far

    @property
    def last(self) -> Position | None:
        """The last position that it met."""
        return self.positions[-1] if self.positions else None

    @property
    def done(self) -> bool:
        """Whether it met the end."""
        return isinstance(self.last, Done)
