"""A pipeline of many partitions and runs: its first read and its last runs by the kit's writer, the others as files."""

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from msgspec.structs import replace

from cdk.base.values import Json
from cdk.lake.delta.state_blobs import successor
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.storage.folder import LocalFolder
from cdk.state.layers.layered_map import LayeredMap
from cdk.state.stored_positions import PartitionEntries
from cdk.sync.reports.run_history import RunHistory

_FIRST, _LAST = 12, 20
"""Commits of the first read, and runs that the kit itself commits: of so many, states are retained."""
_REPORTS = 1000
"""Reports that a pipeline retains."""
_EACH = 100
"""A run moves one in so many partitions."""


def put_many(folder: Path, *, partitions: int, runs: int) -> None:
    """Let `orders` of `shop_folder` have many partitions, and its pipeline many runs, the last with reports.

    Every tenth run failed.
    """
    table = folder / "tables" / "orders"
    lake = StreamTable(table, "shop", "orders", pa.schema([]))
    assert lake.saved is not None
    texts = LayeredMap()
    for part in range(_FIRST):
        texts = texts.updated(_moved(range(part, partitions, _FIRST), 1))
        saved = replace(lake.saved, sync="first", complete=part == _FIRST - 1, state=_state(texts))
        lake.commit(saved)
    began = int(time.time() * 1000) - runs * 60_000
    lake.draft(_add_commits(table, lake, runs - _LAST, began), lake.saved)
    lake = StreamTable(table, "shop", "orders", pa.schema([]))
    assert lake.saved is not None
    for number in range(runs - _LAST, runs):
        texts = texts.updated(_moved(range(number % _EACH, partitions, _EACH), number))
        saved = replace(lake.saved, sync=_sync(number), complete=number % 10 != 0, state=_state(texts))
        lake.commit(saved)
    _put_reports(folder, runs, began)


def _state(texts: LayeredMap) -> Json:
    return {"states": PartitionEntries(texts)}


def _moved(numbers: range, value: int) -> Mapping[str, str]:
    return {f'{{"shop":"s{number:07}"}}': f'{{"cursor":{{"at":{value}}}}}' for number in numbers}


def _sync(number: int) -> str:
    return f"{number:08x}" * 4


def _add_commits(table: Path, lake: StreamTable, runs: int, began: int) -> int:
    """Commits of runs, each with a file of rows, as the newest one there is; the version of the last state."""
    log, version = table / "_delta_log", lake.state_version
    lines = [json.loads(line) for line in (log / f"{lake.version:020}.json").read_text().splitlines()]
    (info,), (txn,) = ([line[kind] for line in lines if kind in line] for kind in ("commitInfo", "txn"))
    for number in range(runs):
        at, version = began + number * 60_000, successor(version)
        added = {
            "path": f"{number:05}.parquet",
            "partitionValues": {},
            "size": 4000,
            "modificationTime": at,
            "dataChange": True,
            "stats": '{"numRecords":10}',
        }
        complete = str(number % 10 != 0).lower()
        actions = [
            {"commitInfo": {**info, "timestamp": at, "spark-cdk.sync": _sync(number), "spark-cdk.complete": complete}},
            {"txn": {**txn, "version": version, "lastUpdated": at}},
            {"add": added},
        ]
        path = log / f"{lake.version + 1 + number:020}.json"
        path.write_text("\n".join(map(json.dumps, actions)))
    DeltaTable(table).create_checkpoint()
    assert version is not None
    return version


def _put_reports(folder: Path, runs: int, began: int) -> None:
    history = RunHistory(LocalFolder(folder / "tables"), "shop")
    reports = [json.loads((folder / f"{name}.json").read_text()) for name in ("failed", "resumed")]
    for number in range(max(0, runs - _REPORTS), runs):
        start, end = (datetime.fromtimestamp(began / 1000 + number * 60 + at, UTC).isoformat() for at in (0, 50))
        about = {"sync_id": _sync(number), "started_at": start, "ended_at": end}
        history.add({**reports[number % 10 > 0], **about})


VIEWS = {
    "pipelines": "/",
    "pipeline": "/pipeline?file=pipeline.yaml",
    "stream": "/stream?file=pipeline.yaml&stream=orders",
    "timeline": "/stream?file=pipeline.yaml&stream=visits",
    "test read": "/build?connector=shop.py&config=config.json&stream=orders",
}
"""The views of the pipeline, by their addresses."""
