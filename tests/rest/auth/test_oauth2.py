from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs

import pytest

from cdk import ConfigError, CredentialsError
from cdk.base.values import Json
from cdk.rest import HttpClient, HttpErrorHandler, OAuth2, Request, RetryPolicy
from cdk.rest.auth.oauth2 import StoredTokens, TokenFields
from cdk.rest.auth.token_response import Refusal
from cdk.rest.http.authenticator import Renewable
from cdk.testing.mock_api import MockApi
from tests.rest.api import Time

USERS = Request("GET", "https://api.test/users")
TOKENS = "https://login.test/token"


class Login:
    """An API and a token server, and who asks them."""

    def __init__(self, *answers: Json, **given: Any) -> None:
        self.api, self.time, self.learnt = MockApi(), Time(), list[str]()
        self.tokens = self.api.post("/token")
        for answer in answers:
            self.tokens.returns(json=answer)
        self.users = self.api.get("/users").returns(json=[])
        settings = {"client_id": "me", "client_secret": "s3cret", "clock": self.time.clock, **given}
        self.authenticator = OAuth2(TOKENS, learn=self.learnt.append, **settings)
        handler = HttpErrorHandler(retry_policy=RetryPolicy(retries=0, clock=self.time.clock))
        self.client = HttpClient(
            self.api, authenticator=self.authenticator, error_handler=handler, sleep=self.time.sleep
        )

    def ask(self, *pauses: float) -> list[str]:
        """The tokens of a request, and of others after pauses in seconds."""
        self.client.send(USERS)
        for pause in pauses:
            self.time.sleep(pause)
            self.client.send(USERS)
        return [request.headers["Authorization"].removeprefix("Bearer ") for request in self.users.requests]

    def form(self) -> dict[str, list[str]]:
        return parse_qs((self.tokens.requests[-1].body or b"").decode(), keep_blank_values=True)


def test_fields_may_have_other_names() -> None:
    names = TokenFields("gt", "ci", "cs", "rt", "at", "ei")
    login = Login({"at": "one", "ei": 60}, {"at": "two"}, fields=names, refresh_token="r")

    assert login.ask(60) == ["one", "two"]

    assert login.form() == {"gt": ["refresh_token"], "ci": ["me"], "cs": ["s3cret"], "rt": ["r"]}


def test_a_grant_type_is_sent_with_the_refresh_token_that_is_there() -> None:
    login = Login({"access_token": "one"}, grant_type="client_credentials", refresh_token="")

    login.ask()

    assert login.form()["grant_type"] == ["client_credentials"]
    assert login.form()["refresh_token"] == [""]


def test_client_id_and_secret_are_not_sent_twice() -> None:
    login = Login({"access_token": "one"}, headers={"Authorization": "Basic abcd"}, extra={"scopes": ["a", "b"]})

    login.ask()

    assert login.form() == {"grant_type": ["client_credentials"], "scopes": ["a", "b"]}
    assert login.tokens.requests[0].headers == {
        "Authorization": "Basic abcd",
        "Content-Type": "application/x-www-form-urlencoded",
    }


def test_the_fields_may_go_into_the_query_where_nobody_sees_them() -> None:
    login = Login({"access_token": "one"}, send_in="request_parameter", headers={}, extra={"n": 5})

    login.ask()

    request = login.tokens.requests[0]
    assert request.body is None
    assert request.headers == {}
    assert parse_qs(request.full_url.partition("?")[2])["client_secret"] == ["s3cret"]
    assert "s3cret" not in str(request)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ({"data": [{"x": 1}, {"access_token": "one"}]}, True),
        ({"1": {"2": {"3": {"4": {"access_token": "one"}}}}}, True),
        ({"1": {"2": {"3": {"4": {"5": {"access_token": "one"}}}}}}, False),
    ],
)
def test_a_token_is_found_down_to_the_fifth_level(answer: Json, found: bool) -> None:  # noqa: FBT001 - a case
    login = Login(answer)

    if found:
        assert login.ask() == ["one"]
    else:
        with pytest.raises(CredentialsError, match="expected an access_token"):
            login.ask()


