"""What a sync is doing, as whoever looks on sees it while nothing is committed."""

from collections.abc import Callable, Mapping
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdk import Json, Slice
from cdk.base.task_map import run_inline
from cdk.rest import HttpErrorHandler, HttpStream, RetryPolicy
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from cdk.testing.mock_api import MockApi
from tests.local_server import QuietHandler, answering
from tests.rest.api import Time
from tests.spark.given_source import Given

SECRET = "hunter-of-rows"


class Users(HttpStream):
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}  # noqa: RUF012
    url_base = "https://api.test"

    def path(self, slice: Slice) -> str:  # noqa: ARG002
        return f"/users/{SECRET}"

    def params(self, slice: Slice) -> Mapping[str, Json]:  # noqa: ARG002
        return {}


class Waiting(Users):
    """Of a server that is slow to come up."""

    name = "users"

    @property
    def url_base(self) -> str:  # type: ignore[override] # it is in the config
        return str(self.config["address"])


def runner(folder: Path, stream: HttpStream, workers: Workers | None) -> SyncRunner:
    pipeline = Pipeline(
        name="doing",
        source=SourceOptions(connector="given", config={"key": SECRET}),
        target=TargetOptions(path=str(folder)),
    )
    return SyncRunner(pipeline, Given([stream]), workers=workers)


def test_a_wait_is_seen_while_it_lasts_and_gone_afterwards(tmp_path: Path) -> None:
    api, time, stream, seen = MockApi(), Time(), Users({}), list[Mapping[str, str]]()
    api.get(f"/users/{SECRET}").returns(status=503).returns(json=[{"id": 1}])
    stream.transport, stream.error_handler = (
        api,
        HttpErrorHandler(retry_policy=RetryPolicy(retries=1, clock=time.clock)),
    )
    sync = runner(tmp_path, stream, Workers(run_inline, 1))

    def sleep(seconds: float) -> None:
        seen.append({name: one.why for name, one in sync.doing().items()})
        time.sleep(seconds)

    stream.sleep = sleep
    assert sync.run().ok

    assert seen == [{"users": "GET https://api.test/users/**** answered 503"}]
    assert sync.doing() == {}
    assert sorted(path.name for path in (tmp_path / "_cdk").iterdir()) == [
        "doing.completed",
        "doing.lock",
        "doing.runs",
    ]


@pytest.mark.spark
def test_a_wait_of_a_task_of_spark_is_seen_by_the_driver(
    session: SparkSession,  # noqa: ARG001 - it is the one that runs
    tmp_path: Path,
) -> None:
    seen: list[Mapping[str, str]] = []
    look: list[Callable[[], Mapping[str, str]]] = []

    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - the server's name
            # The first answer is waited for; what the task then notes is there when it asks again.
            seen.append(look[0]())
            if len(seen) == 1:
                self.answer(503, headers={"Retry-After": "1"})
            else:
                self.answer(200, b'[{"id": 1}]', {"Content-Type": "application/json"})

    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        stream = Waiting({"address": f"http://127.0.0.1:{server.server_address[1]}"})
        sync = runner(tmp_path, stream, None)
        look.append(lambda: {name: one.why for name, one in sync.doing().items()})
        assert sync.run().ok

    assert seen[0] == {}
    assert seen[1]["users"].endswith("/users/**** answered 503")
    assert sync.doing() == {}
