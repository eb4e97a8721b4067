"""A stream's Delta table: rows and state move in one transaction.

A commit names the new files and moves the table's transaction marker `txn(app)` to a fresh version. The state that
belongs to it was written before, to `_cdk_state/<pipeline>/<version>.json`, so the marker alone says which state holds.
The rule that makes it exactly-once: the commit goes through the very table handle whose marker was compared with the
version the state was loaded at. A run whose handle is stale is refused by the log; a fresh handle would not be.

Measured with delta-rs 1.6: the marker survives log clean-up and the commit's metadata does not; the writer does not
compare versions; neighbours such as OPTIMIZE pass. RESTORE brings the rows of an older version back and leaves the
marker where it was: the log tells which state belongs to the rows, and the marker still fences.
"""

import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote

import orjson
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from cdk.base.errors import BadState, ConfigError, StateConflict, StateError
from cdk.base.values import Json
from cdk.spark.files import DataFile, sync_to_disk

_FORMAT = "spark-cdk/1"
_NONCE_BITS = 20
_KEPT = 20
_SHOWN = 4096


@dataclass(frozen=True)
class Saved:
    """What a table remembers of its stream between runs.

    sync: the sync that saved it. generation: counts full refreshes; rows carry it. complete: the last sync of this
    generation reached the end. state: the stream's state in its exact wire form. pending: files of a generation that
    is not yet visible. records: rows committed in this generation. history: versions of earlier states, newest first.
    """

    sync_mode: str
    write_mode: str
    sync: str = ""
    generation: int = 1
    complete: bool = False
    state: Json = None
    pending: tuple[DataFile, ...] = ()
    records: int = 0
    history: tuple[int, ...] = field(default=(), compare=False)


