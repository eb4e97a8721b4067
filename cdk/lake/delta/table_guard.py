"""Guard: which operations a table's Delta features allow. Read when the table opens, before the first request.

The kit writes Parquet files itself and names them in commits, which is fast, and correct for tables without features.
Where it would be incorrect, delta-rs performs the operation: its MERGE, UPDATE, DELETE and writer support deletion
vectors, change feeds and constraints. What neither can do correctly is refused by name. Measured with delta-rs 1.6
(`tests/lake/delta/test_table_guard.py` performs each operation on a table with each feature); the features are those of
Delta's protocol.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import StrEnum, auto
from typing import TypedDict

import orjson
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from msgspec import Struct

from cdk.base.errors import ConfigError, StateError
from cdk.base.logs import logger
from cdk.lake.parquet.table_files import unnamable_files
from cdk.lake.storage.folder import Folder
from cdk.lake.storage.table_log import UnreadableTable, check_log, check_written


class Use(StrEnum):
    """An operation of a sync on a table, named after the option that users know; HISTORY: appends to a history table.

    The first three are what the write modes of these names do; other modes may do the same. delta-rs uses the same
    words.
    """

    APPEND = auto()
    OVERWRITE = auto()
    APPEND_DEDUP = auto()
    HISTORY = auto()
    FLAG = "remove_stale: soft"
    DELETE = "remove_stale: hard"
    NEW_COLUMNS = "new columns"
    WIDEN = "wider columns"
    JOIN = "joining small files"


class Way(StrEnum):
    """How a use is performed. FILES: the kit names its own Parquet files. ENGINE: by delta-rs. REFUSED: not at all."""

    FILES = "files"
    ENGINE = "delta-rs"
    REFUSED = "refused"


class _Field(TypedDict, total=False):
    """A field of a table's schema in Delta's JSON format."""

    name: str
    type: object
    nullable: bool
    metadata: Mapping[str, object] | None


class _Log(Struct, frozen=True):
    """What the log says about a table.

    fields: each field by its path, at any depth. unnamable: files whose names delta-rs spells differently.
    """

    features: frozenset[str]
    writer: int
    properties: Mapping[str, str]
    fields: Mapping[str, _Field]
    unnamable: Sequence[str]

    def enabled(self, name: str) -> bool:
        return self.properties.get(name, "").lower() == "true"

    def marked(self, *marks: str) -> str:
        """The fields whose metadata has a key that starts with one of `marks`, joined by commas."""
        return ", ".join(
            path
            for path, field in self.fields.items()
            if any(name.startswith(mark) for name in field.get("metadata") or {} for mark in marks)
        )

    def named(self, *names: str) -> str:
        return ", ".join(sorted(self.features.intersection(names)))


class Feature(Struct, frozen=True):
    """A feature of Delta tables, and what the kit may do to tables with it."""

    name: str
    ways: Mapping[Use, Way]
    """How the kit performs each use; it refuses uses that are missing here."""
    reason: str
    """What would go wrong if a refused use were performed."""
    remedy: str = ""
    """How the user can resolve a refusal, besides choosing another path."""
    names: tuple[str, ...] = ()
    """Names of protocol features; a table that lists one of them has this feature."""
    detector: Callable[[_Log], str] = lambda _: ""
    """Detects the feature by other means; returns what it found, empty for nothing."""

    def detect(self, log: _Log) -> str:
        """Return what shows that a table has the feature; empty if it does not."""
        return self.detector(log) or log.named(*self.names)


_ALL_FILES = dict.fromkeys(Use, Way.FILES)
_NO_USES: Mapping[Use, Way] = {}
_ROW_BY_ROW = dict.fromkeys([Use.APPEND_DEDUP, Use.FLAG, Use.DELETE], Way.ENGINE)
_CONSTRAINED = {
    **dict.fromkeys([Use.APPEND, Use.OVERWRITE], Way.ENGINE),
    **_ROW_BY_ROW,
    **dict.fromkeys([Use.NEW_COLUMNS, Use.JOIN], Way.FILES),
}
_DISCARD = "choose the schema policy discard"
_UNWRITABLE = "delta-rs cannot commit to such a table"
_HARMLESS = frozenset({
    "appendOnly", "changeDataFeed", "checkConstraints", "columnMapping", "generatedColumns", "invariants",
    "timestampNtz", "v2Checkpoint",
})  # fmt: skip
"""Features whose mere presence requires nothing of writers; `FEATURES` detects whether some of them are in use."""


def _unwritable(name: str, *names: str) -> Feature:
    return Feature(name, _NO_USES, _UNWRITABLE, f"ALTER TABLE ... DROP FEATURE {names[0]}", names)


FEATURES = (
    Feature(
        "append-only rows",
        dict.fromkeys([Use.APPEND, Use.HISTORY, Use.NEW_COLUMNS, Use.JOIN], Way.FILES),
        "rows must not be removed",
        "use append, or set delta.appendOnly to false",
        detector=lambda log: "delta.appendOnly" if log.enabled("delta.appendOnly") else "",
    ),
    Feature(
        "CHECK constraints",
        _CONSTRAINED,
        "rows would not be checked",
        f"drop the constraint, or {_DISCARD}",
        detector=lambda log: ", ".join(
            name.removeprefix("delta.constraints.") for name in log.properties if name.startswith("delta.constraints.")
        ),
    ),
    Feature(
        "column invariants",
        _CONSTRAINED,
        "rows would not be checked",
        _DISCARD,
        detector=lambda log: log.marked("delta.invariants"),
    ),
    Feature(
        "NOT NULL columns",
        _CONSTRAINED,
        "rows would not be checked",
        f"let the columns be null, or {_DISCARD}",
        detector=lambda log: ", ".join(path for path, field in log.fields.items() if not field.get("nullable", True)),
    ),
    Feature(
        "generated columns",
        _NO_USES,
        "their values would not be generated",
        detector=lambda log: log.marked("delta.generationExpression"),
    ),
    Feature(
        "identity columns",
        _NO_USES,
        _UNWRITABLE,
        names=("identityColumns",),
        detector=lambda log: log.marked("delta.identity."),
    ),
    Feature(
        "column defaults",
        _NO_USES,
        _UNWRITABLE,
        "ALTER TABLE ... DROP FEATURE allowColumnDefaults",
        names=("allowColumnDefaults",),
        detector=lambda log: log.marked("CURRENT_DEFAULT"),
    ),
    Feature(
        "a change feed",
        {**_ALL_FILES, **_ROW_BY_ROW, Use.WIDEN: Way.REFUSED},
        "it would list every row as changed, and could not be read across the change of type",
        f"{_DISCARD}, or set delta.enableChangeDataFeed to false",
        detector=lambda log: "delta.enableChangeDataFeed" if log.enabled("delta.enableChangeDataFeed") else "",
    ),
    Feature(
        "deletion vectors",
        {**_ALL_FILES, **_ROW_BY_ROW, **dict.fromkeys([Use.JOIN, Use.WIDEN], Way.REFUSED)},
        "deleted rows would come back",
        f"{_DISCARD}, or ALTER TABLE ... DROP FEATURE deletionVectors",
        ("deletionVectors",),
    ),
    Feature(
        "column mapping",
        _NO_USES,
        "columns have other names in its files, and values would read as null",
        "ALTER TABLE ... DROP FEATURE columnMapping",
        detector=lambda log: mode if (mode := log.properties.get("delta.columnMapping.mode", "none")) != "none" else "",
    ),
    _unwritable("row tracking", "rowTracking"),
    _unwritable("clustering", "clustering"),
    _unwritable("domain metadata", "domainMetadata"),
    _unwritable("in-commit timestamps", "inCommitTimestamp"),
    _unwritable("type widening", "typeWidening", "typeWidening-preview"),
    _unwritable("the vacuum protocol check", "vacuumProtocolCheck"),
    _unwritable("Iceberg compatibility", "icebergCompatV1", "icebergCompatV2", "icebergCompatV3"),
    Feature(
        "files whose names delta-rs spells differently",
        dict.fromkeys([Use.APPEND, Use.HISTORY, Use.NEW_COLUMNS], Way.FILES),
        "they would stay, and their rows would be duplicated",
        "use append, or rewrite them with the engine that wrote them, under names of plain letters",
        detector=lambda log: f"{len(log.unnamable)}, such as {log.unnamable[0]}" if log.unnamable else "",
    ),
    Feature("variant columns", _NO_USES, "the kit cannot write them", names=("variantType", "variantType-preview")),
)
"""All known features, listed in `docs/reference/table-features.md`."""

_UNKNOWN = Feature("another feature", _NO_USES, "the kit does not know what it requires of writers")
_NOT_OPENED = re.compile(r"Feature '([^']+)' is not supported|catalog-managed")
_IDENTITY_WRITER, _FEATURES_WRITER = 6, 7
"""Writer versions: the one that implies identity columns, and the newest, which lists features by name."""


class Guard(Struct, frozen=True):
    """The operations that one version of a table allows."""

    features: Sequence[tuple[Feature, str]] = ()
    """The table's features, each with what it was detected by."""
    required: Sequence[str] = ()
    """The NOT NULL columns."""
    path: str = ""
    stream: str = ""

    @property
    def vectors(self) -> bool:
        """Whether files of the table may have deletion vectors."""
        return any(feature.name == "deletion vectors" for feature, _ in self.features)

    @property
    def constraints(self) -> str:
        """The constraints that delta-rs checks rows against, for use in a message."""
        return "; ".join(f"{feature.name}: {what}" for feature, what in self.features if feature.ways == _CONSTRAINED)

    def way(self, use: Use) -> Way:
        """Return how the kit performs a use. Raises ConfigError: when it is refused."""
        self.check([use])
        ways = {feature.ways[use] for feature, _ in self.features}
        return Way.ENGINE if Way.ENGINE in ways else Way.FILES

    def refusals(self, uses: Collection[Use]) -> list[str]:
        """Return why uses are refused, one sentence for each feature; empty if they are allowed."""
        lines = []
        for feature, what in self.features:
            refused = [use for use in uses if feature.ways.get(use, Way.REFUSED) is Way.REFUSED]
            if refused:
                name = f"{feature.name} ({what})" if what else feature.name
                help_ = f"{feature.remedy}, or " if feature.remedy else ""
                lines.append(
                    f"the table has {name}, so {' and '.join(refused)} {'is' if len(refused) == 1 else 'are'} refused: "
                    f"{feature.reason}; {help_}sync into another path"
                )
        return lines

    def check(self, uses: Collection[Use], written: Collection[str] | None = None) -> None:
        """Raise ConfigError when a use is refused, or when `written` lacks a NOT NULL column."""
        lines = self.refusals(uses)
        missing = [] if written is None else [name for name in self.required if name not in written]
        if missing:
            lines.append(
                f"the table has NOT NULL columns ({', '.join(missing)}) that the stream's schema does not declare: no "
                "row could be added; declare them, let them be null, or sync into another path"
            )
        if lines:
            raise ConfigError("; ".join(lines), path=self.path, stream=self.stream)


