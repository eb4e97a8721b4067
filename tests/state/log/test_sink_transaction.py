"""A sink with a marker and a log, in memory. What a process that dies leaves of them, test_failures.py sees to."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cdk import BadState, StateConflict, StateError, TransientError
from cdk.base.values import Json
from cdk.state import Kind, Mode, StateKey, StateLog, StateSession, open_session
from cdk.state.log.sink_transaction import MarkedSink
from cdk.state.stores.local import LocalStore
from cdk.state.stores.memory import MemoryStore
from tests.state.log.newest import newest

KEY = StateKey("shop")
PAGE = Kind("test/page")
USERS = "stream:users"


class Rows:
    """Rows and a marker that move together. before, after: called just before and after they do."""

    name = "rows"

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.waiting: list[str] = []
        self.now: str | None = None
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None

    @property
    def pending(self) -> bool:
        return bool(self.waiting)

    def marker(self) -> str | None:
        return self.now

    def commit(self, before: str | None, after: str) -> None:
        self.before()
        if self.now != before:
            raise StateConflict(f"found the marker {self.now!r}, expected {before!r}")
        self.rows, self.now, self.waiting = self.rows + self.waiting, after, []
        self.after()


def breaks(error: Exception | type[BaseException]) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


class Death(BaseException):
    """The process ends here."""


@pytest.fixture
def log() -> StateLog:
    return StateLog(MemoryStore(), KEY, secrets=["s3cr3t-word"])


@pytest.fixture
def sink() -> Rows:
    return Rows()


def write(session: StateSession, sink: Rows, page: int, effects: Sequence[Json] = ()) -> None:
    """A page: its row, and its state."""
    session.propose(USERS, PAGE.of({"page": page}))
    sink.waiting.append(f"row {page}")
    session.commit("partial", effects)


def runs(log: StateLog, sink: Rows, *pages: int, mode: Mode | None = None) -> None:
    with open_session(log, mode, sink=sink) as session:
        for page in pages:
            write(session, sink, page)
        session.commit("final")


def state(log: StateLog) -> Json:
    head = log.head()
    return None if head is None else log.value(head, USERS).value


def dies_between(log: StateLog, sink: Rows, page: int, effects: Sequence[Json] = ()) -> None:
    """A run that commits the rows of a page and dies before the record."""
    sink.after = breaks(Death)
    with pytest.raises(Death), open_session(log, sink=sink) as session:
        write(session, sink, page, effects)
    sink.after = lambda: None
    sink.waiting.clear()


def test_the_newest_record_has_the_marker_of_the_sink(log: StateLog, sink: Rows) -> None:
    runs(log, sink, 1, 2)
    head = newest(log)

    assert log.value(head, "sink:rows").value == sink.now
    assert (sink.rows, state(log), head.seq, head.status) == (["row 1", "row 2"], {"page": 2}, 3, "final")


def test_an_intent_lies_there_before_the_rows_and_is_called_as_their_marker(log: StateLog, sink: Rows) -> None:
    before: list[str] = []
    sink.before = lambda: before.extend(log.store.blobs(KEY))
    runs(log, sink, 1)

    assert before[0].startswith("1-intent-")
    assert before[0] != sink.now  # the final record has another


def test_rows_without_a_record_get_the_one_that_was_intended(log: StateLog, sink: Rows) -> None:
    runs(log, sink, 1)
    dies_between(log, sink, 2, [{"rows": 1}])
    assert state(log) == {"page": 1}

    with open_session(log, sink=sink) as session:
        assert session.read(USERS, PAGE) == {"page": 2}
        assert session.commit("partial") is None
    head = newest(log)
    assert (head.seq, head.status, head.effects) == (3, "partial", ({"rows": 1},))
    runs(log, sink, 3)
    assert (sink.rows, state(log)) == (["row 1", "row 2", "row 3"], {"page": 3})


def test_the_first_record_and_large_values_are_made_good_too(log: StateLog, sink: Rows) -> None:
    large = {f"id-{i:06}": 1 for i in range(5000)}
    sink.after = breaks(Death)
    with open_session(log, sink=sink) as session:
        session.propose("entities:ids", PAGE.of(large))
        with pytest.raises(Death):
            session.commit("final")
    sink.after = lambda: None
    assert log.head() is None

    with open_session(log, sink=sink) as session:
        assert session.read("entities:ids", PAGE) == large


def test_an_intent_without_rows_is_ignored_and_goes_once_its_number_is_taken(log: StateLog, sink: Rows) -> None:
    sink.before = breaks(Death)
    with pytest.raises(Death), open_session(log, sink=sink) as session:
        write(session, sink, 1)
    sink.before = lambda: None
    sink.waiting.clear()
    (left,) = log.store.blobs(KEY)

    runs(log, sink, 1)

    assert (sink.rows, state(log)) == (["row 1"], {"page": 1})
    assert left not in log.store.blobs(KEY)


def test_two_runs_that_intend_the_same_do_not_take_each_others_rows_for_their_own(log: StateLog, sink: Rows) -> None:
    with open_session(log, sink=sink) as slow:
        runs(log, sink, 1)
        with pytest.raises(StateConflict, match="found the marker"):
            write(slow, sink, 1)
        sink.waiting.clear()
    assert sink.rows == ["row 1"]


def test_rows_of_a_sleeper_that_come_while_another_run_reads_are_made_good_by_the_one_after(
    log: StateLog, sink: Rows
) -> None:
    with open_session(log, sink=sink) as other:
        dies_between(log, sink, 1)
        with pytest.raises(StateConflict, match="found the marker"):
            write(other, sink, 1)
        sink.waiting.clear()
    assert (sink.rows, state(log)) == (["row 1"], None)

    runs(log, sink, 2)
    assert (sink.rows, state(log)) == (["row 1", "row 2"], {"page": 2})


def test_an_answer_that_was_lost_is_no_error_when_the_marker_has_moved(log: StateLog, sink: Rows) -> None:
    sink.after = breaks(ConnectionError("the line broke"))
    runs(log, sink, 1)

    assert (sink.rows, state(log)) == (["row 1"], {"page": 1})


def test_a_session_whose_rows_were_refused_commits_nothing_more(log: StateLog, sink: Rows) -> None:
    sink.before = breaks(ValueError("a row that does not fit"))
    with open_session(log, sink=sink) as session:
        with pytest.raises(ValueError, match="does not fit"):
            write(session, sink, 1)
        sink.before = lambda: None
        sink.waiting.clear()
        with pytest.raises(StateConflict, match="this session is over: a row that does not fit"):
            session.commit("final")

    assert (sink.rows, log.head()) == ([], None)


def test_a_record_that_would_be_refused_is_refused_before_its_rows(log: StateLog, sink: Rows) -> None:
    with open_session(log, sink=sink) as session, pytest.raises(StateError, match="a secret"):
        write(session, sink, 1, [{"url": "https://api/?key=s3cr3t-word"}])

    assert (sink.rows, log.head()) == ([], None)


def test_rows_alone_are_a_record_and_nothing_is_none(log: StateLog, sink: Rows) -> None:
    runs(log, sink, 1)
    marker = sink.now
    with open_session(log, sink=sink) as session:
        assert session.commit("final") is None
        assert sink.now == marker
        sink.waiting.append("another")
        assert session.commit("final") is not None

    assert (sink.rows, state(log)) == (["row 1", "another"], {"page": 1})


def test_a_record_that_another_session_adds_keeps_the_marker(log: StateLog, sink: Rows) -> None:
    runs(log, sink, 1)
    with open_session(log) as person:
        person.propose(USERS, PAGE.of({"page": 7}))
        person.commit("final")

    runs(log, sink, 8)
    assert (sink.rows, state(log)) == (["row 1", "row 8"], {"page": 8})


def test_a_sink_that_was_restored_is_refused_and_taken_with_all_its_slots_when_it_is_named(
    log: StateLog, sink: Rows
) -> None:
    with open_session(log, sink=sink) as session:
        session.propose("stream:orders", PAGE.of({"page": 1}))
        write(session, sink, 1)
        kept = sink.now
        session.propose("stream:orders", PAGE.of({"page": 2}))
        write(session, sink, 2)
    sink.rows, sink.now = ["row 1"], kept

    with pytest.raises(StateError, match="its marker is that of record 1, and a run that reads 'at:1'"):
        runs(log, sink)
    with open_session(log, Mode("at:1"), sink=sink) as session:
        assert session.read(USERS, PAGE) == {"page": 1}
    head = newest(log)

    assert (head.seq, head.status, log.value(head, "stream:orders").value) == (3, "rolled_back", {"page": 1})
    runs(log, sink, 2)
    assert sink.rows == ["row 1", "row 2"]


@pytest.mark.parametrize("marker", [None, "9-intent-0123456789abcdef0123456789abcdef", "x"])
def test_a_marker_that_no_record_knows_is_refused(log: StateLog, sink: Rows, marker: str | None) -> None:
    runs(log, sink, 1)
    sink.now = marker

    with pytest.raises(StateError, match="no record knows it"), open_session(log, sink=sink):
        pass


def test_a_marker_that_would_leave_its_folder_is_not_followed(sink: Rows, tmp_path: Path) -> None:
    log = StateLog(LocalStore(tmp_path), KEY)
    runs(log, sink, 1)
    sink.now = "../log/000000000001.json"
    assert log.store.blob(KEY, sink.now) is not None

    with pytest.raises(StateError, match="no record knows it"), open_session(log, sink=sink):
        pass


def test_rows_whose_log_was_lost_are_refused_until_a_person_begins_anew(log: StateLog, sink: Rows) -> None:
    runs(log, sink, 1)
    lost = StateLog(MemoryStore(), KEY)

    with pytest.raises(StateError, match="expected None"), open_session(lost, sink=sink):
        pass
    runs(lost, sink, 1, mode=Mode("ignore"))
    runs(lost, sink, 2)
    assert state(lost) == {"page": 2}


def test_an_intent_for_another_place_in_the_log_is_no_record_of_it(log: StateLog, sink: Rows) -> None:
    runs(log, sink, 1)
    dies_between(log, sink, 2)
    with open_session(log) as person:
        person.propose(USERS, PAGE.of({"page": 7}))
        person.commit("partial")

    with pytest.raises(StateError, match="no record knows it"), open_session(log, sink=sink):
        pass
    assert state(log) == {"page": 7}


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data.replace(b'"page":2', b'"page":9')])
def test_a_damaged_intent_is_refused_with_its_name(log: StateLog, sink: Rows, damage: Callable[[bytes], bytes]) -> None:
    runs(log, sink, 1)
    dies_between(log, sink, 2)
    assert isinstance(log.store, MemoryStore)
    path = f"{KEY}/blobs/{sink.now}"
    log.store.objects[path] = damage(log.store.objects[path])

    with pytest.raises(BadState, match=f"blob {sink.now}"), open_session(log, sink=sink):
        pass


def test_an_intent_of_a_newer_kit_is_refused(log: StateLog, sink: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr("cdk.state.log.sink_transaction.FORMAT", "spark-cdk-state/9")
        dies_between(log, sink, 1)

    with pytest.raises(BadState, match="found 'spark-cdk-state/9'"), open_session(log, sink=sink):
        pass


def test_a_preview_does_not_look_at_the_sink(log: StateLog, sink: Rows) -> None:
    runs(log, sink, 1)
    dies_between(log, sink, 2)
    assert isinstance(log.store, MemoryStore)
    before = dict(log.store.objects)
    with open_session(log, Mode("latest", "none"), sink=sink) as session:
        assert session.read(USERS, PAGE) == {"page": 1}
        session.propose(USERS, PAGE.of({"page": 9}))
        sink.waiting.append("row 9")
        assert session.commit("final") is None

    assert sink.rows == ["row 1", "row 2"]
    assert log.store.objects == before


def test_a_run_that_moves_both_while_another_opens_makes_that_one_stop(log: StateLog) -> None:
    class Overtaken(Rows):
        """Another run commits between the look at the log and the look at the sink."""

        def marker(self) -> str | None:
            if not self.rows:
                self.rows = [""]
                runs(log, self, 1, 2)
            return super().marker()

    sink: MarkedSink = Overtaken()
    with (
        pytest.raises(StateConflict, match="another run moved the state at the same time"),
        open_session(log, sink=sink),
    ):
        pass


def test_a_store_that_is_away_after_the_rows_ends_the_session_and_the_next_goes_on(
    log: StateLog, sink: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as away, open_session(log, sink=sink) as session:
        away.setattr(log.store, "create", lambda *_: breaks(TransientError("the line broke"))())
        with pytest.raises(TransientError):
            write(session, sink, 1)
        with pytest.raises(StateConflict, match="this session is over"):
            session.commit("final")

    runs(log, sink, 2)
    assert (sink.rows, state(log)) == (["row 1", "row 2"], {"page": 2})
