import pytest

from cdk import Timeout
from cdk.rest import Request, Response
from cdk.testing import MockApi, UnexpectedRequest

USERS = Request("GET", "https://api.test/users", {"page": 1, "token": "abcd"})


def test_answers_come_in_order_and_the_last_repeats() -> None:
    api = MockApi()
    route = api.get("/users").returns(json=[1]).returns(status=500, headers={"Retry-After": "1"})

    answers = [api.send(USERS) for _ in range(3)]

    assert [answer.status for answer in answers] == [200, 500, 500]
    assert answers[0].json() == [1]
    assert answers[1].headers["retry-after"] == "1"
    assert route.requests == api.requests == [USERS] * 3


def test_the_newest_route_that_matches_counts() -> None:
    api = MockApi()
    api.get("/users").returns(json="any")
    api.get("/users", params={"page": 1}).returns(json="first")
    api.get("/users", params={"page": 2}).returns(json="second")

    assert api.send(USERS).json() == "first"
    assert api.send(Request("GET", "https://api.test/users?page=3")).json() == "any"


def test_a_route_may_be_a_whole_url_or_leave_a_segment_open() -> None:
    api = MockApi()
    api.get("/users/*/posts").returns(json="posts")
    api.get("https://other.test/users").returns(json="other")

    assert api.send(Request("GET", "https://api.test/users/7/posts")).json() == "posts"
    assert api.send(Request("GET", "https://other.test/users?x=1")).json() == "other"
    with pytest.raises(UnexpectedRequest):
        api.send(USERS)


def test_lists_and_booleans_are_matched_as_they_are_sent() -> None:
    api = MockApi()
    api.get("/users", params={"id": [1, 2], "deep": True}).returns(json=[])

    assert api.send(Request("GET", "https://api.test/users?id=1&deep=true&id=2")).ok


def test_values_are_labelled_json_and_bytes_are_not() -> None:
    api = MockApi()
    api.get("/users").returns(json=[]).returns(body=b"id,name\n")

    assert [api.send(USERS).headers.get("Content-Type") for _ in range(2)] == ["application/json", None]


def test_an_api_may_return_integers_of_any_size() -> None:
    api = MockApi()
    api.get("/users").returns(json={"id": 2**70})

    assert api.send(USERS).json() == {"id": 2**70}


def test_a_function_or_an_error_may_answer() -> None:
    def echo(request: Request) -> Response:
        return Response(200, api.send(USERS).headers, request.body or b"", request.url, request)

    api = MockApi()
    api.get("/users").returns(body=b"a,b", headers={"content-type": "text/csv"}).raises(Timeout("gone"))
    api.post("/users").answers(echo)

    answer = api.send(Request("POST", "https://api.test/users", body=b"x"))

    assert answer.body == b"x"
    assert answer.headers["Content-Type"] == "text/csv"
    with pytest.raises(Timeout):
        api.send(USERS)


def test_an_unknown_request_is_an_error_that_lists_the_routes() -> None:
    api = MockApi()
    api.post("/users")
    api.get("/users", params={"page": 2})

    with pytest.raises(UnexpectedRequest) as caught:
        api.send(USERS)

    assert str(caught.value) == (
        "no route for GET https://api.test/users?page=1&token=****; the routes are:\n"
        "  POST /users\n"
        "  GET /users with {'page': 2}"
    )


def test_a_route_without_an_answer_says_so() -> None:
    api = MockApi()
    api.get("/users")

    with pytest.raises(UnexpectedRequest, match=r"add `\.returns"):
        api.send(USERS)
