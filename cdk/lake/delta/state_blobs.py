"""The states beside a table: a file for each version, which a commit to the table names.

A file alone is a draft: it counts once a commit has moved the table's marker to its version.

The file of a state of many partitions holds only the difference from an earlier one, its *base*, whose file has all of
them. So a commit costs what it moves, however many partitions the source has, or had once: partitions that left cannot
be dropped where their rows would be appended again if they came back. A base stays while a retained state needs it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from cdk.base.errors import BadState, ConfigError, StateError, TransientError
from cdk.base.values import from_json, to_json
from cdk.lake.delta.table_state import TableState
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import Folder

StateFile: TypeAlias = dict[str, Any]
"""The content of a file of a state, or an object in it. `Any`: using what is not as it was written is BadState."""

_FORMAT = "spark-cdk/1"
NONCE_BITS = 20
"""Random bits at the end of a version."""
_MANY = 1_000
"""Partitions of a state of which only those are written that differ from an earlier one."""


@dataclass
class _Base:
    """A state whose file has all its partitions: the digest of each entry, by the JSON of its fields.

    written: entries in the files of the states that refer to it; as many as it has itself are worth a new base.
    """

    version: int
    digests: Mapping[bytes, bytes]
    written: int = 0


class StateBlobs:
    """The states of one stream of one pipeline, in `folder`."""

    def __init__(self, folder: Folder, stream: str) -> None:
        self._folder = folder
        self._stream = stream
        self._base: _Base | None = None
        self._bases: dict[int, int] = {}

    def write(self, version: int, saved: TableState) -> None:
        """Put a state beside the table, as a draft until a commit names it."""
        # `asdict` would copy the whole state; orjson writes the files by itself.
        blob = {"format": _FORMAT, "stream": self._stream, **vars(saved)}
        if entries := _entries(saved.state):
            blob |= self._shortened(version, saved, entries)
        bases = {n: base for n in (version, *saved.history) if (base := self._bases.get(n)) is not None}
        if bases:
            blob["bases"] = {str(n): base for n, base in bases.items()}
        self._folder.write(f"{version}.json", to_json(blob))

    def _shortened(self, version: int, saved: TableState, entries: Mapping[bytes, StateFile]) -> StateFile:
        """The entries of a state file in place of all partitions; empty where the state becomes a base itself."""
        digests = {key: _digest(entry) for key, entry in entries.items()}
        base = self._base
        # A draft that no commit has named may be removed by anybody.
        if base is not None and base.version in {*saved.history, *map(self._bases.get, saved.history)}:
            changed = [entry for key, entry in entries.items() if base.digests.get(key) != digests[key]]
            removed = [from_json(key) for key in base.digests.keys() - entries.keys()]
            written = base.written + len(changed) + len(removed)
            if written <= len(base.digests):
                base.written = written
                self._bases[version] = base.version
                reference = {"version": base.version, "gone": removed, "written": written, "partitions": len(entries)}
                return {"state": {**saved.state, "states": changed}, "base": reference}
        self._base = _Base(version, digests)
        return {}

    def load(self, version: int) -> TableState:
        """The state of a retained version. Raises StateError: its file is missing, or no state of this stream."""
        blob, path = self._read(version)
        try:
            blob.pop("stream")
            self._bases |= {int(n): base for n, base in blob.pop("bases", {}).items()}
            self._expand(blob, version, path)
            pending, logged = (_files(blob.pop(name)) for name in ("pending", "logged"))
            return TableState(
                **{**blob, "history": tuple(blob["history"]), "newest": tuple(blob.get("newest", ()))},
                pending=pending or (),
                logged=logged,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadState(path, blob, "the fields an earlier run wrote", stream=self._stream) from error

    def _expand(self, blob: StateFile, version: int, path: str) -> None:
        """Put the partitions of its base into a state, and remember the base. Raises what `load` does."""
        base = blob.pop("base", None)
        if base is None:
            if self._base is None and (entries := _entries(blob["state"])):
                self._base = _Base(version, {key: _digest(entry) for key, entry in entries.items()})
            return
        base_blob, _ = self._read(base["version"])
        entries = _entries(base_blob["state"])
        if self._base is None:
            digests = {key: _digest(entry) for key, entry in entries.items()}
            self._base = _Base(base["version"], digests, base["written"])
        for fields in base["gone"]:
            del entries[to_json(fields)]
        entries.update({to_json(entry["partition"]): entry for entry in blob["state"]["states"]})
        if len(entries) != base["partitions"]:
            raise BadState(path, len(entries), f"{base['partitions']} partitions", stream=self._stream)
        blob["state"]["states"] = list(entries.values())

    def _read(self, version: int) -> tuple[StateFile, str]:
        """The content of the file of a version, and its path."""
        name = f"{version}.json"
        path = f"{self._folder}/{name}"
        try:
            blob = from_json(self._folder.read(name))
        except FileNotFoundError:
            raise StateError(
                f"the table is at state {version}, and this file is missing; restore it, or move the table "
                "away to read the stream from its start; `spark-cdk state reset` does so and keeps the rows",
                path=path,
                stream=self._stream,
            ) from None
        except (OSError, orjson.JSONDecodeError) as error:
            raise BadState(path, str(error), "the JSON an earlier run wrote", stream=self._stream) from error
        if not isinstance(blob, dict) or blob.pop("format", None) != _FORMAT:
            raise BadState(path, blob, f'a state of the format "{_FORMAT}"', stream=self._stream)
        return blob, path

    @property
    def versions(self) -> list[int]:
        """The versions that have a file, drafts among them, in any order."""
        return [version for version, name in self._named() if name.endswith(".json")]

    def bases(self, versions: Collection[int]) -> set[int]:
        """The versions that states of these versions need besides; of states that were loaded or written here."""
        return {base for version in versions if (base := self._bases.get(version)) is not None}

    def keep(self, retained: Collection[int], upto: int) -> None:
        """Remove all states but the retained ones, and those that they need, up to number `upto`; see `remove`."""
        needed = {*retained, *self.bases(retained)}
        self.remove(lambda version: version not in needed and number(version) <= upto)

    def remove(self, spare: Callable[[int], bool]) -> None:
        """Remove the states for whose version `spare` is true; those that a store refuses to remove stay."""
        with suppress(ConfigError, TransientError):
            for version, name in list(self._named()):
                if spare(version):
                    self._folder.delete(name)

    def _named(self) -> Iterator[tuple[int, str]]:
        """The files of states by version, and the drafts that interrupted writes have left."""
        for name in self._folder.names():
            path = Path(name)
            if path.stem.isdecimal() and path.suffix in {".json", ".tmp"}:
                yield int(path.stem), name


def number(version: int) -> int:
    """Which state of its table a version is: 1 for the first."""
    return version >> NONCE_BITS


def _entries(state: object) -> dict[bytes, StateFile]:
    """The entries of a state's partitions by the JSON of their fields; empty where they are few."""
    states = state.get("states") if isinstance(state, Mapping) else None
    if not isinstance(states, list) or len(states) < _MANY:
        return {}
    entries = {to_json(entry["partition"]): entry for entry in states}
    return entries if len(entries) == len(states) else {}


def _digest(entry: StateFile) -> bytes:
    return blake2b(to_json(entry), digest_size=16).digest()


def _files(blob: Sequence[StateFile] | None) -> tuple[DataFile, ...] | None:
    return None if blob is None else tuple(DataFile(**file) for file in blob)
