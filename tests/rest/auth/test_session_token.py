import pickle
from datetime import timedelta
from typing import Any

import pytest

from cdk import CredentialsError, ServerError, TransientError
from cdk.rest import Basic, HttpClient, HttpErrorHandler, Request, Response, RetryPolicy
from cdk.rest.auth.session_token import LegacySessionToken, SessionToken
from cdk.rest.errors.error_handler import ErrorHandler, Verdict, retry
from cdk.testing.mock_api import MockApi
from tests.rest.api import Time

USERS = Request("GET", "https://api.test/users")


def login() -> Request:
    return Request("POST", "https://api.test/login")


def session(time: Time, **given: Any) -> SessionToken:
    settings: dict[str, Any] = {"life": timedelta(hours=1), "clock": time.clock, **given}
    return SessionToken(
        login,
        lambda response: response.json().get("token"),
        lambda request, token: request.with_headers({"X-Session": token}, secret=True),
        **settings,
    )


def client(api: MockApi, authenticator: Any, time: Time) -> HttpClient:
    handler = HttpErrorHandler(retry_policy=RetryPolicy(retries=0, clock=time.clock))
    return HttpClient(api, authenticator=authenticator, error_handler=handler, sleep=time.sleep)


def test_a_session_lasts_until_it_expires() -> None:
    api, time, learnt = MockApi(), Time(), list[str]()
    api.post("/login").returns(json={"token": "one"}).returns(json={"token": 2})
    users = api.get("/users").returns(json=[])
    sender = client(api, session(time, learn=learnt.append), time)

    for pause in (0, 1800, 1800):
        time.sleep(pause)
        sender.send(USERS)

    assert [request.headers["X-Session"] for request in users.requests] == ["one", "one", "2"]
    assert learnt == ["one", "2"]


def test_without_a_life_there_is_a_login_before_each_request() -> None:
    api, time = MockApi(), Time()
    logins = api.post("/login").returns(json={"token": "one"})
    api.get("/users").returns(json=[])
    sender = client(api, session(time, life=None), time)

    sender.send(USERS)
    sender.send(USERS)

    assert len(logins.requests) == 2


def test_a_refused_or_forgotten_session_is_replaced() -> None:
    api, time = MockApi(), Time()
    logins = api.post("/login").returns(json={"token": "one"}).returns(json={"token": "two"})
    api.get("/users").returns(status=401).returns(json=[])
    authenticator = session(time)
    sender = client(api, authenticator, time)

    sender.send(USERS)
    authenticator.forget()
    sender.send(USERS)

    assert len(logins.requests) == 3


def test_a_login_may_have_credentials_of_its_own() -> None:
    api, time = MockApi(), Time()
    logins = api.post("/login").returns(json={"token": "one"})
    users = api.get("/users").returns(json=[])

    client(api, session(time, login_as=Basic("a", "b")), time).send(USERS)

    assert logins.requests[0].headers == {"Authorization": "Basic YTpi"}
    assert users.requests[0].headers == {"X-Session": "one"}


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [(401, {}, CredentialsError), (200, {"x": 1}, CredentialsError), (503, {}, ServerError)],
)
def test_a_login_that_fails_is_an_error(status: int, body: Any, error: type[Exception]) -> None:
    api, time = MockApi(), Time()
    api.post("/login").returns(status=status, json=body)

    with pytest.raises(error):
        client(api, session(time), time).send(USERS)


class Patient(ErrorHandler):
    def judge(self, outcome: Any, attempt: int) -> Verdict:  # noqa: ARG002 - the contract
        return retry(1)


def test_a_login_is_judged_by_its_own_rules() -> None:
    api, time = MockApi(), Time()
    api.post("/login").returns(json={"token": "one"})

    with pytest.raises(TransientError, match="treats as transient"):
        client(api, session(time, judge=Patient()), time).send(USERS)


def legacy(time: Time, **given: str) -> LegacySessionToken:
    return LegacySessionToken(
        "X-Session",
        "https://api.test/session",
        token_field="id",
        validate_url="https://api.test/me",
        clock=time.clock,
        **given,  # type: ignore[arg-type] # only texts are given
    )


def test_a_valid_given_token_is_sent() -> None:
    api, time = MockApi(), Time()
    asked = api.get("/me").returns(json={})
    users = api.get("/users").returns(json=[])
    sender = client(api, legacy(time, session_token="given"), time)

    sender.send(USERS)
    sender.send(USERS)

    assert len(asked.requests) == 1
    assert [request.headers["X-Session"] for request in users.requests] == ["given", "given"]


def test_another_token_comes_from_a_login() -> None:
    api, time = MockApi(), Time()
    api.get("/me").returns(status=401)
    logins = api.post("/session").returns(json={"id": "one"})
    users = api.get("/users").returns(json=[])
    authenticator = pickle.loads(pickle.dumps(legacy(Time(), user="me", password="pw")))  # noqa: S301 - made here
    assert "pw" not in repr(authenticator)

    client(api, legacy(time, session_token="given", user="me", password="pw"), time).send(USERS)

    assert logins.requests[0].body == b'{"username":"me","password":"pw"}'
    assert [request.headers["X-Session"] for request in users.requests] == ["one"]


def test_without_a_user_there_is_no_login() -> None:
    api, time = MockApi(), Time()

    with pytest.raises(CredentialsError, match="user and password"):
        client(api, legacy(time), time).send(USERS)


def test_the_answer_to_a_login_is_not_taken_for_the_answer_to_the_request() -> None:
    api, time = MockApi(), Time()
    api.post("/login").returns(json={"token": "one"})
    api.get("/users").returns(json=[{"id": 1}])

    answer: Response = client(api, session(time, login_as=Basic("a")), time).send(USERS)

    assert answer.json() == [{"id": 1}]
