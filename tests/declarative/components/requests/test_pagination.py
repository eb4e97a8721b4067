from typing import Any

import pytest

from cdk.base.errors import ManifestError
from cdk.rest.pagination.last_page import checking_pages_after_end
from cdk.testing import MockApi
from tests.declarative.manifests import ids, option, paginator, queries, run


def rows(*numbers: int, **body: Any) -> dict[str, Any]:
    return {"data": [{"id": number} for number in numbers], **body}


def test_a_page_that_is_not_full_is_the_last() -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1, 2)).returns(json=rows(3))
    strategy = {"type": "PageIncrement", "page_size": 2, "start_from_page": 1}

    assert ids(run(api, paginator=paginator(strategy, size=True))) == [1, 2, 3]
    assert queries(api) == [{"limit": "2"}, {"page": "2", "limit": "2"}]


def test_full_pages_go_on_until_one_is_empty() -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1, 2)).returns(json=rows(3, 4)).returns(json=rows())
    strategy = {"type": "PageIncrement", "page_size": 2, "inject_on_first_request": True}

    assert ids(run(api, paginator=paginator(strategy))) == [1, 2, 3, 4]
    assert queries(api) == [{"page": "0"}, {"page": "1"}, {"page": "2"}]


def test_without_a_page_size_only_an_empty_page_is_the_last() -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1, 2)).returns(json=rows(3)).returns(json=rows())

    assert ids(run(api, paginator=paginator({"type": "OffsetIncrement"}))) == [1, 2, 3]
    assert queries(api) == [{}, {"page": "2"}, {"page": "3"}]


def test_pages_are_counted_before_the_filter() -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1, 2)).returns(json=rows(3))
    keeps = {"record_filter": {"type": "RecordFilter", "condition": "{{ record.id > 1 }}"}}

    read = run(api, selector=keeps, paginator=paginator({"type": "OffsetIncrement", "page_size": 2}))

    assert ids(read) == [2, 3]
    assert queries(api) == [{}, {"page": "2"}]


def test_the_size_of_an_offset_page_may_come_with_the_response() -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1, 2, 3, n=3)).returns(json=rows(4, n=3))

    assert ids(run(api, paginator=paginator({"type": "OffsetIncrement", "page_size": "{{ response.n }}"}))) == [
        *(1, 2, 3),
        4,
    ]


def test_a_cursor_is_found_in_the_response_until_there_is_none() -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1, next="b")).returns(json=rows(2, next=""))
    strategy = {"type": "CursorPagination", "cursor_value": "{{ response.next }}"}

    assert ids(run(api, paginator=paginator(strategy))) == [1, 2]
    assert queries(api) == [{}, {"page": "b"}]


def test_the_stop_condition_counts_before_the_cursor() -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1, next="b", more=False))
    strategy = {
        "type": "CursorPagination",
        "cursor_value": "{{ response.next }}",
        "stop_condition": "{{ not response.more }}",
    }

    assert ids(run(api, paginator=paginator(strategy))) == [1]


def test_a_cursor_sees_what_the_filter_left_of_the_page() -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1, 2, 3)).returns(json=rows())
    keeps = {"record_filter": {"type": "RecordFilter", "condition": "{{ record.id < 3 }}"}}
    strategy = {
        "type": "CursorPagination",
        "cursor_value": "{{ last_page_size }}-{{ last_record.id }}",
        "stop_condition": "{{ not last_record }}",
    }

    assert ids(run(api, selector=keeps, paginator=paginator(strategy))) == [1, 2]
    assert queries(api) == [{}, {"page": "2-2"}]


def test_a_cursor_sees_the_response_as_it_came() -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1, 2)).returns(json=rows())
    strategy = {"type": "CursorPagination", "cursor_value": "{{ response.data[-1].id if response.data else '' }}"}
    removes = [{"type": "RemoveFields", "field_pointers": [["id"]]}]

    assert run(api, stream={"transformations": removes}, paginator=paginator(strategy)).records == [{}, {}]
    assert queries(api) == [{}, {"page": "2"}]


def test_of_a_list_a_cursor_sees_the_first_element() -> None:
    api = MockApi()
    api.get("/items").returns(json=[{"id": 1, "next": "b"}]).returns(json=[])
    strategy = {"type": "CursorPagination", "cursor_value": "{{ response.next }}"}
    top = {"extractor": {"type": "DpathExtractor", "field_path": []}}

    assert ids(run(api, selector=top, paginator=paginator(strategy))) == [1]
    assert queries(api) == [{}, {"page": "b"}]


