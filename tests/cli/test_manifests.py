"""Manifests through the command line: a file, its code, and what a source tells while it runs."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from cdk.base.errors import ConfigError, ManifestError
from cdk.base.secret_masking import Secrets
from cdk.base.task_map import run_inline
from cdk.cli.pipeline_from_file import file_pipeline
from cdk.cli.protocol.source_events import ProtocolEvents
from cdk.cli.sync.pipeline_from_options import GivenOptions, given_pipeline
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.rest import Request, Response
from cdk.rest.http.messages import Headers
from cdk.sources.config_file import ConfigEvents
from cdk.sources.manifests import AirbyteCode
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.settings.pipeline_file import Pipeline, TargetOptions
from cdk.sync.tasks.workers import Workers
from cdk.testing import MockApi
from tests.cli.conftest import CommandLine
from tests.rest.api import Time

MANIFEST = """
version: 6.0.0
type: DeclarativeSource
check: {type: CheckStream, stream_names: [users]}
spec:
  type: Spec
  documentation_url: https://example.com/docs
  connection_specification:
    type: object
    required: [region]
    properties:
      region: {type: string}
      api_key: {type: string, airbyte_secret: true}
  advanced_auth: {auth_flow_type: oauth2.0}
streams:
  - type: DeclarativeStream
    name: users
    primary_key: id
    schema_loader: {type: InlineSchemaLoader, schema: {type: object, properties: {id: {type: integer}}}}
    retriever: {type: CustomRetriever, class_name: source_it.components.Two, region: "{{ config.region }}"}
"""
CODE = """
class Two:
    def __init__(self, config, parameters, **fields):
        self.config = config

    def read_records(self, records_schema, stream_slice=None):
        yield {"id": 1, "region": self.config["region"]}
        yield {"id": 2, "region": self.config["region"]}
"""
RULES = {
    "type": "ConfigNormalizationRules",
    "config_migrations": [
        {
            "type": "ConfigMigration",
            "transformations": [{"type": "ConfigRemapField", "field_path": ["region"], "map": {"Europe": "eu"}}],
        }
    ],
    "transformations": [
        {"type": "ConfigAddFields", "fields": [{"path": ["host"], "value": "{{ config.region }}.test"}]}
    ],
}
ADD_A_LETTER = {"type": "ConfigAddFields", "fields": [{"path": ["region"], "value": "{{ config.region }}x"}]}
OAUTH = {
    "type": "OAuthAuthenticator",
    "token_refresh_endpoint": "https://login.test/token",
    "client_id": "{{ config['id'] }}",
    "client_secret": "{{ config['secret'] }}",
    "refresh_token": "{{ config['refresh'] }}",
    "refresh_token_updater": {
        "refresh_token_config_path": ["refresh"],
        "access_token_config_path": ["credentials", "access"],
        "token_expiry_date_config_path": ["credentials", "expires"],
    },
}


class Site:
    """An API and a source that reads it."""

    def __init__(self, *, requester: Any = None, rules: Any = None, **root: Any) -> None:
        self.api, self.time = MockApi(), Time()
        spec = {
            "type": "Spec",
            "connection_specification": {
                "type": "object",
                "properties": {"secret": {"type": "string", "airbyte_secret": True}},
            },
            "config_normalization_rules": rules,
        }
        stream = {
            "type": "DeclarativeStream",
            "name": "items",
            "schema_loader": {"type": "InlineSchemaLoader", "schema": {"type": "object", "properties": {}}},
            "retriever": {
                "type": "SimpleRetriever",
                "requester": {"type": "HttpRequester", "url": "https://api.test/items", **(requester or {})},
                "record_selector": {
                    "type": "RecordSelector",
                    "extractor": {"type": "DpathExtractor", "field_path": ["data"]},
                },
            },
        }
        check = {"type": "CheckStream", "stream_names": ["items"]}
        manifest = {"version": "6.0.0", "check": check, "spec": spec, "streams": [stream], **root}
        runtime = Runtime(transport=self.api, clock=self.time.clock, sleep=self.time.sleep)
        self.source = ManifestSource(Manifest(manifest), runtime)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with a manifest, its code and a config."""
    (tmp_path / "manifest.yaml").write_text(MANIFEST)
    (tmp_path / "components.py").write_text(CODE)
    (tmp_path / "c.json").write_text('{"region": "eu", "api_key": "hunter22"}')
    return tmp_path


