from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec import convert

from cdk.base.errors import ManifestError
from cdk.base.values import Json
from cdk.protocol.messages import AirbyteStateMessage
from cdk.testing import MockApi, read
from tests.compat.sources import URL, manifest, source

PARENT: dict[str, Any] = {
    "type": "ParentStreamConfig",
    "parent_key": "id",
    "partition_field": "project",
    "stream": {
        "type": "DeclarativeStream",
        "name": "projects",
        "retriever": {
            "type": "SimpleRetriever",
            "requester": {"type": "HttpRequester", "url_base": URL, "path": "/projects"},
            "record_selector": {"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": []}},
        },
    },
}


def of_projects(class_name: str, **more: Json) -> Json:
    return manifest(
        requester={"path": "/projects/{{ stream_partition.project }}/items"},
        partition_router={
            "type": "CustomPartitionRouter",
            "class_name": class_name,
            "parent_stream_configs": [PARENT],
            **more,
        },
    )


def test_a_router_extends_the_substreams_of_the_language(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass
from typing import Iterable
from airbyte_cdk.sources.declarative.partition_routers.substream_partition_router import SubstreamPartitionRouter
from airbyte_cdk.sources.declarative.types import StreamSlice

@dataclass
class Light(SubstreamPartitionRouter):
    skip: str = ""

    def stream_slices(self) -> Iterable[StreamSlice]:
        if self.config.get("only"):
            yield StreamSlice(partition={"project": self.config["only"]}, cursor_slice={})
            return
        for found in super().stream_slices():
            partition = {k: v for k, v in found.partition.items() if k != "parent_slice"}
            if partition["project"] != self.skip:
                yield StreamSlice(partition=partition, cursor_slice={}, extra_fields={"n": len(partition)})
"""
    api = MockApi()
    projects = api.get("/projects").returns(json=[{"id": "a"}, {"id": "b"}, {"id": "c"}])
    for name in "abc":
        api.get(f"/projects/{name}/items").returns(json={"data": [{"id": name}]})
    built = source(tmp_path, code, of_projects("source_x.components.Light", skip="b"), api)

    every, one = read(built, "items"), read(built, "items", config={"only": "c"})

    assert (every.error, one.error) == (None, None)
    assert (every.records, one.records) == ([{"id": "a"}, {"id": "c"}], [{"id": "c"}])
    assert len(projects.requests) == 1


def test_a_custom_router_sends_a_value_that_is_zero(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.partition_routers.substream_partition_router import SubstreamPartitionRouter

class Same(SubstreamPartitionRouter):
    pass
"""
    api = MockApi()
    api.get("/projects").returns(json=[{"id": 0}, {"id": 7}])
    api.get("/items").returns(json={"data": []})
    option = {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "of"}
    config = {**PARENT, "request_option": option}
    router = {"class_name": "components.Same", "parent_stream_configs": [config]}
    written = manifest(partition_router={"type": "CustomPartitionRouter", **router})

    run = read(source(tmp_path, code, written, api), "items")

    assert run.error is None
    assert [request.params for request in api.requests[1:]] == [{"of": "0"}, {"of": "7"}]


def test_of_a_parent_that_a_router_reads_twice_the_first_read_counts(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.partition_routers.substream_partition_router import SubstreamPartitionRouter

class Same(SubstreamPartitionRouter):
    pass
"""
    api = MockApi()
    early, late = {"id": "a", "boss": "c", "at": "2024-01-02"}, {"id": "b", "boss": "c", "at": "2024-01-03"}
    # No GET, which the second would share with the first.
    api.post("/projects").returns(json=[early]).returns(json=[early, late])
    for name in "abc":
        api.get(f"/projects/{name}/items").returns(json={"data": [{"id": name, "at": "2024-01-02"}]})
    followed: dict[str, Any] = {**PARENT["stream"], "incremental_sync": {"type": "DatetimeBasedCursor", **INCREMENTAL}}
    followed["retriever"] = {**followed["retriever"]}
    followed["retriever"]["requester"] = {**followed["retriever"]["requester"], "http_method": "POST"}
    config = {**PARENT, "stream": followed, "incremental_dependency": True}
    written = of_projects("components.Same", parent_stream_configs=[config, {**config, "parent_key": "boss"}])
    written["streams"][0]["incremental_sync"] = {"type": "DatetimeBasedCursor", **INCREMENTAL}

    run = read(source(tmp_path, code, written, api), "items")

    assert run.error is None
    assert {str(record["id"]) for record in run.records} == {"a", "c"}
    assert run.states[-1]["parent_state"] == {"projects": {"at": "2024-01-02"}}


def test_a_router_reads_its_parents_itself(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass
from airbyte_cdk.models import SyncMode
from airbyte_cdk.sources.declarative.partition_routers.substream_partition_router import SubstreamPartitionRouter
from airbyte_cdk.sources.declarative.types import StreamSlice
from airbyte_cdk.sources.streams.core import Stream

@dataclass
class Members(SubstreamPartitionRouter):
    def stream_slices(self):
        streams = {config.stream.name: config.stream for config in self.parent_stream_configs}
        parent = streams["projects"]
        seen = []
        for partition in parent.generate_partitions():
            seen += [member for record in partition.read() for member in record["of"]]
        if isinstance(parent, Stream):
            for cut in parent.stream_slices(sync_mode=SyncMode.full_refresh):
                assert list(parent.read_records(sync_mode=SyncMode.full_refresh, stream_slice=cut))
        for member in sorted(set(seen)):
            yield {"project": member}

    def get_request_params(self, *, stream_state=None, stream_slice=None, next_page_token=None):
        return {"of": stream_slice["project"]}
"""
    api = MockApi()
    api.get("/projects").returns(json=[{"id": 1, "of": ["x", "y"]}, {"id": 2, "of": ["y"]}])
    for name in "xy":
        api.get(f"/projects/{name}/items", params={"of": name}).returns(json={"data": [{"id": name}]})

    run = read(source(tmp_path, code, of_projects("components.Members"), api), "items")

    assert run.error is None
    assert run.records == [{"id": "x"}, {"id": "y"}]


def test_a_router_replaces_what_goes_into_requests_and_slices(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.partition_routers.substream_partition_router import SubstreamPartitionRouter
from airbyte_cdk.sources.declarative.requesters.request_option import RequestOptionType

class Own(SubstreamPartitionRouter):
    def _get_request_option(self, option_type, stream_slice):
        given = super()._get_request_option(option_type, stream_slice)
        if option_type == RequestOptionType.header:
            return {**given, "X-Of": stream_slice.extra_fields["of"]}
        return given

    def _extract_extra_fields(self, parent_record, extra_fields=None):
        return {**super()._extract_extra_fields(parent_record, extra_fields), "of": parent_record["of"]}

    def get_request_params(self, stream_state=None, stream_slice=None, next_page_token=None):
        return {**super().get_request_params(stream_state, stream_slice, next_page_token), "more": "1"}
"""
    api = MockApi()
    api.get("/projects").returns(json=[{"id": "a", "of": "x", "in": {"y": "z"}}])
    items = api.get("/projects/a/items").returns(json={"data": [{"id": 1}]})
    option = {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "at"}
    config = {**PARENT, "request_option": option, "extra_fields": [["in", "y"]]}
    written = of_projects("components.Own", parent_stream_configs=[config])
    written["streams"][0]["retriever"]["requester"]["request_headers"] = {
        "X-In": "{{ stream_slice.extra_fields['in.y'] }}"
    }

    run = read(source(tmp_path, code, written, api), "items")

    assert run.error is None
    assert [dict(request.params) for request in items.requests] == [{"at": "a", "more": "1"}]
    assert [(request.headers["X-Of"], request.headers["X-In"]) for request in items.requests] == [("x", "z")]


def test_a_value_of_a_custom_router_goes_deep_into_a_body(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.partition_routers import ListPartitionRouter

class Same(ListPartitionRouter):
    pass
"""
    api = MockApi()
    items = api.post("/items").returns(json={"data": [{"id": 1}]})
    option = {"type": "RequestOption", "inject_into": "body_json", "field_path": ["in", "node"]}
    router = {"class_name": "components.Same", "cursor_field": "node", "values": ["a"], "request_option": option}
    written = manifest(requester={"http_method": "POST"}, partition_router={"type": "CustomPartitionRouter", **router})

    run = read(source(tmp_path, code, written, api), "items")

    assert run.error is None
    assert [orjson.loads(request.body or b"") for request in items.requests] == [{"in": {"node": "a"}}]


def test_a_router_that_reads_its_parents_reports_to_their_cursors(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.partition_routers.substream_partition_router import SubstreamPartitionRouter
from airbyte_cdk.sources.types import StreamSlice

class Members(SubstreamPartitionRouter):
    def stream_slices(self):
        parent = self.parent_stream_configs[0].stream
        for partition in parent.generate_partitions():
            for record in partition.read():
                parent.cursor.observe(record)
                yield StreamSlice(partition={"project": record.data["id"], "parent_slice": {}}, cursor_slice={})
            parent.cursor.close_partition(partition)
        parent.cursor.ensure_at_least_one_state_emitted()
"""
    api = MockApi()
    api.get("/projects").returns(json=[{"id": "a"}])
    api.get("/projects/a/items").returns(json={"data": [{"id": 1}]})

    run = read(source(tmp_path, code, of_projects("components.Members"), api), "items")

    assert run.error is None
    assert run.records == [{"id": 1}]


def test_a_router_takes_streams_as_fields(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass
from typing import Any
from airbyte_cdk.sources.declarative.declarative_stream import DeclarativeStream
from airbyte_cdk.sources.declarative.stream_slicers.stream_slicer import StreamSlicer

@dataclass
class Listed(StreamSlicer):
    projects_stream: DeclarativeStream
    config: Any

    def stream_slices(self):
        for record in self.projects_stream.read_only_records():
            yield {"project": record["id"]}
"""
    api = MockApi()
    api.get("/projects").returns(json=[{"id": "a"}])
    api.get("/projects/a/items").returns(json={"data": [{"id": 1}]})
    written = of_projects("components.Listed", projects_stream=PARENT["stream"], parent_stream_configs=[])

    run = read(source(tmp_path, code, written, api), "items")

    assert run.error is None
    assert run.records == [{"id": 1}]


def test_a_retriever_works_on_what_the_language_reads(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass, field
from airbyte_cdk.sources.declarative.retrievers.simple_retriever import SimpleRetriever
from airbyte_cdk.sources.declarative.types import StreamSlice

@dataclass
class Tree(SimpleRetriever):
    depth: int = field(default=0, init=False)

    def __post_init__(self, parameters):
        super().__post_init__(parameters)

    def read_records(self, records_schema, stream_slice=None):
        for record in super().read_records(records_schema, stream_slice):
            if record.data.get("children"):
                below = StreamSlice(partition={"node": record["id"]}, cursor_slice=stream_slice.cursor_slice)
                yield from self.read_records(records_schema, below)
            yield record
"""
    api = MockApi()
    api.get("/nodes/root", params={"page": 1}).returns(json={"data": [{"id": "a", "children": True}, {"id": "b"}]})
    api.get("/nodes/root", params={"page": 2}).returns(json={"data": [{"id": "c"}]})
    api.get("/nodes/a", params={"page": 1}).returns(json={"data": [{"id": "d"}]})
    written = manifest(
        {
            "transformations": [
                {"type": "AddFields", "fields": [{"path": ["seen"], "value": "{{ stream_slice.node }}"}]}
            ]
        },
        type="CustomRetriever",
        class_name="source_x.components.Tree",
        requester={"path": "/nodes/{{ stream_slice['node'] }}"},
        partition_router={"type": "ListPartitionRouter", "cursor_field": "node", "values": ["root"]},
        paginator={
            "type": "DefaultPaginator",
            "$parameters": {"url_base": URL},
            "pagination_strategy": {
                "type": "PageIncrement",
                "start_from_page": 1,
                "page_size": 2,
                "inject_on_first_request": True,
            },
            "page_token_option": {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "page"},
        },
    )

    run = read(source(tmp_path, code, written, api))

    assert run.error is None
    assert [record["id"] for record in run.records] == ["d", "a", "b", "c"]


def test_a_retriever_splits_a_window_that_is_too_large(tmp_path: Path) -> None:
    code = """
from dataclasses import InitVar, dataclass
from airbyte_cdk.sources.declarative.retrievers.simple_retriever import SimpleRetriever
from airbyte_cdk.sources.declarative.types import StreamSlice
from airbyte_cdk.sources.streams.http.error_handlers import ErrorHandler

class TooLarge(Exception):
    pass

@dataclass
class Judge(ErrorHandler):
    parameters: InitVar[dict]

    def __post_init__(self, parameters):
        pass

    @property
    def max_retries(self):
        return None

    @property
    def max_time(self):
        return None

    def interpret_response(self, response_or_exception=None):
        if response_or_exception.status_code == 400:
            raise TooLarge(response_or_exception.text)

@dataclass
class Halves(SimpleRetriever):
    def read_records(self, records_schema, stream_slice=None):
        try:
            yield from super().read_records(records_schema=records_schema, stream_slice=stream_slice)
        except TooLarge:
            start, end = stream_slice.cursor_slice["start_time"], stream_slice.cursor_slice["end_time"]
            for a, b in ((start, "2024-01-02"), ("2024-01-03", end)):
                cut = StreamSlice(partition=stream_slice.partition, cursor_slice={"start_time": a, "end_time": b})
                yield from self.read_records(records_schema, cut)
"""
    api = MockApi()
    asks = {"since": "2024-01-01", "until": "2024-01-04"}
    api.get("/items", params=asks).returns(status=400, json={"error": "too much"})
    for since, until in (("2024-01-01", "2024-01-02"), ("2024-01-03", "2024-01-04")):
        data = {"data": [{"at": since}, {"at": until}]}
        api.get("/items", params={"since": since, "until": until}).returns(json=data)
    option = {"type": "RequestOption", "inject_into": "request_parameter"}
    written = manifest(
        {
            "incremental_sync": {
                "type": "DatetimeBasedCursor",
                "cursor_field": "at",
                "datetime_format": "%Y-%m-%d",
                "start_datetime": "2024-01-01",
                "end_datetime": "2024-01-04",
                "start_time_option": {**option, "field_name": "since"},
                "end_time_option": {**option, "field_name": "until"},
            }
        },
        type="CustomRetriever",
        class_name="components.Halves",
        requester={"error_handler": {"type": "CustomErrorHandler", "class_name": "components.Judge"}},
    )

    run = read(source(tmp_path, code, written, api))

    assert run.error is None
    assert [record["at"] for record in run.records] == ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"]
    assert run.states[-1] == {"at": "2024-01-04"}


def test_a_retriever_without_transformations_of_the_stream(tmp_path: Path) -> None:
    code = """
from functools import partial
from airbyte_cdk.sources.declarative.retrievers import SimpleRetriever

class Plain(SimpleRetriever):
    def __post_init__(self, parameters):
        super().__post_init__(parameters)
        self.record_selector.transformations = []

    def read_records(self, records_schema, stream_slice=None):
        parse = partial(self._parse_records, stream_slice=stream_slice, records_schema=records_schema)
        for record in self._read_pages(parse, stream_slice):
            record.data["mark"] = self.config["mark"]
            yield record
"""
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}]})
    written = manifest(
        {"transformations": [{"type": "RemoveFields", "field_pointers": [["id"]]}]},
        type="CustomRetriever",
        class_name="components.Plain",
    )

    run = read(source(tmp_path, code, written, api), config={"mark": "x"})

    assert run.error is None
    assert run.records == [{"id": 1, "mark": "x"}]


def test_a_retriever_sees_records_that_the_cursor_would_drop(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass
from typing import Optional
from airbyte_cdk.sources.declarative.requesters.request_options import RequestOptionsProvider
from airbyte_cdk.sources.declarative.retrievers import SimpleRetriever

@dataclass
class Edited(SimpleRetriever):
    request_options_provider: Optional[RequestOptionsProvider] = None

    def read_records(self, records_schema, stream_slice=None):
        assert self.request_options_provider.get_request_params(stream_slice=stream_slice) == {}
        for record in super().read_records(records_schema, stream_slice):
            yield from record["children"]
"""
    api = MockApi()
    api.get("/items").returns(json={"data": [{"at": "2020-01-01", "children": [{"at": "2024-01-02"}]}]})
    cursor = {"type": "DatetimeBasedCursor", **INCREMENTAL, "is_client_side_incremental": True}
    written = manifest({"incremental_sync": cursor}, type="CustomRetriever", class_name="components.Edited")

    run = read(source(tmp_path, code, written, api))

    assert run.error is None
    assert run.records == [{"at": "2024-01-02"}]


INCREMENTAL = {
    "cursor_field": "at",
    "datetime_format": "%Y-%m-%d",
    "start_datetime": "2024-01-01",
    "end_datetime": "2024-01-04",
}


def test_a_migration_reads_an_old_state_with_the_stream_at_hand(tmp_path: Path) -> None:
    code = """
from typing import Any, Mapping
from airbyte_cdk.sources.declarative.migrations.state_migration import StateMigration
from airbyte_cdk.sources.declarative.models.declarative_component_schema import DeclarativeStream
from airbyte_cdk.sources.declarative.interpolation.interpolated_string import InterpolatedString

class Flatten(StateMigration):
    declarative_stream: DeclarativeStream
    config: Mapping[str, Any]

    def __init__(self, declarative_stream: DeclarativeStream, config: Mapping[str, Any]):
        cursor = declarative_stream.incremental_sync
        field = InterpolatedString.create(cursor.cursor_field, parameters=declarative_stream.parameters)
        self._field = field.eval(config)

    def should_migrate(self, stream_state):
        return "states" in stream_state

    def migrate(self, stream_state):
        return min((item["cursor"] for item in stream_state["states"]), key=lambda cursor: cursor[self._field])
"""
    api = MockApi()
    items = api.get("/items").returns(json={"data": []})
    start = {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "since"}
    cursor = {"type": "DatetimeBasedCursor", **INCREMENTAL, "start_time_option": start}
    migrations = [{"type": "CustomStateMigration", "class_name": "components.Flatten"}]
    written = manifest({"incremental_sync": cursor, "state_migrations": migrations})
    old = {"states": [{"partition": {"a": 1}, "cursor": {"at": "2024-01-03"}}, {"cursor": {"at": "2024-01-02"}}]}

    saved = convert(
        {"type": "STREAM", "stream": {"stream_descriptor": {"name": "items"}, "stream_state": old}}, AirbyteStateMessage
    )

    run = read(source(tmp_path, code, written, api), state=[saved])

    assert run.error is None
    assert [asked.params["since"] for asked in items.requests] == ["2024-01-02"]


def test_a_migration_of_a_stream_without_a_state_gets_an_empty_one(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.migrations.state_migration import StateMigration

class Drop(StateMigration):
    def should_migrate(self, stream_state):
        return "old" in stream_state

    def migrate(self, stream_state):
        del stream_state["old"]
        return stream_state
"""
    api = MockApi()
    api.get("/items").returns(json={"data": [{"at": "2024-01-02"}]})
    cursor = {"type": "DatetimeBasedCursor", **INCREMENTAL}
    migrations = [{"type": "CustomStateMigration", "class_name": "components.Drop"}]
    written = manifest({"incremental_sync": cursor, "state_migrations": migrations})
    empty = convert(
        {"type": "STREAM", "stream": {"stream_descriptor": {"name": "items"}, "stream_state": None}},
        AirbyteStateMessage,
    )

    runs = [read(source(tmp_path, code, written, api), state=state) for state in ([], [empty])]

    assert [(run.error, run.records) for run in runs] == [(None, [{"at": "2024-01-02"}])] * 2


CHANGED_STATES = """
from airbyte_cdk.sources.declarative.migrations.legacy_to_per_partition_state_migration import (
    LegacyToPerPartitionStateMigration,
)

class Changed(LegacyToPerPartitionStateMigration):
    def __init__(self, declarative_stream, config, parameters):
        super().__init__(
            partition_router=declarative_stream.retriever.partition_router,
            cursor=declarative_stream.incremental_sync,
            config=config,
            parameters=parameters,
        )

    def should_migrate(self, stream_state):
        return super().should_migrate(self._renamed(stream_state))

    def migrate(self, stream_state):
        return super().migrate(self._renamed(stream_state))

    def _renamed(self, stream_state):
        at = self._cursor_field
        known = {key: value for key, value in stream_state.items() if isinstance(value, dict)}
        return {key: {at: value.get("changed") or value.get(at)} for key, value in known.items()}
"""

STATES_OF_NUMBERS = """
from airbyte_cdk.sources.declarative.interpolation.interpolated_string import InterpolatedString
from airbyte_cdk.sources.declarative.migrations.legacy_to_per_partition_state_migration import (
    LegacyToPerPartitionStateMigration,
)

class Changed(LegacyToPerPartitionStateMigration):
    def __init__(self, declarative_stream, config):
        self._partition_router = declarative_stream.retriever.partition_router
        self._cursor = declarative_stream.incremental_sync
        self._config, self._parameters = config, declarative_stream.parameters
        self._partition_key_field = InterpolatedString.create(
            self._get_partition_field(self._partition_router), parameters=self._parameters
        ).eval(self._config)
        self._cursor_field = InterpolatedString.create(
            self._cursor.cursor_field, parameters=self._parameters
        ).eval(self._config)

    def migrate(self, stream_state):
        partitions = {key: {self._partition_key_field: str(key), "parent_slice": {}} for key in stream_state}
        return {"states": [{"partition": partitions[key], "cursor": at} for key, at in stream_state.items()]}
"""


@pytest.mark.parametrize(
    ("code", "old"),
    [
        (CHANGED_STATES, {"a": {"at": "2024-01-03"}}),
        (CHANGED_STATES, {"a": {"changed": "2024-01-03"}}),
        (CHANGED_STATES, {"a": "2024-01-03"}),
        (STATES_OF_NUMBERS, {"a": {"at": "2024-01-03"}}),
        (STATES_OF_NUMBERS, {"a": "2024-01-03"}),
    ],
)
def test_a_state_migration_extends_that_of_the_language(tmp_path: Path, code: str, old: dict[str, Json]) -> None:
    api = MockApi()
    api.get("/projects").returns(json=[{"id": "a"}, {"id": "b"}])
    items = [api.get(f"/projects/{name}/items").returns(json={"data": [{"at": "2024-01-03"}]}) for name in "ab"]
    option = {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "since"}
    written = manifest(
        {
            "incremental_sync": {"type": "DatetimeBasedCursor", **INCREMENTAL, "start_time_option": option},
            "state_migrations": [{"type": "CustomStateMigration", "class_name": "components.Changed"}],
        },
        requester={"path": "/projects/{{ stream_partition.project }}/items"},
        partition_router={"type": "SubstreamPartitionRouter", "parent_stream_configs": [PARENT]},
    )
    state = convert(
        {"type": "STREAM", "stream": {"stream_descriptor": {"name": "items"}, "stream_state": old}}, AirbyteStateMessage
    )

    run = read(source(tmp_path, code, written, api), "items", state=[state])

    begins = "2024-01-03" if isinstance(old["a"], dict) else "2024-01-01"
    assert run.error is None
    assert [asked.requests[0].params["since"] for asked in items] == [begins, "2024-01-01"]


def test_a_cursor_that_only_asks_otherwise_keeps_our_windows(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.incremental import DatetimeBasedCursor

class Range(DatetimeBasedCursor):
    def get_request_params(self, *, stream_state=None, stream_slice=None, next_page_token=None):
        return {"range": f"{stream_slice['start_time']}..{stream_slice['end_time']}"}
"""
    api = MockApi()
    items = api.get("/items").returns(json={"data": [{"at": "2024-01-02"}]})
    cursor = {"type": "CustomIncrementalSync", "class_name": "components.Range", **INCREMENTAL}

    run = read(source(tmp_path, code, manifest({"incremental_sync": cursor}), api))

    assert run.error is None
    assert [asked.params["range"] for asked in items.requests] == ["2024-01-01..2024-01-04"]
    assert run.states[-1] == {"at": "2024-01-02"}


def test_a_cursor_replaces_what_goes_into_every_part_of_a_request(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.incremental import DatetimeBasedCursor
from airbyte_cdk.sources.declarative.requesters.request_option import RequestOptionType

class Headed(DatetimeBasedCursor):
    def _get_request_options(self, option_type, stream_slice):
        given = super()._get_request_options(option_type, stream_slice)
        return {**given, "X-Since": stream_slice["start_time"]} if option_type == RequestOptionType.header else given
"""
    api = MockApi()
    items = api.get("/items").returns(json={"data": [{"at": "2024-01-02"}]})
    option = {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "until"}
    cursor = {"type": "CustomIncrementalSync", "class_name": "components.Headed", **INCREMENTAL}

    run = read(source(tmp_path, code, manifest({"incremental_sync": {**cursor, "end_time_option": option}}), api))

    assert run.error is None
    assert [(asked.headers["X-Since"], dict(asked.params)) for asked in items.requests] == [
        ("2024-01-01", {"until": "2024-01-04"})
    ]


def test_a_cursor_parses_the_bounds_of_its_windows(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.incremental import DatetimeBasedCursor
from airbyte_cdk.sources.declarative.requesters.request_option import RequestOptionType

class Length(DatetimeBasedCursor):
    def _get_request_options(self, option_type, stream_slice=None):
        given = {**super()._get_request_options(option_type, stream_slice)}
        if option_type == RequestOptionType.request_parameter and stream_slice is not None:
            start, end = (
                self._parser.parse(stream_slice[field.eval(self.config)], self.datetime_format)
                for field in (self._partition_field_start, self._partition_field_end)
            )
            given["length"] = (end - start).days + 1
        return given
"""
    api = MockApi()
    items = api.get("/items").returns(json={"data": [{"at": "2024-01-02"}]})
    cursor = {"type": "CustomIncrementalSync", "class_name": "components.Length", **INCREMENTAL}

    run = read(source(tmp_path, code, manifest({"incremental_sync": cursor}), api))

    assert run.error is None
    assert [dict(asked.params) for asked in items.requests] == [{"length": "4"}]


def test_a_cursor_may_have_fields_of_its_own_and_ask_as_the_manifest_says_besides(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass
from airbyte_cdk.sources.declarative.incremental import DatetimeBasedCursor

@dataclass
class Zoned(DatetimeBasedCursor):
    zone: str = "utc"

    def __post_init__(self, parameters):
        super().__post_init__(parameters=parameters)
        self._field = self.cursor_field.eval(self.config)

    def get_request_params(self, *, stream_state=None, stream_slice=None, next_page_token=None):
        given = super().get_request_params(
            stream_state=stream_state, stream_slice=stream_slice, next_page_token=next_page_token
        )
        return {**given, "zone": self.zone, "by": self._field}
"""
    api = MockApi()
    items = api.get("/items").returns(json={"data": [{"at": "2024-01-02"}]})
    since = {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "since"}
    own = {"start_time_option": since, "zone": "cet", "partition_field_start": "begin"}
    cursor = {"type": "CustomIncrementalSync", "class_name": "components.Zoned", **INCREMENTAL, **own}

    run = read(source(tmp_path, code, manifest({"incremental_sync": cursor}), api))

    assert run.error is None
    assert [dict(asked.params) for asked in items.requests] == [{"since": "2024-01-01", "zone": "cet", "by": "at"}]


def test_the_records_before_a_page_that_fails_are_handed_on(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass
from airbyte_cdk.sources.declarative.retrievers import SimpleRetriever

@dataclass
class Marked(SimpleRetriever):
    def read_records(self, records_schema, stream_slice=None):
        for record in super().read_records(records_schema, stream_slice):
            yield {**record, "mark": 1}
"""
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}, {"id": 2}]})
    api.get("/items", {"page": "1"}).returns(status=404)
    option = {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "page"}
    strategy = {"type": "PageIncrement", "page_size": 2}
    paginator = {"type": "DefaultPaginator", "page_token_option": option, "pagination_strategy": strategy}

    run = read(
        source(
            tmp_path, code, manifest(type="CustomRetriever", class_name="components.Marked", paginator=paginator), api
        )
    )

    assert run.error is not None
    assert run.records == [{"id": 1, "mark": 1}, {"id": 2, "mark": 1}]


STEPS_NOW = """
from airbyte_cdk.sources.declarative.retrievers import SimpleRetriever
from airbyte_cdk.sources.types import Record

class Steps(SimpleRetriever):
    def _fetch_next_page(self, stream_slice, next_page_token=None):
        return super()._fetch_next_page(stream_slice, next_page_token)

    def _request_params(self, stream_slice=None, next_page_token=None):
        page = (next_page_token or {}).get("next_page_token")
        given = super()._request_params(stream_slice=stream_slice, next_page_token=next_page_token)
        return {**given, "of": stream_slice["node"], "at": page}

    def _request_headers(self, stream_slice=None, next_page_token=None):
        return {**super()._request_headers(stream_slice, next_page_token), "X-Mark": "1"}

    def _get_request_options(self, stream_slice, next_page_token, paginator_method, stream_slicer_method):
        return super()._get_request_options(stream_slice, next_page_token, paginator_method, stream_slicer_method)

    def _paginator_path(self, next_page_token=None, stream_slice=None):
        return super()._paginator_path(next_page_token, stream_slice)

    def _parse_response(self, response, records_schema, stream_slice=None, next_page_token=None):
        yield from super()._parse_response(response, records_schema, stream_slice, next_page_token)

    def _parse_records(self, response, records_schema, stream_slice):
        for record in super()._parse_records(response, records_schema, stream_slice):
            yield Record({**record.data, "seen": stream_slice["node"]}, self.name, record.associated_slice)

    def _read_pages(self, records_generator_fn, stream_slice):
        yield from super()._read_pages(records_generator_fn, stream_slice)
"""

STEPS_BEFORE = """
from airbyte_cdk.sources.declarative.retrievers import SimpleRetriever

class Steps(SimpleRetriever):
    def _fetch_next_page(self, stream_state, stream_slice, next_page_token=None):
        return super()._fetch_next_page(stream_state, stream_slice, next_page_token)

    def _request_params(self, stream_state=None, stream_slice=None, next_page_token=None):
        page = (next_page_token or {}).get("next_page_token")
        return {**super()._request_params({}, stream_slice, next_page_token), "of": stream_slice["node"], "at": page}

    def _request_headers(self, stream_state, stream_slice=None, next_page_token=None):
        assert stream_state == {}
        return {**super()._request_headers(stream_state, stream_slice, next_page_token), "X-Mark": "1"}

    def _get_request_options(
        self, stream_state, stream_slice, next_page_token, paginator_method, stream_slicer_method
    ):
        return super()._get_request_options(
            stream_state, stream_slice, next_page_token, paginator_method, stream_slicer_method
        )

    def _paginator_path(self, next_page_token):
        return super()._paginator_path(next_page_token)

    def _parse_response(self, response, stream_state, records_schema, stream_slice=None, next_page_token=None):
        yield from super()._parse_response(response, stream_state, records_schema, stream_slice, next_page_token)

    def _parse_records(self, response, stream_state, records_schema, stream_slice):
        for record in super()._parse_records(response, stream_state, records_schema, stream_slice):
            yield {**record, "seen": stream_slice["node"]}

    def _read_pages(self, records_generator_fn, stream_state, stream_slice):
        yield from super()._read_pages(records_generator_fn, stream_state, stream_slice)
"""

STEPS_OF_ONES_OWN = """
from airbyte_cdk.sources.declarative.retrievers import SimpleRetriever

class Steps(SimpleRetriever):
    def _read_pages(self, records_generator_fn, stream_slice):
        token = self._get_initial_next_page_token()
        while True:
            self.token = token
            response = self._fetch_next_page(stream_slice, token)
            records = list(records_generator_fn(response))
            yield from ({**record, "seen": record.associated_slice["node"]} for record in records)
            before = token.get("next_page_token") if token else None
            token = self._next_page_token(response, len(records), records[-1] if records else None, before)
            if not token:
                return

    def _request_params(self, stream_slice, **names):
        fields, keys = self._get_mapping(
            self._paginator.get_request_params, stream_slice=stream_slice, next_page_token=self.token
        )
        assert fields.keys() == keys
        return {**fields, "of": stream_slice["node"], "at": self.token and self.token["next_page_token"]}

    def _request_headers(self, **names):
        assert "stream_state" not in names
        return {"X-Mark": "1"}
"""


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(STEPS_NOW, id="today"),
        pytest.param(STEPS_BEFORE, id="older"),
        pytest.param(STEPS_OF_ONES_OWN, id="own"),
    ],
)
def test_a_retriever_replaces_steps_as_its_kit_had_them(tmp_path: Path, code: str) -> None:
    api = MockApi()
    first = api.get("/items", params={"of": "a"}).returns(json={"data": [{"id": 1}, {"id": 2}]})
    last = api.get("/items", params={"of": "a", "page": "1", "at": "1"}).returns(json={"data": [{"id": 3}]})
    option = {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "page"}
    written = manifest(
        type="CustomRetriever",
        class_name="components.Steps",
        partition_router={"type": "ListPartitionRouter", "cursor_field": "node", "values": ["a"]},
        paginator={
            "type": "DefaultPaginator",
            "page_token_option": option,
            "pagination_strategy": {"type": "PageIncrement", "page_size": 2},
        },
    )

    run = read(source(tmp_path, code, written, api))

    assert run.error is None
    assert run.records == [{"id": n, "seen": "a"} for n in (1, 2, 3)]
    assert [request.headers["X-Mark"] for request in (*first.requests, *last.requests)] == ["1", "1"]


@pytest.mark.parametrize("key", [None, "id", ["id", "at"], [["in", "id"], ["at"]]])
def test_a_retriever_knows_the_key_of_its_stream(tmp_path: Path, key: Json) -> None:
    code = """
from airbyte_cdk.sources.declarative.retrievers import SimpleRetriever

class Keyed(SimpleRetriever):
    def read_records(self, records_schema, stream_slice=None):
        yield {"in": {"id": 1}, "id": 1, "at": 2, "key": [self.primary_key]}
"""
    written = manifest({"primary_key": key}, type="CustomRetriever", class_name="components.Keyed")

    run = read(source(tmp_path, code, written, MockApi()))

    assert run.error is None
    assert [record["key"] for record in run.records] == [[key]]


def test_a_retriever_may_give_messages(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.models import AirbyteLogMessage, AirbyteMessage, AirbyteRecordMessage, Level, Type
from airbyte_cdk.sources.declarative.retrievers.simple_retriever import FULL_REFRESH_SYNC_COMPLETE_KEY

class Talking:
    def __init__(self, config, parameters, **fields):
        pass

    def read_records(self, records_schema, stream_slice=None):
        yield AirbyteMessage(type=Type.LOG, log=AirbyteLogMessage(level=Level.WARN, message="one is missing"))
        yield AirbyteMessage(
            type=Type.RECORD, record=AirbyteRecordMessage(stream="items", data={"id": 1}, emitted_at=0)
        )
        yield {"id": FULL_REFRESH_SYNC_COMPLETE_KEY}
"""
    written = manifest(type="CustomRetriever", class_name="components.Talking")

    run = read(source(tmp_path, code, written, MockApi()))

    assert run.records == [{"id": 1}, {"id": "__ab_full_refresh_sync_complete"}]
    assert any("one is missing" in line for line in run.logs)


@pytest.mark.parametrize("base", ["DatetimeBasedCursor", "DeclarativeCursor"])
def test_a_cursor_that_plans_windows_itself_is_refused_with_what_to_do(tmp_path: Path, base: str) -> None:
    code = f"""
from airbyte_cdk.sources.declarative.incremental import {base}

class Own({base}):
    def stream_slices(self):
        yield {{}}
"""
    cursor = {"type": "CustomIncrementalSync", "class_name": "components.Own", **INCREMENTAL}

    run = read(source(tmp_path, code, manifest({"incremental_sync": cursor}), MockApi()))

    assert isinstance(run.error, ManifestError)
    assert "its own stream_slices" in str(run.error)
    assert "write it as a DatetimeBasedCursor" in str(run.error)


def test_a_router_may_tell_its_slices_apart_by_a_cursor_slice(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.partition_routers.partition_router import PartitionRouter
from airbyte_cdk.sources.types import StreamSlice

class Years(PartitionRouter):
    def stream_slices(self):
        for year in ("2023", "2024"):
            yield StreamSlice(partition={}, cursor_slice={"year": year})

    def get_request_params(self, *, stream_state=None, stream_slice=None, next_page_token=None):
        return {"year": stream_slice["year"]}
"""
    api = MockApi()
    for year in (2023, 2024):
        api.get("/items", {"year": year}).returns(json={"data": [{"id": year}]})
    router = {"type": "CustomPartitionRouter", "class_name": "components.Years"}

    run = read(source(tmp_path, code, manifest(partition_router=router), api))

    assert (run.error, run.records) == (None, [{"id": 2023}, {"id": 2024}])


def test_custom_code_builds_a_retriever_of_its_own(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass
from airbyte_cdk import BearerAuthenticator, DpathExtractor, RecordSelector, SimpleRetriever
from airbyte_cdk.sources.declarative.auth.selective_authenticator import SelectiveAuthenticator
from airbyte_cdk.sources.declarative.auth.token_provider import InterpolatedStringTokenProvider
from airbyte_cdk.sources.declarative.partition_routers.list_partition_router import ListPartitionRouter
from airbyte_cdk.sources.declarative.requesters import HttpRequester
from airbyte_cdk.sources.declarative.requesters.error_handlers.backoff_strategies import (
    ExponentialBackoffStrategy, WaitTimeFromHeaderBackoffStrategy)
from airbyte_cdk.sources.declarative.requesters.error_handlers.default_error_handler import DefaultErrorHandler
from airbyte_cdk.sources.declarative.requesters.error_handlers.http_response_filter import HttpResponseFilter
from airbyte_cdk.sources.declarative.requesters.request_options import InterpolatedRequestOptionsProvider
from airbyte_cdk.sources.types import StreamSlice
from airbyte_cdk.sources.utils.transform import TransformConfig, TypeTransformer

def links(config):
    told = {"config": config, "parameters": {}}
    token = InterpolatedStringTokenProvider(api_token=config["token"], **told)
    bearer = BearerAuthenticator(token_provider=token, **told)
    requester = HttpRequester(
        name="links",
        url_base="https://api.example.com",
        path="/links/{{ stream_partition['kind'] }}",
        http_method="POST",
        authenticator=SelectiveAuthenticator(
            config, authenticators={"a": bearer}, authenticator_selection_path=["how"]),
        request_options_provider=InterpolatedRequestOptionsProvider(
            request_body_json={"inputs": "{{ stream_slice.extra_fields['ids'] }}"}, **told),
        error_handler=DefaultErrorHandler(
            backoff_strategies=[
                WaitTimeFromHeaderBackoffStrategy(header="Retry-After", **told),
                ExponentialBackoffStrategy(**told),
            ],
            response_filters=[HttpResponseFilter(action="RETRY", http_codes={418}, **told)],
            **told),
        **told)
    selector = RecordSelector(
        extractor=DpathExtractor(field_path=["results"], **told),
        schema_normalization=TypeTransformer(TransformConfig.NoTransform),
        record_filter=None, transformations=[], **told)
    slicer = ListPartitionRouter(values=["x", "y"], cursor_field="kind", **told)
    return SimpleRetriever(
        name="links", primary_key=None, requester=requester, record_selector=selector, paginator=None,
        stream_slicer=slicer, **told)

@dataclass
class Linked(DpathExtractor):
    def __post_init__(self, parameters):
        super().__post_init__(parameters)
        self._links = links(self.config)

    def extract_records(self, response):
        records = {record["id"]: record for record in super().extract_records(response)}
        for cut in self._links.stream_slicer.stream_slices():
            extra = {"ids": list(records)}
            asked = StreamSlice(partition=cut.partition, cursor_slice=cut.cursor_slice, extra_fields=extra)
            for link in self._links.read_records({}, stream_slice=asked):
                records[link["from"]][asked["kind"]] = link["to"]
        yield from records.values()
"""
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}, {"id": 2}]})
    x = api.post("/links/x").returns(status=418).returns(json={"results": [{"from": 1, "to": "a"}]})
    api.post("/links/y").returns(json={"results": [{"from": 2, "to": "b"}]})
    extractor = {"class_name": "components.Linked", "type": "CustomRecordExtractor", "field_path": ["data"]}
    written = manifest(record_selector={"extractor": extractor})

    run = read(source(tmp_path, code, written, api), config={"token": "t", "how": "a"})

    assert run.error is None
    assert run.records == [{"id": 1, "x": "a"}, {"id": 2, "y": "b"}]
    assert orjson.loads(x.requests[1].body or b"") == {"inputs": [1, 2]}
    assert x.requests[1].headers["Authorization"] == "Bearer t"
