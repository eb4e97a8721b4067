"""The tables of the peer's unit tests through this kit: `make peer-tables PEER_TABLES=folder` names where they lie.

An adapter gives for the values of a row what the kit makes of them, and what the row expects. Rows whose outcome
differs on purpose are listed with the words of the page that says why.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson
import pytest

from cdk.base.errors import DecodeError
from cdk.base.times.clock import parse_timestamp, write_timestamp
from cdk.compat.airbyte.http.error_handlers import resolution
from cdk.declarative.components import register
from cdk.declarative.components.requests.requesters import join
from cdk.declarative.components.streams.incremental import MinMaxDatetime
from cdk.declarative.components.streams.partition_routers import Product
from cdk.declarative.components.streams.state_migrations import LegacyToPerPartitionStateMigration
from cdk.declarative.components.streams.streams import DeclarativeStream
from cdk.declarative.interpolation.compiler import compile_nodes
from cdk.declarative.interpolation.environment import environment
from cdk.declarative.interpolation.macros import IMPURE, build_macros
from cdk.declarative.interpolation.template import compile_template
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext, Runtime
from cdk.declarative.model.page_result import PageResult
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.declarative.model.slice_names import SliceView, slice_names
from cdk.declarative.syntax.parameters import propagate
from cdk.declarative.syntax.validation import validated
from cdk.rest import JsonDocument, Request
from cdk.state.slice import Partition, Slice
from tests.declarative.manifests import URL
from tests.docs.page import DOCS
from tests.peers.tables import Called, Named, Row, rows
from tests.rest.api import response

FOLDER = Path(os.environ["PEER_TABLES"], "unit_tests", "sources", "declarative")
DIFFERENCES = (DOCS / "reference" / "differences.md").read_text()
NOW = 1600000000.0

Values = Mapping[str, Any]
Outcome = tuple[Any, Any]

register()


def context(config: Any = None, now: float = NOW) -> BuildContext:
    return BuildContext(config or {}, Runtime(clock=lambda: datetime.fromtimestamp(now, UTC)), "items")


def component(type: str, **fields: Any) -> Any:
    return validated(Component.registry[type], {"type": type, **fields})


def slice_with(fields: Any, **extra: Any) -> dict[str, Any]:
    return slice_names(SliceView(Slice(Partition({}, extra=extra)), fields or {}))


# --- expressions -------------------------------------------------------------------------------------------------


def evaluated(text: str, **names: Any) -> Any:
    return compile_template(text).value({"config": {}, "parameters": {}, **names})


def literal(row: Values) -> Outcome:
    text, expected = row.get("s", row.get("template_string")), row.get("value", row.get("expected_value"))
    if not any(name in text for name in IMPURE):
        return evaluated(text), expected
    env = environment().overlay()
    env.globals = {**env.globals, **build_macros(lambda: datetime(2021, 9, 1, tzinfo=UTC))}
    return str(compile_nodes(env, env.parse(text)).run({"config": {}})), expected


def aliased(row: Values) -> Outcome:
    names = slice_with(row["context"]["stream_slice"])
    return evaluated(row["input_string"], **names), row["expected_value"]


def string(row: Values) -> Outcome:
    names = {"kwargs": {"c": "airbyte"}, "record": {"some_calculation": row.get("record_value")}}
    parameters, config = {"hello": "world"}, {"field": "value"}
    return evaluated(row["input_string"], config=config, parameters=parameters, **names), row["expected_value"]


def condition(row: Values) -> Outcome:
    config = {
        "parent": {"key_with_true": True},
        "string_key": "compare_me",
        "zero_value": 0,
        "empty_array": [],
        "non_empty_array": [1],
        "empty_dict": {},
        "empty_tuple": (),
    }
    scope = {"config": config, "parameters": {"from_parameters": "come_find_me"}}
    return compile_template(row["template"]).true(scope), row["expected_result"]


def macro(name: str, *arguments: str) -> Callable[[Values], Outcome]:
    def call(row: Values) -> Outcome:
        found = build_macros()[name](*(row[argument] for argument in arguments))
        return found, row.get("expected_output", row.get("expected_value"))

    return call


def decoded_base64(row: Values) -> Outcome:
    return evaluated(f"{{{{ '{row['input_string']}' | base64decode }}}}"), row["expected_string"]


def regex(row: Values) -> Outcome:
    return evaluated(row["expression"]), row["expected"]


# --- records -----------------------------------------------------------------------------------------------------


def transformed(made: Any, record: Any, config: Any = None, names: Mapping[str, Any] = {}) -> Any:
    made.build(context(config))([record], names)
    return record


def added(row: Values) -> Outcome:
    kinds = {str: "string", int: "integer", float: "number", bool: "boolean"}
    told = {} if row["field_type"] is None else {"value_type": kinds[row["field_type"]]}
    fields = [{"type": "AddedFieldDefinition", "path": path, "value": value, **told} for path, value in row["field"]]
    made = component("AddFields", fields=fields, condition=row["condition"])
    names = {**slice_with(row["kwargs"].get("stream_slice")), **row["kwargs"].get("stream_interval", {})}
    return transformed(made, row["input_record"], row["kwargs"].get("config"), names), row["expected"]


def removed(row: Values) -> Outcome:
    made = component("RemoveFields", field_pointers=row["field_pointers"], condition=row["condition"] or "")
    return transformed(made, row["input_record"]), row["expected"]


def flattened(row: Values) -> Outcome:
    made = component("FlattenFields", flatten_lists=row["flatten_lists"])
    return transformed(made, row["input_record"]), row["expected_output"]


def flattened_at(row: Values) -> Outcome:
    options = {key: row[key] for key in ("delete_origin_value", "replace_record") if row.get(key) is not None}
    if row["key_transformation"] is not None:
        prefix, suffix = row["key_transformation"]
        options["key_transformation"] = {"type": "KeyTransformation", "prefix": prefix, "suffix": suffix}
    made = component("DpathFlattenFields", field_path=row["field_path"], **options)
    return transformed(made, row["input_record"], row["config"]), row["expected_record"]


def in_snake_case(row: Values) -> Outcome:
    return transformed(component("KeysToSnakeCase"), row["input_keys"]), row["expected_keys"]


def body_of(value: Any) -> Any:
    return response(body=value) if isinstance(value, bytes) else response(value)


def extracted(row: Values) -> Outcome:
    named = row["decoder"].name if "decoder" in row else "JsonDecoder"
    decoder = component({"CompositeRawDecoder": "JsonlDecoder"}.get(named, named)).build(context())
    more: dict[str, Any] = {}
    if "expand_records_from_field" in row:
        path, whole = row["expand_records_from_field"], row["remain_original_record"]
        more["record_expander"] = {
            "type": "RecordExpander",
            "expand_records_from_field": path,
            "remain_original_record": whole,
        }
    parameters = {"parameters_field": "record_array"}
    made = component("DpathExtractor", field_path=row["field_path"], **{"$parameters": parameters}, **more)
    extractor = made.build(context({"field": "record_array"}), decoder)
    return [record for page in extractor.pages(body_of(row["body"])) for record in page], row["expected_records"]


def filtered(row: Values) -> Outcome:
    names = {**slice_with({"last_seen": "06-10-21"}, created_at="06-07-21"), "next_page_token": {"last_seen_id": 14}}
    made = component("RecordFilter", condition=row["filter_template"], **{"$parameters": {"created_at": "06-07-21"}})
    keep = made.build(context({"response_override": "stop_if_you_see_me"}))
    return keep(row["records"], names), row["expected_records"]


def decoded(type: str) -> Callable[[Values], Outcome]:
    def decode(row: Values) -> Outcome:
        answer = response(body=(row["response_body"] or "").encode())
        items = list(component(type).build(context()).items(answer))
        expected = row.get("expected_json", row.get("first_element", row.get("expected")))
        return items if "expected_json" in row else next(iter(items), {}), expected

    return decode


# --- requests ----------------------------------------------------------------------------------------------------


def joined(row: Values) -> Outcome:
    return join(row["base_url"], row["path"]), row["expected_full_url"]


NAMES = {**slice_with({"start_date": "2020-01-01"}), "next_page_token": {"offset": 12345, "page": 27}}


def request_of(config: Any = None, **fields: Any) -> Request:
    made: Request = (
        component("HttpRequester", url=URL, **fields)
        .build(context(config or {"option": "OPTION"}))
        .draft(NAMES)
        .request()
    )
    return made


def asked_params(row: Values) -> Outcome:
    expected = {key: str(value) for key, value in row["expected_request_params"].items()}
    return dict(request_of(request_parameters=row["input_request_params"]).params), expected


def asked_json(row: Values) -> Outcome:
    body = request_of(request_body_json=row["input_request_json"]).body
    return orjson.loads(body) if body else {}, row["expected_request_json"]


def asked_data(row: Values) -> Outcome:
    body, expected = request_of(request_body_data=row["input_request_data"]).body, row["expected_request_data"]
    return (body or b"").decode(), expected if isinstance(expected, str) else urlencode(expected)


def query(row: Values) -> Outcome:
    sent = request_of(row["config"], request_parameters=row["request_parameters"]).full_url
    return sent.partition("?")[2] or sent, row["expected_query_params"] or URL


def form(row: Values) -> Outcome:
    body = request_of(row["config"], request_body_data=row["request_body_data"]).body
    return (body or b"").decode(), row["expected_request_body_data"] or ""


def slices_of(expected: Any) -> list[dict[str, Any]]:
    return [{**made.given["partition"], **made.given["cursor_slice"]} for made in expected]


def body(row: Values) -> Outcome:
    written = row.get("input_request_json", row.get("input_request_data"))
    fields = dict(written.given)
    if isinstance(fields.get("value"), Called):
        fields["value"] = dict(fields["value"].given)
    sent = request_of(request_body=fields).body or b""
    if "expected_request_json" in row:
        return orjson.loads(sent or b"{}"), row["expected_request_json"]
    expected = row["expected_request_data"]
    return sent.decode(), expected if isinstance(expected, str) else urlencode(expected)


def combined(row: Values) -> Outcome:
    routers = [component("ListPartitionRouter", **made.given).build(context()) for made in row["stream_slicers"]]
    return [dict(found) for found in Product(routers).partitions({})], slices_of(row["expected_slices"])


def put(row: Values) -> Outcome:
    option = {key: value for key, value in row["request_option"].given.items() if key != "parameters"}
    router = component(
        "ListPartitionRouter",
        values=["customer"],
        cursor_field="owner_resource",
        request_option={"type": "RequestOption", **option, "inject_into": option["inject_into"].name},
    ).build(context())
    draft = RequestBuilder("POST", URL, "here")
    router.ask(draft, Slice(Partition({"owner_resource": "customer"})))
    expected = [row[f"expected_{place}"] for place in ("req_params", "headers", "body_json", "body_data")]
    return [draft.params, draft.headers, draft.json, draft.form], expected


def judged(row: Values) -> Outcome:
    told = row.get("test_response_filter")
    fields = dict(told.given) if told else {
        "action": row["action"],
        "failure_type": row["failure_type"],
        "http_codes": row["http_codes"],
        "predicate": row["predicate"],
        "error_message_contains": row["error_contains"],
        "error_message": row["error_message"],
    }  # fmt: skip
    plain = {
        key: value.name if isinstance(value, Named) else sorted(value) if isinstance(value, set) else value
        for key, value in fields.items()
        if value and key not in ("config", "parameters")
    }
    handler = component("DefaultErrorHandler", response_filters=[{"type": "HttpResponseFilter", **plain}])
    if told:
        status = row["http_status_code"]
        answer = response({"error": "test"} if status == 418 else {}, status=status)
        expected = {"response_action": row["response_action"], "failure_type": row["failure_type"]}
    else:
        given = row["response"]
        answer = response(given.get("json") or {}, status=given["status_code"], headers=given.get("headers") or {})
        expected = dict(row["expected_error_resolution"].given)
    found, wanted = resolution(handler.build(context()).judge(answer, 1), answer), expected["response_action"].name
    assert found.response_action is not None
    if wanted != "FAIL":
        # What is tried again, or passed over, has no failure type here before it fails.
        return found.response_action.name, wanted
    assert found.failure_type is not None
    return [found.response_action.name, found.failure_type.name], [wanted, expected["failure_type"].name]


def parsed(row: Values) -> Outcome:
    return parse_timestamp(row["input_date"], [row["date_format"]]), row["expected_output_date"]


def written(row: Values) -> Outcome:
    return str(write_timestamp(row["input_dt"], row["datetimeformat"])), row["expected_output"]


def listed(row: Values) -> Outcome:
    made = component(
        "ListPartitionRouter",
        values=row["partition_values"],
        cursor_field=row["cursor_field"],
        **{"$parameters": {"cursor_field": "owner_resource"}},
    )
    return [dict(found) for found in made.build(context()).partitions({})], slices_of(row["expected_slices"])


# --- pages, waits, windows ---------------------------------------------------------------------------------------


def following(made: Any, row: Values, answer: Any, raw: int, config: Any = None) -> Any:
    strategy = made.build(context(config), JsonDocument())
    token, body = row.get("last_page_token_value"), answer.json() if answer.body else {}
    page = PageResult(answer, body, raw, raw, [row["last_record"]] if "last_record" in row else [], token, {})
    return strategy.next(page, strategy.size)


def next_page(row: Values) -> Outcome:
    made = component("PageIncrement", page_size=row["page_size"], start_from_page=row["start_from"])
    found = following(made, row, response({}), row["last_page_size"] or 0, {"value": 2})
    return found, row["expected_next_page_token"]


def next_page_of_body(row: Values) -> Outcome:
    made = component("PageIncrement", page_size=2, start_from_page=1)
    results = row["response_results"]
    return following(made, row, response({"results": results}), len(results)), row["expected_next_page_token"]


def first_page(row: Values) -> Outcome:
    options = {key: row[key] for key in ("inject_on_first_request", "start_from_page")}
    made = component("PageIncrement", page_size=20, **options)
    return made.build(context(), JsonDocument()).first(), row["expected_initial_token"]


def next_offset(row: Values) -> Outcome:
    made = component("OffsetIncrement", page_size=row["page_size"], **{"$parameters": row["parameters"]})
    results = row["response_results"]
    answer = response({"results": results, "page_metadata": {"limit": 5}})
    return following(made, row, answer, len(results)), row["expected_next_page_token"]


def next_cursor(row: Values) -> Outcome:
    stop = row["stop_condition"]
    made = component(
        "CursorPagination",
        cursor_value=row["template_string"],
        page_size=row["page_size"],
        stop_condition=stop.given.get("condition", stop.given.get("0")) if isinstance(stop, Called) else stop,
        **{"$parameters": {"key": "value"}},
    )
    link = '<https://adventure.io/api/v1/records?page=2&per_page=100>; rel="next"'
    headers = {"has_more": "True", "next": "ready_to_go", "link": link}
    body = {"_metadata": {"content": "content_value"}, "accounts": [], "end": 99, "total": 200, "characters": {}}
    page = {**row, "last_record": {"id": 1, "more_records": True}}
    token = following(made, page, response(body, headers=headers), 1, {"config_key": "config_value"})
    # An empty token is no token: what asks for pages stops at either.
    return token or None, row["expected_token"]


def waited(type: str, config: Any, named: str = "", parameters: Any = None) -> Callable[[Values], Outcome]:
    def wait(row: Values) -> Outcome:
        fields = {
            "backoff_time_in_seconds": row.get("backofftime"),
            "factor": row.get("factor"),
            "header": row.get("header"),
            "regex": row.get("regex"),
            "min_wait": row.get("min_wait"),
            "jitter_range_in_seconds": row.get("jitter_range"),
        }
        told = {name: value for name, value in fields.items() if value is not None}
        made = component(type, **told, **{"$parameters": parameters or config}).build(context(config))
        value = row.get("header_value", row.get("wait_until"))
        answer = response({}, status=429, headers={named: str(value)} if named else {})
        return made(answer, row.get("attempt_count", 1)), row["expected_backoff_time"]

    return wait


BACKOFFS = "requesters/error_handlers/backoff_strategies"
UNTIL = {"wait_until": "wait_until", "regex": "[-+]?\\d+", "min_wait": 60}
OLD, MIDDLE, NEW = "2021-01-01T20:12:19.597854Z", "2022-01-01T20:12:19.597854Z", "2022-06-24T20:12:19.597854Z"


def between(row: Values) -> Outcome:
    # A start or an end of a cursor sees no slice: the row's is in the config.
    texts = {
        name: row[key].replace("stream_interval['start_date']", "config['start_date']")
        for name, key in (("datetime", "date"), ("min_datetime", "min_date"), ("max_datetime", "max_date"))
    }
    made = component("MinMaxDatetime", **texts, **{"$parameters": {"newer": NEW, "older": OLD}})
    assert isinstance(made, MinMaxDatetime)
    config = {"older": OLD, "middle": MIDDLE, "start_date": NEW}
    expected = datetime.strptime(row["expected_date"], "%Y-%m-%dT%H:%M:%S.%f%z")
    return made.timestamp(context(config), []), expected


def at_once(row: Values) -> Outcome:
    made = component(
        "ConcurrencyLevel", default_concurrency=row["default_concurrency"], max_concurrency=row["max_concurrency"]
    )
    return made.build(context({"num_workers": 50})), row["expected_concurrency"]


def with_types(row: Values) -> Outcome:
    return propagate(row["component"]), row["expected_component"]


def not_migrated(row: Values) -> Outcome:
    parent = {"type": "ParentStreamConfig", "parent_key": "id", "partition_field": "parent_id"}
    selector = {"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": []}}
    simple = {"type": "SimpleRetriever", "requester": {"url": URL}, "record_selector": selector}
    parents = {"stream": {"name": "p", "retriever": simple}}
    router = {"type": "SubstreamPartitionRouter", "parent_stream_configs": [{**parent, **parents}]}
    cursor = {"type": "DatetimeBasedCursor", "cursor_field": "last_changed", "datetime_format": "%Y"}
    stream = validated(
        DeclarativeStream,
        {
            "name": "s",
            "retriever": {**simple, "partition_router": router},
            "incremental_sync": {**cursor, "start_datetime": "2020"},
        },
    )
    state = row["input_state"]
    return LegacyToPerPartitionStateMigration().build(context(), stream)(state), state


Adapter = Callable[[Values], Outcome]

TABLES: Mapping[str, Mapping[str, Adapter]] = {
    "interpolation/test_jinja.py": {
        "test_literals": literal,
        "test_macros": literal,
        "test_macros_examples": literal,
        "test_stream_slice_alias": aliased,
    },
    "interpolation/test_interpolated_string.py": {
        "test_interpolated_string": string,
        "test_parsing_record_data": string,
    },
    "interpolation/test_interpolated_boolean.py": {"test_interpolated_boolean": condition},
    "interpolation/test_macros.py": {
        "test_format_datetime": macro("format_datetime", "input_value", "format", "input_format"),
        "test_timestamp": macro("timestamp", "input_value"),
        "test_give_valid_date_str_to_datetime_returns_datetime_object": macro("str_to_datetime", "input_value"),
        "test_sanitize_url": macro("sanitize_url", "input_value"),
        "test_camel_case_to_snake_case": macro("camel_case_to_snake_case", "value"),
    },
    "interpolation/test_filters.py": {"test_base64decode": decoded_base64, "test_regex_replace": regex},
    "transformations/test_add_fields.py": {"test_add_fields": added},
    "transformations/test_remove_fields.py": {"test_remove_fields": removed},
    "transformations/test_flatten_fields.py": {"test_flatten_fields": flattened},
    "transformations/test_keys_to_snake_transformation.py": {"test_keys_transformation": in_snake_case},
    "transformations/test_dpath_flatten_fields.py": {"test_dpath_flatten_lists": flattened_at},
    "extractors/test_dpath_extractor.py": {
        "test_dpath_extractor": extracted,
        "test_dpath_extractor_with_expansion": extracted,
    },
    "extractors/test_record_filter.py": {"test_record_filter": filtered},
    "decoders/test_json_decoder.py": {
        "test_json_decoder": decoded("JsonDecoder"),
        "test_jsonl_decoder": decoded("JsonlDecoder"),
    },
    "decoders/test_xml_decoder.py": {"test_xml_decoder": decoded("XmlDecoder")},
    "parsers/test_manifest_component_transformer.py": {"test_find_default_types": with_types},
    "concurrency_level/test_concurrency_level.py": {"test_stream_slices": at_once},
    "requesters/test_http_requester.py": {
        "test_join_url": joined,
        "test_request_param_interpolation": query,
        "test_request_body_interpolation": form,
    },
    "requesters/request_options/test_interpolated_request_options_provider.py": {
        "test_interpolated_request_params": asked_params,
        "test_interpolated_request_json": asked_json,
        "test_interpolated_request_data": asked_data,
        "test_interpolated_request_json_using_request_body": body,
        "test_interpolated_request_data_using_request_body": body,
    },
    "partition_routers/test_list_partition_router.py": {
        "test_list_partition_router": listed,
        "test_request_option": put,
    },
    "partition_routers/test_cartesian_product_partition_router.py": {"test_substream_slicer": combined},
    "requesters/error_handlers/test_http_response_filter.py": {"test_matches": judged},
    "requesters/error_handlers/test_default_error_handler.py": {
        "test_default_error_handler_with_custom_response_filter": judged
    },
    "requesters/paginators/test_page_increment.py": {
        "test_page_increment_paginator_strategy": next_page,
        "test_page_increment_paginator_strategy_with_extractor": next_page_of_body,
        "test_page_increment_paginator_strategy_initial_token": first_page,
    },
    "requesters/paginators/test_offset_increment.py": {"test_offset_increment_paginator_strategy": next_offset},
    "requesters/paginators/test_cursor_pagination_strategy.py": {"test_cursor_pagination_strategy": next_cursor},
    f"{BACKOFFS}/test_constant_backoff.py": {
        "test_constant_backoff": waited("ConstantBackoffStrategy", {"backoff": 30}, parameters={"backoff": 20})
    },
    f"{BACKOFFS}/test_exponential_backoff.py": {
        "test_exponential_backoff": waited("ExponentialBackoffStrategy", {"backoff": 5})
    },
    f"{BACKOFFS}/test_wait_time_from_header.py": {
        "test_wait_time_from_header": waited("WaitTimeFromHeader", {"wait_time": "wait_time"}, named="wait_time")
    },
    f"{BACKOFFS}/test_wait_until_time_from_header.py": {
        "test_wait_untiltime_from_header": waited("WaitUntilTimeFromHeader", UNTIL, named="wait_until")
    },
    "datetime/test_datetime_parser.py": {"test_parse_date": parsed, "test_format_datetime": written},
    "datetime/test_min_max_datetime.py": {"test_min_max_datetime": between},
    "migrations/test_legacy_to_per_partition_migration.py": {"test_should_not_migrate": not_migrated},
}


def cases() -> Iterator[Any]:
    for file, functions in TABLES.items():
        for function, adapter in functions.items():
            for row in filter(_tries_the_language, rows(FOLDER, file, function)):
                yield pytest.param(row, adapter, id=str(row))


def _tries_the_language(row: Row) -> bool:
    """Whether a row is about what a manifest can say: not about cursors as routers, or filters that match nothing."""
    slicers = row.values.get("stream_slicers", ())
    return row.values.get("expected_error_resolution", row) is not None and all(
        made.name == "ListPartitionRouter" for made in slicers
    )


# What differs on purpose, and the words of the page that say so.
DIFFERENT = {
    "test_dpath_extractor.test_dpath_extractor_with_expansion-6": '`{"value": element}` where they are no objects',
    "test_json_decoder.test_json_decoder-0": "A body that is no JSON, or empty, is an error",
    "test_xml_decoder.test_xml_decoder-2": "and so is one that is no XML",
    "test_xml_decoder.test_xml_decoder-3": "and so is one that is no XML",
}


@pytest.mark.parametrize(("row", "adapter"), list(cases()))
def test_a_row_of_the_peers_tables_is_equal_here_or_on_the_page(row: Row, adapter: Adapter) -> None:
    try:
        found, expected = adapter(row.values)
    except DecodeError:
        found, expected = DecodeError, None

    assert (found == expected) is (str(row) not in DIFFERENT)
    assert DIFFERENT.get(str(row), "") in DIFFERENCES
