import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from cdk.testing import Cassette
from cdk.testing.cassettes.interactions import Recording, save
from cdk.testing.cassettes.recording import record
from connectors.shop.api import serving
from connectors.shop.backend import Backend, Sizes
from connectors.shop.source import Shop
from tests.cli.conftest import CommandLine

LOSING = """
from cdk import Checkpoint, Page, Source, Stream


class Losing(Stream):
    cursor_field = "at"
    supports_checkpointing = True
    schema = {"type": "object", "properties": {"at": {"type": "integer"}}}

    def read_records(self, slice):
        for at in range((slice.start.cursor or {"at": 0})["at"], 3):
            yield Checkpoint({"at": at + 1})
            yield {"at": at}
"""


def test_a_connector_is_proved_on_its_cassette_alone(cli: CommandLine, tmp_path: Path) -> None:
    with serving(Backend(Sizes(products=60, orders=0, customers=1, visits=21))) as address:
        save(tmp_path / "shop.yaml", record(Shop(), {"base_url": address}, streams=["products", "visits"]))

    proven = cli(
        *("prove", "--connector", "shop", "--cassette", "shop.yaml", "--stream", "products", "--stream", "visits"),
        *("--at-commits", "1", "--at-random", "1", "--json", "--badge", "badge.svg"),
    )

    assert proven.code == 0, proven.stderr
    proof = json.loads("".join(proven.lines))
    assert proof["format"] == "spark-cdk-prove/1"
    assert proof["rows"] == {"products": 60, "visits": 21}
    assert [kill["point"].partition(":")[0] for kill in proof["kills"]] == ["before_state_blob", "random"]
    assert all(kill["receipts"] > 1 for kill in proof["kills"])
    assert "2 kills, 81 rows" in ET.parse(tmp_path / "badge.svg").getroot().attrib["aria-label"]  # noqa: S314 - our own


DEFAULTED = """
from cdk import Page, PagedStream, Source


class Rows(PagedStream):
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}

    def __init__(self, config):
        super().__init__(config)
        self.size = config["size"]

    def read_page(self, slice, token):
        first = 0 if token is None else token["first"]
        following = first + self.size
        return Page([{"id": first}], {"first": following} if following < 3 else None)


class Defaulted(Source):
    stream_classes = [Rows]
    config_schema = {"type": "object", "properties": {"size": {"type": "integer", "default": 1}}}
"""


def test_a_proof_reads_with_the_defaults_of_the_spec(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "defaulted.py").write_text(DEFAULTED)

    proven = cli("prove", "--connector", "defaulted.py", "--at-commits", "1", "--at-random", "0", "--json")

    assert proven.code == 0, proven.stderr
    assert json.loads("".join(proven.lines))["rows"] == {"rows": 3}


CLOCKED = """
from datetime import datetime
from cdk import Source, Stream


class Clocked(Stream):
    primary_key = "id"
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "read_at": {"type": "string"}}}

    def read_records(self, slice):
        yield from ({"id": n, "read_at": datetime.now().isoformat()} for n in range(20))


class Clock(Source):
    stream_classes = [Clocked]
"""


def test_a_field_that_is_another_with_each_read_is_named(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "clocked.py").write_text(CLOCKED)

    broken = cli("prove", "--connector", "clocked.py", "--at-commits", "1", "--at-random", "0")

    assert broken.code == 1
    assert broken.lines[0].startswith("with a commit after each page: clocked: 20 of 20 rows changed, in read_at: ")
    assert not any("lost" in line for line in broken.lines[:-1])


def test_what_loses_rows_ends_with_exit_code_1_and_says_where(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "losing.py").write_text(LOSING)

    broken = cli("prove", "--connector", "losing.py", "--at-commits", "1", "--at-random", "0", "--badge", "badge.svg")

    assert broken.code == 1
    assert any(line.startswith("with a commit after each page: losing: 3 of 3 rows lost") for line in broken.lines)
    assert ": NOT PROVEN; see the warnings above" in broken.lines[-1]
    (warning,) = [line for line in broken.lines if line.startswith("warning: ")]
    assert "losing: a record with 0 in 'at' came after a state with 1" in warning
    assert "crash-proof: broken" in (tmp_path / "badge.svg").read_text()


QUIET = """
from cdk import Checkpoint, Page, Source, Stream


class Quiet(Stream):
    primary_key = "id"
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    size = 0
    warning = ""

    def read_records(self, slice):
        yield Page([{"id": n} for n in range(self.size)], None, warning=self.warning)


class Source_(Source):
    stream_classes = [Quiet]
"""


def test_a_proof_without_a_row_is_none(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "quiet.py").write_text(QUIET)

    empty = cli("prove", "--connector", "quiet.py", "--at-commits", "1", "--at-random", "0", "--badge", "badge.svg")

    assert empty.code == 1
    assert "found no row in an undisturbed sync, expected some: there is nothing that could be lost" in empty.lines
    assert "crash-proof: no rows" in (tmp_path / "badge.svg").read_text()


