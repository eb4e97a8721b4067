from typing import Any

import pytest

from cdk import ConfigError
from cdk.rest import ApiKey, Authenticator, Basic, Bearer, Request


def test_a_key_goes_into_a_form_beside_what_is_there() -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    request = Request("POST", "https://api.test/", headers=headers, body=b"a=1&b=old")

    sent = next(ApiKey("s3cret", name="key", send_in="body_data").flow(request))

    assert sent.body == b"a=1&b=old&key=s3cret"
    assert sent.headers == headers
    assert sent.hide("s3cret") == "****"


def test_a_key_goes_deep_into_a_json_body() -> None:
    request = Request("POST", "https://api.test/", headers={"Content-Type": "application/json"}, body=b'{"a":{"c":1}}')

    sent = next(ApiKey("s3cret", name=("a", "b"), send_in="body_json").flow(request))

    assert sent.body == b'{"a":{"c":1,"b":"s3cret"}}'


@pytest.mark.parametrize(("place", "body"), [("body_data", b"key=k"), ("body_json", b'{"key":"k"}')])
def test_a_request_without_a_body_gets_one(place: str, body: bytes) -> None:
    sent = next(ApiKey("k", name="key", send_in=place).flow(Request("GET", "https://api.test/")))  # type: ignore[arg-type] # a case

    assert sent.body == body
    assert "Content-Type" in sent.headers


def test_a_body_of_another_kind_is_an_error() -> None:
    request = Request("POST", "https://api.test/", headers={"Content-Type": "application/json"}, body=b"[]")

    for place in ("body_data", "body_json"):
        with pytest.raises(ConfigError, match="the credentials go into key of the body"):
            next(ApiKey("k", name="key", send_in=place).flow(request))


def test_a_key_that_a_link_brings_along_is_sent_once_and_hidden() -> None:
    request = Request("GET", "https://api.test/?page=2&k=abcd")

    sent = next(ApiKey("abcd", name="k", send_in="request_parameter").flow(request))

    assert sent.full_url == "https://api.test/?page=2&k=abcd"
    assert str(sent) == "GET https://api.test/?page=2&k=****"


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("place", "name", "request_of", "what"),
    [
        ("header", "key", {"headers": {"key": "k"}}, "the header 'key'"),
        ("request_parameter", "key", {"params": {"key": "k"}}, "the query parameter 'key'"),
        ("body_data", "key", {"headers": FORM, "body": b"key=k"}, "the form field 'key'"),
        ("body_json", ("a", "key"), {"body": b'{"a":{"key":"other"}}'}, "a > key of the JSON body"),
    ],
)
def test_a_place_that_is_taken_is_an_error(place: str, name: str, request_of: dict[str, Any], what: str) -> None:
    request = Request("POST", "https://api.test/", **request_of)

    with pytest.raises(ConfigError, match=f"{what} is set by the request and by its authenticator"):
        next(ApiKey("k", name=name, send_in=place).flow(request))  # type: ignore[arg-type] # a case


def test_the_same_value_in_a_json_body_is_no_error() -> None:
    request = Request("POST", "https://api.test/", body=b'{"key":"k"}')

    assert next(ApiKey("k", name="key", send_in="body_json").flow(request)).body == b'{"key":"k"}'


@pytest.mark.parametrize("signer", [Bearer("k"), Basic("u", "p")])
def test_credentials_beside_others_in_one_header_are_an_error(signer: Authenticator) -> None:
    request = Request("GET", "https://api.test/", headers={"Authorization": "Bearer mine"})

    with pytest.raises(ConfigError, match="the header 'Authorization' is set by the request and by its authenticator"):
        next(signer.flow(request))
    assert next(signer.flow(Request("GET", "https://api.test/", headers={"X": "y"}))).headers["X"] == "y"
