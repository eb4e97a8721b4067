from collections.abc import Mapping
from datetime import UTC, datetime

import orjson
import pytest

from cdk import BadState, StateConflict, StateError, TransientError
from cdk.base.errors import StateTooLarge
from cdk.base.values import Json
from cdk.state import Kind, Slot, StateKey, StateLog, StateRecord
from cdk.state.log.record import read_record
from cdk.state.log.slot_value import Frozen
from cdk.state.stores.memory import MemoryStore
from tests.state.log.newest import newest

KEY = StateKey("shop")
CURSOR = Kind("cdk/stream")
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


def opened(store: MemoryStore | None = None, **options: Json) -> StateLog:
    return StateLog(store or MemoryStore(), KEY, clock=lambda: NOON, **options)


def grown(log: StateLog, count: int, **values: Json) -> StateRecord:
    """`count` records, each with its own number in the slot `stream:users`."""
    record = log.head()
    for _ in range(count):
        seq = record.seq + 1 if record else 1
        slots: Mapping[str, Slot | Frozen] = {
            **(record.slots if record else {}),
            "stream:users": log.check("stream:users", CURSOR.of({"page": seq})),
            **{f"stream:{name}": log.check(f"stream:{name}", CURSOR.of(value)) for name, value in values.items()},
        }
        record = log.append(record, slots, status="partial")
    assert record is not None
    return record


def path(seq: int) -> str:
    return f"{KEY}/log/{seq:012}.json"


def test_a_log_that_was_never_written_has_no_head() -> None:
    assert opened().head() is None
    assert list(opened().history()) == []


def test_a_record_says_who_wrote_it_and_on_what() -> None:
    log = opened()
    first = grown(log, 1)
    second = log.append(first, first.slots, status="final", run={"id": "r2"}, effects=[{"sink": "delta:users"}])

    assert (first.seq, first.parent, first.status) == (1, None, "partial")
    assert (second.seq, second.parent, second.status) == (2, first.digest, "final")
    assert (second.run, second.effects) == ({"id": "r2"}, ({"sink": "delta:users"},))
    assert second.created_at == "2024-01-01T12:00:00.000+00:00"
    assert first.attempt != second.attempt
    assert log.head() == second
    assert log.at(1) == first


def test_history_goes_from_the_newest_to_the_oldest() -> None:
    log = opened()
    grown(log, 4)

    assert [record.seq for record in log.history()] == [4, 3, 2, 1]


def test_slots_that_nobody_changes_are_carried_as_they_are() -> None:
    log = opened()
    first = grown(log, 1, orders={"cursor": "2024"})
    grown(log, 3)
    head = newest(log)

    assert head.slots["stream:orders"] == first.slots["stream:orders"]
    assert head.slots["stream:orders"].json["since"] == 1
    assert log.value(head, "stream:orders") == CURSOR.of({"cursor": "2024"})
    assert log.value(head, "stream:users") == CURSOR.of({"page": 4})


def test_what_newer_kits_wrote_survives_ten_commits_unchanged() -> None:
    store = MemoryStore()
    log = opened(store)
    first = grown(log, 1, orders=1)
    slot = Slot({**first.slots["stream:orders"].json, "note": {"of": "tomorrow"}})
    from_tomorrow = StateRecord(
        **{
            **{name: getattr(first, name) for name in ("key", "attempt", "status", "created_at", "run", "effects")},
            "seq": 2,
            "parent": first.digest,
            "slots": {**first.slots, "stream:orders": slot},
            "extra": {"pins": [2]},
        }
    )
    store.create(KEY, 2, from_tomorrow.to_bytes())
    head = grown(log, 10)

    assert (head.seq, head.extra) == (12, {"pins": [2]})
    assert head.slots["stream:orders"] == slot


def test_the_second_of_two_who_append_to_one_record_is_refused() -> None:
    log = opened()
    first = grown(log, 1)
    second = log.append(first, first.slots, status="partial")
    with pytest.raises(StateConflict, match="found record 2 of another run") as refused:
        log.append(first, first.slots, status="final")

    assert refused.value.path == log.store.address_of(KEY, 2)
    assert log.head() == second


