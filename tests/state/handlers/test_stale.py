import logging
from collections.abc import Callable, Iterable
from itertools import islice

import pytest

from cdk import BadState, ConfigError
from cdk.base.errors import BugError, StateTooLarge
from cdk.base.values import Json
from cdk.state import (
    Kind,
    Mode,
    RemovalRefused,
    ScopeReport,
    StaleEntityRemovalHandler,
    StatefulOptions,
    StateKey,
    StateLog,
    open_session,
    stateful_run,
)
from cdk.state.handlers.entity_set import ENTITIES, LEAVING, PRESENT
from cdk.state.stores.memory import MemoryStore
from tests.state.handlers.sinks import Catalog

SLOT = "entities:tables"
KEY = StateKey("catalog")


class World:
    """A log and a sink, and runs over them."""

    def __init__(self) -> None:
        self.store, self.sink = MemoryStore(), Catalog()

    @property
    def log(self) -> StateLog:
        return StateLog(self.store, KEY)

    def run(
        self,
        ids: Iterable[str],
        *,
        complete: bool = True,
        preview: bool = False,
        mode: Mode | None = None,
        spared: Callable[[str], bool] = lambda _: False,
        **options: Json,
    ) -> ScopeReport:
        """One run over one scope, as people write it."""
        with stateful_run(self.log, StatefulOptions(enabled=True, **options), preview=preview, mode=mode) as run:
            stale = StaleEntityRemovalHandler(run, "tables", spared=spared)
            for id in ids:
                stale.add(id)
                if run.writes:
                    self.sink.write(id)
            if complete:
                stale.complete()
            (report,) = stale.reconcile(self.sink)
            run.session.commit("final")
        return report

    @property
    def ids(self) -> Json:
        """The scope's ids, as the newest record says."""
        head = self.log.head()
        return head and self.log.value(head, SLOT).value["scopes"].get("", {}).get("ids", {})


@pytest.fixture
def world() -> World:
    """Ten tables, t0 to t9, were seen by a complete run."""
    world = World()
    world.run(tables(10))
    return world


def tables(count: int, first: int = 0) -> list[str]:
    return [f"t{i}" for i in range(first, count)]


def test_what_is_gone_is_removed_and_forgotten(world: World) -> None:
    report = world.run(tables(8))

    assert (report.previous, report.current, report.missing, report.removed) == (10, 8, ("t8", "t9"), 2)
    assert (world.sink.hidden, world.sink.shown) == ({"t8", "t9"}, set(tables(8)))
    assert world.ids == dict.fromkeys(tables(8), PRESENT)


def test_what_is_gone_is_removed_once(world: World) -> None:
    world.run(tables(8))
    calls = len(world.sink.calls)
    world.run(tables(8))

    assert len(world.sink.calls) == calls


def test_a_first_run_asks_the_sink_for_nothing(world: World) -> None:
    assert world.sink.calls == []


def test_ids_stay_until_the_sink_has_confirmed_that_they_are_gone(world: World) -> None:
    world.sink.stubborn = {"t9"}
    first = world.run(tables(8))
    again = world.run(tables(8))
    world.sink.stubborn = set()
    last = world.run(tables(8))

    assert (first.removed, first.pending) == (1, ("t9",))
    assert (again.removed, again.pending, again.missing) == (0, ("t9",), ("t9",))
    assert (last.removed, last.pending) == (1, ())
    assert world.sink.calls == [("remove", ("t8", "t9")), ("remove", ("t9",)), ("remove", ("t9",))]
    assert "t9" not in world.ids


def test_what_leaves_is_stored_before_the_sink_is_asked(world: World) -> None:
    stored: list[Json] = []
    world.sink.before = lambda _: stored.append(world.ids)
    world.run(tables(9))

    assert [ids["t9"] for ids in stored] == [LEAVING]


def test_what_comes_back_is_revived(world: World) -> None:
    world.run(tables(8))
    report = world.run(tables(10))

    assert report.revived == 2
    assert world.sink.hidden == set()
    assert world.ids == dict.fromkeys(tables(10), PRESENT)


def test_a_revival_that_was_not_confirmed_is_repeated(world: World) -> None:
    world.run(tables(9))
    world.sink.stubborn = {"t9"}
    world.run(tables(10))
    world.sink.stubborn = set()
    report = world.run(tables(10))

    assert report.revived == 1
    assert world.sink.hidden == set()


def test_hard_deletes_are_asked_for(world: World) -> None:
    world.run(tables(9), removal="hard")

    assert world.sink.calls == [("remove hard", ("t9",))]
    assert world.sink.entities.keys() == set(tables(9))


