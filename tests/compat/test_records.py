from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk.base.errors import ManifestError
from cdk.base.values import Json, as_object
from cdk.compat.airbyte.custom_object import CustomCodeError
from cdk.state.slice import Slice
from cdk.state.stream_state import StreamState
from cdk.streams.read_slice import read_slice
from cdk.testing import MockApi, read
from tests.compat.sources import manifest, source

EXTRACTOR = {
    "record_selector": {"extractor": {"type": "CustomRecordExtractor", "class_name": "source_x.components.Rows"}}
}


def test_an_extractor_makes_records_of_what_is_no_list_of_objects(tmp_path: Path) -> None:
    code = """
from typing import Any, List, Mapping
import requests
from airbyte_cdk.sources.declarative.extractors.record_extractor import RecordExtractor
from airbyte_cdk.sources.declarative.types import Record

class Rows(RecordExtractor):
    def extract_records(self, response: requests.Response, **kwargs) -> List[Record]:
        table = response.json()["table"]
        assert isinstance(response, requests.Response) and response.request.url.endswith("/items")
        return [dict(zip(table["columns"], row)) for row in table["rows"]]
"""
    api = MockApi()
    api.get("/items").returns(json={"table": {"columns": ["id", "name"], "rows": [[1, "a"], [2, "b"]]}})

    run = read(source(tmp_path, code, manifest(**EXTRACTOR), api))

    assert run.error is None
    assert run.records == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def test_an_extractor_takes_fields_and_parameters_and_extends_that_of_the_language(tmp_path: Path) -> None:
    code = """
from dataclasses import InitVar, dataclass, field
from airbyte_cdk.sources.declarative.decoders import Decoder, JsonDecoder
from airbyte_cdk.sources.declarative.extractors import DpathExtractor

@dataclass
class Rows(DpathExtractor):
    inject: str = ""

    def __post_init__(self, parameters):
        super().__post_init__(parameters)
        self._stream = parameters["name"]

    def extract_records(self, response):
        for record in super().extract_records(response):
            yield {self.inject: self._stream, "region": self.config["region"], "value": record}
"""
    api = MockApi()
    api.get("/items").returns(json={"eu": {"labels": ["a", "b"]}})
    written = manifest(**EXTRACTOR)
    written["streams"][0]["retriever"]["record_selector"]["extractor"] |= {
        "field_path": ["{{ config.region }}", "labels"],
        "inject": "stream",
    }

    run = read(source(tmp_path, code, written, api), config={"region": "eu"})

    assert run.error is None
    assert run.records == [
        {"stream": "items", "region": "eu", "value": "a"},
        {"stream": "items", "region": "eu", "value": "b"},
    ]


