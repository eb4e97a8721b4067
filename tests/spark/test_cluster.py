"""Syncs on a cluster of two workers: one dies, a task is copied, and a program is submitted with code of its own."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from connectors.shop.api import serving
from connectors.shop.backend import Backend, Sizes
from tests.docs.page import DOCS, play
from tests.spark.kill import STREAMS, Trial
from tests.spark.kill_places import LATENCY, LOCAL
from tests.spark.local_cluster import HOME, Cluster, cluster, environment, waited
from tests.spark.single_use import ALL, Login, config, manifest
from tests.spark.single_use import serving as login_server

pytestmark = pytest.mark.spark

TIMEOUT = 240.0
"""Seconds that a sync may take on a machine that has much else to do; alone it takes ten to twenty."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def test_a_sync_reaches_all_executors_of_a_cluster_that_grows_and_loses_one_for_its_slices_alone(
    spark: Cluster, tmp_path: Path
) -> None:
    grows = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.maxExecutors": "2",
        "spark.executor.cores": "1",
    }
    sizes = Sizes(products=1500, orders=1500, customers=20, visits=60)
    backend, latencies = Backend(sizes), [8 * LATENCY]
    with serving(backend, latency=lambda: latencies[-1]) as address:
        trial = Trial(tmp_path, backend, address, place=replace(LOCAL, master=spark.address))
        settings = trial.pipeline.read_text()
        trial.pipeline.write_text(settings.replace("spark: {", f"spark: {{conf: {json.dumps(grows)}, "))
        with trial.process() as sync:
            # One executor, and the worker of the other.
            victims = (waited(partial(both, spark), trial.log, TIMEOUT)[0], spark.workers()[1])
            for victim in victims:
                waited(partial(fetched, trial, trial.pages() + 8), trial.log, TIMEOUT)
                os.kill(victim, signal.SIGKILL)
                assert sync.poll() is None
            latencies.append(LATENCY)  # the rest need not last
            assert sync.wait(TIMEOUT) == 0, trial.log()

    found = {stream: trial.rows(stream) for stream in STREAMS}
    expected = {"products": sizes.products, "orders": sizes.orders, "visits": sizes.customers * sizes.visits}
    assert {stream: len(set(rows)) for stream, rows in found.items()} == expected
    assert {stream: len(rows) for stream, rows in found.items()} == expected
    # A page took longer than an interval until then, and two slices are read at once on each executor.
    assert trial.again() <= len(victims) * 2 * 2
    assert len(spark.workers()) == 1
    spark.add_workers(1)


def both(spark: Cluster) -> list[int]:
    """The executors, once there are two."""
    executors = spark.executors()
    return executors if len(executors) > 1 else []


def fetched(trial: Trial, pages: int) -> bool:
    return trial.pages() >= pages


class Parts:
    """Two parts of five pages. The first page of part 1 is given to nobody before a second task asks for it, too."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.copied = threading.Event()

    def page(self, path: str) -> list[int]:
        """The numbers of `/<part>/<page>`."""
        part, page = (int(piece) for piece in path.strip("/").split("/"))
        self.asked[path] += 1
        if (part, page) == (1, 0):
            if self.asked[path] > 1:
                self.copied.set()
            self.copied.wait(TIMEOUT)
        return [100 * part + 10 * page + n for n in range(10)]


@contextmanager
def answering(parts: Parts) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = json.dumps(parts.page(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Say nothing of the task that is killed when its copy was quicker."""

    with Server(("127.0.0.1", 0), Handler) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.serve_forever, poll_interval=0.02)
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            parts.copied.set()
            server.shutdown()


CONNECTOR = """
from urllib.request import urlopen

from cdk import Page, PagedStream, Partition
from reading.numbers import numbers


class Numbers(PagedStream):
    primary_key = "n"
    schema = {{"type": "object", "properties": {{"n": {{"type": "integer"}}}}}}

    def partitions(self):
        return [Partition.of(part=0), Partition.of(part=1)]

    def read_page(self, slice, token):
        page = (token or {{}}).get("page", 0)
        with urlopen(f"{address}/{{slice.partition['part']}}/{{page}}") as answer:
            return Page(numbers(answer.read()), {{"page": page + 1}} if page < 4 else None)
"""
NEIGHBOUR = """
import json

def numbers(text):
    return [{"n": n} for n in json.loads(text)]
"""
PIPELINE = """
name: parts
source: {{connector: parts.py}}
target: {{path: tables}}
streams: {{numbers: {{write_mode: append}}}}
spark:
  master: {master}
  conf:
    spark.speculation: true
    spark.speculation.interval: 100ms
    spark.speculation.task.duration.threshold: 1s
    spark.speculation.efficiency.enabled: false
"""


def numbers(table: Path) -> list[int]:
    return sorted(pq.read_table(DeltaTable(str(table)).file_uris())["n"].to_pylist())


