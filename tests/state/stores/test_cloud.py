import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cdk import ConfigError, TransientError
from cdk.base.values import Json, JsonObject
from cdk.state import Kind, LogStore, StateKey, StateLog, open_session, open_store
from cdk.state.stores.opening import open_objects
from tests.state.stores.servers import App, needs_s3rver, s3, s3rver

KEY = StateKey("shop")
COUNTER = Kind("test/counter")


def opened(options: Mapping[str, Json], bucket: str = "states", *, writes: bool = True) -> LogStore:
    settings: JsonObject = {"type": "object", "config": {"url": f"s3://{bucket}/folder", "options": options}}
    return open_store(settings, writes=writes)


def careless(app: App) -> App:
    """A server that has never heard of conditional writes."""

    def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        environ.pop("HTTP_IF_NONE_MATCH", None)
        return app(environ, start)

    return answer


class Forgetful:
    """Does what it is asked, and breaks the line before the answer to every first write of a record."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.broken: list[str] = []

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        body = self._app(environ, start)
        path = environ["PATH_INFO"]
        if environ["REQUEST_METHOD"] == "PUT" and "/log/" in path and path not in self.broken:
            self.broken.append(path)
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return body


def test_a_server_that_ignores_the_condition_is_refused() -> None:
    with (
        s3(careless) as options,
        pytest.raises(ConfigError, match="does not refuse to create an object that already exists") as refused,
    ):
        opened(options)

    assert refused.value.path == "s3://states/folder"


def test_an_object_takes_the_place_of_the_one_before() -> None:
    with s3() as options:
        store = open_objects("s3://states/copies", options)
        store.put("job.json", b"first")
        store.put("job.json", b"second")

        assert store._read("job.json") == b"second"
        with pytest.raises((ConfigError, TransientError), match=r"s3://nowhere/job\.json: "):
            open_objects("s3://nowhere", options).put("job.json", b"{}")


def test_a_server_that_ignores_the_condition_may_be_looked_at() -> None:
    with s3(careless) as options:
        assert opened(options, writes=False).numbers(KEY) == []


@needs_s3rver
def test_s3rver_is_refused_and_may_be_looked_at(tmp_path: Path) -> None:
    with s3rver(tmp_path) as options:
        with pytest.raises(ConfigError, match="does not refuse to create an object that already exists") as refused:
            opened(options)

        assert refused.value.path == "s3://states/folder"
        assert opened(options, writes=False).numbers(KEY) == []


def test_a_dropped_answer_leaves_exactly_one_record() -> None:
    line: list[Forgetful] = []

    def forgetful(app: App) -> App:
        line.append(Forgetful(app))
        return line[0]

    with s3(forgetful) as options:
        store = opened(options)
        with open_session(StateLog(store, KEY)) as session:
            for n in (1, 2):
                session.propose("stream:users", COUNTER.of(n))
                session.commit("partial")
        log = StateLog(store, KEY)

        assert len(line[0].broken) == 2
        assert [log.value(record, "stream:users").value for record in log.history()] == [2, 1]


def test_a_missing_bucket_is_a_mistake_of_the_set_up() -> None:
    with s3() as options, pytest.raises(ConfigError, match="the object store refused"):
        opened(options, "nowhere")


def test_a_server_that_is_away_is_told() -> None:
    options = {"endpoint": "http://127.0.0.1:1", "access_key_id": "a", "secret_access_key": "b", "region": "x"}
    with pytest.raises(TransientError, match="the object store failed") as failed:
        opened({**options, "retry_config": {"max_retries": 0}})

    assert "\n" not in failed.value.message


@pytest.mark.parametrize("options", [{"bla": "x"}, {"region": 3}, {"timeout": 3}, {"client_options": {"bla": "x"}}])
def test_options_that_mean_nothing_are_refused(options: dict[str, Json]) -> None:
    with pytest.raises(ConfigError, match="the object store cannot be opened"):
        opened(options)


def test_the_names_of_the_storage_of_tables_are_understood() -> None:
    names = {
        "endpoint": "AWS_ENDPOINT_URL",
        "access_key_id": "AWS_ACCESS_KEY_ID",
        "secret_access_key": "AWS_SECRET_ACCESS_KEY",
        "region": "AWS_REGION",
        "allow_http": "AWS_ALLOW_HTTP",
    }
    with s3() as options:
        store = opened({**{names.get(name, name): value for name, value in options.items()}, "AWS_ALLOW_HTTP": "true"})
        log = StateLog(store, KEY)
        with open_session(log) as session:
            session.propose("test:count", COUNTER.of(1))
            session.commit("final")
        head = log.head()

    assert head is not None
