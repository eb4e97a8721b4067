"""Syncs through a Spark Connect server. Clients are processes of their own: pyspark is of one kind in a process."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from cdk.base.errors import ConfigError
from cdk.spark.cluster.session import connect
from connectors.shop.api import serving
from connectors.shop.backend import Backend
from tests.docs.page import BLOCK, ENVIRONMENT, FILE, WRITTEN, says
from tests.spark.connect_server import ADDRESS, connect_server, section
from tests.spark.held_page import holding

pytestmark = pytest.mark.spark

TIMEOUT = 240.0
"""Seconds that a client may take on a machine that has much else to do."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address


def run(command: str, folder: Path) -> str:
    """What a command says. Raises AssertionError: it fails."""
    answer = subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    assert answer.returncode == 0, answer.stdout
    return answer.stdout


def test_the_page_about_spark_connect_does_what_it_says(server: str, tmp_path: Path) -> None:
    played = []
    with serving(Backend()) as address:
        for kind, text in BLOCK.findall(section()):
            block = text.replace(ADDRESS, server).replace(WRITTEN, address)
            if header := FILE.match(block):
                (tmp_path / header[1]).write_text(block)
            elif kind == "console" and "pip install" not in block and "SparkConnectServer" not in block:
                command, _, output = block.removeprefix("$ ").partition("\n")
                said = run(command, tmp_path)
                assert says(said, output), said
                played.append(command)

    assert played == ["spark-cdk sync remote.yaml", "python remote.py"]