def test_a_transformation_changes_records_and_sees_config_and_slice(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass
from typing import Any, Dict, List, Optional
from airbyte_cdk.sources.declarative.transformations import RecordTransformation
from airbyte_cdk.sources.types import Config, StreamSlice, StreamState

@dataclass
class Rename(RecordTransformation):
    fields: List[str]

    def transform(self, record: Dict[str, Any], config: Optional[Config] = None,
                  stream_state: Optional[StreamState] = None, stream_slice: Optional[StreamSlice] = None) -> None:
        for name in self.fields:
            record[name.upper()] = record.pop(name)
        record["of"] = f"{config['account']}/{stream_slice.partition['region']}/{stream_slice['region']}"

class Count:
    def transform(self, record, **kwargs):
        record["size"] = len(record)
        return record
"""
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}]})
    written = manifest(
        {
            "transformations": [
                {"type": "CustomTransformation", "class_name": "components.Rename", "fields": ["id"]},
                {"type": "CustomTransformation", "class_name": "components.Count"},
            ]
        },
        partition_router={"type": "ListPartitionRouter", "cursor_field": "region", "values": ["eu"]},
    )

    run = read(source(tmp_path, code, written, api), config={"account": "x"})

    assert run.error is None
    assert run.records == [{"ID": 1, "of": "x/eu/eu", "size": 2}]


def test_a_transformation_asks_the_api_with_a_requester_of_the_manifest(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass
from airbyte_cdk.sources.declarative.extractors.http_selector import HttpSelector
from airbyte_cdk.sources.declarative.requesters.requester import Requester
from airbyte_cdk.sources.declarative.transformations import RecordTransformation
from airbyte_cdk.sources.types import StreamSlice

@dataclass
class Details(RecordTransformation):
    requester: Requester
    record_selector: HttpSelector

    def transform(self, record, config=None, stream_state=None, stream_slice=None):
        asked = StreamSlice(partition={"id": record["id"]}, cursor_slice={})
        response = self.requester.send_request(stream_slice=asked)
        for data in self.record_selector.select_records(response=response, stream_state={}, records_schema={}):
            record.update(data)
"""
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}, {"id": 2}]})
    api.get("/items/1", params={"full": "yes"}).returns(json={"name": "a"})
    api.get("/items/2", params={"full": "yes"}).returns(status=500).returns(json={"name": "b"})
    details = {
        "type": "CustomTransformation",
        "class_name": "components.Details",
        "requester": {
            "type": "HttpRequester",
            "url_base": "https://api.example.com/items/",
            "path": "{{ stream_slice.id }}",
            "request_parameters": {"full": "yes"},
            "authenticator": {"type": "BearerAuthenticator", "api_token": "{{ config.token }}"},
        },
        "record_selector": {"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": []}},
    }

    run = read(source(tmp_path, code, manifest({"transformations": [details]}), api), config={"token": "t"})

    assert run.error is None
    assert run.records == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def test_a_filter_keeps_what_it_has_not_seen(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass
from airbyte_cdk.sources.declarative.extractors.record_filter import RecordFilter

@dataclass
class Unseen(RecordFilter):
    def __post_init__(self, parameters):
        super().__post_init__(parameters)
        self._seen = set()

    def filter_records(self, records, stream_state, stream_slice=None, next_page_token=None):
        for record in super().filter_records(records, stream_state, stream_slice):
            if record["id"] not in self._seen:
                self._seen.add(record["id"])
                yield record
"""
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}, {"id": 1}, {"id": 2}, {"id": 3}]})
    chosen = {"type": "CustomRecordFilter", "class_name": "components.Unseen", "condition": "{{ record.id < 3 }}"}

    run = read(source(tmp_path, code, manifest(record_selector={"record_filter": chosen}), api))

    assert run.error is None
    assert run.records == [{"id": 1}, {"id": 2}]


def test_a_decoder_reads_a_format_of_its_own(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass
from airbyte_cdk.sources.declarative.decoders.decoder import Decoder

@dataclass
class Pairs(Decoder):
    def is_stream_response(self):
        return False

    def decode(self, response):
        for line in response.iter_lines():
            yield dict(pair.split("=") for pair in line.decode().split(";"))
"""
    api = MockApi()
    api.get("/items").returns(body=b"id=1;name=a\nid=2;name=b\n")
    written = manifest(
        decoder={"type": "CustomDecoder", "class_name": "components.Pairs"},
        record_selector={"extractor": {"type": "DpathExtractor", "field_path": []}},
    )

    run = read(source(tmp_path, code, written, api))

    assert run.error is None
    assert run.records == [{"id": "1", "name": "a"}, {"id": "2", "name": "b"}]


def test_code_may_fill_one_record_again_for_each_that_it_yields(tmp_path: Path) -> None:
    code = """
def again(records):
    filled = {}
    for record in records:
        filled.update(record)
        yield filled

class Rows:
    def extract_records(self, response):
        return again(response.json()["data"])

class Keep:
    def filter_records(self, records, **_):
        return again(records)

class Decodes:
    def is_stream_response(self):
        return False

    def decode(self, response):
        return again(response.json()["data"])
"""
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}, {"id": 2}, {"id": 3}]})
    everything = {"type": "DpathExtractor", "field_path": []}
    own = [
        manifest(record_selector={"extractor": {"type": "CustomRecordExtractor", "class_name": "components.Rows"}}),
        manifest(record_selector={"record_filter": {"type": "CustomRecordFilter", "class_name": "components.Keep"}}),
        manifest(
            decoder={"type": "CustomDecoder", "class_name": "components.Decodes"},
            record_selector={"extractor": everything},
        ),
    ]

    assert [read(source(tmp_path, code, written, api)).records for written in own] == [
        [{"id": 1}, {"id": 2}, {"id": 3}]
    ] * 3


