from typing import Any
from urllib.parse import parse_qs

import jwt
import pytest

from cdk.base.errors import ConfigError, CredentialsError, ManifestError
from cdk.base.values import Json
from cdk.declarative.components import register
from cdk.declarative.components.requests.requesters import HttpRequester
from cdk.declarative.model.context import BuildContext, Runtime
from cdk.declarative.model.request_plug_points import AnyAuthenticator
from cdk.declarative.syntax.validation import validated
from cdk.rest import HttpClient, Request
from cdk.testing.mock_api import MockApi
from tests.rest.api import NOON, Time

CONFIG = {"id": "me", "secret": "s3cret", "refresh": "r0", "user": "u", "key": "k3y", "number": 5, "empty": ""}
OAUTH = {
    "type": "OAuthAuthenticator",
    "token_refresh_endpoint": "https://login.test/token",
    "client_id": "{{ config['id'] }}",
    "client_secret": "{{ config['secret'] }}",
    "refresh_token": "{{ config['refresh'] }}",
}
ROTATING = {**OAUTH, "refresh_token_updater": {}}
SESSION = {
    "type": "SessionTokenAuthenticator",
    "login_requester": {
        "type": "HttpRequester",
        "url": "https://api.test/login",
        "http_method": "POST",
        "request_body_json": {"user": "{{ config['user'] }}"},
        "authenticator": {"type": "BasicHttpAuthenticator", "username": "a", "password": "b"},
    },
    "session_token_path": ["data", "token"],
    "expiration_duration": "P1D",
    "request_authentication": {"type": "Bearer"},
}
POOL = {
    "type": "RateLimitedMultipleTokenAuthenticator",
    "tokens": "{{ config['tokens'] }}",
    "quota_status_source": {"type": "QuotaStatusSource", "url": "https://api.test/quota"},
    "quotas": [{"type": "TokenQuota", "name": "core", "remaining_path": ["left"], "reset_path": ["reset"]}],
}


class Site:
    """An API, a token server, and what a run was told."""

    def __init__(self, config: Json = CONFIG) -> None:
        register()
        self.api, self.time, self.config = MockApi(), Time(), config
        self.learnt, self.kept = list[str](), list[Any]()
        self.users = self.api.get("/users").returns(json=[])
        self.runtime = Runtime(
            self.api, self.time.clock, self.time.sleep, learn=self.learnt.append, save_config=self.kept.append
        )

    def send(self, written: Json, request: Request = Request("GET", "https://api.test/users")) -> Request:  # noqa: B008 - frozen
        """What is sent when the authenticator `written` is built anew and used."""
        component = validated(AnyAuthenticator, written)
        authenticator = component.build(BuildContext(self.config, self.runtime))
        HttpClient(self.api, authenticator=authenticator, sleep=self.time.sleep).send(request)
        return self.users.requests[-1]


def form(request: Request) -> dict[str, list[str]]:
    return parse_qs((request.body or b"").decode(), keep_blank_values=True)


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("{{ config['key'] }}", "k3y"),
        ("{{ config['empty'] }}", ""),
        ("{{ config.nope }}", ""),
        ("{{ config.number }}", "5"),
    ],
)
def test_a_token_is_sent_even_when_it_is_empty(text: str, sent: str) -> None:
    bearer = Site().send({"type": "BearerAuthenticator", "api_token": text})
    key = Site().send({"type": "ApiKeyAuthenticator", "api_token": text, "header": "X-{{ config.number }}"})

    assert bearer.headers == {"Authorization": f"Bearer {sent}"}
    assert key.headers == {"X-5": sent}


def test_a_token_may_depend_on_the_moment() -> None:
    site = Site()

    tokens = {
        site.send({"type": "BearerAuthenticator", "api_token": "{{ now_utc() }}"}).headers["Authorization"]
        for _ in "ab"
    }

    assert len(tokens) == 2