class StreamTable:
    """One stream's table, opened for one run. The handle is pinned: see the module.

    saved: the state that belongs to the table's rows; None when there is none.
    """

    def __init__(self, root: Path, pipeline: str, stream: str, schema: pa.Schema) -> None:
        """Open the table, or create it.

        Raises ConfigError: a column's type differs from the table's. StateError: the table's state cannot be found.
        """
        self.root = root
        self.schema = schema
        self._app = f"spark-cdk/{pipeline}/{stream}"
        self._stream = stream
        self._states = root / "_cdk_state" / pipeline
        if unquote(str(root)) != str(root):
            raise ConfigError("delta-rs cannot open a path with %; choose another one", path=str(root), stream=stream)
        root.mkdir(parents=True, exist_ok=True)
        if not DeltaTable.is_deltatable(str(root)):
            DeltaTable.create(str(root), schema, mode="ignore")
        self._handle = DeltaTable(str(root))
        self._add_columns()
        self._version = self._marker()
        self._held = None if self._version is None else self._standing(self._version)
        self.saved: Saved | None = None if self._held is None else self._load(self._held)

    @property
    def version(self) -> int:
        """The table's version, as Delta counts it."""
        return int(self._handle.version())

    def commit(self, saved: Saved, files: Sequence[DataFile] = (), *, overwrite: bool = False) -> None:
        """Add `files` and move the state to `saved`, or do neither. overwrite: drop the rows that were there.

        Raises StateConflict: another run moved this stream's state since the table was opened.
        """
        before = self._version
        if self._marker() != before:  # refused before; the handle has seen the other run's commit since
            raise self._conflict(before, None)
        version = (((before or 0) >> _NONCE_BITS) + 1) << _NONCE_BITS | secrets.randbits(_NONCE_BITS)
        earlier = [before, self._held, *(self.saved.history if self.saved else ())]
        history = tuple(dict.fromkeys(n for n in earlier if n is not None))[:_KEPT]
        saved = replace(saved, history=history)
        self._write(version, saved)
        adds: list[AddAction | RemoveAction] = [
            AddAction(f.path, f.size, {}, f.modified, True, f'{{"numRecords":{f.rows}}}') for f in files
        ]
        properties = CommitProperties(
            custom_metadata={"spark-cdk.state": _for_people(saved)}, app_transactions=[Transaction(self._app, version)]
        )
        try:
            self._handle.create_write_transaction(
                adds, "overwrite" if overwrite else "append", self._handle.schema(), commit_properties=properties
            )
            self._handle.update_incremental()
        except (DeltaError, OSError) as error:
            self._handle = DeltaTable(str(self.root))
            if self._marker() != version:
                raise self._conflict(before, error) from error
        if self._marker() != version:
            raise self._conflict(version, None)
        self._version, self._held, self.saved = version, version, saved
        self._prune(version, saved)

    def _marker(self) -> int | None:
        marker: int | None = self._handle.transaction_version(self._app)
        return marker

    def _standing(self, marker: int) -> int | None:
        """The version of the state that belongs to the rows: the marker's, unless the table was restored since."""
        at, restored = self.version, False
        while at >= 0:
            try:
                lines = (self.root / "_delta_log" / f"{at:020}.json").read_bytes().splitlines()
            except FileNotFoundError:
                if not restored:
                    return marker  # the log was cleaned up, as far back as nobody restores
                raise self._unknown(f"version {at}, to which it was restored, is gone from the log") from None
            actions = [orjson.loads(line) for line in lines]
            for action in actions:
                if action.get("txn", {}).get("appId") == self._app:
                    version: int = action["txn"]["version"]
                    return version
            at -= 1
            for info in (action.get("commitInfo", {}) for action in actions):
                if info.get("operation") == "RESTORE":
                    to, restored = info.get("operationParameters", {}).get("version"), True
                    if to is None:
                        raise self._unknown("it was restored to a time; restore it to a version, by its number")
                    at = int(to)
        return None if restored else marker

    def _unknown(self, why: str) -> StateError:
        message = f"which state belongs to the table's rows cannot be told: {why}"
        return StateError(message, path=str(self.root), stream=self._stream)

    def _conflict(self, expected: int | None, error: Exception | None) -> StateError:
        if self._marker() == expected:
            return StateError(f"the table refused a commit: {error}", path=str(self.root), stream=self._stream)
        return StateConflict(
            "another run moved this stream's state while this one was reading; this run wrote nothing more. "
            "Run one sync of a pipeline at a time.",
            path=str(self.root),
            stream=self._stream,
        )

    def _add_columns(self) -> None:
        """Give the table the columns that the schema has gained."""
        existing = {column.name: column for column in self._handle.schema().fields}
        spelled = {name.lower(): name for name in existing}
        wanted = Schema.from_arrow(self.schema).fields
        for column in wanted:
            known = existing.get(column.name)
            if (name := spelled.get(column.name.lower(), column.name)) != column.name:
                raise ConfigError(
                    f"column {column.name!r} is {name!r} in the table; tables do not tell them apart: "
                    "sync into another path, or give the schema its old spelling",
                    path=str(self.root),
                    stream=self._stream,
                )
            if known is not None and known.type != column.type:
                raise ConfigError(
                    f"column {column.name!r} is {known.type} in the table and {column.type} in the stream's schema; "
                    "sync into another path, or give the schema its old type",
                    path=str(self.root),
                    stream=self._stream,
                )
        missing = [column for column in wanted if column.name not in existing]
        if missing:
            self._handle.alter.add_columns(missing)
            self._handle = DeltaTable(str(self.root))

    def _path(self, version: int) -> Path:
        return self._states / f"{version}.json"

    def _write(self, version: int, saved: Saved) -> None:
        self._states.mkdir(parents=True, exist_ok=True)
        path = self._path(version)
        draft = path.with_suffix(".tmp")
        with draft.open("wb") as out:
            out.write(orjson.dumps({"format": _FORMAT, "stream": self._stream, **asdict(saved)}))
        sync_to_disk(draft)
        draft.replace(path)
        sync_to_disk(path)

    def _load(self, version: int) -> Saved:
        path = self._path(version)
        try:
            blob = orjson.loads(path.read_bytes())
        except FileNotFoundError:
            raise StateError(
                f"the table stands at state {version}, and this file is missing; bring it back, or move the table "
                "away to read the stream from its start",
                path=str(path),
                stream=self._stream,
            ) from None
        except (OSError, orjson.JSONDecodeError) as error:
            raise BadState(str(path), str(error), "the JSON an earlier run wrote", stream=self._stream) from error
        if not isinstance(blob, dict) or blob.pop("format", None) != _FORMAT:
            raise BadState(str(path), blob, f'a state of the format "{_FORMAT}"', stream=self._stream)
        try:
            blob.pop("stream")
            pending = tuple(DataFile(**file) for file in blob.pop("pending"))
            return Saved(**{**blob, "history": tuple(blob["history"])}, pending=pending)
        except (KeyError, TypeError) as error:
            raise BadState(str(path), blob, "the fields an earlier run wrote", stream=self._stream) from error

    def _prune(self, version: int, saved: Saved) -> None:
        """Remove states that a restore of the table can no longer need, and drafts of runs that were cut.

        A state with a higher number may be a newer run's, written and about to be committed.
        """
        kept = {version, *saved.history}
        for path in self._states.iterdir():
            if (
                path.stem.isdecimal()
                and int(path.stem) not in kept
                and int(path.stem) >> _NONCE_BITS <= version >> _NONCE_BITS
            ):
                path.unlink(missing_ok=True)


def _for_people(saved: Saved) -> str:
    """The state as the table's history shows it; never read back."""
    text = orjson.dumps(saved.state).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
