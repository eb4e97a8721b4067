"""Tokens of a run: who asks for them, who holds them, and what becomes of them when they end."""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cdk import ConfigError, CredentialsError
from cdk.base.run import RunScope
from cdk.rest import HttpClient, HttpErrorHandler, OAuth2, Request, RetryPolicy
from cdk.rest.auth.oauth2 import StoredTokens
from cdk.rest.auth.token_owner import collecting_bearers, issue_all
from cdk.rest.auth.tokens import (
    IssuedToken,
    SliceProgress,
    TokenEnded,
    run_tokens,
    seal,
    tracking_slice,
    unseal,
    using_tokens,
)
from cdk.testing.mock_api import MockApi
from tests.rest.api import Time

USERS = Request("GET", "https://api.test/users")
TOKENS = "https://login.test/token"
LIFE = 3600.0


class World:
    """A token server that gives tokens of an hour, an API, and authenticators that say the same of one login."""

    def __init__(self, *, rotates: bool = True) -> None:
        self.api, self.time = MockApi(), Time()
        self.tokens, self.users = self.api.post("/token"), self.api.get("/users")
        self.users.returns(json=[])
        for n in range(1, 9):
            answer = {"access_token": f"access-{n}", "expires_in": LIFE}
            self.tokens.returns(json={**answer, "refresh_token": f"refresh-{n}"} if rotates else answer)

    def authenticator(self, **given: Any) -> OAuth2:
        return OAuth2(TOKENS, client_id="me", refresh_token="refresh-0", clock=self.time.clock, **given)

    def client(self, authenticator: OAuth2 | None = None) -> HttpClient:
        handler = HttpErrorHandler(retry_policy=RetryPolicy(retries=2, clock=self.time.clock))
        return HttpClient(self.api, authenticator=authenticator, error_handler=handler, sleep=self.time.sleep)

    def issued(self, authenticator: OAuth2, seconds: float = 60) -> IssuedToken:
        return issue_all([authenticator], self.client(), seconds)[authenticator.key]

    def ask(self, authenticator: OAuth2) -> str:
        """The token of a request."""
        self.client(authenticator).send(USERS)
        return self.users.requests[-1].headers["Authorization"].removeprefix("Bearer ")

    @contextmanager
    def task(self, authenticator: OAuth2, *, stuck: bool = False) -> Iterator[SliceProgress]:
        """A task that was given the present token, and how its slice stands. stuck: it gave a page."""
        issued = issue_all([authenticator], self.client(), 0)
        with using_tokens(issued) as held, tracking_slice(SliceProgress(read=stuck)) as slice:
            yield slice
        run_tokens().merge(held.findings)


@pytest.fixture(autouse=True)
def _in_a_run() -> Iterator[None]:
    with RunScope().working():
        yield


def test_those_that_say_the_same_share_a_token_for_the_run() -> None:
    world = World()

    assert {world.issued(world.authenticator()).token for _ in range(3)} == {"access-1"}
    assert world.ask(world.authenticator()) == "access-1"
    assert world.issued(world.authenticator(scopes=["more"])).token == "access-2"
    with RunScope().working():
        assert world.issued(world.authenticator()).token == "access-3"


def test_one_owner_of_a_refresh_token_that_works_once_whatever_is_asked_for_with_it() -> None:
    world, kept = World(), StoredTokens(lambda _: None)

    first = world.issued(world.authenticator(stored=kept))
    assert world.issued(world.authenticator(stored=kept, scopes=["more"])) == first
    assert first.rotates


@pytest.mark.parametrize(
    ("age", "seconds", "tokens"),
    [(0, 60, 1), (3000, 60, 1), (3200, 600, 2), (1700, 7200, 1), (2000, 7200, 2), (3600, 1, 2)],
)
def test_a_token_is_for_a_task_or_for_half_of_its_life(age: float, seconds: float, tokens: int) -> None:
    world = World()
    authenticator = world.authenticator()
    world.issued(authenticator)
    world.time.sleep(age)

    assert world.issued(authenticator, seconds).token == f"access-{tokens}"
    assert len(world.tokens.requests) == tokens


def test_a_task_uses_what_it_was_given_and_stops_when_that_ends() -> None:
    world = World()
    planner, worker = world.authenticator(), world.authenticator()

    with world.task(planner):
        assert world.ask(worker) == "access-1"
        world.time.sleep(LIFE)
        with pytest.raises(TokenEnded):
            world.ask(worker)
    with world.task(planner):
        assert world.ask(worker) == "access-2"

    assert len(world.tokens.requests) == 2


def test_a_task_that_was_given_nothing_asks_itself() -> None:
    world = World()

    with using_tokens({}):
        assert world.ask(world.authenticator()) == "access-1"


