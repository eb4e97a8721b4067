"""Audit: adds up the receipts of a table's commits over its log and compares the sums with the table's files.

Commits of the kit have a receipt; another program that adds, deletes or restores rows leaves a commit without a
receipt. So the log accounts for every row, as far back as it reaches.
"""

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct, field
from msgspec.structs import asdict

from cdk.base.errors import BadState, ReceiptError
from cdk.base.values import JsonValue
from cdk.base.wording import counted, first_few
from cdk.lake.delta.receipt import RECEIPT, Receipt
from cdk.lake.delta.table_guard import open_newest
from cdk.lake.delta.table_state import NOTE
from cdk.lake.parquet.table_files import LoggedFile, apply_commit, commit_at, counted_rows, oldest, total_rows
from cdk.lake.storage.folder import Folder

_LISTED = 5
_UNKNOWN = "an unknown number of rows"


class OtherCommit(Struct, frozen=True):
    """A commit without a receipt that changed rows."""

    version: int
    operation: str
    gained: int | None
    """Rows added minus rows removed; None: not counted."""

    def __str__(self) -> str:
        return f"version {self.version}, {self.operation or 'unnamed'}: {_change(self.gained)}"


class Audit(Struct, frozen=True):
    """What a table's log and files say about its rows."""

    since: int
    """The version that the sums start from; 0 if the log is complete."""
    start: int | None = 0
    """Rows of that version; None if the log does not count them."""
    receipts: int = 0
    """How many commits have a receipt."""
    receipt: Receipt = field(default_factory=Receipt)
    """The sum of all receipts."""
    other_commits: Sequence[OtherCommit] = ()
    """Commits without a receipt that changed rows."""
    rows: int | None = 0
    """Current rows of the table, by its log; None if the log does not count them."""
    in_files: int | None = 0
    """Current rows of the table, by the footers of its files; None if a file is missing or damaged."""
    contradictions: Sequence[str] = ()
    """Contradictions between receipts, log and files, one sentence each."""

    @property
    def others_gained(self) -> int | None:
        """Rows that commits without a receipt added, minus those that they removed; None: not counted."""
        return total_rows([commit.gained for commit in self.other_commits])

    def notes(self) -> Iterator[str]:
        """Yield notable facts that are not contradictions."""
        if self.since:
            yield (
                f"the log was cleaned up: the receipts are added up from version {self.since} on, which had "
                f"{_count(self.start)}"
            )
        if self.other_commits:
            commits = "; ".join(first_few(self.other_commits, _LISTED))
            yield f"commits without a receipt added or removed rows: {commits}"

    def summary(self) -> str:
        """Return the sums in one line."""
        receipt = self.receipt
        merged = receipt.superseded + receipt.stale + receipt.deleted
        receipts = counted(self.receipts, "receipt")
        parts = [
            f"{_count(self.start)} at version {self.since}" if self.since else "",
            f"{receipts}: {receipt.added:,} added, {receipt.removed:,} removed",
            f"{receipt.read:,} read, {receipt.skipped:,} of them skipped and {merged:,} merged away",
            f"other commits: {_change(self.others_gained)}" if self.other_commits else "",
            f"the table has {_count(self.in_files)}",
        ]
        return "; ".join(filter(None, parts))

    def to_json(self) -> Mapping[str, JsonValue]:
        """Return the audit as `spark-cdk state verify --json` prints it."""
        return {
            "since_version": self.since,
            "rows_then": self.start,
            "receipts": self.receipts,
            "receipt": asdict(self.receipt),
            "other_commits": [
                {"version": commit.version, "operation": commit.operation, "gained": commit.gained}
                for commit in self.other_commits
            ],
            "rows": self.in_files,
        }


def audit(root: Folder, stream: str = "") -> Audit:
    """Add up the receipts of a table. Reads its log and the footers of its files. Raises what the folder raises."""
    with root.explaining(stream):
        handle = open_newest(root, stream)
        since, files = oldest(root, handle)
    now = int(handle.version())
    start, receipts, total = counted_rows(files), 0, Receipt()
    other_commits: list[OtherCommit] = []
    contradictions: list[str] = []
    for version in range(since + 1 if since else 0, now + 1):
        commit = commit_at(root, version)
        by_person = " by `spark-cdk state`" if NOTE in commit.info else ""
        operation, gained = f"{commit.operation}{by_person}", apply_commit(files, commit)
        where = f"{root}, version {version}"
        if RECEIPT in commit.info:
            try:
                receipt = Receipt.from_text(str(commit.info[RECEIPT]), where)
                total, receipts = total + receipt, receipts + 1
                receipt.check(gained, stream=stream, path=where)
            except (BadState, ReceiptError) as error:
                # The commit was made, so the error's advice for a commit that was refused does not apply.
                why = error.difference if isinstance(error, ReceiptError) else error.message
                contradictions.append(f"version {version} contradicts its receipt: {why}")
        elif commit.changes_rows:
            other_commits.append(OtherCommit(version, operation, gained))
        elif gained:
            other_commits.append(OtherCommit(version, operation, gained))
            text = f"version {version}, {operation}, claims only to move rows, and has {_change(gained)}"
            contradictions.append(text)
    in_files = _in_files(root, files, contradictions)
    return Audit(since, start, receipts, total, other_commits, counted_rows(files), in_files, contradictions)


def _in_files(root: Folder, files: Mapping[str, LoggedFile], contradictions: list[str]) -> int | None:
    """Return the table's rows by the footers of its files. Adds its contradictions with the log to `contradictions`."""
    rows, missing, damaged = 0, list[str](), list[str]()
    for path, logged in files.items():
        try:
            with root.explaining(), root.reader(unquote(path)) as source:
                footer_rows = _footer_rows(source)
        except FileNotFoundError:
            missing.append(path)
            continue
        if isinstance(footer_rows, str):
            damaged.append(f"a file of the table is damaged: {path}: {footer_rows}")
            continue
        rows += footer_rows - logged.deleted
        if logged.rows is not None and logged.rows != footer_rows:
            contradictions.append(f"{path} has {_count(footer_rows)} by its footer, and {logged.rows:,} by the log")
    if missing:
        many = f"{len(missing):,} files of the table are missing, such as {missing[0]}"
        contradictions.append(many if missing[1:] else f"a file of the table is missing: {missing[0]}")
    contradictions += damaged
    return None if missing or damaged else rows


def _footer_rows(source: pa.NativeFile) -> int | str:
    """Return the rows by the footer of a file, or why it has no footer that can be read."""
    try:
        rows: int = pq.read_metadata(source).num_rows
    except (pa.ArrowInvalid, OSError) as error:
        text = str(error)
        # Arrow raises OSError for a footer that is no footer, too; others come from the disk or the store.
        if isinstance(error, OSError) and "thrift" not in text:
            raise
        return text.partition("\n")[0]
    return rows


def _count(rows: int | None) -> str:
    return _UNKNOWN if rows is None else counted(rows, "row")


def _change(rows: int | None) -> str:
    if rows is None:
        return _UNKNOWN
    return "as many rows as before" if rows == 0 else f"{counted(abs(rows), 'row')} {'fewer' if rows < 0 else 'more'}"
