"""Syncs of an API that runs few jobs at once, whoever reads."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdk import Json
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.rest import HttpTransport
from cdk.spark import register
from cdk.sync.tasks.workers import Workers
from tests.local_server import QuietHandler, answering
from tests.spark.single_use import FOUR, run
from tests.spark.test_single_use_tokens import ids

SLICES = 6


class Jobs:
    """An API with jobs. most: how many of them ran at once. A job waits a moment for others, which must not begin."""

    def __init__(self, allowed: int) -> None:
        self.allowed, self.address = allowed, ""
        self.running = self.most = 0
        self.changed = threading.Condition()

    def begin(self) -> None:
        with self.changed:
            self.running += 1
            self.most = max(self.most, self.running)
            self.changed.notify_all()

    def complete(self) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.running > self.allowed, timeout=0.1)
            self.running -= 1


@contextmanager
def serving(jobs: Jobs) -> Iterator[Jobs]:
    class Handler(QuietHandler):
        def do_POST(self) -> None:  # noqa: N802 - the server's name
            jobs.begin()
            self.say({"id": self.path.rpartition("/")[2]})

        def do_GET(self) -> None:  # noqa: N802 - the server's name
            kind, _, shelf = self.path.strip("/").partition("/")
            if kind == "jobs":
                jobs.complete()
                self.say({"status": "ok"})
            else:
                self.say({"data": [{"id": int(shelf)}]})

        def say(self, body: Json) -> None:
            self.answer(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        jobs.address = f"http://127.0.0.1:{server.server_address[1]}"
        yield jobs


def requester(path: str, method: str = "GET") -> dict[str, Json]:
    return {"type": "HttpRequester", "url": "{{ config['address'] }}" + path, "http_method": method}


def stream(name: str) -> dict[str, Any]:
    extractor = {"type": "DpathExtractor", "field_path": ["data"]}
    words: dict[str, Json] = {"running": ["run"], "completed": ["ok"], "failed": ["bad"], "timeout": ["late"]}
    return {
        "type": "DeclarativeStream",
        "name": name,
        "retriever": {
            "type": "AsyncRetriever",
            "record_selector": {"type": "RecordSelector", "extractor": extractor},
            "status_mapping": words,
            "status_extractor": {"type": "DpathExtractor", "field_path": ["status"]},
            "creation_requester": requester("/jobs/{{ stream_partition.shelf }}", "POST"),
            "polling_requester": requester("/jobs/{{ creation_response['id'] }}"),
            "download_requester": requester("/files/{{ creation_response['id'] }}"),
            "download_extractor": extractor,
            "partition_router": {
                "type": "ListPartitionRouter",
                "values": [str(n) for n in range(SLICES)],
                "cursor_field": "shelf",
            },
        },
        "schema_loader": {
            "type": "InlineSchemaLoader",
            "schema": {"type": "object", "properties": {"id": {"type": "integer"}}},
        },
    }


def manifest(count: int) -> dict[str, Any]:
    return {
        "version": "6.0.0",
        "type": "DeclarativeSource",
        "check": {"type": "CheckStream", "stream_names": ["items"]},
        "streams": [stream("items"), stream("more_items")],
        "max_concurrent_async_job_count": count,
    }


def check(folder: Path, count: int, workers: Workers | None) -> None:
    with serving(Jobs(count)) as jobs:
        source = ManifestSource(Manifest(manifest(count)), Runtime(transport=HttpTransport()))
        result = run(folder, source, {"address": jobs.address}, workers, 30)

    assert result.ok, [report.failure for report in result.streams]
    assert jobs.most == count
    for name in ("items", "more_items"):
        assert ids(folder, name) == list(range(SLICES))


@pytest.mark.parametrize("count", [1, 2])
def test_no_more_jobs_run_at_once_than_the_manifest_says(count: int, tmp_path: Path) -> None:
    check(tmp_path, count, FOUR)


@pytest.mark.spark
@pytest.mark.parametrize("count", [1, 2])
def test_tasks_of_spark_run_no_more_jobs_at_once_than_the_manifest_says(
    session: SparkSession,  # noqa: ARG001 - it is the one that runs
    count: int,
    tmp_path: Path,
) -> None:
    check(tmp_path, count, None)


@pytest.mark.spark
def test_a_frame_runs_no_more_jobs_at_once_than_the_manifest_says(session: SparkSession, tmp_path: Path) -> None:
    register(session)
    (file := tmp_path / "manifest.yaml").write_text(json.dumps(manifest(1)))
    with serving(Jobs(1)) as jobs:
        options = {"manifest": str(file), "stream": "items", "config": json.dumps({"address": jobs.address})}
        rows = session.read.format("cdk").options(**options).load().collect()

    assert jobs.most == 1
    assert sorted(row.id for row in rows) == list(range(SLICES))
