import pickle
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from cdk import BadState
from cdk.base.times.clock import Clock
from cdk.state import (
    HttpProbe,
    HttpSnapshot,
    Mode,
    StateKey,
    StateLog,
    StateRecord,
    StateValue,
    Validators,
    as_odf,
    open_session,
    slot_of,
)
from cdk.state.stores.memory import MemoryStore
from tests.rest.api import NOON, Time

KEY = StateKey("shop")
USERS, ORDERS = "sha256:users", "sha256:orders"
WEDNESDAY = "Wed, 21 Oct 2015 07:28:00 GMT"
DAY = timedelta(hours=24)


class Run:
    """Runs of a pipeline with one source, each of which reads what `probe` lets it."""

    def __init__(self) -> None:
        self.log = StateLog(MemoryStore(), KEY)
        self.time = Time()

    def put(self, kind: str, value: Any, version: int = 1) -> None:
        with open_session(self.log) as session:
            session.propose(slot_of("default"), StateValue(kind, version, value))
            session.commit("final")

    def probe(self, mode: Mode | None = None, **settings: Any) -> HttpProbe:
        with open_session(self.log, mode) as session:
            return HttpProbe.open(session, clock=self.time.clock, **settings)

    def commit(self, probe: HttpProbe, rows: int = 0) -> StateRecord | None:
        with open_session(self.log) as session:
            probe.propose(session)
            return session.commit("final", [{"rows": rows}] if rows else [])


@pytest.fixture
def run() -> Run:
    return Run()


def known(clock: Clock, etag: str | None = '"a"', moment: str | None = None) -> Mapping[str, Validators]:
    return {USERS: Validators(etag, moment, read_at=clock().isoformat())}


@pytest.mark.parametrize("etag", ['"95c5"', 'W/"95c5"', "no quotes", '"\u00fc, \\"', '""'])
def test_an_etag_is_sent_as_it_came(run: Run, etag: str) -> None:
    first = run.probe()
    first.learn(USERS, etag, WEDNESDAY, b"[]")
    run.commit(first, 1)

    assert run.probe().headers(USERS) == {"If-None-Match": etag}


@pytest.mark.parametrize("moment", [WEDNESDAY, "Wednesday, 21-Oct-15 07:28:00 GMT", "yesterday"])
def test_a_date_is_sent_as_it_came_and_only_without_an_etag(run: Run, moment: str) -> None:
    first = run.probe()
    first.learn(USERS, None, moment, b"[]")
    run.commit(first, 1)

    assert run.probe().headers(USERS) == {"If-Modified-Since": moment}


def test_validators_belong_to_the_request_they_were_given_to(run: Run) -> None:
    first = run.probe()
    first.learn(USERS, '"a"', None, b"[]")
    run.commit(first, 1)

    assert run.probe().headers(ORDERS) == {}


def test_what_is_learned_counts_from_the_next_run_on(run: Run) -> None:
    probe = run.probe()
    assert probe.learn(USERS, '"a"', None, b"[]")

    assert probe.headers(USERS) == {}
    assert probe.learn(USERS, '"a"', None, b"[]")


def test_nothing_new_makes_no_record(run: Run) -> None:
    first = run.probe()
    first.learn(USERS, '"a"', WEDNESDAY, b"[]")
    assert run.commit(first, 1) is not None

    run.time.sleep(3600)
    second = run.probe()
    second.unchanged(USERS, '"a"', None)
    assert run.commit(second) is None


def test_a_validator_that_moved_without_new_rows_is_a_record_without_effects(run: Run) -> None:
    first = run.probe()
    first.learn(USERS, '"a"', None, b"[]")
    run.commit(first, 1)

    second = run.probe()
    second.unchanged(USERS, 'W/"a"', None)
    record = run.commit(second)
    assert record is not None
    assert record.effects == ()
    assert run.probe().headers(USERS) == {"If-None-Match": 'W/"a"'}


def test_the_same_body_under_another_validator_is_nothing_new(run: Run) -> None:
    first = run.probe()
    assert first.learn(USERS, '"a"', None, b"[1]")
    run.commit(first, 1)

    second = run.probe()
    assert not second.learn(USERS, '"b"', None, b"[1]")
    assert run.commit(second) is not None
    third = run.probe()
    assert third.headers(USERS) == {"If-None-Match": '"b"'}
    assert third.learn(USERS, '"b"', None, b"[2]")


def test_a_body_that_is_not_in_memory_is_always_new(run: Run) -> None:
    first = run.probe()
    first.learn(USERS, '"a"', None, b"[1]")
    run.commit(first, 1)
    second = run.probe()
    assert second.learn(USERS, '"b"', None, None)
    run.commit(second, 1)

    assert run.probe().learn(USERS, '"b"', None, b"[1]")


@pytest.mark.parametrize(("age", "sent"), [(timedelta(0), 1), (DAY - timedelta(seconds=1), 1), (DAY, 0)])
def test_a_server_is_believed_for_so_long(run: Run, age: timedelta, sent: int) -> None:
    probe = HttpProbe(known(run.time.clock), clock=lambda: run.time.now + age)

    assert len(probe.headers(USERS)) == sent


def test_a_server_that_says_nothing_new_for_ever_is_asked_anew(run: Run) -> None:
    probe = run.probe()
    probe.learn(USERS, '"stuck"', None, b"[1]")
    run.commit(probe, 1)

    unconditional = []
    for hour in range(1, 50):
        run.time.sleep(3600)
        probe = run.probe()
        if probe.headers(USERS):
            probe.unchanged(USERS, '"stuck"', None)
        else:
            unconditional.append(hour)
            probe.learn(USERS, '"stuck"', None, b"[%d]" % hour)
        run.commit(probe)
    assert unconditional == [24, 48]


