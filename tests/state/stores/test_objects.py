from collections.abc import Iterable

import pytest

from cdk import ConfigError
from cdk.state import StateKey
from cdk.state.stores.memory import MemoryStore


class Careless(MemoryStore):
    """Takes every create, as servers do that do not know the condition."""

    location = "careless:"

    def _create(self, path: str, data: bytes) -> bool:
        self.objects[path] = data
        return True


class Lying(Careless):
    """Refuses the second create, and overwrites all the same."""

    def _create(self, path: str, data: bytes) -> bool:
        there = path in self.objects
        self.objects[path] = data
        return not there


@pytest.mark.parametrize("store", [Careless(), Lying()], ids=["careless", "lying"])
def test_a_store_that_overwrites_is_refused(store: MemoryStore) -> None:
    with pytest.raises(ConfigError, match="does not refuse to create an object that already exists") as refused:
        store.prepare()

    assert refused.value.path == "careless:"


class Unwilling(MemoryStore):
    """Creates nothing."""

    def _create(self, path: str, data: bytes) -> bool:  # noqa: ARG002
        return False


class Garbling(MemoryStore):
    """Reads other bytes than were stored."""

    def _read(self, path: str) -> bytes | None:
        return b"<html>" if path in self.objects else None


@pytest.mark.parametrize(
    ("store", "said"),
    [
        (Careless(), "it accepted the same object twice"),
        (Lying(), "it refused the second object, but stored it"),
        (Unwilling(), "this store refuses to create an object that does not exist yet"),
        (Garbling(), "this store returns something other than what was stored"),
    ],
    ids=["careless", "lying", "unwilling", "garbling"],
)
def test_what_is_wrong_with_a_store_is_what_is_said(store: MemoryStore, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        store.prepare()


@pytest.mark.parametrize("deletes", [True, False])
def test_a_probe_that_fails_leaves_nothing_behind_and_says_why(deletes: bool) -> None:  # noqa: FBT001
    class Failing(MemoryStore):
        def _read(self, path: str) -> bytes | None:
            raise ConfigError("no permission to read", path=path)

        def _delete(self, path: str) -> None:
            if not deletes:
                raise ConfigError("no permission to delete", path=path)
            super()._delete(path)

    store = Failing()

    with pytest.raises(ConfigError, match="no permission to read"):
        store.prepare()

    assert bool(store.objects) is not deletes


def test_the_probe_leaves_nothing_behind() -> None:
    store = MemoryStore()
    store.prepare()

    assert store.objects == {}


def test_files_that_are_no_records_are_not_counted() -> None:
    key, store = StateKey("shop"), MemoryStore()
    store.create(key, 1, b"{}")
    store.objects["default/shop/log/notes.txt"] = b""
    store.objects["default/shop/lease"] = b""
    store.objects["elsewhere.txt"] = b""

    assert store.numbers(key) == [1]
    assert list(store.keys()) == [key]


def test_the_places_are_those_of_the_documentation() -> None:
    key, store = StateKey("shop", "prod"), MemoryStore()
    store.create(key, 42, b"{}")
    store.put_blob(key, "42-ab", b"")
    paths: Iterable[str] = store.objects

    assert set(paths) == {"prod/shop/log/000000000042.json", "prod/shop/blobs/42-ab"}
    assert store.address_of(key, 42) == "memory:/prod/shop/log/000000000042.json"