COMMAND = ("--manifest-path", "manifest.yaml")
CONFIG = ("--config", "c.json")


SPEC_FILE = """
connectionSpecification:
  type: object
  required: [region]
  properties:
    region: {type: string}
    api_key: {type: string, airbyte_secret: true}
"""
LEAK = """
class Two:
    def __init__(self, config, parameters, **fields):
        self.config = config

    def read_records(self, records_schema, stream_slice=None):
        raise ValueError("refused: " + self.config["api_key"])
"""


def test_secrets_of_a_spec_beside_the_manifest_are_masked(cli: CommandLine, folder: Path) -> None:
    before, after = MANIFEST.index("spec:"), MANIFEST.index("streams:")
    (folder / "manifest.yaml").write_text(MANIFEST[:before] + MANIFEST[after:])
    (folder / "spec.yaml").write_text(SPEC_FILE)
    (folder / "components.py").write_text(LEAK)
    (folder / "bad.json").write_text('{"api_key": "hunter22"}')

    cut, refused = cli("read", *COMMAND, *CONFIG, "--allow-custom-code"), cli("read", *COMMAND, "--config", "bad.json")

    assert (cut.code, refused.code) == (1, 1)
    written = "\n".join([*cut.lines, cut.stderr])
    assert "refused: ****" in written
    assert "region" in "\n".join(refused.lines)
    assert "hunter22" not in "\n".join([written, *refused.lines, refused.stderr])


FAILING = """
class Two:
    def __init__(self, config, parameters, **fields):
        self.key = config["api_key"]

    def read_records(self, records_schema, stream_slice=None):
        return self.key / 0
"""


def test_an_unexpected_error_of_custom_code_names_its_line_and_leaves_a_crash_report(
    cli: CommandLine, folder: Path
) -> None:
    (folder / "components.py").write_text(FAILING)
    options = (*COMMAND, *CONFIG, "--allow-custom-code", "--crash-report")

    read = cli("read", *options, "crashes/read")
    synced = cli("sync", *options, "crashes/sync", "--target", "tables")

    assert (read.code, synced.code) == (1, 1)
    for written in ("\n".join(read.lines), synced.stderr):
        assert "the custom component Two.read_records raised TypeError" in written
        assert "components.py:7, in read_records)" in written
    texts = [report.read_text() for report in (folder / "crashes").rglob("*.txt")]
    assert len(texts) == 2
    assert all("in Two.read_records" in text and "hunter22" not in text for text in texts)


FAILS = """
version: 6.0.0
type: DeclarativeSource
check: {type: CheckStream, stream_names: [users]}
streams:
  - type: DeclarativeStream
    name: users
    primary_key: id
    schema_loader: {type: InlineSchemaLoader, schema: {type: object, properties: {id: {type: integer}}}}
    retriever:
      type: SimpleRetriever
      record_selector: {type: RecordSelector, extractor: {type: DpathExtractor, field_path: []}}
      requester:
        type: HttpRequester
        url_base: http://127.0.0.1:1
        path: "/users{{ config.region / 2 }}"
"""


@pytest.mark.parametrize("spark", ["never", pytest.param("always", marks=pytest.mark.spark)])
def test_an_expression_that_fails_on_what_it_meets_names_its_line(
    cli: CommandLine, folder: Path, spark: str, request: pytest.FixtureRequest
) -> None:
    if spark == "always":
        # One that the sync would start stays for the tests behind, with settings of its own.
        request.getfixturevalue("session")
    (folder / "manifest.yaml").write_text(FAILS)
    (folder / "pipeline.yaml").write_text(
        "name: it\nsource: {manifest: manifest.yaml, config: c.json}\ntarget: {path: tables}\n"
        f"spark: {{start: {spark}}}\n"
    )

    read = cli("read", *COMMAND, *CONFIG)
    synced = cli("sync", "pipeline.yaml")

    assert (read.code, synced.code) == (1, 1)
    for written in (read.stderr + "\n".join(read.lines), synced.stderr):
        assert re.search(
            r"manifest\.yaml:16: users: HttpRequester\.path: expression .*: the types are incompatible", written
        )