def test_reporting_alone_removes_nothing_and_forgets_nothing(world: World) -> None:
    report = world.run(tables(8), remove_stale_metadata=False)

    assert (report.missing, report.removed, report.skip_reason) == (("t8", "t9"), 0, "remove_stale_metadata is false")
    assert world.sink.calls == []
    assert world.run(tables(8)).removed == 2


@pytest.mark.parametrize("ids", [tables(8), []])
def test_a_run_without_a_proof_removes_nothing_and_learns(world: World, ids: list[str]) -> None:
    report = world.run([*ids, "new"], complete=False)

    assert (report.removed, report.skip_reason) == (0, "it was not reported as completely read")
    assert world.sink.hidden == set()
    assert world.ids.keys() == {*tables(10), "new"}


def test_a_run_without_a_proof_repeats_no_removal(world: World) -> None:
    world.sink.stubborn = {"t9"}
    world.run(tables(9))
    calls = len(world.sink.calls)
    world.run(tables(5), complete=False)

    assert len(world.sink.calls) == calls
    assert world.ids["t9"] == LEAVING


def test_the_end_of_what_is_watched_is_the_proof(world: World) -> None:
    def run(cut: int | None) -> ScopeReport:
        with stateful_run(world.log, StatefulOptions(enabled=True)) as run:
            stale = StaleEntityRemovalHandler(run, "tables")
            rows = stale.watch([{"urn": id} for id in tables(9)], id=lambda row: row["urn"])
            assert len(list(islice(rows, cut))) == (9 if cut is None else cut)
            (report,) = stale.reconcile(world.sink)
            run.session.commit("final")
        return report

    assert run(cut=5).skip_reason == "it was not read completely"
    assert run(cut=9).skip_reason == "it was not read completely"
    assert run(cut=None).missing == ("t9",)


def test_a_part_that_was_not_read_spoils_the_whole_scope_and_no_other(world: World) -> None:
    with stateful_run(world.log, StatefulOptions(enabled=True)) as run:
        stale = StaleEntityRemovalHandler(run, "tables")
        for scope in ("a", "b"):
            list(stale.watch(("x", "y"), id=str, scope=scope))
        stale.reconcile(world.sink)
        run.session.commit("final")
    with stateful_run(world.log, StatefulOptions(enabled=True)) as run:
        stale = StaleEntityRemovalHandler(run, "tables")
        list(stale.watch(["x"], id=str, scope="a"))
        stale.watch([], id=str, scope="a")
        list(stale.watch(["x"], id=str, scope="b"))
        untouched, cut, whole = stale.reconcile(world.sink)

    assert (untouched.scope, untouched.skip_reason) == ("", "it was not reported as completely read")
    assert (cut.scope, cut.skip_reason, cut.missing) == ("a", "it was not read completely", ("y",))
    assert (whole.scope, whole.removed) == ("b", 1)


def test_a_flaw_outweighs_every_proof(world: World) -> None:
    with stateful_run(world.log, StatefulOptions(enabled=True)) as run:
        stale = StaleEntityRemovalHandler(run, "tables")
        list(stale.watch(tables(9), id=str))
        stale.incomplete("page 3 was forbidden")
        stale.complete()
        (report,) = stale.reconcile(world.sink)

    assert (report.skip_reason, report.removed) == ("page 3 was forbidden", 0)


def test_an_entity_that_moved_to_another_scope_is_not_removed(world: World) -> None:
    with stateful_run(world.log, StatefulOptions(enabled=True)) as run:
        stale = StaleEntityRemovalHandler(run, "tables")
        list(stale.watch(tables(8), id=str))
        list(stale.watch(["t8", "t9"], id=str, scope="other"))
        here, there = stale.reconcile(world.sink)
        run.session.commit("final")
        known = stale.known_scopes

    assert (here.missing, there.revived, world.sink.calls) == ((), 0, [])
    assert known == [""]
    head = world.log.head()
    assert head is not None
    assert world.log.value(head, SLOT).value == {
        "scopes": {"": {"ids": dict.fromkeys(tables(8), 1)}, "other": {"ids": {"t8": 1, "t9": 1}}}
    }


def test_ids_that_others_mention_are_not_removed_and_do_not_become_known(world: World) -> None:
    with stateful_run(world.log, StatefulOptions(enabled=True)) as run:
        stale = StaleEntityRemovalHandler(run, "tables")
        list(stale.watch(tables(8), id=str))
        stale.mention("t9")
        stale.mention("never seen")
        (report,) = stale.reconcile(world.sink)
        run.session.commit("final")

    assert (report.missing, report.protected) == (("t8",), 1)
    assert world.ids.keys() == set(tables(8)) | {"t9"}


