"""Streams that a sync reads only where their source has changed; tasks run in this process, and the API is a server."""

import pickle
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from msgspec import structs
from pyspark.sql import SparkSession

from cdk import ConfigError, Json, Record, Slice, Stream, list_partitions
from cdk.base.task_map import run_inline
from cdk.cli.app import run
from cdk.lake.admin.formats import message
from cdk.lake.admin.locate import StreamLocation
from cdk.lake.admin.state_admin import Admin
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_state import TableState
from cdk.lake.storage.folder import LocalFolder
from cdk.rest import Action, HttpErrorHandler, HttpStream, PageNumber, Response
from cdk.rest.conditional_requests import ConditionalStream
from cdk.sources.manifests import manifest_source
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.run_report import SyncResult
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StateOptions, StreamOptions, TargetOptions
from cdk.sync.tables.conditional_state import about_source
from cdk.sync.tasks.workers import Workers
from tests.spark.given_source import Given

NOON = datetime(2024, 5, 12, 12, tzinfo=UTC)
MONDAY, TUESDAY = [{"id": 1, "price": 2}, {"id": 2, "price": 5}], [{"id": 1, "price": 3}]


@dataclass
class File:
    """What the server has at a path. etag: empty for a file that it says nothing of."""

    rows: Sequence[Json] = ()
    etag: str = '"monday"'
    said: str | None = None
    """The ETag of a 304, where it is another."""
    status: int = 200
    matches: bool = True


