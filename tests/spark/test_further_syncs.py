"""Several syncs in one session, and in several: each finds the source as it then is."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from cdk import Json, Partition, Slice, Source, parent_partitions
from cdk.base.task_map import run_inline
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from cdk.rest import HttpStream, HttpTransport
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.settings.stream_options import RemoveStaleOptions
from cdk.sync.tasks.workers import Workers
from tests.local_server import QuietHandler, answering

Teams = dict[int, list[int]]


@dataclass
class Club:
    """An API of teams and their members. asked: paths, in the order of requests."""

    teams: Teams = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    address: str = ""


@pytest.fixture(scope="module")
def club() -> Iterator[Club]:
    club = Club()

    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - the server's name
            club.asked.append(self.path)
            url = urlsplit(self.path)
            if url.path == "/members":
                team = int(parse_qs(url.query)["team"][0])
                found = [{"id": id, "team": team} for id in club.teams.get(team, [])]
            elif url.path.startswith("/table-"):
                found = [{"id": id} for id in club.teams.get(int(url.path.removeprefix("/table-")), [])]
            else:
                found = [{"id": team, "size": len(members)} for team, members in club.teams.items()]
            self.answer(200, json.dumps({"data": found}).encode(), {"Content-Type": "application/json"})

    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        club.address = f"http://127.0.0.1:{server.server_address[1]}"
        yield club


class OfTheClub(HttpStream):
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "team": {"type": "integer"}}}  # noqa: RUF012
    records_path = ("data",)

    @property
    def url_base(self) -> str:
        return str(self.config["address"])


class AllTeams(OfTheClub):
    name = "teams"
    use_cache = True

    def path(self, slice: Slice) -> str:  # noqa: ARG002
        return "/teams"


class Members(OfTheClub):
    name = "members"

    def partitions(self) -> Iterator[Partition]:
        return parent_partitions(AllTeams(self.config), team="id")

    def path(self, slice: Slice) -> str:  # noqa: ARG002
        return "/members"

    def params(self, slice: Slice) -> Mapping[str, Json]:
        return {"team": slice.partition["team"]}


class PythonClub(Source):
    stream_classes = (AllTeams, Members)


def declared(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "DeclarativeStream",
        "name": name,
        "retriever": {
            "type": "SimpleRetriever",
            "requester": {
                "type": "HttpRequester",
                "url_base": "{{ config['address'] }}",
                "path": path,
                **more.pop("requester", {}),
            },
            "record_selector": {
                "type": "RecordSelector",
                "extractor": {"type": "DpathExtractor", "field_path": ["data"]},
            },
            **more,
        },
        "schema_loader": {"type": "InlineSchemaLoader", "schema": AllTeams.schema},
    }


def a_manifest() -> dict[str, Any]:
    teams = declared("teams", "/teams")
    parent = {"type": "ParentStreamConfig", "stream": teams, "parent_key": "id", "partition_field": "team"}
    members = declared(
        "members",
        "/members",
        requester={"request_parameters": {"team": "{{ stream_partition.team }}"}},
        partition_router={"type": "SubstreamPartitionRouter", "parent_stream_configs": [parent]},
    )
    tables = {
        "type": "DynamicDeclarativeStream",
        "name": "tables",
        "stream_template": declared("table", "/table"),
        "components_resolver": {
            "type": "HttpComponentsResolver",
            "retriever": declared("list", "/teams")["retriever"],
            "components_mapping": [
                {
                    "type": "ComponentMappingDefinition",
                    "field_path": ["name"],
                    "value": "table-{{ components_values['id'] }}",
                },
                {
                    "type": "ComponentMappingDefinition",
                    "field_path": ["retriever", "requester", "path"],
                    "value": "/table-{{ components_values['id'] }}",
                },
            ],
        },
    }
    return {
        "version": "6.0.0",
        "type": "DeclarativeSource",
        "check": {"type": "CheckStream", "stream_names": ["teams"]},
        "streams": [teams, members],
        "dynamic_streams": [tables],
    }


def manifest_club() -> ManifestSource:
    return ManifestSource(Manifest(a_manifest()), Runtime(transport=HttpTransport()))


def sync(source: Source, club: Club, folder: Path, workers: Workers | None = None) -> None:
    tables = [f"table-{team}" for team in club.teams] if isinstance(source, ManifestSource) else []
    may_be_empty = RemoveStaleOptions(allow_empty=True)
    pipeline = Pipeline(
        name="club",
        source=SourceOptions(connector="club", config={"address": club.address}),
        target=TargetOptions(path=str(folder)),
        streams=dict.fromkeys(["teams", "members", *tables], StreamOptions(remove_stale=may_be_empty)),
    )
    result = SyncRunner(pipeline, source, workers=workers).run()
    assert result.ok, [report.failure for report in result.streams]


def ids(folder: Path) -> list[int]:
    files = DeltaTable(str(folder)).file_uris()
    return sorted(pq.read_table(files)["id"].to_pylist()) if files else []


def check_tables(folder: Path, teams: Teams, *, tables: bool) -> None:
    assert ids(folder / "teams") == sorted(teams)
    assert ids(folder / "members") == sorted(id for members in teams.values() for id in members)
    for team, members in teams.items() if tables else ():
        assert ids(folder / f"table-{team}") == sorted(members)


WORLDS = st.lists(
    st.dictionaries(st.integers(1, 5), st.lists(st.integers(1, 99), max_size=3), min_size=1, max_size=4),
    min_size=2,
    max_size=4,
)


@pytest.mark.parametrize("kind", ["python", "manifest"])
@pytest.mark.parametrize("kept", [True, False], ids=["one source", "a source for each"])
def test_every_sync_finds_the_source_as_it_is_then(
    kind: str,
    kept: bool,  # noqa: FBT001 - a parameter
    club: Club,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    make = PythonClub if kind == "python" else manifest_club

    @given(worlds=WORLDS)
    @settings(max_examples=5, deadline=None)
    def every_sync(worlds: list[Teams]) -> None:
        folder, source = tmp_path_factory.mktemp("lake"), make()
        for club.teams in worlds:
            sync(source if kept else make(), club, folder, Workers(run_inline, 2))
            check_tables(folder, club.teams, tables=kind == "manifest")

    every_sync()


@pytest.mark.parametrize(("make", "lists"), [(PythonClub, 0), (manifest_club, 1)])
def test_within_a_sync_parents_are_asked_for_once(
    make: Callable[[], Source], lists: int, club: Club, tmp_path: Path
) -> None:
    club.teams, club.asked = {1: [10], 2: [20, 21]}, []

    sync(make(), club, tmp_path, Workers(run_inline, 2))

    # The list of dynamic streams is another request, which no stream shares.
    assert club.asked.count("/teams") == 1 + lists


@pytest.mark.spark
def test_the_workers_of_a_session_keep_nothing_from_sync_to_sync(
    session: SparkSession,  # noqa: ARG001 - it is the one that runs
    club: Club,
    tmp_path: Path,
) -> None:
    source = manifest_club()
    worlds: list[Teams] = [{1: [10], 2: [20]}, {2: [20, 21], 3: [30]}, {3: []}]
    for club.teams in worlds:
        sync(source, club, tmp_path / "manifest")
        check_tables(tmp_path / "manifest", club.teams, tables=True)
        sync(PythonClub(), club, tmp_path / "python")
        check_tables(tmp_path / "python", club.teams, tables=False)