@pytest.mark.parametrize("body", [b"null", b"[null]"])
def test_a_body_of_null_is_empty_for_a_cursor(body: bytes) -> None:
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}], "next": "b"}).returns(body=body)
    strategy = {"type": "CursorPagination", "cursor_value": "{{ response.get('next') }}"}

    assert ids(run(api, paginator=paginator(strategy))) == [1]
    assert queries(api) == [{}, {"page": "b"}]


def test_a_body_that_is_decoded_as_it_comes_is_not_seen() -> None:
    api = MockApi()
    api.get("/items").returns(body=b'{"id": 1}\n').returns(body=b"")
    strategy = {
        "type": "CursorPagination",
        "cursor_value": "{{ last_record.id if last_record and not response else '' }}",
    }
    top = {"extractor": {"type": "DpathExtractor", "field_path": []}}

    assert ids(run(api, selector=top, decoder={"type": "JsonlDecoder"}, paginator=paginator(strategy))) == [1]
    assert queries(api) == [{}, {"page": "1"}]


def test_a_page_size_that_the_response_does_not_have_is_an_error_of_the_manifest() -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1, n="many"))

    result = run(api, paginator=paginator({"type": "OffsetIncrement", "page_size": "{{ response.n }}"}))

    assert isinstance(result.error, ManifestError)
    assert "the page size is 'many', expected a number" in result.error.message


def test_a_link_header_names_the_next_page() -> None:
    api = MockApi()
    link = {"Link": '<https://api.example.com/items?at=2>; rel="next"'}
    api.get("/items").returns(json=rows(1), headers=link)
    api.get("/items", {"at": 2}).returns(json=rows(2))
    strategy = {
        "type": "CursorPagination",
        "cursor_value": "{{ headers['link']['next']['url'] }}",
        "stop_condition": "{{ 'next' not in headers['link'] }}",
    }

    assert ids(run(api, paginator=paginator(strategy, token={"type": "RequestPath"}))) == [1, 2]
    assert [request.full_url for request in api.requests][1] == "https://api.example.com/items?at=2"


@pytest.mark.parametrize(
    "cursor",
    ["headers['Next-Page']", "headers['next-page']", "headers['NEXT-PAGE'] | default('')", "headers.get('Next-Page')"],
)
def test_a_header_that_the_last_page_lacks_is_the_end(cursor: str) -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1), headers={"Next-Page": "2"})
    api.get("/items", {"page": 2}).returns(json=rows(2))
    strategy = {"type": "CursorPagination", "cursor_value": f"{{{{ {cursor} }}}}"}

    result = run(api, paginator=paginator(strategy))

    assert (result.error, ids(result)) == (None, [1, 2])


def test_a_parameter_that_the_next_url_has_already_is_sent_once() -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1, next="https://api.example.com/items?at=2&state=open")).returns(json=rows(2))
    strategy = {"type": "CursorPagination", "cursor_value": "{{ response.next }}"}

    run(
        api,
        requester={"request_parameters": {"state": "open"}},
        paginator=paginator(strategy, token={"type": "RequestPath"}),
    )

    assert api.requests[1].full_url == "https://api.example.com/items?at=2&state=open"


@pytest.mark.parametrize(
    ("place", "sent"),
    [("header", {"page": "1", "limit": "2"}), ("body_json", b'{"page":1,"limit":2}'), ("body_data", b"page=1&limit=2")],
)
def test_tokens_and_sizes_go_where_they_are_told(place: str, sent: Any) -> None:
    api = MockApi()
    api.post("/items").returns(json=rows(1))
    strategy = {"type": "PageIncrement", "page_size": 2, "start_from_page": 1, "inject_on_first_request": True}
    pages = {
        "type": "DefaultPaginator",
        "pagination_strategy": strategy,
        "page_token_option": option("page", place),
        "page_size_option": option("limit", place),
    }

    run(api, requester={"http_method": "POST"}, paginator=pages)

    (request,) = api.requests
    assert (request.body if place != "header" else dict(request.headers)) == sent


STRATEGIES: list[dict[str, Any]] = [
    {"type": "OffsetIncrement"},
    {"type": "PageIncrement"},
    {"type": "CursorPagination", "cursor_value": "{{ response.next }}"},
]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy["type"])
@pytest.mark.parametrize("size", [-1, -20, "-5", "{{ 2 - 5 }}"])
def test_a_negative_page_size_is_refused(strategy: dict[str, Any], size: Any) -> None:
    made = run(MockApi(), paginator=paginator({**strategy, "page_size": size}, size=True))

    assert isinstance(made.error, ManifestError)
    assert f"{strategy['type']}.page_size: found -" in made.error.message


@pytest.mark.parametrize("size", [0, "0", "{{ 0 }}", "", None])
def test_a_page_size_of_0_is_none(size: Any) -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1, 2)).returns(json=rows(3)).returns(json=rows())

    assert ids(run(api, paginator=paginator({"type": "PageIncrement", "page_size": size}))) == [1, 2, 3]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy["type"])
