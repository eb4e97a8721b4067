"""MemoryStore: a store for tests, and for runs that persist nothing."""

import threading
from collections.abc import Iterable

from cdk.state.stores.objects import ObjectStore


class MemoryStore(ObjectStore):
    """Objects in a dict, visible only to this process and lost when it ends."""

    location = "memory:"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def put(self, path: str, data: bytes) -> None:
        with self._lock:
            self.objects[path] = data

    def _create(self, path: str, data: bytes) -> bool:
        with self._lock:
            if path in self.objects:
                return False
            self.objects[path] = data
            return True

    def _read(self, path: str) -> bytes | None:
        return self.objects.get(path)

    def _list(self, folder: str) -> Iterable[str]:
        with self._lock:
            return [path for path in self.objects if path.startswith(f"{folder}/" if folder else "")]

    def _delete(self, path: str) -> None:
        self.objects.pop(path, None)
