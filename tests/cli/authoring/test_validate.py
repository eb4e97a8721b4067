"""`spark-cdk validate` and `spark-cdk schema`."""

import json
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from tests.cli.conftest import CommandLine

MANIFEST = dedent("""
    version: 6.0.0
    type: DeclarativeSource
    check: {type: CheckStream, stream_names: [users]}
    streams:
      - type: DeclarativeStream
        name: users
        incremental_sync:
          type: DatetimeBasedCursor
          cursor_field: day
          start_datetime: "2024-01-01"
          datetime_format: "%Y-%m-%d"
        retriever:
          type: SimpleRetriever
          requester: {type: HttpRequester, url: "https://api.test/users", request_headers: {key: "{{ config['key'] }}"}}
          record_selector: {type: RecordSelector, extractor: {type: DpathExtractor, field_path: [data]}}
    spec:
      type: Spec
      connection_specification:
        type: object
        required: [key]
        properties: {key: {type: string, minLength: 20, airbyte_secret: true}}
""")
UNSET = "the environment variable API_KEY is not set; set it, or write the value there instead"
PIPELINE = dedent("""
    name: users
    source: {manifest: manifest.yaml, config: {key: "${API_KEY}"}}
    target: {path: tables}
    streams:
      users: {write_mode: append_dedup}
      usres: {}
""")


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    (tmp_path / "manifest.yaml").write_text(MANIFEST)


def test_good_files_are_good(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"key": "k" * 20}))
    state = {"stream_descriptor": {"name": "users"}, "stream_state": {"day": "2024-01-02"}}
    (tmp_path / "state.json").write_text(json.dumps([{"type": "STREAM", "stream": state}]))
    stream = {"name": "users", "json_schema": {}, "supported_sync_modes": ["incremental"]}
    (tmp_path / "catalog.json").write_text(json.dumps({"streams": [{"stream": stream, "sync_mode": "incremental"}]}))
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.replace("  usres: {}\n", "").replace("append_dedup", "append"))

    ran = cli("validate", "manifest.yaml", "config.json", "state.json", "catalog.json", "pipeline.yaml")

    assert ran.lines == [
        "manifest.yaml: a manifest without mistakes",
        "config.json: a config without mistakes",
        "state.json: a state without mistakes",
        "catalog.json: a catalog without mistakes",
        f"pipeline.yaml:3 source.config.key: warning: {UNSET}",
        "pipeline.yaml:3 source.config: warning: is not checked without a value for API_KEY",
    ]
    assert ran.code == 0


def test_all_mistakes_are_named_with_their_lines(cli: CommandLine, tmp_path: Path) -> None:
    wrong = MANIFEST.replace("HttpRequester", "HttpRequestr").replace("cursor_field: day", "cursor_feild: day")
    (tmp_path / "manifest.yaml").write_text(wrong)

    ran = cli("validate", "manifest.yaml")

    assert ran.code == 1
    assert [line.partition(":")[2].partition(":")[0] for line in ran.lines] == [
        "10 streams[0].incremental_sync.cursor_feild",
        "15 streams[0].retriever.requester.type",
    ]
    assert "did you mean 'HttpRequester'?" in ran.lines[1]


def test_a_manifest_whose_form_is_right_may_still_be_wrong(cli: CommandLine, tmp_path: Path) -> None:
    wrong = (
        MANIFEST.replace("stream_names: [users]", "stream_names: [users, usrs]")
        .replace("config['key']", "config['kye']")
        .replace("https://api.test/users", "https://api.test/{{ config.key }/users")
        .replace('"2024-01-01"', '"{{ reponse.day or stream_state }}"')
    )
    (tmp_path / "manifest.yaml").write_text(wrong)

    ran = cli("validate", "manifest.yaml")

    assert ran.code == 1
    assert ran.lines == [
        "manifest.yaml:4 check.stream_names[1]: there is no stream 'usrs'; did you mean 'users'?",
        (
            "manifest.yaml:15 streams[0].retriever.requester.url: expression 'https://api.test/{{ config.key }/users': "
            "unexpected '}'"
        ),
        (
            "manifest.yaml:11 streams[0].incremental_sync.start_datetime: warning: "
            "expression '{{ reponse.day or stream_state }}': `stream_state` was removed from the language; "
            "use `stream_interval`, the slice being read"
        ),
        (
            "manifest.yaml:15 streams[0].retriever.requester.request_headers.key: warning: "
            "reads config['kye'], which the spec does not declare; did you mean 'key'?"
        ),
    ]


