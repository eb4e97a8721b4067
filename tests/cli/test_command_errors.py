"""Connectors whose own code raises before anything is read, with a secret in what they say."""

import json
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from textwrap import dedent

import pytest

from tests.cli.conftest import CommandLine, at_terminal

SECRET = "s3cr3t/of the shop"
CONNECTOR = dedent("""
    import base64
    from cdk import Page, PagedStream, Source

    def fail(config):
        key = config["api_key"]
        raise ValueError(f"cannot use {key} nor {base64.b64encode(key.encode()).decode()}")

    class Users(PagedStream):
        def __init__(self, config=None):
            super().__init__(config)
            if config["where"] == "stream":
                fail(config)

        def read_page(self, slice, token):
            return Page([{"id": 1}], None)

    class Shop(Source):
        stream_classes = [Users]
        config_schema = {"type": "object", "properties": {"api_key": {"type": "string", "airbyte_secret": True}}}

        def prepare(self, config):
            if config["where"] == "prepare":
                fail(config)
            return config

        def streams(self, config):
            if config["where"] == "streams":
                fail(config)
            return super().streams(config)
""")
COMMANDS = {
    "sync": ("sync", "pipeline.yaml"),
    "dry run": ("sync", "pipeline.yaml", "--dry-run"),
    "check": ("check", "--connector", "shop.py", "--config", "config.json"),
    "discover": ("discover", "--connector", "shop.py", "--config", "config.json"),
    "read": ("read", "--connector", "shop.py", "--config", "config.json", "--catalog", "catalog.json"),
    "state": ("state", "show", "pipeline.yaml"),
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(CONNECTOR)
    stream = {"name": "users", "json_schema": {}, "supported_sync_modes": ["full_refresh"]}
    configured = {"stream": stream, "sync_mode": "full_refresh", "destination_sync_mode": "append"}
    (tmp_path / "catalog.json").write_text(json.dumps({"streams": [configured]}))


@pytest.mark.parametrize("where", ["prepare", "streams", "stream"])
@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_connector_raises_is_told_without_secrets(
    cli: CommandLine, tmp_path: Path, command: str, where: str
) -> None:
    config = {"api_key": SECRET, "where": where}
    (tmp_path / "config.json").write_text(json.dumps(config))
    pipeline = {"name": "shop", "source": {"connector": "shop.py", "config": config}, "target": {"path": "tables"}}
    (tmp_path / "pipeline.yaml").write_text(json.dumps(pipeline))

    ran = cli(*COMMANDS[command])

    shown = "\n".join([*ran.lines, ran.stderr])
    assert SECRET not in shown
    assert b64encode(SECRET.encode()).decode()[:20] not in shown
    if command != "state":
        assert ran.code == 1
        assert "cannot use **** nor ****" in shown
        assert "ValueError" in shown
        assert "line 7, in fail" in shown


def test_passwords_in_addresses_are_told_to_nobody(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"api_key": "k", "where": ""}')
    storage = {
        "AWS_ENDPOINT_URL": "http://me:pass%2Fw0rd@127.0.0.1:9",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "an-id-of-a-key",
        "AWS_SECRET_ACCESS_KEY": "a-secret-key",
    }
    target = {"path": "s3://bucket/tables", "storage": storage}
    pipeline = {"name": "shop", "source": {"connector": "shop.py", "config": "config.json"}, "target": target}
    (tmp_path / "pipeline.yaml").write_text(json.dumps(pipeline))

    ran = cli("state", "show", "pipeline.yaml")

    shown = "\n".join([*ran.lines, ran.stderr])
    assert ran.code == 1
    assert "pass%2Fw0rd" not in shown
    assert "pass/w0rd" not in shown


@pytest.mark.parametrize("command", ["plan", "tables"])
def test_who_reads_the_output_may_have_enough(tmp_path: Path, command: str) -> None:
    """More is written than a pipe holds, so that the command meets the end of its reader."""
    (tmp_path / "many.py").write_text(
        dedent("""
            from cdk import Source, Stream

            class Shop(Source):
                def streams(self, config):
                    return [type(f"S{n}", (Stream,), {"read_records": lambda self, slice: []})() for n in range(1000)]
        """)
    )
    streams = ", ".join(f"s{n}" for n in range(1000))
    (tmp_path / "pipeline.yaml").write_text(
        f"name: shop\nsource: {{connector: many.py}}\ntarget: {{path: tables}}\nstreams: [{streams}]\n"
    )
    (tmp_path / "tables").mkdir()
    code = f"import sys; from cdk.cli.app import run; sys.exit(run(['{command}', 'pipeline.yaml']))"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()

    assert (process.returncode, said) == (0, "")


DOWN = dedent("""
    from datetime import timedelta
    from cdk.rest import Backoff, HttpErrorHandler, RestSource, RetryPolicy, resource

    at_once = HttpErrorHandler(retry_policy=RetryPolicy(retries=2, backoff=Backoff(first=timedelta())))
    source = RestSource("http://127.0.0.1:1", resource("users", "/users"), error_handler=at_once)
""")


def test_a_person_is_told_of_each_wait_for_a_server_that_is_down(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "down.py").write_text(DOWN)

    ran = cli("preview", "users", "--connector", "down.py")

    told = [line for line in ran.stderr.splitlines() if "to try again" in line]
    assert [line.rpartition(";")[2] for line in told] == [
        f" waiting 0.0 s to try again, after attempt {attempt}" for attempt in (1, 2)
    ]
    assert all(line.startswith("GET http://127.0.0.1:1/users: the connection failed") for line in told)


@pytest.mark.skipif(not Path("/dev/ptmx").exists(), reason="needs a pseudo-terminal")
@pytest.mark.parametrize("command", ["check", "read", "discover --infer"])
def test_who_writes_the_log_to_a_file_is_told_of_waits_at_the_terminal(tmp_path: Path, command: str) -> None:
    (tmp_path / "down.py").write_text(DOWN)
    (tmp_path / "config.json").write_text("{}")

    _, shown = at_terminal(tmp_path, *command.split(), "--connector", "down.py", "--config", "config.json")

    assert shown.count("to try again") == 2


def test_an_error_of_a_stream_without_slices_is_logged_once(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "refused.py").write_text(
        "from cdk import FatalError, PagedStream\n"
        "class Users(PagedStream):\n"
        "    def read_page(self, slice, token):\n"
        "        raise FatalError('no such page')\n"
    )

    logged = cli("discover", "--connector", "refused.py", "--infer").of_type("LOG")

    assert [line["log"]["message"] for line in logged] == [
        "users: its records cannot be read, so its schema is as declared: no such page"
    ]