def test_a_task_that_is_copied_adds_its_rows_once(spark: Cluster, tmp_path: Path) -> None:
    parts = Parts()
    with answering(parts) as address:
        # The connector is one file, in a folder that no executor looks into, and so is the package beside it.
        (tmp_path / "reading").mkdir()
        (tmp_path / "reading" / "numbers.py").write_text(NEIGHBOUR)
        (tmp_path / "parts.py").write_text(CONNECTOR.format(address=address))
        (tmp_path / "pipeline.yaml").write_text(PIPELINE.format(master=spark.address))
        (tmp_path / "elsewhere").mkdir()
        said = run([sys.executable, "-m", "cdk", "sync", "../pipeline.yaml"], tmp_path / "elsewhere")

    assert parts.asked["/1/0"] > 1, said
    assert numbers(tmp_path / "tables" / "numbers") == [100 * part + n for part in range(2) for n in range(50)]


def test_two_executors_and_two_syncs_ask_for_a_token_once_in_its_life(spark: Cluster, tmp_path: Path) -> None:
    (tmp_path / "items.yaml").write_text(json.dumps(manifest()))
    # A life ends in the middle of each sync: of 48 requests, and those that are made again.
    with login_server(Login(uses=20)) as login:
        settings = {
            "name": "items",
            "source": {"manifest": "items.yaml", "config": config(login.address)},
            "target": {"path": "tables"},
            "concurrency": 4,
        }
        # The second sync needs no executors: it begins with the token that the first has left.
        for sync, options in ((1, {"master": spark.address}), (2, {"start": "never"})):
            (tmp_path / "pipeline.yaml").write_text(json.dumps({**settings, "spark": options}))
            said = run([sys.executable, "-m", "cdk", "sync", "pipeline.yaml"], tmp_path)
            assert login.reads >= 48 * sync, said

    used = login.reads - sum(-left for left in login.left.values() if left < 0)
    assert login.spent == 0
    assert 4 < login.calls <= 1 + used // 20
    for name in ("items", "more_items"):
        table = DeltaTable(str(tmp_path / "tables" / name))
        ids = sorted(pq.read_table(table.file_uris())["id"].to_pylist())
        assert ids == ALL


FAR_AWAY = """
from cdk import Source, Stream
from far_away.numbers import rows


class Numbers(Stream):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}

    def read_records(self, slice):
        yield from rows()


class FarAway(Source):
    stream_classes = [Numbers]
"""
PROGRAM = """
import importlib
import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from cdk.spark import Pipeline, SyncRunner

folder = Path(sys.argv[1])
sys.path.insert(0, str(folder))


def sync():
    package = importlib.import_module("far_away")
    result = SyncRunner(Pipeline.load(folder / "pipeline.yaml"), package.FarAway()).run()
    table = pq.read_table(DeltaTable(str(folder / "tables" / "numbers")).file_uris())
    return {
        "ok": result.ok,
        "master": SparkSession.getActiveSession().sparkContext.master,
        "numbers": sorted(table["n"].to_pylist()),
    }


said = [sync()]
code = folder / "far_away" / "numbers.py"
code.write_text(code.read_text().replace("range(5)", "range(5, 15)"))
for name in [name for name in sys.modules if name.startswith("far_away")]:
    del sys.modules[name]
importlib.invalidate_caches()
said.append(sync())
(folder / "said.json").write_text(json.dumps(said))
"""


def test_a_submitted_program_syncs_where_it_was_submitted_to_and_may_change_its_code(
    spark: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "far_away").mkdir()
    (tmp_path / "far_away" / "__init__.py").write_text(FAR_AWAY)
    (tmp_path / "far_away" / "numbers.py").write_text('def rows():\n    return [{"n": n} for n in range(5)]\n')
    (tmp_path / "pipeline.yaml").write_text("name: far\nsource: {connector: far_away}\ntarget: {path: tables}\n")
    (tmp_path / "program.py").write_text(PROGRAM)

    run([str(HOME / "bin" / "spark-submit"), "--master", spark.address, "program.py", str(tmp_path)], tmp_path)

    said = json.loads((tmp_path / "said.json").read_text())
    assert said == [
        {"ok": True, "master": spark.address, "numbers": list(range(5))},
        {"ok": True, "master": spark.address, "numbers": list(range(5, 15))},
    ]


def run(command: list[str], folder: Path) -> str:
    """What a command says. Raises AssertionError: it fails, or takes too long."""
    with (folder / "run.log").open("w+") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, env=environment(), start_new_session=True
        )
        try:
            code = process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            # The JVM, and the Python that it started, are in its group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.seek(0)
        said = log.read()
    assert code == 0, said
    return said


@pytest.mark.usefixtures("session")
def test_the_page_about_clusters_does_what_it_says(
    spark: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (DOCS / "how-to" / "run-on-a-cluster.md").read_text()
    page = tmp_path / "page.md"
    page.write_text(text.replace("spark://spark-master:7077", spark.address))
    monkeypatch.chdir(tmp_path)
    with serving(Backend()) as address:
        play(page, tmp_path, address)
