import json
from typing import Any

import pytest

from cdk import BadState, ConfigError
from cdk.rest import CursorToken, LinkHeader, Offset, PageNumber, Paginator, Request, SinglePage, Token
from tests.rest.api import response

FIRST = Request("GET", "https://api.test/users", {"api_key": "kkkk", "q": "x"})


def asked(paginator: Paginator, token: Token | None) -> dict[str, Any]:
    return {name: value for name, value in paginator.apply(FIRST, token).params.items() if name not in FIRST.params}


def test_a_single_page_has_no_next() -> None:
    assert SinglePage().next(response([]), [{}], None) is None
    assert SinglePage().apply(FIRST, None) is FIRST


def test_page_numbers_count_from_their_start() -> None:
    pages = PageNumber(start=0, size=2, size_param="per_page")

    assert asked(pages, None) == {"page": 0, "per_page": 2}
    assert pages.next(response(), [{}, {}], None) == {"page": 1, "page_size": 2}
    assert pages.next(response(), [{}, {}], {"page": 1}) == {"page": 2, "page_size": 2}
    assert asked(pages, {"page": 2}) == {"page": 2, "per_page": 2}


def test_the_number_of_a_page_counts_pages_of_its_size() -> None:
    with pytest.raises(BadState, match="a page of 3 records, which is `size` now"):
        PageNumber(size=3).apply(FIRST, {"page": 2, "page_size": 2})


@pytest.mark.parametrize(
    ("size", "found", "more"), [(2, 1, False), (2, 0, False), (2, 2, True), (None, 1, True), (None, 0, False)]
)
def test_a_short_or_empty_page_is_the_last(size: int | None, found: int, more: bool) -> None:  # noqa: FBT001
    following = PageNumber(size=size).next(response(), [{}] * found, None)

    assert (following is not None) is more


def test_a_flag_counts_more_than_the_number_of_records() -> None:
    pages = PageNumber(size=100, more=("meta", "has_more"))

    assert pages.next(response({"meta": {"has_more": True}}), [], None) == {"page": 2, "page_size": 100}
    assert pages.next(response({"meta": {"has_more": False}}), [{}] * 100, None) is None
    assert pages.next(response({}), [{}] * 100, None) is None


def test_offsets_advance_by_the_size() -> None:
    offsets = Offset(2)

    assert asked(offsets, None) == {"offset": 0, "limit": 2}
    assert offsets.next(response(), [{}, {}], {"offset": 4}) == {"offset": 6}
    assert offsets.next(response(), [{}], {"offset": 4}) is None


SEARCH = Request("POST", "https://api.test/search", {"q": "x"}, body=b'{"filter":{"a":1},"limit":9}')


@pytest.mark.parametrize(
    ("paginator", "token", "fields"),
    [
        (PageNumber(size=2, size_param="limit", in_body=True), {"page": 3}, {"page": 3, "limit": 2}),
        (Offset(2, in_body=True), {"offset": 4}, {"offset": 4, "limit": 2}),
        (CursorToken("next", param="page_token", in_body=True), {"cursor": "abc"}, {"page_token": "abc", "limit": 9}),
    ],
)
def test_pages_may_be_asked_for_in_the_body(paginator: Paginator, token: Token, fields: dict[str, Any]) -> None:
    request = paginator.apply(SEARCH, token)

    assert json.loads(request.body or b"") == {"filter": {"a": 1}, **fields}
    assert (request.params, request.headers) == ({"q": "x"}, {})


def test_a_request_without_a_body_gets_one_for_its_pages() -> None:
    request = Offset(2, in_body=True).apply(Request("POST", "https://api.test/search"), None)

    assert (request.body, request.headers) == (b'{"limit":2,"offset":0}', {"Content-Type": "application/json"})


