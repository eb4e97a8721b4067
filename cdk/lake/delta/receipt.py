"""Receipt: what became of the rows that a commit covers, in figures that are counted in different places.

The slices count what they read; the footers of the Parquet files say what was written; merging counts what it compares;
the table's log says what it gains and loses. None of them knows of another, so where they agree nothing was lost on the
way, and where they differ nothing is committed. A receipt goes into the metadata of its commit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

import orjson

from cdk.base.errors import BadState, ReceiptError
from cdk.base.values import Json
from cdk.lake.parquet.writer import DataFile

RECEIPT = "spark-cdk.receipt"
"""The key of a receipt in the metadata of a commit: one JSON object, in a string."""


@dataclass(frozen=True, slots=True)
class RecordCounts:
    """Records of one slice, or of several together, as the slices count them."""

    read: int = 0
    written: int = 0
    skipped: int = 0
    rejected: int = 0
    restarted: int = 0
    done: int = 0
    """Slices that were read to their end."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The rows of one commit, or of several together.

    read, skipped: records that the slices got, and those of them that the table has from an earlier run.
    rejected: rows with values that did not fit their column; they are rows like any other, and stay in `staged`.
    staged: rows of the files that the slices were written to, as the footers count them.
    superseded: those of them that are older than another one of the same key. stale: those that are older than the
    table's row. deleted: those that say that their key is deleted, and are no rows themselves.
    hidden: rows of `staged` that no reader sees yet. shown: rows that earlier commits hid and this one shows.
    added, removed: rows that come to the table, and rows that leave it. A row that is replaced is one of each.
    """

    read: int = 0
    skipped: int = 0
    rejected: int = 0
    staged: int = 0
    superseded: int = 0
    stale: int = 0
    deleted: int = 0
    hidden: int = 0
    shown: int = 0
    added: int = 0
    removed: int = 0

    @property
    def landed(self) -> int:
        """Rows that came to the table or, in an overwrite, to the generation that is not shown yet."""
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

    def to_json(self) -> Mapping[str, Json]:
        """The figures by their names."""
        return asdict(self)

    def to_text(self) -> str:
        """The receipt as the metadata of a commit has it."""
        return orjson.dumps(self.to_json()).decode()

    @classmethod
    def from_text(cls, text: str, path: str) -> "Receipt":
        """The receipt of a commit's metadata; figures of later versions are left out. Raises BadState."""
        try:
            figures = orjson.loads(text)
            return cls(**{figure.name: int(figures.get(figure.name, 0)) for figure in fields(cls)})
        except (orjson.JSONDecodeError, AttributeError, TypeError, ValueError) as error:
            raise BadState(path, text, "the receipt of a commit, a JSON object of whole numbers") from error


def row_count(files: Sequence[DataFile]) -> int:
    """The rows of files together, by their footers."""
    return sum(file.rows for file in files)
