"""The least work for a kit whose records are Python dictionaries: `dict_limit.py URL FOLDER`.

requests' pages -> orjson -> a column at a time -> Parquet, with the columns that a table of the kit has. Nothing is
checked: no types, no undeclared fields, no retries, no state.
"""

import sys
from itertools import count
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import requests

_ADDRESS = pa.struct([("city", pa.string()), ("zip", pa.string()), ("geo", pa.string())])
_COLUMNS = {
    "id": pa.int64(),
    **{name: pa.string() for name in ("uuid", "name", "email", "status", "amount")},
    "quantity": pa.int64(),
    "is_active": pa.bool_(),
    **{name: pa.string() for name in ("created_at", "updated_at")},
    "address": _ADDRESS,
    "tags": pa.list_(pa.string()),
}
_SCHEMA = pa.schema([*_COLUMNS.items(), ("_raw_id", pa.string())])
_GROUP = 64


def main() -> None:
    """Read `items` page by page."""
    base, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    numbers, page = count(), 1
    gathered: list[pa.RecordBatch] = []
    with requests.Session() as session, pq.ParquetWriter(folder / "0.parquet", _SCHEMA, compression="zstd") as writer:
        while page:
            response = session.get(f"{base}/items", params={"page": page, "per_page": 1000})
            response.raise_for_status()
            body = orjson.loads(response.content)
            records, page = body["data"], body["next_page"]
            for record in records:
                record["address"]["geo"] = orjson.dumps(record["address"]["geo"]).decode()
            columns = [pa.array([record.get(name) for record in records], kind) for name, kind in _COLUMNS.items()]
            columns.append(pa.array([f"{n:042x}" for n, _ in zip(numbers, records, strict=False)]))
            gathered.append(pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))
            if len(gathered) == _GROUP or not page:
                writer.write_table(pa.Table.from_batches(gathered, _SCHEMA))
                gathered = []


if __name__ == "__main__":
    main()
