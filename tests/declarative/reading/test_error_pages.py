"""Pages that hold an error, with the status of a success: no decoder and no extractor takes one for the last page."""

import gzip
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from cdk.base.errors import TransientError
from cdk.base.values import Json
from cdk.rest import Headers, JsonItems, Jsonl, Request, Response
from cdk.testing import MockApi, ReadResult
from tests.declarative.manifests import ids, option, paginator, run

ROWS = [{"id": number} for number in range(6)]
ERRORS: list[dict[str, Any]] = [
    {"error": "quota exceeded"},
    {"status": "error", "message": "Too many requests"},
    {"errors": [{"message": "timed out"}], "data": None},
]
PAGES = paginator({"type": "CursorPagination", "cursor_value": "{{ headers['X-Next'] }}"})


def path(*names: str) -> dict[str, Any]:
    return {"type": "DpathExtractor", "field_path": list(names)}


def packed(body: bytes) -> bytes:
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("a", body)
        return file.getvalue()


def lines(body: Mapping[str, Any]) -> bytes:
    """A body as JSON lines, a record each where it has records."""
    items = [{"data": [row]} for row in body["data"]] if body.get("data") else [body]
    return b"".join(json.dumps(item).encode() + b"\n" for item in items)


def top_lines(body: Mapping[str, Any]) -> bytes:
    return b"".join(json.dumps(item).encode() + b"\n" for item in body.get("data") or [body])


def markup(body: Mapping[str, Any]) -> bytes:
    rows = "".join(f"<item><id>{row['id']}</id></item>" for row in body.get("data") or ())
    error = "".join(f"<{name}>{value}</{name}>" for name, value in body.items() if name != "data")
    return f"<r>{rows or error}</r>".encode()


def document(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body).encode()


def top(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body.get("data") or body).encode()


def numbers(made: ReadResult) -> list[int]:
    return [int(record["id"]) for record in made.records]


JSON = {"type": "JsonDecoder"}
BOTH = [path("data"), path("more")]
ITEMS = {"type": "JsonItemsDecoder", "items_path": "data"}
ZIP, GZIP = {"type": "ZipfileDecoder", "decoder": JSON}, {"type": "GzipDecoder", "decoder": {"type": "JsonlDecoder"}}
FORMATS: dict[str, tuple[Any, Any, Callable[[Mapping[str, Any]], bytes]]] = {
    "json": (JSON, path("data"), document),
    "json at the top": (JSON, path(), top),
    "union": (JSON, {"type": "CombinedExtractor", "extractors": BOTH}, document),
    "first match": (JSON, {"type": "CombinedExtractor", "mode": "first_match", "extractors": BOTH}, document),
    "jsonl": ({"type": "JsonlDecoder"}, path("data"), lines),
    "jsonl at the top": ({"type": "JsonlDecoder"}, path(), top_lines),
    "items": (ITEMS, path(), document),
    "xml": ({"type": "XmlDecoder"}, path("r", "item"), markup),
    "gzip": (GZIP, path("data"), lambda body: gzip.compress(lines(body))),
    "zip": (ZIP, path("data"), lambda body: packed(document(body))),
}


def read_pages(form: str, error: Mapping[str, Any] | None, **parts: Any) -> ReadResult:
    """What a read of three pages gives, the second of which is the error, if there is one. parts: of the stream."""
    decoder, extractor, encode = FORMATS[form]

    def answers(request: Request) -> Response:
        page = int(request.params.get("page") or 0)
        following = {"X-Next": str(page + 1)} if page < 2 else {}
        body = encode({"data": ROWS[2 * page : 2 * page + 2]} if error is None or page != 1 else error)
        failed = error is not None and page == 1
        return Response(200, Headers({} if failed else following), body, request.full_url, request)

    api = MockApi()
    api.get("/items").answers(answers)
    selector = {"extractor": extractor, **parts.pop("selector", {})}
    return run(api, decoder=decoder, paginator=PAGES, selector=selector, **parts)


@pytest.mark.parametrize("form", FORMATS)
def test_pages_without_an_error_come_whole(form: str) -> None:
    assert numbers(read_pages(form, None)) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("form", FORMATS)
def test_an_error_in_the_place_of_a_later_page_fails_the_read(form: str, error: dict[str, Any]) -> None:
    made = read_pages(form, error)

    assert isinstance(made.error, TransientError), made.error
    assert "found an error, expected" in str(made.error)
    assert numbers(made) == [0, 1]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "parts",
    [
        {"selector": {"record_filter": {"type": "RecordFilter", "condition": "{{ 'id' in record }}"}}},
        {
            "stream": {
                "transformations": [
                    {"type": "AddFields", "fields": [{"path": ["id"], "value": "{{ record.get('id', 9) }}"}]},
                    {"type": "RemoveFields", "field_pointers": [["error"], ["errors"], ["status"], ["message"]]},
                ]
            }
        },
    ],
    ids=["filtered", "transformed"],
)
def test_what_is_made_of_an_error_in_the_place_of_a_page_hides_it_not(
    form: str, error: dict[str, Any], parts: dict[str, Any]
) -> None:
    made = read_pages(form, error, **parts)

    assert isinstance(made.error, TransientError), made.error
    assert numbers(made) == [0, 1]