CONNECTOR = """
from pathlib import Path

from cdk import Page, PagedStream, Partition
from reading.numbers import rows

ANSWERS = Path({answers!r})
SCHEMA = {{"type": "object", "properties": {{"n": {{"type": "integer"}}, "kit": {{"type": "string"}}}}}}


class Counted(PagedStream):
    primary_key = "n"
    schema = SCHEMA

    def partitions(self):
        return [Partition.of(part=0), Partition.of(part=1)]

    def read_page(self, slice, token):
        page = (token or {{}}).get("page", 0)
        with (ANSWERS / "asked").open("a") as asked:
            asked.write(f"{{self.name}} {{slice.partition['part']}} {{page}}\\n")
        if page == 2 and slice.partition["part"] and (ANSWERS / "broken").exists():
            raise RuntimeError("the source is broken")
        return Page(rows(10 * slice.partition["part"] + page), {{"page": page + 1}} if page < 4 else None)


class Numbers(Counted):
    pass


class Keyed(Counted):
    pass


class Replaced(Counted):
    pass
"""
NEIGHBOUR = """
import cdk

def rows(page):
    return [{"n": 10 * page + n, "kit": cdk.__file__} for n in range(10)]
"""
PIPELINE = """
name: numbers
source: {{connector: numbers_of.py}}
target: {{path: tables}}
streams:
  numbers: {{write_mode: append}}
  keyed: {{write_mode: append_dedup}}
  replaced: {{write_mode: overwrite}}
spark: {{master: "{server}/;user_id=hunter2", conf: {{spark.sql.shuffle.partitions: 3}}}}
"""
PROGRAM = """
import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from pyspark.sql.connect.session import SparkSession as RemoteSession

from cdk.base.errors import CdkError
from cdk.sources.discovery import find_source
from cdk.spark import Pipeline, SyncRunner
from cdk.spark.cluster.driver import driver_of
from cdk.sync.settings.pipeline_file import SparkOptions
from cdk.spark.cluster.session import open_session
from cdk.spark.cluster.executors import on_executors

folder, server = Path(sys.argv[1]), sys.argv[2]
said, tags, add_tag = {}, set(), RemoteSession.addTag


def noted(self, tag):
    tags.add(tag)  # tasks are submitted from threads of their own, and tags are of a thread
    add_tag(self, tag)


RemoteSession.addTag = noted


def sync(name):
    tags.clear()
    result = SyncRunner(Pipeline.load(folder / "pipeline.yaml"), find_source("numbers_of.py")).run()
    failures = {report.name: report.failure and report.failure.message for report in result.streams}
    said[name] = {"tags": sorted(tags), "failures": failures, "report": json.dumps(result.to_json())}


def error(work):
    try:
        work()
    except CdkError as error:
        return [type(error).__name__, str(error), str(error.detail)]


sync("cut")
(folder / "broken").unlink()
sync("resumed")
said["asked"] = (folder / "asked").read_text().splitlines()
session = SparkSession.getActiveSession()
said["tags"] = sorted(session.getTags())
said["partitions"] = session.conf.get("spark.sql.shuffle.partitions")
said["tasks"] = driver_of(session).task_count
said["sent"] = session.conf.get("spark.cdk.sent").split()

said["of a task"] = error(lambda: on_executors(driver_of(session), lambda n: 1 // n, [1, 0]))
code = folder / "reading" / "numbers.py"
code.write_text(code.read_text() + "CHANGED = True\\n")
said["of changed code"] = error(lambda: sync("changed"))

session.stop()
for name, conf in {
    "of a machine's setting": {"spark.executor.memory": "2g"},
    "of a variable": {"spark.executorEnv.GIVEN": "something else"},
    "of the server's variable": {"spark.executorEnv.GIVEN": "to the server"},
}.items():
    said[name] = error(lambda: open_session("other", SparkOptions(master=server, conf=conf), folder / "log"))
    SparkSession.getActiveSession().stop()
said["of a session that was stopped"] = error(lambda: on_executors(driver_of(session), abs, [1]))
(folder / "said.json").write_text(json.dumps(said))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("client")


@pytest.fixture(scope="module")
def said(server: str, folder: Path) -> Mapping[str, Any]:
    """What a program saw that synced twice in one session, with a source that was broken at first."""
    (folder / "reading").mkdir()
    (folder / "reading" / "numbers.py").write_text(NEIGHBOUR)
    (folder / "numbers_of.py").write_text(CONNECTOR.format(answers=str(folder)))
    (folder / "pipeline.yaml").write_text(PIPELINE.format(server=server))
    (folder / "program.py").write_text(PROGRAM)
    (folder / "broken").touch()
    run(f"{sys.executable} -W error program.py {folder} {server}", folder)
    return json.loads((folder / "said.json").read_text())  # type: ignore[no-any-return]


def rows(folder: Path, stream: str, column: str) -> list[Any]:
    table = pq.read_table(DeltaTable(str(folder / "tables" / stream)).file_uris())
    return table[column].to_pylist()  # type: ignore[no-any-return]


def test_a_sync_that_was_cut_goes_on_and_has_each_row_once(said: Mapping[str, Any], folder: Path) -> None:
    every = [100 * part + n for part in range(2) for n in range(50)]

    assert set(said["cut"]["failures"]) == {"numbers", "keyed", "replaced"}
    assert all("the source is broken" in failure for failure in said["cut"]["failures"].values())
    assert said["resumed"]["failures"] == dict.fromkeys(("numbers", "keyed", "replaced"))
    for stream in ("numbers", "keyed", "replaced"):
        assert sorted(rows(folder, stream, "n")) == every
        assert said["asked"].count(f"{stream} 0 4") == 1


def test_tasks_run_the_code_that_was_sent(said: Mapping[str, Any], folder: Path) -> None:
    assert [name.rpartition("-")[0] for name in said["sent"]] == ["cdk-1", "beside_numbers_of-1"]
    assert all(f"{said['sent'][0]}/cdk/" in kit for kit in rows(folder, "numbers", "kit"))


def test_the_number_of_tasks_is_the_servers(said: Mapping[str, Any]) -> None:
    assert said["tasks"] == 2


def test_jobs_are_tagged_and_the_tag_is_taken_back(said: Mapping[str, Any]) -> None:
    *names, group = said["cut"]["tags"]
    assert {stream for name in names for stream in name.removeprefix("numbers: ").split("; ")} == {
        "numbers",
        "keyed",
        "replaced",
    }
    assert group.startswith("spark-cdk-")
    assert said["tags"] == []


def test_a_report_names_the_server_and_none_of_the_parameters(said: Mapping[str, Any]) -> None:
    assert json.loads(said["resumed"]["report"])["spark"]["master"] == "sc://127.0.0.1"
    assert "hunter2" not in json.dumps(said)


def test_a_task_that_fails_is_a_transient_error(said: Mapping[str, Any]) -> None:
    kind, message, detail = said["of a task"]

    assert (kind, "(PythonException)" in message) == ("ClusterLost", True)
    assert "ZeroDivisionError" in detail


def test_a_session_that_is_gone_is_a_transient_error(said: Mapping[str, Any]) -> None:
    assert said["of a session that was stopped"][0] == "ClusterLost"


def test_changed_code_is_refused_in_a_session_whose_workers_have_the_older(said: Mapping[str, Any]) -> None:
    kind, message, _ = said["of changed code"]

    assert kind == "ConfigError"
    assert "found other code of 'beside_numbers_of'" in message


def test_settings_of_queries_hold_and_those_of_machines_must_be_the_servers(said: Mapping[str, Any]) -> None:
    assert said["partitions"] == "3"
    assert said["of a machine's setting"][0] == "ConfigError"
    assert "spark.executor.memory cannot be set" in said["of a machine's setting"][1]
    assert "spark.executorEnv.GIVEN cannot be set" in said["of a variable"][1]
    assert said["of the server's variable"] is None


def test_an_address_where_nobody_answers_is_said_without_its_parameters() -> None:
    with pytest.raises(ConfigError, match=r"at sc://127.0.0.1:1: no response for 0.2 seconds") as refused:
        connect("nobody", "sc://127.0.0.1:1/;user_id=hunter2", {}, timeout_seconds=0.2)

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        "sc://",
        "sc://here:1/path/;token=hunter2",
        "sc://here:1/;token:hunter2",
        "sc://here:1;token=hunter2",
        "sc://me:hunter2@here:x",
    ],
)
def test_an_address_that_is_none_is_said_without_its_parameters(address: str) -> None:
    with pytest.raises(ConfigError, match="expected sc://HOST:PORT") as refused:
        connect("nobody", address, {})

    assert "hunter2" not in str(refused.value)


WAITING = """
from urllib.request import urlopen