@pytest.mark.parametrize(
    ("life", "pattern", "tokens"),
    [
        (100, None, ["one", "one", "two"]),
        ("100", None, ["one", "one", "two"]),
        ("2024-01-01T12:01:40Z", None, ["one", "one", "two"]),
        ("01.01.2024 12:01:40", "%d.%m.%Y %H:%M:%S", ["one", "one", "two"]),
        (None, None, ["one", "one", "one"]),
        ("soon", None, ["one", "one", "one"]),
        (0, None, ["one", "two", "two"]),
    ],
)
def test_a_token_lives_as_long_as_the_server_says(life: Json, pattern: str | None, tokens: list[str]) -> None:
    first = {"access_token": "one", "expires_in": life}
    login = Login(first, {"access_token": "two"}, expiry_format=pattern)

    assert login.ask(60, 40) == tokens


@pytest.mark.parametrize(
    ("expires", "tokens"),
    [("2024-01-01T12:00:50Z", ["zero", "one"]), ("2020-01-01", ["one", "one"]), ("", ["one", "one"])],
)
def test_a_given_token_is_used_until_it_expires(expires: str, tokens: list[str]) -> None:
    login = Login({"access_token": "one"}, access_token="zero", expires=expires)

    assert login.ask(60) == tokens


def test_a_given_token_without_a_place_to_get_others_is_used_until_it_is_refused() -> None:
    time = Time()
    authenticator = OAuth2("", access_token="zero", expires=time.now + timedelta(days=1), clock=time.clock)
    flow = authenticator.flow(USERS)

    assert next(flow).headers["Authorization"] == "Bearer zero"

    authenticator.forget()
    with pytest.raises(ConfigError, match="no token URL"):
        next(authenticator.flow(USERS))


@pytest.mark.parametrize("error", ["expired_token", "other"])
def test_answers_that_refuse_can_be_told_by_a_field(error: str) -> None:
    refusal = Refusal((200,), "error", ("expired_token",))
    login = Login({"error": error}, refusal=refusal)

    with pytest.raises(CredentialsError, match="re-authenticate" if error == "expired_token" else "expected an access"):
        login.ask()


def test_new_tokens_are_kept_and_learnt_before_the_first_of_them_is_used() -> None:
    kept: list[dict[tuple[str, ...], Json]] = []

    def save(updates: Any) -> None:
        assert login.users.requests == []
        kept.append(dict(updates))

    answer = {"access_token": "one", "refresh_token": "r2", "expires_in": 3600}
    login = Login(answer, refresh_token="r1", stored=StoredTokens(save, refresh_token=("rt",)))

    login.ask()

    assert kept == [
        {
            ("credentials", "access_token"): "one",
            ("credentials", "token_expiry_date"): "2024-01-01T13:00:00Z",
            ("rt",): "r2",
        }
    ]
    assert login.learnt == ["one", "r2"]


def test_a_token_that_cannot_be_kept_is_not_used() -> None:
    def save(_: object) -> None:
        raise ConfigError("the disk is full")

    login = Login({"access_token": "one", "refresh_token": "r2"}, refresh_token="r1", stored=StoredTokens(save))

    with pytest.raises(ConfigError, match="disk"):
        login.ask()

    assert login.users.requests == []


def test_a_forgotten_token_is_replaced() -> None:
    login = Login({"access_token": "one"}, {"access_token": "two"})
    assert isinstance(login.authenticator, Renewable)

    login.ask()
    login.authenticator.forget()

    assert login.ask() == ["one", "two"]


def test_an_assertion_is_sent_in_place_of_the_client() -> None:
    login = Login({"access_token": "one"}, assertion=lambda: "signed", grant_type="jwt-bearer", refresh_token="r")

    login.ask()

    assert login.form() == {"grant_type": ["jwt-bearer"], "assertion": ["signed"]}
    assert "signed" not in login.tokens.requests[0].hide("signed")
