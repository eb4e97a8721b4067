from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdk.base.errors import ManifestError
from cdk.base.values import Json
from cdk.declarative.model.context import Runtime
from cdk.declarative.model.query_properties import by_length
from cdk.rest import Headers, Request, Response
from cdk.testing import MockApi
from tests.declarative.manifests import paginator, queries, run

SHOWN = {"request_parameters": {"fields": "{{ query_properties | join(',') }}"}}
CHUNKS = {
    "type": "PropertyChunking",
    "property_limit_type": "property_count",
    "property_limit": 2,
    "record_merge_strategy": {"type": "GroupByKeyMergeStrategy", "key": "id"},
}


def asked(**fields: Any) -> dict[str, Any]:
    return {"type": "QueryProperties", "property_list": ["a", "b", "c"], **fields}


def rows(request: Request) -> Response:
    """Two records with the properties that a request names."""
    names = [name for name in str(request.params["fields"]).split(",") if name != "id"]
    data = [{"id": n, "of": dict.fromkeys(names, n), **{name: f"{name}{n}" for name in names}} for n in (1, 2)]
    return Response(200, Headers({}), orjson.dumps({"data": data}), request.url, request)


def test_all_properties_are_asked_for_at_once() -> None:
    api = MockApi()
    api.get("/items").answers(rows)

    assert len(run(api, requester={**SHOWN, "query_properties": asked()}).records) == 2
    assert queries(api) == [{"fields": "a,b,c"}]


def test_records_of_several_requests_become_one() -> None:
    api = MockApi()
    api.get("/items").answers(rows)
    properties = asked(always_include_properties=["id"], property_chunking=CHUNKS)

    made = run(api, requester={**SHOWN, "query_properties": properties})

    assert queries(api) == [{"fields": "id,a,b"}, {"fields": "id,c"}]
    assert made.records == [
        {"id": 1, "of": {"a": 1, "b": 1, "c": 1}, "a": "a1", "b": "b1", "c": "c1"},
        {"id": 2, "of": {"a": 2, "b": 2, "c": 2}, "a": "a2", "b": "b2", "c": "c2"},
    ]


@given(
    moves=st.dictionaries(st.integers(0, 7), st.sampled_from(["insert", "remove"]), max_size=1), keyless=st.booleans()
)
@example(moves={1: "insert"}, keyless=False)
@example(moves={1: "remove"}, keyless=False)
@example(moves={}, keyless=True)
def test_records_that_lack_what_one_of_the_requests_returned_are_warned_of(
    moves: Mapping[int, str],
    keyless: bool,  # noqa: FBT001
) -> None:
    listed = [1, *([None] if keyless else []), *range(2, 6)]

    def answers(request: Request) -> Response:
        match moves.get(len(api.requests) - 1):
            case "insert":
                listed.insert(0, len(listed) + 10)
            case "remove" if listed:
                del listed[0]
        begin = int(str(request.params.get("page", 0)))
        names = str(request.params["fields"]).split(",")
        data = [{name: f"{name}{n}" for name in names} | {"id": n} for n in listed[begin : begin + 2]]
        return Response(200, Headers({}), orjson.dumps({"data": data}), request.url, request)

    api = MockApi()
    api.get("/items").answers(answers)
    properties = asked(always_include_properties=["id"], property_chunking=CHUNKS)
    pages = paginator({"type": "OffsetIncrement", "page_size": 2})

    made = run(api, requester={**SHOWN, "query_properties": properties}, paginator=pages, stream={"primary_key": None})

    assert made.error is None
    lacking = [record for record in made.records if not {"a", "b", "c"} <= record.keys()]
    warned = [log for log in made.logs if "lack properties" in log]
    assert bool(lacking) == bool(warned)
    assert len(warned) <= 1


@pytest.mark.parametrize("failing", ["id,a,b", "id,c"])
@pytest.mark.parametrize("body", [{"error": "quota exceeded"}, {"data": None, "errors": [{"message": "quota"}]}])
def test_an_error_in_the_place_of_the_records_of_one_request_fails_the_read(failing: str, body: Json) -> None:
    def answers(request: Request) -> Response:
        response = rows(request)
        return replace(response, body=orjson.dumps(body)) if request.params["fields"] == failing else response

    api = MockApi()
    api.get("/items").answers(answers)
    properties = asked(always_include_properties=["id"], property_chunking=CHUNKS)

    made = run(api, requester={**SHOWN, "query_properties": properties})

    assert "found an error, expected records at data" in str(made.error)
    assert made.records == []


def test_a_filter_looks_at_the_properties_of_all_requests() -> None:
    api = MockApi()
    api.get("/items").answers(rows)
    properties = asked(always_include_properties=["id"], property_chunking=CHUNKS)
    condition = {"type": "RecordFilter", "condition": "{{ record['a'] == 'a1' and record['c'] == 'c1' }}"}

    made = run(api, requester={**SHOWN, "query_properties": properties}, selector={"record_filter": condition})

    assert [(record["a"], record["b"], record["c"]) for record in made.records] == [("a1", "b1", "c1")]
    assert made.warnings == []


def test_a_request_that_is_ignored_does_not_end_the_pages() -> None:
    def answers(request: Request) -> Response:
        response = rows(request) if "page" not in request.params else replace(rows(request), body=b'{"data": []}')
        return replace(response, status=404, body=b"{}") if request.params["fields"] == "id,c" else response

    api = MockApi()
    api.get("/items").answers(answers)
    properties = asked(always_include_properties=["id"], property_chunking=CHUNKS)
    handler = {"type": "DefaultErrorHandler", "response_filters": [{"http_codes": [404], "action": "IGNORE"}]}

    made = run(
        api,
        requester={**SHOWN, "query_properties": properties, "error_handler": handler},
        paginator=paginator({"type": "OffsetIncrement", "page_size": 2}),
    )

    assert made.error is None
    assert [query.get("page") for query in queries(api)] == [None, None, "2", "2"]


