"""Emptied columns: every row of the table has a value, but no record of a read. Usually the source renamed a field."""

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from cdk.base.wording import listed
from cdk.lake.arrow.columns import DELETED_AT, OWN_COLUMNS, RAW_ID
from cdk.lake.parquet.table_files import FilledColumns
from cdk.lake.parquet.writer import DataFile

_MANY = 10
"""The minimum rows of a table, and records of a read, for an empty column not to be a coincidence."""
_FEW, _LARGE = 3, 50
"""_FEW records suffice if the table has at least _LARGE rows: the first sync after a field was renamed may be small,
and later syncs cannot detect the change, because by then some rows lack the field."""
_SHOWN = 5


class EmptiedColumns(Struct):
    """Compares the rows of a read, which may span several commits, with the rows that the table had before.

    filled: returns the filled columns of the table before the first of these commits. It is called at most once, and
    only if a column is empty.
    """

    filled: Callable[[], FilledColumns]
    _rows: int = 0
    _nulls: dict[str, int] = field(default_factory=dict)
    _before: FilledColumns | None = None
    _counted: bool = True

    def add(self, files: Sequence[DataFile]) -> None:
        """Count the rows of a commit that is about to be made."""
        for file in files:
            nulls = {**file.nulls, **{name: file.nulls_of(name) for name in file.partition}}
            # Every row has an id; if the nulls of ids are not counted, neither are those of other columns.
            self._counted = self._counted and RAW_ID in nulls
            for name in nulls.keys() | self._nulls.keys():
                # A column that a file lacks is null in all of its rows.
                self._nulls[name] = self._nulls.get(name, self._rows) + nulls.get(name, file.rows)
            self._rows += file.rows
        if self._before is None and self._empty():
            self._before = self.filled()

    def warning(self) -> str:
        """Return a warning that names the columns empty in all rows of the read but full before; empty if none are."""
        before = self._before
        if before is None or not self._counted or before.rows < _MANY:
            return ""
        if self._rows < (_FEW if before.rows >= _LARGE else _MANY):
            return ""
        # Records of deletions often have no fields but the key.
        if self._nulls.get(DELETED_AT, self._rows) < self._rows:
            return ""
        emptied = [name for name in self._empty() if name in before.full]
        if not emptied:
            return ""
        new = [name for name, nulls in self._nulls.items() if not nulls and name not in {*before.some, *OWN_COLUMNS}]
        hint = f" (new: {listed(new, _SHOWN, repr)})" if new else ""
        return (
            f"found no {listed(emptied, _SHOWN, repr)} in any of the {self._rows:,} records of this sync, expected "
            f"some: all {before.rows:,} existing rows have a value. Check a record of the source, which may have "
            f"renamed the field{hint}"
        )

    def _empty(self) -> list[str]:
        return [name for name, nulls in self._nulls.items() if nulls == self._rows and name not in OWN_COLUMNS]
