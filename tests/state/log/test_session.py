import logging
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest

from cdk import BadState, ConfigError, StateConflict, StateError, TransientError
from cdk.base.errors import StateTooLarge
from cdk.base.values import Json
from cdk.state import Kind, Mode, Retention, StateKey, StateLog, StateRecord, StateValue, open_session
from cdk.state.stores.local import LocalStore
from cdk.state.stores.memory import MemoryStore
from tests.state.log.newest import newest

KEY = StateKey("shop")
PAGE = Kind("cdk/stream", 2, {1: lambda value: {"page": value}})
USERS, ORDERS = "stream:users", "stream:orders"


def commit(store: MemoryStore, mode: Mode | None = None, **pages: int) -> StateRecord | None:
    with open_session(StateLog(store, KEY), mode) as session:
        for name, page in pages.items():
            session.propose(f"stream:{name}", PAGE.of({"page": page}))
        return session.commit("final")


def shown(store: MemoryStore, mode: Mode | None = None) -> Mapping[str, Json]:
    """What handlers see."""
    with open_session(StateLog(store, KEY), mode) as session:
        return {slot: session.read(slot, PAGE)["page"] for slot in session.slots}


def stored(store: MemoryStore) -> Mapping[str, Json]:
    """What the newest record says."""
    log = StateLog(store, KEY)
    head = log.head()
    return {slot: log.value(head, slot).value["page"] for slot in head.slots} if head else {}


@pytest.fixture
def store() -> MemoryStore:
    """Three records: users at page 1, 2, 3; orders at page 10 since the first."""
    store = MemoryStore()
    commit(store, users=1, orders=10)
    commit(store, users=2)
    commit(store, users=3)
    return store


Write = Literal["commit", "none"]
SEES: Mapping[str, Mapping[str, int]] = {"latest": {USERS: 3, ORDERS: 10}, "ignore": {}, "at:2": {USERS: 2, ORDERS: 10}}


@pytest.mark.parametrize("write", ["commit", "none"])
@pytest.mark.parametrize("read", SEES)
def test_what_a_mode_shows(store: MemoryStore, read: str, write: Write) -> None:
    assert shown(store, Mode(read, write)) == SEES[read]


@pytest.mark.parametrize("read", SEES)
def test_a_commit_goes_on_after_the_newest_record_whatever_was_read(store: MemoryStore, read: str) -> None:
    before = StateLog(store, KEY).head()
    record = commit(store, Mode(read, "commit"), users=7)

    assert before is not None
    assert record is not None
    assert (record.seq, record.parent) == (4, before.digest)
    assert record.run["mode"] == {"read": read, "write": "commit"}
    assert stored(store) == {USERS: 7, ORDERS: 10}


@pytest.mark.parametrize("read", SEES)
def test_a_preview_never_writes(store: MemoryStore, read: str) -> None:
    before = dict(store.objects)
    with open_session(StateLog(store, KEY), Mode(read, "none")) as session:
        session.propose(USERS, PAGE.of({"page": 7}))
        session.propose("entities:large", PAGE.of({str(i): i for i in range(9999)}))
        session.remove(ORDERS)

        assert session.commit("partial") is None
        assert session.commit("final", [{"rows": 1}]) is None
    assert store.objects == before


def test_a_preview_takes_no_lease(tmp_path: Path) -> None:
    log = StateLog(LocalStore(tmp_path), KEY)
    with open_session(log), open_session(log, Mode("latest", "none")) as preview:
        assert preview.slots == []
    with pytest.raises(StateConflict, match="wait for it to end"), open_session(log), open_session(log):
        pass


@pytest.mark.parametrize("read", ["latest", "ignore"])
def test_a_new_log_can_be_opened_in_any_mode_that_needs_no_record(read: str) -> None:
    store = MemoryStore()

    assert shown(store, Mode(read, "commit")) == {}
    assert commit(store, Mode(read, "commit"), users=1) is not None
    assert stored(store) == {USERS: 1}


def test_a_record_that_is_not_there_cannot_be_read(store: MemoryStore) -> None:
    with pytest.raises(StateError, match="found no record 9, expected one of 1 to 3"):
        shown(store, Mode("at:9"))