def guard_of(handle: DeltaTable, path: str, stream: str) -> Guard:
    """Return the guard of the version that the handle is pinned to."""
    log = _log(handle)
    features = [(feature, what) for feature in FEATURES if (what := feature.detect(log))]
    if log.writer == _IDENTITY_WRITER:
        features.append((_UNKNOWN, "writer version 6, of identity columns"))
    elif log.writer > _FEATURES_WRITER:
        features.append((_UNKNOWN, f"writer version {log.writer}"))
    features += [
        (_UNKNOWN, name)
        for name in sorted(log.features.difference(_HARMLESS, *(feature.names for feature in FEATURES)))
    ]
    required = [column for column, field in log.fields.items() if "." not in column and not field.get("nullable", True)]
    return Guard(tuple(features), tuple(required), path, stream)


def is_table(folder: Folder, stream: str) -> bool:
    """Whether the folder holds a Delta table."""
    with folder.explaining(stream):
        return DeltaTable.is_deltatable(folder.uri, folder.storage_options)


def guard_at(folder: Folder, stream: str) -> Guard:
    """Return the guard of a table's newest version; if there is no table, one that allows everything."""
    if not is_table(folder, stream):
        return Guard()
    with folder.explaining(stream):
        return guard_of(open_newest(folder, stream), str(folder), stream)


