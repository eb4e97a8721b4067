from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk.base.errors import FatalError, ManifestError, TransientError
from cdk.declarative.model.context import Runtime
from cdk.rest import Headers, Request, Response
from cdk.testing import MockApi
from tests.declarative.manifests import CURSOR, ids, paginator, queries, run

DAYS = [f"2024-01-0{1 + number // 2}" for number in range(9)]
PAGES = paginator({"type": "OffsetIncrement", "page_size": 2}, size=True)
SPLITTING = {**CURSOR, "step": "P1Y", "cursor_granularity": "P1D"}


def api_of(refuses: Callable[[Mapping[str, Any]], bool] = lambda _: False) -> MockApi:
    """Nine items, two on each day, in order. refuses: whether a request is answered with 400."""

    def answer(request: Request) -> Response:
        asked = request.params
        rows = [{"id": n, "on": day} for n, day in enumerate(DAYS) if asked["since"] <= day <= asked["until"]]
        first, size = int(asked.get("page", 0)), int(asked["limit"])
        status = 400 if refuses(asked) else 200
        return Response(status, Headers({}), orjson.dumps({"data": rows[first : first + size]}), request.url, request)

    api = MockApi()
    api.get("/items").answers(answer)
    return api


def on_400(action: str) -> dict[str, Any]:
    told = [{"type": "HttpResponseFilter", "http_codes": [400], "action": action}]
    return {"error_handler": {"type": "DefaultErrorHandler", "response_filters": told}}


def windows(api: MockApi) -> list[tuple[Any, Any]]:
    return [(asked["since"], asked["until"]) for asked in queries(api) if "page" not in asked]


def test_a_slice_with_too_many_records_goes_on_from_the_greatest_of_them() -> None:
    api = api_of()
    reset = {"type": "PaginationReset", "action": "SPLIT_USING_CURSOR", "limits": {"number_of_records": 4}}

    made = run(api, stream={"incremental_sync": CURSOR}, paginator=PAGES, pagination_reset=reset)

    assert set(ids(made)) == set(range(9))
    assert [since for since, _ in windows(api)] == ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"]
    assert any("will be emitted twice" in line for line in made.logs)
    assert made.states[-1] == {"on": "2024-01-05"}


def test_a_slice_with_too_many_records_does_not_go_on_from_a_date_in_the_future() -> None:
    days = {n: "2199-01-01" if n == 1 else day for n, day in enumerate(DAYS)}

    def answer(request: Request) -> Response:
        since, first = request.params["since"], int(request.params.get("page", 0))
        rows = [{"id": n, "on": day} for n, day in days.items() if since <= day]
        return Response(200, Headers({}), orjson.dumps({"data": rows[first : first + 2]}), request.url, request)

    api = MockApi()
    api.get("/items").answers(answer)
    reset = {"type": "PaginationReset", "action": "SPLIT_USING_CURSOR", "limits": {"number_of_records": 4}}

    made = run(api, stream={"incremental_sync": CURSOR}, paginator=PAGES, pagination_reset=reset)

    assert set(ids(made)) == set(range(9))


@pytest.mark.parametrize(("limits", "status"), [({}, 400), ({"limits": {"number_of_records": 4}}, 200)])
def test_a_page_token_that_says_nothing_of_what_came_before_it_loses_nothing(
    limits: dict[str, Any], status: int
) -> None:
    """status: of an answer behind four records, in which there are none."""
    is_up, days = False, [*DAYS, "2024-01-15"]

    def answer(request: Request) -> Response:
        asked, first = request.params, int(request.params.get("page", 0))
        if first >= 4 and not is_up:
            raise FatalError("the server is down")
        rows = [{"id": n, "on": day} for n, day in enumerate(days) if asked["since"] <= day <= asked["until"]]
        data = rows[first : first + 2] if first < 4 else []
        body = orjson.dumps({"data": data})
        return Response(200 if first < 4 else status, Headers({}), body, request.url, request)

    api = MockApi()
    api.get("/items").answers(answer)
    parts: dict[str, Any] = {
        "stream": {"incremental_sync": {**SPLITTING, "step": "P10D"}},
        "requester": on_400("RESET_PAGINATION"),
        "paginator": PAGES,
    }
    reset = {"type": "PaginationReset", "action": "SPLIT_USING_CURSOR", **limits}
    first = run(api, **parts)
    is_up = True

    second = run(api, state=first.state_messages, **parts, pagination_reset=reset)

    assert isinstance(first.error, FatalError)
    assert {record["id"] for record in first.records} | set(ids(second)) == set(range(10))


def test_a_slice_that_does_not_get_smaller_is_an_error() -> None:
    reset = {"type": "PaginationReset", "action": "SPLIT_USING_CURSOR", "limits": {"number_of_records": 2}}

    made = run(api_of(), stream={"incremental_sync": CURSOR}, paginator=PAGES, pagination_reset=reset)

    assert isinstance(made.error, FatalError)
    assert "no record is newer" in made.error.message