@pytest.mark.parametrize(
    ("read", "write"), [("newest", "commit"), ("at:", "commit"), ("at:x", "none"), ("latest", "no")]
)
def test_modes_that_do_not_exist_are_refused(read: str, write: Write) -> None:
    with pytest.raises(ConfigError):
        Mode(read, write)


def test_nothing_changed_is_no_record(store: MemoryStore) -> None:
    assert commit(store) is None
    assert commit(store, users=3) is None
    assert commit(store, Mode("ignore"), users=3, orders=10) is None
    assert store.numbers(KEY) == [1, 2, 3]


def test_state_without_data_is_a_record_without_effects(store: MemoryStore) -> None:
    record = commit(store, users=4)

    assert record is not None
    assert record.effects == ()


def test_data_without_state_is_a_record_with_effects(store: MemoryStore) -> None:
    with open_session(StateLog(store, KEY)) as session:
        record = session.commit("partial", [{"sink": "delta:users", "rows": 7}])

    assert record is not None
    assert record.effects == ({"sink": "delta:users", "rows": 7},)
    assert stored(store) == {USERS: 3, ORDERS: 10}


def test_the_end_of_a_run_that_was_partial_is_said_once(store: MemoryStore) -> None:
    with open_session(StateLog(store, KEY)) as session:
        session.propose(USERS, PAGE.of({"page": 4}))
        partial, repeated, final, again = (session.commit(s) for s in ("partial", "partial", "final", "final"))

    assert partial is not None
    assert final is not None
    assert (partial.status, repeated, final.status, again) == ("partial", None, "final", None)
    assert final.slots == partial.slots


def test_what_is_carried_is_carried_by_reference(store: MemoryStore) -> None:
    head = newest(StateLog(store, KEY))

    assert [head.slots[slot].json["since"] for slot in (USERS, ORDERS)] == [3, 1]
    assert head.slots[ORDERS] == StateLog(store, KEY).at(1).slots[ORDERS]


def test_a_slot_goes_only_when_it_is_removed(store: MemoryStore) -> None:
    with open_session(StateLog(store, KEY)) as session:
        session.remove(ORDERS)
        session.remove("stream:unknown")
        session.commit("final")

    assert stored(store) == {USERS: 3}
    assert shown(store, Mode("at:3")) == {USERS: 3, ORDERS: 10}


def test_a_removed_slot_may_come_back(store: MemoryStore) -> None:
    with open_session(StateLog(store, KEY)) as session:
        session.remove(ORDERS)
        session.commit("partial")
        session.propose(ORDERS, PAGE.of({"page": 11}))
        session.commit("final")

    assert stored(store) == {USERS: 3, ORDERS: 11}


def test_the_last_proposal_counts(store: MemoryStore) -> None:
    with open_session(StateLog(store, KEY)) as session:
        session.propose(USERS, PAGE.of({"page": 4}))
        session.propose(USERS, PAGE.of({"page": 3}))

        assert session.commit("final") is None


def test_a_proposal_that_is_withdrawn_leaves_the_slot_as_it_was(store: MemoryStore) -> None:
    with open_session(StateLog(store, KEY)) as session:
        session.propose(USERS, PAGE.of({"page": 4}))
        session.propose(ORDERS, PAGE.of({"page": 11}))
        session.withdraw(USERS)
        session.withdraw("stream:unknown")
        session.commit("final")

    assert stored(store) == {USERS: 3, ORDERS: 11}


def test_handlers_cannot_change_what_is_compared(store: MemoryStore) -> None:
    large = {str(i): i for i in range(9999)}
    with open_session(StateLog(store, KEY)) as session:
        session.propose("entities:ids", PAGE.of(large))
        large["after"] = 1
        session.commit("final")
    with open_session(StateLog(store, KEY)) as session:
        mine = session.read("entities:ids", PAGE)
        assert "after" not in mine
        mine["new"] = 1
        session.propose("entities:ids", PAGE.of(mine))
        record = session.commit("final")

    assert record is not None
    assert StateLog(store, KEY).value(record, "entities:ids").value == mine


def test_old_versions_are_migrated_for_handlers_and_stay_as_they_are_in_the_log(store: MemoryStore) -> None:
    with open_session(StateLog(store, KEY)) as session:
        session.propose("stream:old", StateValue("cdk/stream", 1, 5))
        session.commit("final")
    with open_session(StateLog(store, KEY)) as session:
        assert session.read("stream:old", PAGE) == {"page": 5}
        assert session.value("stream:old") == StateValue("cdk/stream", 1, 5)


