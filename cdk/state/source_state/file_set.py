"""FileSet: which files of a source's listing have been read, and which still have to be.

Kind `cdk/file-set`, version 1:

    {"order": "name", "floor": {"path": ...} | null, "files": {PATH: {"size": ..., "modified": ..., "etag": ...}}}

The newest files are stored individually, so that late files among them and rewritten files are detected. All others are
at or below the floor and count as read. "Newest" is by the order; files are compared by full path, not by bare name.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, Self, TypeAlias, get_args

from msgspec import Struct

from cdk.base.errors import BadState, ConfigError, FatalError, NotFound
from cdk.state.log.session import StateSession
from cdk.state.log.slot_value import Kind, StateValue
from cdk.state.source_state.slots import ETAG, read_slot, slot_of


class SourceFile(Struct, frozen=True):
    """A file of a source.

    path: relative to the root of the source, with `/`. size: bytes. modified: nanoseconds since 1970. etag: the version
    in an object store, verbatim. One of the last two suffices; if both are known, the ETag counts.
    """

    path: str
    size: int
    modified: int | None = None
    etag: str | None = None

    def same(self, other: "SourceFile") -> bool:
        """Whether both are the same file with the same content, as far as a listing can tell."""
        if self.path != other.path or self.size != other.size:
            return False
        if self.etag is not None and other.etag is not None:
            return self.etag == other.etag
        return self.modified == other.modified


def local_files(root: Path | str, pattern: str = "*") -> Iterator[SourceFile]:
    """Yield the files below a folder whose relative path matches `pattern`, in any order.

    pattern: a case-sensitive shell pattern whose `*` also matches `/`: `*.csv` matches `2024/01.csv`.
    Raises NotFound: when the folder does not exist; an empty folder is no error.
    """
    root = Path(root)
    if not root.is_dir():
        raise NotFound("there is no such folder; check the path, or whether it is mounted", path=str(root))
    for folder, _, names in os.walk(root):
        for name in names:
            file = Path(folder, name)
            path = file.relative_to(root).as_posix()
            if fnmatchcase(path, pattern):
                info = file.stat()
                yield SourceFile(path, info.st_size, info.st_mtime_ns)


KIND = Kind("cdk/file-set")

Order: TypeAlias = Literal["name", "natural", "modified"]
"""By path; by path, with numbers compared as numbers (`day_2` before `day_10`); by time of the last change."""

OnChange: TypeAlias = Literal["reread", "ignore", "fail"]
"""What to do with a file that was rewritten after it was read. Reading it again emits its old rows a second time."""

_DIGITS = re.compile(r"(\d+)")
_Key: TypeAlias = tuple[object, ...]


class Pending(Struct, frozen=True):
    """A file to read. why: `new`; `late`, if it sorts before files already read; or `changed` since it was read."""

    file: SourceFile
    why: Literal["new", "late", "changed"]


class FileSet:
    """Plans which files to read, and records those that were read. Belongs to one thread.

    order: see `Order`. lookback: number of newest files to store; a new file that sorts before all of them is assumed
    to have been read. on_change: see `OnChange`.
    Raises ConfigError: when a value is invalid.
    """

    def __init__(self, *, order: Order = "name", lookback: int = 1000, on_change: OnChange = "reread") -> None:
        for name, value, known in (("order", order, Order), ("on_change", on_change, OnChange)):
            if value not in get_args(known):
                raise ConfigError(f"found {value!r}, expected one of {', '.join(get_args(known))}", path=name)
        if lookback < 1:
            raise ConfigError(f"found {lookback}, expected at least 1", path="lookback")
        self._order: Order = order
        self._key, self._lookback, self._on_change = _KEYS[order], lookback, on_change
        self._floor: SourceFile | None = None
        self._read: dict[str, SourceFile] = {}
        self._pending: dict[str, SourceFile] = {}

    @classmethod
    def open(
        cls,
        session: StateSession,
        source: str = "default",
        *,
        order: Order = "name",
        lookback: int = 1000,
        on_change: OnChange = "reread",
    ) -> Self:
        """Load the files of a source that were read from its slot.

        An `odf/etag`, in which Open Data Fabric stores the name of the last file, becomes the floor.
        Raises BadState: when the slot holds another kind, is damaged, or was written for another order.
        """
        files = cls(order=order, lookback=lookback, on_change=on_change)
        plain = {ETAG.name: lambda name: {"order": order, "floor": {"path": name, "size": 0}, "files": {}}}
        files._load(read_slot(session, source, KIND, {} if order == "modified" else plain), slot_of(source))
        return files

    def plan(self, listing: Iterable[SourceFile]) -> Sequence[Pending]:
        """Return the files of a listing that still have to be read, in order. Call `done` for each once it is read.

        Raises FatalError: when a file was rewritten and `on_change` is "fail", or when the order is "modified" and a
        file has no such time.
        """
        newest = max(map(self._key, self._read.values()), default=None)
        floor = None if self._floor is None else self._key(self._floor)
        plan: list[Pending] = []
        for file in listing:
            key, before = self._key(file), self._read.get(file.path)
            if before is not None:
                if not file.same(before) and self._rereads(file, before):
                    plan.append(Pending(file, "changed"))
            elif floor is None or key > floor:
                plan.append(Pending(file, "new" if newest is None or key > newest else "late"))
        plan.sort(key=lambda pending: self._key(pending.file))
        self._pending = {pending.file.path: pending.file for pending in plan}
        return plan

    def done(self, file: SourceFile) -> None:
        """Count a planned file as read, in the version that the listing showed.

        Raises FatalError: when it was not planned.
        """
        if self._pending.pop(file.path, None) is None:
            raise FatalError("this file was not planned, or is already done", path=file.path)
        self._read[file.path] = file
        self._forget()

    def value(self) -> StateValue:
        """Return the value for the slot: the files that are done. Planned files that are not done stay unread."""
        floor = None if self._floor is None else {"path": self._floor.path, **_json(self._floor)}
        files = {path: _json(file) for path, file in self._read.items()}
        return KIND.of({"order": self._order, "floor": floor, "files": files})

    def as_odf(self) -> StateValue:
        """Return only the name of the last file, for implementations that know nothing else. This loses the lookback.

        Raises BadState: when no file was read, or the order is "modified".
        """
        known = [*self._read.values(), *([] if self._floor is None else [self._floor])]
        if self._order == "modified" or not known:
            raise BadState("source state", self.value().value, "a file that was read, in an order by names")
        return ETAG.of(max(known, key=self._key).path)

    def propose(self, session: StateSession, source: str = "default") -> None:
        """Set the slot of a source with the next commit. Call it once the rows of all done files are durable."""
        session.propose(slot_of(source), self.value())

    def _rereads(self, file: SourceFile, before: SourceFile) -> bool:
        if self._on_change == "fail":
            raise FatalError(
                f"found {_json(file)}, expected {_json(before)}: the file was rewritten after it was read; undo "
                "that, or set `on_change` to 'reread', which reads its rows again, or to 'ignore'",
                path=file.path,
            )
        return self._on_change == "reread"

    def _forget(self) -> None:
        """Drop all but the newest files and raise the floor to the newest dropped one, never past a planned file."""
        if len(self._read) <= self._lookback:
            return
        limit = min(map(self._key, self._pending.values()), default=None)
        for file in sorted(self._read.values(), key=self._key)[: len(self._read) - self._lookback]:
            if limit is not None and self._key(file) > limit:
                return
            self._floor = self._read.pop(file.path)

    def _load(self, value: object, path: str) -> None:
        if value is None:
            return
        match value:
            case {"order": self._order, "floor": None | {"path": str()} as floor, "files": dict() as files}:
                self._floor = None if floor is None else _file(floor["path"], floor, f"{path} floor")
                self._read = {name: _file(name, entry, f"{path} files.{name}") for name, entry in files.items()}
            case {"order": str() as order} if order != self._order:
                text = f"{self._order!r}: the state was saved with another order; reset it"
                raise BadState(f"{path} order", order, text)
            case _:
                raise BadState(path, value, "a set of files: order, floor, files")


def _by_name(file: SourceFile) -> _Key:
    return (file.path,)


def _by_number(file: SourceFile) -> _Key:
    # Strings and numbers alternate, so each is compared with its kind. The whole path tells `01` from `1`.
    return (*(int(part) if i % 2 else part for i, part in enumerate(_DIGITS.split(file.path))), -1, file.path)


def _by_timestamp(file: SourceFile) -> _Key:
    if file.modified is None:
        raise FatalError("the listing has no timestamp of the last change; choose an order by names", path=file.path)
    return (file.modified, file.path)


_KEYS: Mapping[Order, Callable[[SourceFile], _Key]] = {
    "name": _by_name,
    "natural": _by_number,
    "modified": _by_timestamp,
}


def _json(file: SourceFile) -> dict[str, object]:
    fields = {"size": file.size, "modified": file.modified, "etag": file.etag}
    return {name: value for name, value in fields.items() if value is not None}


def _file(name: str, entry: object, path: str) -> SourceFile:
    fields = entry if isinstance(entry, dict) else {}
    size, modified, etag = fields.get("size"), fields.get("modified"), fields.get("etag")
    if type(size) is not int or not isinstance(modified, int | None) or not isinstance(etag, str | None):
        raise BadState(path, entry, "a size, and a timestamp or an ETag")
    return SourceFile(name, size, modified, etag)
