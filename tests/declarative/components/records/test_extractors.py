from typing import Any

import pytest

import cdk.declarative.components.records.decoders
import cdk.declarative.components.requests.requesters
import cdk.declarative.components.streams.retrievers  # noqa: F401 - the components that the tests name
from cdk.base.errors import DecodeError, ManifestError
from cdk.declarative.components.records.extractors import CombinedExtractor, DpathExtractor, RecordExpander
from cdk.declarative.model.context import BuildContext, Runtime
from cdk.declarative.model.request_plug_points import AnyExtractor
from cdk.declarative.syntax.validation import validated
from cdk.rest import Decoder, JsonDocument, Jsonl
from cdk.testing import MockApi
from tests.declarative.manifests import run
from tests.rest.api import response


def read(
    extractor: AnyExtractor, body: Any, *, decoder: Decoder | None = None, api: MockApi | None = None
) -> list[Any]:
    runtime = Runtime() if api is None else Runtime(transport=api)
    ctx = BuildContext({"part": "items"}, runtime, "users")
    found = extractor.build(ctx, decoder or JsonDocument()).pages(response(body))
    return [record for page in found for record in page]


def dpath(*where: str | int, **fields: Any) -> DpathExtractor:
    return validated(DpathExtractor, {"type": "DpathExtractor", "field_path": list(where), **fields})


def test_records_lie_at_a_path_of_templates() -> None:
    extractor = dpath("{{ parameters.root }}", "{{ config['part'] }}", 0, **{"$parameters": {"root": "data"}})

    assert read(extractor, {"data": {"items": [{"id": 1}, {"id": 2}]}}) == [{"id": 1}]


def test_a_wildcard_is_every_element() -> None:
    assert read(dpath("data", "*"), {"data": {"x": {"id": 1}, "y": {"id": 2}}}) == [{"id": 1}, {"id": 2}]


def test_elements_of_a_list_in_a_record_become_records() -> None:
    expander = {
        "type": "RecordExpander",
        "expand_records_from_field": ["{{ config['part'] }}"],
        "parent_fields": [{"type": "ParentFieldPath", "parent_path": ["id"], "record_path": ["of", "id"]}],
        "on_no_records": "emit_parent",
    }
    body = {"data": [{"id": 1, "items": [{"x": 1}]}, {"id": 2}]}

    assert read(dpath("data", record_expander=expander), body) == [{"x": 1, "of": {"id": 1}}, {"id": 2}]


RETRIEVER = {
    "type": "SimpleRetriever",
    "requester": {"type": "HttpRequester", "url": "https://api.test/{{ stream_slice['parent_record']['id'] }}/lines"},
    "record_selector": {"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": ["data"]}},
}


def test_a_list_that_is_cut_short_is_read_by_its_retriever() -> None:
    api = MockApi()
    api.get("/2/lines").returns(json={"data": [{"x": 1}, {"x": 2}]})
    expander = {
        "type": "RecordExpander",
        "expand_records_from_field": ["lines"],
        "parent_fields": [{"type": "ParentFieldPath", "parent_path": ["id"], "record_path": ["of"]}],
        "truncation_indicator_path": ["more"],
        "truncated_list_retriever": RETRIEVER,
    }
    body = [{"id": 1, "lines": [{"x": 0}], "more": False}, {"id": 2, "lines": [{"x": 1}], "more": True}]

    assert read(dpath(record_expander=expander), body, api=api) == [
        {"x": 0, "of": 1},
        {"x": 1, "of": 2},
        {"x": 2, "of": 2},
    ]
    assert len(api.requests) == 1


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"truncated_list_retriever": RETRIEVER}, "needs `truncation_indicator_path`"),
        ({"truncation_indicator_path": ["*", "more"]}, "expected names without"),
        (
            {
                "truncation_indicator_path": ["more"],
                "truncated_list_retriever": RETRIEVER,
                "expand_records_from_field": ["*"],
            },
            "expand_records_from_field: found",
        ),
        (
            {"parent_fields": [{"type": "ParentFieldPath", "parent_path": ["a*"], "record_path": ["b"]}]},
            "ParentFieldPath.parent_path",
        ),
    ],
)
def test_an_expander_that_cannot_work_is_an_error(fields: dict[str, Any], why: str) -> None:
    expander = validated(RecordExpander, {"expand_records_from_field": ["lines"], **fields})

    with pytest.raises(ManifestError, match=why):
        expander.build(BuildContext({}, Runtime()))


def test_extractors_are_combined_as_the_mode_says() -> None:
    parts = [{"type": "DpathExtractor", "field_path": [name]} for name in ("a", "b")]
    body = {"a": [{}], "b": [{"x": 1}]}

    assert read(validated(CombinedExtractor, {"extractors": parts}), body) == [{}, {"x": 1}]
    assert read(validated(CombinedExtractor, {"extractors": parts, "mode": "first_match"}), body) == [{}]
    skipping = {"extractors": parts, "mode": "first_match", "skip_empty_records": True}
    assert read(validated(CombinedExtractor, skipping), body) == [{"x": 1}]


def test_extractors_of_a_body_that_is_read_once_are_refused() -> None:
    combined = validated(CombinedExtractor, {"extractors": [{"type": "DpathExtractor", "field_path": []}]})

    with pytest.raises(ManifestError, match="a Jsonl gives a body once"):
        read(combined, {}, decoder=Jsonl())
    with pytest.raises(ManifestError, match="extractors"):
        validated(CombinedExtractor, {"extractors": []})


def test_elements_that_are_no_objects_become_records_in_any_case() -> None:
    expander = {"type": "RecordExpander", "expand_records_from_field": ["l"]}
    extractor = {"type": "DpathExtractor", "field_path": ["data"], "record_expander": expander}
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1, "l": [{"a": 1}, 5, "x", [1]]}]})

    made = run(api, selector={"extractor": extractor})

    assert made.records == [{"a": 1}, {"value": 5}, {"value": "x"}, {"value": [1]}]


@pytest.mark.parametrize(
    ("body", "expected"), [(5, "found a number at"), ("oops", "found a string at"), ([1], "found a number")]
)
def test_a_path_to_something_else_than_records_is_named(body: Any, expected: str) -> None:
    api = MockApi()
    api.get("/items").returns(json={"data": body})

    made = run(api)

    assert isinstance(made.error, DecodeError)
    assert expected in str(made.error)


@pytest.mark.parametrize("body", [None, "", 0, False, [], {}])
def test_a_path_to_nothing_has_no_records(body: Any) -> None:
    api = MockApi()
    api.get("/items").returns(json={"data": body})

    assert run(api).records == []
