"""Streams that responses describe: which there are, and what their records look like."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk.declarative.manifest import Manifest
from cdk.declarative.source import ManifestSource
from cdk.sources.discovery import find_source
from cdk.testing import Simulator, World
from cdk.testing.simulator.simulator import Unsimulated
from tests.testing.simulator.described import PAGES, URL
from tests.testing.simulator.test_simulator import counted, run

PAGINATED = ["none", "number", "token", "link"]


def retriever(path: str, pages: str = "none", field: str = "rows", **selector: Any) -> dict[str, Any]:
    extractor = {"type": "DpathExtractor", "field_path": [field]}
    paginator: dict[str, Any] = {}
    if (strategy := PAGES[pages]) is not None:
        option = {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "page"}
        paginator = {
            "type": "DefaultPaginator",
            "page_token_option": option,
            "pagination_strategy": {**strategy, "page_size": 3},
        }
    return {
        "type": "SimpleRetriever",
        "requester": {"type": "HttpRequester", "url_base": URL, "path": path},
        "record_selector": {"type": "RecordSelector", "extractor": extractor, **selector},
        **({"paginator": paginator} if paginator else {}),
    }


def described(pages: str, *, listed: bool, typed: bool, resolver: dict[str, Any] | None = None) -> ManifestSource:
    """A connector of tables. listed: these are a stream, too. typed: `GET fields/T` says what the records are."""
    tables = retriever("tables", pages, record_filter={"type": "RecordFilter", "condition": "{{ not record.hidden }}"})
    fixed: dict[str, Any] = {"type": "InlineSchemaLoader", "schema": {"properties": {"id": {"type": "integer"}}}}
    types = [{"type": "TypesMap", "current_type": name, "target_type": name[:-1]} for name in ("integers", "strings")]
    asked: dict[str, Any] = {
        "type": "DynamicSchemaLoader",
        "retriever": retriever("fields/T", "none", "fields"),
        "schema_type_identifier": {
            "type": "SchemaTypeIdentifier",
            "key_pointer": ["field", "name"],
            "type_pointer": ["kind"],
            "types_mapping": types,
        },
    }
    values: dict[tuple[str, ...], str] = {
        ("name",): "{{ components_values.title }}",
        ("retriever", "requester", "path"): "tables/{{ components_values['key'] }}",
    }
    if typed:
        values["schema_loader", "retriever", "requester", "path"] = "fields/{{ components_values.key }}"
    template: dict[str, Any] = {
        "type": "DeclarativeStream",
        "name": "T",
        "primary_key": "id",
        "retriever": retriever("tables/T", pages),
        "schema_loader": asked if typed else fixed,
    }
    names = {"type": "object", "properties": {"title": {"type": "string"}, "hidden": {"type": "boolean"}}}
    stream = {
        "type": "DeclarativeStream",
        "name": "tables",
        "primary_key": "title",
        "retriever": retriever("tables", pages),
        "schema_loader": {"type": "InlineSchemaLoader", "schema": names},
    }
    return ManifestSource(
        Manifest(
            {
                "version": "6.0.0",
                "type": "DeclarativeSource",
                "check": {"type": "CheckStream", "stream_names": ["tables"]},
                "streams": [stream] if listed else [],
                "dynamic_streams": [
                    {
                        "type": "DynamicDeclarativeStream",
                        "name": "each table",
                        "stream_template": template,
                        "components_resolver": {
                            "type": "HttpComponentsResolver",
                            "retriever": tables,
                            "components_mapping": [
                                {"type": "ComponentMappingDefinition", "field_path": [*path], "value": value}
                                for path, value in values.items()
                            ],
                            **(resolver or {}),
                        },
                    }
                ],
            }
        )
    )


@settings(max_examples=15)
@given(
    st.fixed_dictionaries({"listed": st.booleans(), "typed": st.booleans()}),
    st.sampled_from(PAGINATED),
    st.integers(0, 5),
    st.integers(0, 2),
)
def test_there_is_a_stream_for_each_record_of_what_lists_them_with_the_schema_that_is_said(
    world: dict[str, Any], pages: str, count: int, rounds: int
) -> None:
    source = described(pages, **world)
    simulator = Simulator(source, world=World(records=count, round=rounds))

    assert simulator.missing == {}
    names = [*simulator.streams]
    if world["listed"]:
        tables = run(simulator, source, "tables").records
        assert names == ["tables", *(row["title"] for row in tables if not row["hidden"])]
    others = [name for name in names if name != "tables"]
    assert len(others) <= count + rounds
    assert (len(others) > 0) == (count + rounds > 0)
    for name in others[-3:]:
        result = run(simulator, source, name)
        assert counted(result.records) == counted(simulator.records(name))
        assert len(result.records) == count + rounds
        assert result.schema_errors == []
        fields = {field for row in result.records for field in row}
        described_fields = {field for field in fields if field.startswith(f"{name}-field-")}
        assert not world["typed"] or (described_fields and fields == {"id", *described_fields})


def test_the_connector_of_datasette_is_simulated() -> None:
    source = find_source("datasette")
    simulator = Simulator(source, world=World(records=4))

    assert [*simulator.streams] == ["datasette_tables", *(f"datasette-tables-{number}" for number in range(1, 5))]
    assert len(run(simulator, source, "datasette-tables-3").records) == 4


def test_a_list_of_streams_that_is_not_simulated_is_named() -> None:
    strange = retriever("tables")
    strange["decoder"] = {"type": "CsvDecoder"}
    source = described("none", listed=True, typed=False, resolver={"retriever": strange})

    words = "of 'each table' (HttpComponentsResolver) is not simulated: its bodies are not JSON"
    with pytest.raises(Unsimulated, match=re.escape(words)):
        Simulator(source)
