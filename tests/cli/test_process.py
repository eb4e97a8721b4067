"""Whole processes: what only the operating system can show."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import USERS, at_terminal

PROTOCOL = ("spec", "check", "discover", "read")
EGRESS = {"cdk.rest", "cdk.rest.http", "cdk.rest.http.egress", "cdk.rest.http.own_connections"}
HEAVY = {"requests", "pyspark", "pyarrow", "rich", "jsonschema", "deltalake", "yaml", "jinja2"}

ENDLESS = """
from cdk import Page, PagedStream

class Endless(PagedStream):
    def read_page(self, slice, token):
        n = token["page"] if token else 0
        return Page([{"id": n, "text": "x" * 300}] * 500, {"page": n + 1})
"""


def start(path: Path, connector: str, *argv: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "cdk", *argv, "--connector", connector],
        cwd=path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_reader_that_has_seen_enough_ends_the_read_quietly(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)

    with start(tmp_path, "endless.py", "read") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        process.stdout.close()
        told = process.stderr.read()

    assert json.loads(first)["trace"]["stream_status"]["status"] == "STARTED"
    assert (process.returncode, told) == (1, b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_read_that_is_stopped_leaves_whole_lines_and_the_state_of_what_it_wrote(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)

    with start(tmp_path, "endless.py", "read") as process:
        assert process.stdout is not None
        head = [process.stdout.readline() for _ in range(1200)]
        process.send_signal(number)
        rest = process.stdout.read()

    lines = b"".join(head) + rest
    assert process.returncode == 128 + number
    assert lines.endswith(b"\n")
    messages = [json.loads(line) for line in lines.splitlines()]
    reached = [m["state"]["stream"]["stream_state"]["page"] for m in messages if m["type"] == "STATE"][-1]
    written = {m["record"]["data"]["id"] for m in messages if m["type"] == "RECORD"}
    assert written - set(range(reached)) <= {reached}


@pytest.mark.parametrize("command", ["--help", *(f"{name} --connector users.py" for name in PROTOCOL)])
def test_commands_of_the_protocol_load_nothing_they_do_not_need(tmp_path: Path, command: str) -> None:
    (tmp_path / "users.py").write_text(USERS)
    timed = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "cdk", *command.split()],
        cwd=tmp_path,
        capture_output=True,
        check=True,
        text=True,
    ).stderr

    loaded = {line.rsplit("|", 1)[-1].strip() for line in timed.splitlines()}
    assert {name.partition(".")[0] for name in loaded}.isdisjoint(HEAVY)
    layers = ("cdk.spark", "cdk.sync", "cdk.rest", "cdk.declarative", "cdk.compat")
    assert {name for name in loaded if name.startswith(layers)} <= EGRESS


@pytest.mark.skipif(not Path("/dev/ptmx").exists(), reason="needs a pseudo-terminal")
def test_a_person_at_a_terminal_sees_how_the_read_goes(tmp_path: Path) -> None:
    (tmp_path / "users.py").write_text(USERS)
    printed, shown = at_terminal(tmp_path, "read", "--connector", "users.py")

    assert "users" in shown
    assert "complete" in shown
    assert all(json.loads(line) for line in printed.splitlines())
