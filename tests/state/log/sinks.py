"""Three sinks on disk: one with a marker, one that merges by key, one that only appends. And where they can fail."""

import json
import os
import resource
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from cdk import StateConflict

Row = tuple[str, int]
"""A stream, and a number of a row of it."""

Reach = Callable[[str], None]
"""Told which point is reached; what is to go wrong there does."""


class Fault:
    """What goes wrong at a named point: `kill@data_committed:2` the second time, `away@append:1+` from the first on.

    kill: SIGKILL. full: from here on no file of this process may grow. lost, away: ConnectionError; the one after
    the fact, the other instead of it. pause: `waits` is called, and returns when the process may go on.
    """

    def __init__(self, fault: str, waits: Callable[[], None]) -> None:
        self._what, _, at = fault.partition("@")
        self._point, _, time = at.partition(":")
        self._on = time.endswith("+")
        self._time = int(time.removesuffix("+") or 1)
        self._waits = waits
        self._reached: Counter[str] = Counter()

    def __call__(self, point: str) -> None:
        self._reached[point] += 1
        times = self._reached[point]
        if point != self._point or not (times == self._time or (self._on and times > self._time)):
            return
        match self._what:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "full":
                resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
            case "pause":
                self._waits()
            case _:
                raise ConnectionError(f"the line broke at {point}")


class Sink(Protocol):
    """Where rows go: `stage` keeps them for the next commit, `flush` commits them unless the log's session does."""

    marked: bool

    def stage(self, rows: Sequence[Row]) -> None: ...

    def flush(self) -> None: ...


class Table:
    """Rows in SQLite. A transaction is one commit."""

    marked = False
    insert = "INSERT INTO rows VALUES (?, ?)"

    def __init__(self, folder: Path, reach: Reach) -> None:
        self._path = folder / "rows.db"
        self._reach = reach
        self._waiting: list[Row] = []

    @property
    def pending(self) -> bool:
        return bool(self._waiting)

    def stage(self, rows: Sequence[Row]) -> None:
        self._waiting.extend(rows)

    def flush(self) -> None:
        with self._transaction() as connection:
            self._fill(connection)
        self._committed()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._path.parent.mkdir(exist_ok=True)
        with closing(sqlite3.connect(self._path, isolation_level=None, timeout=20)) as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS rows (stream TEXT, id INTEGER, "
                f"{'UNIQUE (stream, id), ' if 'REPLACE' in self.insert else ''}CHECK (id < 1000))"
            )
            connection.execute("CREATE TABLE IF NOT EXISTS markers (marker TEXT)")
            yield connection
            connection.execute("COMMIT")

    def _fill(self, connection: sqlite3.Connection) -> None:
        connection.executemany(self.insert, self._waiting)
        self._reach("staged")

    def _committed(self) -> None:
        self._waiting.clear()
        self._reach("data_committed")


class MergedTable(Table):
    """A row of a key that is there replaces it."""

    insert = "INSERT OR REPLACE INTO rows VALUES (?, ?)"


class MarkedTable(Table):
    """The marker is a row in the same database, and moves in the same transaction."""

    name = "rows"
    marked = True

    def flush(self) -> None:
        """The session commits."""

    def marker(self) -> str | None:
        rows = _select(self._path, "marker", "markers")
        return rows[0][0] if rows else None

    def commit(self, before: str | None, after: str) -> None:
        with self._transaction() as connection:
            found = [marker for (marker,) in connection.execute("SELECT marker FROM markers")]
            if found != ([] if before is None else [before]):
                raise StateConflict(f"found the marker {found}, expected {before!r}: another run moved it")
            self._fill(connection)
            connection.execute("DELETE FROM markers")
            connection.execute("INSERT INTO markers VALUES (?)", (after,))
        self._committed()


class AppendedFile:
    """Lines at the end of a file."""

    marked = False

    def __init__(self, folder: Path, reach: Reach) -> None:
        self._path = folder / "rows.jsonl"
        self._reach = reach
        self._waiting: list[Row] = []

    def stage(self, rows: Sequence[Row]) -> None:
        self._waiting.extend(rows)

    def flush(self) -> None:
        if any(number >= 1000 for _, number in self._waiting):
            raise ValueError("found a number of more than three digits")
        lines = "".join(f"{json.dumps(row)}\n" for row in self._waiting)
        self._reach("staged")
        with self._path.open("a") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        self._waiting.clear()
        self._reach("data_committed")


SINKS: dict[str, Callable[[Path, Reach], Table | AppendedFile]] = {
    "B": MarkedTable,
    "C": MergedTable,
    "D": AppendedFile,
}
"""B: a marker in the transaction. C: merged by key. D: appended. (A is a Delta table, which holds the state itself.)"""


def rows_in(folder: Path) -> Counter[Row]:
    """What a sink in this folder holds, and how often."""
    if (file := folder / "rows.jsonl").exists():
        return Counter((stream, number) for stream, number in map(json.loads, file.read_text().splitlines()))
    return Counter(_select(folder / "rows.db", "stream, id", "rows"))


def _select(path: Path, columns: str, table: str) -> list[Any]:
    """Rows of a table; none where it was never made."""
    if not path.exists():
        return []
    with closing(sqlite3.connect(path, timeout=20)) as connection:
        there = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchall()
        return connection.execute(f"SELECT {columns} FROM {table}").fetchall() if there else []  # noqa: S608 - names of ours
