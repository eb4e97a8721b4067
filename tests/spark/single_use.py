"""An API whose refresh tokens work once, streams of it, and syncs that can be killed while they read it."""

import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cdk import Json, Partition, Slice, Source, list_partitions
from cdk.base.task_map import run_inline
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.rest import Authenticator, HttpStream, HttpTransport, OAuth2, PageNumber
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.run_report import SyncResult
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from tests.local_server import QuietHandler, answering

SHELVES, PAGES, PER_PAGE = 6, 3, 2
FIRST = "refresh-token-0-of-the-config"
CLIENT_SECRET = "secret-of-the-client"
ALL = sorted(shelf * 100 + n for shelf in range(SHELVES) for n in range(PAGES * PER_PAGE))


class Login:
    """A token server and an API. A refresh token works once; an access token works for `uses` requests.

    life: seconds after which an access token ends, as the server says.
    calls: token requests. spent: those of them with a refresh token that had been used. reads: requests for pages.
    kill_at: the number of the page request at which the process `victim` is killed, before it is answered.
    """

    def __init__(self, uses: int = 1_000_000, *, single_use: bool = True, life: float = 3600) -> None:
        self.uses, self.single_use, self.life = uses, single_use, life
        self.calls = self.spent = self.reads = self.kill_at = self.victim = 0
        self.refresh, self.address = FIRST, ""
        self.left: dict[str, int] = {}
        self.lock = threading.Lock()

    def token(self, given: str) -> Mapping[str, Json] | None:
        """The answer to a token request; None: it is refused."""
        with self.lock:
            self.calls += 1
            if given != self.refresh:
                self.spent += 1
                return None
            if self.single_use:
                self.refresh = f"refresh-token-{self.calls}-of-the-server"
            access = f"access-token-{self.calls}-of-the-server"
            self.left[access] = self.uses
            return {"access_token": access, "refresh_token": self.refresh, "expires_in": self.life}

    def allowed(self, access: str) -> bool:
        """Count a request for a page, and whether its token is good."""
        with self.lock:
            self.reads += 1
            if self.reads == self.kill_at:
                os.kill(self.victim, signal.SIGKILL)
            self.left[access] = self.left.get(access, 0) - 1
            return self.left[access] >= 0


@contextmanager
def serving(login: Login) -> Iterator[Login]:
    """Have the server answer within the block."""

    class Handler(QuietHandler):
        def do_POST(self) -> None:  # noqa: N802 - the server's name
            form = parse_qs(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
            answer = login.token(form.get("refresh_token", [""])[0])
            self.say(400 if answer is None else 200, answer or {"error": "invalid_grant"})

        def do_GET(self) -> None:  # noqa: N802 - the server's name
            if not login.allowed(str(self.headers["Authorization"]).removeprefix("Bearer ")):
                self.say(401, {"error": "expired"})
                return
            query = parse_qs(urlsplit(self.path).query)
            shelf, page = int(query["shelf"][0]), int(query.get("page", ["1"])[0])
            ids = [shelf * 100 + (page - 1) * PER_PAGE + n for n in range(PER_PAGE)] if page <= PAGES else []
            self.say(200, {"data": [{"id": id} for id in ids]})

        def say(self, status: int, body: Mapping[str, Json]) -> None:
            self.answer(status, json.dumps(body).encode(), {"Content-Type": "application/json"})

    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        login.address = f"http://127.0.0.1:{server.server_address[1]}"
        yield login


class Items(HttpStream):
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}  # noqa: RUF012
    records_path = ("data",)
    paginator = PageNumber(size=PER_PAGE, start=1)

    @property
    def url_base(self) -> str:
        return str(self.config["address"])

    def authenticator(self) -> Authenticator:
        config = self.config
        return OAuth2(
            f"{config['address']}/token",
            client_id="me",
            client_secret=config["client_secret"],
            refresh_token=config["refresh_token"],
        )

    def partitions(self) -> Iterator[Partition]:
        return list_partitions("shelf", range(SHELVES))

    def path(self, slice: Slice) -> str:  # noqa: ARG002
        return "/items"

    def params(self, slice: Slice) -> Mapping[str, Json]:
        return {"shelf": slice.partition["shelf"]}