def test_entities_of_others_are_spared(world: World) -> None:
    report = world.run(tables(8), spared=lambda entity: entity == "t9")

    assert (report.missing, report.protected, report.previous) == (("t8",), 1, 9)


# --- guards


@pytest.mark.parametrize(
    ("left", "options", "refused"),
    [
        (25, {}, False),  # exactly 75 % of 100
        (24, {}, True),
        (24, {"fail_safe_threshold": 100}, False),
        (24, {"fail_safe_min": 76}, False),
        (24, {"fail_safe_min": 75}, True),
        (94, {"fail_safe_threshold": 5}, True),
        (95, {"fail_safe_threshold": 0}, False),  # five may always go
        (94, {"fail_safe_threshold": 0}, True),
        (95, {"fail_safe_threshold": 0, "fail_safe_min": 0}, True),
    ],
)
def test_more_than_the_threshold_and_more_than_the_floor_is_refused(
    left: int,
    options: dict[str, Json],
    refused: bool,  # noqa: FBT001 - a column of the table above
) -> None:
    world = World()
    world.run(tables(100))
    if refused:
        with pytest.raises(RemovalRefused, match="expected at most"):
            world.run(tables(left), **options)
    else:
        assert world.run(tables(left), **options).removed == 100 - left
    assert len(world.sink.hidden) == (0 if refused else 100 - left)


def test_a_small_set_may_lose_almost_all(world: World) -> None:
    world.run(tables(5))
    world.run(["t0"])

    assert world.sink.shown == {"t0"}


def test_no_entity_at_all_is_an_error_whatever_the_size() -> None:
    world = World()
    world.run(["t0"])
    with pytest.raises(RemovalRefused, match=r"found no entities, expected some of the 1 .* allow_empty"):
        world.run([])

    assert world.sink.shown == {"t0"}
    assert world.ids == {"t0": PRESENT}
    assert world.run([], allow_empty=True).removed == 1


def test_an_empty_first_run_is_none() -> None:
    world = World()

    assert world.run([]).skip_reason == ""
    assert world.run([]).skip_reason == ""


def test_a_refused_plan_is_carried_out_when_it_is_accepted_and_no_other() -> None:
    world = World()
    world.run(tables(100))
    with pytest.raises(RemovalRefused) as refused:
        world.run(tables(10))
    plan = refused.value.message.rpartition(": ")[2]
    with pytest.raises(RemovalRefused, match="which is another plan"):
        world.run(tables(9), accept_removals=plan)
    report = world.run(tables(10), accept_removals=plan)

    assert report.removed == 90
    assert world.sink.shown == set(tables(10))


def test_a_removal_that_was_accepted_is_finished_without_asking_again() -> None:
    world = World()
    world.run(tables(100))
    with pytest.raises(RemovalRefused) as refused:
        world.run(tables(10))
    world.sink.stubborn = set(tables(100, 50))
    world.run(tables(10), accept_removals=refused.value.message.rpartition(": ")[2])
    world.sink.stubborn = set()

    assert world.run(tables(10)).removed == 50


def test_a_refused_scope_learns_and_keeps_while_the_others_are_settled() -> None:
    world = World()
    for ids in ({"a": tables(10), "b": tables(10)}, {"a": ["new"], "b": tables(9)}):
        with stateful_run(world.log, StatefulOptions(enabled=True)) as run:
            stale = StaleEntityRemovalHandler(run, "tables")
            for scope, entities in ids.items():
                list(stale.watch((f"{scope}.{id}" for id in entities), id=str, scope=scope))
            try:
                stale.reconcile(world.sink)
            except RemovalRefused as error:
                assert error.path == SLOT  # noqa: PT017 - the first run passes
                break
            run.session.commit("final")
    head = world.log.head()

    assert head is not None
    assert head.status == "partial"
    scopes = world.log.value(head, SLOT).value["scopes"]
    assert scopes["a"]["ids"].keys() == {"a.new", *(f"a.{id}" for id in tables(10))}
    assert scopes["b"]["ids"].keys() == {f"b.{id}" for id in tables(9)}
    assert [what for what in world.sink.calls if what[0] == "remove"] == [("remove", ("b.t9",))]


# --- modes


def test_a_preview_neither_stores_nor_removes_and_shows_what_would_be(world: World) -> None:
    before = dict(world.store.objects)
    report = world.run(tables(8), preview=True)

    assert (report.missing, report.removed, report.skip_reason) == (("t8", "t9"), 0, "")
    assert world.sink.calls == []
    assert world.store.objects == before


