"""What becomes of rows and state when a run dies, or something fails, at a named point: for each kind of sink.

B has a marker in its transaction, C merges rows by key, D only appends. `matrix.py` has the whole table.
A run has five pages of two rows, so five partial records and a final one.
"""

import shutil
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cdk.state import Kind, Mode, StaleEntityRemovalHandler, StatefulOptions, StateKey, StateLog, open_session
from cdk.state.handlers.run import StatefulRun
from tests.state.handlers.sinks import Catalog
from tests.state.log.failing import End, World, free_lease, pages_of, paused, run
from tests.state.log.newest import newest
from tests.state.log.sinks import MarkedTable, Row

DONE, KILLED = End("done"), End("killed")
LATER = datetime(2025, 1, 1, tzinfo=UTC)
ALL = {"users": 3, "orders": 2}
SECOND: Counter[Row] = Counter([("users", 2), ("users", 3)])
"""The rows of the second page."""


@pytest.fixture(params=["B", "C", "D"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """A pipeline that has not run yet, for each kind of sink."""
    return World(tmp_path, request.param)


def complete(world: World, *, twice: Mapping[Row, int] | None = None) -> None:
    """Assert that each row is there once, `twice` excepted, that the state says so, and that the log has no hole."""
    assert world.rows == world.everything + Counter(twice or {})
    assert world.pages == {**ALL, "users": 3 + world.more}
    records = list(world.log.history())
    assert records[0].status == "final"
    assert [record.seq for record in records] == list(range(records[0].seq, records[0].first - 1, -1))


def whole(world: World, *, twice: Mapping[Row, int] | None = None) -> None:
    """Assert that all is complete, and that no blob or intent is left that no record names."""
    complete(world, twice=twice)
    log = world.log
    named = {blob for record in log.history() for slot in record.slots.values() for blob in slot.blobs}
    assert set(log.store.blobs(log.key)) == named


def again(world: World, *, twice: Mapping[Row, int] | None = None) -> None:
    """Run once more without a fault; after it all is whole."""
    assert run(world.but(fault="")) == DONE
    whole(world, twice=twice)


def test_an_undisturbed_run_is_whole_and_the_next_one_does_nothing(world: World) -> None:
    again(world)
    seq = [record.seq for record in world.log.history()]
    again(world)

    assert [record.seq for record in world.log.history()] == seq
    assert len(world.read_pages) == 5


def test_a_name_that_is_none_touches_nothing(world: World) -> None:
    end = run(world.but(pipeline="../shop"))

    assert end.how == "failed"
    assert "ConfigError" in end.error
    assert not (world.folder / "state").exists()
    assert (world.rows, world.read_pages) == (Counter(), [])


@pytest.mark.parametrize("damage", ["cut", "major"])
def test_a_state_that_cannot_be_read_stops_a_run_before_the_source_is_read(world: World, damage: str) -> None:
    assert run(world.but(fault="kill@appended:2")) == KILLED
    newest = max((world.folder / "state").rglob("log/*.json"))
    text, rows = newest.read_bytes(), world.rows
    newest.write_bytes(text[:-40] if damage == "cut" else text.replace(b"cdk-state/1", b"cdk-state/9"))

    end = run(world)

    assert end.how == "failed"
    assert end.error.startswith("BadState")
    assert newest.name in end.error
    assert (world.rows, len(world.read_pages)) == (rows, 2)
    newest.write_bytes(text)
    again(world)


def test_a_run_that_dies_before_any_data_is_begun_anew(world: World) -> None:
    assert run(world.but(fault="kill@opened")) == KILLED
    assert (world.rows, world.log.head()) == (Counter(), None)

    again(world)


def test_rows_that_were_staged_and_not_committed_are_dropped(world: World) -> None:
    assert run(world.but(fault="kill@staged:2")) == KILLED
    assert (world.rows.total(), world.pages) == (2, {"users": 1})

    again(world)


def test_a_blob_or_intent_without_a_record_is_ignored_and_collected(world: World) -> None:
    point = "intent_written" if world.mode == "B" else "blob_written"
    assert run(world.but(fault=f"kill@{point}:2")) == KILLED
    left = [name for name in world.log.store.blobs(world.log.key) if name.startswith("2-")]
    assert len(left) == (2 if world.mode == "B" else 1)
    assert world.rows.total() == (2 if world.mode == "B" else 4)
    assert world.pages == {"users": 1}

    again(world, twice=SECOND if world.mode == "D" else None)
    assert not set(left) & set(world.log.store.blobs(world.log.key))


@pytest.mark.parametrize("point", ["data_committed", "append"])
def test_rows_that_were_committed_without_their_record(world: World, point: str) -> None:
    assert run(world.but(fault=f"kill@{point}:2")) == KILLED
    assert (world.rows.total(), world.pages) == (4, {"users": 1})

    again(world, twice=SECOND if world.mode == "D" else None)
    # What the marker tells of is not read again.
    assert world.read_pages.count(("users", 1)) == (1 if world.mode == "B" else 2)


def test_an_answer_of_the_store_that_is_lost_changes_nothing(world: World) -> None:
    assert run(world.but(fault="lost@appended:2")) == DONE

    whole(world)
    assert len(world.read_pages) == 5


def test_an_answer_of_the_sink_that_is_lost(world: World) -> None:
    end = run(world.but(fault="lost@data_committed:2"))

    assert end == (DONE if world.mode == "B" else End("failed", "ConnectionError: the line broke at data_committed"))
    assert world.pages == (ALL if world.mode == "B" else {"users": 1})
    again(world, twice=SECOND if world.mode == "D" else None)


def test_a_run_that_dies_after_its_last_record_holds_no_lease(world: World) -> None:
    assert run(world.but(fault="kill@end")) == KILLED
    whole(world)

    again(world)
    assert len(world.read_pages) == 5


def test_a_removal_that_was_cut_is_finished_by_the_next_run(world: World) -> None:
    assert run(world.but(fault="kill@removed")) == KILLED
    assert world.rows == world.everything
    assert world.pages == ALL
    log = world.log
    numbers = log.store.numbers(log.key)
    assert (numbers[0], numbers[-1]) == (2, 6)

    again(world.but(more=1, clock=LATER))
    assert log.store.numbers(log.key)[0] > 2


@pytest.mark.parametrize("point", ["opened", "staged"])
def test_a_second_run_is_refused_while_the_first_holds_the_lease(world: World, point: str) -> None:
    with paused(world, point) as first:
        given = len(world.read_pages)
        second = run(world)
        assert second.how == "failed"
        assert second.error.startswith("StateConflict")
        assert len(world.read_pages) == given
    assert first.end() == DONE
    whole(world)


def test_of_two_runs_without_a_lease_the_loser_adds_no_row_that_counts(world: World) -> None:
    with paused(world, "opened") as loser:
        free_lease(world)
        assert run(world) == DONE
        stood = world.log.head()
    end = loser.end()

    assert end.how == "failed"
    assert end.error.startswith("StateConflict")
    # It read from the start, as it had seen it. Its first page is all that can come twice.
    twice = {("users", 0): 1, ("users", 1): 1} if world.mode == "D" else None
    complete(world, twice=twice)
    assert world.log.head() == stood
    again(world.but(more=1, clock=LATER), twice=twice)


@pytest.mark.parametrize("when", ["before its rows", "after its rows"])
def test_a_run_that_sleeps_and_is_overtaken_commits_at_most_a_batch(world: World, when: str) -> None:
    # C holds its transaction open while it stages, and would keep the others out: it sleeps before it begins one.
    before = {"B": "intent_written:2", "C": "appended:1", "D": "staged:2"}
    with paused(world, before[world.mode] if when == "before its rows" else "append:2") as sleeper:
        free_lease(world)
        assert run(world) == DONE
        stood = world.log.head()
    end = sleeper.end()

    assert end.how == "failed"
    assert end.error.startswith("StateConflict")
    twice = SECOND if world.mode == "D" else None
    complete(world, twice=twice)
    assert world.log.head() == stood
    again(world.but(more=1, clock=LATER), twice=twice)


def test_a_row_that_the_sink_refuses_stops_its_slot_where_it_stands(world: World) -> None:
    end = run(world.but(bad=True))

    assert end.how == "failed"
    assert world.rows == Counter([("users", 0), ("users", 1)])
    assert world.pages == {"users": 1}
    again(world)


@pytest.mark.parametrize("removal", ["soft", "hard"])
def test_a_removal_that_the_sink_refuses_is_asked_for_again(world: World, removal: str) -> None:
    def a_run(catalog: Catalog, *ids: str) -> None:
        options = StatefulOptions(enabled=True, fail_safe_threshold=100, removal=removal)
        sink = MarkedTable(world.folder, lambda _: None) if world.mode == "B" else None
        with open_session(world.log, sink=sink) as session:
            stale = StaleEntityRemovalHandler(StatefulRun(world.log, session, Mode(), options), "tables")
            for id in ids:
                stale.add(id)
                catalog.write(id)
            stale.complete()
            stale.remember()
            session.commit("partial")
            stale.reconcile(catalog)
            session.commit("final")

    catalog = Catalog(stubborn=["b"])
    a_run(catalog, "a", "b", "c")
    a_run(catalog, "a")
    assert catalog.shown == {"a", "b"}
    a_run(catalog, "a")
    assert catalog.shown == {"a", "b"}

    catalog.stubborn.clear()
    a_run(catalog, "a")
    calls = len(catalog.calls)
    a_run(catalog, "a")

    assert catalog.shown == {"a"}
    assert len(catalog.calls) == calls


def test_a_stream_that_fails_stops_no_other(world: World) -> None:
    end = run(world.but(broken=("users", 1)))

    assert end == End("failed", "ServerError: the source is ill")
    assert world.pages == {"users": 1, "orders": 2}
    assert world.rows == Counter(row for row in world.everything if row[0] == "orders" or row[1] < 2)
    head = newest(world.log)
    assert head.status == "partial"
    again(world)
    assert len(world.read_pages) == 5


def test_a_store_that_is_away_at_the_end_fails_the_run_and_loses_nothing(world: World) -> None:
    end = run(world.but(fault="away@append:5+"))

    assert end.how == "failed"
    assert end.error.startswith("TransientError")
    assert world.rows == world.everything
    assert world.pages == {"users": 3, "orders": 1}
    again(world, twice={("orders", 2): 1, ("orders", 3): 1} if world.mode == "D" else None)
    assert world.read_pages.count(("orders", 1)) == (1 if world.mode == "B" else 2)


@pytest.mark.parametrize("point", ["opened", "append:2"])
def test_a_full_disk_fails_the_run_and_leaves_nothing_half(world: World, point: str) -> None:
    end = run(world.but(fault=f"full@{point}"))

    assert end.how == "failed"
    assert [path for path in world.folder.rglob(".tmp*") if path.is_file()] == []
    assert world.pages == ({} if point == "opened" else {"users": 1})
    assert world.rows.total() == (0 if point == "opened" else 4)
    again(world, twice=SECOND if world.mode == "D" and point != "opened" else None)


@pytest.mark.parametrize("year", [1970, 2999])
def test_a_clock_that_jumps_changes_no_order(world: World, year: int) -> None:
    assert run(world.but(fault="kill@appended:2")) == KILLED
    assert run(world.but(fault="kill@appended:2", clock=datetime(year, 1, 1, tzinfo=UTC))) == KILLED
    assert world.pages == {"users": 3, "orders": 1}

    again(world)
    assert len(world.read_pages) == 5


def test_a_sink_that_was_restored(world: World) -> None:
    assert run(world.but(fault="kill@appended:2")) == KILLED
    kept = world.folder / "kept"
    file = next(path for path in world.folder.iterdir() if path.name.startswith("rows."))
    shutil.copy(file, kept)
    assert run(world.but(fault="kill@append:3")) == KILLED
    stood = pages_of(world.log, world.log.at(2))
    shutil.copy(kept, file)

    # Only a marker tells. A sink without one lacks rows that nobody misses, until a person says from where to go on.
    if world.mode == "B":
        given = len(world.read_pages)
        end = run(world)
        assert end.error.startswith("StateError")
        assert "its marker is that of record 2, and a run that reads 'at:2' resumes from there" in end.error
        assert len(world.read_pages) == given
        assert world.rows.total() == 4
    assert run(world.but(read="at:2")) == DONE

    assert stood == {"users": 2}
    whole(world)


def test_a_sink_that_was_dropped(world: World) -> None:
    assert run(world) == DONE
    next(path for path in world.folder.iterdir() if path.name.startswith("rows.")).unlink()

    end = run(world)
    assert end.how == ("failed" if world.mode == "B" else "done")
    assert world.rows == Counter()
    if world.mode == "B":
        assert "no record knows it" in end.error
    assert run(world.but(read="ignore")) == DONE

    whole(world)
    again(world)


@pytest.mark.parametrize("read", ["latest", "ignore", "at:1"])
def test_a_preview_writes_nothing(world: World, read: str) -> None:
    assert run(world.but(fault="kill@append:2")) == KILLED
    before = {
        path: path.read_bytes() for path in world.folder.rglob("*") if path.is_file() and path.parent.name != "source"
    }
    given = len(world.read_pages)

    assert run(world.but(read=read, write="none")) == DONE

    after = {
        path: path.read_bytes() for path in world.folder.rglob("*") if path.is_file() and path.parent.name != "source"
    }
    assert after == before
    assert len(world.read_pages) > given
    again(world, twice=SECOND if world.mode == "D" else None)


def test_a_selection_moves_no_other_slot(world: World) -> None:
    assert run(world) == DONE
    other = StateLog(world.log.store, StateKey("other"))
    with open_session(world.log, sink=MarkedTable(world.folder, lambda _: None) if world.mode == "B" else None) as one:
        one.propose("stream:third", Kind("test/page").of({"page": 1}))
        one.commit("final")

    assert world.pages == {**ALL, "third": 1}
    assert world.rows == world.everything
    assert other.head() is None