def test_a_check_of_a_stream_there_is_not_is_a_failed_check(cli: CommandLine, folder: Path) -> None:
    (folder / "manifest.yaml").write_text(MANIFEST.replace("stream_names: [users]", "stream_names: [user]"))

    ran = cli("check", *COMMAND, *CONFIG, "--allow-custom-code")

    (status,) = ran.of_type("CONNECTION_STATUS")
    assert ran.code == 0
    assert status["connectionStatus"]["status"] == "FAILED"
    assert "there is no stream 'user'" in status["connectionStatus"]["message"]
    assert "'users'" in status["connectionStatus"]["message"]


@pytest.mark.usefixtures("folder")
def test_a_manifest_says_its_spec(cli: CommandLine) -> None:
    ran = cli("spec", *COMMAND)

    (message,) = ran.messages
    assert ran.code == 0
    assert message["spec"]["connectionSpecification"]["required"] == ["region"]
    assert message["spec"]["documentationUrl"] == "https://example.com/docs"
    assert message["spec"]["advanced_auth"] == {"auth_flow_type": "oauth2.0"}


@pytest.mark.usefixtures("folder")
def test_code_of_a_manifest_runs_only_when_it_is_allowed(cli: CommandLine) -> None:
    refused = cli("read", *COMMAND, *CONFIG)
    allowed = cli("read", *COMMAND, *CONFIG, "--allow-custom-code")

    assert (refused.code, refused.of_type("RECORD")) == (1, [])
    assert "--allow-custom-code" in refused.messages[-1]["trace"]["error"]["message"]
    assert allowed.code == 0
    assert [message["record"]["data"]["id"] for message in allowed.of_type("RECORD")] == [1, 2]


@pytest.mark.parametrize("required", ["[region]", "[]"])
def test_a_default_of_the_spec_is_the_same_in_check_read_and_sync(
    cli: CommandLine, folder: Path, required: str
) -> None:
    default = MANIFEST.replace("region: {type: string}", "region: {type: string, default: eu}")
    (folder / "manifest.yaml").write_text(default.replace("required: [region]", f"required: {required}"))
    (folder / "c.json").write_text("{}")
    (folder / "pipeline.yaml").write_text(
        "name: it\nsource: {manifest: manifest.yaml, config: c.json}\ntarget: {path: tables}"
    )
    options = GivenOptions(
        manifest_path=folder / "manifest.yaml", config=folder / "c.json", target=str(folder / "given")
    )

    loaded = Pipeline.load(folder / "pipeline.yaml")
    by_program = loaded.model_copy(update={"target": TargetOptions(path=str(folder / "program"))})

    checked = cli("check", *COMMAND, *CONFIG, "--allow-custom-code")
    read = cli("read", *COMMAND, *CONFIG, "--allow-custom-code")
    syncs = [
        file_pipeline(folder / "pipeline.yaml", Secrets(), trusted=True),
        given_pipeline(options, Secrets(), trusted=True),
        (by_program, ManifestSource.load(folder / "manifest.yaml", custom=AirbyteCode())),
    ]
    synced = [SyncRunner(pipeline, source, workers=Workers(run_inline, 1)).run() for pipeline, source in syncs]

    assert [one["connectionStatus"]["status"] for one in checked.of_type("CONNECTION_STATUS")] == ["SUCCEEDED"]
    assert [message["record"]["data"]["region"] for message in read.of_type("RECORD")] == ["eu", "eu"]
    assert [one.ok for one in synced] == [True, True, True]
    for target in ("tables", "given", "program"):
        files = DeltaTable(str(folder / target / "users")).file_uris()
        assert pq.read_table(files)["region"].to_pylist() == ["eu", "eu"]
    assert (folder / "c.json").read_text() == "{}"


