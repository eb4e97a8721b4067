from cdk.state import StateKey
from cdk.state.stores.memory import MemoryStore


def test_the_same_bytes_are_refused_too() -> None:
    key, store = StateKey("shop"), MemoryStore()
    data = b"{}"

    assert store.create(key, 1, data)
    assert not store.create(key, 1, data)


def test_stores_share_nothing() -> None:
    key, one, other = StateKey("shop"), MemoryStore(), MemoryStore()
    one.create(key, 1, b"{}")

    assert other.numbers(key) == []