def test_a_task_that_was_given_nothing_uses_up_no_token_that_works_once() -> None:
    world = World()

    with using_tokens({}), pytest.raises(CredentialsError, match="was not obtained where the slices are planned"):
        world.ask(world.authenticator(stored=StoredTokens(lambda _: None)))

    assert world.tokens.requests == []


@pytest.mark.parametrize("ended", [True, False])
def test_the_last_task_of_a_token_says_what_has_become_of_it(*, ended: bool) -> None:
    world = World()
    authenticator = world.authenticator(stored=StoredTokens(lambda _: None))
    issued = issue_all([authenticator], world.client(), 0)

    with using_tokens(issued, last=True):
        assert world.ask(authenticator) == "access-1"
        if ended:
            world.time.sleep(LIFE)
        else:
            world.users.returns(status=401, json={})
        with pytest.raises(CredentialsError, match="has expired" if ended else "before it expired"):
            list(map(world.ask, [authenticator, authenticator]))

    assert len(world.tokens.requests) == 1


def test_a_refresh_token_that_nobody_keeps_is_missed_aloud(caplog: pytest.LogCaptureFixture) -> None:
    world = World()

    world.ask(world.authenticator())
    assert "which is not stored for the next run" in caplog.text
    caplog.clear()
    world.ask(world.authenticator(client_secret="s", stored=StoredTokens(lambda _: None)))
    assert caplog.text == ""


def test_refresh_tokens_stay_where_they_are_owned() -> None:
    world = World()
    world.ask(world.authenticator())

    assert b"refresh-1" not in pickle.dumps(run_tokens())


def test_a_slice_that_cannot_be_cut_renews_a_token_that_may_be_renewed() -> None:
    world = World(rotates=False)
    authenticator = world.authenticator()

    with world.task(authenticator, stuck=True):
        world.time.sleep(LIFE)
        assert [world.ask(authenticator) for _ in range(2)] == ["access-2"] * 2

    assert len(world.tokens.requests) == 2


@pytest.mark.parametrize(("began", "error"), [(0, CredentialsError), (3000, TokenEnded)])
def test_a_slice_that_cannot_be_cut_never_uses_up_a_refresh_token(began: float, error: type[BaseException]) -> None:
    world = World()
    authenticator = world.authenticator()

    with world.task(authenticator, stuck=True):
        world.time.sleep(began)
        world.ask(authenticator)
        world.time.sleep(LIFE - began)
        with pytest.raises(error):
            world.ask(authenticator)

    assert len(world.tokens.requests) == 1


@pytest.mark.parametrize("early", [True, False])
def test_a_slice_that_gave_no_page_yet_gets_on_with_the_next_token_where_it_may(*, early: bool) -> None:
    world = World(rotates=False)
    authenticator = world.authenticator()

    with world.task(authenticator):
        world.ask(authenticator)
        if early:
            world.users.returns(status=401).returns(json=[])
        else:
            world.time.sleep(LIFE)
        assert [world.ask(authenticator) for _ in range(2)] == ["access-2"] * 2

    assert len(world.tokens.requests) == 2


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize(
    ("began", "answers", "reached", "wasted"),
    [(100, True, False, True), (100, True, True, False), (100, False, False, False), (2000, True, False, False)],
)
def test_a_token_is_wasted_on_a_slice_that_had_time_and_answers_and_came_to_no_position(
    *, began: float, answers: bool, reached: bool, wasted: bool, early: bool
) -> None:
    world = World()
    authenticator = world.authenticator()

    with world.task(authenticator) as slice:
        world.time.sleep(began)
        if answers:
            world.ask(authenticator)
        world.time.sleep((3000 if early else LIFE) - began)
        slice.reached = reached
        world.api.get("/users").returns(status=401)
        with pytest.raises(TokenEnded):
            world.ask(authenticator)

    assert (slice.wasted_token is not None) == wasted
    if slice.wasted_token is not None:
        assert slice.wasted_token.lasted_seconds == (3000 if early else LIFE)
    assert len(world.tokens.requests) == 1


def test_a_token_that_one_slice_is_refused_is_used_by_another_as_long_as_the_api_accepts_it() -> None:
    world = World()
    authenticator = world.authenticator()
    world.users.returns(status=401).returns(json=[]).returns(status=401)

    with world.task(authenticator) as slice:
        world.ask(authenticator)
        with tracking_slice(SliceProgress()) as other, pytest.raises(TokenEnded):
            world.ask(authenticator)
        assert world.ask(authenticator) == "access-1"
        for _ in range(2):
            with pytest.raises(TokenEnded):
                world.ask(authenticator)

    assert (slice.wasted_token is not None, other.wasted_token) == (True, None)
    assert len(world.users.requests) == 4


