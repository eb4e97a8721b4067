import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from cdk import FatalError, Json, Partition, Record, ServerError, Slice, list_partitions
from cdk.rest import ApiKey, Authenticator, HttpStream, HttpTransport, PageNumber, Request, Response
from cdk.rest.conditional_requests import (
    ConditionalResult,
    ConditionalStream,
    ConditionalTransport,
    NotModified,
    conditional_reads,
    fingerprint,
)
from cdk.state import HttpProbe, HttpSnapshot, StateKey, StateLog, StateRecord, Validators, open_session
from cdk.state.stores.memory import MemoryStore
from cdk.testing.mock_api import MockApi
from cdk.testing.run import read
from tests.rest.api import NOON, Time

KEY = StateKey("shop")
URL = "https://api.test"
WEDNESDAY = "Wed, 21 Oct 2015 07:28:00 GMT"
USERS = Request("GET", f"{URL}/users")
ROWS = [{"id": 1}, {"id": 2}]


class Users(ConditionalStream):
    primary_key = "id"

    def path(self, slice: Slice) -> str:  # noqa: ARG002
        return f"{self.config.get('url', URL)}/users"


class Server(ThreadingHTTPServer):
    """Serves rows as a file, as web servers do: with an ETag of the content, or the moment of the last change."""

    def __init__(self, validator: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.validator = validator
        self.rows: Sequence[Json] = ROWS
        self.changed = WEDNESDAY
        self.statuses: list[int] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        body = orjson.dumps(self.server.rows)
        etag = f'"{sha256(body).hexdigest()[:8]}"'
        header, said = ("ETag", etag) if self.server.validator == "etag" else ("Last-Modified", self.server.changed)
        asked = self.headers.get("If-None-Match" if header == "ETag" else "If-Modified-Since")
        status = 304 if asked == said else 200
        self.server.statuses.append(status)
        self.send_response(status)
        self.send_header(header, said)
        if status == 200:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if status == 200 else b"")

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serving(validator: str) -> Iterator[Server]:
    with Server(validator) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.serve_forever, poll_interval=0.02)
        try:
            yield server
        finally:
            server.shutdown()


class Runs:
    """Runs of a pipeline with one followed stream: the rows of each, and its record."""

    def __init__(self, **settings: Any) -> None:
        self.log = StateLog(MemoryStore(), KEY)
        self.time = Time()
        self.settings = settings
        self.record: StateRecord | None = None

    def __call__(self, stream: ConditionalStream, api: MockApi | None = None) -> list[Json]:
        if api is not None:
            stream.transport = api
        stream.sleep = self.time.sleep
        with open_session(self.log) as session:
            probe = HttpProbe.open(session, clock=self.time.clock, **self.settings)
            stream.follow(probe)
            result = read(stream)
            if result.error is not None:
                raise result.error
            probe.propose(session)
            effects = [{"rows": len(result.records)}] if result.records else []
            self.record = session.commit("final", effects)
        return result.records


@pytest.mark.parametrize("validator", ["etag", "last-modified"])
def test_a_source_is_read_when_it_has_changed_and_only_then(validator: str) -> None:
    run = Runs()
    with serving(validator) as server:
        users = {"url": server.url}
        assert run(Users(users)) == ROWS
        assert run.record is not None
        assert run(Users(users)) == []
        assert run.record is None

        server.rows, server.changed = [{"id": 3}], "Thu, 22 Oct 2015 07:28:00 GMT"
        assert run(Users(users)) == [{"id": 3}]
        assert run.record is not None
        assert server.statuses == [200, 304, 200]

        run.time.sleep(timedelta(hours=24).total_seconds())
        assert run(Users(users)) == []
        assert run.record is not None
        assert run.record.effects == ()
        assert server.statuses == [200, 304, 200, 200]


@pytest.mark.parametrize("etag", ['"95c5"', 'W/"95c5"', "no quotes"])
def test_validators_are_sent_back_as_they_came(etag: str) -> None:
    run, api = Runs(), MockApi()
    api.get("/users").returns(json=ROWS, headers={"ETag": etag, "Last-Modified": WEDNESDAY}).returns(status=304)
    run(Users({}), api)
    run(Users({}), api)

    assert [dict(request.headers) for request in api.requests] == [{}, {"If-None-Match": etag}]


