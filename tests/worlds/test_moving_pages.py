"""Worlds of numbered pages whose records leave or come while they are read, also between a cut and its resumption."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk import FatalError, Json, Partition, Slice, Source, Stream
from cdk.base.task_map import run_inline
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.rest import CursorToken, Headers, HttpStream, Offset, PageNumber, Paginator, Request, Response
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from tests.worlds.table import rows

URL = "https://things.test/things"
SIZE, LIST = 3, 100


@dataclass
class Api:
    """Lists in pages, with the count of all of a list on each.

    ids: those of list 0 are below 100, those of list 1 below 200, and so on. at: what happens before a request, by its
    number in a sync. served: the ids that were in a response of the read. repeats: behind the last page of a list it
    gives that one again. blanks: bodies have them between their parts, so that records are decoded.
    """

    ids: list[int]
    at: dict[int, Callable[[], None]] = field(default_factory=dict)
    served: set[int] = field(default_factory=set)
    requests: int = 0
    repeats: bool = False
    blanks: bool = True

    def send(self, request: Request) -> Response:
        self.requests += 1
        self.at.pop(self.requests, lambda: None)()
        query = dict(part.split("=") for part in request.full_url.partition("?")[2].split("&") if part)
        part = int(query["part"])
        ids = [id for id in self.ids if id // LIST == part]
        begin = int(query.get("offset", 0)) or SIZE * (int(query.get("page", 1)) - 1)
        if self.repeats and begin >= len(ids):
            begin = (len(ids) - 1) // SIZE * SIZE
        page = ids[begin : begin + SIZE]
        self.served.update(page)
        end = begin + SIZE
        link = f"{URL}?part={part}&offset={end}" if end < len(ids) else None
        body = {"count": len(ids), "next": link, "results": [{"id": id} for id in page]}
        text = json.dumps(body, separators=(", ", ": ") if self.blanks else (",", ":"))
        return Response(200, Headers({}), text.encode(), request.full_url, request)

    def fail(self) -> None:
        raise FatalError("the server is down")


PAGINATORS: Mapping[str, Paginator] = {
    "page": PageNumber(size=SIZE),
    "offset": Offset(SIZE),
    "link": CursorToken("next"),
}
STRATEGIES: Mapping[str, Json] = {
    "page": {"type": "PageIncrement", "page_size": SIZE, "start_from_page": 1},
    "offset": {"type": "OffsetIncrement", "page_size": SIZE},
    "link": {"type": "CursorPagination", "cursor_value": "{{ response.next }}"},
}


class Things(HttpStream):
    name = "things"
    url_base = "https://things.test"
    records_path = ("results",)
    supports_checkpointing = True

    def __init__(self, api: Api, paginator: Paginator, parts: int, *, key: bool) -> None:
        super().__init__()
        self.primary_key = "id" if key else ()
        self.transport, self.paginator, self._parts = api, paginator, parts
        self.schema = {"properties": {"id": {"type": "integer"}}}

    def partitions(self) -> Sequence[Partition]:
        return [Partition.of(part=f"{part}") for part in range(self._parts)]

    def path(self, _: Slice) -> str:
        return "things"

    def params(self, slice: Slice) -> Mapping[str, Json]:
        return {"part": slice.partition["part"]}


class OneStream(Source):
    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def streams(self, _: Json) -> Sequence[Stream]:
        return [self._stream]


def manifest(api: Api, pages: str, parts: int, *, key: bool = True) -> Source:
    option = {"type": "RequestOption", "inject_into": "request_parameter", "field_name": pages}
    router = {
        "type": "ListPartitionRouter",
        "cursor_field": "part",
        "values": [f"{part}" for part in range(parts)],
        "request_option": {**option, "field_name": "part"},
    }
    retriever = {
        "type": "SimpleRetriever",
        "requester": {"type": "HttpRequester", "url": URL},
        "record_selector": {
            "type": "RecordSelector",
            "extractor": {"type": "DpathExtractor", "field_path": ["results"]},
        },
        "paginator": {
            "type": "DefaultPaginator",
            "pagination_strategy": STRATEGIES[pages],
            "page_token_option": {"type": "RequestPath"} if pages == "link" else option,
        },
        "partition_router": router,
        # A link has all that its page is asked for with.
        "ignore_stream_slicer_parameters_on_paginated_requests": pages == "link",
    }
    stream = {
        "type": "DeclarativeStream",
        "name": "things",
        "primary_key": "id" if key else [],
        "retriever": retriever,
        "schema_loader": {"type": "InlineSchemaLoader", "schema": {"properties": {"id": {"type": "integer"}}}},
    }
    check = {"type": "CheckStream", "stream_names": ["things"]}
    return ManifestSource(Manifest({"version": "6.0.0", "check": check, "streams": [stream]}), Runtime(transport=api))


def python(api: Api, pages: str, parts: int, *, key: bool = True) -> Source:
    return OneStream(Things(api, PAGINATORS[pages], parts, key=key))


SOURCES: Mapping[str, Callable[..., Source]] = {"manifest": manifest, "python": python}
LISTS = st.lists(st.integers(1, 14), min_size=1, max_size=3)


def ids_of(counts: Sequence[int]) -> list[int]:
    """The ids of lists of so many records."""
    return [LIST * part + n for part, count in enumerate(counts) for n in range(count)]


@dataclass
class Read:
    """A sync, until it has got to its end. report: the last one. warnings: those of all."""

    report: StreamReport
    warnings: list[str]


def read(  # noqa: PLR0917 - all that a world is made of
    api: Api, source: Source, folder: Path, mode: str, tasks: int = 1, interval: float = 0
) -> Read:
    api.requests, api.served, warnings = 0, set(), list[str]()
    removal = {"remove_stale": {"removal": "hard", "fail_safe_threshold": 100}} if mode == "append_dedup" else {}
    options = StreamOptions.model_validate({"sync_mode": "full_refresh", "write_mode": mode, **removal})
    for _ in range(2):
        pipeline = Pipeline(
            name="world",
            source=SourceOptions(connector="given"),
            target=TargetOptions(path=str(folder)),
            streams={"things": options},
            checkpoint_interval=timedelta(seconds=interval),
        )
        (report,) = SyncRunner(pipeline, source, workers=Workers(run_inline, tasks)).run().streams
        warnings += report.warnings
        if report.status is Status.DONE:
            return Read(report, warnings)
    raise AssertionError(warnings)


@given(
    LISTS,
    st.sampled_from(sorted(PAGINATORS)),
    st.sampled_from(sorted(SOURCES)),
    st.sampled_from(["append_dedup", "overwrite"]),
    st.integers(2, 9),
    st.lists(st.integers(0, 41), min_size=1, max_size=6, unique=True),
    st.sampled_from(["during", "before the resume"]),
    st.integers(1, 2),
)
@settings(max_examples=25, deadline=None)
def test_what_was_missed_since_records_left_is_warned_of_and_not_removed(  # noqa: PLR0917 - all that a world is made of
    tmp_path_factory: pytest.TempPathFactory,
    counts: list[int],
    pages: str,
    kind: str,
    mode: str,
    request: int,
    leaving: list[int],
    when: str,
    tasks: int,
) -> None:
    folder, api = tmp_path_factory.mktemp("lake"), Api(ids_of(counts))
    paged = SOURCES[kind](api, pages, len(counts))
    first = read(api, paged, folder, mode, tasks)
    assert first.warnings == []

    def leave() -> None:
        api.ids = [id for n, id in enumerate(api.ids) if n not in leaving]

    def leave_and_fail() -> None:
        leave()
        api.fail()

    api.at = {request: leave if when == "during" else leave_and_fail}
    second = read(api, paged, folder, mode, tasks)
    missed = set(api.ids) - api.served
    assert not missed or any("records were removed from the source" in text for text in second.warnings), (
        missed,
        second.warnings,
    )
    there = [row["id"] for row in rows(folder / "things")]
    assert len(there) == len(set(there))
    if mode == "append_dedup":
        assert set(api.ids) <= set(there)

    third = read(api, paged, folder, mode, tasks)
    assert third.warnings == []
    assert sorted(row["id"] for row in rows(folder / "things")) == api.ids


@given(
    LISTS,
    st.sampled_from(sorted(PAGINATORS)),
    st.sampled_from(sorted(SOURCES)),
    st.sampled_from(["append_dedup", "overwrite", "overwrite without a key"]),
    st.integers(1, 9),
    st.integers(1, SIZE - 1),
    st.booleans(),
)
@example(counts=[4], pages="page", kind="manifest", mode="overwrite without a key", request=2, come=1, blanks=True)
@example(counts=[4], pages="page", kind="manifest", mode="overwrite", request=2, come=1, blanks=False)
@example(counts=[8], pages="link", kind="python", mode="overwrite", request=2, come=2, blanks=True)
@example(counts=[9], pages="offset", kind="manifest", mode="overwrite", request=4, come=1, blanks=False)
@settings(max_examples=15, deadline=None)
def test_records_that_others_move_to_the_next_page_are_there_once_or_warned_of(  # noqa: PLR0917 - as above
    tmp_path_factory: pytest.TempPathFactory,
    counts: list[int],
    pages: str,
    kind: str,
    mode: str,
    request: int,
    come: int,
    blanks: bool,  # noqa: FBT001
) -> None:
    folder, api = tmp_path_factory.mktemp("lake"), Api(ids_of(counts), blanks=blanks)
    mode, _, keyless = mode.partition(" ")

    def grow() -> None:
        api.ids = [LIST * part + LIST // 2 + n for part in range(len(counts)) for n in range(come)] + api.ids

    api.at = {request: grow}
    # In one go: who resumes behind a page does not know what it ended with.
    made = read(api, SOURCES[kind](api, pages, len(counts), key=not keyless), folder, mode, interval=30)

    there = [row["id"] for row in rows(folder / "things")]
    assert set(there) == api.served
    assert set(ids_of(counts)) <= set(there)
    twice = len(there) - len(set(there))
    assert bool(twice) == any("Declare a primary key" in text for text in made.warnings)
    assert keyless or not twice


@given(
    LISTS,
    st.sampled_from(["page", "offset"]),
    st.sampled_from(sorted(SOURCES)),
    st.sampled_from(["append_dedup", "overwrite"]),
    st.integers(2, 9),
)
@example(counts=[6], pages="page", kind="python", mode="overwrite", request=3)
@settings(max_examples=10, deadline=None)
def test_a_last_page_that_comes_again_behind_the_end_is_read_once(  # noqa: PLR0917 - all that a world is made of
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], pages: str, kind: str, mode: str, request: int
) -> None:
    folder, api = tmp_path_factory.mktemp("lake"), Api(ids_of(counts), repeats=True)
    api.at = {request: api.fail}

    made = read(api, SOURCES[kind](api, pages, len(counts)), folder, mode)

    assert [text for text in made.warnings if "moved" in text] == []
    assert sorted(row["id"] for row in rows(folder / "things")) == api.ids
