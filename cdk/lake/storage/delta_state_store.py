"""DeltaStore: state logs in a Delta table of their own, on a disk or in an object store, through `deltalake`.

namespace, pipeline, kind "record", name = seq, 12 digits -> record (JSON text)
namespace, pipeline, kind "blob", name                    -> blob (bytes)
"""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction, RemoveAction

from cdk.base.errors import BadState, ConfigError
from cdk.base.suggestions import did_you_mean
from cdk.base.times.clock import Clock, system_clock
from cdk.base.values import Json
from cdk.lake.storage.delta_row_table import CONTENT, Actions, Row, Rows, RowTable
from cdk.lake.storage.folder import Folder
from cdk.lake.storage.object_store import ObjectStoreFolder, folder_at
from cdk.state.stores.key import StateKey

_PATH = "state_provider.config"
_READS = 3


class DeltaStore:
    """Rows of a Delta table at `place`. `create` is the commit of the next version after a look; see `RowTable`.

    A file's name is used once. So the log tells whose file a row has, also when the answer to a commit was lost.
    clock: dates files, for VACUUM. Raises ConfigError: delta-rs cannot open a table there.
    """

    def __init__(self, folder: Folder, *, clock: Clock = system_clock) -> None:
        self._folder = folder
        self._clock = clock
        self._table = RowTable(folder)

    def prepare(self) -> None:
        """Make the table. Of an object store, prove first that it refuses a second create."""
        _prove(self._folder)
        self._table.make()

    def create(self, key: StateKey, seq: int, record: bytes) -> bool:
        return self._add(_record(key, seq), record)

    def read(self, key: StateKey, seq: int) -> bytes | None:
        return self._data(_record(key, seq))

    def numbers(self, key: StateKey) -> Sequence[int]:
        return sorted(int(name) for name in self._names(key, "record"))

    def keys(self) -> Iterable[StateKey]:
        return sorted({StateKey(row.pipeline, row.namespace) for row in self._table.rows() if row.kind == "record"})

    def put_blob(self, key: StateKey, name: str, data: bytes) -> None:
        self._add(_blob(key, name), data)

    def blob(self, key: StateKey, name: str) -> bytes | None:
        return self._data(_blob(key, name))

    def blobs(self, key: StateKey) -> Iterable[str]:
        return sorted(self._names(key, "blob"))

    def drop(self, key: StateKey, numbers: Iterable[int], blobs: Iterable[str]) -> None:
        unwanted = [*(_record(key, seq) for seq in numbers), *(_blob(key, name) for name in blobs)]
        dropped: set[str] = set()

        def removal(rows: Rows) -> Actions:
            files = [file for row in unwanted for file in rows.get(row, ())]
            dropped.update(files)
            return [RemoveAction(file, data_change=True, deletion_timestamp=self._now()) for file in files]

        self._table.reconcile(removal)
        # Nobody goes back to an older version of this table, so its files need not wait for a VACUUM.
        with self._table.translating_errors():
            for file in dropped:
                self._folder.delete(file)

    def lease(self, key: StateKey) -> AbstractContextManager[None]:  # noqa: ARG002 - a table cannot tell who is alive
        return nullcontext()

    def address_of(self, key: StateKey, seq: int) -> str:
        return f"{self._folder} {key} seq={seq}"

    def close(self) -> None:
        self._table.close()

    def _add(self, row: Row, data: bytes) -> bool:
        """Store a row unless it is there; say whether this call did."""
        file, content = f"part-{uuid4()}.parquet", _parquet(row.kind, data)
        written = False

        def addition(rows: Rows) -> Actions:
            nonlocal written
            if row in rows:
                return []
            if not written:
                self._folder.write(file, content)
                written = True
            return [AddAction(file, len(content), row._asdict(), self._now(), True, '{"numRecords":1}')]

        mine = file in self._table.reconcile(addition)[row]
        with self._table.translating_errors():
            if mine and not self._folder.has([file]):
                # A VACUUM that keeps nothing came between the file and the commit that names it.
                self._folder.write(file, content)
            elif written and not mine:
                self._folder.delete(file)
        return mine

    def _data(self, row: Row) -> bytes | None:
        file = ""
        for _ in range(_READS):
            file = next(iter(self._table.rows().get(row, ())), "")
            if not file:
                return None
            with self._table.translating_errors():
                try:
                    content = self._folder.read(file)
                except FileNotFoundError:  # it was dropped or rewritten since: look again
                    continue
            return _unpacked(content, row.kind, f"{self._folder}/{file}")
        raise BadState(f"{self._folder}/{file}", None, f"the file that the table names for {row}")

    def _names(self, key: StateKey, kind: str) -> Iterator[str]:
        owner = (key.namespace, key.pipeline, kind)
        return (row.name for row in self._table.rows() if row[:3] == owner)

    def _now(self) -> int:
        """Milliseconds since 1970."""
        return int(self._clock().timestamp() * 1000)


