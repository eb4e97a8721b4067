"""The source of a manifest: its streams, its check, and what they share."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from cdk.base.errors import CdkError, ConfigError, ManifestError
from cdk.base.secret_masking import secret_values
from cdk.base.values import Json
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.streams.source import Events
from cdk.testing import MockApi, read, simulated
from tests.rest.api import Time

SELECTOR = {"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": ["data"]}}


def stream(name: str, **more: Any) -> dict[str, Any]:
    requester = {"type": "HttpRequester", "url": f"https://api.test/{name}", **more.pop("requester", {})}
    return {
        "type": "DeclarativeStream",
        "name": name,
        "schema_loader": {"type": "InlineSchemaLoader", "schema": {"type": "object", "properties": {}}},
        "retriever": {"type": "SimpleRetriever", "requester": requester, "record_selector": SELECTOR},
        **more,
    }


TEMPLATES = [
    {
        "type": "DynamicDeclarativeStream",
        "name": "tables",
        "stream_template": stream("table"),
        "components_resolver": {
            "type": "ParametrizedComponentsResolver",
            "stream_parameters": {
                "type": "StreamParametersDefinition",
                "list_of_parameters_for_stream": [{"name": "t1"}, {"name": "t2"}, {"name": "t3"}],
            },
            "components_mapping": [
                {"type": "ComponentMappingDefinition", "field_path": ["name"], "value": "{{components_values.name}}"},
                {
                    "type": "ComponentMappingDefinition",
                    "field_path": ["retriever", "requester", "url"],
                    "value": "https://api.test/{{ components_values.name }}",
                },
            ],
        },
    }
]


def manifest(**root: Any) -> dict[str, Any]:
    check = {"type": "CheckStream", "stream_names": ["users"]}
    return {"version": "6.0.0", "check": check, "streams": [stream("users"), stream("teams")], **root}


def made(api: MockApi | None = None, *, time: Time | None = None, **root: Any) -> ManifestSource:
    time = time or Time()
    runtime = Runtime(transport=api or MockApi(), clock=time.clock, sleep=time.sleep)
    return ManifestSource(Manifest(manifest(**root)), runtime)


def asked(check: Json, config: Json = None, **root: Any) -> list[str]:
    """The paths that a check asks for."""
    api = MockApi()
    api.get("/*").returns(json={"data": [{"id": 1}]})
    made(api, check=check, **root).check(config or {})
    return [request.full_url.removeprefix("https://api.test/") for request in api.requests]


@pytest.mark.parametrize(
    ("check", "config", "paths"),
    [
        ({"type": "CheckStream", "stream_names": ["users"]}, {}, ["users"]),
        ({"type": "CheckStream", "stream_names": ["teams", "users"]}, {}, ["teams", "users"]),
        ({"type": "CheckStream", "stream_names": []}, {}, []),
        ({"type": "CheckStream", "stream_names": ["nope"]}, {"__airbyte_check_stream_names": ["teams"]}, ["teams"]),
        (
            {
                "type": "CheckStream",
                "stream_names": [],
                "dynamic_streams_check_configs": [{"dynamic_stream_name": "tables", "stream_count": 2}],
            },
            {},
            ["t1", "t2"],
        ),
        (
            {
                "type": "CheckStream",
                "stream_names": ["users"],
                "dynamic_streams_check_configs": [{"dynamic_stream_name": "tables"}],
            },
            {},
            ["users", "t1", "t2", "t3"],
        ),
        ({"type": "CheckStream", "stream_names": ["users"]}, {"__airbyte_check_stream_names": []}, ["users"]),
        ({"type": "CheckStream", "stream_names": ["t2"]}, {}, ["t2"]),
        ({"type": "CheckDynamicStream", "stream_count": 1}, {}, ["users"]),
        ({"type": "CheckDynamicStream", "stream_count": 1, "use_check_availability": False}, {}, []),
    ],
)
def test_a_check_asks_for_the_streams_it_names(check: Json, config: Json, paths: list[str]) -> None:
    assert asked(check, config, dynamic_streams=TEMPLATES) == paths


@pytest.mark.parametrize("chosen", ["users", ["users", 5], {"users": 1}])
def test_a_choice_of_streams_that_is_no_list_of_names_is_refused(chosen: Json) -> None:
    with pytest.raises(ConfigError, match=r"__airbyte_check_stream_names: found .*, expected a list of stream names"):
        asked({"type": "CheckStream", "stream_names": ["users"]}, {"__airbyte_check_stream_names": chosen})


def test_a_template_without_a_name_is_called_by_its_place() -> None:
    check = {"dynamic_streams_check_configs": [{"dynamic_stream_name": "dynamic_stream_0", "stream_count": 1}]}
    template = {key: value for key, value in TEMPLATES[0].items() if key != "name"}

    assert asked({"type": "CheckStream", **check}, dynamic_streams=[template]) == ["t1"]


def test_a_check_of_written_streams_asks_for_no_others() -> None:
    lists = {"type": "SimpleRetriever", "requester": {"type": "HttpRequester", "url": "https://api.test/tables"}}
    names = {"type": "ComponentMappingDefinition", "field_path": ["name"], "value": "{{ components_values.name }}"}
    resolver = {
        "type": "HttpComponentsResolver",
        "retriever": {**lists, "record_selector": SELECTOR},
        "components_mapping": [names],
    }
    broken = stream(
        "broken", incremental_sync={"type": "IncrementingCountCursor", "cursor_field": "id", "start_value": "x"}
    )
    parts = {
        "dynamic_streams": [{**TEMPLATES[0], "components_resolver": resolver}],
        "streams": [stream("users"), broken],
    }

    assert asked({"type": "CheckStream", "stream_names": ["users"]}, **parts) == ["users"]
    with pytest.raises(ManifestError, match="start_value"):
        asked({"type": "CheckStream", "stream_names": ["users", "broken"]}, **parts)


def test_only_a_stream_whose_config_lacks_a_value_cannot_be_read() -> None:
    limits = {"start_datetime": "{{ config.since }}", "end_datetime": "{{ today_utc() }}"}
    moments = {
        name: {"type": "MinMaxDatetime", "datetime": text, "datetime_format": "%Y-%m-%d"}
        for name, text in limits.items()
    }
    cursor = {"type": "DatetimeBasedCursor", "cursor_field": "on", "datetime_format": "%Y-%m-%d", **moments}
    streams = [stream("users"), stream("dated", incremental_sync=cursor)]

    users, dated = ManifestSource(Manifest(manifest(streams=streams))).streams({})

    users.check_ready()
    with pytest.raises(ManifestError, match=r"found '', expected a timestamp.* `config\.since`"):
        dated.check_ready()


def test_groups_of_streams_that_must_not_be_read_together_are_ignored_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    group = {"streams": [{"name": "users"}], "action": {"type": "BlockSimultaneousSyncsAction"}}
    source = ManifestSource(Manifest(manifest(stream_groups={"crm": {"type": "StreamGroup", **group}})))

    assert [len(source.streams({})) for _ in range(2)] == [2, 2]
    assert [message.partition(": these")[0] for message in caplog.messages] == ["manifest: stream_groups"]


def test_static_streams_are_checked_before_those_of_templates() -> None:
    check = {"type": "CheckDynamicStream", "stream_count": 3}

    assert asked(check, dynamic_streams=TEMPLATES) == ["users", "teams", "t1"]


def test_the_first_streams_of_templates_are_checked() -> None:
    check = {"type": "CheckDynamicStream", "stream_count": 2}

    assert asked(check, streams=[], dynamic_streams=TEMPLATES) == ["t1", "t2"]


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ({"type": "CheckStream", "stream_names": ["user"]}, "check: there is no stream 'user'.*users"),
        (
            {
                "type": "CheckStream",
                "stream_names": [],
                "dynamic_streams_check_configs": [{"dynamic_stream_name": "table"}],
            },
            "check: the template 'table' makes no streams.*tables",
        ),
    ],
)
def test_a_check_of_what_there_is_not_says_what_there_is(check: Json, said: str) -> None:
    with pytest.raises(ManifestError, match=said):
        asked(check, dynamic_streams=TEMPLATES)


def test_a_source_without_streams_does_not_pass_its_check() -> None:
    none = {"type": "ConditionalStreams", "condition": "{{ config.some }}", "streams": [stream("users")]}

    for check in ({"type": "CheckStream", "stream_names": []}, {"type": "CheckDynamicStream", "stream_count": 1}):
        with pytest.raises(ManifestError, match="no streams for this config"):
            asked(check, streams=[none])


def test_a_stream_that_does_not_answer_is_named() -> None:
    api = MockApi()
    api.get("/users").returns(status=401)

    with pytest.raises(CdkError, match="the stream 'users' cannot be read: ") as raised:
        made(api).check({})

    assert raised.value.stream == "users"


def test_an_empty_page_on_which_the_expression_for_the_next_one_fails_does_not_pass_a_check() -> None:
    strategy = {"type": "CursorPagination", "cursor_value": "{{ response.links.next }}"}
    option = {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "at"}
    users = stream("users")
    users["retriever"]["paginator"] = {
        "type": "DefaultPaginator",
        "pagination_strategy": strategy,
        "page_token_option": option,
    }
    api = MockApi()
    api.get("/users").returns(json={"data": [], "status": "error"})

    with pytest.raises(CdkError, match=r"the stream 'users' cannot be read: .*links"):
        made(api, streams=[users]).check({})


def test_a_parent_without_records_leaves_nothing_to_check() -> None:
    parent = {"type": "ParentStreamConfig", "stream": stream("teams"), "parent_key": "id", "partition_field": "team"}
    child = stream("users")
    child["retriever"]["partition_router"] = {"type": "SubstreamPartitionRouter", "parent_stream_configs": [parent]}
    api = MockApi()
    api.get("/teams").returns(json={"data": []})

    with pytest.raises(ManifestError, match="perhaps its parent stream or its list of values is empty"):
        made(api, streams=[child]).check({})


def test_only_the_check_reads_its_overrides() -> None:
    users = stream("users", requester={"request_parameters": {"limit": "{{ config.limit }}"}})
    check = {"type": "CheckStream", "stream_names": ["users"], "config_overrides": {"limit": 1}}
    api = MockApi()
    api.get("/users").returns(json={"data": []})
    source = made(api, streams=[users], check=check)

    source.check({"limit": 500})
    read(source, "users", config={"limit": 500})

    assert [request.params["limit"] for request in api.requests] == ["1", "500"]


def test_rules_for_the_config_hold_for_what_a_person_gave() -> None:
    check = {"type": "CheckStream", "stream_names": ["users"], "config_overrides": {"kind": "smallest"}}
    api = MockApi()
    api.get("/users").returns(json={"data": []})
    source = made(api, spec=SPEC, check=check)

    source.check({"kind": "new"})
    with pytest.raises(ConfigError):
        source.check({"kind": "old"})

    assert len(api.requests) == 1


def test_overrides_that_are_secret_are_hidden_and_those_of_platforms_are_refused() -> None:
    schema = {"type": "object", "properties": {"key": {"type": "string", "airbyte_secret": True}}}
    spec = {"type": "Spec", "connection_specification": schema}
    check = {"type": "CheckStream", "stream_names": ["users"], "config_overrides": {"key": "hunter22"}}
    api, heard = MockApi(), Heard()
    api.get("/users").returns(json={"data": []})
    source = made(api, spec=spec, check=check)
    source.events = heard

    source.check({"key": "own"})

    assert heard.secrets == ["hunter22"]
    with pytest.raises(
        ManifestError, match="config_overrides: __airbyte_check_stream_names: only platforms set such keys"
    ):
        made(check={**check, "config_overrides": {"__airbyte_check_stream_names": ["teams"]}}).check({})


def test_streams_on_a_condition_are_there_when_it_holds() -> None:
    some = {"type": "ConditionalStreams", "condition": "{{ config.audit }}", "streams": [stream("audit")]}
    source = made(streams=[stream("users"), some, stream("teams")])

    assert [part.name for part in source.streams({"audit": True})] == ["users", "audit", "teams"]
    assert [part.name for part in source.streams({"audit": False})] == ["users", "teams"]


def test_two_streams_with_one_name_are_refused() -> None:
    both = {"type": "ConditionalStreams", "condition": "{{ config.audit }}", "streams": [stream("users")]}
    source = made(streams=[stream("users"), both])

    assert len(source.streams({"audit": False})) == 1
    with pytest.raises(ManifestError, match="two streams have the name 'users'"):
        source.streams({"audit": True})
    with pytest.raises(ManifestError, match=r"streams\[0\] has the name 'users' too"):
        made(streams=[stream("users"), stream("users")])


def test_the_streams_of_a_source_share_its_budget() -> None:
    budget = {
        "type": "HTTPAPIBudget",
        "policies": [
            {"type": "MovingWindowCallRatePolicy", "rates": [{"limit": 1, "interval": "PT10S"}], "matchers": []}
        ],
    }
    api, time = MockApi(), Time()
    api.get("/*").returns(json={"data": []})

    read(made(api, time=time, api_budget=budget))

    assert len(api.requests) == 2
    assert time.slept == [10]


@pytest.mark.parametrize(("count", "places"), [(3, 3), ("{{ config.jobs }}", 2), ("3", 3)])
def test_the_streams_of_a_source_share_the_places_for_jobs(count: Json, places: int) -> None:
    runtime = Runtime(transport=MockApi())
    source = ManifestSource(Manifest(manifest(max_concurrent_async_job_count=count)), runtime)

    source.streams({"jobs": 2})

    jobs = runtime.jobs
    assert jobs is not None
    assert [jobs.try_start() for _ in range(places + 1)] == [True] * places + [False]


@pytest.mark.parametrize("count", [0, "{{ config.jobs }}", "many"])
def test_places_for_jobs_that_are_no_number_are_refused(count: Json) -> None:
    with pytest.raises(ManifestError, match=r"max_concurrent_async_job_count: found .*, expected an integer"):
        made(max_concurrent_async_job_count=count).streams({"jobs": "few"})


MANIFEST = """
version: 6.0.0
type: DeclarativeSource
check: {type: CheckStream, stream_names: [users]}
streams:
  - type: DeclarativeStream
    name: users
    retriever:
      type: SimpleRetriever
      requester: {type: HttpRequester, url: "https://api.test/"}
      record_selector: {type: RecordSelector, extractor: {type: DpathExtractor, field_path: []}}
    incremental_sync:
      type: DatetimeBasedCursor
      cursor_field: day
      datetime_format: "%Y"
      start_datetime: "2024"
      step: one day
      cursor_granularity: P1D