@pytest.mark.parametrize("body", [b"[1]", b"a=1", b"\xff"])
def test_a_body_that_is_no_object_has_no_place_for_pages(body: bytes) -> None:
    with pytest.raises(ConfigError, match="expected a JSON object"):
        Offset(2, in_body=True).apply(Request("POST", "https://api.test/search", body=body), None)


def test_a_cursor_that_never_ends_may_end_at_a_page_without_records() -> None:
    pages = CursorToken("last_seq", param="since", until_empty=True)

    assert pages.next(response({"last_seq": 7}), [{}], None) == {"cursor": 7}
    assert pages.next(response({"last_seq": 7}), [], {"cursor": 7}) is None


def test_a_size_parameter_needs_a_size() -> None:
    with pytest.raises(ConfigError, match="per_page"):
        PageNumber(size_param="per_page")
    with pytest.raises(ConfigError, match="at least 1"):
        Offset(0)


@pytest.mark.parametrize("paginator", [PageNumber(), Offset(2), CursorToken("next", param="c"), LinkHeader()])
def test_a_token_of_another_paginator_is_a_bad_state(paginator: Paginator) -> None:
    with pytest.raises(BadState, match="page token"):
        paginator.apply(FIRST, {"other": 1})


def test_a_cursor_comes_from_the_body_or_a_header() -> None:
    body, header = CursorToken("meta", "next", param="after"), CursorToken(header="X-Next", param="after")

    assert body.next(response({"meta": {"next": "abc"}}), [], None) == {"cursor": "abc"}
    assert header.next(response(headers={"x-next": "abc"}), [], None) == {"cursor": "abc"}
    assert asked(body, {"cursor": "abc"}) == {"after": "abc"}
    assert asked(body, None) == {}


@pytest.mark.parametrize("last", [None, ""])
def test_a_missing_cursor_is_the_end(last: Any) -> None:
    assert CursorToken("next", param="after").next(response({"next": last}), [{}], None) is None
    assert CursorToken(header="X-Next", param="after").next(response({}), [{}], None) is None


def test_a_cursor_on_the_last_page_is_not_followed_when_the_flag_says_so() -> None:
    paginator = CursorToken("next", param="after", more=("more",))

    assert paginator.next(response({"next": "abc", "more": False}), [{}], None) is None


def test_a_cursor_lies_in_one_place() -> None:
    with pytest.raises(ConfigError, match="where the token is"):
        CursorToken(param="after")


@pytest.mark.parametrize(
    "header",
    [
        '<https://api.test/users?page=2>; rel="next"',
        '</users?page=0>; rel="prev", <https://api.test/users?page=2>; title="a, b; rel=x"; rel="last next"',
        "</users?page=2>;rel=next",
        "<?page=2>; REL=Next",
    ],
)
def test_the_next_link_of_a_header_is_found(header: str) -> None:
    following = LinkHeader().next(response(headers={"Link": header}), [], None)

    assert following == {"url": "https://api.test/users?page=2"}


@pytest.mark.parametrize("header", ["", "nonsense", '<https://api.test/users?page=9>; rel="last"'])
def test_no_next_link_is_the_end(header: str) -> None:
    assert LinkHeader().next(response(headers={"Link": header}), [], None) is None


def test_a_url_token_holds_no_secret_and_gets_it_back() -> None:
    request = FIRST.with_params({"k": "told"}, secret=True)
    answer = response({"next": "https://api.test/users?page=2&api_key=kkkk&q=x&K=told"}, request=request)

    token = CursorToken("next").next(answer, [], None)

    assert token == {"url": "https://api.test/users?page=2&q=x"}
    again = CursorToken("next").apply(FIRST, token)
    assert again.full_url == "https://api.test/users?page=2&q=x&api_key=kkkk"


def test_a_default_port_and_the_case_of_a_host_make_no_other_host() -> None:
    following = CursorToken("next").next(response({"next": "https://API.test:443/a"}), [], None)

    assert following == {"url": "https://API.test:443/a"}