def test_values_that_no_config_can_make_right_are_wrong_without_one(cli: CommandLine, tmp_path: Path) -> None:
    strategy = "{type: PageIncrement, page_size: ten}"
    wrong = (
        MANIFEST.replace('"%Y-%m-%d"', "YYYY-MM-DD\n      step: 30 days")
        .replace('url: "https://api.test/users"', "path: users")
        .replace(
            "  record_sel",
            f"  paginator: {{type: DefaultPaginator, pagination_strategy: {strategy}}}\n      record_sel",
        )
    )
    (tmp_path / "manifest.yaml").write_text(wrong)

    ran = cli("validate", "manifest.yaml")

    cursor, retriever = "streams[0].incremental_sync", "streams[0].retriever"
    assert ran.lines[:4] == [
        (
            f"manifest.yaml:12 {cursor}.datetime_format: found 'YYYY-MM-DD', "
            "expected the parts of a timestamp, such as %Y-%m-%dT%H:%M:%SZ"
        ),
        f"manifest.yaml:13 {cursor}.step: found '30 days', expected a duration such as P1D, PT1H or P1M",
        f"manifest.yaml:16 {retriever}.requester: HttpRequester needs the field 'url', or 'url_base' and 'path'",
        f"manifest.yaml:17 {retriever}.paginator.pagination_strategy.page_size: found 'ten', expected an integer",
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "there is no file './schemas/users.json' in "),
        ("", "users.json:1:1: is not JSON: Input is a zero-length"),
        ("[1]", "users.json: found a list, expected a JSON Schema, an object"),
        ('{"$ref": "all.json"}', "users.json: the reference 'all.json' cannot be resolved"),
        ('{"properties": {"id": {"type": "int"}}}', "warning: the schema has mistakes: properties.id.type is 'int'"),
        ('{"properties": {"id": {"type": "integer"}}}', None),
    ],
)
@pytest.mark.parametrize("listed", [False, True])
def test_a_schema_and_its_file_are_checked(
    cli: CommandLine,
    tmp_path: Path,
    content: str | None,
    problem: str | None,
    listed: bool,  # noqa: FBT001
) -> None:
    loader = "{type: JsonFileSchemaLoader}"
    added = f"schema_loader: {f'[{loader}]' if listed else loader}\n    incremental_sync:"
    (tmp_path / "manifest.yaml").write_text(MANIFEST.replace("incremental_sync:", added))
    if content is not None:
        (tmp_path / "schemas").mkdir()
        (tmp_path / "schemas" / "users.json").write_text(content)

    lines = cli("validate", "manifest.yaml").lines

    reported = [line for line in lines if "schema_loader" in line]
    assert len(reported) == (problem is not None)
    assert problem is None or problem in reported[0]


def test_values_of_custom_components_are_left_to_their_code(cli: CommandLine, tmp_path: Path) -> None:
    own = "CustomIncrementalSync\n      class_name: components.Own\n      step: 30 days"
    (tmp_path / "manifest.yaml").write_text(MANIFEST.replace("DatetimeBasedCursor", own))

    assert "30 days" not in "".join(cli("validate", "manifest.yaml").lines)


@pytest.mark.parametrize(
    ("text", "found"), [("", "nothing (null)"), ("- type: DeclarativeStream\n", "a list of 1"), ("users\n", "'users'")]
)
def test_yaml_without_keys_is_no_manifest(cli: CommandLine, tmp_path: Path, text: str, found: str) -> None:
    (tmp_path / "manifest.yaml").write_text(text)

    expected = "expected an object with `version`, `check` and `streams`"
    assert cli("validate", "manifest.yaml").lines == [f"manifest.yaml:1: found {found}, {expected}"]


