"""Worlds of syncs that may send few requests each: in the end every row is there once, and full refreshes are done."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk import Json, Record
from cdk.base.process.request_lease import current_lease
from cdk.base.task_map import run_inline
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.rest import Headers, Request, Response
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.stream_report import Status
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from tests.worlds.table import rows

URL = "https://things.test"
NOW = datetime(2024, 2, 1, tzinfo=UTC)
SIZE = 2
LISTING = 6
"""Requests that list the parents at most: those of the page where a sync was interrupted, and again from their edge."""
MODES = {"append": "incremental", "append_dedup": "incremental", "overwrite": "full_refresh"}


def option(name: str) -> Mapping[str, Json]:
    return {"type": "RequestOption", "inject_into": "request_parameter", "field_name": name}


@dataclass(eq=False)
class World:
    """A source that stays as it is, and how it is read.

    things: how many each parent has. days: when each parent changed last. router: what names the partitions.
    delegates: it is read in full first, where the source gives all, whatever is asked for since when.
    """

    things: Sequence[int]
    days: Sequence[int]
    router: str
    has_cursor: bool
    delegates: bool = False

    def send(self, request: Request) -> Response:
        current_lease().count()
        query = dict(part.split("=") for part in request.full_url.partition("?")[2].split("&") if part)
        if "/parents" in request.full_url:
            listed = enumerate(self.days[: len(self.things)], start=1)
            found: list[Record] = [{"id": n, "on": f"2024-01-{day:02}"} for n, day in listed]
        else:
            parent = int(query["parent"])
            found = [
                {"id": 100 * parent + n, "parent": parent, "on": f"2024-01-{1 + n:02}"}
                for n in range(self.things[parent - 1])
            ]
        if "/all" not in request.full_url:
            found = [record for record in found if record["on"] >= query.get("since", "")]
        begin = SIZE * (int(query.get("page", 1)) - 1)
        body = {"data": found[begin : begin + SIZE]}
        return Response(200, Headers({}), json.dumps(body).encode(), request.full_url, request)

    @property
    def ids(self) -> list[int]:
        return [100 * (1 + parent) + n for parent, count in enumerate(self.things) for n in range(count)]

    @property
    def longest(self) -> int:
        """Requests that the longest partition takes."""
        return max(self.things) // SIZE + 1

    def source(self) -> ManifestSource:
        stream = self._stream("things", self._routers(), has_cursor=self.has_cursor)
        if self.delegates:
            stream = {
                "type": "StateDelegatingStream",
                "name": "things",
                "full_refresh_stream": self._stream("things", self._routers(), path="all", has_cursor=self.has_cursor),
                "incremental_stream": self._stream("things", self._routers(), has_cursor=True),
            }
        streams = [stream]
        check = {"type": "CheckStream", "stream_names": ["things"]}
        manifest = Manifest({"version": "6.0.0", "check": check, "streams": streams})
        return ManifestSource(manifest, Runtime(transport=self, clock=lambda: NOW))

    def _routers(self) -> Json:
        if self.router == "list":
            values = [f"{1 + n}" for n in range(len(self.things))]
            listed = {"type": "ListPartitionRouter", "cursor_field": "parent", "values": values}
            return {**listed, "request_option": option("parent")}
        follows = self.router == "followed"
        config = {
            "type": "ParentStreamConfig",
            "stream": self._stream("parents", None, has_cursor=follows),
            "parent_key": "id",
            "partition_field": "parent",
            "request_option": option("parent"),
            "incremental_dependency": follows,
        }
        return {"type": "SubstreamPartitionRouter", "parent_stream_configs": [config]}

    @staticmethod
    def _stream(name: str, router: Json, *, has_cursor: bool, path: str = "") -> dict[str, Json]:
        cursor = {
            "type": "DatetimeBasedCursor",
            "cursor_field": "on",
            "datetime_format": "%Y-%m-%d",
            "start_datetime": "2024-01-01",
            "start_time_option": option("since"),
        }
        integers = {name: {"type": "integer"} for name in ("id", "parent")}
        return {
            "type": "DeclarativeStream",
            "name": name,
            "primary_key": "id",
            "retriever": {
                "type": "SimpleRetriever",
                "requester": {"type": "HttpRequester", "url": f"{URL}/{path or name}"},
                "record_selector": {
                    "type": "RecordSelector",
                    "extractor": {"type": "DpathExtractor", "field_path": ["data"]},
                },
                "paginator": {
                    "type": "DefaultPaginator",
                    "pagination_strategy": {"type": "PageIncrement", "page_size": SIZE, "start_from_page": 1},
                    "page_token_option": option("page"),
                },
                **({} if router is None else {"partition_router": router}),
            },
            **({"incremental_sync": cursor} if has_cursor else {}),
            "schema_loader": {"type": "InlineSchemaLoader", "schema": {"properties": integers}},
        }


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=6),
    st.lists(st.integers(1, 3), min_size=6, max_size=6),
    st.sampled_from(["list", "parents", "followed"]),
    st.sampled_from(sorted(MODES)),
    st.booleans(),
    st.booleans(),
    st.integers(0, 5),
    st.integers(1, 2),
)
@example(
    things=[2] * 6, days=[1] * 6, router="list", mode="overwrite", has_cursor=True, delegates=False, spare=0, tasks=1
)
@example(
    things=[2] * 6, days=[1] * 6, router="followed", mode="append", has_cursor=True, delegates=False, spare=0, tasks=1
)
@example(things=[5], days=[1] * 6, router="list", mode="append", has_cursor=True, delegates=True, spare=0, tasks=1)
@example(
    things=[5] * 3, days=[1] * 6, router="list", mode="overwrite", has_cursor=False, delegates=True, spare=0, tasks=1
)
@settings(max_examples=25, deadline=None)
def test_syncs_of_a_few_requests_each_read_every_row_once_and_full_refreshes_end(  # noqa: PLR0917 - as the world is
    tmp_path_factory: pytest.TempPathFactory,
    things: list[int],
    days: list[int],
    router: str,
    mode: str,
    has_cursor: bool,  # noqa: FBT001 - drawn
    delegates: bool,  # noqa: FBT001
    spare: int,
    tasks: int,
) -> None:
    folder, has_cursor = tmp_path_factory.mktemp("lake"), has_cursor or MODES[mode] == "incremental"
    world = World(things, days, router, has_cursor, delegates)
    pipeline = Pipeline(
        name="world",
        source=SourceOptions(connector="given"),
        target=TargetOptions(path=str(folder)),
        streams={"things": StreamOptions.model_validate({"sync_mode": MODES[mode], "write_mode": mode})},
        # A task may have asked for a page that another one's turn was.
        max_requests=(0 if router == "list" else LISTING) + tasks * world.longest + spare,
    )

    statuses: list[Status] = []
    while len(statuses) <= 2 * len(things) and Status.DONE not in statuses:
        (report,) = SyncRunner(pipeline, world.source(), workers=Workers(run_inline, tasks)).run().streams
        statuses.append(report.status)

    assert sorted(row["id"] for row in rows(folder / "things")) == world.ids
    # With a cursor each partition may have more by the next sync.
    assert Status.DONE in statuses or MODES[mode] == "incremental"