"""


def test_an_error_of_building_names_the_file_and_the_line(tmp_path: Path) -> None:
    (tmp_path / "manifest.yaml").write_text(MANIFEST)
    source = ManifestSource.load(tmp_path / "manifest.yaml")

    with pytest.raises(ManifestError, match="one day") as raised:
        source.streams({})

    assert raised.value.path == f"{tmp_path / 'manifest.yaml'}:17"
    assert source.name == tmp_path.name
    (tmp_path / "things.yaml").write_text(MANIFEST)
    assert ManifestSource.load(tmp_path / "things.yaml").name == "things"


def test_a_field_whose_expression_does_not_fit_its_record_gets_its_text_and_its_line_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "manifest.yaml"
    file.write_text(
        MANIFEST.partition("    incremental_sync")[0]
        + "    transformations:\n"
        + "      - type: AddFields\n"
        + "        fields:\n"
        + "          - {path: [double], value: '{{ record.id * 2 }}'}\n"
        + "          - {path: [more], value: '{{ record.id + 1 }}'}\n"
    )
    api = MockApi()
    api.get("/").returns(json={"id": "x"})

    result = read(ManifestSource.load(file), "users", transport=api)

    assert result.records == [{"id": "x", "double": "xx", "more": "{{ record.id + 1 }}"}]
    line = file.read_text().partition("record.id + 1")[0].count("\n") + 1
    (text,) = [record.getMessage() for record in caplog.records if "the text of the expression" in record.getMessage()]
    assert text.startswith(f"{file}:{line}: users: AddedFieldDefinition.value: expression '{{{{ record.id + 1 }}}}': ")


def test_a_config_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(ManifestError, match="contains what JSON cannot represent"):
        made().streams({"half": "\ud800"})


class Heard(Events):
    """Keeps the configs it is told of."""

    def __init__(self) -> None:
        self.configs: list[Json] = []
        self.secrets: list[str] = []

    def config_changed(self, config: Json) -> None:
        self.configs.append(config)

    def learned(self, secret: str) -> None:
        self.secrets.append(secret)


RULES = {
    "type": "ConfigNormalizationRules",
    "config_migrations": [
        {
            "type": "ConfigMigration",
            "transformations": [{"type": "ConfigRemapField", "field_path": ["kind"], "map": {"old": "new"}}],
        }
    ],
    "transformations": [{"type": "ConfigAddFields", "fields": [{"path": ["more"], "value": "{{ config.kind }}"}]}],
    "validations": [
        {
            "type": "DpathValidator",
            "field_path": ["kind"],
            "validation_strategy": {"type": "ValidateAdheresToSchema", "base_schema": {"enum": ["new"]}},
        }
    ],
}
SPEC = {"type": "Spec", "connection_specification": {"type": "object"}, "config_normalization_rules": RULES}


def test_what_migrations_change_is_told_and_what_transformations_change_is_not() -> None:
    source, heard = made(spec=SPEC), Heard()
    source.events = heard
    given = {"kind": "old"}

    assert source.prepare(given) == {"kind": "new"}
    assert source.prepare({"kind": "new"}) == {"kind": "new"}
    assert source.transform({"kind": "new"}) == {"kind": "new", "more": "new"}
    assert heard.configs == [{"kind": "new"}]
    assert given == {"kind": "old"}


def test_a_config_is_validated_when_streams_are_built() -> None:
    source = made(spec=SPEC)

    assert len(source.streams({"kind": "new"})) == 2
    with pytest.raises(ConfigError):
        source.streams({"kind": "old"})


def test_how_scopes_are_joined_has_a_default_as_in_airbyte() -> None:
    known: Json = {"consent_url": "https://a.test/{{ scopes }}", "access_token_url": "https://a.test/token"}
    auth: Json = {
        "auth_flow_type": "oauth2.0",
        "oauth_config_specification": {"oauth_connector_input_specification": known},
    }
    spec: Json = {"type": "Spec", "connection_specification": {"type": "object"}, "advanced_auth": auth}

    shown = made(spec=spec).advanced_auth

    assert shown is not None
    assert shown["oauth_config_specification"] == {
        "oauth_connector_input_specification": {**known, "scopes_join_strategy": "space"}
    }


def test_a_source_without_a_spec_takes_any_config() -> None:
    source = made()

    assert source.config_schema == {"type": "object", "properties": {}, "additionalProperties": True}
    assert (source.documentation_url, source.advanced_auth) == (None, None)
    assert source.transform(source.prepare({"a": 1})) == {"a": 1}
    assert source.name == "manifest"


def test_a_stream_travels_as_its_manifest() -> None:
    some = {"type": "ConditionalStreams", "condition": "{{ config.audit }}", "streams": [stream("audit")]}
    streams = made(streams=[stream("users"), some], dynamic_streams=TEMPLATES).streams({"audit": 1})

    again = [pickle.loads(pickle.dumps(part)) for part in streams]  # noqa: S301 - our own

    assert [part.name for part in again] == ["users", "audit", "t1", "t2", "t3"]
    assert [part.json_schema() for part in again] == [part.json_schema() for part in streams]


def test_a_stream_of_a_template_asks_for_nothing_where_it_has_travelled_to() -> None:
    """What there was when the source was opened is read, whatever the API says later that there is."""
    names = {"type": "ComponentMappingDefinition", "field_path": ["name"], "value": "{{ components_values.name }}"}
    resolver = {
        "type": "HttpComponentsResolver",
        "retriever": stream("tables")["retriever"],
        "components_mapping": [names],
    }
    template = {"type": "DynamicDeclarativeStream", "stream_template": stream(""), "components_resolver": resolver}
    source, api = ManifestSource(Manifest(manifest(dynamic_streams=[template]))), MockApi()
    api.get("/tables").returns(json={"data": [{"name": "a"}, {"name": "b"}]}).returns(json={"data": []})

    with simulated(api):
        streams = source.open({})
        there = [pickle.loads(pickle.dumps(part)) for part in streams]  # noqa: S301 - our own

    assert [part.name for part in there] == ["users", "teams", "a", "b"]
    assert len(api.requests) == 1
    assert pickle.loads(pickle.dumps(streams[2])) is there[2]  # noqa: S301


SIZED = {"type": "PageIncrement", "page_size": "{{ config['size'] }}"}
SINCE = {
    "type": "DatetimeBasedCursor",
    "cursor_field": "on",
    "datetime_format": "%Y-%m-%d",
    "start_datetime": "{{ config['since'] }}",
}


@pytest.mark.parametrize(
    ("retriever", "more", "said"),
    [
        (
            {"paginator": {"type": "DefaultPaginator", "pagination_strategy": SIZED}},
            {},
            "page_size: found 'many', expected an integer",
        ),
        ({}, {"incremental_sync": SINCE}, "start_datetime: found 'never', expected a timestamp"),
        (
            {},
            {"incremental_sync": {**SINCE, "start_datetime": "{{ config.sinc }}"}},
            "found '', expected a timestamp in the format '%Y-%m-%d'; it reads `config.sinc`, which is missing",
        ),
        (
            {"partition_router": {"type": "ListPartitionRouter", "cursor_field": "a", "values": "{{ config['all'] }}"}},
            {},
            "values: found null, expected a list of values",
        ),
    ],
)
def test_a_stream_that_the_config_does_not_fit_fails_alone_when_it_is_read(
    retriever: dict[str, Any], more: dict[str, Any], said: str
) -> None:
    config, api = {"size": "many", "since": "never", "all": None}, MockApi()
    api.get("/good").returns(json={"data": [{"id": 1}]}).returns(json={"data": [{"id": 1}]})
    bad = stream("bad", **more)
    bad["retriever"] |= retriever
    check = {"type": "CheckStream", "stream_names": ["good"]}
    manifest = {"version": "6.0.0", "check": check, "streams": [bad, stream("good")]}
    made = ManifestSource(Manifest(manifest), Runtime(transport=api))

    assert [(one.name, one.json_schema()) for one in made.streams(config)] == [
        (name, {"type": "object", "properties": {}}) for name in ("bad", "good")
    ]
    made.check(config)
    assert read(made, "good", config=config).records == [{"id": 1}]
    failed = read(made, "bad", config=config)
    assert failed.statuses[-1] == "INCOMPLETE"
    assert said in str(failed.error)


BROKEN = stream("broken", incremental_sync={**SINCE, "start_datetime": "never"})


def test_a_mistake_of_the_manifest_itself_is_still_one_of_all_streams() -> None:
    with pytest.raises(ManifestError, match="start_datetime: found 'never'"):
        made(streams=[stream("good"), BROKEN]).streams({})


@pytest.mark.parametrize(
    ("root", "names", "selected"),
    [
        ({}, {"users", "teams", "broken"}, ["teams"]),
        ({"dynamic_streams": TEMPLATES}, None, None),
        (
            {"streams": [stream("teams"), {"type": "ConditionalStreams", "condition": "true", "streams": [BROKEN]}]},
            None,
            None,
        ),
    ],
    ids=["only static streams", "templates", "conditions"],
)
def test_a_stream_that_no_catalog_selects_is_not_built(root: dict[str, Any], names: Any, selected: Any) -> None:
    source = made(**{"streams": [stream("users"), stream("teams"), BROKEN], **root})
    source.select({"teams": None})
    assert source.stream_names == names
    if selected is None:
        # Which of the streams a template or a condition makes is known once all are built.
        with pytest.raises(ManifestError, match="start_datetime: found 'never'"):
            source.streams({})
    else:
        assert [each.name for each in source.streams({})] == selected


def test_a_child_that_a_catalog_selects_without_its_parent_follows_it() -> None:
    parent = {"type": "ParentStreamConfig", "stream": "#/streams/0", "parent_key": "id", "partition_field": "user"}
    child = {**stream("posts/{{ stream_partition.user }}"), "name": "posts"}
    child["retriever"]["partition_router"] = {"type": "SubstreamPartitionRouter", "parent_stream_configs": [parent]}
    api = MockApi()
    api.get("/users").returns(json={"data": [{"id": 1}, {"id": 2}]})
    api.get("/posts/1").returns(json={"data": [{"id": "a"}]})
    api.get("/posts/2").returns(json={"data": [{"id": "b"}]})
    source = made(api, streams=[stream("users"), stream("teams"), child])

    source.select({"posts": None})

    (posts,) = source.streams({})
    assert posts.name == "posts"
    assert [record["id"] for record in read(posts).records] == ["a", "b"]


def test_an_expression_that_fails_in_one_slice_keeps_no_other_from_being_read() -> None:
    halves = stream("halves", requester={"request_parameters": {"half": "{{ 12 / (stream_partition.n | int) }}"}})
    halves["retriever"]["partition_router"] = {"type": "ListPartitionRouter", "cursor_field": "n", "values": [1, 0, 2]}
    api = MockApi()
    api.get("/halves", params={"half": "12.0"}).returns(json={"data": [{"id": 1}]})
    api.get("/halves", params={"half": "6.0"}).returns(json={"data": [{"id": 2}]})

    run = read(made(api, streams=[halves]), "halves")

    assert [record["id"] for record in run.records] == [1, 2]
    assert run.error is not None
    assert "stream_partition.n" in str(run.error)


def test_a_check_warns_of_a_field_path_that_no_response_has(caplog: pytest.LogCaptureFixture) -> None:
    api = MockApi()
    api.get("/users").returns(json={"dat": [{"id": 1}]})

    made(api).check({})

    assert "there is no 'data' in the body, whose fields are 'dat' (is it 'dat'?); check `field_path`" in caplog.text


SCHEMA = {
    "type": "object",
    "required": ["key"],
    "properties": {"key": {"type": "string", "airbyte_secret": True}, "day": {"type": "string"}},
}
SPEC_FILE = {
    "documentationUrl": "https://docs.test/it",
    "connectionSpecification": SCHEMA,
    "advanced_auth": {"auth_flow_type": "oauth2.0"},
}
IN_YAML = """
documentationUrl: https://docs.test/it
connectionSpecification:
  type: object
  required: [key]
  properties:
    key: {type: string, airbyte_secret: true}
    day: {type: string}
