"""Receipt: what became of the rows that a commit covers, in figures from independent sources.

The slices count records; the footers of the Parquet files count written rows; merging counts what it compares; the
table's log counts what it gains and loses. None of them knows another, so where they agree no row was lost on the way,
and where they differ nothing is committed. A receipt goes into the metadata of its commit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields

import orjson

from cdk.base.errors import BadState, ReceiptError
from cdk.base.values import JsonValue
from cdk.lake.parquet.writer import DataFile

RECEIPT = "spark-cdk.receipt"
"""The key of a receipt in the metadata of a commit: one JSON object, in a string."""


@dataclass(frozen=True, slots=True)
class RecordCounts:
    """Records of one slice, or of several together, as the slices count them."""

    read: int = 0
    written: int = 0
    rejected: int = 0
    skipped: int = 0
    restarted: int = 0
    done: int = 0
    """Slices that were read to their end."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The rows of one commit, or of several together."""

    read: int = 0
    """Records that the slices read."""
    skipped: int = 0
    """Records of `read` that the table has from an earlier run, or that lie outside of their slice's window."""
    rejected: int = 0
    """Rows with values that did not fit their column; they are rows like any other, and count in `staged`."""
    staged: int = 0
    """Rows of the files that the slices wrote, by their footers."""
    superseded: int = 0
    """Rows of `staged` that are older than another one of the same key."""
    stale: int = 0
    """Rows of `staged` that are older than the table's row."""
    deleted: int = 0
    """Rows of `staged` that delete their key, and are no rows themselves."""
    hidden: int = 0
    """Rows of `staged` that no reader sees yet."""
    shown: int = 0
    """Rows that earlier commits hid and this one shows."""
    added: int = 0
    """Rows that the table gains; a row that is replaced counts here and in `removed`."""
    removed: int = 0
    """Rows that the table loses."""

    @property
    def landed(self) -> int:
        """Rows that the table gained or, in an overwrite, the generation that is not visible yet."""
        return self.added + self.hidden - self.shown

    def __add__(self, other: "Receipt") -> "Receipt":
        return Receipt(*(getattr(self, figure.name) + getattr(other, figure.name) for figure in fields(self)))

    def check(self, gained: int | None, *, stream: str, path: str) -> None:
        """Compare the figures. gained: rows that the table's log says it gains; None: some file there has no count.

        Raises ReceiptError.
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

    def to_json(self) -> Mapping[str, JsonValue]:
        """The figures by name, as reports and the metadata of a commit have them."""
        return asdict(self)

    def to_text(self) -> str:
        """The receipt as the metadata of a commit has it."""
        return orjson.dumps(self.to_json()).decode()

    @classmethod
    def from_text(cls, text: str, path: str) -> "Receipt":
        """The receipt of a commit's metadata; unknown figures are ignored. Raises BadState."""
        try:
            figures = orjson.loads(text)
            return cls(**{figure.name: int(figures.get(figure.name, 0)) for figure in fields(cls)})
        except (orjson.JSONDecodeError, AttributeError, TypeError, ValueError) as error:
            raise BadState(path, text, "the receipt of a commit, a JSON object of integers") from error


@dataclass(frozen=True)
class CommitRows:
    """What came of a stream since its last commit."""

    files: Sequence[DataFile]
    """They lie in the mode's `staging`, and no table names them yet."""
    counts: RecordCounts = field(default_factory=RecordCounts)
    """What the slices counted since the last commit."""
    finished: bool = False
    """All has been read."""

    @property
    def staged(self) -> Receipt:
        """The receipt of their commit, with the figures of the slices and of their files."""
        return Receipt(self.counts.read, self.counts.skipped, self.counts.rejected, staged=row_count(self.files))


def row_count(files: Sequence[DataFile]) -> int:
    """The rows of files together, by their footers."""
    return sum(file.rows for file in files)
