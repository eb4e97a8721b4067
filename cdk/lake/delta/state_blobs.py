"""The state files beside a table: one file for each version; a commit to the table names the current version.

A file alone is a draft: it becomes valid once a commit has moved the table's marker to its version. It contains its
version and a digest of itself, so that damage, manual edits and copies under another name are detected.

If a state has many partitions, their entries are stored in separate layers (`cdk.state.layers`): `<version>.layer` has
the entries that the commit of that version moved, and the state's file names all layers that make up the state, with
their digests. So the cost of a commit depends on what it moves, not on how many partitions the source has or ever had:
partitions that have disappeared cannot be dropped where their rows would be appended again if they came back. Now and
then a commit joins some layers, or writes all entries as one. A layer is kept as long as a retained state needs it.
Parents with many partitions have layers of their own, `<version>-1.layer`.
"""

import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

import orjson
from msgspec import Struct
from msgspec.structs import asdict

from cdk.base.errors import BadState, ConfigError, StateError, TransientError
from cdk.base.values import from_json, to_json
from cdk.lake.delta.table_state import TableState
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import Folder
from cdk.state.layers.layer_file import PackedLayer, StoredLayer, to_bytes
from cdk.state.layers.layered_map import LayeredMap, absorbed
from cdk.state.stored_positions import PartitionEntries, insert_entries, split_entries

StateFile: TypeAlias = dict[str, Any]
"""The content of a state file, or an object in it. `Any`: unexpected content raises BadState where it is used."""

_FORMAT = "spark-cdk-table-state/1"
_REMEDY = (
    "restore the file, take an earlier state with `spark-cdk state rollback`, or have the stream read from its start "
    "with `spark-cdk state reset`"
)
_TUPLES = ("history", "newest", "newest_ids", "keys", "json_keys")
_NONCE_BITS = 20
"""How many random bits a version ends with."""


class _File(Struct, frozen=True):
    """A layer as listed in a state's file. before: the map that the layers below it make up."""

    name: str
    entries: int
    bytes: int
    digest: str
    before: LayeredMap


class _Stack(Struct, frozen=True):
    """The layers of the entries of a state, or of a parent's state in it, and the map that they make up."""

    files: tuple[_File, ...]
    texts: LayeredMap