from cdk import Page, PagedStream


class Numbers(PagedStream):
    schema = {{"type": "object", "properties": {{"n": {{"type": "integer"}}}}}}

    def read_page(self, slice, token):
        page = (token or {{}}).get("page", 0)
        urlopen(f"{address}/{{page}}").close()
        return Page([{{"n": page}}], {{"page": page + 1}} if page < 4 else None)
"""
WAITING_PIPELINE = """
name: waiting
source: {{connector: waiting.py}}
target: {{path: tables}}
streams: {{numbers: {{write_mode: append}}}}
spark: {{master: "{server}"}}
"""


# Whoever runs the tests in the background has their children ignore Ctrl-C.
AT_A_TERMINAL = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from cdk.__main__ import main
main()
"""


def test_ctrl_c_ends_the_sync_and_its_tasks_on_the_server(server: str, tmp_path: Path) -> None:
    with holding("/2") as held:
        (tmp_path / "waiting.py").write_text(WAITING.format(address=held.address))
        (tmp_path / "pipeline.yaml").write_text(WAITING_PIPELINE.format(server=server))
        command = [sys.executable, "-c", AT_A_TERMINAL, "sync", "pipeline.yaml"]
        with subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as sync:
            try:
                assert held.asked.wait(TIMEOUT)
                sync.send_signal(signal.SIGINT)
                assert sync.stderr is not None
                assert any("a second signal ends it at once" in line for line in sync.stderr)
                sync.send_signal(signal.SIGINT)
                said = sync.communicate(timeout=TIMEOUT)[1]
            finally:
                sync.kill()

        assert (sync.returncode, "interrupted; what was committed is safe" in said) == (130, True), said
        # The task waits for the API until the server kills it.
        assert held.gone.wait(TIMEOUT)