class Api(ThreadingHTTPServer):
    """Serves files, and keeps what it was asked: the path, the condition, and the status of the answer."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, File] = {"/prices": File(MONDAY)}
        self.asked: list[tuple[str, str | None, int]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def statuses(self) -> list[int]:
        return [status for _, _, status in self.asked]

    def put(self, rows: Sequence[Json], etag: str, path: str = "/prices") -> None:
        self.files[path] = File(rows, etag)


class Handler(BaseHTTPRequestHandler):
    server: Api

    def do_POST(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path, condition = self.path, self.headers.get("If-None-Match")
        file = self.server.files[path.partition("?")[0]]
        same = condition is not None and file.matches and condition in (file.etag, f"W/{file.etag}", file.said)
        status = 304 if same else file.status
        self.server.asked.append((path, condition, status))
        body = b"" if status == 304 else orjson.dumps(list(file.rows))
        self.send_response(status)
        if etag := file.said if same and file.said else file.etag:
            self.send_header("ETag", etag)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def api() -> Iterator[Api]:
    with Api() as server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.serve_forever, poll_interval=0.02)
        try:
            yield server
        finally:
            server.shutdown()


class Prices(HttpStream):
    primary_key = "id"
    schema = {  # noqa: RUF012 - as an author writes it
        "type": "object",
        "properties": {"id": {"type": "integer"}, "price": {"type": "integer"}},
    }

    @property
    def url_base(self) -> str:
        return str(self.config["url"])

    def path(self, slice: Slice) -> str:  # noqa: ARG002
        return "/prices"


class Told(ConditionalStream, Prices):
    """Price lists, as an author writes those that programs follow by themselves as well."""

    name = "prices"


class Shops(Prices):
    """A price list for each shop."""

    def partitions(self) -> Any:
        return list_partitions("shop", ["north", "south"])

    def path(self, slice: Slice) -> str:
        return f"/{slice.partition['shop']}"


class Paged(Prices):
    paginator = PageNumber(size=2)


class Broken(Prices):
    """Fails after its one request, as often as it is told to."""

    name = "prices"

    def parse(self, response: Response, slice: Slice) -> Sequence[Record]:
        if self.config.get("broken"):
            raise ConfigError("the list cannot be read")
        return super().parse(response, slice)


@dataclass(frozen=True)
class Lake:
    """Syncs of streams that are followed, at a moment that a test chooses."""

    folder: Path
    api: Api
    options: Mapping[str, Any] = field(default_factory=dict)
    now: datetime = NOON
    state: Mapping[str, Any] = field(default_factory=dict)
    follow: Json = True
    workers: Workers | None = field(default_factory=lambda: Workers(run_inline, 1))

    def writing(self, mode: str, **options: Any) -> "Lake":
        return replace(self, options={"write_mode": mode, **options})

    def at(self, **later: float) -> "Lake":
        return replace(self, now=self.now + timedelta(**later))

    def runner(self, *streams: Stream, **config: Json) -> SyncRunner:
        options = {"follow_source": self.follow, **self.options}
        pipeline = Pipeline(
            name="shop",
            source=SourceOptions(connector="given", config=config),
            target=TargetOptions(path=str(self.folder / "lake")),
            streams={stream.name: StreamOptions.model_validate(options) for stream in streams},
            state=StateOptions(**self.state),
        )
        return SyncRunner(pipeline, Given(streams), workers=self.workers, clock=lambda: self.now)

    def result(self, *streams: Stream, **config: Json) -> SyncResult:
        return self.runner(*(streams or [self.prices()]), **config).run()

    def sync(self, *streams: Stream, **config: Json) -> StreamReport:
        (report,) = self.result(*streams, **config).streams
        return report

    def prices(self, kind: type[HttpStream] = Prices, **config: Json) -> HttpStream:
        return kind({"url": self.api.url, **config})

    def table(self, name: str = "prices") -> DeltaTable:
        return DeltaTable(str(self.folder / "lake" / name))

    def version(self, name: str = "prices") -> int:
        return int(self.table(name).version())

    def rows(self, name: str = "prices") -> list[tuple[int, int]]:
        files = self.table(name).file_uris()
        return sorted((row["id"], row["price"]) for file in files for row in pq.read_table(file).to_pylist())

    def saved(self, name: str = "prices") -> TableState:
        root = self.folder / "lake" / name
        saved = StreamTable(root, "shop", name, self.table(name).schema().to_arrow()).saved
        assert saved is not None
        return saved

    @property
    def files(self) -> list[tuple[Path, int]]:
        return sorted((path, path.stat().st_mtime_ns) for path in self.folder.rglob("*") if path.is_file())

    @property
    def admin(self) -> tuple[Admin, StreamLocation]:
        target = self.folder / "lake"
        return Admin(LocalFolder(target), "shop"), StreamLocation("prices", LocalFolder(target / "prices"))


@pytest.fixture
def lake(tmp_path: Path, api: Api) -> Lake:
    return Lake(tmp_path, api)


MODES = ["overwrite", "append", "append_dedup"]


def told(report: StreamReport) -> tuple[str, int, int, int]:
    return report.outcome, report.read, report.commits, report.total


@pytest.mark.parametrize("kind", [Prices, Told])
@pytest.mark.parametrize("mode", MODES)
def test_what_has_not_changed_is_not_read_and_nothing_is_committed(
    lake: Lake, api: Api, mode: str, kind: type[HttpStream]
) -> None:
    lake = lake.writing(mode)
    first = lake.sync(lake.prices(kind))
    version, saved, states = lake.version(), lake.saved(), [name for name, _ in lake.files if "_cdk_state" in str(name)]
    result = lake.result(lake.prices(kind))
    (second,) = result.streams

    assert told(first) == ("done", 2, 1, 2)
    assert told(second) == ("unchanged", 0, 0, 2)
    assert (second.generation, second.status, result.ok) == (1, Status.DONE, True)
    assert (lake.version(), lake.saved()) == (version, saved)
    assert [name for name, _ in lake.files if "_cdk_state" in str(name)] == states
    assert api.asked == [("/prices", None, 200), ("/prices", '"monday"', 304)]
    assert lake.rows() == [(1, 2), (2, 5)]
    streams = result.to_json()["streams"]
    assert (result.to_json()["status"], streams[0]["status"], streams[0]["unchanged"]) == ("done", "done", True)


@pytest.mark.parametrize("mode", MODES)
def test_the_report_counts_no_rows_that_another_writer_has_removed(lake: Lake, mode: str) -> None:
    lake = lake.writing(mode)
    lake.sync()
    lake.table().delete("id = 1")

    assert told(lake.sync()) == ("unchanged", 0, 0, 1)


@pytest.mark.parametrize(
    ("mode", "rows", "total"),
    [("overwrite", [(1, 3)], 1), ("append", [(1, 2), (1, 3), (2, 5)], 1), ("append_dedup", [(1, 3), (2, 5)], 2)],
)
def test_what_has_changed_is_read_with_its_new_validator_in_one_commit(
    lake: Lake, api: Api, mode: str, rows: list[tuple[int, int]], total: int
) -> None:
    lake = lake.writing(mode)
    lake.sync()
    lake.sync()
    version = lake.version()
    api.put(TUESDAY, '"tuesday"')
    changed = lake.sync()

    assert (told(changed), changed.generation) == (("done", 1, 1, total), 2)
    assert lake.version() == version + 1
    assert lake.rows() == rows
    assert lake.sync().outcome == "unchanged"
    assert [(condition, status) for _, condition, status in api.asked] == [
        (None, 200),
        ('"monday"', 304),
        ('"monday"', 200),
        ('"tuesday"', 304),
    ]


def test_a_validator_that_moves_alone_is_committed_without_rows_and_once(lake: Lake, api: Api) -> None:
    lake.sync()
    api.files["/prices"].said = 'W/"monday"'
    files = lake.table().file_uris()
    reports = [lake.sync(), lake.sync()]

    assert [told(report) for report in reports] == [("unchanged", 0, 1, 2), ("unchanged", 0, 0, 2)]
    assert [condition for _, condition, _ in api.asked] == [None, '"monday"', 'W/"monday"']
    assert lake.table().file_uris() == files
    assert (lake.saved().generation, lake.saved().complete) == (1, True)


@pytest.mark.parametrize("mode", MODES)
def test_the_same_body_again_is_neither_appended_nor_written(lake: Lake, api: Api, mode: str) -> None:
    lake = lake.writing(mode)
    lake.sync()
    files = lake.table().file_uris()
    api.put(MONDAY, '"monday, once more"')
    report = lake.sync()

    assert (told(report), lake.table().file_uris()) == (("unchanged", 0, 1, 2), files)
    assert lake.sync().commits == 0
    assert api.statuses == [200, 200, 304]


def test_what_was_read_and_not_committed_is_not_remembered(lake: Lake, api: Api) -> None:
    lake.sync()
    api.put(TUESDAY, '"tuesday"')

    def cut(work: Any, items: Any) -> Any:
        run_inline(work, items)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace(lake, workers=Workers(cut, 1)).sync()
    assert lake.rows() == [(1, 2), (2, 5)]
    assert told(lake.sync()) == ("done", 1, 1, 1)
    assert lake.rows() == [(1, 3)]
    assert [condition for _, condition, _ in api.asked] == [None, '"monday"', '"monday"']


@pytest.mark.parametrize("mode", MODES)
def test_an_answer_whose_rows_could_not_be_read_is_not_remembered(lake: Lake, api: Api, mode: str) -> None:
    lake = lake.writing(mode)
    failed = lake.sync(lake.prices(Broken, broken=True))
    again = lake.sync(lake.prices(Broken))

    assert (failed.status, told(again)) == (Status.FAILED, ("done", 2, 1, 2))
    api.put(TUESDAY, '"tuesday"')
    assert lake.sync(lake.prices(Broken, broken=True)).status is Status.FAILED
    assert lake.rows() == [(1, 2), (2, 5)]
    assert lake.sync(lake.prices(Broken)).outcome == "done"
    assert api.statuses == [200] * 4


def test_after_a_failure_a_source_that_has_not_changed_since_leaves_the_table_as_it_is(lake: Lake, api: Api) -> None:
    lake.sync()
    api.files["/prices"].status, api.files["/prices"].matches = 404, False
    assert lake.sync().status is Status.FAILED

    api.put(MONDAY, '"monday"')
    assert told(lake.sync()) == ("unchanged", 0, 0, 2)
    assert lake.rows() == [(1, 2), (2, 5)]


@pytest.mark.parametrize("options", [{"write_mode": "overwrite"}, {"write_mode": "append_dedup", "remove_stale": {}}])
def test_several_slices_are_refused_before_any_is_read_where_the_rows_of_some_would_leave(
    lake: Lake, api: Api, options: Mapping[str, Any]
) -> None:
    report = replace(lake, options=options).sync(lake.prices(Shops))

    assert report.failure is not None
    assert "found several slices, expected one" in report.failure.message
    assert "streams.shops.follow_source" in report.failure.message
    assert (report.failure.failure_type, api.asked) == ("config_error", [])


@pytest.mark.parametrize(
    ("mode", "rows"), [("append", [(1, 2), (2, 5), (3, 1), (3, 4)]), ("append_dedup", [(1, 2), (2, 5), (3, 4)])]
)
def test_of_several_slices_those_that_have_changed_are_read(
    lake: Lake, api: Api, mode: str, rows: list[tuple[int, int]]
) -> None:
    lake = lake.writing(mode)
    api.put(MONDAY, '"n1"', "/north")
    api.put([{"id": 3, "price": 1}], '"s1"', "/south")
    lake.sync(lake.prices(Shops))
    assert told(lake.sync(lake.prices(Shops))) == ("unchanged", 0, 0, 3)

    api.put([{"id": 3, "price": 4}], '"s2"', "/south")
    changed = lake.sync(lake.prices(Shops))
    assert (changed.outcome, changed.read, lake.rows("shops")) == ("done", 1, rows)
    assert lake.sync(lake.prices(Shops)).outcome == "unchanged"
    # The two may be read at once, so that either is asked first.
    north, south = ([code for path, _, code in api.asked if path == shop] for shop in ("/north", "/south"))
    assert (north, south) == ([200, 304, 304, 304], [200, 304, 200, 304])


def test_a_read_of_several_slices_that_was_cut_goes_on_with_what_is_known_of_the_others(lake: Lake, api: Api) -> None:
    lake = lake.writing("append")
    api.put(MONDAY, '"n1"', "/north")
    api.put([{"id": 3, "price": 1}], '"s1"', "/south")
    lake.sync(lake.prices(Shops))
    api.put(TUESDAY, '"n2"', "/north")
    api.files["/south"].status, api.files["/south"].matches = 404, False
    assert lake.sync(lake.prices(Shops)).status is Status.FAILED
    assert lake.rows("shops") == [(1, 2), (1, 3), (2, 5), (3, 1)]

    api.put([{"id": 3, "price": 1}], '"s1"', "/south")
    del api.asked[:]
    rest = lake.sync(lake.prices(Shops))
    assert (rest.outcome, rest.resumed, api.asked) == ("done", True, [("/south", '"s1"', 304)])
    assert lake.sync(lake.prices(Shops)).outcome == "unchanged"
    assert lake.rows("shops") == [(1, 2), (1, 3), (2, 5), (3, 1)]


@pytest.mark.parametrize("resumable", [True, False])
def test_a_next_page_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch, *, resumable: bool) -> None:
    monkeypatch.setattr(Paged, "supports_checkpointing", resumable)
    report = lake.sync(lake.prices(Paged))

    assert report.failure is not None
    assert ("one page per slice" if resumable else "second request") in report.failure.message
    assert "follow_source" in report.failure.message
    assert (report.read, lake.table("paged").file_uris()) == (0, [])


def test_a_preview_asks_without_conditions_and_writes_nothing(lake: Lake, api: Api) -> None:
    lake.sync()
    before = lake.files
    runner = lake.runner(lake.prices())
    (preview,) = runner.preview(1)
    (dry,) = runner.preview(0)

    assert ([dict(record) for record in preview.records], dry.records) == ([MONDAY[0]], [])
    assert list(runner.notes()) == ["prices: followed, a sync would read it only if its source has changed"]
    assert (lake.files, api.asked[1:]) == (before, [("/prices", None, 200)])
    assert lake.sync().outcome == "unchanged"


def test_a_sync_that_ignores_the_old_state_asks_without_conditions(lake: Lake, api: Api) -> None:
    lake.sync()
    report = replace(lake, state={"ignore_old_state": True}).sync()

    assert (report.outcome, report.read) == ("done", 2)
    assert [condition for _, condition, _ in api.asked] == [None, None]


def test_a_stream_that_was_reset_or_rolled_back_is_read_again(lake: Lake, api: Api) -> None:
    lake.sync()
    admin, prices = lake.admin
    admin.reset(prices)
    assert lake.sync().read == 2

    api.put(TUESDAY, '"tuesday"')
    lake.sync()
    admin.rollback(prices, 3)
    api.put(MONDAY, '"monday"')
    assert told(lake.sync()) == ("done", 2, 1, 2)
    assert lake.rows() == [(1, 2), (2, 5)]
    assert [condition for _, condition, _ in api.asked] == [None, None, '"monday"', None]


def test_a_table_that_was_restored_goes_on_from_its_own_validator(lake: Lake, api: Api) -> None:
    lake.sync()
    version = lake.version()
    api.put(TUESDAY, '"tuesday"')
    lake.sync()
    lake.table().restore(version)
    api.put(MONDAY, '"monday"')

    assert (lake.sync().outcome, lake.rows()) == ("unchanged", [(1, 2), (2, 5)])


@pytest.mark.parametrize(
    "later",
    [{"options": {"write_mode": "append"}}, {"options": {"schema": "discard"}}, {"options": {"primary_key": "price"}}],
)
def test_what_decides_about_the_rows_makes_a_read_when_it_changes(
    lake: Lake, api: Api, later: Mapping[str, Any]
) -> None:
    lake.sync()

    assert replace(lake, **later).sync().read == 2
    assert [condition for _, condition, _ in api.asked] == [None, None]


def test_another_config_makes_a_read_and_another_secret_does_not(lake: Lake) -> None:
    lake.result(key="one", region="eu")

    assert lake.sync(key="two", region="eu").outcome == "unchanged"
    assert lake.sync(key="two", region="us").outcome == "done"
    said = orjson.dumps(lake.saved().source).decode()
    assert ("two" in said, "127.0.0.1" in said) == (False, False)


_PRICES_FILE = """
from cdk.rest import RestSource, resource