class Line(MemoryStore):
    """A store behind a line that breaks at the next creates, before or after they are done."""

    def __init__(self, *happens: str) -> None:
        super().__init__()
        self.happens = list(happens)

    def create(self, key: StateKey, seq: int, record: bytes) -> bool:
        what = self.happens.pop(0) if self.happens else "answered"
        created = False if what == "lost before" else super().create(key, seq, record)
        if what != "answered":
            raise TransientError("the line broke")
        return created


@pytest.mark.parametrize(
    "happens", [["lost before"], ["lost after"], ["lost before", "lost after"], ["lost after", "lost after"]]
)
def test_a_line_that_breaks_leaves_exactly_one_record(happens: list[str]) -> None:
    store = Line(*happens)
    record = grown(opened(store), 1)

    assert store.numbers(KEY) == [1]
    assert opened(store).head() == record


def test_a_line_that_stays_broken_is_told() -> None:
    store = Line(*["lost before"] * 3)
    with pytest.raises(TransientError, match="the line broke"):
        grown(opened(store), 1)

    assert store.numbers(KEY) == []


def test_another_record_behind_a_broken_line_is_a_conflict() -> None:
    store = Line("answered", "lost before")
    log = opened(store)
    first = grown(log, 1)
    MemoryStore.create(store, KEY, 2, opened(store)._record(2, first, {}, status="final", run={}).to_bytes())

    with pytest.raises(StateConflict):
        log.append(first, first.slots, status="final")


def test_a_run_that_slept_until_its_place_was_removed_is_refused() -> None:
    store = MemoryStore()
    log = opened(store)
    asleep = grown(log, 2)
    grown(log, 5)
    store.drop(KEY, [1, 2, 3, 4], [])
    with pytest.raises(StateConflict):
        log.append(asleep, asleep.slots, status="final")

    assert store.numbers(KEY) == [5, 6, 7]


@pytest.mark.parametrize("left", [[6, 7], [2, 6, 7]], ids=["all old ones gone", "the second still there"])
def test_a_first_run_that_slept_is_refused(left: list[int]) -> None:
    store = MemoryStore()
    grown(opened(store), 7)
    store.drop(KEY, {1, 2, 3, 4, 5} - set(left), [])
    with pytest.raises(StateConflict):
        opened(store).append(None, {}, status="final")

    assert store.numbers(KEY) == left


def test_a_first_run_that_was_followed_at_once_is_not_refused() -> None:
    class Followed(MemoryStore):
        def create(self, key: StateKey, seq: int, record: bytes) -> bool:
            created = super().create(key, seq, record)
            if seq == 1:
                grown(opened(self), 1)
            return created

    store = Followed()
    opened(store).append(None, {}, status="partial")

    assert store.numbers(KEY) == [1, 2]


def test_a_hole_in_the_log_is_told_and_not_taken_for_its_end() -> None:
    store = MemoryStore()
    log = opened(store)
    grown(log, 5)
    store.drop(KEY, [3], [])

    with pytest.raises(BadState, match="expected record 3: the log has 1 to 5") as refused:
        log.head()
    assert refused.value.path == store.address_of(KEY, 3)


def test_a_log_that_is_shortened_while_it_is_listed_is_read_again() -> None:
    class Shortened(MemoryStore):
        """Another run appends a record, and removes what it does not need, while the names are being listed."""

        busy = False

        def numbers(self, key: StateKey) -> list[int]:
            listed = list(super().numbers(key))
            if self.busy:
                self.busy = False
                head = newest(opened(self))
                opened(self).append(head, head.slots, status="final", first=5)
                self.drop(key, [1, 2, 3, 4], [])
                listed.remove(2)
            return listed

    store = Shortened()
    grown(opened(store), 6)
    store.busy = True
    head = newest(opened(store))

    assert (head.seq, head.first) == (7, 5)