def test_pages_begin_anew_once() -> None:
    refused: list[int] = []

    def first_time(asked: Mapping[str, Any]) -> bool:
        return asked.get("page") == "4" and not refused and not refused.append(1)  # type: ignore[func-returns-value]

    made = run(
        api_of(first_time),
        stream={"incremental_sync": CURSOR},
        requester=on_400("RESET_PAGINATION"),
        paginator=PAGES,
        pagination_reset={"type": "PaginationReset", "action": "RESET"},
    )

    assert ids(made) == [0, 1, 2, 3, *range(9)]


def test_an_api_may_ask_for_the_first_page_where_the_manifest_says_nothing_of_it() -> None:
    refused: list[int] = []

    def first_time(asked: Mapping[str, Any]) -> bool:
        return asked.get("page") == "4" and not refused and not refused.append(1)  # type: ignore[func-returns-value]

    def always(asked: Mapping[str, Any]) -> bool:
        return asked.get("page") == "4"

    told: dict[str, Any] = {
        "stream": {"incremental_sync": CURSOR},
        "requester": on_400("RESET_PAGINATION"),
        "paginator": PAGES,
    }
    once, for_ever = run(api_of(first_time), **told), run(api_of(always), **told)

    assert ids(once) == [0, 1, 2, 3, *range(9)]
    assert isinstance(for_ever.error, FatalError)
    assert "already read again from the start" in for_ever.error.message


def test_pages_do_not_begin_anew_for_ever() -> None:
    api = api_of(lambda asked: "page" in asked)

    made = run(
        api,
        stream={"incremental_sync": CURSOR},
        requester=on_400("RESET_PAGINATION"),
        paginator=PAGES,
        pagination_reset={"type": "PaginationReset", "action": "RESET"},
    )

    assert isinstance(made.error, FatalError)
    assert len(api.requests) == 4


def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones() -> None:
    waits: list[float] = []
    api = api_of(lambda asked: int(asked["limit"]) > 2 and asked.get("page") == "8")

    made = run(
        api,
        stream={"incremental_sync": CURSOR},
        requester=on_400("REDUCE_PAGE_SIZE"),
        paginator=paginator({"type": "OffsetIncrement", "page_size": 8}, size=True),
        page_size_reduction={"type": "PageSizeReduction"},
        runtime=Runtime(sleep=waits.append),
    )

    assert ids(made) == [*range(9)]
    assert [asked["limit"] for asked in queries(api)] == ["8", "8", "4", "2"]
    assert waits == [0.5, 1.0]


def test_a_page_that_came_may_make_the_next_large_again() -> None:
    api = api_of(lambda asked: int(asked["limit"]) > 4 and asked.get("page") == "4")

    made = run(
        api,
        stream={"incremental_sync": CURSOR},
        requester=on_400("REDUCE_PAGE_SIZE"),
        paginator=paginator({"type": "OffsetIncrement", "page_size": 8}, size=True),
        page_size_reduction={"type": "PageSizeReduction", "reset_policy": "AFTER_SUCCESSFUL_PAGE"},
        runtime=Runtime(sleep=lambda _: None),
    )

    assert ids(made) == [*range(9)]
    assert [asked["limit"] for asked in queries(api)] == ["8", "8"]


PAGINATIONS: Mapping[str, Mapping[str, Any]] = {
    "offset": {"type": "OffsetIncrement"},
    "cursor": {
        "type": "CursorPagination",
        "cursor_value": "{{ last_record.id + 1 }}",
        "stop_condition": "{{ last_page_size < page_size }}",
    },
}


@given(
    count=st.integers(1, 30),
    size=st.integers(2, 16),
    most=st.dictionaries(st.integers(0, 29), st.integers(1, 4), max_size=3),
    pages=st.sampled_from(sorted(PAGINATIONS)),
    reduction=st.fixed_dictionaries(
        {
            "reduction_factor": st.sampled_from([1.5, 2, 3]),
            "reset_policy": st.sampled_from(["NEVER", "AFTER_SUCCESSFUL_PAGE"]),
        }
    ),
)
@example(20, 4, {7: 2}, "offset", {"reset_policy": "AFTER_SUCCESSFUL_PAGE"})
@settings(deadline=None, max_examples=60)
def test_pages_that_shrink_and_grow_bring_each_record_once(
    count: int, size: int, most: dict[int, int], pages: str, reduction: dict[str, Any]
) -> None:
    """most: how large a page may be that holds a record, by the number of that."""

    def answer(request: Request) -> Response:
        begin, asked = int(request.params.get("page", 0)), int(request.params["limit"])
        data = [{"id": n} for n in range(count)[begin : begin + asked]]
        status = 400 if any(asked > most.get(record["id"], asked) for record in data) else 200
        return Response(status, Headers({}), orjson.dumps({"data": data}), request.url, request)

    api = MockApi()
    api.get("/items").answers(answer)

    made = run(
        api,
        requester=on_400("REDUCE_PAGE_SIZE"),
        paginator=paginator({**PAGINATIONS[pages], "page_size": size}, size=True),
        page_size_reduction={"type": "PageSizeReduction", "max_attempts": 8, **reduction},
        runtime=Runtime(sleep=lambda _: None),
    )

    assert ids(made) == [*range(count)]


