"""A table's log, commit by commit, as far back as the table keeps it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import orjson

from cdk.lake.delta.stream_table import NOTE
from cdk.lake.parquet.table_files import LogAction, actions
from cdk.lake.storage.folder import Folder


@dataclass(frozen=True)
class Commit:
    """A commit of a table."""

    version: int
    """The table's version that it made."""
    at: datetime | None
    """By the clock of the writer."""
    operation: str
    state: int | None = None
    """The version of the state that it moved to, if it moved the state."""
    rows: int | None = 0
    """Rows of the files that it added; None where one of them has no count."""
    replaced: bool = False
    """Whether it removed files."""
    note: str = ""
    """What a person did to the state."""


def commits(root: Folder, app: str, version: int) -> Iterator[Commit]:
    """The commits up to `version`, newest first, as far back as the log reaches. app: the application of the state."""
    for at in range(version, -1, -1):
        try:
            lines = actions(root, at)
        except FileNotFoundError:
            return
        info: LogAction = next((line["commitInfo"] for line in lines if "commitInfo" in line), {})
        added = [_rows(line["add"]) for line in lines if "add" in line]
        moved = [line["txn"]["version"] for line in lines if line.get("txn", {}).get("appId") == app]
        yield Commit(
            at,
            datetime.fromtimestamp(info["timestamp"] / 1000, UTC) if "timestamp" in info else None,
            str(info.get("operation", "")),
            state=moved[0] if moved else None,
            rows=None if None in added else sum(n for n in added if n is not None),
            replaced=any("remove" in line for line in lines),
            note=str(info.get(NOTE, "")),
        )


def _rows(add: LogAction) -> int | None:
    rows: int | None = orjson.loads(add.get("stats") or "{}").get("numRecords")
    return rows
