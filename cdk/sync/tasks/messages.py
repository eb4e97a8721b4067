"""Messages between the driver and tasks: slices and jobs, results and failures. Plain, picklable values."""

import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace

from cdk.base.errors import CdkError, FailureType, FatalError
from cdk.base.process.concurrency import BEGINNING, Learned
from cdk.base.process.connector_line import error_with_line
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


class WriteTarget(Struct, frozen=True):
    """A stream and the table that its rows are written to."""

    stream: Stream
    root: Folder | Path
    """The folder in which files are written."""
    columns: Mapping[str, ColumnType]
    generation: int
    room: int = 0
    """Number of further columns that undeclared fields may get."""
    follows: frozenset[str] = frozenset()
    """Undeclared fields whose columns become wider if values need it."""
    infers: bool = True
    """Whether undeclared fields get columns of their own."""
    bounded: tuple[str, ...] = ()
    """Columns whose bounds are written to the table's log."""
    compared: bool = False
    """Whether rows are merged, and compared by their keys or, without a key, by all their values."""
    partition_by: tuple[str, ...] = ()
    """The table's partition columns."""
    to_end: bool = False
    """Whether each slice is read to its end, regardless of the task's time."""
    source: HttpSnapshot | None = None
    """The source's validators, if only changed responses are read; the stream is then picklable."""
    trace: str = ""
    """The id of the sync, if each row records what brought it; else empty."""


class SliceTask(Struct, frozen=True):
    """A slice that waits for a task or is in one."""

    number: int
    """Its number in the read: of two otherwise equal rows of a commit, the one of the later slice is newer."""
    stream: int
    """Index of its stream in the sync."""
    slice: Slice
    attempt: int = 0
    """Its stream's attempt when it was planned; results of an earlier attempt do not count."""


class Failure(Struct, frozen=True):
    """An error as a picklable value. final: it would occur again, but only in this slice.

    crash: the result of `crash_text` for an unexpected error, if crash reports are enabled; without secrets.
    """

    message: str
    failure_type: FailureType
    detail: str
    final: bool = False
    crash: str = ""

    @classmethod
    def of(cls, error: BaseException) -> "Failure":
        """Convert an error, with its message, type and traceback."""
        detail, secrets = "".join(traceback.format_exception(error)), CRASH_SECRETS.get()
        crash = "" if secrets is None else crash_text(error, secrets)
        if isinstance(error, CdkError):
            final = isinstance(error, FatalError)
            return cls(str(error), error.failure_type, f"{error.detail}\n{detail}".strip(), final, crash)
        return cls(error_with_line(error), "system_error", detail, crash=crash)


class SliceResult(Struct):
    """How far a slice got, and what it counted.

    The last checkpoint counts even if the end was reached, because it holds the cursor that an author has advanced.
    """

    number: int
    positions: tuple[Position, ...] = ()
    """The last checkpoint and `Done`, as far as they were reached."""
    edge: Edge | None = None
    read: int = 0
    rows: int = 0
    """Records that became rows of the files."""
    skipped: int = 0
    rejected: int = 0
    """Rows with values that did not fit their column."""
    pages: int = 0
    """Pages with records."""
    restarted: bool = False
    failure: Failure | None = None
    http: HttpMetrics = field(default_factory=HttpMetrics)
    """Requests, including those for pages that no position covers."""
    unrequested: bool = False
    """Whether it ended before its first request, because its task could send none."""
    conditional: ConditionalResult | None = None
    """The response of a followed source, once the end was reached."""
    warning: str = ""
    """A warning for people, like `doubt`; see ReadPage."""
    doubt: str = ""
    followed: bool = False
    """Whether a page named a next one."""
    may_have_missed: bool = False
    """Whether records may have been missed, see ReadPage."""
    wasted_token: EndedToken | None = None
    """The access token that ended before the slice reached any position."""

    def hand_over(self) -> "SliceResult":
        """Return a copy without the requests, which count at the slice's end, and reset all other counts."""
        so_far = replace(self, http=HttpMetrics())
        self.positions, self.restarted, self.warning = (), False, ""
        self.read = self.rows = self.skipped = self.rejected = self.pages = 0
        return so_far

    @property
    def last(self) -> Position | None:
        """The last position that it reached; None if none."""
        return self.positions[-1] if self.positions else None

    @property
    def done(self) -> bool:
        """Whether it reached the end."""
        return isinstance(self.last, Done)


class BundleResult(Struct):
    """The result of a task. Streams are identified by their index in the sync, slices by their number."""

    progress: list[SliceResult] = field(default_factory=list)
    """Results of the slices that the task started."""
    files: dict[int, list[DataFile]] = field(default_factory=dict)
    """Files with the slices' rows, by stream."""
    grown: dict[int, Mapping[str, tuple[pa.DataType, ...]]] = field(default_factory=dict)
    """Undeclared fields whose columns were added or widened in those files, by stream, see RecordBatchBuilder."""
    spent: Mapping[str, BudgetUsage] | None = field(default_factory=dict)
    """The task's calls, by budget; None if unknown, because an earlier attempt was started."""
    requests: int = 0
    """Number of requests that the task sent."""
    tokens: Findings = field(default_factory=Findings)
    """What the task learned about its access tokens."""
    concurrency: Learned | None = None
    """The concurrency that the task settled on; None if unknown, or reported by an interim result."""
    missing_file: str = ""
    """The file that was removed from outside while it was written, so that the task has no result."""
    unfinished: frozenset[int] = frozenset()
    """In an interim result: the slices that continue, which may have progress. Other slices without any never start."""
    threads: int = 0
    """In an interim result: the maximum number of the task's threads that these need."""
    attempt: str = ""
    """Id of the attempt at the task; empty without interim results."""
    earlier: Sequence["BundleResult"] = ()
    """The task's interim results, in order. Each contains what was read since the previous one, as does this result."""


class BundleJob(Struct, frozen=True):
    """What a task needs to read its slices."""

    targets: Mapping[int, WriteTarget]
    """Write targets of its slices, by index of their stream."""
    seconds: float
    """Its time; with 0, each slice reads one page."""
    threads: int
    """Maximum number of slices that it reads at once."""
    share: TaskShare = field(default_factory=TaskShare)
    """Its share of the API's budgets."""
    tokens: Mapping[str, IssuedToken] = field(default_factory=dict)
    """The access tokens that it uses, by key."""
    activity_folder: Path | None = None
    """The folder in which tasks store their activity."""
    limits: Limits = DEFAULT_LIMITS
    """When waiting rows are written."""
    learned: Learned = BEGINNING
    """What earlier tasks have learned about how many slices to read at once."""
    interim: InterimResults | None = None
    """Where it leaves interim results if a slice takes longer than the task's time."""
    crash_secrets: Secrets | None = None
    """Secrets to mask in crash reports; None disables these."""