LIST = {"type": "ListPartitionRouter", "cursor_field": "project", "values": ["a"]}
PARENT = {**yaml.safe_load(MANIFEST)["streams"][0], "name": "parent"}
LINK = {"type": "ParentStreamConfig", "parent_key": "id", "partition_field": "owner", "stream": PARENT}
SUBSTREAM = {"type": "SubstreamPartitionRouter", "parent_stream_configs": [LINK]}
MORE = SUBSTREAM | {"parent_stream_configs": [LINK | {"extra_fields": [["name"]]}]}
GROUPED = {"type": "GroupingPartitionRouter", "group_size": 2, "underlying_partition_router": SUBSTREAM}
NAMED = LIST | {"cursor_field": "{{ config['key'] }}"}
OWN = {"type": "CustomPartitionRouter", "class_name": "source_it.components.Two"}


@pytest.mark.parametrize(
    ("router", "text", "warned"),
    [
        (LIST, "{{ stream_partition.project }}", False),
        (LIST, "{{ stream_partition['projct'] }}", True),
        ([LIST, SUBSTREAM], "{{ stream_partition.parent_slice.x ~ stream_partition.project }}", False),
        ([LIST, SUBSTREAM], "{{ stream_partition.get('projct') }}", True),
        (SUBSTREAM, "{{ stream_partition.extra_fields.name }}", True),
        (MORE, "{{ stream_partition.extra_fields.name }}", False),
        (GROUPED, "{{ stream_partition.ownr }}", True),
        (OWN, "{{ stream_partition.projct }}", False),
        (NAMED, "{{ stream_partition.projct }}", False),
        (None, "{{ stream_partition.project }}", True),
    ],
)
def test_fields_that_no_partition_has_are_suspicious(
    cli: CommandLine, tmp_path: Path, router: object, text: str, *, warned: bool
) -> None:
    manifest = yaml.safe_load(MANIFEST)
    retriever = manifest["streams"][0]["retriever"]
    retriever["requester"]["request_headers"]["key"] = text
    retriever |= {} if router is None else {"partition_router": router}
    (tmp_path / "manifest.yaml").write_text(yaml.safe_dump(manifest))

    ran = cli("validate", "manifest.yaml")

    assert (ran.code, "which no partition has" in "\n".join(ran.lines)) == (0, warned), ran.lines


FOLLOWED = LINK | {"incremental_dependency": True}
FOLLOWS = SUBSTREAM | {"parent_stream_configs": [FOLLOWED]}
CURSOR = PARENT["incremental_sync"]


@pytest.mark.parametrize(
    ("router", "own", "paths"),
    [
        (SUBSTREAM, {}, []),
        (FOLLOWS, {"incremental_sync": CURSOR}, []),
        (FOLLOWS, {}, [".parent_stream_configs[0]"]),
        (SUBSTREAM | {"parent_stream_configs": [LINK, FOLLOWED]}, {}, [".parent_stream_configs[1]"]),
        ([LIST, FOLLOWS], {}, ["[1].parent_stream_configs[0]"]),
        ([FOLLOWS, LIST], {"incremental_sync": CURSOR}, []),
        (
            GROUPED | {"underlying_partition_router": FOLLOWS},
            {},
            [".underlying_partition_router.parent_stream_configs[0]"],
        ),
        (OWN, {}, []),
        (None, {}, []),
    ],
)
@pytest.mark.parametrize("kind", ["stream", "conditional", "template"])
def test_a_parent_that_a_stream_without_a_cursor_is_to_follow_is_warned_of(
    cli: CommandLine, tmp_path: Path, router: object, own: dict[str, object], paths: list[str], *, kind: str
) -> None:
    manifest = yaml.safe_load(MANIFEST)
    (plain,) = manifest["streams"]
    stream = {name: value for name, value in plain.items() if name != "incremental_sync"} | own
    stream |= {"name": "children", "retriever": plain["retriever"] | ({"partition_router": router} if router else {})}
    at = {
        "stream": "streams[1]",
        "conditional": "streams[1].streams[0]",
        "template": "dynamic_streams[0].stream_template",
    }
    if kind == "template":
        made = {"type": "ConfigComponentsResolver", "stream_config": {"type": "StreamConfig", "configs_pointer": ["a"]}}
        resolver = made | {"components_mapping": []}
        manifest["dynamic_streams"] = [
            {"type": "DynamicDeclarativeStream", "stream_template": stream, "components_resolver": resolver}
        ]
    elif kind == "conditional":
        manifest["streams"].append({"type": "ConditionalStreams", "condition": "{{ true }}", "streams": [stream]})
    else:
        manifest["streams"].append(stream)
    (tmp_path / "manifest.yaml").write_text(yaml.safe_dump(manifest))

    ran = cli("validate", "manifest.yaml")

    warned = [line.partition(" ")[2] for line in ran.lines if "the stream has no cursor" in line]
    assert [line.partition(": ")[0] for line in warned] == [
        f"{at[kind]}.retriever.partition_router{path}.incremental_dependency" for path in paths
    ], ran.lines
    assert ran.code == 0, ran.lines


