"""Gives tables features of Delta, as other engines do: by commits that are written here by hand.

The shapes are those of the protocol: "Protocol Evolution", "Change Metadata" and "Deletion Vectors".
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from cdk import Json

Action = Mapping[str, Any]
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_ARRAY_OF_BITMAPS, _NO_RUNS = 1681511377, 12346


@dataclass(frozen=True)
class Given:
    """What a feature puts into a log. fields: what it changes in columns, by name. version: of writers."""

    writer: Sequence[str] = ()
    reader: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    version: int = 7
    renames: bool = False
    """Whether a file has a name that delta-rs spells otherwise."""


def _map(kind: Any, ids: Iterator[int]) -> None:
    """Give each field, at any depth, an id and another name for files: its own."""
    match kind:
        case {"fields": fields}:
            for one in fields:
                one["metadata"] = {"delta.columnMapping.id": next(ids), "delta.columnMapping.physicalName": one["name"]}
                _map(one["type"], ids)
        case {"elementType": element}:
            _map(element, ids)
        case _:
            pass


def _both(*names: str) -> Given:
    return Given(names, names)


FEATURES: Mapping[str, Given] = {
    "append-only rows": Given(["appendOnly"], properties={"delta.appendOnly": "true"}),
    "CHECK constraints": Given(["checkConstraints"], properties={"delta.constraints.small": "size < 100"}),
    "column invariants": Given(
        ["invariants"],
        fields={"size": {"metadata": {"delta.invariants": '{"expression":{"expression":"size < 100"}}'}}},
    ),
    "NOT NULL columns": Given(["invariants"], fields={"size": {"nullable": False}}),
    "generated columns": Given(
        ["generatedColumns"], fields={"size": {"metadata": {"delta.generationExpression": "id * 2"}}}
    ),
    "identity columns": Given(
        ["identityColumns"], fields={"size": {"metadata": {"delta.identity.start": 1, "delta.identity.step": 1}}}
    ),
    "column defaults": Given(["allowColumnDefaults"], fields={"size": {"metadata": {"CURRENT_DEFAULT": "7"}}}),
    "a change feed": Given(["changeDataFeed"], properties={"delta.enableChangeDataFeed": "true"}),
    "deletion vectors": Given(["deletionVectors"], ["deletionVectors"], {"delta.enableDeletionVectors": "true"}),
    "column mapping": Given(
        ["columnMapping"],
        ["columnMapping"],
        {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "99"},
    ),
    "row tracking": Given(["rowTracking", "domainMetadata"], properties={"delta.enableRowTracking": "true"}),
    "clustering": Given(["clustering", "domainMetadata"]),
    "domain metadata": Given(["domainMetadata"]),
    "in-commit timestamps": Given(["inCommitTimestamp"], properties={"delta.enableInCommitTimestamps": "true"}),
    "type widening": _both("typeWidening"),
    "the vacuum protocol check": _both("vacuumProtocolCheck"),
    "Iceberg compatibility": Given(["icebergCompatV2"], properties={"delta.enableIcebergCompatV2": "true"}),
    "files whose names delta-rs spells differently": Given(version=2, renames=True),
    "variant columns": _both("variantType"),
}
"""One table's worth of each feature, by the names of `cdk.lake.delta.table_guard.FEATURES`."""

OTHERS: Mapping[str, Given] = {
    "futureThing": Given(["futureThing"]),
    "a feature of readers": _both("futureThing"),
    "catalogManaged": Given(["catalogManaged", "inCommitTimestamp"], ["catalogManaged"]),
    "writer version 6": Given(version=6),
}
HARMLESS: Mapping[str, Given] = {
    "writer version 2": Given(version=2),
    "writer version 4": Given(version=4),
    "features that nothing uses": Given(
        ["appendOnly", "checkConstraints", "changeDataFeed", "generatedColumns", "invariants", "columnMapping"],
        ["columnMapping"],
        {"delta.appendOnly": "false", "delta.columnMapping.mode": "none"},
    ),
    "v2Checkpoint": _both("v2Checkpoint"),
    "timestampNtz": _both("timestampNtz"),
}


