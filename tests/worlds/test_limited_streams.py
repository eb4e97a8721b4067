"""Worlds of several streams under a low limit: each gets its turn, its rows are there once, and the sync is done."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk import Json
from cdk.base.process.request_lease import current_lease
from cdk.base.task_map import run_inline
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.rest import Headers, Request, Response
from cdk.rest.http.metrics import current_metrics
from cdk.sync.loop.runner import SyncRunner
from cdk.sync.reports.run_report import SyncResult
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from tests.worlds.table import rows

NOW = datetime(2024, 2, 1, tzinfo=UTC)
SIZE = 2
MODES = {
    "overwrite": ("full_refresh", "overwrite"),
    "append_dedup": ("full_refresh", "append_dedup"),
    "incremental": ("incremental", "append"),
    "without checkpoints": ("full_refresh", "append"),
}
RESUMED = ["append_dedup", "incremental", "overwrite"]


def option(name: str) -> Json:
    return {"type": "RequestOption", "inject_into": "request_parameter", "field_name": name}


@dataclass(eq=False)
class World:
    """Streams of so many pages each, how each is read, and how often it was asked."""

    pages: Sequence[int]
    modes: Sequence[str]
    asked: Counter[str] = field(default_factory=Counter)

    def send(self, request: Request) -> Response:
        current_lease().count()
        path, _, query = request.full_url.removeprefix("https://things.test/").partition("?")
        given = dict(part.split("=") for part in query.split("&") if part)
        self.asked[path] += 1
        found = [
            {"id": n, "on": f"2024-01-{1 + n:02}"}
            for n in self.ids(int(path.removeprefix("t")))
            if f"2024-01-{1 + n:02}" >= given.get("since", "")
        ]
        begin = int(given.get("offset", 0))
        body = json.dumps({"data": found[begin : begin + SIZE]}).encode()
        current_metrics().count_response(200, len(body))
        return Response(200, Headers({}), body, request.full_url, request)

    def ids(self, stream: int) -> list[int]:
        return [*range(SIZE * self.pages[stream] - 1)]

    @property
    def requests(self) -> int:
        """Those that it takes: a further one where the rest of an incremental read asks for what is new since."""
        return sum(self.pages) + sum(mode == "incremental" for mode in self.modes)

    def sync(self, folder: str, *, limit: int, tasks: int) -> SyncResult:
        streams = [self._stream(f"t{n}", incremental=mode == "incremental") for n, mode in enumerate(self.modes)]
        check = {"type": "CheckStream", "stream_names": ["t0"]}
        manifest = Manifest({"version": "6.0.0", "check": check, "streams": streams})
        modes = {
            f"t{n}": dict(zip(("sync_mode", "write_mode"), MODES[mode], strict=True))
            for n, mode in enumerate(self.modes)
        }
        pipeline = Pipeline(
            name="world",
            source=SourceOptions(connector="given"),
            target=TargetOptions(path=folder),
            streams={name: StreamOptions.model_validate(options) for name, options in modes.items()},
            max_requests=limit,
        )
        source = ManifestSource(manifest, Runtime(transport=self, clock=lambda: NOW))
        workers = Workers(run_inline, tasks)
        return SyncRunner(pipeline, source, workers=workers).run()

    @staticmethod
    def _stream(name: str, *, incremental: bool) -> dict[str, Json]:
        cursor = {
            "type": "DatetimeBasedCursor",
            "cursor_field": "on",
            "datetime_format": "%Y-%m-%d",
            "start_datetime": "2024-01-01",
            "start_time_option": option("since"),
        }
        return {
            "type": "DeclarativeStream",
            "name": name,
            "primary_key": "id",
            "retriever": {
                "type": "SimpleRetriever",
                "requester": {"type": "HttpRequester", "url": f"https://things.test/{name}"},
                "record_selector": {
                    "type": "RecordSelector",
                    "extractor": {"type": "DpathExtractor", "field_path": ["data"]},
                },
                "paginator": {
                    "type": "DefaultPaginator",
                    "pagination_strategy": {"type": "OffsetIncrement", "page_size": SIZE},
                    "page_token_option": option("offset"),
                },
            },
            **({"incremental_sync": cursor} if incremental else {}),
            "schema_loader": {"type": "InlineSchemaLoader", "schema": {"properties": {"id": {"type": "integer"}}}},
        }


@given(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from(RESUMED)), min_size=1, max_size=5),
    st.integers(1, 7),
    st.integers(1, 2),
)
@example(streams=[(3, "overwrite")] * 4, limit=2, tasks=2)
@example(streams=[(3, "overwrite")] * 4, limit=7, tasks=2)
@example(streams=[(3, "incremental")] * 4, limit=2, tasks=2)
@example(streams=[(1, "overwrite"), *[(4, "append_dedup")] * 4], limit=1, tasks=1)
@settings(max_examples=20, deadline=None)
def test_each_stream_gets_its_turn_and_syncs_of_few_requests_are_done_in_the_end(
    tmp_path_factory: pytest.TempPathFactory, streams: list[tuple[int, str]], limit: int, tasks: int
) -> None:
    folder = tmp_path_factory.mktemp("lake")
    world = World([pages for pages, _ in streams], [mode for _, mode in streams])
    full = [n for n, mode in enumerate(world.modes) if mode != "incremental"]
    runs, most = 0, 2 * -(-world.requests // limit) + 2 * len(streams)

    while not world.sync(str(folder), limit=limit, tasks=tasks).ok:
        runs += 1
        assert runs < most, world.asked
        # None waits for longer than it takes to ask all others.
        assert runs < len(streams) or len(world.asked) == len(streams)

    for n in range(len(streams)):
        assert sorted(row["id"] for row in rows(folder / f"t{n}")) == world.ids(n)
    if len(full) == len(streams):
        # What a run had read to its end is not read again, nor any page that was committed.
        assert world.asked == {f"t{n}": pages for n, pages in enumerate(world.pages)}


def test_beside_a_stream_that_a_limit_keeps_from_its_end_the_others_are_read_again(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder, world = tmp_path_factory.mktemp("lake"), World([1, 6], ["overwrite", "without checkpoints"])

    done = [world.sync(str(folder), limit=4, tasks=1).ok for _ in range(6)]

    assert not any(done)
    assert world.asked["t0"] >= len(done) // 2
