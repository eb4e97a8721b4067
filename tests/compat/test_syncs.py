"""Custom code in syncs, which may read a stream once more in the same process."""

from collections.abc import Sequence
from datetime import timedelta
from http.server import ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qsl, urlsplit

from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk.base.process.request_lease import current_lease
from cdk.base.task_map import run_inline
from cdk.base.values import Json, to_json
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.rest import Headers, HttpTransport, Request, Response
from cdk.sources.manifests import airbyte_code
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.stream_report import Status
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, SparkOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from cdk.testing import MockApi
from tests.compat.sources import manifest, source
from tests.local_server import QuietHandler, answering
from tests.worlds.table import rows


def test_a_filter_that_remembers_gives_all_records_again_to_a_read_that_begins_anew(tmp_path: Path) -> None:
    code = """
from airbyte_cdk.sources.declarative.extractors.record_filter import RecordFilter

class Unseen(RecordFilter):
    def __post_init__(self, parameters):
        super().__post_init__(parameters)
        self._seen = set()

    def filter_records(self, records, stream_state, stream_slice=None, next_page_token=None):
        for record in records:
            if record["id"] not in self._seen:
                self._seen.add(record["id"])
                yield record
"""
    option = {"type": "RequestOption", "field_name": "page", "inject_into": "request_parameter"}
    strategy = {"type": "PageIncrement", "page_size": 2}
    written = manifest(
        {"primary_key": "id"},
        record_selector={"record_filter": {"type": "CustomRecordFilter", "class_name": "components.Unseen"}},
        paginator={"type": "DefaultPaginator", "pagination_strategy": strategy, "page_token_option": option},
    )
    refused = list[str]()

    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - the server's name
            page = int(self.path.partition("page=")[2] or 0)
            if page == 2 and not refused:
                # The page of a token that a commit has saved: the table's generation begins anew.
                refused.append(self.path)
                self.answer(404, b"{}", {})
                return
            data = [{"id": n} for n in range(5)][2 * page : 2 * page + 2]
            self.answer(200, to_json({"data": data}), {"Content-Type": "application/json"})

    streams = {"items": StreamOptions.model_validate({"sync_mode": "full_refresh", "write_mode": "overwrite"})}
    pipeline = Pipeline(
        name="world",
        source=SourceOptions(connector="given"),
        target=TargetOptions(path=str(tmp_path / "lake")),
        streams=streams,
        checkpoint_interval=timedelta(),
        spark=SparkOptions(start="never"),
    )

    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        written["streams"][0]["retriever"]["requester"]["url_base"] = f"http://127.0.0.1:{server.server_address[1]}"
        (tmp_path / "components.py").write_text(code)
        runtime = Runtime(transport=HttpTransport(), folder=tmp_path, custom=airbyte_code(allowed=True))
        result = SyncRunner(pipeline, ManifestSource(Manifest(written), runtime)).run()

    assert (result.ok, len(refused)) == (True, 1)
    assert sorted(row["id"] for row in rows(tmp_path / "lake" / "items")) == [0, 1, 2, 3, 4]


STATELESS = "return (last_page_token_value or 0) + 1"
COUNTS = {
    "self._n += 1; return self._n": "self._n = 0",
    "self._pages.append(1); return len(self._pages)": "self._pages = []",
    "self._seen['n'] = self._seen.get('n', 0) + 1; return self._seen['n']": "self._seen = {}",
    "self._seen.add(len(self._seen)); return len(self._seen)": "self._seen = set()",
    STATELESS: "self._n = 0",
}
"""How strategies find the next page, and what they have for it: the last one counts nothing."""
SIZE = 2
STRATEGY = """
from airbyte_cdk.sources.declarative.requesters.paginators.strategies.pagination_strategy import PaginationStrategy

class Counting(PaginationStrategy):
    def __init__(self, **kwargs):
        BEGIN

    @property
    def initial_token(self):
        return None

    def next_page_token(self, response, last_page_size, last_record, last_page_token_value=None):
        if last_page_size < 2:
            return None
        NEXT

    def get_page_size(self):
        return 2
"""
RESET = """
    def reset(self):
        BEGIN
"""
RETRIEVER = """
from airbyte_cdk.sources.declarative.retrievers.simple_retriever import SimpleRetriever

class Reading(SimpleRetriever):
    def read_records(self, records_schema=None, stream_slice=None):
        yield from super().read_records(records_schema, stream_slice)
"""


