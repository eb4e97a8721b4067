import pickle
import threading
from typing import Any
from urllib.parse import parse_qsl

import pytest

from cdk import CredentialsError, RateLimited, ServerError
from cdk.base.errors import CdkError
from cdk.rest import ApiKey, Authenticator, Basic, Bearer, HttpClient, HttpErrorHandler, OAuth2, Request, RetryPolicy
from cdk.testing.mock_api import MockApi
from tests.rest.api import Time

USERS = Request("GET", "https://api.test/users")
TOKENS = "https://login.test/token"


def sent_by(authenticator: Authenticator) -> Request:
    return next(authenticator.flow(USERS))


def oauth(time: Time, **given: Any) -> OAuth2:
    settings = {"client_id": "me", "client_secret": "s3cret-value", "clock": time.clock, **given}
    return OAuth2(TOKENS, **settings)


def client(api: MockApi, authenticator: Authenticator, time: Time) -> HttpClient:
    handler = HttpErrorHandler(retry_policy=RetryPolicy(retries=2, clock=time.clock))
    return HttpClient(api, authenticator=authenticator, error_handler=handler, sleep=time.sleep)


def test_a_key_goes_into_a_header_or_the_query() -> None:
    assert sent_by(ApiKey("abcd", name="X-Key")).headers == {"X-Key": "abcd"}
    request = sent_by(ApiKey("abcd", name="k", send_in="request_parameter"))
    assert request.full_url == "https://api.test/users?k=abcd"
    assert str(request) == "GET https://api.test/users?k=****"


def test_a_bearer_token_and_a_password_go_into_authorization() -> None:
    assert sent_by(Bearer("abcd")).headers == {"Authorization": "Bearer abcd"}
    assert sent_by(Bearer("abcd", scheme="Token")).headers == {"Authorization": "Token abcd"}
    assert sent_by(Basic("Aladdin", "open sesame")).headers == {"Authorization": "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="}


@pytest.mark.parametrize(
    "authenticator",
    [
        ApiKey("s3cret-value"),
        Bearer("s3cret-value"),
        Basic("user", "s3cret-value"),
        OAuth2(TOKENS, client_id="me", client_secret="s3cret-value", refresh_token="s3cret-value"),
    ],
)
def test_no_repr_shows_a_secret(authenticator: Authenticator) -> None:
    assert "s3cret" not in repr(authenticator)
    pickle.loads(pickle.dumps(authenticator))  # noqa: S301 - made here


def test_a_token_is_fetched_once_and_renewed_when_it_expires() -> None:
    api, time = MockApi(), Time()
    tokens = api.post("/token").returns(json={"access_token": "one", "expires_in": 3600})
    tokens.returns(json={"access_token": "two", "expires_in": "3600"})
    users = api.get("/users").returns(json=[])
    sender = client(api, oauth(time, refresh_token="r1", scopes=["a", "b"], extra={"audience": "x"}), time)

    sender.send(USERS)
    sender.send(USERS)
    time.sleep(3600)
    sender.send(USERS)

    assert [r.headers["Authorization"] for r in users.requests] == ["Bearer one", "Bearer one", "Bearer two"]
    assert len(tokens.requests) == 2
    form = dict(parse_qsl((tokens.requests[0].body or b"").decode()))
    assert form == {
        "grant_type": "refresh_token",
        "refresh_token": "r1",
        "scope": "a b",
        "client_id": "me",
        "client_secret": "s3cret-value",
        "audience": "x",
    }


def test_client_credentials_may_go_into_the_header() -> None:
    api, time = MockApi(), Time()
    tokens = api.post("/token").returns(json={"access_token": "one"})
    api.get("/users").returns(json=[])

    client(api, oauth(time, credentials_in="header"), time).send(USERS)

    assert tokens.requests[0].body == b"grant_type=client_credentials"
    assert tokens.requests[0].headers["Authorization"].startswith("Basic ")