def test_pages_are_found_in_the_last_of_the_requests() -> None:
    api = MockApi()
    api.get("/items").answers(rows)
    api.get("/items", {"page": 2}).returns(json={"data": []})
    strategy = {"type": "OffsetIncrement", "page_size": 2}

    made = run(
        api, requester={**SHOWN, "query_properties": asked(property_chunking=CHUNKS)}, paginator=paginator(strategy)
    )

    assert len(made.records) == 2
    assert [query.get("page") for query in queries(api)] == [None, None, "2", "2"]


def test_records_without_the_key_stay_apart() -> None:
    api = MockApi()
    api.get("/items").returns(json={"data": [{"a": 1}, {"id": 2, "a": 2}]}).returns(
        json={"data": [{"c": 1}, {"id": 2, "c": 2}]}
    )

    made = run(api, requester={**SHOWN, "query_properties": asked(property_chunking=CHUNKS)})

    assert made.records == [{"a": 1}, {"id": 2, "a": 2, "c": 2}, {"c": 1}]


def test_a_key_that_no_record_has_is_an_error_that_names_their_fields() -> None:
    api = MockApi()
    api.get("/items").answers(rows)
    chunks = {**CHUNKS, "record_merge_strategy": {"type": "GroupByKeyMergeStrategy", "key": "Id"}}

    made = run(api, requester={**SHOWN, "query_properties": asked(property_chunking=chunks)})

    assert "found no record with its key; the first record has the fields a, b, id, of; expected the key" in str(
        made.error
    )
    assert made.records == []


def test_a_parameter_may_be_the_properties() -> None:
    api = MockApi()
    api.get("/items").answers(rows)

    run(api, requester={"request_parameters": {"fields": asked(), "state": "open"}})

    assert queries(api) == [{"state": "open", "fields": "a,b,c"}]


def test_properties_are_taken_from_another_request_once() -> None:
    api = MockApi()
    api.get("/properties").returns(json={"results": [{"name": "a"}, {"name": "b"}]})
    api.get("/items").returns(json={"data": [{"id": 1}], "next": "2"}).returns(json={"data": []})
    endpoint = {
        "type": "PropertiesFromEndpoint",
        "property_field_path": ["name"],
        "retriever": {
            "type": "SimpleRetriever",
            "requester": {"type": "HttpRequester", "url": "https://api.example.com/properties"},
            "record_selector": {
                "type": "RecordSelector",
                "extractor": {"type": "DpathExtractor", "field_path": ["results"]},
            },
        },
    }
    shown = {"fields": "{{ stream_slice.extra_fields['query_properties'] | join(',') }}"}
    strategy = {"type": "CursorPagination", "cursor_value": "{{ response.next }}"}

    run(
        api,
        requester={"request_parameters": shown, "fetch_properties_from_endpoint": endpoint},
        paginator=paginator(strategy),
    )

    assert queries(api) == [{}, {"fields": "a,b"}, {"fields": "a,b", "page": "2"}]


def test_only_what_the_catalog_selects_is_asked_for() -> None:
    api = MockApi()
    api.get("/items").answers(rows)
    lower = [{"type": "KeysToLower"}]
    properties = asked(property_selector={"type": "JsonSchemaPropertySelector", "transformations": lower})

    run(
        api,
        requester={**SHOWN, "query_properties": properties},
        runtime=Runtime(selected={"items": frozenset({"A", "c", "x"})}),
    )

    assert queries(api) == [{"fields": "a,c"}]


def test_everything_is_asked_for_where_no_catalog_says_otherwise() -> None:
    api = MockApi()
    api.get("/items").answers(rows)
    properties = asked(property_selector={"type": "JsonSchemaPropertySelector"})

    run(api, requester={**SHOWN, "query_properties": properties})

    assert queries(api) == [{"fields": "a,b,c"}]


def test_a_text_of_properties_is_as_long_as_the_limit_says() -> None:
    long = "x" * 20

    assert [*by_length(10)([long, "b", "ccc", "dddd", "ee", "f"])] == [[long], ["b", "ccc"], ["dddd"], ["ee", "f"]]


def test_properties_are_told_in_one_place() -> None:
    made = run(MockApi(), requester={"query_properties": asked(), "request_parameters": {"fields": asked()}})

    assert isinstance(made.error, ManifestError)
    assert "given in 2 places" in made.error.message


@pytest.mark.parametrize("fields", [{"query_properties": asked()}, {"request_parameters": {"fields": asked()}}])
def test_properties_of_a_request_that_nobody_fills_are_an_error(fields: dict[str, Any]) -> None:
    status = {"type": "AsyncJobStatusMap", "completed": ["x"], "failed": ["f"], "running": ["r"], "timeout": ["t"]}
    requester = {"type": "HttpRequester", "url": "https://api.example.com/items"}
    jobs = {
        "type": "AsyncRetriever",
        "creation_requester": {**requester, **fields},
        "polling_requester": requester,
        "download_requester": requester,
        "status_mapping": status,
        "status_extractor": {"type": "DpathExtractor", "field_path": ["status"]},
        "record_selector": {"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": []}},
    }

    made = run(MockApi(), stream={"retriever": jobs})

    assert "query_properties are supported only in the requester of a SimpleRetriever" in str(made.error)
