"""What tasks get to know of slices, and what they return. Plain values: they travel."""

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from cdk.base.errors import CdkError, FailureType, FatalError
from cdk.base.process.concurrency import BEGINNING, Learned
from cdk.base.process.connector_line import connector_line
from cdk.base.secret_masking import Secrets
from cdk.lake.arrow.columns import ColumnType
from cdk.lake.parquet.writer import DEFAULT_LIMITS, DataFile, Limits
from cdk.lake.storage.folder import Folder
from cdk.rest.auth.tokens import EndedToken, Findings, IssuedToken
from cdk.rest.conditional_requests import ConditionalResult
from cdk.rest.http.metrics import HttpMetrics
from cdk.rest.limits.task_share import BudgetUsage, TaskShare
from cdk.sources.crashes import CRASH_SECRETS, crash_text
from cdk.state.position import Done, Edge, Position
from cdk.state.slice import Slice
from cdk.state.source_state.http_validators import HttpSnapshot
from cdk.streams.stream import Stream
from cdk.sync.tasks.interim_results import InterimResults


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
    """Undeclared fields, whose columns become wider where values need it."""
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
    trace: str = ""
    """The id of the sync, where each row is to have what brought it; else empty."""


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
    """What went wrong in a slice, as it travels back from a task. final: it would again, in this slice alone.

    crash: what `crash_text` says of an unexpected error, where crash reports are asked for; without secrets.
    """

    message: str
    failure_type: FailureType
    detail: str
    final: bool = False
    crash: str = field(default="", compare=False, repr=False)

    @classmethod
    def of(cls, error: BaseException) -> "Failure":
        """The failure that an error is: its message, type and traceback."""
        detail, secrets = "".join(traceback.format_exception(error)), CRASH_SECRETS.get()
        crash = "" if secrets is None else crash_text(error, secrets)
        if isinstance(error, CdkError):
            final = isinstance(error, FatalError)
            return cls(str(error), error.failure_type, f"{error.detail}\n{detail}".strip(), final, crash)
        return cls(f"{type(error).__name__}: {error}{connector_line(error)}", "system_error", detail, crash=crash)


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
    unasked: bool = field(default=False, compare=False)
    """It ended before its first request, for its task could send none."""
    conditional: ConditionalResult | None = None
    """What a followed source answered, once the end was met."""
    warning: str = field(default="", compare=False)
    """A warning for people, as `doubt`: see ReadPage."""
    doubt: str = field(default="", compare=False)
    followed: bool = field(default=False, compare=False)
    """A page named a next one."""
    moved: bool = field(default=False, compare=False)
    """Records may have been missed, see ReadPage."""
    wasted_token: EndedToken | None = None
    """The access token that ended before it met any position."""

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


@dataclass
class BundleResult:
    """What a task returns. Streams are named by their places in the sync, slices by their numbers."""

    progress: list[SliceResult] = field(default_factory=list)
    """Of the slices that it began."""
    files: dict[int, list[DataFile]] = field(default_factory=dict)
    """With their rows, by stream."""
    grown: dict[int, Mapping[str, tuple[pa.DataType, ...]]] = field(default_factory=dict)
    """Undeclared fields of a stream that got columns in those files, or wider ones, see RecordBatchBuilder."""
    spent: Mapping[str, BudgetUsage] | None = field(default_factory=dict)
    """Its calls, by budget; None: unknown, for it was begun before."""
    requests: int = 0
    """How many it sent."""
    tokens: Findings = field(default_factory=Findings)
    """What it learned of its access tokens."""
    concurrency: Learned | None = field(default=None, compare=False)
    """How many slices it came to read at once; None: unknown, or an interim result had it."""
    vanished: str = ""
    """The file that was removed from outside while it was written, so that the task brings nothing."""
    unfinished: frozenset[int] = frozenset()
    """Of an interim result: the slices that go on, which may have progress. Others that have none never begin."""
    threads: int = 0
    """Of an interim result: how many of the task's threads they need at most."""
    attempt: str = ""
    """Tells attempts at a task apart; empty without interim results."""
    earlier: Sequence["BundleResult"] = ()
    """Its interim results, in order: each has what came after the one before, and this what came after all of them."""


@dataclass(frozen=True)
class BundleJob:
    """What a task needs to read its slices."""

    targets: Mapping[int, WriteTarget]
    """What its slices are written to, by the places of their streams."""
    seconds: float
    """Its time; 0 gives each slice one page."""
    threads: int
    """How many slices it reads at once, at most."""
    share: TaskShare = field(default_factory=TaskShare)
    """Its part of what the API allows."""
    tokens: Mapping[str, IssuedToken] = field(default_factory=dict)
    """The access tokens that it uses, by key."""
    live: Path | None = None
    """The folder in which tasks note what they are doing."""
    limits: Limits = DEFAULT_LIMITS
    """When rows that wait are written."""
    before: Learned = BEGINNING
    """What earlier tasks have learned of how many slices to read at once."""
    interim: InterimResults | None = None
    """Where it leaves what it has read while a slice goes on for longer than the task was to take."""
    crash_secrets: Secrets | None = field(default=None, repr=False)
    """What crash reports hide; None: there are to be none."""
