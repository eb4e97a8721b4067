"""Rows that are traced: each names the request that brought it, and is else the row that it would be without."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk import Json, JsonSchema, Partition, Record, Slice, Source, Stream
from cdk.base.task_map import run_inline
from cdk.lake.arrow.columns import ROW_SOURCE
from cdk.rest import Headers, HttpStream, PageNumber, Request, Response
from cdk.sync.loop.runner import SyncRunner
from cdk.sync.reports.run_report import SyncResult
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from tests.samples import Orders
from tests.spark.given_source import Given
from tests.worlds.table import rows

SECRET = "hunter2hunter2"
PER_RUN = {"_airbyte_raw_id", "_airbyte_extracted_at", ROW_SOURCE}


@dataclass
class Api:
    """Answers with pages of the records of a part; each record says which request it belongs to."""

    parts: Sequence[Sequence[int | None]]
    size: int
    wrong: bool = False
    """Whether some values do not fit their columns, so that records are not taken as the text that they are."""

    def send(self, request: Request) -> Response:
        url = urlsplit(request.full_url)
        part, page = int(url.path.split("/")[-1]), int(parse_qs(url.query)["page"][0])
        ids = self.parts[part]
        some = ids[(page - 1) * self.size : page * self.size]
        found = [{"id": id, "part": part, "page": page, "size": "much" if self.wrong else 1} for id in some]
        body = json.dumps({"data": found, "more": page * self.size < len(ids)}, separators=(",", ":")).encode()
        return Response(200, Headers({"Content-Type": "application/json"}), body, request.full_url, request)

    def close(self) -> None:
        """Nothing is open."""


class Items(HttpStream):
    name = "items"
    primary_key = "id"
    url_base = "https://api.test"
    records_path = ("data",)
    paginator = PageNumber(more=["more"])

    def partitions(self) -> Iterable[Partition]:
        transport = self.transport
        assert isinstance(transport, Api)
        return [Partition.of(part=number) for number in range(len(transport.parts))]

    def path(self, slice: Slice) -> str:
        return f"{self.config['key']}/parts/{slice.partition['part']}"

    def json_schema(self) -> JsonSchema:
        integer = {"type": "integer"}
        return {"type": "object", "properties": dict.fromkeys(("id", "part", "page", "size"), integer)}


class Parsed(Items):
    """Looks at each record, so that none stays the text that it was."""

    def parse(self, response: Response, slice: Slice) -> Sequence[Record]:
        return [dict(record) for record in super().parse(response, slice)]


class Shop(Source):
    config_schema: JsonSchema = Given.config_schema

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def streams(self, config: Mapping[str, Json]) -> Sequence[Stream]:
        self._stream.config = config
        return [self._stream]


def sync(folder: Path, stream: Stream, **options: Json) -> SyncResult:
    pipeline = Pipeline(
        name="shop",
        source=SourceOptions(connector="shop", config={"key": SECRET}),
        target=TargetOptions(path=str(folder)),
        streams={stream.name: StreamOptions.model_validate(options)},
    )
    result = SyncRunner(pipeline, Shop(stream), workers=Workers(run_inline, 2)).run()
    assert result.ok, [report.failure for report in result.streams]
    return result


def bare(table: Iterable[Record]) -> list[str]:
    """Rows without what differs from read to read."""
    return sorted(str({name: value for name, value in row.items() if name not in PER_RUN}) for row in table)


PARTS = st.lists(st.lists(st.integers(0, 9) | st.none(), max_size=9), min_size=1, max_size=3)


@settings(max_examples=25)
@given(
    parts=PARTS,
    size=st.integers(1, 4),
    wrong=st.booleans(),
    parses=st.booleans(),
    mode=st.sampled_from(["append", "append_dedup", "overwrite"]),
)
def test_each_row_names_the_request_that_brought_it_and_is_else_the_same(
    *, parts: list[list[int | None]], size: int, wrong: bool, parses: bool, mode: str
) -> None:
    stream = Parsed() if parses else Items()
    stream.transport = Api(parts, size, wrong)
    with TemporaryDirectory() as folder:
        traced, plain = Path(folder) / "traced", Path(folder) / "plain"
        options: dict[str, Json] = {"sync_mode": "full_refresh", "write_mode": mode}
        once = sync(traced, stream, **options, trace_rows=True)
        found = rows(traced / "items")
        for row in found:
            source = row[ROW_SOURCE]
            request = f"GET https://api.test/<secret key plain>/parts/{row['part']}?page={row['page']}"
            assert source["request"] == request
            assert (source["page"], source["slice"]) == (row["page"], f'{{"part":{row["part"]}}}')
            assert source["sync_id"] == once.run.sync
        sync(plain, stream, **options)
        assert bare(found) == bare(rows(plain / "items"))
        # A second read meets each row again; the one that is kept names the later one.
        again = sync(traced, stream, **options, trace_rows=True)
        sync(plain, stream, **options)
        later = rows(traced / "items")
        assert bare(later) == bare(rows(plain / "items"))
        syncs = {once.run.sync, again.run.sync} if mode == "append" else {again.run.sync}
        assert {row[ROW_SOURCE]["sync_id"] for row in later} == (syncs if later else set())


def test_tracing_begins_and_ends_between_two_syncs(tmp_path: Path) -> None:
    stream = Items()
    stream.transport = Api([[1, 2], [3]], 1)
    options: dict[str, Json] = {"sync_mode": "full_refresh", "write_mode": "append"}
    for traced in (False, True, False):
        sync(tmp_path, stream, **options, trace_rows=traced)

    sources = [(row["_airbyte_generation_id"], row[ROW_SOURCE] is not None) for row in rows(tmp_path / "items")]
    assert sorted(sources) == [(1, False)] * 3 + [(2, True)] * 3 + [(3, False)] * 3


def test_rows_of_a_stream_that_sends_no_requests_name_slice_and_page(tmp_path: Path) -> None:
    sync(tmp_path, Orders(), trace_rows=True)

    sources = [row[ROW_SOURCE] for row in rows(tmp_path / "orders")]
    assert {source["request"] for source in sources} == {None}
    assert {source["page"] for source in sources} >= {1, 2}


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("declared", [{}, {ROW_SOURCE: {"type": "string"}}], ids=["undeclared", "declared"])
def test_a_field_that_is_called_like_the_column_is_among_the_additional_ones(
    tmp_path: Path, declared: Json, *, traced: bool
) -> None:
    class Named(Stream):
        name = "named"

        def json_schema(self) -> JsonSchema:
            return {"type": "object", "properties": {"id": {"type": "integer"}, **declared}}

        def read_records(self, slice: Slice) -> Iterable[Record]:  # noqa: ARG002
            yield {"id": 1, ROW_SOURCE: "theirs"}

    for _ in range(2):
        sync(tmp_path, Named(), trace_rows=traced)

        (row,) = rows(tmp_path / "named")
        assert row["_airbyte_additional"] == '{"_cdk_source":"theirs"}'
        assert (ROW_SOURCE in row) == traced


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("kind", [pa.string(), pa.int64()], ids=str)
def test_a_column_of_its_name_that_others_have_made_is_written_as_what_it_is(
    tmp_path: Path, kind: pa.DataType, *, traced: bool
) -> None:
    write_deltalake(str(tmp_path / "orders"), pa.table({ROW_SOURCE: pa.array([None], kind)}))

    sync(tmp_path, Orders(), trace_rows=traced)

    sources = {row[ROW_SOURCE] for row in rows(tmp_path / "orders") if row["id"] is not None}
    assert all('"slice"' in source for source in sources) if traced else sources == {None}