def open_delta(config: Mapping[str, Json]) -> DeltaStore:
    """The store of `{path, storage}`: a folder or an address, and how to get there, both as in a pipeline's `target`.

    Raises ConfigError: a key is unknown, or says nothing that can be used.
    """
    for name in config:
        if name not in ("path", "storage"):
            raise ConfigError(f"unknown key {name!r}{did_you_mean(name, ('path', 'storage'))}", path=_PATH)
    path, storage = config.get("path"), config.get("storage") or {}
    if not isinstance(path, str) or not path:
        raise ConfigError(f"found {path!r}, expected a folder or an address", path=f"{_PATH}.path")
    if not isinstance(storage, Mapping):
        raise ConfigError(f"found {type(storage).__name__}, expected keys and values", path=f"{_PATH}.storage")
    try:
        folder = folder_at(path if "://" in path else str(Path(path).expanduser()), storage)
    except ConfigError as error:  # it says where a pipeline has them
        where, message = (text.replace("target.storage", f"{_PATH}.storage") for text in (error.path, error.message))
        raise ConfigError(message, path=where) from None
    return DeltaStore(folder)


def _prove(folder: Folder) -> None:
    """Have an object store refuse a second create. delta-rs looks before it puts, so another client must ask for it.

    Raises ConfigError: the store takes both, or that client is not installed.
    """
    if not isinstance(folder, ObjectStoreFolder):
        return
    try:
        from cdk.state.stores.cloud import CloudStore  # noqa: PLC0415 - of an extra
    except ImportError as error:
        raise ConfigError(
            f"a table in an object store cannot be proved ({error}); pip install 'spark-cdk[object]'",
            path="state_provider.type",
        ) from error
    options: dict[str, Json] = dict(folder.options)
    if options.pop("AWS_ALLOW_HTTP", "").lower() in {"true", "1"}:
        options["allow_http"] = True
    CloudStore(folder.uri, options).prepare()


def _record(key: StateKey, seq: int) -> Row:
    return Row(key.namespace, key.pipeline, "record", f"{seq:012}")


def _blob(key: StateKey, name: str) -> Row:
    return Row(key.namespace, key.pipeline, "blob", name)


def _parquet(kind: str, data: bytes) -> bytes:
    """A file with one row, whose column `kind` holds the data."""
    row = {kind: data.decode() if kind == "record" else data}
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([row], CONTENT), out)
    return out.getvalue()


def _unpacked(content: bytes, kind: str, path: str) -> bytes:
    """The data of such a file. Raises BadState: it holds none."""
    try:
        values = pq.read_table(io.BytesIO(content), columns=[kind])[kind].to_pylist()
    except (pa.ArrowException, OSError, KeyError) as error:
        raise BadState(path, str(error), "the Parquet file that was written") from error
    if len(values) != 1 or values[0] is None:
        raise BadState(path, values[:2], f"one row with a {kind}")
    return values[0].encode() if kind == "record" else bytes(values[0])