@settings(max_examples=25)
@given(
    counts=st.sampled_from([*COUNTS]),
    resets=st.booleans(),
    sizes=st.lists(st.integers(0, 7), min_size=1, max_size=3),
    limits=st.lists(st.integers(2, 6), max_size=2),
    mode=st.sampled_from(["overwrite", "append", "append_dedup"]),
    concurrency=st.sampled_from([1, 3]),
    own=st.booleans(),
)
@example(
    counts="self._n += 1; return self._n",
    resets=False,
    sizes=[5, 5],
    limits=[],
    mode="append",
    concurrency=1,
    own=False,
)
@example(
    counts="self._n += 1; return self._n", resets=True, sizes=[5, 5], limits=[], mode="append", concurrency=1, own=True
)
@example(
    counts="self._n += 1; return self._n",
    resets=False,
    sizes=[7],
    limits=[3],
    mode="overwrite",
    concurrency=1,
    own=False,
)
@example(counts=STATELESS, resets=False, sizes=[7], limits=[2, 2], mode="overwrite", concurrency=1, own=False)
def test_strategies_that_count_in_themselves_lose_and_double_no_record(  # noqa: PLR0917 - all that a world is made of
    counts: str,
    resets: bool,  # noqa: FBT001
    sizes: Sequence[int],
    limits: Sequence[int],
    mode: str,
    concurrency: int,
    own: bool,  # noqa: FBT001
) -> None:
    """Find pages with a strategy of custom code. own: a retriever of custom code calls it."""
    api = MockApi()

    def answer(request: Request) -> Response:
        current_lease().count()
        query = dict(parse_qsl(urlsplit(request.full_url).query))
        part, page = int(query["part"]), int(query.get("page", 0))
        data = [{"id": 100 * part + n} for n in range(sizes[part])][SIZE * page : SIZE * (page + 1)]
        return Response(200, Headers({}), to_json({"data": data}), request.url, request)

    api.get("/items").answers(answer)
    strategy = {"type": "CustomPaginationStrategy", "class_name": "components.Counting"}
    written = manifest(
        {"primary_key": "id", "schema_loader": loader({"id": {"type": "integer"}})},
        paginator={"type": "DefaultPaginator", "pagination_strategy": strategy, "page_token_option": option("page")},
        partition_router={
            "type": "ListPartitionRouter",
            "cursor_field": "part",
            "values": [f"{n}" for n in range(len(sizes))],
            "request_option": option("part"),
        },
    )
    code = (STRATEGY + RESET * resets + RETRIEVER).replace("BEGIN", COUNTS[counts]).replace("NEXT", counts)
    if own:
        written["streams"][0]["retriever"] |= {"type": "CustomRetriever", "class_name": "components.Reading"}

    with TemporaryDirectory() as folder, TemporaryDirectory() as target:
        for limit in [*limits, None]:
            pipeline = Pipeline(
                name="world",
                source=SourceOptions(connector="given"),
                target=TargetOptions(path=target),
                streams={"items": StreamOptions.model_validate({"sync_mode": "full_refresh", "write_mode": mode})},
                checkpoint_interval=timedelta(),
                max_requests=limit,
                concurrency=concurrency,
            )
            result = SyncRunner(
                pipeline, source(Path(folder), code, written, api), workers=Workers(run_inline, 1)
            ).run()
            assert [report.failure for report in result.streams] == [None]
            if result.streams[0].status is Status.DONE:
                break

        found = sorted(row["id"] for row in rows(Path(target) / "items"))
        assert found == sorted(100 * part + n for part, size in enumerate(sizes) for n in range(size))
        if counts == STATELESS and not own and mode != "append":
            # It resumes at its pages.
            assert len(api.requests) <= sum(size // SIZE + 1 for size in sizes) + len(sizes) * len(limits)


def option(name: str) -> Json:
    return {"type": "RequestOption", "field_name": name, "inject_into": "request_parameter"}


def loader(properties: Json) -> Json:
    return {"type": "InlineSchemaLoader", "schema": {"type": "object", "properties": properties}}
