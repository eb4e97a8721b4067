"""Syncs that signals and limits end early: real processes, real signals."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Event

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from cdk.cli.sync.signals import exit_code
from cdk.sync.reports.run_report import RunFacts, SyncResult
from cdk.sync.reports.stream_report import Status, StreamReport
from tests.cli.conftest import CommandLine
from tests.local_server import QuietHandler, answering

TIMEOUT = 120
ROOT = Path(__file__).parents[3]

CONNECTOR = """
from urllib.request import urlopen

from cdk import Page, PagedStream


class Numbers(PagedStream):
    schema = {{"type": "object", "properties": {{"n": {{"type": "integer"}}}}}}

    def read_page(self, slice, token):
        page = (token or {{}}).get("page", 0)
        urlopen(f"{address}/{{page}}").close()
        return Page([{{"n": page}}], {{"page": page + 1}} if page < 5 else None)
"""
CLIENT = """
from cdk import Page, PagedStream
from cdk.rest import HttpClient, Request, HttpTransport

CLIENT = HttpClient(HttpTransport())


class Numbers(PagedStream):
    schema = {{"type": "object", "properties": {{"n": {{"type": "integer"}}}}}}

    def read_page(self, slice, token):
        page = (token or {{}}).get("page", 0)
        CLIENT.send(Request("GET", f"{address}/{{page}}"))
        return Page([{{"n": page}}], {{"page": page + 1}} if page < 5 else None)
"""
PIPELINE = """
name: numbers
source: {connector: numbers_api.py}
target: {path: tables}
streams: {numbers: {write_mode: WRITE_MODE}}
spark: {start: START}
"""
# Whoever runs the tests in the background has their children ignore Ctrl-C.
AT_A_TERMINAL = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from cdk.__main__ import main
main()
"""


@dataclass
class Api:
    """Pages, one of which waits. asked: it was requested. go_on: it is answered. busy: it says to come later."""

    address: str = ""
    held: str = "/2"
    busy: bool = False
    asked: Event = field(default_factory=Event)
    go_on: Event = field(default_factory=Event)


@contextmanager
def api(*, busy: bool = False) -> Iterator[Api]:
    state = Api(busy=busy)

    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
            if self.path == state.held:
                state.asked.set()
                if state.busy and not state.go_on.is_set():
                    self.answer(429, headers={"Retry-After": "3600"})
                    return
                state.go_on.wait(TIMEOUT)
            self.answer(200)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    with answering(Server(("127.0.0.1", 0), Handler)) as server:
        state.address = f"http://127.0.0.1:{server.server_port}"
        yield state
        state.go_on.set()


def put(
    folder: Path, address: str, write_mode: str = "append", start: str = "always", connector: str = CONNECTOR
) -> None:
    (folder / "numbers_api.py").write_text(connector.format(address=address))
    (folder / "pipeline.yaml").write_text(PIPELINE.replace("WRITE_MODE", write_mode).replace("START", start))


def sync(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", AT_A_TERMINAL, "sync", "pipeline.yaml", "--report", "report.json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def rows(folder: Path) -> list[int]:
    files = DeltaTable(str(folder / "tables" / "numbers")).file_uris()
    return sorted(n for file in files for n in pq.read_table(file)["n"].to_pylist())


@pytest.mark.spark
@pytest.mark.parametrize(
    ("number", "why", "write_mode", "start"),
    [(signal.SIGINT, "Ctrl-C", "append", "always"), (signal.SIGTERM, "SIGTERM", "overwrite", "never")],
)
def test_a_signal_ends_a_sync_at_its_checkpoint_and_the_next_one_goes_on_there(
    tmp_path: Path, number: signal.Signals, why: str, write_mode: str, start: str
) -> None:
    with api() as pages:
        put(tmp_path, pages.address, write_mode, start)
        with sync(tmp_path) as first:
            try:
                assert pages.asked.wait(TIMEOUT)
                first.send_signal(number)
                assert first.stderr is not None
                line = next(line for line in first.stderr if line.startswith(why))
                pages.go_on.set()
                out, _ = first.communicate(timeout=TIMEOUT)
            finally:
                first.kill()
        report = json.loads((tmp_path / "report.json").read_text())
        held = rows(tmp_path)
        put(tmp_path, pages.address, write_mode, "never")
        with sync(tmp_path) as second:
            told = second.communicate(timeout=TIMEOUT)

    assert line == f"{why}: ending at the next checkpoints; a second signal ends it at once\n"
    assert first.returncode == 128 + number
    assert f"interrupted by {why}: what was read is committed, and the next sync resumes there" in out
    assert (report["status"], report["interrupted"], report["error"]) == ("interrupted", why, None)
    (stream,) = report["streams"]
    assert (stream["status"], stream["records"]["written"] >= 3) == ("interrupted", True)
    assert held == (list(range(stream["records"]["written"])) if write_mode == "append" else [])
    assert second.returncode == 0, told
    (again,) = json.loads((tmp_path / "report.json").read_text())["streams"]
    assert (again["resumed"], again["records"]["read"]) == (True, 6 - stream["records"]["written"])
    assert rows(tmp_path) == list(range(6))


def test_a_signal_ends_a_sync_also_while_it_waits_for_an_hour(tmp_path: Path) -> None:
    with api(busy=True) as pages:
        put(tmp_path, pages.address, start="never", connector=CLIENT)
        with sync(tmp_path) as first:
            try:
                assert pages.asked.wait(TIMEOUT)
                first.send_signal(signal.SIGTERM)
                told = first.communicate(timeout=TIMEOUT)
            finally:
                first.kill()
        held = rows(tmp_path)
        pages.go_on.set()
        with sync(tmp_path) as second:
            second.communicate(timeout=TIMEOUT)

    assert first.returncode == 128 + signal.SIGTERM, told
    assert held == [0, 1]
    assert second.returncode == 0
    assert rows(tmp_path) == list(range(6))


def test_a_second_signal_ends_a_sync_at_once(tmp_path: Path) -> None:
    with api() as pages:
        put(tmp_path, pages.address, start="never")
        with sync(tmp_path) as process:
            try:
                assert pages.asked.wait(TIMEOUT)
                process.send_signal(signal.SIGINT)
                assert process.stderr is not None
                assert any(line.startswith("Ctrl-C: ending") for line in process.stderr)
                process.send_signal(signal.SIGTERM)
                _, said = process.communicate(timeout=TIMEOUT)
            finally:
                process.kill()

    assert process.returncode == 128 + signal.SIGTERM
    assert said.splitlines()[-1].startswith("Error: terminated (SIGTERM); what was committed is safe")
    assert json.loads((tmp_path / "report.json").read_text())["interrupted"] == "SIGTERM"


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_a_sync_whose_time_is_up_ends_with_a_code_of_its_own(cli: CommandLine, tmp_path: Path) -> None:
    put(tmp_path, "http://127.0.0.1:9")

    ran = cli("sync", "pipeline.yaml", "--max-duration", "0s", "--report", "report.json")

    assert ran.code == 124
    assert any(line.startswith("interrupted by max_duration: ") for line in ran.lines)
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["status"], report["interrupted"]) == ("interrupted", "max_duration")


