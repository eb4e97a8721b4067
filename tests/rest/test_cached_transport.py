import gc
import pickle
import weakref
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from cdk import NotFound, Timeout
from cdk.base.run import one_run
from cdk.rest import CachedTransport, HttpTransport, Request, Response
from cdk.rest.errors.status_errors import error_for
from cdk.rest.http.transport import simulated_network
from cdk.testing.mock_api import MockApi
from tests.local_server import QuietHandler, answering

USERS = Request(
    "GET",
    "https://api.test/users",
    {"page": 1, "api_key": "secret-one"},
    {"Authorization": "Bearer secret-two", "X-Strange": "secret-three"},
    secret=frozenset({"x-strange"}),
)


def api() -> MockApi:
    api = MockApi()
    api.get("/users").returns(json=[1], headers={"Link": "<x>", "Set-Cookie": "sid=secret-four"}).returns(json=[2])
    return api


@pytest.fixture(params=["memory", "folder"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "cache" if request.param == "folder" else None


def test_a_get_is_sent_once(folder: Path | None) -> None:
    source = api()
    transport = CachedTransport(source, folder=folder)

    first, second = transport.send(USERS), transport.send(USERS)

    assert first.json() == second.json() == [1]
    assert second.headers["link"] == "<x>"
    assert second.request is USERS
    assert len(source.requests) == 1


def test_other_parameters_and_other_credentials_are_other_requests(folder: Path | None) -> None:
    source = api()
    transport = CachedTransport(source, folder=folder)

    for request in (USERS, USERS.with_params({"page": 2}), USERS.with_headers({"Authorization": "Bearer other"})):
        transport.send(request)

    assert len(source.requests) == 3


def test_only_get_and_only_successes_are_kept() -> None:
    source = MockApi()
    source.post("/users").returns(json=[])
    source.get("/users").returns(status=500).raises(Timeout("gone")).returns(json=[1])
    transport = CachedTransport(source)
    search = Request("POST", "https://api.test/users")

    transport.send(search)
    transport.send(search)
    assert transport.send(USERS).status == 500
    with pytest.raises(Timeout):
        transport.send(USERS)
    assert transport.send(USERS).json() == transport.send(USERS).json() == [1]
    assert len(source.requests) == 5


def test_a_folder_keeps_answers_from_run_to_run_without_secrets(tmp_path: Path) -> None:
    first = CachedTransport(api(), folder=tmp_path)
    first.send(USERS)

    again = CachedTransport(MockApi(), folder=tmp_path).send(USERS)

    assert again.json() == [1]
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"https://api.test/users" in written
    assert b"secret-" not in written


def test_what_is_more_than_allowed_is_not_kept() -> None:
    source = api()
    transport = CachedTransport(source, max_bytes=10)

    assert [transport.send(USERS).json(), transport.send(USERS).json()] == [[1], [2]]


def test_a_cache_travels_without_its_answers() -> None:
    transport = CachedTransport(_Plain())
    transport.send(USERS)

    again = pickle.loads(pickle.dumps(transport))  # noqa: S301 - made here

    with pytest.raises(NotFound):
        again.send(USERS)


def test_a_run_keeps_one_set_of_answers_for_a_transport() -> None:
    one, other = api(), api()

    with one_run():
        for transport in (one, one, other):
            assert CachedTransport(transport).send(USERS).json() == [1]

    assert (len(one.requests), len(other.requests)) == (1, 1)


def test_answers_end_with_their_run() -> None:
    source = api()
    transport = CachedTransport(source)

    for _ in range(2):
        with one_run():
            transport.send(USERS)
            assert transport.send(USERS).json() == [len(source.requests)]

    assert len(source.requests) == 2


def test_answers_in_a_folder_outlive_their_run(tmp_path: Path) -> None:
    source = api()
    for _ in range(2):
        with one_run():
            assert CachedTransport(source, folder=tmp_path).send(USERS).json() == [1]


def test_answers_go_with_their_transport() -> None:
    source = api()
    gone = weakref.ref(source)
    CachedTransport(source).send(USERS)

    del source
    gc.collect()

    assert gone() is None


class _Plain:
    """Answers once, and never in another process."""

    def __init__(self) -> None:
        self.api = api()

    def send(self, request: Request) -> Response:
        return self.api.send(request)

    def __reduce__(self) -> tuple[type["_Gone"], tuple[()]]:
        return _Gone, ()


class _Gone:
    def send(self, request: Request) -> Response:
        empty = MockApi()
        empty.get("/users").returns(status=404)
        raise error_for(empty.send(request))


class Pages(QuietHandler):
    """Answers with the number of the request."""

    count = 0

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        type(self).count += 1
        self.answer(200, str(self.count).encode())


def test_a_cache_that_stands_for_the_network_sends_over_it() -> None:
    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Pages)) as server, one_run():
        request = Request("GET", f"http://127.0.0.1:{server.server_port}/")
        with simulated_network(CachedTransport(HttpTransport())):
            bodies = [HttpTransport().send(request).body for _ in range(3)]

    assert (bodies, Pages.count) == ([b"1"] * 3, 1)
