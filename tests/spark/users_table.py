"""A table with one column, the ids of users, for tests of what a commit does to rows and state."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from cdk.base.values import Json
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_state import TableState
from cdk.lake.parquet.writer import DataFile, TableWriter

ID = pa.schema([("id", pa.int64())])


def opened(root: Path, schema: pa.Schema = ID, *, pipeline: str = "shop") -> StreamTable:
    return StreamTable(root, pipeline, "users", schema)


def wrote(root: Path, *ids: int, schema: pa.Schema = ID) -> list[DataFile]:
    """A finished file with these rows, in no version of the table."""
    writer = TableWriter(root, schema)
    writer.write([pa.RecordBatch.from_pylist([{"id": i} for i in ids], schema)])
    return writer.close()


def saved(state: Json, **more: Json) -> TableState:
    return TableState("incremental", "append", state=state, **more)


def ids(root: Path) -> list[int]:
    files = DeltaTable(str(root)).file_uris()
    return sorted(i for file in files for i in pq.read_table(file)["id"].to_pylist())


def state(root: Path, *, pipeline: str = "shop") -> Json:
    found = opened(root, pipeline=pipeline).saved
    return None if found is None else found.state


def blobs(root: Path) -> list[Path]:
    return sorted((root / "_cdk_state" / "shop").iterdir())
