from datetime import UTC, datetime, timedelta

import pytest

from cdk import BadState, ConfigError
from cdk.state import Kind, Retention, StateKey, StateLog, open_session
from cdk.state.stores.memory import MemoryStore
from tests.state.log.newest import newest

KEY = StateKey("shop")
SET = Kind("cdk/entity-set")
START = datetime(2024, 1, 1, tzinfo=UTC)


def run(store: MemoryStore, day: int, retention: Retention) -> None:
    """A run on that day: a small slot that always changes, and a large one that changes every tenth day."""
    log = StateLog(store, KEY, clock=lambda: START + timedelta(days=day))
    with open_session(log, retention=retention) as session:
        session.propose("stream:users", SET.of(day))
        session.propose("entities:ids", SET.of({f"{i}-{day // 10}": 1 for i in range(3000)}))
        session.commit("final")


def named(store: MemoryStore) -> set[str]:
    return {name for record in StateLog(store, KEY).history() for s in record.slots.values() for name in s.blobs}


def test_the_last_records_are_kept_and_the_older_ones_removed() -> None:
    store = MemoryStore()
    for day in range(30):
        run(store, day, Retention(5, timedelta(0)))

        assert len(store.numbers(KEY)) == min(day + 1, 5)
        assert set(store.blobs(KEY)) == named(store)
    head = newest(StateLog(store, KEY))

    assert (head.seq, head.first) == (30, 26)
    assert [record.seq for record in StateLog(store, KEY).history()] == [30, 29, 28, 27, 26]


def test_young_records_are_kept() -> None:
    store = MemoryStore()
    for day in range(30):
        run(store, day, Retention(2, timedelta(days=10)))

    assert store.numbers(KEY) == list(range(20, 31))


def test_few_records_are_kept_however_old_they_are() -> None:
    store = MemoryStore()
    for day in range(0, 5000, 500):
        run(store, day, Retention())

    assert len(store.numbers(KEY)) == 10


def test_a_clock_that_goes_wrong_never_removes_the_newest() -> None:
    store = MemoryStore()
    for day in (0, 5000, -5000, 9000, 1):
        run(store, day, Retention(2, timedelta(days=1)))
    log = StateLog(store, KEY)
    head = newest(log)

    assert log.value(head, "stream:users").value == 1
    assert len(list(log.history())) >= 2


def test_a_removal_that_was_cut_is_finished_by_the_next_run_and_not_seen_before() -> None:
    store = MemoryStore()
    keep = Retention(3, timedelta(0))
    for day in range(10):
        run(store, day, Retention(100))
    log = StateLog(store, KEY)
    head = newest(log)
    log.append(head, head.slots, status="final", first=9)
    store.drop(KEY, [1, 2, 5], [])

    assert [record.seq for record in log.history()] == [11, 10, 9]
    run(store, 11, keep)
    assert store.numbers(KEY) == [10, 11, 12]
    assert set(store.blobs(KEY)) == named(store)


def test_blobs_of_attempts_that_may_still_run_are_left_alone() -> None:
    store = MemoryStore()
    run(store, 0, Retention())
    store.put_blob(KEY, "1-of-a-loser", b"")
    store.put_blob(KEY, "9-of-somebody", b"")
    run(store, 10, Retention())

    assert set(store.blobs(KEY)) == named(store) | {"9-of-somebody"}


def damaged() -> MemoryStore:
    """Five days, of which the second cannot be read."""
    store = MemoryStore()
    for day in range(5):
        run(store, day, Retention(100))
    store.objects[f"{KEY}/log/{2:012}.json"] = b"damaged"
    return store


def test_a_record_of_unknown_age_is_kept() -> None:
    store = damaged()
    log = StateLog(store, KEY)
    head = newest(log)

    assert Retention(2, timedelta(0)).first(log, head) == 2


def test_nothing_is_removed_while_a_record_cannot_be_read() -> None:
    store = damaged()
    log = StateLog(store, KEY)
    head = newest(log)
    before = dict(store.objects)

    with pytest.raises(BadState):
        Retention().sweep(log, head)
    assert store.objects == before


def test_a_foreign_blob_stops_the_removal() -> None:
    store = MemoryStore()
    run(store, 0, Retention())
    store.put_blob(KEY, "notes.txt", b"")
    log = StateLog(store, KEY)
    head = newest(log)

    with pytest.raises(BadState, match=r"found 'notes.txt', expected names that begin with the number of a record"):
        Retention().sweep(log, head)


@pytest.mark.parametrize("records", [-1, 0, 1])
def test_less_than_two_records_cannot_be_kept(records: int) -> None:
    with pytest.raises(ConfigError, match="expected at least 2"):
        Retention(records)


class Counting(MemoryStore):
    """Counts what is read."""

    reads = 0

    def _read(self, path: str) -> bytes | None:
        self.reads += 1
        return super()._read(path)


def test_a_run_reads_few_records_however_many_are_kept() -> None:
    store = Counting()
    for day in range(300):
        run(store, day, Retention(200, timedelta(0)))

    assert store.reads / 300 < 12
    assert 200 <= len(store.numbers(KEY)) < 300
    assert named(store) <= set(store.blobs(KEY))
