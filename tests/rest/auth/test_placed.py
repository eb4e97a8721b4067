import pytest

from cdk import ConfigError
from cdk.rest import ApiKey, Request


def test_a_key_goes_into_a_form_beside_what_is_there() -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    request = Request("POST", "https://api.test/", headers=headers, body=b"a=1&key=old")

    sent = next(ApiKey("s3cret", name="key", send_in="form").flow(request))

    assert sent.body == b"a=1&key=s3cret"
    assert sent.headers == headers
    assert sent.hide("s3cret") == "****"


def test_a_key_goes_deep_into_a_json_body() -> None:
    request = Request("POST", "https://api.test/", headers={"Content-Type": "application/json"}, body=b'{"a":{"c":1}}')

    sent = next(ApiKey("s3cret", name=("a", "b"), send_in="json").flow(request))

    assert sent.body == b'{"a":{"c":1,"b":"s3cret"}}'


@pytest.mark.parametrize(("place", "body"), [("form", b"key=k"), ("json", b'{"key":"k"}')])
def test_a_request_without_a_body_gets_one(place: str, body: bytes) -> None:
    sent = next(ApiKey("k", name="key", send_in=place).flow(Request("GET", "https://api.test/")))  # type: ignore[arg-type] # a case

    assert sent.body == body
    assert "Content-Type" in sent.headers


def test_a_body_of_another_kind_is_an_error() -> None:
    request = Request("POST", "https://api.test/", headers={"Content-Type": "application/json"}, body=b"[]")

    for place in ("form", "json"):
        with pytest.raises(ConfigError, match="the credentials go into key of the body"):
            next(ApiKey("k", name="key", send_in=place).flow(request))


def test_a_key_that_a_link_brings_along_is_sent_once_and_hidden() -> None:
    request = Request("GET", "https://api.test/?page=2&k=abcd")

    sent = next(ApiKey("abcd", name="k", send_in="query").flow(request))

    assert sent.full_url == "https://api.test/?page=2&k=abcd"
    assert str(sent) == "GET https://api.test/?page=2&k=****"