class TableMissing(StateError):
    """A table that the sync had opened no longer exists."""

    def __init__(self, folder: Folder, stream: str) -> None:
        super().__init__(
            "the table no longer exists: its folder, or the log in it, was removed or moved while the sync ran, and "
            "nothing more is written. Put it back, or move away what is left of it and run the sync again: it reads "
            "everything from the start",
            path=str(folder),
            stream=stream,
        )


def open_newest(folder: Folder, stream: str) -> DeltaTable:
    """Open the newest version of an existing table; each opening is logged at level DEBUG.

    Raises TableMissing: when it no longer exists. BrokenLog: when a file of its log is damaged. UnreadableTable: when
    delta-rs cannot open it for another reason, such as a feature.
    """
    logger.debug("%s: opened", folder)
    try:
        handle = DeltaTable(folder.uri, storage_options=folder.storage_options)
    except TableNotFoundError:
        raise TableMissing(folder, stream) from None
    except DeltaError as error:
        if unsupported := _NOT_OPENED.search(str(error)):
            name = unsupported[1] or "catalogManaged"
            why = f"the table has {_UNKNOWN.name} ({name}), with which delta-rs cannot open it; sync into another path"
            raise UnreadableTable(why, path=str(folder), stream=stream) from error
        if folder.explain(error, stream) is not error:
            raise
        check_log(folder, stream)
        reason = str(error).partition("\n")[0]
        raise UnreadableTable(f"delta-rs cannot open the table: {reason}", path=str(folder), stream=stream) from error
    check_written(folder, int(handle.version()), stream)
    return handle


def _log(handle: DeltaTable) -> _Log:
    protocol = handle.protocol()
    fields = orjson.loads(handle.schema().to_json())["fields"]
    return _Log(
        frozenset([*(protocol.writer_features or ()), *(protocol.reader_features or ())]),
        protocol.min_writer_version,
        dict(handle.metadata().configuration),
        dict(_fields(fields, "")),
        unnamable_files(handle),
    )


def _fields(fields: Sequence[_Field], path: str) -> Iterator[tuple[str, _Field]]:
    for field in fields:
        location = f"{path}{field['name']}"
        yield location, field
        yield from _inner(field["type"], f"{location}.")


def _inner(kind: object, path: str) -> Iterator[tuple[str, _Field]]:
    match kind:
        case {"type": "struct", "fields": list(fields)}:
            yield from _fields(fields, path)
        case {"type": "array", "elementType": element, "containsNull": bool(nullable)}:
            yield f"{path}element", {"nullable": nullable}
            yield from _inner(element, f"{path}element.")
        case {"type": "map", "valueType": value, "valueContainsNull": bool(nullable)}:
            yield f"{path}value", {"nullable": nullable}
            yield from _inner(value, f"{path}value.")
        case _:
            return