source = RestSource("URL", resource("prices", "/prices", primary_key="id"))
"""
_FILTERED = """
from cdk.rest import RestSource, resource

source = RestSource("URL", resource("prices", "/prices", primary_key="id", record_filter={"id": 1}))
"""
_PRICES_MANIFEST = """
version: 6.48.0
type: DeclarativeSource
check: {type: CheckStream, stream_names: [prices]}
streams:
  - type: DeclarativeStream
    name: prices
    primary_key: id
    schema_loader: {type: InlineSchemaLoader, schema: {}}
    retriever:
      type: SimpleRetriever
      requester: {type: HttpRequester, url_base: "URL", path: prices}
      record_selector: {type: RecordSelector, extractor: {type: DpathExtractor, field_path: []}}
"""
_FILTERING = "FILTER, extractor".replace(
    "FILTER", "record_filter: {type: RecordFilter, condition: '{{ record.id == 1 }}'}"
)


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("followed_prices.py", _PRICES_FILE, _FILTERED),
        ("followed_prices.yaml", _PRICES_MANIFEST, _PRICES_MANIFEST.replace("extractor", _FILTERING, 1)),
    ],
)
def test_a_connector_that_has_changed_makes_a_read(
    tmp_path: Path, api: Api, file: str, before: str, after: str
) -> None:
    key = "manifest" if file.endswith(".yaml") else "connector"
    pipeline = tmp_path / "pipeline.yaml"
    stream = "{write_mode: overwrite, follow_source: true}"
    pipeline.write_text(
        f"name: shop\nsource: {{{key}: {file}, config: {{}}}}\ntarget: {{path: lake}}\n"
        f"streams: {{prices: {stream}}}\nspark: {{start: never}}\n"
    )

    for text, rows in ((before, [1, 2]), (before, [1, 2]), (after, [1])):
        (tmp_path / file).write_text(text.replace("URL", api.url))
        assert run(["sync", str(pipeline)]) == 0
        assert sorted(DeltaTable(str(tmp_path / "lake" / "prices")).to_pyarrow_table()["id"].to_pylist()) == rows

    assert api.statuses == [200, 304, 200]


def test_code_that_is_in_no_file_is_followed(lake: Lake) -> None:
    class Typed(Prices):
        name = "prices"

        def code_file(self) -> str:
            return "kit.zip/prices.py"

    assert [lake.sync(lake.prices(Typed)).outcome for _ in range(2)] == ["done", "unchanged"]


def test_rows_that_were_written_without_following_are_not_taken_for_known(lake: Lake, api: Api) -> None:
    lake.sync()
    api.put(TUESDAY, '"tuesday"')
    replace(lake, follow=False).sync()
    api.put(MONDAY, '"monday"')

    assert (lake.sync().outcome, lake.rows()) == ("done", [(1, 2), (2, 5)])
    assert [condition for _, condition, _ in api.asked] == [None, None, None]


def test_a_request_that_a_read_did_not_make_is_forgotten(lake: Lake, api: Api) -> None:
    class Dated(Prices):
        name = "prices"

        def path(self, slice: Slice) -> str:  # noqa: ARG002
            return str(self.config["day"])

    api.put(MONDAY, '"same"', "/monday")
    api.put(TUESDAY, '"same"', "/tuesday")
    for day in ("/monday", "/tuesday", "/monday"):
        assert lake.sync(lake.prices(Dated, day=day)).outcome == "done"

    assert lake.rows() == [(1, 2), (2, 5)]


def test_an_answer_that_is_ignored_is_not_taken_for_the_one_before(lake: Lake, api: Api) -> None:
    class Lenient(Prices):
        name = "prices"
        error_handler = HttpErrorHandler({404: Action.IGNORE})

    lake = lake.writing("overwrite", remove_stale={"allow_empty": True})
    lake.sync(lake.prices(Lenient))
    api.files["/prices"] = File(status=404, matches=False)
    assert (lake.sync(lake.prices(Lenient)).outcome, lake.rows()) == ("done", [])

    api.put(MONDAY, '"monday"')
    assert (lake.sync(lake.prices(Lenient)).outcome, lake.rows()) == ("done", [(1, 2), (2, 5)])


def test_a_stream_without_slices_is_complete(lake: Lake) -> None:
    class Closed(Shops):
        def partitions(self) -> Any:
            return []

    lake = lake.writing("append")
    assert [lake.sync(lake.prices(Closed)).outcome for _ in range(2)] == ["done", "done"]
    assert lake.saved("closed").complete


def test_a_server_is_believed_for_as_long_as_the_pipeline_says(lake: Lake, api: Api) -> None:
    lake = replace(lake, follow={"max_validator_age": "6h"})
    lake.sync()

    assert lake.at(hours=5).sync().commits == 0
    assert told(lake.at(hours=6).sync()) == ("unchanged", 0, 1, 2)
    assert lake.at(hours=11).sync().commits == 0
    assert [condition for _, condition, _ in api.asked] == [None, '"monday"', None, '"monday"']


@pytest.mark.parametrize(("uncacheable", "asked"), [("read", 2), ("skip", 1)])
def test_an_answer_without_validators_is_compared_or_not_asked_for(
    lake: Lake, api: Api, uncacheable: str, asked: int
) -> None:
    api.put(MONDAY, "")
    lake = replace(lake, follow={"uncacheable": uncacheable})
    lake.sync()

    assert lake.at(hours=1).sync().outcome == "unchanged"
    assert api.statuses == [200] * asked
    api.put(TUESDAY, "")
    assert lake.at(hours=26).sync().outcome == "done"
    assert lake.rows() == [(1, 3)]


def test_rows_that_are_gone_leave_when_the_source_changes_and_stay_while_it_does_not(lake: Lake, api: Api) -> None:
    lake = lake.writing("append_dedup", remove_stale={"removal": "hard", "fail_safe_threshold": 100})
    lake.sync()
    same = lake.sync()
    assert (same.outcome, same.stale, lake.rows()) == ("unchanged", None, [(1, 2), (2, 5)])

    api.put(TUESDAY, '"tuesday"')
    changed = lake.sync()
    assert changed.stale is not None
    assert (changed.stale.previous, changed.stale.removed, lake.rows()) == (2, 1, [(1, 3)])
    assert lake.sync().outcome == "unchanged"
    assert api.statuses == [200, 304, 200, 304]


def test_a_removal_that_was_refused_is_refused_again_while_the_source_stays_the_same(lake: Lake, api: Api) -> None:
    lake = lake.writing("append_dedup", remove_stale={"removal": "hard", "fail_safe_min": 0})
    lake.sync()
    api.put([], '"nothing"')
    refused = [lake.sync().failure, lake.sync().failure]

    assert [failure is not None for failure in refused] == [True, True]
    assert lake.rows() == [(1, 2), (2, 5)]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("nonsense", "kind, version and value"),
        ({"kind": "cdk/file-set", "version": 1, "value": {}}, "kind"),
        ({"kind": "cdk/http-validators", "version": 2, "value": {}}, "version"),
        ({"kind": "cdk/http-validators", "version": 1, "value": {"requests": []}}, "requests"),
        ({"kind": "cdk/http-validators", "version": 1, "value": {"requests": {}}, "earlier": 7}, "requests"),
    ],
)
def test_nonsense_in_the_state_fails_the_stream_before_the_source_is_asked(
    lake: Lake, api: Api, source: Json, words: str
) -> None:
    lake.sync()
    put(lake, source)
    report = lake.sync()

    assert report.failure is not None
    assert "source of prices" in report.failure.message
    assert words in report.failure.message
    assert len(api.asked) == 1


def test_what_another_kit_knows_of_a_source_is_carried_along_by_syncs_that_do_not_follow(lake: Lake) -> None:
    lake = replace(lake, follow=False)
    lake.sync()
    put(lake, other := {"kind": "theirs/cursor", "version": 3, "value": ["a"], "more": 1})
    lake.sync()

    assert lake.saved().source == other


def test_people_are_told_what_is_known_of_a_source(lake: Lake) -> None:
    lake.sync()
    (line,) = about_source(lake.saved().source)

    assert line.startswith("source sha256:")
    assert line.endswith(': "monday", read at 2024-05-12T12:00:00.000+00:00')
    assert list(about_source(None)) == []
    assert list(about_source({"kind": "theirs/cursor"})) == [
        "source: theirs/cursor that this version does not understand"
    ]
    assert list(about_source(7)) == ["source: a state that this version does not understand"]


def test_a_message_of_the_state_leaves_the_source_out(lake: Lake) -> None:
    lake.sync()

    assert message(lake.admin[1], lake.saved(), exact=True) == {
        "type": "STREAM",
        "stream": {"stream_descriptor": {"name": "prices"}, "stream_state": lake.saved().state},
    }


def test_too_many_requests_to_remember_fail_the_stream_and_commit_nothing(lake: Lake) -> None:
    report = replace(lake, state={"max_checkpoint_state_size": 100}).sync()

    assert report.failure is not None
    assert "expected at most 100; " in report.failure.message
    assert lake.rows() == []


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({}, {"sync_mode": "incremental"}, "has no cursor"),
        ({"http_method": "POST"}, {}, "sends POST"),
        ({"cursor_field": "id"}, {"sync_mode": "incremental"}, "use full_refresh"),
    ],
)
def test_a_stream_that_cannot_be_followed_is_refused_before_anything_runs(
    lake: Lake, api: Api, change: Mapping[str, Any], options: Mapping[str, Any], words: str
) -> None:
    prices = lake.prices()
    for name, value in change.items():
        setattr(prices, name, value)
    with pytest.raises(ConfigError, match=words):
        replace(lake, options=options).sync(prices)
    assert (api.asked, (lake.folder / "lake").exists()) == ([], False)


MANIFEST = """
version: "7.0.0"
type: DeclarativeSource
check: {type: CheckStream, stream_names: [prices]}
streams:
  - type: DeclarativeStream
    name: prices
    primary_key: [id]
    retriever:
      type: SimpleRetriever
      requester: {type: HttpRequester, url_base: "URL", path: prices, http_method: METHOD}
      record_selector: {type: RecordSelector, extractor: {type: DpathExtractor, field_path: []}}
    schema_loader:
      type: InlineSchemaLoader
      schema: {type: object, properties: {id: {type: integer}, price: {type: integer}}}