class StateBlobs:
    """The state files of one stream of one pipeline, in `folder`."""

    def __init__(self, folder: Folder, stream: str) -> None:
        self._folder, self._stream = folder, stream
        self._stacks: dict[int, Mapping[tuple[str, ...], _Stack]] = {}
        self._layers: dict[int, Sequence[str]] = {}
        self._opened: dict[tuple[str, str], StoredLayer] = {}

    def write(self, version: int, saved: TableState) -> None:
        """Write a state beside the table; it is a draft until a commit names it."""
        state, parts = split_entries(saved.state)
        blob = {"format": _FORMAT, "stream": self._stream, "version": version, **asdict(saved), "state": state}
        # Build on committed states only: any run may remove a draft that no commit has named.
        before = [self._stacks[n] for n in saved.history if n in self._stacks]
        stacks: dict[tuple[str, ...], _Stack] = {}
        for n, (of, texts) in enumerate(parts.items()):
            known = [earlier[of] for earlier in before if of in earlier]
            stacks[of] = self._stacked(f"{version}-{n}.layer" if n else f"{version}.layer", known, texts)
        if stacks:
            self._stacks[version] = stacks
            self._layers[version] = [file.name for stack in stacks.values() for file in stack.files]
            blob["partitions"] = [
                {
                    "of": of,
                    "count": len(stack.texts),
                    "size": stack.texts.size,
                    "layers": [[file.name, file.entries, file.bytes, file.digest] for file in stack.files],
                }
                for of, stack in stacks.items()
            ]
        layers = {str(n): named for n in (version, *saved.history) if (named := self._layers.get(n))}
        if layers:
            blob["layers"] = layers
        self._folder.write(f"{version}.json", _with_digest(to_json(blob, asdict)))

    def _stacked(self, name: str, known: Iterable[_Stack], texts: LayeredMap) -> _Stack:
        """Write the entries that no earlier state has as a new layer; return all layers of the entries."""
        nearest = max(known, key=lambda stack: texts.shared(stack.texts), default=_Stack((), LayeredMap()))
        files, before = nearest.files, nearest.texts
        moved = texts.since(before)
        if moved:
            most = absorbed([file.entries for file in files], len(moved), len(texts))
            if most:
                before = files[-most].before
                files, moved = files[:-most], texts.since(before)
            data, digest = to_bytes(moved)
            file = _File(name, len(moved), len(data), digest, before)
            self._folder.write(file.name, data)
            files = (*files, file)
        return _Stack(files, texts)

    def load(self, version: int) -> TableState:
        """Load the state of a retained version. Raises StateError: when its file is missing or not a valid state."""
        blob, path = self._read(version)
        try:
            blob.pop("stream")
            if (written := blob.pop("version")) != version:
                expected = f"version {version}, as in the name of the file; {_REMEDY}"
                raise BadState(path, f"version {written}", expected, stream=self._stream)
            self._layers |= {int(n): layers for n, layers in blob.pop("layers", {}).items()}
            self._stacks[version] = {tuple(of): stack for of, stack in self._expanded(blob, version)}
            pending, logged = (_files(blob.pop(name)) for name in ("pending", "logged"))
            return TableState(
                **{**blob, **{name: tuple(blob.get(name, ())) for name in _TUPLES}},
                pending=pending or (),
                logged=logged,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadState(path, blob, f"the fields an earlier run wrote; {_REMEDY}", stream=self._stream) from error

    def _expanded(self, blob: StateFile, version: int) -> Iterator[tuple[Sequence[str], _Stack]]:
        """Put the entries of many partitions into a state; they are read on demand. Raises what `load` raises."""
        for part in blob.pop("partitions", ()):
            layers: list[StoredLayer] = []
            files: list[_File] = []
            for name, entries, size, digest in part["layers"]:
                file = _File(name, entries, size, digest, LayeredMap(layers))
                files.append(file)
                layers.append(self._opened.setdefault((name, digest), self._layer(file)))
            self._check(files, version)
            texts = LayeredMap(layers, part["count"], part["size"])
            insert_entries(blob["state"], part["of"], PartitionEntries(texts))
            yield part["of"], _Stack(tuple(files), texts)

    def _layer(self, file: _File) -> StoredLayer:
        return StoredLayer(partial(self._bytes, file.name), file.entries, file.digest, f"{self._folder}/{file.name}")

    def _check(self, files: Sequence[_File], version: int) -> None:
        """Raise StateError when a layer is missing or does not have the recorded size."""
        sizes = self._folder.sizes([file.name for file in files])
        for file in files:
            if file.name not in sizes:
                raise self._missing(version, file.name)
            if (size := sizes[file.name]) != file.bytes:
                path = f"{self._folder}/{file.name}"
                raise BadState(path, f"{size} bytes", f"{file.bytes}, as written; {_REMEDY}", stream=self._stream)

    def _bytes(self, name: str, offset: int, size: int | None) -> bytes:
        """Read some bytes of a layer; size: None: up to its end. Raises StateError: when the file is missing."""
        try:
            with self._folder.reader(name) as file:
                file.seek(offset)
                return bytes(file.read(size))
        except FileNotFoundError:
            raise self._missing(int(Path(name).stem.partition("-")[0]), name) from None

    def _missing(self, version: int, name: str) -> StateError:
        return StateError(
            f"the table is at state {version}, and this file is missing; restore it, or move the table "
            "away to read the stream from its start; `spark-cdk state reset` does so without moving it",
            path=f"{self._folder}/{name}",
            stream=self._stream,
        )

    def _read(self, version: int) -> tuple[StateFile, str]:
        """Return the checked content of a version's file, and its path. Raises StateError: as `load`."""
        name = f"{version}.json"
        path = f"{self._folder}/{name}"
        try:
            data = self._folder.read(name)
            blob = from_json(data)
        except FileNotFoundError:
            raise self._missing(version, name) from None
        except PermissionError as error:
            # A state that another user can read is not lost: a reset would read everything again.
            text = f"the state cannot be read: {error.strerror}; run this as a user who may read the file"
            raise ConfigError(text, path=path, stream=self._stream) from error
        except (OSError, orjson.JSONDecodeError) as error:
            expected = f"the JSON an earlier run wrote; {_REMEDY}"
            raise BadState(path, str(error), expected, stream=self._stream) from error
        if not isinstance(blob, dict) or blob.pop("format", None) != _FORMAT:
            expected = f'a state of the format "{_FORMAT}"; a newer kit may have written it: upgrade, or {_REMEDY}'
            raise BadState(path, blob, expected, stream=self._stream)
        if blob.pop("digest", None) is None or _with_digest(b"{" + data[_DIGEST_BYTES:]) != data:
            expected = f"the file as a run wrote it; {_REMEDY}; to change a state, use `spark-cdk state set`"
            raise BadState(path, "a file that does not match the digest in it", expected, stream=self._stream)
        return blob, path

    def packed(self, texts: LayeredMap) -> list[PackedLayer]:
        """Return the layers of entries that this object loaded or wrote, as stored; empty for other entries."""
        stacks = (stack for stacks in self._stacks.values() for stack in stacks.values())
        files = next((stack.files for stack in stacks if stack.texts is texts), ())
        return [PackedLayer(at.entries, at.digest, partial(self._bytes, at.name, 0, None)) for at in files]

    @property
    def versions(self) -> list[int]:
        """The versions that have a file, including drafts, in any order."""
        return [version for version, name in self._named() if name.endswith(".json")]

    def names(self, versions: Collection[int]) -> set[str]:
        """Return the files that these versions consist of; layers only for states that were loaded or written here."""
        layers = {layer for version in versions for layer in self._layers.get(version, ())}
        return {f"{version}.json" for version in versions} | layers

    def retain(self, retained: Collection[int], upto: int) -> None:
        """Remove the states up to number `upto` that are not retained, and the layers that no retained state needs."""
        needed = self.names(retained)
        self._remove(lambda version, name: name not in needed and number(version) <= upto)
        # The next commit builds on the newest state; older ones would only hold outdated entries in memory.
        newest = max(retained, key=number)
        self._stacks = {version: stack for version, stack in self._stacks.items() if version == newest}
        self._opened.clear()

    def remove(self, version: int) -> None:
        """Remove a draft; if the store refuses, it stays."""
        self._remove(lambda other, _: other == version)

    def _remove(self, chosen: Callable[[int, str], bool]) -> None:
        with suppress(ConfigError, TransientError):
            for version, name in list(self._named()):
                if chosen(version, name):
                    self._folder.delete(name)

    def _named(self) -> Iterator[tuple[int, str]]:
        """Yield version and name of each state file, including temporary files that interrupted writes have left."""
        for name in self._folder.names():
            version = Path(name).stem.partition("-")[0]
            if version.isdecimal() and Path(name).suffix in {".json", ".layer", ".tmp"}:
                yield int(version), name


def number(version: int) -> int:
    """Return the sequence number of a version's state: 1 for the first."""
    return version >> _NONCE_BITS


def _with_digest(text: bytes) -> bytes:
    """Return the JSON text of an object with an additional first field: the digest of the text."""
    return b'{"digest":"%s",%s' % (blake2b(text, digest_size=16).hexdigest().encode(), text[1:])


_DIGEST_BYTES = len(_with_digest(b"{"))


def _files(blob: Sequence[StateFile] | None) -> tuple[DataFile, ...] | None:
    return None if blob is None else tuple(DataFile(**file) for file in blob)


def successor(version: int | None) -> int:
    """Return a version for the state after `version`. It ends in random bits, so two runs never choose the same one."""
    return (number(version or 0) + 1) << _NONCE_BITS | secrets.randbits(_NONCE_BITS)