def test_a_refused_token_is_renewed_once() -> None:
    api, time = MockApi(), Time()
    api.post("/token").returns(json={"access_token": "one"}).returns(json={"access_token": "two"})
    users = api.get("/users").returns(status=401).returns(json=[])

    assert client(api, oauth(time), time).send(USERS).status == 200

    assert [r.headers["Authorization"] for r in users.requests] == ["Bearer one", "Bearer two"]


def test_a_new_token_that_is_refused_too_is_a_matter_of_credentials() -> None:
    api, time = MockApi(), Time()
    tokens = api.post("/token").returns(json={"access_token": "one"})
    api.get("/users").returns(status=401)

    with pytest.raises(CredentialsError, match=r"https://api.test/users answered 401"):
        client(api, oauth(time), time).send(USERS)

    assert len(tokens.requests) == 2


def test_a_new_refresh_token_replaces_the_old_one() -> None:
    api, time = MockApi(), Time()
    tokens = api.post("/token").returns(json={"access_token": "one", "refresh_token": "r2", "expires_in": 60})
    api.get("/users").returns(json=[])
    sender = client(api, oauth(time, refresh_token="r1"), time)

    sender.send(USERS)
    time.sleep(60)
    sender.send(USERS)

    assert b"refresh_token=r2" in (tokens.requests[1].body or b"")


def test_a_refused_refresh_says_what_to_do_and_no_secret() -> None:
    api, time = MockApi(), Time()
    api.post("/token").returns(status=400, json={"error": "invalid_grant: s3cret-value"})

    with pytest.raises(CredentialsError, match=r"invalid_grant: \*\*\*\*\); .*re-authenticate") as caught:
        client(api, oauth(time), time).send(USERS)

    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("credentials_in", ["body_data", "header"])
@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 422, 429, 500])
def test_no_answer_to_a_token_request_makes_an_error_with_a_secret(status: int, credentials_in: str) -> None:
    api, time = MockApi(), Time()
    said = "s3cret-value r3fresh-value s3cret-extra"
    api.post("/token").returns(status=status, json={"error": said, said: 1})
    authenticator = oauth(
        time, refresh_token="r3fresh-value", extra={"assertion": "s3cret-extra"}, credentials_in=credentials_in
    )

    with pytest.raises(CdkError, match=r"\*\*\*\* \*\*\*\* \*\*\*\*") as caught:
        client(api, authenticator, time).send(USERS)

    assert "s3cret" not in str(caught.value)
    assert "r3fresh" not in str(caught.value)


@pytest.mark.parametrize(("status", "error"), [(503, ServerError), (429, RateLimited)])
def test_a_token_server_in_trouble_is_asked_again(status: int, error: type[Exception]) -> None:
    api, time = MockApi(), Time()
    tokens = api.post("/token").returns(status=status, headers={"Retry-After": "7"})

    with pytest.raises(error):
        client(api, oauth(time), time).send(USERS)

    assert len(tokens.requests) == 3
    tokens.returns(json={"access_token": "one"})
    api.get("/users").returns(json=[])
    assert client(api, oauth(time), time).send(USERS).status == 200


@pytest.mark.parametrize("answer", [{"token": "x"}, [], {"access_token": ""}])
def test_an_answer_without_a_token_is_an_error(answer: Any) -> None:
    api, time = MockApi(), Time()
    api.post("/token").returns(json=answer)

    with pytest.raises(CredentialsError, match="check the token URL"):
        client(api, oauth(time), time).send(USERS)


def test_threads_share_one_renewal() -> None:
    api, time = MockApi(), Time()
    tokens = api.post("/token").returns(json={"access_token": "one"})
    api.get("/users").returns(json=[])
    sender = client(api, oauth(time), time)
    crew = [threading.Thread(target=sender.send, args=(USERS,)) for _ in range(8)]  # noqa: TID251 - threads are tested

    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()

    assert len(tokens.requests) == 1
