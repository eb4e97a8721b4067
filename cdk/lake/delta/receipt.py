"""Receipt: what happened to the rows that a commit covers, in figures from independent sources.

The slices count records; the footers of the Parquet files count written rows; merging counts the rows it compares; the
table's log counts the rows it gains and loses. These counts are independent: if they agree, no row was lost on the way;
if they differ, nothing is committed. A receipt goes into the metadata of its commit.
"""

from collections.abc import Sequence

import orjson
from msgspec import Struct, field
from msgspec.structs import asdict, fields, replace

from cdk.base.errors import BadState, ReceiptError
from cdk.lake.parquet.writer import DataFile

RECEIPT = "spark-cdk.receipt"
"""The key of a receipt in the metadata of a commit: one JSON object, in a string."""


class Receipt(Struct, frozen=True):
    """The row counts of one commit, or the sums of several."""

    read: int = 0
    """Records that the slices read."""
    skipped: int = 0
    """Records of `read` that the table has from an earlier run, or that lie outside their slice's window."""
    rejected: int = 0
    """Rows with values that did not fit their column; they are written like any other row and included in `staged`."""
    staged: int = 0
    """Rows of the files that the slices wrote, by the footers of these files."""
    superseded: int = 0
    """Rows of `staged` that are older than another staged row of the same key."""
    stale: int = 0
    """Rows of `staged` that are older than the table's row of the same key."""
    deleted: int = 0
    """Rows of `staged` that mark their key as deleted; they are not added to the table."""
    hidden: int = 0
    """Rows of `staged` that readers do not see yet."""
    shown: int = 0
    """Rows hidden by earlier commits that this commit makes visible."""
    added: int = 0
    """Rows that the table gains; a replaced row counts here and in `removed`."""
    removed: int = 0
    """Rows that the table loses."""

    @property
    def landed(self) -> int:
        """Rows that the table gained or, in an overwrite, that the generation not visible yet gained."""
        return self.added + self.hidden - self.shown

    def __add__(self, other: "Receipt") -> "Receipt":
        return Receipt(*(getattr(self, figure.name) + getattr(other, figure.name) for figure in fields(self)))

    def check(self, gained: int | None, *, stream: str, path: str) -> None:
        """Raise ReceiptError when the figures contradict each other.

        gained: rows that the table gains according to its log; None: the log has no row count for some file.
        """
        merged = self.superseded + self.stale + self.deleted
        sums = {
            "read = staged + skipped": (self.read, self.staged + self.skipped),
            "staged + shown = added + hidden + superseded + stale + deleted": (
                self.staged + self.shown,
                self.added + self.hidden + merged,
            ),
            "added - removed = rows of the files that come less those of the files that leave": (
                self.added - self.removed,
                self.added - self.removed if gained is None else gained,
            ),
        }
        for rule, (counted, expected) in sums.items():
            if counted != expected:
                raise ReceiptError(rule, counted, expected, asdict(self), stream=stream, path=path)

    def to_text(self) -> str:
        """Return the receipt as the JSON text stored in the metadata of a commit."""
        return orjson.dumps(asdict(self)).decode()

    @classmethod
    def from_text(cls, text: str, path: str) -> "Receipt":
        """Parse the receipt from a commit's metadata, ignoring unknown figures. Raises BadState: when it is invalid."""
        try:
            figures = orjson.loads(text)
            return cls(**{figure.name: int(figures.get(figure.name, 0)) for figure in fields(cls)})
        except (orjson.JSONDecodeError, AttributeError, TypeError, ValueError) as error:
            raise BadState(path, text, "the receipt of a commit, a JSON object of integers") from error


class CommitRows(Struct, frozen=True):
    """What was read of a stream since its last commit."""

    files: Sequence[DataFile]
    """Files in the write mode's `staging` folder that no table names yet."""
    counts: Receipt = field(default_factory=Receipt)
    """What the slices counted since the last commit: `read`, `skipped` and `rejected`."""
    finished: bool = False
    """Whether the stream has been read to its end."""

    @property
    def staged(self) -> Receipt:
        """The receipt of their commit so far: the figures of the slices and of the files."""
        return replace(self.counts, staged=row_count(self.files))


def row_count(files: Sequence[DataFile]) -> int:
    """Return the total number of rows of files, by their footers."""
    return sum(file.rows for file in files)