def test_a_proof_with_warnings_has_a_badge_that_says_so(cli: CommandLine, tmp_path: Path) -> None:
    text = QUIET.replace("size = 0", "size = 2").replace('warning = ""', 'warning = "there may be more"')
    (tmp_path / "warning.py").write_text(text)

    proven = cli("prove", "--connector", "warning.py", "--at-commits", "1", "--at-random", "0", "--badge", "badge.svg")

    assert proven.code == 0, proven.lines
    badge = (tmp_path / "badge.svg").read_text()
    assert "crash-proof: 1 kills, 2 rows, with warnings" in badge
    assert "#b26a00" in badge


SECRETIVE = """
from cdk import Source, Stream


class Secretive(Stream):
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}

    def read_records(self, slice):
        raise ValueError("no answer to " + self.config["token"])
        yield


class Secrets(Source):
    stream_classes = [Secretive]
    config_schema = {"type": "object", "properties": {"token": {"type": "string", "airbyte_secret": True}}}
"""


def test_what_a_sync_fails_with_is_shown_without_secrets(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "secretive.py").write_text(SECRETIVE)
    (tmp_path / "config.json").write_text('{"token": "s3cr3t-of-mine"}')
    save(tmp_path / "empty.yaml", Recording([], {"token": "****"}, Cassette(Recording([])).clock()))

    command = ("prove", "--connector", "secretive.py", "--config", "config.json", "--cassette", "empty.yaml")
    failed = subprocess.run(
        [sys.executable, "-m", "cdk", *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert failed.returncode == 1
    assert "no answer to ****" in failed.stderr
    assert "s3cr3t-of-mine" not in failed.stderr + failed.stdout
    assert "did you mean 'secretive'" in cli(*command, "--stream", "secretives").stderr


LOUD = """
import logging
import os
import sys
from cdk import Source, Stream


class Loud(Stream):
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}

    def read_records(self, slice):
        print("printed " + self.config["token"])
        logging.getLogger("loud").warning("logged " + self.config["token"])
        os.write(2, b"written " + self.config["token"].encode())
        if self.config.get("dies"):
            os._exit(3)
        yield {"id": 1}


class Secrets(Source):
    stream_classes = [Loud]
    config_schema = {"type": "object", "properties": {"token": {"type": "string", "airbyte_secret": True}}}
"""


@pytest.mark.parametrize("dies", [False, True])
def test_what_a_process_says_is_shown_without_secrets_if_at_all(tmp_path: Path, *, dies: bool) -> None:
    (tmp_path / "loud.py").write_text(LOUD)
    (tmp_path / "config.json").write_text(json.dumps({"token": "s3cr3t-of-mine", "dies": dies}))
    save(tmp_path / "empty.yaml", Recording([], {"token": "****"}, Cassette(Recording([])).clock()))

    command = ("prove", "--connector", "loud.py", "--config", "config.json", "--cassette", "empty.yaml")
    ended = subprocess.run(
        [sys.executable, "-m", "cdk", *command, "--at-commits", "1", "--at-random", "0"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "s3cr3t-of-mine" not in ended.stderr + ended.stdout
    assert ended.returncode == dies, ended.stderr
    assert ("exit code 3\nprinted ****\nlogged ****\nwritten ****" in ended.stderr) == dies


def test_a_request_that_is_not_recorded_is_no_proof(cli: CommandLine, tmp_path: Path) -> None:
    save(tmp_path / "empty.yaml", Recording([], {"base_url": "http://127.0.0.1:1"}, Cassette(Recording([])).clock()))

    ended = cli("prove", "--connector", "shop", "--cassette", "empty.yaml", "--stream", "products")

    assert ended.code == 1
    assert "products?page=1 is not in the cassette" in ended.stderr


BESIDE = """
import requests

from cdk import Stream


class Beside(Stream):
    primary_key = "id"
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}

    def read_records(self, slice):
        yield from ({"id": row["id"]} for row in requests.get("URL/products", timeout=9).json()["products"])
"""


def test_a_proof_whose_requests_do_not_go_through_the_kit_says_that_each_sync_sends_them(
    cli: CommandLine, tmp_path: Path
) -> None:
    with serving(Backend(Sizes(products=9, orders=0, customers=0, visits=0))) as address:
        (tmp_path / "beside.py").write_text(BESIDE.replace("URL", address))
        command = ("prove", "--connector", "beside.py", "--at-commits", "1", "--at-random", "0")
        proven = cli(*command)
        simulated = cli(*command, "--simulate")

    assert proven.code == 0, proven.stderr
    notes = [line for line in proven.lines if line.startswith("note: ")]
    assert len(notes) == 1
    assert "no request went through the kit, so each of these syncs reads the source itself" in notes[0]
    assert "beside.py:12, in read_records)" in notes[0]
    assert simulated.code == 1
    assert "that the kit does not open" in simulated.stderr