def test_a_slot_of_another_kind_is_refused_with_its_place(store: MemoryStore) -> None:
    with (
        open_session(StateLog(store, KEY)) as session,
        pytest.raises(
            BadState, match="state of default/shop stream:users kind: found 'cdk/stream', expected 'odf/etag'"
        ),
    ):
        session.read(USERS, Kind("odf/etag"))


def test_what_was_never_stored_is_nothing(store: MemoryStore) -> None:
    with open_session(StateLog(store, KEY)) as session:
        assert session.value("stream:other") is None
        assert session.read("stream:other", PAGE) is None


def test_a_damaged_value_is_found_before_anything_is_read(store: MemoryStore) -> None:
    with open_session(StateLog(store, KEY)) as session:
        session.propose("entities:ids", PAGE.of({str(i): i for i in range(9999)}))
        session.commit("final")
    blob = next(path for path in store.objects if "/blobs/" in path)
    store.objects[blob] = store.objects[blob][:-9]

    for mode in (Mode("latest"), Mode("latest", "none"), Mode("at:4")):
        with pytest.raises(BadState, match="entities:ids"), open_session(StateLog(store, KEY), mode):
            pass
    with open_session(StateLog(store, KEY), Mode("ignore")) as session:
        session.propose("entities:ids", PAGE.of({str(i): i + 1 for i in range(9999)}))
        session.commit("final")
    with open_session(StateLog(store, KEY)) as session:
        assert session.read("entities:ids", PAGE)["9"] == 10


@pytest.mark.parametrize(
    ("value", "error"), [({1: 2}, BadState), ("s3cr3t-word", StateError), ("x" * 5000, StateTooLarge)]
)
def test_what_cannot_be_stored_is_refused_when_it_is_proposed(store: MemoryStore, value: Json, error: type) -> None:
    log = StateLog(store, KEY, secrets=["s3cr3t-word"], max_checkpoint_state_size=4096)
    with open_session(log) as session:
        with pytest.raises(error):
            session.propose(USERS, PAGE.of(value))

        assert session.commit("final") is None


def test_a_session_that_was_overtaken_commits_nothing_more(store: MemoryStore) -> None:
    with open_session(StateLog(store, KEY)) as session:
        commit(store, users=4)
        for page in (5, 6):
            session.propose(USERS, PAGE.of({"page": page}))
            with pytest.raises(StateConflict):
                session.commit("partial")
        with pytest.raises(StateConflict, match="this session is over"):
            session.commit("final")

    assert stored(store) == {USERS: 4, ORDERS: 10}


def test_a_session_that_cannot_know_where_the_log_stands_commits_nothing_more(store: MemoryStore) -> None:
    class Broken(MemoryStore):
        def create(self, *_: object) -> bool:
            raise TransientError("the line broke")

    broken = Broken()
    broken.objects = store.objects
    with open_session(StateLog(broken, KEY)) as session:
        session.propose(USERS, PAGE.of({"page": 4}))
        with pytest.raises(TransientError):
            session.commit("final")
        with pytest.raises(StateConflict, match="this session is over: the line broke"):
            session.commit("final")


def test_history_is_shortened_at_the_end_of_a_run(store: MemoryStore) -> None:
    log = StateLog(store, KEY)
    with open_session(log, retention=Retention(2, timedelta(0))) as session:
        session.propose(USERS, PAGE.of({"page": 4}))
        session.commit("partial")
        assert store.numbers(KEY) == [1, 2, 3, 4]
        session.commit("final")

    assert store.numbers(KEY) == [4, 5]
    assert stored(store) == {USERS: 4, ORDERS: 10}


def test_a_commit_succeeds_even_if_old_records_cannot_be_removed(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    class Clinging(MemoryStore):
        def drop(self, *_: object) -> None:
            raise TransientError("the line broke")

    clinging = Clinging()
    clinging.objects = store.objects
    with (
        caplog.at_level(logging.WARNING),
        open_session(StateLog(clinging, KEY), retention=Retention(2, timedelta(0))) as session,
    ):
        session.propose(USERS, PAGE.of({"page": 4}))

        assert session.commit("final") is not None
    assert "old state of default/shop was not removed: the line broke" in caplog.text
    assert stored(store) == {USERS: 4, ORDERS: 10}