@pytest.mark.parametrize(
    ("cursor", "headers", "warned"),
    [
        ({}, {}, True),
        (
            {"end_time_option": {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "to"}},
            {},
            False,
        ),
        ({}, {"to": "{{ stream_interval['end_time'] }}"}, False),
        ({"partition_field_end": "until"}, {"to": "{{ stream_slice.until }}"}, False),
        ({"partition_field_end": "until"}, {"to": "{{ stream_slice.end_time }}"}, True),
        ({"is_client_side_incremental": True}, {}, False),
        ({"step": None, "cursor_granularity": None}, {}, False),
        ({"step": "P1D"}, {}, False),
    ],
)
def test_windows_whose_end_no_request_names_are_warned_of(
    cli: CommandLine, tmp_path: Path, cursor: dict[str, object], headers: dict[str, str], *, warned: bool
) -> None:
    manifest = yaml.safe_load(MANIFEST)
    (stream,) = manifest["streams"]
    stream["incremental_sync"] |= {"step": "P10D", "cursor_granularity": "P1D"} | cursor
    stream["retriever"]["requester"]["request_headers"] |= headers
    (tmp_path / "manifest.yaml").write_text(yaml.safe_dump(manifest))

    ran = cli("validate", "manifest.yaml")

    assert ran.code == 0, ran.lines
    assert any("no request names a window's end" in line for line in ran.lines) is warned, ran.lines


def test_what_parameters_give_to_parts_that_do_not_read_it_is_no_mistake(cli: CommandLine, tmp_path: Path) -> None:
    manifest = yaml.safe_load(MANIFEST)
    (stream,) = manifest["streams"]
    requester = {"type": "HttpRequester", "url_base": "https://api.test", "path": "parents"}
    parent = PARENT | {"retriever": PARENT["retriever"] | {"requester": requester}}
    stream["$parameters"] = {"url": "https://api.test/{{ stream_partition['owner'] }}/users"}
    stream["retriever"]["partition_router"] = SUBSTREAM | {"parent_stream_configs": [LINK | {"stream": parent}]}
    del stream["retriever"]["requester"]["url"]
    own = {"type": "CustomSchemaNormalization", "class_name": "source_it.components.Two"}
    parent["retriever"]["record_selector"]["schema_normalization"] = own
    (tmp_path / "manifest.yaml").write_text(yaml.safe_dump(manifest))

    ran = cli("validate", "manifest.yaml")

    assert (ran.code, [line for line in ran.lines if "which no partition has" in line]) == (0, [])