def test_a_damaged_head_is_told_and_never_passed_over() -> None:
    store = MemoryStore()
    log = opened(store)
    grown(log, 3)
    store.objects[path(3)] = store.objects[path(3)][:-20]

    with pytest.raises(BadState, match="expected JSON") as refused:
        log.head()
    assert refused.value.path == store.address_of(KEY, 3)


def test_a_damaged_log_can_be_mended_from_a_whole_record() -> None:
    store = MemoryStore()
    log = opened(store)
    grown(log, 3)
    store.objects[path(3)] = b""
    mended = log.repair(2, run={"id": "by hand"})

    assert (mended.seq, mended.first, mended.status) == (4, 4, "rolled_back")
    assert log.head() == mended
    assert log.value(mended, "stream:users") == CURSOR.of({"page": 2})
    assert list(log.history()) == [mended]
    assert grown(log, 1).seq == 5


def test_a_record_that_was_exchanged_breaks_the_chain() -> None:
    store = MemoryStore()
    log = opened(store)
    grown(log, 3)
    other = orjson.loads(store.objects[path(2)])
    record = read_record(store.objects[path(2)], KEY, 2, "file")
    exchanged = StateRecord(
        **{name: getattr(record, name) for name in ("key", "seq", "parent", "attempt", "created_at", "slots")},
        status="reset",
    )
    store.objects[path(2)] = exchanged.to_bytes()

    with pytest.raises(BadState, match=f"expected {other['digest']}, on which record 3 was built"):
        list(log.history())


def test_a_record_that_is_not_there_is_told_with_those_that_are() -> None:
    log = opened()
    with pytest.raises(StateError, match="found no record 1, expected one of none"):
        log.at(1)
    grown(log, 3)
    with pytest.raises(StateError, match="found no record 9, expected one of 1 to 3"):
        log.at(9)


def test_a_value_that_is_too_large_is_refused_with_its_size_and_the_limit() -> None:
    log = opened(max_checkpoint_state_size=2000)
    log.check("stream:users", CURSOR.of("x" * 1998))
    with pytest.raises(StateTooLarge, match="found a state of 2,001 bytes, expected at most 2,000") as refused:
        log.check("stream:users", CURSOR.of("x" * 1999))

    assert refused.value.path == "stream:users"
    assert "max_checkpoint_state_size" in refused.value.message


def test_the_usual_limit_is_sixteen_megabytes() -> None:
    opened().check("stream:users", CURSOR.of("x" * (2**24 - 2)))
    with pytest.raises(StateTooLarge, match="16,777,216"):
        opened().check("stream:users", CURSOR.of("x" * (2**24 - 1)))


def test_secrets_are_refused_in_values_facts_and_effects() -> None:
    log = opened(secrets=["s3cr3t-word"])
    with pytest.raises(StateError, match="found a secret") as in_value:
        log.check("stream:users", CURSOR.of({"next": "https://h/?key=s3cr3t-word"}))
    with pytest.raises(StateError, match="found a secret") as in_run:
        log.append(None, {}, status="final", run={"source": "s3cr3t-word"})
    with pytest.raises(StateError, match="found a secret") as in_effects:
        log.append(None, {}, status="final", effects=[{"sink": "https://s3cr3t-word@host"}])

    assert [e.value.path for e in (in_value, in_run, in_effects)] == [
        "stream:users.next",
        "run.source",
        "effects[0].sink",
    ]
    assert log.head() is None


def test_another_token_leaves_digests_as_they_are() -> None:
    one, other = (
        opened(secrets=[secret]).check("stream:users", CURSOR.of({"page": 3})) for secret in ("old-token", "new-token")
    )

    assert one.digest == other.digest


def test_facts_that_are_no_json_are_refused_before_anything_is_stored() -> None:
    log = opened()
    with pytest.raises(BadState, match=r"run\.started_at"):
        log.append(None, {}, status="final", run={"started_at": NOON})  # type: ignore[dict-item] # it is no JSON

    assert log.head() is None
