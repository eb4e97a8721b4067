import pytest

from cdk import BadState
from cdk.base.values import Json
from cdk.state import Kind, StateKey, StateLog, open_session
from cdk.state.layers.layer_file import to_bytes
from cdk.state.log.blobs import INLINE, load, to_slot
from cdk.state.log.record import Slot
from cdk.state.log.slot_value import Frozen, StateValue, frozen
from cdk.state.stores.memory import MemoryStore
from tests.state.log.newest import newest

KEY = StateKey("shop")
SET = Kind("cdk/entity-set")
SLOT = "entities:tables"


def large(count: int = 5000, **more: Json) -> dict[str, Json]:
    return {**{f"urn:table:{i * 7919 % 100_003:06}": 1 for i in range(count)}, **more}


def commit(store: MemoryStore, value: Json) -> None:
    with open_session(StateLog(store, KEY)) as session:
        session.propose(SLOT, SET.of(value))
        session.commit("final")


def stored(store: MemoryStore) -> Json:
    log = StateLog(store, KEY)
    head = newest(log)
    return log.value(head, SLOT).value


def written(store: MemoryStore, before: set[str]) -> int:
    return sum(len(data) for path, data in store.objects.items() if path not in before)


def test_small_values_stay_in_the_record() -> None:
    text = "x" * (INLINE - 2)
    small, over = (to_slot(frozen("a:", SET.of(value)), 1, None) for value in (text, text + "x"))

    assert (small.blob, small.slot.json["value"]) == (None, text)
    assert over.blob is not None
    assert "value" not in over.slot.json


def test_a_large_value_that_did_not_change_is_not_written_again() -> None:
    store = MemoryStore()
    commit(store, large(50_000))
    before = set(store.objects)
    with open_session(StateLog(store, KEY)) as session:
        session.propose(SLOT, SET.of(large(50_000)))
        session.propose("stream:users", SET.of({"page": 3}))
        session.commit("final")

    assert 0 < written(store, before) < 1024


def test_a_change_of_a_large_value_costs_as_much_as_the_change() -> None:
    store = MemoryStore()
    value = large(20_000)
    commit(store, value)
    before = set(store.objects)
    commit(store, {**value, "new": 1, "newer": 2})

    assert written(store, before) < 1024
    assert stored(store) == {**value, "new": 1, "newer": 2}


def test_many_changes_are_folded_into_a_new_whole() -> None:
    store = MemoryStore()
    value = large()
    for n in range(45):
        value[f"new-{n}"] = n
        commit(store, value)
        assert stored(store) == value
    head = newest(StateLog(store, KEY))

    assert len(head.slots[SLOT].blobs) <= 21
    assert len(head.to_bytes()) < 1700


def test_when_most_has_changed_the_whole_is_written() -> None:
    store = MemoryStore()
    commit(store, large())
    commit(store, dict.fromkeys(large(), 2))
    head = newest(StateLog(store, KEY))

    assert len(head.slots[SLOT].blobs) == 1


@pytest.mark.parametrize("after", [["x" * 20_000], "y" * 20_000, {"small": 1}], ids=["a list", "a text", "small"])
def test_a_value_may_become_something_else(after: Json) -> None:
    store = MemoryStore()
    for value in (large(), after, large()):
        commit(store, value)

        assert stored(store) == value


def test_a_base_that_is_not_the_parents_makes_no_patch() -> None:
    first = to_slot(frozen(SLOT, SET.of(large())), 1, None)
    made = frozen(SLOT, SET.of(large(more=1)))
    wrong = Frozen(made.kind, made.version, made.text, made.digest, base=frozen(SLOT, SET.of(large(other=1))).text)

    assert len(to_slot(wrong, 2, first.slot).slot.blobs) == 1


def kept(value: Json) -> tuple[MemoryStore, Slot]:
    store = MemoryStore()
    commit(store, value)
    head = newest(StateLog(store, KEY))
    return store, head.slots[SLOT]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "found None, expected the blob that the record names"),
        (b"", "it was changed or truncated"),
        (b"nonsense", "it was changed or truncated"),
        (to_bytes({'"other"': "1"})[0], "it was changed or truncated"),
    ],
)
def test_a_damaged_blob_is_refused_with_its_name(data: bytes | None, said: str) -> None:
    store, slot = kept(large())
    path = f"{KEY}/blobs/{slot.blobs[0]}"
    del store.objects[path]
    if data is not None:
        store.objects[path] = data

    with pytest.raises(BadState) as refused:
        load(store, KEY, slot, "record 1 entities:tables")
    assert said in str(refused.value)
    assert refused.value.path.startswith("record 1 entities:tables")


def test_a_blob_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    store, slot = kept(large())
    monkeypatch.setattr("cdk.state.layers.layer_file._LARGEST", 1000)

    with pytest.raises(BadState, match="at most 1000 bytes unpacked"):
        load(store, KEY, slot, "record 1")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"encoding": "lzma"}, "found 'lzma', expected 'spark-cdk-layer/1'; a newer kit"),
        ({"kind": "other"}, "the value was changed after it was written"),
        ({"version": 2}, "the value was changed after it was written"),
        ({"blobs": 3}, "a slot or layer that does not fit"),
        ({"entries": [4999]}, "found 5000, expected 4999 entries"),
        ({"entries": [1, 2]}, "a slot or layer that does not fit"),
    ],
)
def test_a_slot_that_says_something_else_is_refused(changes: dict[str, Json], said: str) -> None:
    store, slot = kept(large())

    with pytest.raises(BadState, match=said):
        load(store, KEY, Slot({**slot.json, **changes}), "record 1")


@pytest.mark.parametrize(
    ("path", "said"),
    [('"never there"', "the value was changed after"), ("", "the value was changed after"), ("{", "does not fit")],
)
def test_a_layer_that_does_not_fit_is_refused(path: str, said: str) -> None:
    store, slot = kept(large())
    data, digest = to_bytes({path: "1"})
    store.put_blob(KEY, f"2-{digest}", data)
    more = {"blobs": [*slot.blobs, f"2-{digest}"], "entries": [*slot.json["entries"], 1]}

    with pytest.raises(BadState, match=said):
        load(store, KEY, Slot({**slot.json, **more}), "record 1")


def test_kinds_that_nobody_knows_come_back_as_they_are() -> None:
    unknown = StateValue("somebody/else", 17, large())
    placed = to_slot(frozen(SLOT, unknown), 1, None)
    store = MemoryStore()
    assert placed.blob is not None
    store.put_blob(KEY, *placed.blob)

    assert load(store, KEY, placed.slot, "record 1")[0] == unknown
