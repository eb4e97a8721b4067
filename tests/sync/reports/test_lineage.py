"""Lineage: what OpenLineage is told of a sync through its own transports, and what happens when it does not listen."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import ThreadingHTTPServer
from pathlib import Path
from textwrap import dedent

import pytest

from cdk import ConfigError, Json, JsonSchema, Page, PagedStream, ServerError, Slice, Stream
from cdk.base.task_map import Item as Work
from cdk.base.task_map import Result, run_inline
from cdk.cli.app import run
from cdk.lake.storage.folder import Folder, LocalFolder
from cdk.lake.storage.object_store import ObjectStoreFolder
from cdk.spark import Pipeline, SyncResult, SyncRunner
from cdk.sync.reports.lineage import _name, configured
from cdk.sync.reports.stream_report import Status
from cdk.sync.tasks.workers import Workers
from connectors.shop.api import serving
from connectors.shop.backend import Backend as ShopApi
from tests.docs.page import DOCS, play
from tests.local_server import QuietHandler, answering
from tests.samples import Broken, Users
from tests.spark.given_source import Given


class Orders(PagedStream):
    """Three rows in two pages, in a namespace."""

    name = "orders"
    namespace = "eu"
    schema: JsonSchema | None = {  # noqa: RUF012 - as an author writes it
        "type": "object",
        "properties": {"id": {"type": "integer"}, "lines": {"type": "array", "items": {"type": "string"}}},
    }

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:  # noqa: ARG002
        return Page([{"id": 3}], None) if token else Page([{"id": 1}, {"id": 2}], {"page": 1})


class Schemaless(Users):
    name = "schemaless"

    def json_schema(self) -> JsonSchema:
        raise ConfigError("schemas/users.json: no JSON")


class Breaking(Users):
    """Breaks at its second page."""

    name = "breaking"

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        if token:
            raise ServerError("the second page is broken")
        return super().read_page(slice, token)


class Shop(Given):
    """A source that has the name of its pipeline's connector."""

    name = "shop"