@pytest.mark.parametrize(
    ("option", "shown"),
    [
        ({"inject_into": "header", "field_name": "X-Key"}, ("https://api.test/users", {"X-Key": "k3y"}, None)),
        ({"inject_into": "request_parameter", "field_name": "k"}, ("https://api.test/users?k=k3y", {}, None)),
        (
            {"inject_into": "body_data", "field_name": "k"},
            ("https://api.test/users", {"Content-Type": "application/x-www-form-urlencoded"}, b"k=k3y"),
        ),
        (
            {"inject_into": "body_json", "field_path": ["a", "b"]},
            ("https://api.test/users", {"Content-Type": "application/json"}, b'{"a":{"b":"k3y"}}'),
        ),
    ],
)
def test_a_key_goes_where_its_option_says(option: Json, shown: Json) -> None:
    option = {"type": "RequestOption", **option}

    sent = Site().send({"type": "ApiKeyAuthenticator", "api_token": "{{ config.key }}", "inject_into": option})

    assert (sent.full_url, sent.headers, sent.body) == shown


@pytest.mark.parametrize(
    "place",
    [
        {"header": "{{ config.nope }}"},
        {"inject_into": {"type": "RequestOption", "inject_into": "header", "field_name": "{{ config.nope }}"}},
    ],
)
def test_a_key_for_a_header_without_a_name_is_not_sent(place: Json) -> None:
    assert Site().send({"type": "ApiKeyAuthenticator", "api_token": "x", **place}).headers == {}


def test_a_key_needs_one_place() -> None:
    with pytest.raises(ManifestError, match="either inject_into or header is required"):
        Site().send({"type": "ApiKeyAuthenticator", "api_token": "x"})


def test_user_and_password_are_sent() -> None:
    sent = Site().send({"type": "BasicHttpAuthenticator", "username": "{{ config['key'] }}"})

    assert sent.headers == {"Authorization": "Basic azN5Og=="}
    assert Site().send({"type": "NoAuth"}).headers == {}


SELECTIVE = {
    "type": "SelectiveAuthenticator",
    "authenticator_selection_path": ["auth", "type"],
    "authenticators": {"1": {"type": "BearerAuthenticator", "api_token": "A"}, "none": {"type": "NoAuth"}},
}


def test_the_config_chooses_among_authenticators() -> None:
    assert Site({"auth": {"type": 1}}).send(SELECTIVE).headers == {"Authorization": "Bearer A"}
    assert Site({"auth": {"type": "none"}}).send(SELECTIVE).headers == {}