def give(root: Path, given: Given) -> None:
    """Give a table a feature, in a commit of its own. Features that it has already stay."""
    log = _log(root)
    if given.renames:
        _rename(root, log)
    meta = next(action["metaData"] for action in reversed(log) if "metaData" in action)
    schema = orjson.loads(meta["schemaString"])
    for column in schema["fields"]:
        column.update(given.fields.get(column["name"], {}))
    if given.properties.get("delta.columnMapping.mode") == "name":
        _map(schema, count(1))
    protocol: dict[str, Json] = {"minReaderVersion": 3 if given.reader else 1, "minWriterVersion": given.version}
    if given.version == 7:
        protocol["writerFeatures"] = list(given.writer)
    if given.reader:
        protocol["readerFeatures"] = list(given.reader)
    changed = {
        **meta,
        "schemaString": orjson.dumps(schema).decode(),
        "configuration": {**meta["configuration"], **given.properties},
    }
    _commit(root, [_info("SET TBLPROPERTIES"), {"protocol": protocol}, {"metaData": changed}])


def _rename(root: Path, log: Sequence[Action]) -> None:
    """Have a file written again under a name that its writer does not encode."""
    removed = {action["remove"]["path"] for action in log if "remove" in action}
    add = next(action["add"] for action in log if "add" in action and action["add"]["path"] not in removed)
    name = f"ü-{add['path']}"
    (root / add["path"]).rename(root / name)
    moved = {"path": add["path"], "deletionTimestamp": 1, "dataChange": False}
    _commit(root, [_info("OPTIMIZE"), {"remove": moved}, {"add": {**add, "path": name, "dataChange": False}}])


def delete_by_vector(root: Path, rows: Mapping[str, Sequence[int]]) -> None:
    """Delete rows of files, by their numbers, as engines do that write no file again: with a deletion vector.

    rows: all that the file lacks then, also those that it lacks already.
    """
    there = {action["add"]["path"]: action["add"] for action in _log(root) if "add" in action}
    actions: list[Action] = [_info("DELETE")]
    for path, numbers in rows.items():
        add = there[path]
        gone = {"path": path, "deletionTimestamp": 1, "dataChange": True, "extendedFileMetadata": True}
        # A file is told apart by its path and its vector.
        had = {name: add[name] for name in ("partitionValues", "size", "deletionVector") if name in add}
        actions += [
            {"remove": {**gone, **had}},
            {"add": {**add, "dataChange": True, "deletionVector": _vector(numbers)}},
        ]
    _commit(root, actions)


def _vector(numbers: Sequence[int]) -> Action:
    """A vector that stands in the log itself: a RoaringBitmapArray of one bitmap, with one container of numbers."""
    bitmap = struct.pack("<IIHHI", _NO_RUNS, 1, 0, len(numbers) - 1, 16)
    content = struct.pack("<IQI", _ARRAY_OF_BITMAPS, 1, 0) + bitmap + struct.pack(f"<{len(numbers)}H", *sorted(numbers))
    return {
        "storageType": "i",
        "pathOrInlineDv": _encoded(content),
        "sizeInBytes": len(content),
        "cardinality": len(numbers),
    }


def _encoded(content: bytes) -> str:
    """Z85, as ZeroMQ has it (RFC 32)."""
    padded = content + b"\0" * (-len(content) % 4)
    text = ""
    for at in range(0, len(padded), 4):
        number = int.from_bytes(padded[at : at + 4])
        text += "".join(_Z85[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return text


def _info(operation: str) -> Action:
    return {"commitInfo": {"timestamp": 1, "operation": operation}}


def _log(root: Path) -> list[Action]:
    return [orjson.loads(line) for file in sorted((root / "_delta_log").glob("*.json")) for line in _lines(file)]


def _lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines()


def _commit(root: Path, actions: Sequence[Action]) -> None:
    log = root / "_delta_log"
    version = max(int(file.stem) for file in log.glob("*.json")) + 1
    (log / f"{version:020}.json").write_bytes(b"\n".join(map(orjson.dumps, actions)) + b"\n")
