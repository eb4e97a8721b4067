"""Old ways of writing a manifest, in today's."""

import pytest

from cdk.base.errors import ManifestError
from cdk.base.values import Json
from cdk.declarative.manifest import Manifest
from cdk.declarative.source import ManifestSource
from cdk.declarative.syntax.legacy_syntax import adapt, migrate
from cdk.testing import MockApi


def adapted(value: dict[str, Json]) -> Json:
    return adapt({"it": value})["it"]


def test_options_become_parameters_in_expressions_too() -> None:
    manifest: Json = {
        "definitions": {
            "base": {"$options": {"name": "users"}, "path": "/{{ options['name'] }}/{{ config.options.x }}"}
        },
        "streams": [{"$options": {"a": 1}, "$parameters": {"a": 2}, "text": "all options.name"}],
    }

    path = "/{{ parameters['name'] }}/{{ config.options.x }}"
    assert {
        "definitions": {"base": {"$parameters": {"name": "users"}, "path": path}},
        "streams": [{"$parameters": {"a": 2}, "text": "all options.name"}],
    } == migrate(manifest)


def test_old_references_become_references() -> None:
    manifest: Json = {"streams": ["*ref(definitions.users)", {"$ref": "*ref(definitions.all[0].x)", "y": "* ref(a)"}]}

    assert migrate(manifest) == {"streams": ["#/definitions/users", {"$ref": "#/definitions/all/0/x", "y": "* ref(a)"}]}


def test_expressions_of_a_manifest_without_options_stay() -> None:
    manifest = {"streams": ["{{ options['name'] }}", "*ref(a)"]}

    assert migrate(manifest) == {"streams": ["{{ options['name'] }}", "#/a"]}


def test_a_manifest_of_today_is_not_touched() -> None:
    manifest: Json = {"streams": [{"type": "DeclarativeStream", "stream_slicer": 1, "checkpoint_interval": 5}]}

    today = migrate(manifest), adapt(manifest)

    assert [id(manifest)] * 2 == [id(value) for value in today]


def test_a_list_slicer_becomes_a_router() -> None:
    slicer = {"type": "ListStreamSlicer", "slice_values": ["a"], "cursor_field": "x"}

    assert adapted(slicer) == {"type": "ListPartitionRouter", "values": ["a"], "cursor_field": "x"}


def test_a_substream_slicer_becomes_a_router() -> None:
    parent = {"type": "ParentStreamConfig", "stream": {}, "parent_key": "id", "stream_slice_field": "pid"}
    slicer = {"type": "SubstreamSlicer", "parent_stream_configs": [parent, {"stream_slice_field": "x"}]}

    assert adapted(slicer) == {
        "type": "SubstreamPartitionRouter",
        "parent_stream_configs": [
            {"type": "ParentStreamConfig", "stream": {}, "parent_key": "id", "partition_field": "pid"},
            {"partition_field": "x"},
        ],
    }


def test_a_custom_slicer_becomes_a_custom_router() -> None:
    assert adapted({"type": "CustomStreamSlicer", "class_name": "a.B"}) == {
        "type": "CustomPartitionRouter",
        "class_name": "a.B",
    }


@pytest.mark.parametrize(
    ("old", "new"), [("30d", "P30D"), ("1w", "P1W"), ("2m", "P2M"), ("6h", "PT6H"), ("P1D", "P1D")]
)
def test_a_datetime_slicer_becomes_a_cursor(old: str, new: str) -> None:
    slicer = {"type": "DatetimeStreamSlicer", "cursor_field": "x", "step": old, "stream_state_field_start": "from"}

    cursor = {"type": "DatetimeBasedCursor", "cursor_field": "x", "step": new, "partition_field_start": "from"}
    assert cursor == adapted(slicer)


def test_what_slices_moves_to_where_it_belongs_today() -> None:
    product = {
        "type": "CartesianProductStreamSlicer",
        "stream_slicers": [
            {"type": "ListStreamSlicer", "slice_values": ["a"], "cursor_field": "x"},
            {"type": "DatetimeStreamSlicer", "start_datetime": "2024"},
        ],
    }
    stream = {"stream_cursor_field": "at", "checkpoint_interval": 9, "retriever": {"stream_slicer": product}}

    assert adapted(stream) == {
        "incremental_sync": {"type": "DatetimeBasedCursor", "start_datetime": "2024", "cursor_field": "at"},
        "retriever": {"partition_router": {"type": "ListPartitionRouter", "values": ["a"], "cursor_field": "x"}},
    }


def test_a_slicer_that_does_not_slice_goes_away() -> None:
    assert adapted({"retriever": {"requester": 1, "stream_slicer": {"type": "SingleSlice"}}}) == {
        "retriever": {"requester": 1}
    }