@pytest.mark.parametrize(
    ("auth", "said"), [({}, "no value at auth > type"), ({"type": "nine"}, "expected one of 1, none")]
)
def test_a_choice_that_is_none_is_an_error(auth: Json, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Site({"auth": auth}).send(SELECTIVE)


def test_a_token_request_has_the_fields_and_headers_of_the_manifest() -> None:
    site = Site()
    tokens = site.api.post("/token").returns(json={"access_token": "one"})
    more = {
        "scopes": ["a", "b"],
        "refresh_request_body": {"aud": "{{ config['id'] }}", "n": 5, "client_id": "other", "none": None},
        "refresh_request_headers": {"X-A": "{{ config['id'] }}"},
    }

    sent = site.send({**OAUTH, **more})

    assert sent.headers == {"Authorization": "Bearer one"}
    assert form(tokens.requests[0]) == {
        "grant_type": ["refresh_token"],
        "client_id": ["me"],
        "client_secret": ["s3cret"],
        "refresh_token": ["r0"],
        "scopes": ["a", "b"],
        "aud": ["me"],
        "n": ["5"],
    }
    assert tokens.requests[0].headers == {"X-A": "me", "Content-Type": "application/x-www-form-urlencoded"}
    assert site.learnt == ["one"]


def test_streams_share_a_token_that_they_get_in_the_same_way() -> None:
    site = Site()
    tokens = site.api.post("/token").returns(json={"access_token": "one"})

    site.send(OAUTH)
    site.send(OAUTH)
    site.send({**OAUTH, "grant_type": "client_credentials"})

    assert len(tokens.requests) == 2


@pytest.mark.parametrize(
    "missing",
    [{"refresh_token": None}, {"client_id": None}, {"token_refresh_endpoint": None}, {"use_profile_assertion": True}],
)
def test_what_is_missing_for_a_token_is_said(missing: Json) -> None:
    with pytest.raises(ManifestError):
        Site().send({**OAUTH, **missing})


def test_a_given_token_is_used_until_its_moment() -> None:
    given = {**OAUTH, "access_token_value": "zero", "token_expiry_date": "2050-01-01T00:00:00Z"}

    assert Site().send(given).headers == {"Authorization": "Bearer zero"}
    assert Site().send({"type": "OAuthAuthenticator", "access_token_value": "zero"}).headers == {
        "Authorization": "Bearer zero"
    }


def test_a_token_that_nothing_renews_needs_no_other_setting() -> None:
    site = Site()
    for token in ("zero", "one"):
        written = {"client_secret": "{{ config.key) }}", "access_token_value": token}

        assert site.send({"type": "OAuthAuthenticator", **written}).headers == {"Authorization": f"Bearer {token}"}


def test_a_refresh_token_that_works_once_is_kept_and_has_one_owner() -> None:
    credentials = {"refresh_token": "r0", "access_token": "old", "token_expiry_date": "2020-01-01T00:00:00Z"}
    site = Site({**CONFIG, "credentials": {**credentials, "client_id": "cid"}})
    tokens = site.api.post("/token")
    for number in (1, 2):
        tokens.returns(json={"access_token": f"a{number}", "refresh_token": f"r{number}", "expires_in": 60})

    site.send(ROTATING)
    site.send({**ROTATING, "$parameters": {"stream": "other"}})
    site.time.sleep(60)
    site.send(ROTATING)

    assert [form(request)["refresh_token"] for request in tokens.requests] == [["r0"], ["r1"]]
    assert form(tokens.requests[0])["client_id"] == ["cid"]
    assert [kept["credentials", "refresh_token"] for kept in site.kept] == ["r1", "r2"]
    assert site.kept[0]["credentials", "token_expiry_date"] == "2024-01-01T12:01:00Z"


def test_a_kept_token_is_used_again() -> None:
    credentials = {"refresh_token": "r0", "access_token": "kept", "token_expiry_date": "2050-01-01T00:00:00Z"}

    assert Site({**CONFIG, "credentials": credentials}).send(ROTATING).headers == {"Authorization": "Bearer kept"}


def test_a_refresh_token_that_is_no_good_asks_for_another() -> None:
    site = Site()
    site.api.post("/token").returns(json={"error": "expired"})
    updater = {
        "refresh_token_error_status_codes": [200],
        "refresh_token_error_key": "error",
        "refresh_token_error_values": ["expired"],
    }

    with pytest.raises(CredentialsError, match="re-authenticate"):
        site.send({**ROTATING, "refresh_token_updater": updater})


def test_a_profile_assertion_asks_for_the_token() -> None:
    site = Site({**CONFIG, "secret": "a-secret-that-is-long-enough-for-sha-256"})
    tokens = site.api.post("/token").returns(json={"access_token": "one"})
    signer = {
        "type": "JwtAuthenticator",
        "secret_key": "{{ config['secret'] }}",
        "algorithm": "HS256",
        "jwt_headers": {"kid": "{{ config['nope'] }}"},
        "jwt_payload": {"iss": "{{ config['number'] }}"},
        "additional_jwt_payload": {"deep": {"n": "{{ config['number'] }}"}},
    }

    site.send({**OAUTH, "grant_type": "jwt", "use_profile_assertion": True, "profile_assertion": signer})

    sent = form(tokens.requests[0])
    claims = jwt.decode(sent["assertion"][0], options={"verify_signature": False})
    assert sent.keys() == {"grant_type", "assertion"}
    assert claims["iss"] == "5"
    assert claims["deep"] == {"n": 5}
    assert jwt.get_unverified_header(sent["assertion"][0]) == {"alg": "HS256", "typ": "JWT"}


def test_a_signed_token_goes_where_its_option_says() -> None:
    signer = {
        "type": "JwtAuthenticator",
        "secret_key": "a-secret-that-is-long-enough-for-sha-256",
        "algorithm": "HS256",
        "header_prefix": "P",
        "request_option": {"type": "RequestOption", "inject_into": "header", "field_name": "X-T"},
    }

    assert Site().send(signer).headers["X-T"].startswith("P ey")
    assert Site().send({**signer, "header_prefix": None, "request_option": None}).headers["Authorization"][:2] == "ey"


def test_a_login_gives_the_token_of_the_other_requests() -> None:
    site = Site()
    logins = site.api.post("/login").returns(json={"data": {"token": "S1"}})

    assert site.send(SESSION).headers == {"Authorization": "Bearer S1"}
    site.send(SESSION)

    assert len(logins.requests) == 1
    assert logins.requests[0].body == b'{"user":"u"}'
    assert logins.requests[0].headers["Authorization"] == "Basic YTpi"
    assert site.learnt == ["S1"]


def test_a_session_token_can_be_part_of_a_text() -> None:
    site = Site()
    site.api.post("/login").returns(json={"data": {"token": "S1"}})
    option = {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "s"}
    request = {"type": "ApiKey", "inject_into": option, "api_token": "T {{ session_token }} {{ config['user'] }}"}

    assert site.send({**SESSION, "request_authentication": request}).params == {"s": "T S1 u"}


def test_a_session_token_is_a_variable_that_is_known(caplog: pytest.LogCaptureFixture) -> None:
    site = Site()
    site.api.post("/login").returns(json={"data": {"token": "S1"}})
    place = {"type": "RequestOption", "inject_into": "header", "field_name": "X-Session"}

    sent = site.send({**SESSION, "request_authentication": {"type": "ApiKey", "inject_into": place}})

    assert sent.headers["X-Session"] == "S1"
    assert caplog.messages == []


LEGACY = {
    "type": "LegacySessionTokenAuthenticator",
    "header": "X-Session",
    "login_url": "https://api.test/session",
    "validate_session_url": "https://api.test/me",
    "session_token_response_key": "id",
    "username": "{{ config['user'] }}",
    "password": "pw",
}


def test_the_older_login_sends_user_and_password() -> None:
    site = Site()
    logins = site.api.post("/session").returns(json={"id": "S1"})

    assert site.send(LEGACY).headers == {"X-Session": "S1"}

    assert logins.requests[0].body == b'{"username":"u","password":"pw"}'
    with pytest.raises(ManifestError, match="write a complete URL"):
        site.send({**LEGACY, "login_url": "session"})


@pytest.mark.parametrize("base", ["https://api.test/v1", "https://api.test/v1/"])
@pytest.mark.parametrize("login_url", ["session", "/session", "https://api.test/v1/session"])
def test_the_older_login_is_beside_the_url_base_of_the_requester(base: str, login_url: str) -> None:
    site = Site()
    logins = site.api.post("/v1/session").returns(json={"id": "S1"})
    requester = validated(HttpRequester, {"url_base": base, "authenticator": {**LEGACY, "login_url": login_url}})

    client = requester.build(BuildContext(site.config, site.runtime)).client
    client.send(Request("GET", "https://api.test/users"))

    assert len(logins.requests) == 1
    assert site.users.requests[0].headers == {"X-Session": "S1"}


@pytest.mark.parametrize("tokens", ["t1, t2", ["t1", "t2"]])
def test_tokens_share_a_view_of_their_quotas(tokens: Json) -> None:
    site = Site({"tokens": tokens})
    status = site.api.get("/quota")
    for left in (1, 4000):
        status.returns(json={"left": left, "reset": NOON.timestamp() + 3600})

    sent = [site.send(POOL).headers["Authorization"] for _ in range(3)]

    assert sent == ["Bearer t1", "Bearer t2", "Bearer t2"]
    assert len(status.requests) == 2


def test_a_pool_needs_tokens() -> None:
    with pytest.raises(ConfigError, match="the config has no tokens"):
        Site({"tokens": ""}).send(POOL)