class MoreItems(Items):
    """Another stream of the same API, with an authenticator of its own."""


class PythonItems(Source):
    stream_classes = (Items, MoreItems)
    config_schema = {  # noqa: RUF012 - as an author writes it
        "type": "object",
        "properties": {
            "address": {"type": "string"},
            "client_secret": {"type": "string", "airbyte_secret": True},
            "refresh_token": {"type": "string", "airbyte_secret": True},
        },
    }


def declared(name: str, authenticator: Mapping[str, Json] | None = None) -> dict[str, Any]:
    return {
        "type": "DeclarativeStream",
        "name": name,
        "retriever": {
            "type": "SimpleRetriever",
            "requester": {
                "type": "HttpRequester",
                "url_base": "{{ config['address'] }}",
                "path": "/items",
                "request_parameters": {"shelf": "{{ stream_partition.shelf }}"},
                "authenticator": authenticator
                or {
                    "type": "OAuthAuthenticator",
                    "token_refresh_endpoint": "{{ config['address'] }}/token",
                    "client_id": "me",
                    "client_secret": "{{ config['client_secret'] }}",
                    "refresh_token": "{{ config['refresh_token'] }}",
                    "refresh_token_updater": {
                        "refresh_token_config_path": ["refresh_token"],
                        "access_token_config_path": ["access_token"],
                        "token_expiry_date_config_path": ["token_expiry_date"],
                    },
                },
            },
            "record_selector": {
                "type": "RecordSelector",
                "extractor": {"type": "DpathExtractor", "field_path": ["data"]},
            },
            "paginator": {
                "type": "DefaultPaginator",
                "page_token_option": {
                    "type": "RequestOption",
                    "inject_into": "request_parameter",
                    "field_name": "page",
                },
                "pagination_strategy": {"type": "PageIncrement", "page_size": PER_PAGE, "start_from_page": 1},
            },
            "partition_router": {
                "type": "ListPartitionRouter",
                "values": [str(n) for n in range(SHELVES)],
                "cursor_field": "shelf",
            },
        },
        "schema_loader": {"type": "InlineSchemaLoader", "schema": Items.schema},
    }


def manifest(authenticator: Mapping[str, Json] | None = None) -> dict[str, Any]:
    return {
        "version": "6.0.0",
        "type": "DeclarativeSource",
        "check": {"type": "CheckStream", "stream_names": ["items"]},
        "streams": [declared("items", authenticator), declared("more_items", authenticator)],
        "spec": {"type": "Spec", "connection_specification": PythonItems.config_schema},
    }


def manifest_items() -> ManifestSource:
    return ManifestSource(Manifest(manifest()), Runtime(transport=HttpTransport()))


FOUR = Workers(run_inline, 4)
SOURCES: Mapping[str, Callable[[], Source]] = {"python": PythonItems, "manifest": manifest_items}


def config(address: str) -> dict[str, Json]:
    return {"address": address, "client_secret": CLIENT_SECRET, "refresh_token": FIRST}


def sync(folder: Path, kind: str, address: str, *, workers: Workers | None = FOUR, interval: float = 0) -> SyncResult:
    """Sync with four tasks, by default a commit for every page."""
    return run(folder, SOURCES[kind](), config(address), workers, interval)


def run(
    folder: Path, source: Source, settings: Mapping[str, Json], workers: Workers | None, interval: float
) -> SyncResult:
    """Sync a source."""
    pipeline = Pipeline(
        name="items",
        source=SourceOptions(connector="items", config=settings),
        target=TargetOptions(path=str(folder)),
        checkpoint_interval=timedelta(seconds=interval),
        concurrency=4,
    )
    return SyncRunner(pipeline, source, workers=workers).run()


def sync_apart(folder: Path, kind: str, login: Login) -> int:
    """Sync in a process of its own, which the server may kill; its exit code."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process = context.Process(target=_apart, args=(folder, kind, login.address))
    process.start()
    assert process.pid is not None
    login.victim = process.pid
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def _apart(folder: Path, kind: str, address: str) -> None:
    raise SystemExit(0 if sync(folder, kind, address).ok else 1)