def test_the_code_of_a_manifest_may_lie_elsewhere(cli: CommandLine, folder: Path) -> None:
    (folder / "apart").mkdir()
    (folder / "components.py").rename(folder / "apart" / "mine.py")

    without = cli("read", *COMMAND, *CONFIG, "--allow-custom-code")
    ran = cli("read", *COMMAND, *CONFIG, "--allow-custom-code", "--components-path", "apart/mine.py")

    assert without.code == 1
    assert len(ran.of_type("RECORD")) == 2


@pytest.mark.usefixtures("folder")
def test_a_manifest_is_discovered_and_checked(cli: CommandLine) -> None:
    found = cli("discover", *COMMAND, *CONFIG, "--allow-custom-code")
    checked = cli("check", *COMMAND, *CONFIG, "--allow-custom-code")

    (stream,) = found.of_type("CATALOG")[0]["catalog"]["streams"]
    assert (stream["name"], stream["source_defined_primary_key"]) == ("users", [["id"]])
    assert stream["json_schema"] == {"type": "object", "properties": {"id": {"type": "integer"}}}
    assert checked.of_type("CONNECTION_STATUS")[0]["connectionStatus"] == {"status": "SUCCEEDED"}


def test_a_broken_manifest_names_its_line_and_the_exit_code_is_one(cli: CommandLine, folder: Path) -> None:
    (folder / "manifest.yaml").write_text(MANIFEST.replace("name: users", "nmae: users").replace("retriever:", "r:"))

    ran = cli("spec", *COMMAND)

    error = ran.messages[-1]["trace"]["error"]
    assert ran.code == 1
    assert error["failure_type"] == "config_error"
    assert "manifest.yaml:" in error["message"]
    assert "streams[0]" in error["message"]


@pytest.mark.usefixtures("folder")
def test_two_connectors_are_a_command_line_that_is_not_understood(cli: CommandLine) -> None:
    two, none = cli("spec", *COMMAND, "--connector", "x"), cli("spec")

    assert (two.code, none.code) == (2, 2)
    assert "pass one" in two.stderr
    assert "'--manifest-path'" in none.stderr


def test_an_old_config_is_saved_in_todays_form_before_it_is_used(cli: CommandLine, tmp_path: Path) -> None:
    site = Site(rules=RULES, requester={"url": "https://{{ config.host }}/items"})
    site.api.get("/items").returns(json={"data": [{"id": 1}]})
    file = tmp_path / "c.json"
    file.write_text('{"region": "Europe", "more": [1]}')
    file.chmod(0o600)

    ran = cli("read", *CONFIG, source=site.source)

    (control,) = ran.of_type("CONTROL")
    today = {"region": "eu", "more": [1]}
    assert ran.code == 0
    assert ran.messages[0] == control
    assert control["control"]["type"] == "CONNECTOR_CONFIG"
    assert control["control"]["connectorConfig"] == {"config": today}
    assert json.loads(file.read_text()) == today
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["c.json"]
    assert site.api.requests[0].url == "https://eu.test/items"


@pytest.mark.parametrize("command", ["check", "discover", "read"])
def test_a_config_of_today_is_left_as_it_is(cli: CommandLine, tmp_path: Path, command: str) -> None:
    site = Site(rules=RULES)
    site.api.get("/items").returns(json={"data": []})
    (tmp_path / "c.json").write_text('{"region":   "eu"}')

    ran = cli(command, *CONFIG, source=site.source)

    assert (ran.code, ran.of_type("CONTROL")) == (0, [])
    assert (tmp_path / "c.json").read_text() == '{"region":   "eu"}'


def test_a_config_in_yaml_keeps_its_comments_and_a_warning_says_so(cli: CommandLine, tmp_path: Path) -> None:
    site = Site(rules=RULES)
    site.api.get("/items").returns(json={"data": []})
    (tmp_path / "c.yaml").write_text("region: Europe # for now\n")

    ran = cli("check", "--config", "c.yaml", source=site.source)

    assert len(ran.of_type("CONTROL")) == 1
    assert (tmp_path / "c.yaml").read_text() == "region: Europe # for now\n"
    assert any("is not rewritten" in message["log"]["message"] for message in ran.of_type("LOG"))