def test_a_limit_paginator_becomes_the_default_one() -> None:
    old = {
        "type": "LimitPaginator",
        "url_base": "https://x",
        "page_size": 10,
        "limit_option": {"inject_into": "request_parameter", "field_name": "limit"},
        "page_token_option": {"inject_into": "path"},
        "pagination_strategy": {"type": "PageIncrement"},
    }

    assert adapted(old) == {
        "type": "DefaultPaginator",
        "page_size_option": {"inject_into": "request_parameter", "field_name": "limit"},
        "page_token_option": {"type": "RequestPath"},
        "pagination_strategy": {"type": "PageIncrement", "page_size": 10},
    }


def test_a_field_pointer_becomes_a_field_path() -> None:
    new = {"type": "DpathExtractor", "field_path": ["data"]}

    assert new == adapted({"type": "DpathExtractor", "field_pointer": ["data"]})


def test_a_provider_of_request_options_becomes_fields_of_the_requester() -> None:
    provider = {
        "type": "InterpolatedRequestOptionsProvider",
        "request_parameters": {"a": "1"},
        "request_headers": {"b": "2"},
    }
    requester = {"type": "HttpRequester", "request_headers": {"c": "3"}, "request_options_provider": provider}

    assert adapted(requester) == {
        "type": "HttpRequester",
        "request_headers": {"c": "3"},
        "request_parameters": {"a": "1"},
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"type": "CompositeRawDecoder", "parser": {"type": "JsonLineParser"}}, {"type": "JsonlDecoder"}),
        (
            {"type": "CompositeRawDecoder", "parser": {"type": "GzipParser", "inner_parser": {"type": "CsvParser"}}},
            {"type": "GzipDecoder", "decoder": {"type": "CsvDecoder"}},
        ),
        ({"type": "GzipJsonDecoder"}, {"type": "GzipDecoder", "decoder": {"type": "JsonDecoder"}}),
        ({"type": "JsonSchema", "file_path": "a"}, {"type": "JsonFileSchemaLoader", "file_path": "a"}),
    ],
)
def test_decoders_and_loaders_have_todays_names(old: dict[str, Json], new: dict[str, Json]) -> None:
    assert new == adapted(old)


def test_the_session_authenticator_of_before_has_a_name_of_its_own() -> None:
    assert adapted({"type": "SessionTokenAuthenticator", "login_url": "x"}) == {
        "type": "LegacySessionTokenAuthenticator",
        "login_url": "x",
    }
    today: Json = {"it": {"type": "SessionTokenAuthenticator", "login_requester": {}}}
    assert adapt(today) is today


def test_parts_that_are_shared_stay_shared() -> None:
    part = {"type": "ListStreamSlicer", "slice_values": ["a"]}
    made: Json = adapt({"a": [part, part]})["a"]

    assert made[0] is made[1]


@pytest.mark.parametrize("name", ["PerPartitionCursor", "InterpolatedRequestOptionsProvider"])
def test_what_has_no_meaning_today_is_refused_with_what_to_write(name: str) -> None:
    manifest = {"version": "0.1.0", "check": {"stream_names": []}, "streams": [{"type": name}]}

    with pytest.raises(ManifestError, match=f"the type '{name}' is no longer part of the language: "):
        Manifest(manifest).root()


def test_an_old_manifest_is_read() -> None:
    api = MockApi()
    api.get("/users", params={"team": "a"}).returns(json={"data": [{"id": 1}]})
    api.get("/users", params={"team": "b"}).returns(json={"data": [{"id": 2}]})
    team = {"field_name": "team", "inject_into": "request_parameter"}
    manifest = {
        "version": "0.1.0",
        "definitions": {
            "selector": {"extractor": {"field_pointer": ["data"]}},
            "requester": {
                "type": "HttpRequester",
                "url_base": "https://api.example.com",
                "path": "/{{ options.name }}",
            },
        },
        "streams": [
            {
                "$options": {"name": "users"},
                "primary_key": "id",
                "checkpoint_interval": 10,
                "retriever": {
                    "record_selector": "*ref(definitions.selector)",
                    "requester": {"$ref": "*ref(definitions.requester)"},
                    "stream_slicer": {
                        "type": "ListStreamSlicer",
                        "slice_values": ["a", "b"],
                        "cursor_field": "team",
                        "request_option": team,
                    },
                },
            }
        ],
        "check": {"stream_names": ["users"]},
    }

    assert _records(manifest, api) == [{"id": 1}, {"id": 2}]
    assert Manifest(manifest).value is manifest  # so another process reads it as this one does


def _records(manifest: dict[str, Json], api: MockApi) -> list[Json]:
    from cdk.declarative.model.context import Runtime  # noqa: PLC0415 - only this test reads
    from cdk.testing import read  # noqa: PLC0415

    (stream,) = ManifestSource(Manifest(manifest), Runtime(transport=api)).streams({})
    return [dict(record) for record in read(stream).records]