@pytest.fixture(autouse=True)
def _unset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No settings, neither before a test nor, as the client adds variables of its own, after it."""

    def unset() -> None:
        for name in [name for name in os.environ if name.startswith("OPENLINEAGE")]:
            monkeypatch.delenv(name)

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    unset()
    yield
    for name in [name for name in os.environ if name.startswith("OPENLINEAGE")]:
        del os.environ[name]


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Json]]:
    """Has the client write into a file, and gives what is there."""
    path = tmp_path / "events.json"
    settings = {"type": "file", "log_file_path": str(path), "append": True}
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(settings))
    return lambda: [json.loads(line) for line in path.read_text().splitlines()]


def runner(folder: Path, *streams: Stream, workers: Workers | None = None) -> SyncRunner:
    pipeline = Pipeline.model_validate(
        {
            "name": "nightly",
            "source": {"connector": "shop", "config": {"key": "hunter2"}},
            "target": {"path": str(folder / "tables")},
            "checkpoint_interval": "0s",
        }
    )
    return SyncRunner(pipeline, Shop(streams), workers=workers or Workers(run_inline, 2))


def sync(folder: Path, *streams: Stream, workers: Workers | None = None) -> SyncResult:
    return runner(folder, *streams, workers=workers).run()


def facet(told: Json, *path: str) -> Json:
    """What a facet says, without what every facet has."""
    for name in path:
        told = told[name]
    return {name: value for name, value in told.items() if not name.startswith("_")}


def test_a_sync_is_a_start_and_a_complete_with_what_it_reads_and_writes(
    tmp_path: Path, events: Callable[[], list[Json]]
) -> None:
    sync(tmp_path, Orders(), Users())
    result = sync(tmp_path, Orders(), Users())

    *_, start, complete = events()
    assert [event["eventType"] for event in events()] == ["START", "COMPLETE"] * 2
    assert len({event["run"]["runId"] for event in events()}) == 2
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert "errorMessage" not in complete["run"]["facets"]
    for event in (start, complete):
        assert (event["job"]["namespace"], event["job"]["name"]) == ("spark-cdk", "nightly")
        assert [(i["namespace"], i["name"]) for i in event["inputs"]] == [("shop", "eu.orders"), ("shop", "users")]
        tables = [str(tmp_path / "tables" / "eu" / "orders"), str(tmp_path / "tables" / "users")]
        assert [(o["namespace"], o["name"]) for o in event["outputs"]] == [("file", table) for table in tables]

    table, report = complete["outputs"][0], result.streams[0]
    columns = {column["name"]: column["type"] for column in facet(table, "facets", "schema")["fields"]}
    assert (columns["id"], columns["lines"], columns["_airbyte_extracted_at"]) == ("long", "array", "timestamp")
    assert facet(table, "facets", "version") == {"datasetVersion": str(report.by_commit.listed[-1].table_version)}
    assert facet(table, "outputFacets", "outputStatistics") == {
        "rowCount": 3,
        "size": report.bytes,
        "fileCount": report.files,
    }
    assert start["outputs"][0]["outputFacets"] == {}


def test_streams_of_a_source_without_a_name_are_those_of_the_connector_that_the_pipeline_names(
    tmp_path: Path, events: Callable[[], list[Json]]
) -> None:
    for name in ("one", "two"):
        source = Shop([Users()])
        source.name = ""
        settings = (
            {"connector": f"{name}_api.py"} if name == "one" else {"manifest": str(tmp_path / "two" / "manifest.yaml")}
        )
        target = {"path": str(tmp_path / name)}
        pipeline = Pipeline.model_validate({"name": name, "source": settings, "target": target})
        SyncRunner(pipeline, source, workers=Workers(run_inline, 1)).run()

    assert {event["inputs"][0]["namespace"] for event in events()} == {"one_api", "two"}


def test_a_stream_that_fails_makes_the_run_fail_with_its_error_and_no_secret(
    tmp_path: Path, events: Callable[[], list[Json]]
) -> None:
    sync(tmp_path, Broken(), Schemaless(), Orders())

    failed = events()[-1]
    assert failed["eventType"] == "FAIL"
    assert facet(failed, "run", "facets", "errorMessage")["message"] == (
        "broken: the source refused the key ****\nschemaless: schemas/users.json: no JSON"
    )
    assert "hunter2" not in json.dumps(events())
    assert [table["outputFacets"]["outputStatistics"]["rowCount"] for table in failed["outputs"][2:]] == [3]
    assert failed["outputs"][1]["facets"] == {}


def test_rows_that_nobody_can_see_yet_are_not_counted(tmp_path: Path, events: Callable[[], list[Json]]) -> None:
    (report,) = sync(tmp_path, Breaking()).streams

    assert report.written > 0
    assert events()[-1]["outputs"][0]["outputFacets"] == {}


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [(KeyboardInterrupt(), "ABORT", "KeyboardInterrupt"), (OSError("no hunter2"), "FAIL", "OSError: no ****")],
)
def test_a_run_that_is_cut_says_how(
    tmp_path: Path, events: Callable[[], list[Json]], error: BaseException, kind: str, text: str
) -> None:
    def refuse(work: Callable[[Work], Result], items: Sequence[Work]) -> list[Result]:  # noqa: ARG001
        raise error

    with pytest.raises(type(error)):
        sync(tmp_path, Orders(), workers=Workers(refuse, 2))

    assert [event["eventType"] for event in events()] == ["START", kind]
    message = facet(events()[-1], "run", "facets", "errorMessage")["message"]
    assert message.partition(" (")[0] == text


def test_a_run_that_ends_at_its_checkpoints_is_an_abort(tmp_path: Path, events: Callable[[], list[Json]]) -> None:
    class Stopping(Users):
        name = "stopping"

        def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
            assert token or running.interrupt("SIGTERM")
            return super().read_page(slice, token)

    running = runner(tmp_path, Stopping())

    assert [report.status for report in running.run().streams] == [Status.INTERRUPTED]
    assert [event["eventType"] for event in events()] == ["START", "ABORT"]


def test_what_the_command_line_hides_is_hidden_here(
    tmp_path: Path, events: Callable[[], list[Json]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(
        dedent("""
        from cdk import ConfigError, Stream

        class Orders(Stream):
            def json_schema(self):
                raise ConfigError(f"no schema at {self.config['path']}")
            def read_records(self, slice):
                yield {}
        """)
    )
    (tmp_path / "pipeline.yaml").write_text(
        dedent("""
        name: nightly
        source: {connector: shop.py, config: {path: "${PLACE}"}}
        target: {path: tables}
        """)
    )
    monkeypatch.setenv("PLACE", "hunter2")

    assert run(["sync", "pipeline.yaml", "-q"]) == 1
    assert facet(events()[-1], "run", "facets", "errorMessage")["message"] == "orders: no schema at ****"


class Backend(ThreadingHTTPServer):
    """Takes events, and answers all of them in one way."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.seen = 201, list[tuple[str, Json]]()
        self.address = f"127.0.0.1:{self.server_port}"