def test_a_config_that_cannot_be_saved_is_told_all_the_same(tmp_path: Path) -> None:
    said: list[Any] = []

    class Kept:
        def write_message(self, message: Any) -> None:
            said.append(message.control.connector_config.config)

    ProtocolEvents(Kept(), tmp_path / "gone" / "c.json").config_changed({"a": 1})  # type: ignore[arg-type] # all it uses

    assert said == [{"a": 1}]


def test_a_rotated_refresh_token_is_saved_before_it_is_used(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    site = Site(requester={"authenticator": OAUTH}, rules=RULES)
    site.api.post("/token").returns(json={"access_token": "access-1", "refresh_token": "later-1", "expires_in": 3600})
    seen: list[tuple[str, str]] = []

    def answer(request: Request) -> Response:
        seen.append((request.headers["Authorization"], json.loads(file.read_text())["refresh"]))
        return Response(200, Headers(), b'{"data": []}', request.full_url, request)

    site.api.get("/items").answers(answer)
    file.write_text('{"id": "me", "secret": "s3cr3t-s3cr3t", "refresh": "first", "region": "eu"}')

    ran = cli("read", *CONFIG, source=site.source)

    kept = json.loads(file.read_text())
    assert ran.code == 0
    assert seen == [("Bearer access-1", "later-1")]
    assert kept["credentials"]["access"] == "access-1"
    # What the run adds to the config is not part of it.
    assert kept.keys() == {"id", "secret", "refresh", "region", "credentials"}
    assert ran.of_type("CONTROL")[-1]["control"]["connectorConfig"]["config"] == kept


def test_a_token_that_a_check_rotates_is_saved_without_what_only_the_check_uses(
    cli: CommandLine, tmp_path: Path
) -> None:
    check = {"type": "CheckStream", "stream_names": ["items"], "config_overrides": {"limit": 1}}
    site = Site(requester={"authenticator": OAUTH, "request_parameters": {"limit": "{{ config.limit }}"}}, check=check)
    site.api.post("/token").returns(json={"access_token": "access-1", "refresh_token": "later-1", "expires_in": 3600})
    site.api.get("/items", {"limit": "1"}).returns(json={"data": []})
    (tmp_path / "c.json").write_text('{"id": "me", "secret": "s3cr3t-s3cr3t", "refresh": "first"}')

    ran = cli("check", *CONFIG, source=site.source)

    kept = json.loads((tmp_path / "c.json").read_text())
    assert ran.of_type("CONNECTION_STATUS")[0]["connectionStatus"] == {"status": "SUCCEEDED"}
    assert kept.keys() == {"id", "secret", "refresh", "credentials"}
    assert kept["refresh"] == "later-1"


def test_a_learned_token_is_hidden_in_logs_and_errors(cli: CommandLine, tmp_path: Path) -> None:
    handler = {
        "type": "DefaultErrorHandler",
        "response_filters": [
            {
                "type": "HttpResponseFilter",
                "http_codes": [400],
                "action": "FAIL",
                "error_message": "no: {{ response.told }}",
            }
        ],
    }
    site = Site(requester={"authenticator": OAUTH, "error_handler": handler})
    site.api.post("/token").returns(json={"access_token": "access-1", "refresh_token": "later-1", "expires_in": 3600})
    site.api.get("/items").returns(status=400, json={"told": "access-1 and s3cr3t-s3cr3t"})
    (tmp_path / "c.json").write_text('{"id": "me", "secret": "s3cr3t-s3cr3t", "refresh": "first"}')

    ran = cli("read", *CONFIG, "--debug", source=site.source)

    said = [line for line in ran.lines if '"CONTROL"' not in line]
    assert ran.code == 1
    assert any("no: **** and ****" in line for line in said)
    assert not [line for line in said if "access-1" in line or "s3cr3t-s3cr3t" in line]


def test_an_api_that_asks_for_a_pause_is_told_as_a_status(cli: CommandLine, tmp_path: Path) -> None:
    site = Site()
    limited = site.api.get("/items").returns(status=429, headers={"Retry-After": "7"})
    limited.returns(json={"data": [{"id": 1}]})
    (tmp_path / "c.json").write_text("{}")

    ran = cli("read", *CONFIG, source=site.source)

    statuses = [message["trace"]["stream_status"] for message in ran.of_type("TRACE")]
    assert ran.code == 0
    assert [status["status"] for status in statuses] == ["STARTED", "RUNNING", "RUNNING", "COMPLETE"]
    (told,) = [status for status in statuses if status.get("reasons")]
    assert told["stream_descriptor"] == {"name": "items"}
    assert told["reasons"][0]["type"] == "RATE_LIMITED"
    assert told["reasons"][0]["rate_limited"]["quota_reset"] > 0
    assert site.time.slept == [7]


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (None, 10),
        ({"default_concurrency": 4}, 4),
        ({"default_concurrency": "{{ config.workers }}", "max_concurrency": 5}, 5),
        ({"default_concurrency": 0}, 1),
    ],
)
def test_a_manifest_says_how_many_slices_are_read_at_once(level: Any, expected: int) -> None:
    site = Site() if level is None else Site(concurrency_level={"type": "ConcurrencyLevel", **level})

    assert site.source.concurrency({"workers": 9}) == expected