def test_parameters_that_a_template_may_get_are_no_mistake(cli: CommandLine, tmp_path: Path) -> None:
    manifest = yaml.safe_load(MANIFEST)
    (template,) = manifest["streams"]
    template["retriever"]["record_selector"]["record_filter"] = {
        "type": "RecordFilter",
        "condition": "{{ record.id == parameters.table }}",
    }
    path = ["retriever", "record_selector", "record_filter", "$parameters", "table"]
    manifest["dynamic_streams"] = [
        {
            "type": "DynamicDeclarativeStream",
            "name": "tables",
            "stream_template": template | {"name": "table"},
            "components_resolver": {
                "type": "ConfigComponentsResolver",
                "stream_config": {"type": "StreamConfig", "configs_pointer": ["tables"]},
                "components_mapping": [
                    {"type": "ComponentMappingDefinition", "field_path": path, "value": "{{ components_values }}"}
                ],
            },
        }
    ]
    manifest["streams"] = [PARENT]
    manifest["check"]["stream_names"] = ["parent"]
    (tmp_path / "manifest.yaml").write_text(yaml.safe_dump(manifest))

    ran = cli("validate", "manifest.yaml")

    assert "is not defined, so it is empty" not in "\n".join(ran.lines)


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("{{ config.get('key') }}", False),
        ("{{ config['login']['token'] or config.login.user }}", False),
        ("{{ config['login']['tokn'] }}", True),
        ("{{ config.get('ky', 1) }}", True),
        ("{{ config['free']['anything'] }}", False),
        ("{{ record['kye'] ~ config['__injected'] ~ config.items() }}", False),
        ("{{ config[parameters['name']] }}", False),
        ("plain {", False),
    ],
)
def test_keys_that_no_config_has_are_suspicious(cli: CommandLine, tmp_path: Path, text: str, *, warned: bool) -> None:
    branches = "{oneOf: [{properties: {token: {type: string}}}, {properties: {user: {type: string}}}]}"
    spec = MANIFEST.replace("properties: {key:", f"properties: {{free: {{type: object}}, login: {branches}, key:")
    (tmp_path / "manifest.yaml").write_text(spec.replace("{{ config['key'] }}", text))

    ran = cli("validate", "manifest.yaml")

    assert (ran.code, "warning: reads config" in "".join(ran.lines)) == (0, warned), ran.lines


def test_parameters_that_nothing_defines_are_suspicious(cli: CommandLine, tmp_path: Path) -> None:
    text = MANIFEST.replace("    name: users\n", "    name: users\n    $parameters: {kind: big}\n")
    (tmp_path / "manifest.yaml").write_text(text.replace("config['key']", "parameters.kind ~ parameters['knd']"))

    assert cli("validate", "manifest.yaml").lines == [
        (
            "manifest.yaml:16 streams[0].retriever.requester.request_headers.key: warning: the parameter "
            "'knd' of {{ parameters.kind ~ parameters['knd'] }} is not defined, so it is empty; did you mean 'kind'?"
        )
    ]


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        ((), False),
        (("--manifest-path", "manifest.yaml"), True),
        (("--manifest-path", "manifest.yaml", "--config", "c.json"), False),
    ],
)
def test_a_state_whose_streams_are_not_known_is_said_not_to_be_compared(
    cli: CommandLine, tmp_path: Path, options: tuple[str, ...], *, warned: bool
) -> None:
    (tmp_path / "c.json").write_text(json.dumps({"key": "k" * 20}))
    state = {"stream_descriptor": {"name": "usres"}, "stream_state": {"day": "2024-01-02"}}
    (tmp_path / "state.json").write_text(json.dumps([{"type": "STREAM", "stream": state}]))

    lines = cli("validate", "state.json", "--kind", "state", *options).lines

    warning = "state.json:1: warning: is not compared with the streams of the connector, which requires a config: "
    assert any(line.startswith(warning) for line in lines) == warned, lines
    assert any("did you mean 'users'?" in line for line in lines) == ("--config" in options)


def test_a_pipeline_is_held_against_its_connector(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "k" * 20)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)

    ran = cli("validate", "pipeline.yaml")

    assert ran.code == 1
    assert [line.split(": ")[0] for line in ran.lines] == [
        "pipeline.yaml:6 streams.users.write_mode",
        "pipeline.yaml:7 streams.usres",
    ]
    assert "the source has no stream 'usres'; did you mean 'users'?" in ran.lines[1]


def test_a_key_that_no_schema_declares_is_no_key(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "k" * 20)
    loader = "schema_loader: {type: InlineSchemaLoader, schema: {properties: {day: {type: string}}}}"
    (tmp_path / "manifest.yaml").write_text(MANIFEST.replace("incremental_sync:", f"{loader}\n    incremental_sync:"))
    keyed = PIPELINE.replace("  usres: {}\n", "").replace("append_dedup", "append_dedup, primary_key: FIELD")
    (tmp_path / "pipeline.yaml").write_text(keyed.replace("FIELD", "id"))
    (tmp_path / "good.yaml").write_text(keyed.replace("FIELD", "day"))

    ran = cli("validate", "pipeline.yaml", "good.yaml")

    assert ran.code == 1
    assert ran.lines[0].startswith(
        "pipeline.yaml:6 streams.users.primary_key: the stream's schema does not declare 'id'; add it there"
    )
    assert ran.lines[1] == "good.yaml: a pipeline without mistakes"


