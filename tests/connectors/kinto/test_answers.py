"""What a Kinto can be made to answer only by a proxy, much load, or an administrator."""

import base64

import pytest

from cdk import ConfigError, DecodeError, Json, Record, StreamState
from cdk.engine.read import read
from cdk.testing.mock_api import MockApi
from connectors.kinto.streams import Buckets

SERVER = "https://kinto.test/v1"
NOTHING: Json = {"data": []}


def buckets(api: MockApi, **config: Json) -> Buckets:
    stream = Buckets({"server": SERVER, **config})
    stream.transport = api
    return stream


def run(stream: Buckets) -> list[Record]:
    return [r for item in read(stream, StreamState()) if not isinstance(item, StreamState) for r in item]


def row(number: int) -> Json:
    return {"id": f"b{number}", "last_modified": number}


def test_a_pause_asked_for_with_a_success_is_taken_before_the_next_request() -> None:
    api, happened = MockApi(), list[str]()
    api.get("/v1/buckets").returns(
        json={"data": [row(1)]}, headers={"Backoff": "7", "Next-Page": f"{SERVER}/?_token=a"}
    )
    api.get("/v1/buckets", {"_token": "a"}).returns(json={"data": [row(2)]})
    stream = buckets(api)
    stream.sleep = lambda seconds: happened.append(f"slept {seconds} after {len(api.requests)}")

    assert run(stream) == [row(1), row(2)]
    assert happened == ["slept 7 after 1"]


def test_a_server_in_maintenance_is_asked_again_when_it_says() -> None:
    api, waits = MockApi(), list[float]()
    api.get("/v1/buckets").returns(status=503, headers={"Retry-After": "30"}).returns(json=NOTHING)
    stream = buckets(api)
    stream.sleep = waits.append

    assert run(stream) == []
    assert waits == [30.0]


def test_the_next_page_is_asked_of_the_configured_server_whatever_host_the_header_names() -> None:
    api = MockApi()
    header = {"Next-Page": "http://10.0.0.7:8888/v1/buckets?_since=0&_token=abc"}
    api.get("/v1/buckets").returns(json={"data": [row(1)]}, headers=header)
    api.get(f"{SERVER}/buckets", {"_token": "abc", "_since": 0, "_sort": "last_modified,id"}).returns(json=NOTHING)

    assert run(buckets(api)) == [row(1)]
    assert [request.url for request in api.requests] == [f"{SERVER}/buckets"] * 2


def test_a_next_page_without_a_token_is_an_error_not_the_end() -> None:
    api = MockApi()
    api.get("/v1/buckets").returns(json={"data": [row(1)]}, headers={"Next-Page": f"{SERVER}/buckets?page=2"})

    with pytest.raises(DecodeError, match="expected a URL with the parameter _token"):
        run(buckets(api))


@pytest.mark.parametrize(
    ("auth", "header"),
    [
        ({"type": "basic", "username": "ann", "password": "pw"}, f"Basic {base64.b64encode(b'ann:pw').decode()}"),
        ({"type": "bearer", "token": "t0k3n"}, "Bearer t0k3n"),
        (None, None),
    ],
)
def test_the_credentials_go_into_the_header(auth: Json, header: str | None) -> None:
    api = MockApi()
    api.get("/v1/buckets").returns(json=NOTHING)

    run(buckets(api, auth=auth))

    assert api.requests[0].headers.get("Authorization") == header


def test_an_auth_of_no_known_form_is_not_taken_for_none() -> None:
    with pytest.raises(ConfigError) as raised:
        run(buckets(MockApi(), auth={"username": "ann", "password": "pw-1234"}))

    assert "expected" in str(raised.value)
    assert "pw-1234" not in str(raised.value)