class Handler(QuietHandler):
    server: Backend

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.headers["Authorization"], event["eventType"]))
        self.answer(self.server.status, headers={"Retry-After": "3600"})


@pytest.fixture
def backend() -> Iterator[Backend]:
    with answering(Backend()) as server:
        yield server


def test_the_clients_variables_say_where_events_go(
    tmp_path: Path, backend: Backend, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", f"http://{backend.address}")
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "sesame")

    sync(tmp_path, Orders())

    assert backend.seen == [("Bearer sesame", "START"), ("Bearer sesame", "COMPLETE")]
    assert caplog.messages == []


def test_a_server_that_wants_an_hour_gets_a_second_chance_and_the_sync_goes_on(
    tmp_path: Path, backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    backend.status = 503
    transports = {"a": {"type": "http", "url": f"http://{backend.address}"}}
    (tmp_path / "openlineage.yml").write_text(
        json.dumps({"transport": {"type": "composite", "transports": transports}})
    )

    assert sync(tmp_path, Orders()).ok
    assert [kind for _, kind in backend.seen] == ["START", "START", "COMPLETE", "COMPLETE"]
    assert [r.message[:77] for r in caplog.records if r.name == "cdk"] == [
        "not all events of this sync could be sent to OpenLineage; the sync continues:"
    ]


def test_a_server_that_refuses_is_one_warning_without_secrets(
    tmp_path: Path, backend: Backend, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    backend.status = 401
    monkeypatch.setenv("OPENLINEAGE_URL", f"http://user:hunter3@{backend.address}/sesame/")
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "sesame")

    assert sync(tmp_path, Orders()).ok
    (warning,) = caplog.messages
    assert "HTTPError: 401 Client Error: Unauthorized for url: http://****@127.0.0.1" in warning
    assert "hunter3" not in warning
    assert "sesame" not in warning


def test_settings_that_the_client_cannot_use_are_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "openlineage.yml").write_text("transport: [")

    assert sync(tmp_path, Orders()).ok
    (warning,) = [record.message for record in caplog.records if record.name == "cdk"]
    assert f"{tmp_path}/openlineage.yml" in warning


def test_without_the_client_the_sync_runs_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "openlineage.client", None)

    assert sync(tmp_path, Orders()).ok
    (warning,) = caplog.messages
    assert "install spark-cdk[lineage]" in warning


def test_without_settings_the_client_is_not_even_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "openlineage"]:
        monkeypatch.delitem(sys.modules, name)

    assert sync(tmp_path, Orders()).ok
    assert [name for name in sys.modules if name.startswith("openlineage")] == []


@pytest.mark.parametrize(
    ("environ", "file", "found"),
    [
        ({}, None, False),
        ({"OPENLINEAGE_NAMESPACE": "team"}, None, False),
        ({"OPENLINEAGE_URL": "http://127.0.0.1"}, None, True),
        ({"OPENLINEAGE_CONFIG": "lineage.yml"}, None, True),
        ({"OPENLINEAGE__TRANSPORT__TYPE": "console"}, None, True),
        ({}, "openlineage.yml", True),
        ({}, ".openlineage/openlineage.yml", True),
        ({"OPENLINEAGE_URL": "http://127.0.0.1", "OPENLINEAGE_DISABLED": "True"}, "openlineage.yml", False),
    ],
)
def test_settings_are_found_where_the_client_looks(
    tmp_path: Path, environ: Mapping[str, str], file: str | None, *, found: bool
) -> None:
    if file is not None:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()

    assert configured(environ) is found


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (LocalFolder(Path("/data/orders")), ("file", "/data/orders")),
        (ObjectStoreFolder("s3", "lake", "shop/orders"), ("s3://lake", "shop/orders")),
        (ObjectStoreFolder("s3a", "lake", "orders"), ("s3://lake", "orders")),
        (ObjectStoreFolder("gs", "lake", "orders"), ("gs://lake", "orders")),
        (
            ObjectStoreFolder("abfss", "lake@account.dfs.core.windows.net", "orders"),
            ("abfss://lake@account.dfs.core.windows.net", "orders"),
        ),
    ],
)
def test_tables_have_the_names_that_other_tools_give_them(place: Folder, name: tuple[str, str]) -> None:
    assert _name(place) == name


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_the_page_about_lineage_does_what_it_says(tmp_path: Path) -> None:
    with serving(ShopApi()) as address:
        play(DOCS / "how-to" / "send-lineage.md", tmp_path, address)