@pytest.mark.parametrize(
    ("schema", "more", "places"),
    [
        ("{properties: {dya: {}, id: {}}}", "primary_key: id", ["incremental_sync.cursor_field: warning: found 'day'"]),
        (
            "{additionalProperties: true, properties: {day: {}}}",
            "primary_key: di",
            ["primary_key: warning: found 'di'"],
        ),
        ("{properties: {day: {}, a: {}}}", "primary_key: [[a, id], [b, id]]", ["primary_key: warning: found 'b'"]),
        ("{properties: {day: {}, a: {}}}", "primary_key: [a, b]", ["primary_key: warning: found 'b'"]),
        ("{properties: {day: {}}}", "primary_key: \"{{ config['key'] }}\"", []),
        ("{properties: {day: {}}}", "primary_key: id\n    transformations: [{type: KeysToLower}]", []),
        ("{properties: {day: {}}, allOf: [{properties: {id: {}}}]}", "primary_key: id", []),
        ("{additionalProperties: true}", "primary_key: id", []),
    ],
)
def test_cursors_and_keys_that_an_inline_schema_lacks_are_warned_of(
    cli: CommandLine, tmp_path: Path, schema: str, more: str, places: list[str]
) -> None:
    loader = f"schema_loader: {{type: InlineSchemaLoader, schema: {schema}}}\n    {more}"
    (tmp_path / "manifest.yaml").write_text(MANIFEST.replace("incremental_sync:", f"{loader}\n    incremental_sync:"))

    ran = cli("validate", "manifest.yaml")

    assert ran.code == 0
    found = [
        line.partition(", expected a property of the inline schema")[0] for line in ran.lines if "property" in line
    ]
    assert [line.partition(" streams[0].")[2] for line in found] == places


def test_a_schema_that_the_api_gives_is_not_asked_for(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "k" * 20)
    requester = "{type: HttpRequester, url: 'http://127.0.0.1:1/fields'}"
    selector = "{type: RecordSelector, extractor: {type: DpathExtractor, field_path: []}}"
    fields = f"{{type: SimpleRetriever, requester: {requester}, record_selector: {selector}}}"
    names = "{type: SchemaTypeIdentifier, key_pointer: [name]}"
    loader = f"schema_loader: {{type: DynamicSchemaLoader, retriever: {fields}, schema_type_identifier: {names}}}"
    (tmp_path / "manifest.yaml").write_text(MANIFEST.replace("incremental_sync:", f"{loader}\n    incremental_sync:"))
    keyed = PIPELINE.replace("  usres: {}\n", "").replace("append_dedup", "append_dedup, primary_key: id")
    (tmp_path / "pipeline.yaml").write_text(keyed)

    ran = cli("validate", "pipeline.yaml")

    assert (ran.code, ran.lines) == (0, ["pipeline.yaml: a pipeline without mistakes"])


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("config.json", '{\n "key": "short-secret"\n}', "config.json:2 key: found '****', expected minLength 20"),
        ("config.yaml", "kye: x\n", "config.yaml:1 key: found nothing ('kye' is unknown), expected a value"),
        ("config.json", "{", "config.json:1:2: is not JSON"),
        ("state.json", '[{"type": "STREAM", "stream": 5}]', "state.json:1 [0].stream: found 5, expected an object"),
        ("catalog.json", '{"streams": [{"name": 1}]}', "catalog.json:1 streams[0].name: found 1, expected a string"),
    ],
)
def test_files_of_each_kind_are_checked(cli: CommandLine, tmp_path: Path, name: str, text: str, line: str) -> None:
    (tmp_path / name).write_text(text)

    ran = cli("validate", name, "--manifest-path", "manifest.yaml")

    assert ran.code == 1
    assert any(shown.startswith(line) for shown in ran.lines), ran.lines
    assert "short-secret" not in "".join(ran.lines)