advanced_auth: {auth_flow_type: oauth2.0}
"""


def loaded(folder: Path, files: dict[str, str], **root: object) -> ManifestSource:
    (folder / "manifest.yaml").write_text(json.dumps(manifest(**root)))
    for name, text in files.items():
        (folder / name).write_text(text)
    return ManifestSource.load(folder / "manifest.yaml")


@pytest.mark.parametrize(
    "files",
    [{"spec.yaml": IN_YAML}, {"spec.json": json.dumps(SPEC_FILE)}, {"spec.json": json.dumps(SPEC_FILE, indent="\t")}],
)
def test_a_spec_beside_the_manifest_is_the_spec(tmp_path: Path, files: dict[str, str]) -> None:
    source = loaded(tmp_path, files)

    assert source.config_schema == SCHEMA
    assert source.documentation_url == "https://docs.test/it"
    assert source.advanced_auth == {"auth_flow_type": "oauth2.0"}
    assert list(secret_values(source.config_schema, {"key": "hunter22", "day": "monday"})) == ["hunter22"]


def test_the_spec_in_the_manifest_counts_first(tmp_path: Path) -> None:
    own = {"type": "Spec", "connection_specification": {"type": "object", "title": "own"}}

    assert loaded(tmp_path, {"spec.yaml": IN_YAML}, spec=own).config_schema["title"] == "own"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"spec.yaml": IN_YAML, "spec.json": "{}"}, "found spec.yaml and spec.json, expected one of them"),
        ({"spec.yaml": "openapi: 3.1.0"}, "spec.yaml: expected an object with `connectionSpecification`"),
        ({"spec.json": "[]"}, "spec.json: expected an object with `connectionSpecification`"),
        ({"spec.json": "{"}, "spec.json:1:2: is not JSON"),
        ({"spec.yaml": "a: [1"}, "spec.yaml:2:1: is not YAML"),
    ],
)
def test_a_file_that_is_no_spec_is_refused(tmp_path: Path, files: dict[str, str], expected: str) -> None:
    with pytest.raises(ManifestError, match=expected):
        loaded(tmp_path, files)