def test_the_state_moves_without_data_when_only_the_validator_did() -> None:
    run, api = Runs(), MockApi()
    route = api.get("/users").returns(json=ROWS, headers={"ETag": '"a"'})
    route.returns(status=304, headers={"ETag": 'W/"a"'}).returns(status=304, headers={"ETag": 'W/"a"'})
    effects = []
    for _ in range(3):
        run(Users({}), api)
        effects.append(None if run.record is None else run.record.effects)

    assert effects == [({"rows": 2},), (), None]


def test_a_304_that_nobody_asked_for_is_an_error() -> None:
    api = MockApi()
    api.get("/users").returns(status=304)

    with pytest.raises(FatalError, match="answered 304 Not Modified; the request had no validators"):
        Runs()(Users({}), api)


def test_an_answer_that_cannot_be_validated_is_compared_with_the_last() -> None:
    run, api = Runs(), MockApi()
    api.get("/users").returns(json=ROWS).returns(json=ROWS).returns(json=[{"id": 3}])

    assert [run(Users({}), api) for _ in range(3)] == [ROWS, [], [{"id": 3}]]


def test_an_answer_that_cannot_be_validated_may_be_skipped() -> None:
    run, api = Runs(uncacheable="skip"), MockApi()
    api.get("/users").returns(json=ROWS).returns(json=[{"id": 3}])
    assert [run(Users({}), api) for _ in range(2)] == [ROWS, []]
    assert len(api.requests) == 1

    run.time.sleep(timedelta(hours=24).total_seconds())
    assert run(Users({}), api) == [{"id": 3}]


def test_a_try_that_failed_teaches_nothing_to_the_next() -> None:
    run, api = Runs(), MockApi()
    api.get("/users").returns(status=500, headers={"ETag": '"a"'}).returns(json=ROWS, headers={"ETag": '"a"'})

    assert run(Users({}), api) == ROWS
    assert [dict(request.headers) for request in api.requests] == [{}, {}]


def test_a_read_that_failed_is_repeated_whole() -> None:
    run, api = Runs(), MockApi()
    api.get("/users").returns(body=b"[{", headers={"ETag": '"a"'}).returns(json=ROWS, headers={"ETag": '"a"'})
    with pytest.raises(FatalError):
        run(Users({}), api)

    assert run(Users({}), api) == ROWS


def test_errors_are_what_they_are_without_validators() -> None:
    api = MockApi()
    api.get("/users").returns(status=500)

    with pytest.raises(ServerError):
        Runs()(Users({}), api)


class Orders(ConditionalStream):
    def path(self, slice: Slice) -> str:
        return f"{URL}/{slice.partition['shop']}/orders"

    def partitions(self) -> Iterable[Partition]:
        return list_partitions("shop", ["a", "b"])

    def parse(self, response: Response, slice: Slice) -> Sequence[Record]:  # noqa: ARG002
        return [{"n": number} for number in response.json()]


def test_every_slice_has_validators_of_its_own_and_parse_sees_only_what_is_new() -> None:
    run, api = Runs(), MockApi()
    api.get("/a/orders").returns(json=[1], headers={"ETag": '"same"'}).returns(status=304)
    api.get("/b/orders").returns(json=[2], headers={"ETag": '"same"'}).returns(json=[3], headers={"ETag": '"new"'})

    assert run(Orders({}), api) == [{"n": 1}, {"n": 2}]
    assert run(Orders({}), api) == [{"n": 3}]
    assert [request.headers for request in api.requests[2:]] == [{"If-None-Match": '"same"'}] * 2


class Paged(ConditionalStream):
    paginator = PageNumber(size=1)

    def path(self, slice: Slice) -> str:  # noqa: ARG002
        return f"{URL}/users"


def test_a_stream_of_several_pages_cannot_be_followed() -> None:
    api = MockApi()
    api.get("/users").returns(json=[{"id": 1}], headers={"ETag": '"a"'}).returns(json=[])

    with pytest.raises(FatalError, match="one page per slice, and this one has more"):
        Runs()(Paged({}), api)


def test_a_stream_that_does_not_ask_is_sent_as_it_is() -> None:
    api = MockApi()
    api.get("/users").returns(json=ROWS, headers={"ETag": '"a"'})
    stream = Users({})
    stream.transport = api

    assert read(stream).records == ROWS
    assert stream.transport is api
    assert dict(api.requests[0].headers) == {}
    assert Users.request is HttpStream.request


def test_a_stream_is_followed_once_and_before_it_is_read() -> None:
    api = MockApi()
    api.get("/users").returns(json=ROWS)
    stream, other = Users({}), Users({})
    stream.transport = other.transport = api
    read(stream)
    other.follow(HttpProbe())

    for late in (stream, other):
        with pytest.raises(FatalError, match="followed only once, before its first read"):
            late.follow(HttpProbe())