@pytest.mark.parametrize(
    ("told", "sizes"),
    [
        ({}, ["8", "4", "2", "1"]),
        ({"minimum_page_size": 3}, ["8", "4", "3"]),
        ({"max_attempts": 2}, ["8", "4", "2"]),
        ({"minimum_page_size": 4, "retries_at_minimum_page_size": 2}, ["8", "4", "4", "4"]),
    ],
)
def test_pages_do_not_shrink_for_ever(told: dict[str, Any], sizes: list[str]) -> None:
    api = api_of(lambda _: True)

    made = run(
        api,
        stream={"incremental_sync": CURSOR},
        requester=on_400("REDUCE_PAGE_SIZE"),
        paginator=paginator({"type": "OffsetIncrement", "page_size": 8}, size=True),
        page_size_reduction={"type": "PageSizeReduction", "failure_message": "Take fewer fields.", **told},
        runtime=Runtime(sleep=lambda _: None),
    )

    assert isinstance(made.error, TransientError)
    assert "Take fewer fields." in made.error.message
    assert [asked["limit"] for asked in queries(api)] == sizes


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"paginator": paginator({"type": "PageIncrement", "page_size": 8}, size=True)}, "numbered pages"),
        ({"paginator": paginator({"type": "OffsetIncrement", "page_size": 8})}, "no page_size_option"),
        ({}, "no page size to reduce"),
        ({"paginator": paginator({"type": "OffsetIncrement", "page_size": 1}, size=True)}, "less than the page size"),
        (
            {
                "paginator": paginator(
                    {
                        "type": "CursorPagination",
                        "cursor_value": "{{ last_record.id }}",
                        "page_size": 8,
                        "stop_condition": "{{ last_page_size < 8 }}",
                    },
                    size=True,
                )
            },
            "compare it with page_size",
        ),
    ],
)
def test_only_pages_with_a_size_can_shrink(parts: dict[str, Any], why: str) -> None:
    made = run(MockApi(), page_size_reduction={"type": "PageSizeReduction"}, **parts)

    assert isinstance(made.error, ManifestError)
    assert why in made.error.message


def long(asked: Mapping[str, Any]) -> bool:
    """Whether a window is longer than a week and has items."""
    return asked["since"] <= "2024-01-03" and int(asked["until"][-2:]) - int(asked["since"][-2:]) > 6


def test_a_window_that_is_too_large_is_read_in_halves() -> None:
    api = api_of(long)

    made = run(
        api,
        stream={"incremental_sync": SPLITTING},
        requester=on_400("SPLIT_REQUEST_WINDOW"),
        paginator=PAGES,
        request_window_splitting={"type": "RequestWindowSplitting"},
    )

    assert ids(made) == [*range(9)]
    assert windows(api) == [
        ("2024-01-01", "2024-01-31"),
        ("2024-01-01", "2024-01-15"),
        ("2024-01-01", "2024-01-07"),
        ("2024-01-08", "2024-01-15"),
        ("2024-01-16", "2024-01-31"),
    ]
    assert made.states[-1] == {"on": "2024-01-05"}


def test_a_read_that_is_cut_in_a_half_goes_on_there() -> None:
    parts: dict[str, Any] = {
        "stream": {"incremental_sync": SPLITTING},
        "requester": on_400("SPLIT_REQUEST_WINDOW"),
        "paginator": PAGES,
        "request_window_splitting": {"type": "RequestWindowSplitting"},
    }
    api = api_of(lambda asked: long(asked) or (asked["until"] == "2024-01-07" and asked.get("page") == "4"))
    first = run(
        api, **{**parts, "request_window_splitting": {"type": "RequestWindowSplitting", "min_split_window": "P6D"}}
    )
    assert isinstance(first.error, TransientError)

    rest = api_of(long)
    second = run(rest, state=first.state_messages, **parts)

    assert [record["id"] for record in first.records] == [0, 1, 2, 3]
    # The last record is met again by the window that brings what is newer.
    assert ids(second) == [4, 5, 6, 7, 8, 8]
    assert queries(rest)[0] == {"since": "2024-01-01", "until": "2024-01-07", "page": "4", "limit": "2"}


def test_a_window_that_cannot_be_cut_is_an_error() -> None:
    api = api_of(lambda _: True)

    made = run(
        api,
        stream={"incremental_sync": SPLITTING},
        requester=on_400("SPLIT_REQUEST_WINDOW"),
        paginator=PAGES,
        request_window_splitting={"type": "RequestWindowSplitting", "failure_message": "Narrow it."},
    )

    assert isinstance(made.error, TransientError)
    assert "Narrow it." in made.error.message
    assert windows(api)[-1] == ("2024-01-01", "2024-01-01")


def test_recoveries_need_a_cursor() -> None:
    reset = run(MockApi(), pagination_reset={"type": "PaginationReset", "action": "SPLIT_USING_CURSOR"})
    split = run(MockApi(), request_window_splitting={"type": "RequestWindowSplitting"})

    assert isinstance(reset.error, ManifestError)
    assert isinstance(split.error, ManifestError)
