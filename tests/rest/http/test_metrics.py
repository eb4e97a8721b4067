import pickle
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from http.server import ThreadingHTTPServer

import pytest

from cdk import Timeout
from cdk.base.process.concurrency import Learned
from cdk.base.process.request_lease import RequestLease, RequestsSpent, current_lease, leasing
from cdk.engine.executors import Threads
from cdk.rest import Budget, CachedTransport, HttpTransport, Request
from cdk.rest.client import HttpClient
from cdk.rest.http.metrics import HttpMetrics, counting, current_metrics
from cdk.streams.page import ReadPage
from cdk.testing.mock_api import MockApi
from connectors.shop.api import serving
from connectors.shop.backend import Backend
from tests.local_server import QuietHandler, answering


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(Backend(), refuse_every=3) as address:
        yield address


def get(address: str, path: str = "/products", *, stream: bool = False) -> Request:
    return Request("GET", f"{address}{path}", stream=stream)


def test_answers_are_counted_by_class_with_their_bytes(address: str) -> None:
    transport = HttpTransport()
    with counting(HttpMetrics()) as counted:
        answers = [transport.send(get(address, path)) for path in ("/products", "/nowhere", "/products")]

    assert sorted(answer.status for answer in answers) == [200, 404, 429]
    assert counted.statuses == {"2xx": 1, "4xx": 2}
    assert counted.requests == 3
    assert counted.received_bytes == sum(len(answer.body) for answer in answers) > 0


def test_bytes_of_a_streamed_body_are_counted_as_they_are_read(address: str) -> None:
    with counting(HttpMetrics()) as counted:
        response = HttpTransport().send(get(address, "/_stats", stream=True))
        before = counted.received_bytes
        with closing(response.chunks()) as chunks:
            size = sum(map(len, chunks))

    assert (before, counted.received_bytes, counted.statuses) == (0, size, {"2xx": 1})
    assert size > 0


def test_a_request_without_an_answer_is_counted() -> None:
    with counting(HttpMetrics()) as counted, pytest.raises(Timeout):
        HttpTransport(connect_timeout=timedelta(seconds=1)).send(get("http://127.0.0.1:1"))

    assert (counted.requests, counted.unanswered, counted.statuses) == (1, 1, {})


def test_further_attempts_and_the_pauses_before_them_are_counted() -> None:
    api, slept = MockApi(), list[float]()
    api.get("/users").returns(status=503).returns(status=503).returns(json=[])
    with counting(HttpMetrics()) as counted:
        HttpClient(api, sleep=slept.append).send(get("https://api.test", "/users"))

    assert (counted.retries, counted.waited_seconds, counted.rate_limited_seconds) == (2, sum(slept), 0)
    assert counted.waited_seconds > 0


def test_pauses_that_the_api_asks_for_are_counted_as_such() -> None:
    api, slept = MockApi(), list[float]()
    api.get("/users").returns(status=429).returns(status=503).returns(json=[])
    with counting(HttpMetrics()) as counted:
        HttpClient(api, sleep=slept.append).send(get("https://api.test", "/users"))

    assert (counted.waited_seconds, counted.rate_limited_seconds) == (sum(slept), slept[0])


def test_pauses_for_a_budget_are_counted() -> None:
    slept: list[float] = []
    budget = Budget(1, timedelta(hours=1), sleep=slept.append)
    with counting(HttpMetrics()) as counted:
        for _ in range(2):
            budget.acquire(get("https://api.test"))

    assert counted.waited_seconds == counted.rate_limited_seconds == sum(slept) > 3000
    assert counted.retries == 0


def test_an_answer_that_was_kept_takes_no_request() -> None:
    api = MockApi()
    api.get("/users").returns(json=[])
    transport = CachedTransport(api)
    with counting(HttpMetrics()) as counted:
        for _ in range(3):
            transport.send(get("https://api.test", "/users"))

    assert counted.cached == 2


def test_the_innermost_metrics_count_also_in_threads() -> None:
    seen = set()
    with counting(HttpMetrics()) as outer, counting(HttpMetrics()) as inner:

        def read(number: int) -> Iterator[ReadPage]:
            # Waits, as a source makes one wait: further threads begin only then.
            threading.Event().wait(0.03)
            seen.add(threading.get_ident())
            current_metrics().count_response(200, number)
            yield ReadPage(())

        assert len(list(Threads(3, Learned(3))(iter(range(5)), read))) == 5
        assert current_metrics() is inner

    assert (outer, inner) == (HttpMetrics(), HttpMetrics({"2xx": 5}, received_bytes=10))
    assert all(current_metrics() is not one for one in (outer, inner))
    assert len(seen) > 1


def test_metrics_travel_and_add_up() -> None:
    one = HttpMetrics(
        {"2xx": 1, "4xx": 2},
        unanswered=1,
        retries=2,
        waited_seconds=0.5,
        rate_limited_seconds=0.25,
        received_bytes=10,
        cached=3,
    )
    again = pickle.loads(pickle.dumps(one))  # noqa: S301 - as it travels

    assert (again + HttpMetrics({"2xx": 1, "5xx": 1})).to_json() == {
        "requests": 6,
        "retries": 2,
        "waited_seconds": 0.5,
        "rate_limited_seconds": 0.25,
        "received_bytes": 10,
        "cached": 3,
        "unanswered": 1,
        "statuses": {"2xx": 2, "4xx": 2, "5xx": 1},
    }
    assert one.statuses == {"2xx": 1, "4xx": 2}


def test_a_request_that_may_not_be_sent_reaches_no_server() -> None:
    with answering(Echo(("127.0.0.1", 0), Echoes)) as server, leasing(RequestLease(2)) as lease:
        transport = HttpTransport()
        request = Request("GET", f"http://127.0.0.1:{server.server_port}/")
        for _ in range(2):
            transport.send(request)
        with pytest.raises(RequestsSpent):
            transport.send(request)

        assert (server.asked, lease.unsent, lease.sent) == (2, 0, 2)
    assert current_lease() is not lease


class Echo(ThreadingHTTPServer):
    daemon_threads = True
    asked = 0


class Echoes(QuietHandler):
    server: Echo

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        self.server.asked += 1
        self.answer(200)


def test_a_status_that_http_does_not_have_is_counted_all_the_same() -> None:
    counted = HttpMetrics()
    counted.count_response(999, 1)

    assert counted.to_json()["statuses"] == {"other": 1}