def test_a_token_that_is_refused_early_is_replaced_for_the_next_tasks_only() -> None:
    world = World()
    authenticator = world.authenticator()
    world.users.returns(status=401).returns(json=[]).returns(status=401)

    with world.task(authenticator):
        assert world.ask(authenticator) == "access-1"
        for _ in range(2):
            with pytest.raises(TokenEnded):
                world.ask(authenticator)
    with world.task(authenticator):
        assert world.ask(authenticator) == "access-2"

    assert [len(world.tokens.requests), len(world.users.requests)] == [2, 3]


def test_an_api_that_refuses_every_token_is_believed() -> None:
    world = World()
    authenticator = world.authenticator()
    api = MockApi()
    refused = api.get("/users").returns(status=401)
    client = HttpClient(
        api, authenticator=authenticator, error_handler=HttpErrorHandler(retry_policy=RetryPolicy(retries=0))
    )

    for _ in range(2):
        with world.task(authenticator), pytest.raises(TokenEnded):
            client.send(USERS)
    with world.task(authenticator), pytest.raises(CredentialsError):
        client.send(USERS)

    assert len(refused.requests) == 3


def test_a_task_that_is_told_to_forget_its_token_waits_for_another() -> None:
    world = World()
    authenticator = world.authenticator()

    with world.task(authenticator):
        authenticator.forget()
        with pytest.raises(TokenEnded):
            world.ask(authenticator)
    with world.task(authenticator):
        assert world.ask(authenticator) == "access-2"


def test_a_token_server_that_is_busy_is_asked_again() -> None:
    world = World()
    busy = MockApi()
    busy.post("/token").returns(status=503).returns(json={"access_token": "access-1"})
    handler = HttpErrorHandler(retry_policy=RetryPolicy(retries=2, clock=world.time.clock))
    client = HttpClient(busy, error_handler=handler, sleep=world.time.sleep)

    assert [item.token for item in issue_all([world.authenticator()], client, 60).values()] == ["access-1"]


class Store:
    """Keeps texts while it works."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.error: Exception | None = None
        self.checks = 0

    def load(self, name: str) -> str | None:
        return self.texts.get(name)

    def check(self, name: str) -> None:  # noqa: ARG002
        self.checks += 1
        if self.error is not None:
            raise self.error

    def save(self, name: str, text: str) -> None:
        if self.error is not None:
            raise self.error
        self.texts[name] = text


def test_a_rotated_token_is_stored_before_the_config_is_told_and_the_next_run_goes_on_with_it() -> None:
    world, store, order = World(), Store(), list[int]()
    kept = StoredTokens(lambda _: order.append(len(store.texts)))
    run_tokens().store = store
    world.issued(world.authenticator(stored=kept))

    with RunScope().working():
        run_tokens().store = store
        assert world.issued(world.authenticator(stored=kept)).token == "access-1"
        world.time.sleep(LIFE)
        assert world.issued(world.authenticator(stored=kept)).token == "access-2"

    assert b"refresh_token=refresh-1" in (world.tokens.requests[-1].body or b"")
    assert order == [1, 1]
    assert not any(word in text for text in store.texts.values() for word in ("refresh-", "access-"))


def test_a_store_that_does_not_work_is_found_before_a_token_is_spent() -> None:
    world, store = World(), Store()
    run_tokens().store = store
    world.issued(world.authenticator(stored=StoredTokens(lambda _: None)))
    store.error = ConfigError("full")
    world.time.sleep(LIFE)

    with pytest.raises(ConfigError, match="full"):
        world.issued(world.authenticator(stored=StoredTokens(lambda _: None)))

    assert len(world.tokens.requests) == 1


def test_a_token_that_could_not_be_stored_is_used_and_stored_later(caplog: pytest.LogCaptureFixture) -> None:
    world, store = World(), Store()
    run_tokens().store, store.error = store, OSError("full")

    assert world.issued(world.authenticator()).token == "access-1"
    store.error = None
    run_tokens().flush()

    assert len(store.texts) == 1
    assert "the new refresh token cannot be stored (full)" in caplog.text


def test_what_is_sealed_opens_for_its_secret_alone() -> None:
    sealed = seal({"refresh_token": "r-1"}, "the config's")

    assert unseal(sealed, "the config's") == {"refresh_token": "r-1"}
    assert unseal(sealed, "another's") is None
    assert "r-1" not in sealed


def test_authenticators_that_are_made_within_others_are_found() -> None:
    world = World()
    with collecting_bearers() as made:
        inner = world.authenticator()
        with collecting_bearers() as own:
            other = world.authenticator()

    assert made == [inner]
    assert own == [other]


def test_a_token_is_in_no_repr() -> None:
    world = World()

    assert "access-1" not in repr(world.issued(world.authenticator()))