@pytest.mark.parametrize("size", [{}, {"page_size": 0}])
def test_a_place_for_a_size_needs_a_size(strategy: dict[str, Any], size: dict[str, int]) -> None:
    made = run(MockApi(), paginator=paginator({**strategy, **size}, size=True))

    assert isinstance(made.error, ManifestError)
    assert "there is no page size to send" in made.error.message


def test_one_page_is_all_without_a_paginator() -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1, next="b"))

    assert ids(run(api, paginator={"type": "NoPagination"})) == [1]


@pytest.mark.parametrize(("limit", "warns"), [("2", True), ("3", False)])
def test_an_only_page_as_full_as_was_asked_for_is_warned_of(limit: str, *, warns: bool) -> None:
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}, {"id": 2}]})

    warnings = run(api, requester={"request_parameters": {"limit": limit}}).warnings

    assert ["there is a full page: `limit` requests 2 records" in each for each in warnings] == [True] * warns


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        (
            {"cursor_value": "{{ response.nxt }}"},
            "no 'nxt' in the body, whose fields are 'data', 'next', 'meta' (is it",
        ),
        ({"cursor_value": "{{ response['meta'].get('nxt') }}"}, "no 'nxt' in 'meta', whose fields are 'next' (is it"),
        ({"cursor_value": "{{ response.nxt or response.other }}"}, "no 'nxt' in the body"),
        ({"cursor_value": "{{ last_record['idd'] }}"}, "no 'idd' in the last record, whose fields are 'id' (is it"),
        ({"cursor_value": "{{ response.next }}", "stop_condition": "{{ not response.mtea }}"}, "(is it 'meta'?)"),
    ],
)
def test_an_only_page_without_the_field_that_names_the_next_is_warned_of(strategy: dict[str, str], words: str) -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1, next="b", meta={"next": "b"}))

    made = run(api, paginator=paginator({"type": "CursorPagination", **strategy}))

    assert (ids(made), made.error) == ([1], None)
    (warning,) = made.warnings
    assert words in warning


@pytest.mark.parametrize(
    ("condition", "size", "warns"),
    [
        ("{{ record.id > 9 }}", 2, True),
        ("{{ record.id > 1 }}", 2, True),
        ("{{ record.id > 1 }}", 3, False),
        ("{{ record.id > 0 }}", 2, False),
    ],
)
def test_a_full_page_that_ends_the_pages_since_a_filter_made_it_small_is_warned_of(
    condition: str,
    size: int,
    warns: bool,  # noqa: FBT001 - parametrized
) -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1, 2))
    api.get("/items", {"token": 2}).returns(json=rows())
    pages = {"cursor_value": "{{ last_record.id }}", "stop_condition": "{{ last_page_size < 2 }}", "page_size": size}

    made = run(
        api,
        paginator=paginator({"type": "CursorPagination", **pages}),
        selector={"record_filter": {"type": "RecordFilter", "condition": condition}},
    )

    assert ["there is a filter or an expander that leaves" in each for each in made.warnings] == [True] * warns


@pytest.mark.parametrize(
    "strategy",
    [
        {"cursor_value": "{{ response.next }}"},
        {"cursor_value": "{{ response.nxt or response.next }}"},
        {"cursor_value": "{{ headers['link']['next']['url'] }}"},
        {"cursor_value": "{{ last_record.id }}", "stop_condition": "{{ last_page_size < 100 }}"},
        {"cursor_value": "{{ response.nxt }}", "stop_condition": "{{ 'nxt' not in response }}"},
    ],
)
def test_a_page_that_says_it_is_the_last_is_not_warned_of(strategy: dict[str, str]) -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1, next=None))

    assert run(api, paginator=paginator({"type": "CursorPagination", **strategy})).warnings == []


def test_a_link_to_a_next_page_that_nobody_follows_is_warned_of() -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1), headers={"Link": '</items?page=2>; rel="next"'})

    assert 'a rel="next" in the header Link' in run(api).warnings[0]


@pytest.mark.parametrize("kind", ["PageIncrement", "OffsetIncrement"])
def test_a_page_behind_the_last_one_that_has_records_is_an_error_where_somebody_looks(kind: str) -> None:
    def read() -> Any:
        api = MockApi()
        api.get("/items").returns(json=rows(1, 2)).returns(json=rows(3, 4))
        return run(api, paginator=paginator({"type": kind, "page_size": 100}))

    unseen = read()
    with checking_pages_after_end():
        seen = read()

    assert (ids(unseen), unseen.error) == ([1, 2], None)
    assert [record["id"] for record in seen.records] == [1, 2]
    assert "returned 2 records, although the page before it, with 2, was treated as the last one" in str(seen.error)
