"""Detection of records and paginators, on mock APIs of each kind."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import orjson
import pytest

from cdk import ConfigError
from cdk.authoring.detection import Detection, detect_pages
from cdk.base.values import as_object
from cdk.rest import Headers, Request, Response
from cdk.testing import MockApi
from tests.declarative.manifests import URL, option, paginator, source

POSTED: Sequence[tuple[dict[str, Any], str, str]] = (
    ({"request_body_json": {"page": 1, "kind": "'3'"}}, "body_json", "page number in `page`"),
    ({"request_body_json": {"offset": 0, "limit": 20}}, "body_json", "offset in `offset`, 20 records a page"),
    (
        {"request_body": {"type": "RequestBodyJsonObject", "value": {"cursor": "n0"}}},
        "body_json",
        "`cursor`, with `paging.next_cursor` of the body",
    ),
    ({"request_body_json": {"kind": "'3'"}}, "body_json", "`cursor`, with `paging.next_cursor` of the body"),
    (
        {"request_body": {"type": "RequestBodyUrlEncodedForm", "value": {"page": "1", "kind": "3"}}},
        "body_data",
        "page number in `page`",
    ),
    ({"request_body_data": {"offset": "0", "limit": "20"}}, "body_data", "offset in `offset`, 20 records a page"),
)
ROWS = [{"id": n, "tags": [{"x": n}]} for n in range(1, 46)]
Answer: TypeAlias = Callable[[Mapping[str, str]], Any]


def detect(answer: Answer, **parts: Any) -> Detection:
    """What is detected of an API that answers the parameters of a request with a body, or a body and headers."""
    api = MockApi()

    def respond(request: Request) -> Response:
        made = answer(dict(parse_qsl(urlsplit(request.full_url).query)))
        body, headers = made if isinstance(made, tuple) else (made, {})
        return Response(200, Headers(headers), orjson.dumps(body), request.full_url, request)

    api.get("/items").answers(respond)
    return detect_pages(source(api, **parts), {}, "items")


def rows(begin: int, size: int = 20) -> list[Any]:
    return ROWS[begin : begin + size]


def by_page(query: Mapping[str, str]) -> Any:
    return {"meta": {"ok": True}, "result": {"list": rows((int(query.get("page", 1)) - 1) * 20)}}


def by_offset(query: Mapping[str, str]) -> Any:
    return rows(int(query.get("offset", 0)), int(query.get("limit", 20)))


def by_echo(query: Mapping[str, str]) -> Any:
    page = int(query.get("pageNumber", 0))
    return {"items": rows(page * 10, 10), "paging": {"pageNumber": page, "pageSize": 10, "total": 45}}


def by_token(query: Mapping[str, str]) -> Any:
    begin = int(query.get("cursor", "n0")[1:])
    return {"data": rows(begin), "paging": {"next_cursor": f"n{begin + 20}"}, "cursor": query.get("cursor")}


def by_token_to_the_end(query: Mapping[str, str]) -> Any:
    begin = int(query.get("cursor", "n0")[1:])
    return {"data": rows(begin), "next_cursor": f"n{begin + 20}" if begin < 40 else None}


def by_url(query: Mapping[str, str]) -> Any:
    begin = int(query.get("from_row", 0))
    return {"data": rows(begin), "links": {"next": f"/items?from_row={begin + 20}"}}


def by_link(query: Mapping[str, str]) -> Any:
    begin = int(query.get("p", 0))
    return rows(begin), {"Link": f'<{URL}?p={begin + 20}>; rel="next"'}


@pytest.mark.parametrize(
    ("answer", "requester", "path", "what", "strategy"),
    [
        (by_page, {}, ("result", "list"), "page number in `page`, the first is 1", "PageIncrement"),
        (by_page, {"request_parameters": {"page": "1"}}, ("result", "list"), "page number in `page`", "PageIncrement"),
        (by_offset, {}, (), "offset in `offset`, 20 records a page in `limit`", "OffsetIncrement"),
        (by_echo, {}, ("items",), "page number in `pageNumber`, the first is 0, 10 records", "PageIncrement"),
        (by_token, {"request_parameters": {"cursor": "n0"}}, ("data",), "`cursor`, with `paging.next_", "CursorPagin"),
        (by_url, {}, ("data",), "the URL in `links.next` of the body", "CursorPagination"),
        (by_link, {}, (), "the header `Link`", "CursorPagination"),
    ],
)
def test_records_and_pages_of_each_kind_are_found_and_tried(
    answer: Answer, requester: dict[str, Any], path: tuple[str, ...], what: str, strategy: str
) -> None:
    found = detect(answer, requester=requester)

    assert (found.path, found.best and found.best.works) == (path, True)
    assert found.best is not None
    assert what in found.best.guess.what
    assert f"{{'type': '{strategy}" in str(found.best.retriever["paginator"])
    assert "other records" in found.best.why
    assert len(found.exchanges) <= 11


@pytest.mark.parametrize(("body", "part", "what"), POSTED)
def test_pages_that_a_body_asks_for_are_found_and_tried(body: dict[str, Any], part: str, what: str) -> None:
    api = MockApi()

    def respond(request: Request) -> Response:
        text = request.body or b"{}"
        sent = dict(orjson.loads(text)) if text[:1] == b"{" else dict(parse_qsl(text.decode()))
        assert sent.get("kind", "3") == "3"
        asks = by_offset if "offset" in what else by_token if "cursor" in what else by_page
        return Response(200, Headers({}), orjson.dumps(asks(sent)), request.full_url, request)

    api.post("/items").answers(respond)

    found = detect_pages(source(api, requester={"http_method": "POST", **body}), {}, "items")

    assert found.best is not None
    assert (found.best.works, found.best.guess.what.startswith(f"pagination: {what}")) == (True, True)
    assert as_object(as_object(found.best.retriever["paginator"])["page_token_option"])["inject_into"] == part


@pytest.mark.parametrize(
    ("limit", "body", "doubt"),
    [
        (20, {}, "a full page: `limit` requests 20 records, and as many were returned, so there are probably more"),
        (30, {}, ""),
        (20, {"total": 20}, ""),
    ],
)
def test_a_page_that_is_as_full_as_was_asked_for_is_a_doubt(limit: int, body: dict[str, Any], doubt: str) -> None:
    found = detect(
        lambda query: {"items": rows(0) if set(query) == {"limit"} else [], **body},
        requester={"request_parameters": {"limit": limit}},
    )

    assert (found.best, found.doubt) == (None, doubt)


def test_a_page_number_that_the_api_ignores_is_no_paginator() -> None:
    found = detect(lambda _: rows(0))

    assert found.best is None
    assert [(each.works, each.why.partition(",")[0]) for each in found.trials] == [
        (False, "2 pages in a row are the same"),
        (False, "2 pages in a row are the same"),
        (False, "2 pages in a row are the same"),
    ]


@pytest.mark.parametrize(("size", "why"), [(20, "has other records than"), (50, "is empty")])
def test_pages_that_count_from_0_are_read_from_their_first(size: int, why: str) -> None:
    found = detect(lambda query: rows(int(query.get("page", 0)) * size, size))

    assert found.best is not None
    assert (found.best.works, "the first is 0" in found.best.guess.what) == (True if size < len(ROWS) else None, True)
    assert (found.trials[0].works, f"its first page {why}" in found.trials[0].why) == (False, True)


def test_a_page_number_from_which_no_page_has_records_is_no_paginator() -> None:
    found = detect(lambda query: [] if query else rows(0))

    assert (found.best, {each.why for each in found.trials}) == (None, {"its first page is empty"})


@pytest.mark.parametrize("cursor", ["n20", "n40"])
def test_the_cursor_of_a_later_page_is_found_from_the_first_one(cursor: str) -> None:
    found = detect(by_token_to_the_end, requester={"request_parameters": {"cursor": cursor}})

    assert found.best is not None
    assert (found.best.works, found.best.guess.what) == (True, "pagination: `cursor`, with `next_cursor` of the body")
    assert found.best.retriever["requester"] == {"request_parameters": {}}


def test_a_way_of_which_this_response_has_no_next_page_may_work() -> None:
    found = detect(lambda _: {"data": rows(0), "next_page_url": None})

    assert found.best is not None
    assert (found.best.works, found.best.guess.what) == (None, "pagination: the URL in `next_page_url` of the body")
    assert found.best.why.startswith("the first response has no next page")


def test_an_offset_that_the_api_takes_for_a_filter_is_no_paginator() -> None:
    found = detect(lambda query: [] if "offset" in query else rows(0))

    assert found.best is None
    assert [(each.works, each.why) for each in found.trials if "offset" in each.guess.what] == [
        (None, "the next page is empty")
    ]


@pytest.mark.parametrize("name", ["Next-Page", "X-Next", "Next-Url"])
def test_a_header_may_have_the_url_of_the_next_page(name: str) -> None:
    def by_header(query: Mapping[str, str]) -> Any:
        begin = int(query.get("_token", 0))
        return rows(begin), {name: f"{URL}?_token={begin + 20}"} if begin < 40 else {}

    found = detect(by_header)

    assert found.best is not None, found.trials[0].why
    assert (found.best.works, found.best.guess.what) == (True, f"pagination: the URL in the header `{name.lower()}`")
    assert as_object(found.best.retriever["paginator"])["page_token_option"] == {"type": "RequestPath"}


def test_a_header_that_has_the_number_of_the_next_page_is_no_url() -> None:
    def by_number(query: Mapping[str, str]) -> Any:
        page = int(query.get("page", 1))
        return rows((page - 1) * 20), {"X-Next-Page": f"{page + 1}"}

    found = detect(by_number)

    assert found.best is not None
    assert found.best.guess.what.startswith("pagination: page number in `page`")


def test_fixed_parameters_that_the_paginator_sends_are_left_out() -> None:
    found = detect(by_page, requester={"request_parameters": {"page": "1", "kind": "x"}})

    assert found.best is not None
    assert found.best.retriever["requester"] == {"request_parameters": {"kind": "x"}}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"name": "ann"}, "the response is an object without a list of objects, expected records"),
        ({"data": []}, "found `data` empty, expected records"),
        ([], "found the body empty, expected records"),
        ({"rows": [[1]], "suggested_facets": [{"name": "a"}]}, "found `rows` a list whose first element is a list"),
        ({"items": ["a"]}, "found `items` a list whose first element is a string, expected objects"),
    ],
    ids=str,
)
def test_a_response_without_records_says_so(body: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        detect(lambda _: body)


def test_the_paginator_that_the_manifest_has_is_tried_first() -> None:
    own = paginator({"type": "CursorPagination", "cursor_value": "{{ response.here }}"}, token=option("from_here"))

    def answer(query: Mapping[str, str]) -> Any:
        begin = int(query.get("from_here", 0))
        return {"items": rows(begin), "here": begin + 20}

    (trial,) = detect(answer, paginator=own).trials

    assert (trial.guess.what, trial.works) == ("the paginator that the manifest has", True)
    assert trial.retriever == {"paginator": own}


def test_lists_that_may_be_meant_instead_are_named() -> None:
    found = detect(lambda _: {"results": rows(0, 3), "more": rows(0, 2), "links": [{"rel": "self"}]})

    assert (found.path, len(found.records), found.others) == (("results",), 3, {"`more`": 2})


def test_a_stream_that_the_manifest_does_not_list_is_named_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"has no 'itms' with a SimpleRetriever; did you mean 'items'\?"):
        detect_pages(source(MockApi()), {}, "itms")
