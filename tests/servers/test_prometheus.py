"""A real Prometheus whose samples are written, changed and deleted between syncs: the tables equal its own answers."""

import random
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from os import PathLike
from pathlib import Path

import pytest
import requests

from cdk import Json
from cdk.base.task_map import run_inline
from cdk.lake.admin.freshness import TableTimes
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.prometheus_metrics import write_metrics
from cdk.sync.reports.run_report import RunFacts, run_report
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.messages import Failure
from cdk.sync.tasks.workers import Workers
from connectors.prometheus.source import Prometheus
from connectors.prometheus.streams import text_of
from tests.local_server import answering
from tests.servers.process import serving
from tests.worlds.table import rows

DAY0 = datetime(2024, 1, 1, tzinfo=UTC)
DAYS = 4
HOSTS = ("a", "b", 'with "quotes"', "ünï")

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="Prometheus is on no package index; Debian's package `prometheus` brings it",
)


class Database:
    """The samples that were written, and the folder in which Prometheus keeps them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "prometheus.yml").write_text("global: {}\n")

    def write(self, samples: Mapping[tuple[str, int], float]) -> None:
        """Add samples, by host and second, while no server runs."""
        lines = ["# TYPE load gauge"]
        for (host, second), value in sorted(samples.items()):
            quoted = host.replace("\\", "\\\\").replace('"', '\\"')
            lines.append(f'load{{host="{quoted}"}} {value} {int(DAY0.timestamp()) + second}')
        text = self.folder / "samples.txt"
        text.write_text("\n".join([*lines, "# EOF", ""]))
        command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(self.folder / "data")]
        subprocess.run(command, check=True, capture_output=True)

    @contextmanager
    def serving(self) -> Iterator[str]:
        command = [
            "prometheus",
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            "--storage.tsdb.retention.time=100y",
            "--web.listen-address=127.0.0.1:0",
            "--web.enable-admin-api",
        ]
        with serving(command, r'msg="Listening on" address=(127\.0\.0\.1:\d+)') as address:
            url = f"http://{address}"
            ready(url)
            yield url


def test_a_prometheus_scrapes_the_metrics_of_a_sync(tmp_path: Path) -> None:
    """Through a server of files, as node-exporter serves those of its folder; promtool has nothing to criticise."""
    failure = Failure("the source is down", "transient_error", "")
    streams = [
        StreamReport("orders", Status.DONE, "incremental", "append", read=5, written=3),
        StreamReport('with "quotes" \\ ünï', Status.FAILED, "incremental", "append", failure=failure),
    ]
    report = run_report(RunFacts("shop", started=DAY0, ended=DAY0), streams)
    write_metrics(tmp_path / "metrics", report, {"orders": TableTimes(DAY0, None)})
    command, text = ["promtool", "check", "metrics"], (tmp_path / "metrics").read_text()
    checked = subprocess.run(command, input=text, capture_output=True, text=True, check=False)

    files = partial(QuietFiles, directory=str(tmp_path))
    with answering(ThreadingHTTPServer(("127.0.0.1", 0), files)) as server:
        database = Database(tmp_path)
        (tmp_path / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s}\nscrape_configs:\n"
            f"- {{job_name: cdk, static_configs: [{{targets: ['127.0.0.1:{server.server_port}']}}]}}\n"
        )
        with database.serving() as url:
            failed = scraped(url, "spark_cdk_stream_failed == 1")
            written = scraped(url, "spark_cdk_stream_rows_written{stream='orders'}")
            completed = scraped(url, "spark_cdk_stream_completed_timestamp_seconds")

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    assert failed["metric"]["stream"] == 'with "quotes" \\ ünï'
    assert (failed["metric"]["pipeline"], failed["metric"]["failure_type"]) == ("shop", "transient_error")
    assert (written["value"][1], float(completed["value"][1])) == ("3", DAY0.timestamp())


class QuietFiles(SimpleHTTPRequestHandler):
    """Serves the files of a folder as text of Prometheus."""

    def guess_type(self, path: str | PathLike[str]) -> str:  # noqa: ARG002
        return "text/plain; version=0.0.4"

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def scraped(url: str, query: str) -> dict[str, Json]:
    """The one result of a query, once the server has scraped it."""
    for _ in range(10_000):
        answer = requests.get(f"{url}/api/v1/query", params={"query": query}, timeout=30)
        if answer.status_code == 200 and (results := answer.json()["data"]["result"]):
            (result,) = results
            return dict(result)
    raise AssertionError(f"Prometheus has nothing for {query}")


def ready(url: str) -> None:
    """Ask until the server has read its blocks; it refuses queries before."""
    for _ in range(10_000):
        if requests.get(f"{url}/-/ready", timeout=30).status_code == 200:
            return
    raise AssertionError("Prometheus does not become ready")


def delete(url: str, host: str, first: int, last: int) -> None:
    """Delete the samples of a host between two seconds, both included."""
    begin = int(DAY0.timestamp())
    quoted = host.replace("\\", "\\\\").replace('"', '\\"')
    params: dict[str, str | int] = {"match[]": f'load{{host="{quoted}"}}', "start": begin + first, "end": begin + last}
    requests.post(f"{url}/api/v1/admin/tsdb/delete_series", params=params, timeout=30).raise_for_status()


def answers(url: str) -> dict[tuple[str, datetime], str]:
    """All samples, as the server itself tells them in one go."""
    end = DAY0 + timedelta(days=DAYS)
    query: dict[str, str | int] = {"query": f"load[{DAYS}d]", "time": int(end.timestamp())}
    answer = requests.get(f"{url}/api/v1/query", params=query, timeout=30)
    answer.raise_for_status()
    return {
        (text_of(result["metric"]), datetime.fromtimestamp(seconds, UTC)): value
        for result in answer.json()["data"]["result"]
        for seconds, value in result["values"]
    }


def config_of(url: str) -> dict[str, Json]:
    """All samples of `load`, a day at a time; a later sync looks back a day for what came late."""
    bounds = {"start": f"{DAY0:%Y-%m-%dT%H:%M:%SZ}", "end": f"{DAY0 + timedelta(days=DAYS):%Y-%m-%dT%H:%M:%SZ}"}
    return {"server": url, "selectors": ["load"], **bounds, "lookback_hours": 24}


def sync(folder: Path, url: str, name: str, options: Mapping[str, Json]) -> dict[tuple[str, datetime], str]:
    """Sync into a table of its own, and return what is in it."""
    pipeline = Pipeline(
        name=name,
        source=SourceOptions(connector="prometheus", config=config_of(url)),
        target=TargetOptions(path=str(folder / name)),
        streams={"samples": StreamOptions.model_validate(options)},
    )
    result = SyncRunner(pipeline, Prometheus(), workers=Workers(run_inline, 2)).run()
    assert result.ok, [report.failure for report in result.streams]
    found = rows(folder / name / "samples")
    by_key = {(row["series"], row["at"]): row["value"] for row in found}
    assert len(by_key) == len(found)
    return by_key


def test_tables_equal_what_a_prometheus_answers_whatever_is_done_between_syncs(tmp_path: Path) -> None:
    chance, database = random.Random(1), Database(tmp_path)
    changing, whole = {"write_mode": "append_dedup"}, {"sync_mode": "full_refresh", "write_mode": "overwrite"}
    for day in range(DAYS):
        # Some of the day's samples, and some of the day before that come late; none at midnight is there twice.
        seconds = [chance.randrange(max(day - 1, 0) * 86_400, (day + 1) * 86_400, 60) for _ in range(40)]
        database.write({(host, second): chance.choice([0, 1.5, 1e300]) for host in HOSTS for second in seconds})
        with database.serving() as url:
            there = answers(url)
            assert sync(tmp_path, url, "whole", whole) == there
            assert sync(tmp_path, url, "changing", changing) == there

    with database.serving() as url:
        delete(url, HOSTS[0], 0, 2 * 86_400)
        there = answers(url)
        assert 0 < len(there) < len(sync(tmp_path, url, "changing", changing))
        assert sync(tmp_path, url, "whole", whole) == there
