"""Access tokens that the API refuses before the time that the token server says: where they help on, and where not."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from threading import Lock
from urllib.parse import parse_qs, urlsplit

import pytest
from deltalake import DeltaTable

from cdk import Json, Partition, Slice, Source, list_partitions
from cdk.base.process.request_lease import current_lease
from cdk.base.task_map import run_inline
from cdk.engine.read import read
from cdk.rest import Authenticator, Headers, HttpStream, OAuth2, PageNumber, Request, Response
from cdk.state.stream_state import StreamState
from cdk.sync.loop.runner import SyncRunner
from cdk.sync.reports.run_report import SyncResult
from cdk.sync.reports.stream_report import StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from tests.rest.api import NOON

SHELVES, PAGES, PER_PAGE = 6, 4, 2
ALL = [100 * shelf + n for shelf in range(SHELVES) for n in range(PAGES * PER_PAGE - 1)]
MOST_TOKENS = 100
"""More than any of these reads needs: the token server then refuses, so that none goes on for ever."""


class Api:
    """A token server and an API, as a transport. Access tokens are to last an hour, and work for `life` seconds.

    A page takes a second, and time passes with nothing else. rotates: a refresh token works once. tokens: how many
    were given.
    """

    def __init__(self, life: int, *, rotates: bool = True) -> None:
        self.life, self._rotates = timedelta(seconds=life), rotates
        self.now, self.tokens, self._refresh = NOON, 0, "refresh-0"
        self._ends, self._lock = dict[str, datetime](), Lock()

    def clock(self) -> datetime:
        return self.now

    def send(self, request: Request) -> Response:
        url = urlsplit(request.full_url)
        if url.path == "/token":
            status, body = self._token(parse_qs((request.body or b"").decode()))
        elif url.path == "/closed" or not self._accepts(request.headers["Authorization"]):
            status, body = 401, {"error": "no"}
        else:
            query = {name: int(values[0]) for name, values in parse_qs(url.query).items()}
            page = query.get("page", 1)
            first = 100 * query["shelf"] + (page - 1) * PER_PAGE
            status, body = 200, {"data": [{"id": first + n} for n in range(PER_PAGE - (page == PAGES))]}
        headers = Headers({"Content-Type": "application/json"})
        return Response(status, headers, json.dumps(body).encode(), request.full_url, request)

    def _token(self, form: Mapping[str, list[str]]) -> tuple[int, Mapping[str, Json]]:
        if form["refresh_token"] != [self._refresh] or self.tokens == MOST_TOKENS:
            return 400, {"error": "invalid_grant"}
        self.tokens += 1
        if self._rotates:
            self._refresh = f"refresh-{self.tokens}"
        self._ends[f"Bearer access-{self.tokens}"] = self.now + self.life
        return 200, {"access_token": f"access-{self.tokens}", "refresh_token": self._refresh, "expires_in": 3600}

    def _accepts(self, token: str) -> bool:
        with self._lock:
            accepted = self.now < self._ends[token]
            self.now += timedelta(seconds=accepted)
            return accepted


class Items(HttpStream):
    """Shelves of four pages, each read in four requests."""

    name = "items"
    primary_key = "id"
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}  # noqa: RUF012
    records_path = ("data",)
    paginator = PageNumber(size=PER_PAGE, start=1)
    url_base = "https://api.test"

    def __init__(self, api: Api) -> None:
        super().__init__()
        self.transport = self._api = api

    def authenticator(self) -> Authenticator:
        return OAuth2(
            "https://api.test/token",
            client_id="me",
            client_secret="s",
            refresh_token="refresh-0",
            clock=self._api.clock,
        )

    def partitions(self) -> Iterator[Partition]:
        return list_partitions("shelf", range(SHELVES))

    def path(self, slice: Slice) -> str:  # noqa: ARG002
        return "/items"

    def params(self, slice: Slice) -> Mapping[str, Json]:
        return {"shelf": slice.partition["shelf"]}


class WholeItems(Items):
    """Their slices have no checkpoints in the middle."""

    name = "items"
    supports_checkpointing = False


class MoreItems(WholeItems):
    name = "more_items"


class Closed(Items):
    """The login may not read it, which the API says in the words that it has for any token."""

    name = "closed"

    def path(self, slice: Slice) -> str:  # noqa: ARG002
        return "/closed"


class Given(Source):
    def __init__(self, *streams: HttpStream) -> None:
        self._given = streams

    def streams(self, config: Mapping[str, Json]) -> list[HttpStream]:  # noqa: ARG002
        return list(self._given)


def sync(
    folder: Path, *streams: HttpStream, concurrency: int = 1, tasks: int = 1, max_requests: int | None = None
) -> SyncResult:
    pipeline = Pipeline(
        name="items",
        source=SourceOptions(connector="items"),
        target=TargetOptions(path=str(folder)),
        streams={stream.name: StreamOptions(write_mode="append") for stream in streams},
        checkpoint_interval=timedelta(seconds=30),
        concurrency=concurrency,
        max_requests=max_requests,
    )
    return SyncRunner(pipeline, Given(*streams), workers=Workers(run_inline, tasks)).run()


def ids(folder: Path, name: str = "items") -> list[int]:
    return sorted(DeltaTable(folder / name).to_pyarrow_table()["id"].to_pylist())


def failure(report: StreamReport) -> str:
    assert report.failure is not None
    assert report.failure.failure_type == "config_error"
    return report.failure.message


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("life", [1, 2, 3])
def test_a_read_whose_slices_say_checkpoints_goes_on_with_one_token_after_the_other(
    life: int, tasks: int, tmp_path: Path
) -> None:
    api = Api(life)

    assert sync(tmp_path, Items(api), tasks=tasks).ok
    assert ids(tmp_path) == ALL


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("most", [2, 3, 7, 100])
def test_a_login_is_one_of_the_requests_that_a_run_may_send(most: int, tasks: int, tmp_path: Path) -> None:
    class Counted(Api):
        def send(self, request: Request) -> Response:
            current_lease().count()
            return super().send(request)

    api, runs = Counted(3600, rotates=False), 1
    while not sync(tmp_path, Items(api), tasks=tasks, max_requests=most).ok:
        runs += 1
        assert runs <= SHELVES * PAGES

    # Of each run all requests but one bring a page, and one page may be asked for again.
    assert runs <= -(-SHELVES * PAGES // max(most - 2, 1))
    assert ids(tmp_path) == ALL


@pytest.mark.parametrize(("life", "concurrency"), [(4, 1), (5, 1), (7, 1), (11, 3)])
def test_a_slice_that_begins_again_and_fits_into_a_token_is_read(life: int, concurrency: int, tmp_path: Path) -> None:
    api = Api(life)

    assert sync(tmp_path, WholeItems(api), concurrency=concurrency).ok
    assert ids(tmp_path) == ALL


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("life", [1, 2, 3])
def test_slices_that_fit_into_no_token_are_an_error(life: int, concurrency: int, tmp_path: Path) -> None:
    api = Api(life)

    (report,) = sync(tmp_path, WholeItems(api), concurrency=concurrency).streams

    assert failure(report).startswith('{"shelf":0}: found 3 access tokens in a row')
    assert f"after {life}, {life}, {life} s" in failure(report)
    assert (api.tokens, report.written) == (3, 0)


@pytest.mark.parametrize("tasks", [1, 2])
def test_such_an_error_keeps_no_other_stream_from_its_end_and_the_next_sync_reads_each_row_once(
    tasks: int, tmp_path: Path
) -> None:
    api = Api(3)

    failed, items = sync(tmp_path, MoreItems(api), Items(api), tasks=tasks).streams

    assert "access tokens in a row" in failure(failed)
    assert items.failure is None
    api.life = timedelta(hours=1)
    assert sync(tmp_path, MoreItems(api), tasks=tasks).ok
    assert ids(tmp_path) == ids(tmp_path, "more_items") == ALL


@pytest.mark.parametrize("life", [1, 2, 3])
def test_a_slice_reads_on_with_the_next_token_where_the_refresh_token_works_again(life: int, tmp_path: Path) -> None:
    api = Api(life, rotates=False)

    assert sync(tmp_path, WholeItems(api)).ok
    assert ids(tmp_path) == ALL


@pytest.mark.parametrize("rotates", [True, False])
@pytest.mark.parametrize("stream", [Items, WholeItems])
def test_a_stream_that_the_login_may_not_read_keeps_no_other_from_its_end(
    stream: type[Items], *, rotates: bool, tmp_path: Path
) -> None:
    api = Api(1000, rotates=rotates)

    closed, items = sync(tmp_path, Closed(api), stream(api), concurrency=6).streams

    assert failure(closed)
    assert items.failure is None
    assert ids(tmp_path) == ALL


@pytest.mark.parametrize("rotates", [True, False])
@pytest.mark.parametrize("life", [1, 2, 3])
def test_a_read_in_one_process_gets_each_token_itself(life: int, *, rotates: bool) -> None:
    stream = WholeItems(Api(life, rotates=rotates))

    pages = [item for item in read(stream, StreamState()) if not isinstance(item, StreamState)]

    assert [record["id"] for page in pages for record in page] == ALL