"""


def from_manifest(folder: Path, api: Api, method: str = "GET") -> Stream:
    path = folder / "manifest.yaml"
    path.write_text(MANIFEST.replace("URL", api.url).replace("METHOD", method))
    (stream,) = manifest_source(path).streams({})
    # As a task gets it.
    return pickle.loads(pickle.dumps(stream))  # type: ignore[no-any-return]  # noqa: S301 - our own


def test_a_stream_of_a_manifest_is_followed(lake: Lake, api: Api, tmp_path: Path) -> None:
    first = lake.sync(from_manifest(tmp_path, api))
    version = lake.version()
    second = lake.sync(from_manifest(tmp_path, api))
    api.put(TUESDAY, '"tuesday"')
    third = lake.sync(from_manifest(tmp_path, api))

    assert (told(first), told(second)) == (("done", 2, 1, 2), ("unchanged", 0, 0, 2))
    assert (told(third), lake.rows()) == (("done", 1, 1, 1), [(1, 3)])
    assert (api.statuses, lake.version()) == ([200, 304, 200], version + 1)


def test_a_stream_of_a_manifest_that_sends_no_get_fails_and_says_why(lake: Lake, api: Api, tmp_path: Path) -> None:
    report = lake.sync(from_manifest(tmp_path, api, "POST"))

    assert report.failure is not None
    assert "sends a GET request per slice, but this one sent none" in report.failure.message
    assert report.commits == 0


def test_a_stream_without_http_of_its_own_is_refused(lake: Lake) -> None:
    class Rows(Stream):
        def read_records(self, slice: Slice) -> Iterator[Record]:  # noqa: ARG002
            yield {"id": 1}

    with pytest.raises(ConfigError, match=r"streams\.rows\.follow_source: found a Rows, expected an HttpStream"):
        lake.sync(Rows({}))


def test_other_streams_of_a_followed_class_and_the_stream_itself_stay_as_they_are(lake: Lake, api: Api) -> None:
    prices = lake.prices()
    lake.sync(prices)
    page = prices.read_page(Slice(), None)

    assert (len(page.records), prices.transport) == (2, Prices.transport)
    assert api.asked[1] == ("/prices", None, 200)


@pytest.mark.spark
def test_on_spark_what_a_task_learned_comes_back_with_its_rows(lake: Lake, api: Api, session: SparkSession) -> None:  # noqa: ARG001 - started
    lake = replace(lake, workers=None)
    reports = [lake.sync(lake.prices(Told)), lake.sync(lake.prices(Told))]
    api.put(TUESDAY, '"tuesday"')
    reports.append(lake.sync(lake.prices(Told)))

    assert [told(report) for report in reports] == [("done", 2, 1, 2), ("unchanged", 0, 0, 2), ("done", 1, 1, 1)]
    assert lake.rows() == [(1, 3)]
    assert api.statuses == [200, 304, 200]


def put(lake: Lake, source: Json) -> None:
    """Have the table's state say something else of the source."""
    root = lake.folder / "lake" / "prices"
    table = StreamTable(root, "shop", "prices", lake.table().schema().to_arrow())
    assert table.saved is not None
    table.commit(structs.replace(table.saved, source=source))