def test_a_clock_that_went_back_makes_the_server_be_asked_anew(run: Run) -> None:
    probe = HttpProbe(known(run.time.clock), clock=lambda: NOON - timedelta(seconds=1))

    assert probe.headers(USERS) == {}


def test_an_answer_without_validators_is_read_again_unless_it_is_to_be_skipped(run: Run) -> None:
    first = run.probe()
    first.learn(USERS, None, None, b"[]")
    run.commit(first, 1)
    reads, skips = run.probe(), run.probe(uncacheable="skip")

    assert not reads.skips(USERS)
    assert reads.headers(USERS) == {}
    assert skips.skips(USERS)
    assert not skips.skips(ORDERS)
    run.time.sleep(DAY.total_seconds())
    assert not run.probe(uncacheable="skip").skips(USERS)


def test_an_answer_with_validators_is_never_skipped(run: Run) -> None:
    for etag, moment in (('"a"', None), (None, WEDNESDAY)):
        assert not HttpProbe(known(run.time.clock, etag, moment), uncacheable="skip", clock=run.time.clock).skips(USERS)


def test_what_is_not_asked_for_stays_until_it_is_too_old_to_be_sent(run: Run) -> None:
    first = run.probe()
    first.learn(USERS, '"a"', None, b"[]")
    run.commit(first, 1)
    run.time.sleep(3600)
    second = run.probe()
    second.learn(ORDERS, '"b"', None, b"[]")
    run.commit(second, 1)
    assert set(run.probe().value().value["requests"]) == {USERS, ORDERS}

    run.time.sleep(DAY.total_seconds() - 3600)
    third = run.probe()
    third.unchanged(ORDERS, None, None)
    run.commit(third)
    assert set(run.probe().value().value["requests"]) == {ORDERS}


def test_a_run_that_ignores_the_state_asks_for_everything(run: Run) -> None:
    first = run.probe()
    first.learn(USERS, '"a"', None, b"[]")
    run.commit(first, 1)

    again = run.probe(Mode("ignore"))
    assert again.headers(USERS) == {}
    assert again.learn(USERS, '"a"', None, b"[]")


@pytest.mark.parametrize(
    ("kind", "text", "header"),
    [
        ("odf/etag", 'W/"95c5"', {"If-None-Match": 'W/"95c5"'}),
        ("odf/last-modified", "2015-10-21T07:28:00Z", {"If-Modified-Since": WEDNESDAY}),
        ("odf/last-modified", "2015-10-21T09:28:00.900+02:00", {"If-Modified-Since": WEDNESDAY}),
    ],
)
def test_the_state_of_open_data_fabric_is_that_of_the_first_request(
    run: Run, kind: str, text: str, header: Mapping[str, str]
) -> None:
    run.put(kind, text)
    probe = run.probe()
    assert probe.headers(USERS) == header
    assert probe.headers(USERS) == header
    assert probe.headers(ORDERS) == {}

    probe.unchanged(USERS, None, None)
    assert run.commit(probe) is not None
    run.time.sleep(DAY.total_seconds())
    assert run.probe().headers(USERS) == {}


def test_the_state_of_open_data_fabric_stays_when_nothing_is_asked(run: Run) -> None:
    run.put("odf/etag", '"a"')

    assert run.commit(run.probe()) is None


def test_the_validator_alone_is_what_open_data_fabric_knows() -> None:
    def value(*answers: tuple[str | None, str | None]) -> StateValue:
        probe = HttpProbe()
        for number, (etag, moment) in enumerate(answers):
            probe.learn(str(number), etag, moment, b"")
        return probe.value()

    assert as_odf(value(('W/"a"', WEDNESDAY))) == StateValue("odf/etag", 1, 'W/"a"')
    assert as_odf(value((None, WEDNESDAY))) == StateValue("odf/last-modified", 1, "2015-10-21T07:28:00Z")
    for wrong in (value((None, None)), value(), value(('"a"', None), ('"b"', None)), value((None, "yesterday"))):
        with pytest.raises(BadState):
            as_odf(wrong)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("cdk/file-set", {}),
        ("odf/etag", 5),
        ("odf/last-modified", "yesterday"),
        ("acme/unknown", "x"),
        ("cdk/http-validators", []),
        ("cdk/http-validators", {"requests": []}),
        ("cdk/http-validators", {"requests": {USERS: {"etag": 1}}}),
        ("cdk/http-validators", {"requests": {USERS: {"length": "1"}}}),
        ("cdk/http-validators", {"requests": {USERS: {"read_at": "noon"}}}),
        ("cdk/http-validators", {"requests": {USERS: {"colour": "red"}}}),
    ],
)
def test_a_slot_of_something_else_is_refused_when_it_is_opened(run: Run, kind: str, value: Any) -> None:
    run.put(kind, value)

    with pytest.raises(BadState):
        run.probe()


def test_a_newer_version_is_refused(run: Run) -> None:
    run.put("cdk/http-validators", {"requests": {}}, version=2)

    with pytest.raises(BadState, match="a newer kit wrote it"):
        run.probe()


def test_a_snapshot_travels_and_asks_by_the_clock_of_who_made_it(run: Run) -> None:
    now = run.time.clock()
    sent = HttpSnapshot(known(run.time.clock), now, max_validator_age=timedelta(hours=1))
    run.time.sleep(timedelta(days=1).total_seconds())
    probe = pickle.loads(pickle.dumps(sent)).probe()  # noqa: S301 - our own

    assert probe.headers(USERS) == {"If-None-Match": '"a"'}
    probe.learn(ORDERS, '"b"', None, b"[]")
    assert list(probe.learned) == [ORDERS]
    assert probe.learned[ORDERS].read_at == now.isoformat(timespec="milliseconds")
    assert sent.probe().learned == {}
