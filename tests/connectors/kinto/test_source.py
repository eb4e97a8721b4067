import socket
from collections.abc import Iterator, Mapping
from typing import ClassVar

import pytest
from jsonschema import Draft7Validator

from cdk import CdkError, ConfigError, CredentialsError, Forbidden, Json, TransientError
from cdk.testing import ConnectorSuite, MockApi
from connectors.kinto import Kinto
from connectors.kinto.streams import KintoStream
from tests.connectors.kinto.conftest import PASSWORD, USER, Server

Config = dict[str, Json]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KintoStream, "sleep", staticmethod(lambda _: None))


def failure(config: Config) -> CdkError:
    with pytest.raises(CdkError) as raised:
        Kinto().check(config)
    assert PASSWORD not in f"{raised.value} {raised.value.detail} {raised.value!r}"
    return raised.value


def test_a_good_config_passes(kinto: Server, config: Config) -> None:
    kinto.put_records("blog/posts", 1)

    Kinto().check(config)
    Kinto().check({**config, "buckets": ["blog"]})
    Kinto().check({**config, "server": f"{config['server']}/"})


def test_a_wrong_password_is_told_without_showing_it(config: Config) -> None:
    wrong = {**config, "auth": {**config["auth"], "password": "wrong password"}}

    error = failure(wrong)

    assert isinstance(error, CredentialsError)
    assert "correct `auth`" in str(error)
    assert "wrong password" not in str(error)


@pytest.mark.parametrize("body", [b"<html>It works!</html>", b'{"hello": "world"}', b"[]"])
def test_a_server_that_is_no_kinto_is_told(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    api = MockApi()
    api.get("https://example.com/v1/").returns(body=body)
    monkeypatch.setattr(KintoStream, "transport", api)

    error = failure({"server": "https://example.com/v1"})

    assert isinstance(error, ConfigError)
    assert "found no Kinto at server https://example.com/v1" in str(error)


def test_a_wrong_version_in_the_address_is_told(config: Config) -> None:
    error = failure({**config, "server": config["server"].replace("/v1", "/v7")})

    assert isinstance(error, ConfigError)
    assert "https://kinto.example.com/v1" in str(error)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that nothing listens on: it is bound while the test runs."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_a_server_that_does_not_answer_is_told(config: Config, closed_port: int) -> None:
    error = failure({**config, "server": f"http://127.0.0.1:{closed_port}/v1"})

    assert isinstance(error, TransientError)
    assert str(closed_port) in str(error)


def test_a_named_bucket_that_is_not_there_is_told(kinto: Server, config: Config) -> None:
    kinto.put("blog")

    error = failure({**config, "buckets": ["blog", "misspelt"]})

    assert isinstance(error, Forbidden)
    assert "/buckets/misspelt/collections" in str(error)


def test_without_auth_a_closed_server_is_told(config: Config) -> None:
    assert isinstance(failure({"server": config["server"]}), CredentialsError)


def test_the_secrets_of_the_config_are_marked() -> None:
    schema: Json = Kinto.config_schema
    basic, bearer = schema["properties"]["auth"]["oneOf"]

    assert basic["properties"]["password"]["airbyte_secret"] is True
    assert bearer["properties"]["token"]["airbyte_secret"] is True


def test_the_config_schema_takes_what_the_connector_takes(config: Config) -> None:
    schema = Draft7Validator(Kinto.config_schema)

    assert schema.is_valid(config)
    assert schema.is_valid({"server": "https://kinto.example.com/v1", "auth": {"type": "bearer", "token": "t"}})
    assert not schema.is_valid({})
    assert not schema.is_valid({**config, "auth": {"type": "basic", "username": "ann"}})
    assert not schema.is_valid({**config, "buckets": ["a/b"]})


def test_every_stream_has_a_schema_that_names_its_key(config: Config) -> None:
    for stream in Kinto().streams(config):
        schema: Json = stream.json_schema()

        assert {field for [field] in stream.key_paths} <= schema["properties"].keys()
        assert stream.cursor_field == "last_modified"
        assert stream.supports_checkpointing


@pytest.fixture(scope="class")
def filled(request: pytest.FixtureRequest, _running: Server) -> None:
    _running.empty()
    _running.put_records("blog/posts", 5)
    _running.put_records("blog/comments", 4)
    _running.delete("blog/collections/posts/records/r001")
    auth = {"type": "basic", "username": USER, "password": PASSWORD}
    request.cls.config = {"server": _running.url, "auth": auth, "page_size": 3}


@pytest.mark.usefixtures("filled")
class TestKinto(ConnectorSuite):
    """Against the real server, deletes included."""

    source = Kinto
    config: ClassVar[Mapping[str, Json]] = {}
