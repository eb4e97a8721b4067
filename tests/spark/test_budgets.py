"""What an API counts while the tasks of a sync read from it: they keep to its budget together."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from cdk import Json, Partition, Slice, Source
from cdk.rest import Budget, HttpStream, PageNumber
from cdk.spark import Pipeline, SyncRunner

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("session")]

CALLS, SECONDS = 6, 3.0
PAGES = 10


@contextmanager
def counted(moments: list[float]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            moments.append(time.monotonic())
            # An empty page is the last one.
            records = [] if self.path.endswith(f"page={PAGES}") else [{"id": len(moments)}]
            content = json.dumps(records).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.serve_forever, poll_interval=0.02)
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


class Numbers(HttpStream):
    """Two partitions, each with more pages than anybody may ask for at once."""

    primary_key = "id"
    budget = Budget(CALLS, timedelta(seconds=SECONDS))
    paginator = PageNumber(size=1)

    @property
    def url_base(self) -> str:
        return str(self.config["base_url"])

    def json_schema(self) -> Json:
        return {"type": "object", "properties": {"id": {"type": "integer"}}}

    def partitions(self) -> list[Partition]:
        return [Partition.of(part=0), Partition.of(part=1)]

    def path(self, slice: Slice) -> str:
        return f"/{slice.partition['part']}"


class Numbered(Source):
    name = "numbered"
    stream_classes = (Numbers,)


def test_two_tasks_over_several_commits_ask_no_oftener_than_the_budget_allows(tmp_path: Path) -> None:
    moments: list[float] = []
    with counted(moments) as address:
        pipeline = Pipeline.model_validate(
            {
                "name": "counted",
                "source": {"connector": "numbered", "config": {"base_url": address}},
                "target": {"path": str(tmp_path)},
                "concurrency": 2,
            }
        )
        result = SyncRunner(pipeline, Numbered()).run()

    assert result.ok
    assert len(moments) == 2 * PAGES
    assert pq.read_table(DeltaTable(str(tmp_path / "numbers")).file_uris()).num_rows == 2 * (PAGES - 1)
    # By the budget the last of 20 calls is 9 seconds after the first; each task with a budget of its own takes 3.
    # A busy machine makes it later only, but for the first call, which it may delay.
    assert moments[-1] - moments[0] > 2 * SECONDS
