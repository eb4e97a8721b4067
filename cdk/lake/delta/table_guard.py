"""What may be done to a table, by the features that its log names: read when it is opened, before the first request.

The kit writes Parquet files by itself and names them in commits. That is right for tables without features, and fast.
Where it is not, delta-rs does it: its MERGE, UPDATE, DELETE and writer know deletion vectors, change feeds and
constraints. What neither can do right is refused by name. Measured with delta-rs 1.6
(`tests/lake/delta/test_table_guard.py` does each of these to a table with each of the features); the features are those
of Delta's protocol.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import TypedDict

import orjson
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from cdk.base.errors import ConfigError, StateError
from cdk.base.logs import logger
from cdk.lake.parquet.table_files import unnamable_files
from cdk.lake.storage.folder import Folder
from cdk.lake.storage.table_log import check_log, check_written


class Use(StrEnum):
    """What a sync does to a table, by the option that people know it by; HISTORY to that of another one.

    The first three are what the write modes of these names do, and others may do as well. delta-rs has their words.
    """

    APPEND = auto()
    OVERWRITE = auto()
    APPEND_DEDUP = auto()
    HISTORY = auto()
    FLAG = "remove_stale: soft"
    DELETE = "remove_stale: hard"
    GAIN = "new columns"
    WIDEN = "wider columns"
    JOIN = "joining small files"


class Way(StrEnum):
    """How the kit performs a use. FILES: it names its Parquet files. ENGINE: delta-rs does it. REFUSED: not at all."""

    FILES = "files"
    ENGINE = "delta-rs"
    REFUSED = "refused"


class _Field(TypedDict, total=False):
    """A field of a table's schema, as Delta's JSON has it."""

    name: str
    type: object
    nullable: bool
    metadata: Mapping[str, object] | None


@dataclass(frozen=True)
class _Log:
    """What the log says about a table. fields: each field by its path, at any depth. unnamable: such files."""

    features: frozenset[str]
    writer: int
    properties: Mapping[str, str]
    fields: Mapping[str, _Field]
    unnamable: Sequence[str]

    def enabled(self, name: str) -> bool:
        return self.properties.get(name, "").lower() == "true"

    def marked(self, *marks: str) -> str:
        """The fields whose metadata have one of these names, or one that begins with it."""
        return ", ".join(
            path
            for path, field in self.fields.items()
            if any(name.startswith(mark) for name in field.get("metadata") or {} for mark in marks)
        )

    def named(self, *names: str) -> str:
        return ", ".join(sorted(self.features.intersection(names)))


@dataclass(frozen=True)
class Feature:
    """A feature of Delta tables, and what the kit may do to tables that have it."""

    name: str
    ways: Mapping[Use, Way]
    """How the kit performs each use; it refuses the others."""
    why: str
    """What would go wrong."""
    do: str = ""
    """What helps, besides another path."""
    names: tuple[str, ...] = ()
    """Features of the protocol whose presence is enough."""
    look: Callable[[_Log], str] = lambda _: ""
    """What else a table has of it; empty for nothing."""

    def detect(self, log: _Log) -> str:
        """What a table has of it, empty for nothing."""
        return self.look(log) or log.named(*self.names)


_ALL_FILES = dict.fromkeys(Use, Way.FILES)
_NONE: Mapping[Use, Way] = {}
_ROW_BY_ROW = dict.fromkeys([Use.APPEND_DEDUP, Use.FLAG, Use.DELETE], Way.ENGINE)
_CHECKED = {
    **dict.fromkeys([Use.APPEND, Use.OVERWRITE], Way.ENGINE),
    **_ROW_BY_ROW,
    **dict.fromkeys([Use.GAIN, Use.JOIN], Way.FILES),
}
_DISCARD = "choose the schema policy discard"
_UNWRITABLE = "delta-rs cannot commit to such a table"
_HARMLESS = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        "generatedColumns",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
    }
)
"""Features whose presence alone asks nothing of writers; what uses some of them is looked for."""


def _unwritable(name: str, *names: str) -> Feature:
    return Feature(name, _NONE, _UNWRITABLE, f"ALTER TABLE ... DROP FEATURE {names[0]}", names)


FEATURES = (
    Feature(
        "append-only rows",
        dict.fromkeys([Use.APPEND, Use.HISTORY, Use.GAIN, Use.JOIN], Way.FILES),
        "no row may leave it",
        "use append, or set delta.appendOnly to false",
        look=lambda log: "delta.appendOnly" if log.enabled("delta.appendOnly") else "",
    ),
    Feature(
        "CHECK constraints",
        _CHECKED,
        "rows would not be checked",
        f"drop the constraint, or {_DISCARD}",
        look=lambda log: ", ".join(
            name.removeprefix("delta.constraints.") for name in log.properties if name.startswith("delta.constraints.")
        ),
    ),
    Feature(
        "column invariants",
        _CHECKED,
        "rows would not be checked",
        _DISCARD,
        look=lambda log: log.marked("delta.invariants"),
    ),
    Feature(
        "NOT NULL columns",
        _CHECKED,
        "rows would not be checked",
        f"let the columns be null, or {_DISCARD}",
        look=lambda log: ", ".join(path for path, field in log.fields.items() if not field.get("nullable", True)),
    ),
    Feature(
        "generated columns",
        _NONE,
        "their values would not be generated",
        look=lambda log: log.marked("delta.generationExpression"),
    ),
    Feature(
        "identity columns",
        _NONE,
        _UNWRITABLE,
        names=("identityColumns",),
        look=lambda log: log.marked("delta.identity."),
    ),
    Feature(
        "column defaults",
        _NONE,
        _UNWRITABLE,
        "ALTER TABLE ... DROP FEATURE allowColumnDefaults",
        names=("allowColumnDefaults",),
        look=lambda log: log.marked("CURRENT_DEFAULT"),
    ),
    Feature(
        "a change feed",
        {**_ALL_FILES, **_ROW_BY_ROW, Use.WIDEN: Way.REFUSED},
        "every row would change in it, and it could not be read across the new type",
        f"{_DISCARD}, or set delta.enableChangeDataFeed to false",
        look=lambda log: "delta.enableChangeDataFeed" if log.enabled("delta.enableChangeDataFeed") else "",
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
        _NONE,
        "columns have other names in its files, and values would read as null",
        "ALTER TABLE ... DROP FEATURE columnMapping",
        look=lambda log: mode if (mode := log.properties.get("delta.columnMapping.mode", "none")) != "none" else "",
    ),
    _unwritable("row tracking", "rowTracking"),
    _unwritable("clustering", "clustering"),
    _unwritable("domain metadata", "domainMetadata"),
    _unwritable("in-commit timestamps", "inCommitTimestamp"),
    _unwritable("type widening", "typeWidening", "typeWidening-preview"),
    _unwritable("the vacuum protocol check", "vacuumProtocolCheck"),
    _unwritable("Iceberg compatibility", "icebergCompatV1", "icebergCompatV2", "icebergCompatV3"),
    Feature(
        "files whose names delta-rs spells otherwise",
        dict.fromkeys([Use.APPEND, Use.HISTORY, Use.GAIN], Way.FILES),
        "they would stay, and their rows be there twice",
        "use append, or have the engine that wrote them write them again under names of plain letters",
        look=lambda log: f"{len(log.unnamable)}, such as {log.unnamable[0]}" if log.unnamable else "",
    ),
    Feature("variant columns", _NONE, "the kit cannot write them", names=("variantType", "variantType-preview")),
)
"""Each feature that is known, as `docs/reference/table-features.md` shows them."""

_OTHER = Feature("another feature", _NONE, "the kit does not know what it asks of writers")
_NOT_OPENED = re.compile(r"Feature '([^']+)' is not supported|catalog-managed")
_IDENTITY_WRITER, _FEATURES_WRITER = 6, 7
"""Writer versions: the one that stands for identity columns, and the newest, which names features."""


@dataclass(frozen=True)
class Guard:
    """What one version of a table allows."""

    features: Sequence[tuple[Feature, str]] = ()
    """The features of the table, each with what the table has of it."""
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
        """What delta-rs checks of rows, as a clause."""
        return "; ".join(f"{feature.name}: {what}" for feature, what in self.features if feature.ways == _CHECKED)

    def way(self, use: Use) -> Way:
        """How the kit performs a use. Raises ConfigError: it refuses it."""
        self.check([use])
        ways = {feature.ways[use] for feature, _ in self.features}
        return Way.ENGINE if Way.ENGINE in ways else Way.FILES

    def refusals(self, uses: Collection[Use]) -> list[str]:
        """Why uses are refused, a sentence for each feature."""
        lines = []
        for feature, what in self.features:
            refused = [use for use in uses if feature.ways.get(use, Way.REFUSED) is Way.REFUSED]
            if refused:
                name = f"{feature.name} ({what})" if what else feature.name
                help_ = f"{feature.do}, or " if feature.do else ""
                lines.append(
                    f"the table has {name}, so {' and '.join(refused)} {'is' if len(refused) == 1 else 'are'} refused: "
                    f"{feature.why}; {help_}sync into another path"
                )
        return lines

    def check(self, uses: Collection[Use], written: Collection[str] | None = None) -> None:
        """Raise ConfigError where a use is refused, or a NOT NULL column is not among those that are written."""
        lines = self.refusals(uses)
        missing = [] if written is None else [name for name in self.required if name not in written]
        if missing:
            lines.append(
                f"the table has NOT NULL columns ({', '.join(missing)}) that the stream's schema does not declare: no "
                "row could be added; declare them, let them be null, or sync into another path"
            )
        if lines:
            raise ConfigError("; ".join(lines), path=self.path, stream=self.stream)


@contextmanager
def check_openable(path: str, stream: str) -> Iterator[None]:
    """Raise ConfigError where delta-rs refuses to open a table for a feature that it does not know."""
    try:
        yield
    except DeltaError as error:
        if (unsupported := _NOT_OPENED.search(str(error))) is None:
            raise
        name = unsupported[1] or "catalogManaged"
        raise ConfigError(
            f"the table has {_OTHER.name} ({name}), with which delta-rs cannot open it; sync into another path",
            path=path,
            stream=stream,
        ) from error


def guard_of(handle: DeltaTable, path: str, stream: str) -> Guard:
    """The guard of the version that the handle is pinned to."""
    log = _log(handle)
    features = [(feature, what) for feature in FEATURES if (what := feature.detect(log))]
    if log.writer == _IDENTITY_WRITER:
        features.append((_OTHER, "writer version 6, of identity columns"))
    elif log.writer > _FEATURES_WRITER:
        features.append((_OTHER, f"writer version {log.writer}"))
    features += [
        (_OTHER, name) for name in sorted(log.features.difference(_HARMLESS, *(feature.names for feature in FEATURES)))
    ]
    required = [column for column, field in log.fields.items() if "." not in column and not field.get("nullable", True)]
    return Guard(tuple(features), tuple(required), path, stream)


def is_table(folder: Folder, stream: str) -> bool:
    """Whether there is a table."""
    with folder.explaining(stream):
        return DeltaTable.is_deltatable(folder.uri, folder.storage_options)


def guard_at(folder: Folder, stream: str) -> Guard:
    """The guard of the newest version of a table; one that allows everything where there is none."""
    if not is_table(folder, stream):
        return Guard()
    with folder.explaining(stream):
        return guard_of(open_newest(folder, stream), str(folder), stream)


class TableGone(StateError):
    """A table that a sync has opened exists no more."""

    def __init__(self, folder: Folder, stream: str) -> None:
        super().__init__(
            "the table is gone: its folder, or the log in it, was removed or moved while the sync ran, and nothing "
            "more is written. Put it back, or move away what is left of it and run the sync again: it reads all from "
            "the start",
            path=str(folder),
            stream=stream,
        )


def open_newest(folder: Folder, stream: str) -> DeltaTable:
    """The newest version of a table, which exists; the log tells, at the level DEBUG, of each that is opened.

    Raises ConfigError: it has features that delta-rs cannot read. TableGone: it exists no more. BrokenLog: a file of
    its log is damaged. StateError: delta-rs cannot open it for another reason.
    """
    logger.debug("%s: opened", folder)
    try:
        with check_openable(str(folder), stream):
            handle = DeltaTable(folder.uri, storage_options=folder.storage_options)
    except TableNotFoundError:
        raise TableGone(folder, stream) from None
    except DeltaError as error:
        if folder.explain(error, stream) is not error:
            raise
        check_log(folder, stream)
        reason = str(error).partition("\n")[0]
        raise StateError(f"delta-rs cannot open the table: {reason}", path=str(folder), stream=stream) from error
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