def test_a_normalization_casts_values_at_any_depth(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.utils.transform import TransformConfig, TypeTransformer
from airbyte_cdk.utils.datetime_helpers import ab_datetime_format, ab_datetime_parse

class Dates(TypeTransformer):
    def __init__(self, *args, **kwargs):
        super().__init__(TransformConfig.DefaultSchemaNormalization | TransformConfig.CustomSchemaNormalization)
        self.registerCustomTransform(self.get_transform_function())

    def get_transform_function(self):
        def transform(value, schema):
            if schema.get("format") != "date-time":
                return value
            return ab_datetime_format(ab_datetime_parse(value))
        return transform
"""
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1, "log": [{"at": "2024-01-01T07:00:00+0000"}]}]})
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "log": {"type": "array", "items": {"type": "object", "properties": {"at": {"format": "date-time"}}}},
        },
    }
    chosen = {"type": "CustomSchemaNormalization", "class_name": "components.Dates"}
    written = manifest(
        {"schema_loader": {"type": "InlineSchemaLoader", "schema": schema}},
        record_selector={"schema_normalization": chosen},
    )

    run = read(source(tmp_path, code, written, api))

    assert run.error is None
    assert run.records == [{"id": "1", "log": [{"at": "2024-01-01T07:00:00+00:00"}]}]


def test_a_normalization_casts_a_value_before_what_is_in_it_and_by_default_if_it_asks(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.utils.transform import TransformConfig, TypeTransformer

class Both(TypeTransformer):
    def __init__(self, *_):
        super().__init__(TransformConfig.DefaultSchemaNormalization | TransformConfig.CustomSchemaNormalization)
        self.registerCustomTransform(lambda value, schema: {"a": "99"} if isinstance(value, dict) else value)

class Own(TypeTransformer):
    def __init__(self, *_):
        super().__init__(TransformConfig.CustomSchemaNormalization)
        self.registerCustomTransform(lambda value, part: value if value == "x" else self.default_convert(value, part))
"""
    number, tags = {"type": "integer"}, {"type": "array", "items": {"type": ["string"]}}
    inner = {"type": "object", "properties": {"a": number}}
    schema = {"type": "object", "properties": {"id": number, "inner": inner, "tags": tags}}
    loader = {"schema_loader": {"type": "InlineSchemaLoader", "schema": schema}}
    api = MockApi()
    api.get("/items").returns(
        json={"data": [{"id": "1", "inner": {"a": "7"}, "tags": "t"}, {"id": "x", "tags": ["u"]}]}
    )

    def records(name: str) -> Json:
        chosen = {"type": "CustomSchemaNormalization", "class_name": f"components.{name}"}
        return read(
            source(tmp_path, code, manifest(loader, record_selector={"schema_normalization": chosen}), api)
        ).records

    assert records("Both") == [{"id": 1, "inner": {"a": 99}, "tags": ["t"]}, {"id": "x", "tags": ["u"]}]
    assert records("Own") == [{"id": 1, "inner": {"a": 7}, "tags": ["t"]}, {"id": "x", "tags": ["u"]}]


def test_a_schema_loader_makes_the_schema(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass
from typing import Any, List, Mapping
from airbyte_cdk.sources.declarative.schema import SchemaLoader

@dataclass
class Columns(SchemaLoader):
    config: Mapping[str, Any]
    dimensions: List[str]

    def get_json_schema(self):
        self.dimensions = self.dimensions + self.config["more"]
        return {"type": "object", "properties": {name: {"type": ["null", "string"]} for name in self.dimensions}}
"""
    loader = {"type": "CustomSchemaLoader", "class_name": "components.Columns", "dimensions": ["day"]}
    built = source(tmp_path, code, manifest({"schema_loader": loader}), MockApi())

    stream = built.streams({"more": ["hour"]})[0]

    schema: Json = stream.json_schema()
    assert list(schema["properties"]) == ["day", "hour"]
    assert stream.json_schema() == schema


def test_what_custom_code_raises_names_the_component(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.extractors.record_extractor import RecordExtractor

class Rows(RecordExtractor):
    def extract_records(self, response):
        return response.json()["absent"]
"""
    api = MockApi()
    api.get("/items").returns(json={})

    run = read(source(tmp_path, code, manifest(**EXTRACTOR), api))

    assert isinstance(run.error, CustomCodeError)
    assert "Rows.extract_records raised KeyError: 'absent'" in str(run.error)


SCALARS = st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)


@settings(max_examples=40)
@given(
    items=st.lists(st.fixed_dictionaries({"id": st.integers(1, 9)}) | SCALARS, max_size=3),
    by=st.sampled_from(["{}", "iter({})", "(item for item in {})"]),
    how=st.sampled_from([{}, {"record_filter": {"type": "RecordFilter", "condition": "{{ record.id }}"}}]),
    filters=st.booleans(),
)
@example(items=["a", "b"], by="{}", how={}, filters=False)
def test_what_custom_code_returns_beside_records_names_the_component(
    items: list[Json],
    by: str,
    how: dict[str, Json],
    filters: bool,  # noqa: FBT001
) -> None:
    method = "filter_records" if filters else "extract_records"
    code = f"""
class Rows:
    def {method}(self, given, **kwargs):
        return {by.format(items)}
"""
    custom: dict[str, Json] = {"type": "CustomRecordExtractor", "class_name": "components.Rows"}
    selector: dict[str, Json] = {"extractor": custom, **how}
    if filters:
        plain: dict[str, Json] = {"type": "DpathExtractor", "field_path": ["data"]}
        selector = {"extractor": plain, "record_filter": {**custom, "type": "CustomRecordFilter"}}
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 0}]})

    with TemporaryDirectory() as folder:
        run = read(source(Path(folder), code, manifest(record_selector=selector), api))

    odd = next((n for n, item in enumerate(items) if not isinstance(item, dict)), None)
    if odd is None:
        assert (run.error, run.records) == (None, items)
    else:
        assert f"Rows.{method} returned " in str(run.error)
        assert f" as record {odd}, expected objects" in str(run.error)


