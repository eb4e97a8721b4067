"""A request under construction."""

from typing import Any

import pytest

from cdk.base.errors import ManifestError
from cdk.base.values import JsonObject
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.rest.http.messages import RequestPart

URL = "https://api.example.com/items"


def draft(method: str = "GET", url: str = URL) -> RequestBuilder:
    return RequestBuilder(method, url, "streams.items")


@pytest.mark.parametrize("place", ["request_parameter", "header", "body_data"])
def test_nothing_is_put_twice(place: RequestPart) -> None:
    made = draft("POST")
    made.put(place, ["a"], 1)

    with pytest.raises(ManifestError, match=r"streams\.items: .*'a' is set twice"):
        made.put(place, ["a"], 1)


def test_a_json_body_takes_the_same_value_twice_but_no_other() -> None:
    made = draft("POST")
    made.put("body_json", ["filter", "since"], 1)
    made.put("body_json", ["filter", "since"], 1)
    made.put("body_json", ["filter", "until"], 2)

    with pytest.raises(ManifestError, match="filter > since of the JSON body is set twice"):
        made.put("body_json", ["filter", "since"], 3)
    with pytest.raises(ManifestError, match="filter > since > x"):
        made.put("body_json", ["filter", "since", "x"], 3)

    request = made.request()
    assert request.body == b'{"filter":{"since":1,"until":2}}'
    assert request.headers["Content-Type"] == "application/json"


def test_objects_of_a_json_body_are_joined() -> None:
    made = draft("POST")
    token: JsonObject = {"paging": {"first": 25, "after": "x"}}
    made.put("body_json", ["variables"], token)
    made.put("body_json", ["variables"], {"paging": {"first": 25}, "by": {"id": 1}})

    with pytest.raises(ManifestError, match="variables > paging > after of the JSON body is set twice"):
        made.put("body_json", ["variables"], {"paging": {"after": "y"}})
    with pytest.raises(ManifestError, match="variables > paging of the JSON body is set twice"):
        made.put("body_json", ["variables"], {"paging": 1})

    assert made.request().body == b'{"variables":{"paging":{"first":25,"after":"x"},"by":{"id":1}}}'
    assert token == {"paging": {"first": 25, "after": "x"}}


def test_a_form_is_written_as_one() -> None:
    made = draft("POST")
    made.put("body_data", ["a"], "x y")
    made.put("body_data", ["b"], [1, 2])
    made.put("body_data", ["c"], None)

    request = made.request()

    assert request.body == b"a=x+y&b=1&b=2"
    assert request.headers["Content-Type"] == "application/x-www-form-urlencoded"


def test_a_body_is_of_one_kind() -> None:
    both, text = draft("POST"), draft("POST")
    both.put("body_data", ["a"], 1)
    both.put("body_json", ["b"], 1)
    text.text = "raw"

    mixed, empty = draft("POST"), draft("POST")
    mixed.put("body_json", ["a"], 1)
    mixed.text = "raw"
    empty.put("body_json", ["a"], 1)
    empty.text = ""

    with pytest.raises(ManifestError, match="a string and have fields"):
        mixed.request()
    assert empty.request().body == b'{"a":1}'
    with pytest.raises(ManifestError, match="JSON and a form at the same time"):
        both.request()
    with pytest.raises(ManifestError, match="the body is a string"):
        text.put("body_json", ["b"], 1)
    assert text.request().body == b"raw"


def test_values_are_sent_as_texts() -> None:
    made = draft()
    made.params.update({"n": 1, "yes": True, "none": None, "many": [1, "b"]})
    made.headers.update({"X-N": 1})

    request = made.request()

    assert request.params == {"n": "1", "yes": "True", "many": ["1", "b"]}
    assert request.headers == {"X-N": "1"}
    assert request.body is None


def test_what_the_url_says_already_is_sent_once() -> None:
    made = draft(url=f"{URL}?page=2&size=5")
    made.params.update({"page": "2", "size": 6})

    assert made.request().params == {"size": "6"}


@pytest.mark.parametrize(
    ("query", "ids", "sent"),
    [
        ("ids=1&ids=2", ["1", "2"], {}),
        ("ids=1&ids=2", [1, 2], {}),
        ("ids=1", (1, 2), {"ids": ["2"]}),
        ("size=1", ["1", "2"], {"ids": ["1", "2"]}),
        ("ids=1", [], {"ids": []}),
    ],
)
def test_the_values_of_a_list_that_a_next_link_has_already_are_sent_once(query: str, ids: Any, sent: Any) -> None:
    made = draft()
    made.params["ids"] = ids
    made.follow(f"{URL}?{query}&page=2")

    assert made.request().params == sent


@pytest.mark.parametrize(
    ("link", "url"), [("?page=2", f"{URL}?page=2"), ("next", f"{URL.rpartition(chr(47))[0]}/next"), ("/x", None)]
)
def test_a_relative_link_is_joined_to_a_base_with_a_query_as_browsers_do(link: str, url: str | None) -> None:
    made = draft(url=f"{URL}?page=1")
    made.follow(link)

    assert made.url == (url or "https://api.example.com/x")


@pytest.mark.parametrize(
    ("link", "url"),
    [
        ("https://other.example.com/x?page=2", "https://other.example.com/x?page=2"),
        ("more", f"{URL}/more"),
        ("/more", f"{URL.rpartition(chr(47))[0]}/more"),
        ("?page=2", f"{URL}/?page=2"),
    ],
)
def test_a_link_may_be_relative(link: str, url: str) -> None:
    made = draft()
    made.follow(link)

    assert made.url == url


def test_an_answer_may_come_as_a_stream() -> None:
    made: Any = RequestBuilder("GET", URL, "", stream=True)

    assert made.request().stream