@pytest.mark.parametrize(
    ("right", "wrong", "line"),
    [
        ("target:", "tagret:", "pipeline.yaml:4 tagret: unknown key; did you mean 'target'?"),
        ("source:", "sorce:", "pipeline.yaml:3 sorce: unknown key; did you mean 'source'?"),
        ("manifest: ", "manifset: ", "pipeline.yaml:3 source.manifset: unknown key; did you mean 'manifest'?"),
    ],
)
def test_a_file_is_what_most_of_it_is(cli: CommandLine, tmp_path: Path, right: str, wrong: str, line: str) -> None:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.replace(right, wrong))
    (tmp_path / "slip.yaml").write_text(MANIFEST.replace("check:", "chekc:").replace("type: DeclarativeSource", ""))

    ran = cli("validate", "pipeline.yaml", "slip.yaml")

    assert line in ran.lines
    assert any(shown.startswith("slip.yaml:") and "did you mean 'check'?" in shown for shown in ran.lines), ran.lines


def test_a_pipeline_says_what_is_wrong_with_its_manifest(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "manifest.yaml").write_text(MANIFEST.replace("config['key']", "config['key'"))
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)

    ran = cli("validate", "pipeline.yaml")

    assert ran.code == 1
    assert any(line.startswith("manifest.yaml:15 streams[0].retriever.requester") for line in ran.lines), ran.lines


def test_a_config_in_a_pipeline_is_checked_where_it_stands(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "short-secret")
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)

    ran = cli("validate", "pipeline.yaml")

    assert ran.lines == ["pipeline.yaml:3 source.config.key: found '****', expected minLength 20"]


def test_catalogs_and_states_are_held_against_the_streams(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"key": "k" * 20}))
    state = {"stream_descriptor": {"name": "users"}, "stream_state": {"day": "yesterday"}}
    (tmp_path / "state.json").write_text(json.dumps([{"type": "STREAM", "stream": state}]))
    streams = [{"stream": {"name": name, "json_schema": {}}, "sync_mode": "incremental"} for name in ("usrs", "users")]
    (tmp_path / "catalog.json").write_text(json.dumps({"streams": [*streams, streams[1]]}, indent=1))

    ran = cli("validate", "state.json", "catalog.json", "--manifest-path", "manifest.yaml", "--config", "config.json")

    assert ran.code == 1
    assert "state of users.day: found 'yesterday'" in ran.lines[0]
    assert "did you mean 'users'?" in ran.lines[1]
    assert "'users' is listed twice; list it once" in ran.lines[2]
    assert [line.startswith("catalog.json:") for line in ran.lines] == [False, True, True]


def test_programs_get_one_document(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")

    ran = cli("validate", "config.json", "manifest.yaml", "--json")

    answer = json.loads("\n".join(ran.lines))
    assert (answer["format"], answer["valid"]) == ("spark-cdk-validate/1", False)
    config, manifest = answer["files"]
    assert (config["kind"], manifest["kind"]) == ("config", "manifest")
    assert config["errors"] == [
        {"file": "config.json", "line": 1, "column": None, "path": "key", "message": "found nothing, expected a value"}
    ]


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("missing.json",), "missing.json: cannot be read: No such file or directory"),
        (("new.json",), "new.json: there is no such file; copy new.example.json to this path, and fill it in"),
        (("config.json",), "name its connector"),
        (("shop.py",), ": found Python, expected a manifest, pipeline, config, catalog or state"),
    ],
)
def test_what_cannot_be_checked_is_a_mistake(
    cli: CommandLine, tmp_path: Path, argv: tuple[str, ...], text: str
) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "new.example.json").write_text("{}")
    (tmp_path / "shop.py").write_text("")

    ran = cli("validate", *argv)

    assert (ran.code, text in "".join(ran.lines)) == (1, True)


@pytest.mark.parametrize("kind", ["manifest", "pipeline"])
def test_the_schema_is_printed(cli: CommandLine, kind: str) -> None:
    ran = cli("schema", kind)

    assert json.loads("\n".join(ran.lines))["title"] == f"A {kind}"