REMEMBERS = {
    "extractor": ("extract_records(self, response)", "response.json()['data']", "return self._now"),
    "record_filter": ("filter_records(self, records, **kwargs)", "list(records)", "return self._now"),
    "transformation": ("transform(self, record, **kwargs)", "record['id']", "record['id'] = self._now"),
}


@pytest.mark.parametrize("kind", REMEMBERS)
def test_what_a_component_keeps_in_itself_is_that_of_its_own_slice(tmp_path: Path, kind: str) -> None:
    method, value, end = REMEMBERS[kind]
    code = f"""
from threading import Barrier

BOTH = Barrier(2, timeout=10)

class Remembers:
    def __init__(self, **_):
        self._now = None

    def {method}:
        self._now = {value}
        BOTH.wait()
        {end}
"""
    custom: dict[str, Json] = {"class_name": "components.Remembers"}
    selector: dict[str, Json] = {"extractor": {"type": "DpathExtractor", "field_path": ["data"]}}
    transformations: list[Json] = []
    match kind:
        case "extractor":
            selector = {"extractor": {"type": "CustomRecordExtractor", **custom}}
        case "record_filter":
            selector["record_filter"] = {"type": "CustomRecordFilter", **custom}
        case _:
            transformations.append({"type": "CustomTransformation", **custom})
    option = {"type": "RequestOption", "field_name": "shelf", "inject_into": "request_parameter"}
    router = {"type": "ListPartitionRouter", "cursor_field": "shelf", "values": ["a", "b"], "request_option": option}
    api = MockApi()
    for name in ("a", "b"):
        api.get("/items", {"shelf": name}).returns(json={"data": [{"id": name}]})
    written = manifest({"transformations": transformations}, record_selector=selector, partition_router=router)
    (stream,) = source(tmp_path, code, written, api).streams({})

    def ids(slice: Slice) -> list[Json]:
        return [record["id"] for page in read_slice(stream, slice) for record in page.records]

    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(ids, iter(stream.checkpoint_reader(StreamState()).next, None))] == [["a"], ["b"]]