def test_a_followed_stream_does_not_travel() -> None:
    stream = Users({})
    stream.follow(HttpProbe())

    with pytest.raises(FatalError, match="cannot be sent to another process"):
        pickle.dumps(stream)


def test_other_methods_and_other_conditions_go_through() -> None:
    api, probe = MockApi(), HttpProbe()
    api.post("/users").returns(json=[1], headers={"ETag": '"a"'})
    api.get("/users").returns(status=304)
    transport = ConditionalTransport(api, probe)

    assert transport.send(Request("POST", f"{URL}/users")).json() == [1]
    assert transport.send(USERS.with_headers({"if-none-match": '"mine"'})).status == 304
    assert probe.value().value == {"requests": {}}


def test_only_a_whole_answer_teaches_anything() -> None:
    api, probe = MockApi(), HttpProbe()
    api.get("/users").returns(status=404, headers={"ETag": '"a"'}).returns(status=206, headers={"ETag": '"a"'})
    transport = ConditionalTransport(api, probe)

    assert [transport.send(USERS).status for _ in range(2)] == [404, 206]
    assert probe.value().value == {"requests": {}}


def test_an_answer_belongs_to_the_request_that_was_asked() -> None:
    run, api = Runs(), MockApi()
    api.get("/users").returns(json=ROWS, headers={"ETag": '"a"'}).returns(json=[], headers={"ETag": '"b"'})
    run(Users({}), api)
    with open_session(run.log) as session:
        transport = ConditionalTransport(api, HttpProbe.open(session, clock=run.time.clock))

    asked = Request("GET", f"{URL}/users", headers={"Accept-Encoding": "br"})
    assert transport.send(asked).request is asked
    assert api.requests[1].headers == {"Accept-Encoding": "br", "If-None-Match": '"a"'}


def test_a_streamed_body_is_handed_on_unread() -> None:
    with serving("etag") as server:
        probe = HttpProbe()
        transport = ConditionalTransport(HttpTransport(), probe)
        asked = Request("GET", f"{server.url}/users", stream=True)
        assert b"".join(transport.send(asked).chunks()) == orjson.dumps(ROWS)

        (known,) = probe.value().value["requests"].values()
        assert set(known) == {"etag", "read_at"}


def test_an_unchanged_answer_is_raised_to_those_who_send_by_themselves() -> None:
    api = MockApi()
    api.get("/users").returns(json=ROWS, headers={"ETag": '"a"'}).returns(status=304)
    first = HttpProbe()
    ConditionalTransport(api, first).send(USERS)
    with open_session(StateLog(MemoryStore(), KEY)) as session:
        first.propose(session)
        session.commit("final")
        log = session._log
    with open_session(log) as session, pytest.raises(NotModified, match="answered 304"):
        ConditionalTransport(api, HttpProbe.open(session)).send(USERS)


class Keyed(Users):
    def authenticator(self) -> Authenticator | None:
        return ApiKey(self.config["token"], name="X-Token")

    def params(self, slice: Slice) -> Mapping[str, Json]:  # noqa: ARG002
        return {"api_key": self.config["token"], "active": True}


def test_a_new_token_changes_neither_what_is_asked_nor_the_state() -> None:
    run, api = Runs(), MockApi()
    api.get("/users").returns(json=ROWS, headers={"ETag": '"a"'}).returns(status=304)
    run(Keyed({"token": "first-secret"}), api)
    assert run.record is not None
    assert "first-secret" not in run.record.to_bytes().decode()

    assert run(Keyed({"token": "second-secret"}), api) == []
    assert run.record is None


BASE = Request("GET", f"{URL}/users", {"page": 1}, {"Accept": "text/csv"})


@pytest.mark.parametrize(
    "other",
    [
        Request("GET", f"{URL}/orders", {"page": 1}, {"Accept": "text/csv"}),
        Request("GET", "https://other.test/users", {"page": 1}, {"Accept": "text/csv"}),
        Request("HEAD", f"{URL}/users", {"page": 1}, {"Accept": "text/csv"}),
        BASE.with_params({"page": 2}),
        BASE.with_headers({"Accept": "application/json"}),
        BASE.with_headers({"X-Api-Version": "2"}),
        Request("GET", f"{URL}/users", {"page": 1}, {"Accept": "text/csv"}, b"{}"),
    ],
)
def test_what_is_asked_tells_requests_apart(other: Request) -> None:
    assert fingerprint(other) != fingerprint(BASE)