@pytest.mark.parametrize("emits", ["skip", "emit_parent"])
def test_an_error_that_has_nothing_to_expand_is_no_end_of_pages_of_records_to_expand(emits: str) -> None:
    pages: list[Any] = [[{"id": n, "lines": [{"id": 10 * n}]}] for n in (1, 2)]
    pages.insert(1, ERRORS[0])

    def answers(request: Request) -> Response:
        page = int(request.params.get("page") or 0)
        return Response(200, Headers({}), json.dumps(pages[page]).encode(), "", request)

    api = MockApi()
    api.get("/items").answers(answers)
    expander = {"type": "RecordExpander", "expand_records_from_field": ["lines"], "on_no_records": emits}
    made = run(
        api,
        paginator=paginator({"type": "PageIncrement", "page_size": 1}),
        selector={"extractor": {**path(), "record_expander": expander}},
    )

    assert isinstance(made.error, TransientError), made.error
    assert numbers(made) == [10]


def test_without_a_primary_key_an_outage_in_the_place_of_a_later_list_fails_and_an_only_object_is_a_record() -> None:
    later = read_pages("json at the top", ERRORS[0], stream={"primary_key": None})
    api = MockApi()
    api.get("/items").returns(json=ERRORS[0])
    first = run(api, selector={"extractor": path()}, stream={"primary_key": None})

    assert isinstance(later.error, TransientError), later.error
    assert (first.error, len(first.records)) == (None, 1)


@pytest.mark.parametrize("form", FORMATS)
def test_an_error_page_that_the_error_handler_ignores_ends_the_pages(form: str) -> None:
    rule = {"type": "HttpResponseFilter", "predicate": "{{ 'X-Next' not in headers }}", "action": "IGNORE"}

    made = read_pages(
        form, ERRORS[0], requester={"error_handler": {"type": "DefaultErrorHandler", "response_filters": [rule]}}
    )

    assert made.error is None
    assert numbers(made) == [0, 1]


@pytest.mark.parametrize(
    "data", [[{"id": 7, "error": "no disk"}], {"id": 7, "status": "failed"}, [{"error": "no disk"}], {"note": "none"}]
)
def test_a_record_that_tells_of_a_failure_of_its_own_is_a_record(data: Json) -> None:
    api = MockApi()
    api.get("/items").returns(json={"data": data})

    made = run(api)

    assert (made.error, len(made.records)) == (None, 1)


@pytest.mark.parametrize("nodes", [[ROWS[2], None], [ROWS[2]]])
def test_records_beside_errors_of_graphql_come_with_a_warning(nodes: list[Json]) -> None:
    api = MockApi()
    api.get("/items").returns(json={"data": nodes, "errors": [{"message": "forbidden field"}]})

    made = run(api)

    assert ids(made) == [2]
    assert [each for each in made.warnings if "answered with records and errors: forbidden field" in each]


def test_nothing_but_nulls_beside_errors_of_graphql_fail_the_read() -> None:
    api = MockApi()
    api.get("/items").returns(json={"data": [None, None], "errors": [{"message": "internal"}]})

    assert isinstance(run(api).error, TransientError)


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("strategy", ["OffsetIncrement", "PageIncrement"])
@pytest.mark.parametrize("emits", ["skip", "emit_parent"])
def test_pages_of_records_to_expand_are_counted_as_the_api_counts_them(size: int, strategy: str, emits: str) -> None:
    orders = [
        {"id": n, "lines": [{"id": 10 * n + k} for k in range(c)]} for n, c in enumerate([1, 0, 3, 0, 0, 2, 5], 1)
    ]

    def answers(request: Request) -> Response:
        at = int(request.params.get("page") or 0) * (size if strategy == "PageIncrement" else 1)
        return Response(200, Headers({}), json.dumps({"data": orders[at : at + size]}).encode(), "", request)

    api = MockApi()
    api.get("/items").answers(answers)
    expander = {"type": "RecordExpander", "expand_records_from_field": ["lines"], "on_no_records": emits}
    made = run(
        api,
        paginator={**paginator({"type": strategy, "page_size": size}), "page_size_option": option("limit")},
        selector={"extractor": {**path("data"), "record_expander": expander}},
    )

    assert [each for each in ids(made) if each >= 10] == [10, 30, 31, 32, 60, 61, 70, 71, 72, 73, 74]


@pytest.mark.parametrize("decoder", [Jsonl(), JsonItems("data")])
def test_an_empty_list_that_is_read_as_it_arrives_is_no_error(decoder: Jsonl | JsonItems) -> None:
    body = b"" if isinstance(decoder, Jsonl) else b'{"data": [], "total": 0}'
    request = Request("GET", "https://api.example.com/items")

    assert list(decoder.items(Response(200, Headers({}), body, "", request))) == []


def test_paths_that_lead_nowhere_are_all_named() -> None:
    api = MockApi()
    api.get("/items").returns(json={"datum": [{"id": 1}]})

    made = run(api, selector={"extractor": {"type": "CombinedExtractor", "extractors": BOTH}})

    assert [each for each in made.warnings if "there is no 'data'" in each and "no 'more'" in each]
