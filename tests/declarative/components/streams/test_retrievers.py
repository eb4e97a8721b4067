import pickle
from typing import Any

import pytest

from cdk.base.errors import FatalError, PaginationLoop
from cdk.protocol.messages import AirbyteStateMessage
from cdk.rest import Headers, Response
from cdk.testing import MockApi
from tests.declarative.manifests import CURSOR, ids, option, paginator, queries, run, source

NEXT = paginator({"type": "CursorPagination", "cursor_value": "{{ response.next }}"})
REGIONS = {
    "type": "ListPartitionRouter",
    "cursor_field": "region",
    "values": ["eu"],
    "request_option": option("region"),
}


def rows(*numbers: int, **body: Any) -> dict[str, Any]:
    return {"data": [{"id": number} for number in numbers], **body}


def dated(*days: str, **body: Any) -> dict[str, Any]:
    return {"data": [{"id": day, "on": f"2024-01-{day}"} for day in days], **body}


def test_slices_are_told_with_each_page() -> None:
    api = MockApi()
    api.get("/items").returns(json=dated("02", next="b")).returns(json=dated("03"))

    assert ids(run(api, paginator=NEXT, partition_router=REGIONS, stream={"incremental_sync": CURSOR})) == ["02", "03"]
    window = {"since": "2024-01-01", "until": "2024-01-31"}
    assert queries(api) == [{"region": "eu", **window}, {"page": "b", "region": "eu", **window}]


def test_slices_may_be_told_with_the_first_page_only() -> None:
    api = MockApi()
    api.get("/items").returns(json=dated("02", next="b")).returns(json=dated("03"))

    run(
        api,
        paginator=NEXT,
        partition_router=REGIONS,
        stream={"incremental_sync": CURSOR},
        requester={"request_parameters": {"state": "open"}},
        ignore_stream_slicer_parameters_on_paginated_requests=True,
    )

    first, second = queries(api)
    assert first == {"state": "open", "region": "eu", "since": "2024-01-01", "until": "2024-01-31"}
    assert second == {"state": "open", "page": "b"}


def test_requests_see_the_token_of_their_page() -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1, next="b")).returns(json=rows(2))
    shown = {"request_parameters": {"at": "{{ next_page_token['next_page_token'] if next_page_token else 'start' }}"}}

    run(api, requester=shown, paginator={**NEXT, "page_token_option": None})

    assert queries(api) == [{"at": "start"}, {"at": "b"}]


def test_an_ignored_answer_is_an_empty_last_page() -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1, next="b")).returns(status=404, json={"next": "c"})
    ignores = [{"type": "HttpResponseFilter", "http_codes": [404], "action": "IGNORE"}]

    made = run(
        api, requester={"error_handler": {"type": "DefaultErrorHandler", "response_filters": ignores}}, paginator=NEXT
    )

    assert ids(made) == [1]


def test_a_redirect_that_leads_nowhere_is_an_error_unless_a_filter_says_otherwise() -> None:
    api = MockApi()
    route = api.get("/items")
    for _ in range(2):
        route.returns(json=rows(1, next="b")).returns(status=302, json=rows())
    trusts = [{"type": "HttpResponseFilter", "http_codes": [302], "action": "SUCCESS"}]
    handler = {"error_handler": {"type": "DefaultErrorHandler", "response_filters": trusts}}

    assert "answered 302 Found; the redirect cannot be followed" in str(run(api, paginator=NEXT).error)
    assert ids(run(api, requester=handler, paginator=NEXT)) == [1]


@pytest.mark.parametrize("tokens", [["b", "b"], ["b", "c", "b", "c", "b", "c"]])
def test_pages_that_go_round_in_a_circle_are_an_error(tokens: list[str]) -> None:
    api = MockApi()
    route = api.get("/items")
    for token in tokens:
        route.returns(json=rows(1, next=token))

    assert isinstance(run(api, paginator=NEXT).error, PaginationLoop)


def cut(api: MockApi) -> list[AirbyteStateMessage]:
    """The state of a read that was cut after its first page."""
    api.get("/items").returns(json=dated("02", "03", next="b")).returns(status=400, json={})
    made = run(api, paginator=NEXT, stream={"incremental_sync": CURSOR})
    assert isinstance(made.error, FatalError)
    api.requests.clear()
    api.get("/items").returns(json=dated())
    return made.state_messages


def test_a_cut_read_goes_on_with_the_token_of_its_page() -> None:
    api = MockApi()
    state = cut(api)
    api.get("/items", {"page": "b"}).returns(json=dated("04"))

    made = run(api, paginator=NEXT, stream={"incremental_sync": CURSOR}, state=state)

    assert ids(made) == ["04"]
    assert queries(api)[0] == {"page": "b", "since": "2024-01-01", "until": "2024-01-31"}


def test_a_saved_token_that_is_refused_starts_the_slice_again() -> None:
    api = MockApi()
    state = cut(api)
    api.get("/items", {"since": "2024-01-01"}).returns(json=dated("02", "03", "04"))
    api.get("/items", {"page": "b"}).returns(status=400, json={})

    made = run(api, paginator=NEXT, stream={"incremental_sync": CURSOR}, state=state)

    assert ids(made) == ["02", "03", "04"]
    assert [query.get("page") for query in queries(api)][:2] == ["b", None]
    assert any("was rejected" in line for line in made.logs)