def test_a_run_that_ignores_its_new_state_removes_nothing(world: World) -> None:
    before = dict(world.store.objects)
    world.run([*tables(8), "new"], ignore_new_state=True)

    assert world.sink.calls == []
    assert world.store.objects == before


@pytest.mark.parametrize("option", ["ignore_old_state", "force_rerun"])
def test_a_run_that_ignores_the_old_state_removes_nothing_and_forgets_nothing(world: World, option: str) -> None:
    options: dict[str, Json] = {option: True}
    report = world.run(tables(8), **options)

    assert (report.missing, report.skip_reason) == ((), "the run ignores the saved state")
    assert world.ids.keys() == set(tables(10))
    assert world.run(tables(8)).removed == 2


def test_a_run_again_from_an_earlier_record_removes_what_that_one_knew(world: World) -> None:
    world.run(tables(9))
    world.run([*tables(9), "later"])
    report = world.run(tables(8), mode=Mode("at:1"))

    assert report.missing == ("t8", "t9")
    assert world.ids.keys() == {*tables(8), "later"}


def test_a_run_without_stateful_ingestion_touches_nothing(world: World) -> None:
    before = dict(world.store.objects)
    with stateful_run(world.log, StatefulOptions()) as run:
        stale = StaleEntityRemovalHandler(run, "tables")
        list(stale.watch(["t0"], id=str))
        (report,) = stale.reconcile(world.sink)
        run.session.commit("final")

    assert (report.skip_reason, report.missing) == ("stateful_ingestion.enabled is false", ())
    assert world.store.objects == before


# --- what is wrong is said in time


def test_a_state_that_cannot_be_read_is_said_before_anything_is_read(world: World) -> None:
    with open_session(world.log) as session:
        session.propose(SLOT, ENTITIES.of({"scopes": {"": {"ids": {"t0": "there"}}}}))
        session.propose("entities:other", Kind("cdk/stream").of({}))
        session.propose("entities:newer", Kind("cdk/entity-set", 9).of({}))
        session.commit("final")
    with stateful_run(world.log, StatefulOptions(enabled=True)) as run:
        for name in ("tables", "other", "newer"):
            with pytest.raises(BadState, match=f"state of default/catalog entities:{name}"):
                StaleEntityRemovalHandler(run, name)


def test_a_set_that_is_too_large_is_said_before_the_sink_is_asked(world: World) -> None:
    small = StateLog(world.store, KEY, max_checkpoint_state_size=100)
    with stateful_run(small, StatefulOptions(enabled=True)) as run:
        stale = StaleEntityRemovalHandler(run, "tables")
        list(stale.watch([*tables(9), "a" * 100], id=str))
        with pytest.raises(StateTooLarge, match="max_checkpoint_state_size"):
            stale.reconcile(world.sink)

    assert world.sink.calls == []


def test_an_entity_that_is_added_too_late_is_a_bug(world: World) -> None:
    with stateful_run(world.log, StatefulOptions(enabled=True)) as run:
        stale = StaleEntityRemovalHandler(run, "tables")
        stale.reconcile(world.sink)
        with pytest.raises(BugError, match="after `reconcile`"):
            stale.add("t0")


def test_a_sink_that_confirms_what_it_was_not_asked_for_changes_nothing(world: World) -> None:
    class Eager(Catalog):
        def remove(self, ids: Iterable[str], *, hard: bool) -> list[str]:
            return [*super().remove(list(ids), hard=hard), "t0"]

    world.sink = Eager()
    world.run(tables(9))

    assert world.ids.keys() == set(tables(9))


def test_the_sink_is_asked_for_a_thousand_at_a_time() -> None:
    world = World()
    world.run(tables(2500))
    world.run(tables(1), fail_safe_threshold=100)

    assert [len(ids) for _, ids in world.sink.calls] == [1000, 1000, 499]


def test_what_was_done_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="cdk")
    world.run(tables(9))
    world.run(tables(8), preview=True)
    world.run(tables(8), complete=False)

    assert [record.getMessage() for record in caplog.records] == [
        "entities:tables: removed 1, 0 still to confirm",
        "entities:tables: would remove 1",
        "entities:tables: nothing was removed: it was not reported as completely read",
    ]


def test_an_option_that_is_wrong_is_named() -> None:
    with pytest.raises(ConfigError, match=r"stateful_ingestion\.fail_safe_treshold.*did you mean"):
        StatefulOptions.parse({"fail_safe_treshold": 3})