@pytest.mark.parametrize(
    "other",
    [
        Request("GET", f"{URL}/users?page=1", {}, {"accept": "text/csv"}),
        Request("GET", "https://ann:secret@api.test/users", {"page": 1}, {"Accept": "text/csv"}),
        BASE.with_headers({"User-Agent": "x", "X-Request-Id": "5"}),
        BASE.with_headers({"Authorization": "Bearer abcdef"}),
        BASE.with_headers({"X-Shop": "abcdef"}, secret=True),
        BASE.with_params({"access_token": "abcdef"}),
        BASE.with_params({"shop": "abcdef"}, secret=True),
    ],
)
def test_how_it_is_asked_and_by_whom_does_not(other: Request) -> None:
    assert fingerprint(other) == fingerprint(BASE)


def test_a_secret_in_a_path_leaves_no_trace() -> None:
    one, other = (Request("GET", f"{URL}/{key}/users", hidden=frozenset({key})) for key in ("abcdefgh", "ijklmnop"))

    assert fingerprint(one) == fingerprint(other)


def test_slices_are_told_apart_by_their_partitions() -> None:
    stream = Orders({})
    marks = {fingerprint(stream.request(Slice(Partition({"shop": shop})))) for shop in "ab"}

    assert len(marks) == 2


MARK = fingerprint(USERS)
KNOWN = HttpSnapshot({MARK: Validators('"a"', read_at=NOON.isoformat())}, NOON)


class Both(Users):
    """Asks twice for a slice."""

    def parse(self, response: Response, slice: Slice) -> Sequence[Record]:
        other = self.transport.send(Request("GET", f"{URL}/more"))
        return [*super().parse(response, slice), *super().parse(other, slice)]


def test_a_stream_that_travelled_asks_with_what_is_known_and_tells_what_it_learned() -> None:
    with serving("etag") as server:
        sent = Users({"url": server.url})
        stream = pickle.loads(pickle.dumps(sent.conditional()))  # noqa: S301 - our own
        with conditional_reads(HttpSnapshot({}, NOON)) as first:
            assert len(stream.read_page(Slice(), None).records) == 2
        assert first.request is not None
        assert first.validators is not None
        known = HttpSnapshot({first.request: first.validators}, NOON)
        travelled = pickle.loads(pickle.dumps(known))  # noqa: S301 - our own
        with conditional_reads(travelled) as second, pytest.raises(NotModified):
            HttpStream.read_page(stream, Slice(), None)

        assert second == replace(first, unchanged=True)
        assert server.statuses == [200, 304]
        assert sent.transport is Users.transport


def test_outside_of_such_a_block_and_after_it_requests_are_sent_as_they_are() -> None:
    api = MockApi()
    api.get("/users").returns(json=ROWS, headers={"ETag": '"a"'})
    stream = Users({})
    stream.transport = api
    stream = stream.conditional()
    with conditional_reads(KNOWN):
        stream.read_page(Slice(), None)
    stream.read_page(Slice(), None)

    assert [dict(request.headers) for request in api.requests] == [{"If-None-Match": '"a"'}, {}]


def test_a_request_that_was_not_sent_keeps_what_is_known_of_it() -> None:
    unsaid = Validators(read_at=NOON.isoformat())
    with conditional_reads(HttpSnapshot({MARK: unsaid}, NOON, uncacheable="skip")) as asked, pytest.raises(NotModified):
        HttpStream.read_page(Users({}).conditional(), Slice(), None)

    assert asked == ConditionalResult(MARK, unsaid, unchanged=True)


def test_a_second_request_of_a_slice_is_refused_and_what_has_no_condition_is_not() -> None:
    api = MockApi()
    api.get("/users").returns(json=ROWS)
    api.get("/more").returns(json=ROWS)
    api.post("/token").returns(json={})
    stream = Both({})
    stream.transport = api
    stream = stream.conditional()
    with conditional_reads(KNOWN) as asked, pytest.raises(FatalError, match="/more is the second request of a slice"):
        stream.read_page(Slice(), None)
    assert [request.url for request in api.requests] == [f"{URL}/users"]
    with conditional_reads(KNOWN) as asked:
        stream.transport.send(Request("POST", f"{URL}/token"))

    assert asked == ConditionalResult()


def test_an_answer_that_is_no_success_leaves_nothing_known_of_its_request() -> None:
    api = MockApi()
    api.get("/users").returns(status=404)
    stream = Users({})
    stream.transport = api
    with conditional_reads(KNOWN) as asked:
        stream.conditional().transport.send(USERS)

    assert asked == ConditionalResult(MARK, None)
