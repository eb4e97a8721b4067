"""Audit: the receipts of a table's commits, added up over its log and compared with the files that are there.

A commit of the kit has a receipt, and whoever else adds, deletes or restores rows leaves a commit without one. So what
became of each row is in the log, as far back as it reaches.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

import pyarrow.parquet as pq
from deltalake import DeltaTable

from cdk.base.errors import BadState, ReceiptError
from cdk.base.values import Json
from cdk.lake.delta.receipt import RECEIPT, Receipt
from cdk.lake.parquet.table_files import LoggedFile, actions, apply_commit, changes_rows, oldest, rows_of, total_rows
from cdk.lake.storage.folder import Folder

_LISTED = 5


@dataclass(frozen=True)
class OtherCommit:
    """A commit without a receipt that changed rows. gained: rows that came less those that left; None: not counted."""

    version: int
    operation: str
    gained: int | None

    def __str__(self) -> str:
        return f"version {self.version}, {self.operation or 'unnamed'}: {_change(self.gained)}"


@dataclass(frozen=True)
class Audit:
    """What the log of a table tells of its rows.

    since: the version whose rows the sums begin with; 0 where the log is whole. start: rows it had. receipts: commits
    with one, and receipt: all of them together. others: commits without one. rows: of the table now, by its log; None
    where it does not say. in_files: by the footers of its files; None where one is gone. wrong: what contradicts what.
    """

    since: int
    start: int | None = 0
    receipts: int = 0
    receipt: Receipt = field(default_factory=Receipt)
    others: Sequence[OtherCommit] = ()
    rows: int | None = 0
    in_files: int | None = 0
    wrong: Sequence[str] = ()

    @property
    def others_gained(self) -> int | None:
        """Rows that came by commits without a receipt, less those that left."""
        return total_rows([other.gained for other in self.others])

    def notes(self) -> Iterator[str]:
        """What a person should know, though nothing is wrong."""
        if self.since:
            yield (
                f"the log was cleaned up: the receipts are added up from version {self.since} on, which had "
                f"{_count(self.start)}"
            )
        if self.others:
            listed = "; ".join(map(str, self.others[:_LISTED]))
            more = f"; and {len(self.others) - _LISTED} more commits" if len(self.others) > _LISTED else ""
            yield f"rows came or left by commits that are not the kit's: {listed}{more}"

    def summary(self) -> str:
        """The sums, in a line."""
        one = self.receipt
        merged = one.superseded + one.stale + one.deleted
        receipts = f"{self.receipts:,} {'receipt' if self.receipts == 1 else 'receipts'}"
        parts = [
            f"{_count(self.start)} at version {self.since}" if self.since else "",
            f"{receipts}: {one.added:,} added, {one.removed:,} removed",
            f"of {one.read:,} that were read {one.skipped:,} skipped and {merged:,} merged away",
            f"other commits: {_change(self.others_gained)}" if self.others else "",
            f"the table has {_count(self.in_files)}",
        ]
        return "; ".join(filter(None, parts))

    def to_json(self) -> Mapping[str, Json]:
        """The figures, for programs."""
        return {
            "since_version": self.since,
            "rows_then": self.start,
            "receipts": self.receipts,
            "receipt": self.receipt.to_json(),
            "other_commits": [
                {"version": one.version, "operation": one.operation, "gained": one.gained} for one in self.others
            ],
            "rows": self.in_files,
        }


def audit(root: Folder, stream: str = "") -> Audit:
    """Add up the receipts of a table. Reads its log and the footers of its files. Raises what the place raises."""
    with root.explaining(stream):
        handle = DeltaTable(root.uri, storage_options=root.storage_options)
        since, files = oldest(root, handle)
    now = int(handle.version())
    start, receipts, total = rows_of(files), 0, Receipt()
    others: list[OtherCommit] = []
    wrong: list[str] = []
    for version in range(since + 1 if since else 0, now + 1):
        lines = actions(root, version)
        info: Mapping[str, Json] = next((line["commitInfo"] for line in lines if "commitInfo" in line), {})
        operation, gained = str(info.get("operation", "")), apply_commit(files, lines)
        where = f"{root}, version {version}"
        if RECEIPT in info:
            try:
                receipt = Receipt.from_text(str(info[RECEIPT]), where)
                total, receipts = total + receipt, receipts + 1
                receipt.check(gained, stream=stream, path=where)
            except (BadState, ReceiptError) as error:
                wrong.append(f"version {version} contradicts its receipt: {error.message}")
        elif changes_rows(lines):
            others.append(OtherCommit(version, operation, gained))
        elif gained:
            others.append(OtherCommit(version, operation, gained))
            wrong.append(f"version {version}, {operation}, says that rows only move, and has {_change(gained)}")
    in_files = _in_files(root, files, wrong)
    return Audit(since, start, receipts, total, others, rows_of(files), in_files, wrong)


def _in_files(root: Folder, files: Mapping[str, LoggedFile], wrong: list[str]) -> int | None:
    """The rows of the table as the footers of its files count them; adds to `wrong` what the log says otherwise."""
    rows, gone = 0, False
    for path, logged in files.items():
        try:
            with root.explaining(), root.reader(unquote(path)) as source:
                there = pq.read_metadata(source).num_rows
        except FileNotFoundError:
            gone = True
            continue
        rows += there - logged.deleted
        if logged.rows is not None and logged.rows != there:
            wrong.append(f"{path} has {_count(there)} by its footer, and {logged.rows:,} by the log")
    return None if gone else rows


def _count(rows: int | None) -> str:
    return "rows that nobody counted" if rows is None else f"{rows:,} {'row' if rows == 1 else 'rows'}"


def _change(rows: int | None) -> str:
    if rows is None:
        return "rows that nobody counted"
    if rows == 0:
        return "as many rows as before"
    return f"{abs(rows):,} {'row' if abs(rows) == 1 else 'rows'} {'fewer' if rows < 0 else 'more'}"