class Counted(ThreadingHTTPServer):
    """Five pages of a record each. asked: the numbers of those that were asked for, in order."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Pages)
        self.asked = list[int]()


class Pages(QuietHandler):
    server: Counted

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        page = int(self.path.rpartition("=")[2]) if "=" in self.path else 1
        self.server.asked.append(page)
        self.answer(200, json.dumps({"data": [{"n": page}] if page <= 5 else []}).encode())


LIMITED = """
from cdk.rest import HttpStream, PageNumber


class Numbers(HttpStream):
    url_base = "{address}"
    records_path = ("data",)
    paginator = PageNumber()
    schema = {{"type": "object", "properties": {{"n": {{"type": "integer"}}}}}}

    def path(self, slice):
        return "/numbers"
"""


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_no_more_requests_are_sent_than_a_sync_may(cli: CommandLine, tmp_path: Path) -> None:
    with answering(Counted()) as server:
        put(tmp_path, "")
        (tmp_path / "numbers_api.py").write_text(LIMITED.format(address=f"http://127.0.0.1:{server.server_port}"))
        limited = cli("sync", "pipeline.yaml", "--max-requests", "3", "--report", "report.json")
        report, asked, landed = json.loads((tmp_path / "report.json").read_text()), list(server.asked), rows(tmp_path)
        rest = cli("sync", "pipeline.yaml")

    assert (limited.code, asked, landed) == (124, [1, 2, 3], [1, 2, 3])
    assert (report["status"], report["interrupted"], report["http"]["requests"]) == ("interrupted", "max_requests", 3)
    assert rest.code == 0
    # More may have been asked for ahead of the empty page 6, where responses are slow.
    assert [page for page in sorted(server.asked) if page <= 6] == [1, 2, 3, 4, 5, 6]
    assert rows(tmp_path) == [1, 2, 3, 4, 5]


def test_a_read_ends_at_its_limit_with_the_state_of_what_it_gave(cli: CommandLine, tmp_path: Path) -> None:
    with answering(Counted()) as server:
        (tmp_path / "numbers_api.py").write_text(LIMITED.format(address=f"http://127.0.0.1:{server.server_port}"))
        read = ("read", "--connector", "numbers_api.py")
        first = cli(*read, "--max-requests", "3")
        (tmp_path / "first.jsonl").write_text("\n".join(first.lines))
        rest = cli(*read, "--state", "first.jsonl")
        late = cli(*read, "--max-duration", "0s")

    assert (first.code, [record["record"]["data"]["n"] for record in first.of_type("RECORD")]) == (124, [1, 2, 3])
    assert "interrupted by max_requests" in first.of_type("LOG")[-1]["log"]["message"]
    statuses = [m["trace"]["stream_status"]["status"] for m in first.of_type("TRACE")]
    assert statuses == ["STARTED", "RUNNING", "INCOMPLETE"]
    assert (rest.code, [record["record"]["data"]["n"] for record in rest.of_type("RECORD")]) == (0, [4, 5])
    assert (late.code, late.of_type("RECORD")) == (124, [])


def test_a_duration_that_is_none_is_refused(cli: CommandLine) -> None:
    ran = cli("sync", "pipeline.yaml", "--max-duration", "soon")

    assert ran.code == 2
    assert "'--max-duration': found 'soon', expected a duration such as 500ms, 30s, 90m" in ran.stderr


@pytest.mark.parametrize(
    ("statuses", "why", "caught", "code"),
    [
        ((Status.DONE, Status.REDUNDANT), "", 0, 0),
        ((Status.DONE,), "", signal.SIGINT, 0),
        ((Status.DONE, Status.INTERRUPTED), "max_duration", 0, 124),
        ((Status.FAILED, Status.INTERRUPTED), "max_duration", 0, 1),
        ((Status.FAILED, Status.INTERRUPTED), "SIGTERM", signal.SIGTERM, 143),
        ((Status.FAILED,), "", 0, 1),
    ],
)
def test_each_end_has_its_exit_code(statuses: tuple[Status, ...], why: str, caught: int, code: int) -> None:
    streams = [StreamReport("users", status, "full_refresh", "append") for status in statuses]

    assert exit_code(SyncResult(streams, RunFacts(interrupted=why)), caught) == code