def test_a_token_that_is_refused_in_the_same_read_is_an_error() -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1, next="b")).returns(status=400, json={})

    assert isinstance(run(api, paginator=NEXT).error, FatalError)
    assert len(api.requests) == 2


def test_a_feed_ends_with_the_first_record_that_is_too_old() -> None:
    api = MockApi()
    feed = {**CURSOR, "start_datetime": "2024-01-03", "is_data_feed": True}
    api.get("/items").returns(json=dated("05", "04", next="b")).returns(json=dated("03", "02", next="c"))

    assert ids(run(api, paginator=NEXT, stream={"incremental_sync": feed})) == ["05", "04", "03"]
    assert len(api.requests) == 2


def test_records_out_of_the_window_are_dropped_where_the_source_does_not_filter() -> None:
    api = MockApi()
    plain = {**CURSOR, "start_datetime": "2024-01-03", "is_client_side_incremental": True}
    api.get("/items").returns(json=dated("05", "02", next="b")).returns(json=dated("01", "03"))

    assert ids(run(api, paginator=NEXT, stream={"incremental_sync": plain})) == ["05", "03"]


def test_the_cursor_may_come_of_a_transformation() -> None:
    api = MockApi()
    plain = {**CURSOR, "start_datetime": "2024-01-03", "is_client_side_incremental": True}
    adds = [{"type": "AddFields", "fields": [{"path": ["on"], "value": "2024-01-{{ record.id }}"}]}]
    api.get("/items").returns(json={"data": [{"id": "02"}, {"id": "03"}]})

    made = run(api, stream={"incremental_sync": plain, "transformations": adds})

    assert [record["id"] for record in made.records] == ["03"]


def parents(**child: Any) -> dict[str, Any]:
    """A router over two folders that bring the first page of their items, and one that brings nothing."""
    parent = {
        "type": "DeclarativeStream",
        "name": "folders",
        "primary_key": "id",
        "schema_loader": {"type": "InlineSchemaLoader", "schema": {"type": "object", "properties": {}}},
        "retriever": {
            "type": "SimpleRetriever",
            "requester": {"type": "HttpRequester", "url": "https://api.example.com/folders"},
            "record_selector": {"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": []}},
        },
    }
    config = {
        "type": "ParentStreamConfig",
        "stream": parent,
        "parent_key": "id",
        "partition_field": "folder",
        "lazy_read_pointer": ["items"],
    }
    return {
        "partition_router": {"type": "SubstreamPartitionRouter", "parent_stream_configs": [config]},
        "requester": {"url": "https://api.example.com/folders/{{ stream_partition.folder }}/items"},
        "paginator": NEXT,
        **child,
    }


def folders(api: MockApi) -> None:
    found = [{"id": "f", "items": dated("02", next="b")}, {"id": "g", "items": dated("03")}, {"id": "h", "items": []}]
    api.get("/folders").returns(json=found)
    api.get("/folders/f/items").returns(json=dated("04"))


def test_the_first_page_comes_of_the_parent_where_it_brings_it() -> None:
    api = MockApi()
    folders(api)

    assert ids(run(api, **parents())) == ["02", "04", "03"]
    assert [request.full_url for request in api.requests] == [
        "https://api.example.com/folders",
        "https://api.example.com/folders/f/items?page=b",
    ]


@pytest.mark.parametrize("record", [{}, {"items": None}, {"items": {}}])
def test_a_first_page_that_the_parent_does_not_bring_is_requested(record: dict[str, Any]) -> None:
    api = MockApi()
    api.get("/folders").returns(json=[{"id": "f", **record}, {"id": "g", "items": dated("03")}])
    api.get("/folders/f/items").returns(json=dated("02", next="b"))
    api.get("/folders/f/items", {"page": "b"}).returns(json=dated("04"))

    assert ids(run(api, **parents())) == ["02", "04", "03"]


def test_what_has_a_state_is_asked_for_with_its_window() -> None:
    api = MockApi()
    folders(api)
    stream = {"incremental_sync": CURSOR}
    state = run(api, **parents(stream=stream)).state_messages
    api.requests.clear()
    for folder in "fgh":
        api.get(f"/folders/{folder}/items").returns(json=dated("09"))

    run(api, state=state, **parents(stream=stream))

    assert [query["since"] for query in queries(api) if query] == ["2024-01-04", "2024-01-03"]


def test_a_slice_can_travel() -> None:
    api = MockApi()
    api.get("/items").returns(json=rows(1))
    (stream,) = source(api, partition_router=REGIONS).streams({})
    (partition,) = stream.partitions()

    assert pickle.loads(pickle.dumps(partition)) == partition  # noqa: S301 - what was just written


def test_a_body_that_is_not_json_is_named() -> None:
    api = MockApi()
    html = Headers({"Content-Type": "text/html"})
    api.get("/items").answers(lambda request: Response(200, html, b"<html>", request.url, request))

    made = run(api)

    assert made.error is not None
    assert "not JSON" in str(made.error)


def test_an_answer_without_content_has_no_records_and_ends_the_pages() -> None:
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}, {"id": 2}]})
    api.get("/items", {"page": "2"}).returns(status=204, body=b"")
    strategy = {"type": "OffsetIncrement", "page_size": 2}

    assert ids(run(api, paginator=paginator(strategy, size=True))) == [1, 2]
