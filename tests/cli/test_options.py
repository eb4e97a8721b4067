"""The options that commands share."""

import json
import socket
from pathlib import Path

import pytest

from cdk.rest.http.egress import process_egress
from tests.cli.conftest import CommandLine

MANIFEST = """
version: 6.0.0
type: DeclarativeSource
check: {type: CheckStream, stream_names: [users]}
streams:
  - type: DeclarativeStream
    name: users
    retriever:
      type: SimpleRetriever
      requester: {type: HttpRequester, url_base: "{{ config['base'] }}", path: /users, request_parameters: {q: private}}
      record_selector: {type: RecordSelector, extractor: {type: DpathExtractor, field_path: [data]}}
"""

BESIDE = """
import requests
from cdk import Page, PagedStream


class Users(PagedStream):
    def read_page(self, slice, token):
        return Page(requests.get("http://HOST/", timeout=9).json())
"""

# The workers of a session that another test has begun know nothing of the option.
PIPELINE = """
name: beside
source: {connector: beside.py}
target: {path: tables}
spark: {start: never}
"""


@pytest.fixture
def listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


@pytest.mark.parametrize("command", ["check", "read"])
def test_a_request_to_where_none_may_go_ends_the_command(
    cli: CommandLine, tmp_path: Path, command: str, listening: socket.socket
) -> None:
    (tmp_path / "manifest.yaml").write_text(MANIFEST)
    with listening:
        host = f"127.0.0.1:{listening.getsockname()[1]}"
        (tmp_path / "config.json").write_text(json.dumps({"base": f"http://{host}"}))
        ran = cli(command, "--manifest-path", "manifest.yaml", "--config", "config.json", "--egress", "public")
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()

    said = "\n".join(ran.lines)
    assert f"no request may go to {host} with --egress public" in said
    assert "private" not in said
    assert ran.code == (0 if command == "check" else 1)
    assert process_egress() is None


def test_a_list_of_hosts_that_means_nothing_is_a_command_line_that_is_not_understood(cli: CommandLine) -> None:
    ran = cli("read", "--connector", "shop", "--egress", "http://example.com")

    assert ran.code == 2
    assert "expected `public`, hosts" in ran.stderr


def test_what_a_connector_connects_to_itself_ends_the_command_too(
    cli: CommandLine, tmp_path: Path, listening: socket.socket
) -> None:
    with listening:
        host = f"127.0.0.1:{listening.getsockname()[1]}"
        (tmp_path / "beside.py").write_text(BESIDE.replace("HOST", host))
        ran = cli("read", "--connector", "beside.py", "--egress", "public")
        (tmp_path / "pipeline.yaml").write_text(PIPELINE)
        synced = cli("sync", "pipeline.yaml", "--egress", "public", "--quiet")
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()

    refused = (
        f"no request may go to {host} with --egress public: the address is not public; if that host is right, add it"
    )
    assert f"{refused} there ({tmp_path}/beside.py:8, in read_page)" in "\n".join(ran.lines)
    assert f"{refused} there ({tmp_path}/beside.py:8, in read_page)" in synced.stderr
    assert (ran.code, synced.code) == (1, 1)