def test_a_concurrency_that_is_no_number_is_refused() -> None:
    site = Site(concurrency_level={"type": "ConcurrencyLevel", "default_concurrency": "{{ config.workers }}"})

    with pytest.raises(ManifestError, match="expected an integer"):
        site.source.concurrency({"workers": "many"})


def test_a_sync_transforms_a_config_once(folder: Path) -> None:
    text = folder.joinpath("manifest.yaml").read_text()
    rules = {"transformations": [ADD_A_LETTER], "type": "ConfigNormalizationRules"}
    before, after = text.split("  advanced_auth:")
    (folder / "manifest.yaml").write_text(
        f"{before}  config_normalization_rules: {json.dumps(rules)}\n  advanced_auth:{after}"
    )
    (folder / "pipeline.yaml").write_text(
        "name: it\nsource: {manifest: manifest.yaml, config: c.json}\ntarget: {path: tables}"
    )

    pipeline, source = file_pipeline(folder / "pipeline.yaml", Secrets(), trusted=True)
    assert SyncRunner(pipeline, source, workers=Workers(run_inline, 1)).run().ok

    files = DeltaTable(str(folder / "tables" / "users")).file_uris()
    assert pq.read_table(files)["region"].to_pylist() == ["eux", "eux"]


def test_a_sync_saves_a_config_that_a_migration_changed(cli: CommandLine, folder: Path) -> None:
    before, after = folder.joinpath("manifest.yaml").read_text().split("  advanced_auth:")
    (folder / "manifest.yaml").write_text(
        f"{before}  config_normalization_rules: {json.dumps(RULES)}\n  advanced_auth:{after}"
    )
    (folder / "c.json").write_text('{"region": "Europe"}')
    (folder / "pipeline.yaml").write_text(
        "name: it\nsource: {manifest: manifest.yaml, config: c.json}\ntarget: {path: tables}"
    )

    assert cli("sync", "pipeline.yaml", "--dry-run", "--allow-custom-code").code == 0
    assert (folder / "c.json").read_text() == '{"region": "Europe"}'
    events = ConfigEvents(Secrets(), folder / "c.json")
    pipeline, _ = file_pipeline(folder / "pipeline.yaml", Secrets(), trusted=True, events=events)

    assert json.loads((folder / "c.json").read_text()) == {"region": "eu"}
    assert pipeline.config == {"region": "eu", "host": "eu.test"}


def test_a_program_that_syncs_a_wrong_config_is_told_of_every_place(folder: Path) -> None:
    (folder / "c.json").write_text('{"api_key": 5}')
    (folder / "pipeline.yaml").write_text(
        "name: it\nsource: {manifest: manifest.yaml, config: c.json}\ntarget: {path: tables}"
    )
    pipeline, source = Pipeline.load(folder / "pipeline.yaml"), ManifestSource.load(folder / "manifest.yaml")

    with pytest.raises(ConfigError) as raised:
        SyncRunner(pipeline, source)

    assert set(str(raised.value).splitlines()) == {
        "source.config: region: found nothing, expected a value",
        "source.config: api_key: found ****, expected a string",
    }
