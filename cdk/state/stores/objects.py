"""ObjectStore: a LogStore built on five primitives, for stores that hold objects under paths.

<namespace>/<pipeline>/log/<seq, 12 digits>.json
<namespace>/<pipeline>/blobs/<name>
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from uuid import uuid4

from cdk.base.errors import ConfigError
from cdk.state.stores.protocol import StateKey

_PROBE = "_probe"


class ObjectStore(ABC):
    """Base of object stores. Subclasses implement `put`, `_create`, `_read`, `_list` and `_delete`, and set `location`.

    location: path or URL for messages, without secrets. Object paths are relative, with `/`, and plain ASCII.
    """

    location: str

    @abstractmethod
    def put(self, path: str, data: bytes) -> None:
        """Store `data` at `path`, replacing an existing object atomically. Not used by logs."""

    @abstractmethod
    def _create(self, path: str, data: bytes) -> bool:
        """Store `data` at `path`, atomically, unless an object exists there. Return whether this call stored it."""

    @abstractmethod
    def _read(self, path: str) -> bytes | None:
        """Return the object at `path`; None if there is no object."""

    @abstractmethod
    def _list(self, folder: str) -> Iterable[str]:
        """Return the paths of all objects in a folder and its subfolders, in any order; "" is the root."""

    @abstractmethod
    def _delete(self, path: str) -> None:
        """Remove the object at `path`, if it exists."""

    def prepare(self) -> None:
        """Prove that the store refuses a second create: some servers accept the condition, but ignore it."""
        path = f"{_PROBE}/{uuid4().hex}"
        try:
            first, second = self._create(path, b"first"), self._create(path, b"second")
            stored = self._read(path)
        except BaseException:
            # Suppressed, because the original error is the one that explains the problem.
            with suppress(Exception):
                self._delete(path)
            raise
        self._delete(path)
        if problem := _problem_of(first=first, second=second, stored=stored):
            why = f"{problem}; use a store with conditional writes (PUT with If-None-Match), or `type: sql`"
            raise ConfigError(why, path=self.location)

    def create(self, key: StateKey, seq: int, record: bytes) -> bool:
        return self._create(_record(key, seq), record)

    def read(self, key: StateKey, seq: int) -> bytes | None:
        return self._read(_record(key, seq))

    def numbers(self, key: StateKey) -> Sequence[int]:
        names = (path.rpartition("/")[2] for path in self._list(f"{key}/log"))
        return sorted(int(name.removesuffix(".json")) for name in names if name.removesuffix(".json").isdecimal())

    def keys(self) -> Iterable[StateKey]:
        parts = (path.split("/") for path in self._list(""))
        return sorted({StateKey(part[1], part[0]) for part in parts if part[2:3] == ["log"]})

    def put_blob(self, key: StateKey, name: str, data: bytes) -> None:
        self._create(f"{key}/blobs/{name}", data)

    def blob(self, key: StateKey, name: str) -> bytes | None:
        return self._read(f"{key}/blobs/{name}")

    def blobs(self, key: StateKey) -> Iterable[str]:
        return sorted(path.rpartition("/")[2] for path in self._list(f"{key}/blobs"))

    def drop(self, key: StateKey, numbers: Iterable[int], blobs: Iterable[str]) -> None:
        for path in (*(_record(key, seq) for seq in numbers), *(f"{key}/blobs/{name}" for name in blobs)):
            self._delete(path)

    def lease(self, key: StateKey) -> AbstractContextManager[None]:  # noqa: ARG002 - most stores have no leases
        return nullcontext()

    def address_of(self, key: StateKey, seq: int) -> str:
        return f"{self.location.rstrip('/')}/{_record(key, seq)}"

    def close(self) -> None:  # noqa: B027 - most stores hold nothing open
        """Close connections. Does nothing here, because most stores hold none open."""


def _problem_of(*, first: bool, second: bool, stored: bytes | None) -> str:
    """Describe what is wrong with a store, from the result of creating two objects at one path; empty if nothing is."""
    if not first:
        return "this store refuses to create an object that does not exist yet, so it cannot hold a state"
    if second or stored == b"second":
        reason = "it accepted the same object twice" if second else "it refused the second object, but stored it"
        return (
            f"this store does not refuse to create an object that already exists (found: {reason}), so two runs of a "
            "pipeline would overwrite each other's state"
        )
    if stored != b"first":
        return "this store returns something other than what was stored, so it cannot hold a state"
    return ""


def _record(key: StateKey, seq: int) -> str:
    return f"{key}/log/{seq:012}.json"