def test_an_error_for_people_ends_the_read_as_it_is(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.models import FailureType
from airbyte_cdk.sources.declarative.extractors.record_extractor import RecordExtractor
from airbyte_cdk.utils import AirbyteTracedException

class Rows(RecordExtractor):
    def extract_records(self, response):
        raise AirbyteTracedException(message="Ask for fewer days.", failure_type=FailureType.config_error)
"""
    api = MockApi()
    api.get("/items").returns(json={})

    run = read(source(tmp_path, code, manifest(**EXTRACTOR), api))

    assert run.error is not None
    assert (run.error.message, run.error.failure_type) == ("Ask for fewer days.", "config_error")


def test_an_argument_that_the_manifest_does_not_give_is_named(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass

@dataclass
class Rows:
    columns: list
"""
    run = read(source(tmp_path, code, manifest(**EXTRACTOR), MockApi()))

    assert isinstance(run.error, ManifestError)
    assert "source_x.components.Rows needs columns" in str(run.error)


def test_a_transformation_may_extend_the_one_that_adds_fields(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass
from airbyte_cdk.sources.declarative.transformations.add_fields import AddFields

@dataclass
class Shout(AddFields):
    def transform(self, record, config=None, stream_state=None, stream_slice=None):
        super().transform(record, config, stream_state, stream_slice)
        for field in self._parsed_fields:
            shouted = str(field.value.eval(config, record=record, stream_slice=stream_slice)).upper()
            record["loud_" + "_".join(field.path)] = shouted
"""
    fields = [
        {"type": "AddedFieldDefinition", "path": ["a", "b"], "value": "{{ record.id }}x{{ config.mark }}"},
        {"path": ["n"], "value": "{{ record.id }}", "value_type": "string"},
        {"path": ["m"], "value": "{{ record.id }}"},
    ]
    shout = {"type": "CustomTransformation", "class_name": "components.Shout", "fields": fields}
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}]})

    run = read(source(tmp_path, code, manifest({"transformations": [shout]}), api), config={"mark": "y"})

    assert run.records == [
        {"id": 1, "a": {"b": "1xy"}, "n": "1", "m": 1, "loud_a_b": "1XY", "loud_n": "1", "loud_m": "1"}
    ]


def test_fields_are_added_where_a_condition_holds(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.transformations import AddFields

class Same(AddFields):
    pass
"""
    fields = [{"path": ["a"], "value": "{{ record.id }}"}, {"path": ["b"], "value": "2"}]
    same: Json = {"type": "CustomTransformation", "class_name": "components.Same", "fields": fields}
    same["condition"] = "{{ value > 1 }}"
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}]})

    assert read(source(tmp_path, code, manifest({"transformations": [same]}), api)).records == [{"id": 1, "b": 2}]


def test_a_loader_extends_that_of_files_in_the_connectors_package(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass
from airbyte_cdk.sources.declarative.schema.json_file_schema_loader import JsonFileSchemaLoader

@dataclass
class Wider(JsonFileSchemaLoader):
    def get_json_schema(self):
        schema = super().get_json_schema()
        schema["properties"]["more"] = {"type": "string"}
        return schema
"""
    (tmp_path / "source_x" / "schemas").mkdir(parents=True)
    (tmp_path / "source_x" / "schemas" / "items.json").write_text('{"type": "object", "properties": {"id": {}}}')
    loader = {"type": "CustomSchemaLoader", "class_name": "components.Wider", "$parameters": {"name": "items"}}
    written = manifest(stream={"schema_loader": loader})

    (stream,) = source(tmp_path, code, written, MockApi()).open({})

    assert sorted(as_object(stream.json_schema()["properties"])) == ["id", "more"]
