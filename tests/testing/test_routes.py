from collections.abc import Sequence
from contextlib import closing

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdk import Timeout
from cdk.rest import OAuth2, Request, Response
from cdk.testing import MockApi, MockClock, read, simulated
from tests.testing.blog import CONFIG, Blog, blog_api

USERS = Request("GET", "https://api.test/users", {"page": 2})
FORM = Request("POST", "https://api.test/token", body=b"grant_type=refresh_token&refresh_token=r1")


@pytest.mark.parametrize(
    ("newest", "best"), [("/users", "/users"), ("/*", "/users"), ("https://api.test/users", "https://api.test/users")]
)
def test_a_route_without_stars_and_one_of_a_whole_url_come_first(newest: str, best: str) -> None:
    api = MockApi()
    api.get("/users").returns(json="/users")
    api.get(newest).returns(json=newest)

    assert api.send(USERS).json() == best


def test_a_route_that_asks_for_more_comes_before_a_newer_one() -> None:
    api = MockApi()
    api.get("/users", params={"page": 2}, headers={"authorization": "a"}).returns(json="both")
    api.get("/users", params={"page": 2}).returns(json="page")
    api.get("/users").returns(json="any")

    assert api.send(USERS).json() == "page"
    assert api.send(USERS.with_headers({"Authorization": "a"})).json() == "both"
    assert api.send(Request("GET", "https://api.test/users")).json() == "any"


def test_fields_of_json_and_form_bodies_are_matched() -> None:
    api = MockApi()
    api.post("/token", body={"grant_type": "refresh_token"}).returns(json="form")
    api.post("/token", body={"page": {"number": 1}}).returns(json="json")

    assert api.send(FORM).json() == "form"
    assert api.send(Request("POST", "https://api.test/token", body=b'{"page":{"number":1},"size":5}')).json() == "json"
    with pytest.raises(AssertionError, match=r"POST /token with \{'page': \{'number': 1\}\}"):
        api.send(Request("POST", "https://api.test/token", body=b"[1]"))


def test_a_response_takes_its_time_and_not_more_than_a_client_waits() -> None:
    api, clock = MockApi(), MockClock()
    api.get("/users").returns(json=[], after=5).returns(json=[], after=500)

    with simulated(clock=clock):
        assert api.send(USERS).json() == []
        with pytest.raises(Timeout, match="no response in time"):
            api.send(USERS)

    assert clock.waits == [5, 120]


def test_a_body_breaks_off_after_the_bytes_that_a_streaming_reader_gets() -> None:
    api = MockApi()
    api.get("/users").breaks_off(body=b"id\n1\n2\n", at=5)

    with pytest.raises(Timeout, match="ends after 5 of 7 bytes"):
        api.send(USERS)
    response = api.send(Request("GET", USERS.url, stream=True))
    with closing(response.chunks()) as chunks:
        assert next(chunks) == b"id\n1\n"
        with pytest.raises(Timeout):
            next(chunks)


def test_rows_change_between_two_pages() -> None:
    rows = [{"id": 1}, {"id": 2}, {"id": 3}]
    api = MockApi()
    api.get("/users").serves(rows, size=2, page="p", first=0).before(2, lambda: rows.insert(0, {"id": 0}))

    pages = [api.send(Request("GET", "https://api.test/users", {"p": page})).json() for page in (0, 1, 2)]

    assert pages == [[{"id": 1}, {"id": 2}], [{"id": 2}, {"id": 3}], []]


def test_tokens_are_good_for_some_requests_and_a_refused_one_uses_no_response_up() -> None:
    api = MockApi()
    login = api.issues_tokens("/token", uses=1)
    users = api.get("/users").returns(json=[1]).returns(json=[2])

    def ask(token: str) -> object:
        response = api.send(USERS.with_headers({"Authorization": f"Bearer {token}"}))
        return response.json() if response.ok else response.status

    assert ask("token-1") == 401
    assert api.send(FORM).json()["access_token"] == "token-1"
    assert [ask("token-1"), ask("token-1")] == [[1], 401]
    api.send(FORM)
    assert [ask("token-1"), ask("token-2"), ask("token-2")] == [401, [2], 401]
    assert (len(login.requests), len(users.requests)) == (2, 2)


def test_routes_that_were_not_used_are_named_without_values_of_headers() -> None:
    api = MockApi()
    api.get("/users").returns(json=[])
    api.post("/users", headers={"X-Key": "s3cret"})
    api.send(USERS)

    with pytest.raises(AssertionError) as caught:
        api.assert_all_used()
    assert "of the 1 requests none came to these routes:\n  POST /users with the headers X-Key\n" in str(caught.value)
    api.send(Request("GET", USERS.url))


def test_an_api_of_which_all_is_used_says_nothing() -> None:
    api = MockApi()
    api.get("/users").returns(json=[])
    api.send(USERS)

    api.assert_all_used()


def test_a_body_that_is_no_bytes_is_refused_where_the_test_gives_it() -> None:
    route = MockApi().get("/users")

    with pytest.raises(TypeError, match="GET /users: found a value of type str for `body`, expected bytes; encode"):
        route.returns(body="<html>")  # type: ignore[arg-type] # the mistake
    with pytest.raises(TypeError, match="found a value of type dict for `body`, expected bytes"):
        route.breaks_off(body={})  # type: ignore[arg-type] # the mistake
    with pytest.raises(TypeError, match="not JSON serializable"):
        route.returns(json={1, 2})


@pytest.mark.parametrize(("value", "kind"), [({"data": []}, "a value of type dict"), (None, "None")])
def test_a_function_that_returns_no_response_fails_the_test_and_not_the_connector(value: object, kind: str) -> None:
    api = blog_api()
    api.get("/users").answers(lambda _: value)  # type: ignore[arg-type, return-value] # the mistake

    with pytest.raises(TypeError, match=f"GET /users: found {kind} that a function of `answers` returned, expected"):
        read(Blog(), "users", config=CONFIG, transport=api)


def test_a_value_is_answered_as_it_is_when_a_request_comes() -> None:
    api, users = MockApi(), [1]
    api.get("/users").returns(json=users)

    users.append(2)

    assert api.send(USERS).json() == [1, 2]


@given(uses=st.integers(1, 3), flows=st.integers(1, 5), turns=st.lists(st.integers(0, 4), max_size=30))
@example(uses=1, flows=2, turns=[0, 1, 0, 1, 1])
def test_requests_in_parallel_may_use_a_token_up_in_any_order(uses: int, flows: int, turns: Sequence[int]) -> None:
    api = MockApi()
    login = api.issues_tokens("/token", uses=uses)
    api.get("/users/*").returns(json=[])
    auth = OAuth2("https://api.test/token", client_id="app", client_secret="s3cret")
    running = {n: auth.flow(Request("GET", f"https://api.test/users/{n}")) for n in range(flows)}
    last = dict[int, Response]()

    def send_next(n: int) -> None:
        request = running[n].send(last[n]) if n in last else next(running[n])
        last[n] = api.send(request)
        if login.matches(request):  # the others wait for it
            send_next(n)

    for n in [*turns, *range(flows), *range(flows), *range(flows)]:
        if n in running:
            try:
                send_next(n)
            except StopIteration:
                del running[n]

    assert {n: response.status for n, response in last.items()} == dict.fromkeys(range(flows), 200)
